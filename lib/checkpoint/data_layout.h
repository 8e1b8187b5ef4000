/* Where the data of a file's tensors stand: every byte belongs to exactly one. */
#ifndef CHECKPOINT_DATA_LAYOUT_H
#define CHECKPOINT_DATA_LAYOUT_H

#include "checkpoint/checkpoint_build.h"

/* Checks the tensors from `first` on, all of one file. The data begin at `data` and end with the
 * file; between two tensors, and behind the last, there may be as many bytes as make the next
 * offset, counted from `data`, a multiple of alignment. Faults: overlaps, and bytes that belong to
 * no tensor. Errors: format (data behind the end of the file), memory. */
int data_layout_check(const checkpoint *c, int file, int64_t first, int64_t data, int64_t alignment,
                      kv_err *e);

#endif
