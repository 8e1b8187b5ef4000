/* Numbers that lie in memory, into an output: in pieces on all threads, each in the type that the
 * output has for the tensor. */
#pragma once

#include "checkpoint/checkpoint_write.h"
#include "tensors/losses.h"

/* Puts the n elements of tensor i, which have type `to` there; data are of type `from`. *wrong: -1,
 * or the first element that `to` has no number for (checkpoint/tensor_codec.h), or by lost->strict
 * that is lost: then the tensor is
 * not complete, and the output can only be abandoned. Errors: io, memory, interrupted. */
int tensor_put(checkpoint_out *out, int64_t i, tensor_type to, const void *data, tensor_type from,
               int64_t n, losses *lost, int64_t *wrong, kv_err *e);
