/* Large JSON files are lists of numbers and nothing else. They are read here in one pass, straight
 * into the memory that becomes the array; every other text is left to json.c. */
#ifndef IO_JSON_NUMBERS_H
#define IO_JSON_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include "array/kv_array.h"

/* Reads text (n bytes) as an array if it is nested lists of equal length, at least one element, and
 * every number fits; keep: also keeps whole numbers, as scalar_keeps_integer says (dtype is float32
 * then). Out: true and *out, or false: it is something else, a mistake is in it, or there is no
 * memory. The array is the one that json.c would make. */
bool json_numbers(kv_array **out, const char *text, size_t n, kv_dtype dtype, bool keep);

/* The length of the number that text (n bytes) begins with, as RFC 8259 has it: no sign but -, no
 * zero before other digits, digits on both sides of a point. 0: none, or what follows would belong
 * to it (012, 1., 2.e3). */
size_t json_number_length(const char *text, size_t n);

#endif
