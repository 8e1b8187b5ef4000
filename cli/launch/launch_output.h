/* What the ranks of a job write: whole lines, each with its rank in front. */
#ifndef LAUNCH_LAUNCH_OUTPUT_H
#define LAUNCH_LAUNCH_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"

/* One stream of one rank. */
typedef struct launch_output {
    FILE *to;
    char prefix[24];
    buf line;  /* the part of a line that has come */
    int error; /* why a line could not be written, an errno; 0: all were, or nobody reads */
} launch_output;

/* Takes a piece, and writes the lines that are whole. */
void launch_output_put(launch_output *o, const char *text, size_t n);

/* Nothing more comes: writes the rest without a newline too. */
void launch_output_close(launch_output *o);

#endif
