/* One element at a time, between its bytes, numbers of the host, and text. Files and printing are
 * made of these. */
#ifndef IO_ELEMENT_H
#define IO_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "array/kv_array.h"
#include "base/num.h"

/* The format of a float dtype; of an integer, where fractions are only shown: binary64. */
num_width element_width(kv_dtype dtype);

/* Element i of data: of a float dtype, or of an integer or bool one. */
double element_float(kv_dtype dtype, const void *data, int64_t i);
int64_t element_int(kv_dtype dtype, const void *data, int64_t i);

/* Why a number cannot become an element. */
typedef enum element_fit {
    ELEMENT_FITS,
    ELEMENT_NO_NUMBER,
    ELEMENT_TOO_LARGE, /* beyond the largest, or the smallest, of the dtype */
    ELEMENT_FRACTION   /* not a whole number, for an integer dtype; nan too */
} element_fit;

/* Sets element i to a number, rounded once to the dtype. An infinite x fits every float. */
element_fit element_set(kv_dtype dtype, void *data, int64_t i, double x);

/* The same from the whole of a text: a number as num_parse reads it, true or false in any case.
 * Integers are read exactly. */
element_fit element_parse(kv_dtype dtype, void *data, int64_t i, const char *text, size_t n);

/* Writes element i as the shortest text that element_parse reads back as the same: 3, 0.1, 1e-05,
 * nan, 1 for true. Returns the length; out needs NUM_TEXT_MAX bytes and gets a NUL. */
int element_text(char *out, kv_dtype dtype, const void *data, int64_t i);

/* An error of code format for a text that does not fit: `x.csv:3:2: "abc" is no number`. place is
 * what stands before the colon. Returns the code. */
int element_error(kv_err *e, const char *place, element_fit fit, kv_dtype dtype, const char *text,
                  size_t n);

#endif
