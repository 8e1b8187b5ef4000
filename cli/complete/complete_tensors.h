/* Names of tensors, for the patterns of commands on checkpoints. */
#ifndef COMPLETE_COMPLETE_TENSORS_H
#define COMPLETE_COMPLETE_TENSORS_H

/* Calls offer with the name of each tensor of the checkpoint that a statement names behind its
 * command: `ls m/ `. statement: from its first byte on. Nothing is offered where there is none, for
 * stdin and pipes, nor from a checkpoint of so many tensors that nobody would look at them. */
void complete_tensors(const char *statement, void (*offer)(void *arg, const char *name), void *arg);

/* The same with the types of tensors that safetensors has. */
void complete_tensor_types(void (*offer)(void *arg, const char *name), void *arg);

#endif
