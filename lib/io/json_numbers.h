/* Large JSON files are lists of numbers and nothing else. They are read here in one pass, straight
 * into the memory that becomes the array; every other text is left to json.c. */
#ifndef IO_JSON_NUMBERS_H
#define IO_JSON_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include "array/kv_array.h"

/* Reads text (n bytes) as a float32 array if it is nested lists of equal length, at least one
 * element, and every number fits. Out: true and *out, or false: it is something else, a mistake is
 * in it, or there is no memory. The array is the one that json.c would make. */
bool json_numbers(kv_array **out, const char *text, size_t n);

#endif
