/* The dtype of the result of two arrays. */
#ifndef ARRAY_PROMOTE_H
#define ARRAY_PROMOTE_H

#include "kv_array.h"

/* The smallest dtype there is that holds both: of two floats the wider, of float16 and bfloat16
 * float32, of an integer and a float that float, of uint8 and int8 int32, of bool and any other the
 * other. */
kv_dtype promote_dtypes(kv_dtype a, kv_dtype b);

#endif
