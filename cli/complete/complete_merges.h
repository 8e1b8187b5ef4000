/* The rules of merges, and their parameters. */
#ifndef COMPLETE_COMPLETE_MERGES_H
#define COMPLETE_COMPLETE_MERGES_H

#include <stddef.h>

/* Offers the name of each rule of the library. */
void complete_merges(void (*offer)(void *arg, const char *name), void *arg);

/* Offers the parameters of the rule that a word of n bytes names: one of the library, or the path
 * of a file. */
void complete_merge_parameters(const char *word, size_t n,
                               void (*offer)(void *arg, const char *name), void *arg);

#endif
