/* JSON files of arrays, through cJSON.
 *
 * A bare nested list where that says all (float32, at least one element), else an object
 * {"dtype":"float16","shape":[2,3],"data":[[…],[…]]}; of a row_sparse array with
 * "stype":"row_sparse","row_ids":[…], and data are the rows that it holds. All are read; a bare
 * list is float32 unless the caller says otherwise. "nan", "inf" and "-inf" are numbers; integers
 * beyond 2^53 are written as text and read exactly from text. true and false are read.
 *
 * Numbers are those of RFC 8259, rounded once from their text to the dtype. Where neither the file
 * nor the caller says a dtype, whole numbers that float32 does not hold are refused, as in csv.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "array/kv_array.h"
#include "base/buf.h"
#include "io/json_writer.h"

/* Reads text (n bytes) that came from `name`, which hints at load() show, and - for stdin.
 * has_dtype: dtype wins over the file's own. Errors as `x.json:3:17: …`, code format: malformed
 * (line and column), lists of unequal length, something that is not a number, a number that the
 * dtype cannot hold (too large, or a fraction for an integer), data that do not fit "shape",
 * nested deeper than KV_MAX_NDIM. memory. */
int json_read(kv_array **out, const char *text, size_t n, const char *name, bool has_dtype,
              kv_dtype dtype, kv_err *e);

/* The same for text with an array a line: visit gets each, and takes it over. Also: errors of
 * visit. */
int json_read_lines(const char *text, size_t n, const char *name, bool has_dtype, kv_dtype dtype,
                    int (*visit)(void *arg, kv_array *a, kv_err *e), void *arg, kv_err *e);

/* Appends a so that json_read gives back an equal array; no newline at the end. */
int json_write(buf *out, kv_array *a, kv_err *e);

/* The same to a stream, in pieces, and a newline at the end. Also: io. */
int json_write_stream(FILE *f, kv_array *a, const char *name, kv_err *e);

/* Appends the elements alone, those of the rows that a row_sparse array holds, as a nested list;
 * numbers are the shortest that read back equal after going through a double. */
int json_write_data(buf *out, kv_array *a, kv_err *e);

/* Two fields, how a is stored: "stype":"default", or "stype":"row_sparse","row_ids":[…]. */
void json_write_storage(json_writer *to, kv_array *a);

/* The length of the number that text (n bytes) begins with, as RFC 8259 has it: no sign but -, no
 * zero before other digits, digits on both sides of a point. 0: none, or what follows would belong
 * to it (012, 1., 2.e3). */
size_t json_number_length(const char *text, size_t n);
