/* One element at a time, between its bytes, numbers of the host, and text. Files and printing are
 * made of these. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "array/kv_array.h"
#include "base/num.h"

/* The format of a float dtype; of an integer, where fractions are only shown: binary64. */
num_width scalar_width(kv_dtype dtype);

/* Element i of data: of a float dtype, or of an integer or bool one. */
double scalar_float(kv_dtype dtype, const void *data, int64_t i);
int64_t scalar_int(kv_dtype dtype, const void *data, int64_t i);

/* The bytes of an array of this shape; -1: more than 64 bits can count. */
int64_t scalar_bytes(kv_dtype dtype, int ndim, const int64_t *shape);

/* The first of n bytes that is neither 0 nor 1, or -1: files may hold any byte for a bool. */
int64_t scalar_not_bool(const unsigned char *data, int64_t n);

/* The results of converting a number to an element. */
typedef enum scalar_fit {
    SCALAR_FITS,
    SCALAR_NO_NUMBER,
    SCALAR_TOO_LARGE, /* beyond the largest, or the smallest, of the dtype */
    SCALAR_FRACTION,  /* not a whole number, for an integer dtype; nan too */
    SCALAR_ROUNDED    /* an integer that becomes another one, see scalar_keeps_integer */
} scalar_fit;

/* Sets element i to a number, rounded once to the dtype. An infinite x fits every float. */
scalar_fit scalar_set(kv_dtype dtype, void *data, int64_t i, double x);

/* The same from the whole of a text: a number as num_parse reads it, true or false in any case.
 * Integers are read exactly. */
scalar_fit scalar_parse(kv_dtype dtype, void *data, int64_t i, const char *text, size_t n);

/* Returns false if text (n bytes) is a whole number and the float32 element that scalar_parse made
 * of it is another one, which is not written as this text either: beyond 2^24 float32 does not hold
 * every integer. */
bool scalar_keeps_integer(const float *element, const char *text, size_t n);

/* Writes element i as the shortest text that scalar_parse reads back as the same: 3, 0.1, 1e-05,
 * nan, 1 for true. Returns the length; out needs NUM_TEXT_MAX bytes and gets a NUL. */
int scalar_text(char *out, kv_dtype dtype, const void *data, int64_t i);

/* An error of code format for a text that does not fit: `x.csv:3:2: "abc" is not a number`. place
 * is what stands before the colon. Returns the code. */
int scalar_error(kv_err *e, const char *place, scalar_fit fit, kv_dtype dtype, const char *text,
                 size_t n);

/* The option of load() for a whole number that float32 does not hold: the dtype that does. */
const char *scalar_dtype_option(const char *text, size_t n);
