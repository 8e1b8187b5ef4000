/* The types of tensors that NumPy's files have: those that NumPy has itself. */
#ifndef CHECKPOINT_NPZ_TYPE_H
#define CHECKPOINT_NPZ_TYPE_H

#include <stdbool.h>

#include "checkpoint/tensor_type.h"

/* Between a type and the letter and the bytes that npy.h has for it. False: there is none.
 */
bool npz_type_find(tensor_type *out, char kind, int width);
bool npz_type_descr(tensor_type t, char *kind, int *width);

/* What to do about elements of a descr that has no type here. */
const char *npz_type_hint(const char *descr);

#endif
