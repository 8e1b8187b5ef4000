/* What commands that go through the data of a checkpoint tell meanwhile. */
#ifndef CHECKPOINTS_WALKED_H
#define CHECKPOINTS_WALKED_H

#include "checkpoint/checkpoint.h"

/* Begins the line of progress of a walk over these keys; progress_end ends it. what: one word. */
void walked_begin(const char *what, const checkpoint *c, const int64_t *keys, int64_t n);

/* The `progress` of the walk; arg is not looked at. */
void walked_step(void *arg, int64_t done, int64_t all);

#endif
