/* A picture on its way from the worker that has the numbers to the terminal that shows it.
 *
 *   size   what
 *      4   the style; then the number of series, 4 bytes
 *          of each series:
 *     64   its name, up to a NUL
 *      8   columns
 *      8   step, a double
 *      8   how many numbers
 *    8 n   the numbers, doubles
 */
#ifndef ATTACH_ATTACH_PLOT_H
#define ATTACH_ATTACH_PLOT_H

#include "out/plot.h"

void attach_plot_put(buf *out, const plot *p);

/* Reads one; plot_release releases it. Errors: format (malformed), memory. */
int attach_plot_take(plot *p, const char *bytes, size_t n, kv_err *e);

#endif
