/* An element of a tensor as a message names it. */
#ifndef TENSORS_TENSOR_WORDS_H
#define TENSORS_TENSOR_WORDS_H

#include "base/buf.h"
#include "checkpoint/checkpoint.h"

/* Appends element i of data, of a type with numbers. */
void tensor_words_number(buf *out, tensor_type type, const void *data, int64_t i);

/* Appends "[2, 5]", where an element of t is; "[]" of a scalar. */
void tensor_words_place(buf *out, const tensor_info *t, int64_t element);

#endif
