/* A file in memory, for the tests of formats. */
#pragma once

#include <stdlib.h>

#include "base/mem.h"

typedef struct image {
    char *data;
    size_t n;
} image;

#define own_image OWN(image_free) image
static inline void image_free(image *m)
{
    free(m->data);
}
