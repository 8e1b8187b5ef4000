/* Which kind of picture a path is for. */
#ifndef SYNTAX_PLOT_TARGET_H
#define SYNTAX_PLOT_TARGET_H

#include <stdbool.h>

#include "kv_err.h"

/* Where a picture goes, by the ending of a path. */
typedef enum plot_target { PLOT_NOWHERE, PLOT_TEXT, PLOT_SIXEL, PLOT_SVG, PLOT_PNG } plot_target;

plot_target plot_target_of(const char *path);

/* Checks a path that a picture is to be written, or added, to. Error: usage. */
int plot_path_check(const char *path, bool append, kv_err *e);

#endif
