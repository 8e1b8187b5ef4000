/* A model in several GGUF files, as llama-gguf-split cuts it: NAME-00001-of-00003.gguf and so on,
 * each a GGUF file whose metadata say which part it is.
 *
 *   split.no              the part, from 0 (u16)
 *   split.count           how many there are (u16)
 *   split.tensors.count   the tensors of all parts (i32)
 *
 * Any part stands for the whole model. Its metadata are those of part 1, without these three. */
#ifndef CHECKPOINT_GGUF_SPLIT_H
#define CHECKPOINT_GGUF_SPLIT_H

#include "checkpoint/checkpoint_build.h"

/* The name of a part: its first `prefix` bytes are that of the model. */
typedef struct gguf_part {
    size_t prefix; /* in front of -00001-of-00003.gguf */
    int no, count; /* both from 1 */
} gguf_part;

/* Reads a name without its folder. False: it is none of a part. */
bool gguf_part_find(gguf_part *out, const char *name);

/* Reads the other parts of the file that c holds, whose split.count is more than 1, and puts all
 * into the order of the parts. whole: nothing in that file was unreadable. Faults: a part that is
 * not there, a part whose metadata and name differ, another number of tensors than
 * split.tensors.count, a name that does not lead to the other parts. Other errors: those of the
 * files. */
int gguf_split_read(checkpoint *c, bool whole, kv_err *e);

#endif
