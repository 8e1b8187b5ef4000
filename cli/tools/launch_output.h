/* What the ranks of a job write: whole lines, each with its rank in front. */
#ifndef TOOLS_LAUNCH_OUTPUT_H
#define TOOLS_LAUNCH_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"

/* One pipe. */
typedef struct launch_output {
    int fd; /* -1: none */
    FILE *to;
    char prefix[24];
    buf line; /* the part of a line that has come */
} launch_output;

/* Makes the pipe and opens its end for reading. Errors: io. */
int launch_output_open(launch_output *o, const char *path, kv_err *e);

/* Writes the lines that have come; with all, the rest without a newline too. Returns whether there
 * may be more. */
bool launch_output_take(launch_output *o, bool all);
void launch_output_close(launch_output *o);

#endif
