/* Which code a scale belongs to, by the shapes of both. */
#ifndef CHECKPOINT_SCALES_FIT_H
#define CHECKPOINT_SCALES_FIT_H

#include "checkpoint/checkpoint_build.h"
#include "checkpoint/scales.h"

typedef struct scales_fit {
    tensor_values how;    /* but for what is in which checkpoint, and the global scale */
    int scale, global;    /* of the scales that were found; global: -1, there is none */
    int packed;           /* numbers in an element of the codes: 1 or 2 */
    size_t stem;          /* the name of the numbers is so much of that of the codes */
} scales_fit;

/* Returns false if the types and shapes are none of the table in scales_fit.c, so that nobody knows
 * what the numbers are. */
bool scales_find_fit(scales_fit *out, const scales *s, const int64_t block[2]);

#endif
