/* What is to be written to a file: references to arrays and copies of all else, so that a store can
 * go on while the file is written. */
#ifndef CORE_IMAGE_H
#define CORE_IMAGE_H

#include "base/mem.h"
#include "io/safetensors.h"

/* All zero is empty. */
typedef struct image {
    safetensors_item *items;
    int64_t n, cap;
    safetensors_pair *metadata;
    int64_t nmetadata, metadata_cap;
    arena memory; /* of names and texts */
    bool plain;   /* as another tool would write it: without checksums */
} image;

/* Adds a text, or a reference to an array, under prefix followed by name. Error: memory. */
int image_text(image *im, const char *prefix, const char *name, const char *text, kv_err *e);
int image_array(image *im, const char *prefix, const char *name, kv_array *array, kv_err *e);

/* Adds the checksums (checksum.h), unless it is plain, and writes it; path is replaced at once or
 * not at all. Errors: io, memory, value (a header too large). */
int image_write(image *im, const char *path, kv_err *e);

void image_release(image *im);

#endif
