/* Pictures of numbers: what there is to draw, as text for a terminal and as a script for gnuplot.
 *
 * Nothing here starts a program or writes; a picture is a text that is appended to a buf. Numbers
 * that are not finite leave gaps, as those do that --log has no place for.
 */
#pragma once

#include "base/buf.h"
#include "session/value.h"
#include "syntax/file_kind.h"

typedef enum plot_style {
    PLOT_LINES,
    PLOT_HEAT, /* rows and columns of an array, row 0 on top */
    PLOT_HIST  /* how many numbers lie where */
} plot_style;

#define PLOT_NAME  64 /* bytes of the name of a series, with its NUL */
#define PLOT_TEXT_SIZE 128
#define PLOT_FILE_SIZE 1024
#define PLOT_BINS  1000 /* bars of a histogram, at most */

/* One line, one array. */
typedef struct plot_series {
    char name[PLOT_NAME];
    double *y; /* n of them; of an array rows * columns */
    int64_t n;
    int64_t columns; /* 0: a line */
    double step;     /* of a line: from one number to the next, 1 unless it was thinned */
} plot_series;

#define PLOT_MAX_LINES 16 /* more of them cannot be told apart */

typedef enum plot_text { PLOT_TITLE, PLOT_XLABEL, PLOT_YLABEL, PLOT_NTEXTS } plot_text;

/* Without its numbers it is plain data, which kvctl attach sends as it lies in memory. */
typedef struct plot {
    plot_style style;
    int32_t log;  /* 1: a logarithmic axis: of numbers, in a histogram of counts */
    int32_t bins; /* of a histogram; 0: as its numbers want it */
    char texts[PLOT_NTEXTS][PLOT_TEXT_SIZE]; /* "": none */
    char file[PLOT_FILE_SIZE];               /* that it goes to; "": to the terminal */
    int32_t append;                          /* 1: behind what the file holds */
    plot_series series[PLOT_MAX_LINES];
    int32_t n;
    int64_t all, odd, below; /* numbers; those of them that are not finite, and, with log, finite
                                ones that are not above 0, leave gaps */
} plot;

/* Adds v, called name, as the style wants it: for lines an array of one axis, numbers, or the
 * columns of an array of two. Errors: dtype (no numbers), shape, value (too many lines). */
int plot_add(plot *p, const char *name, value v, kv_err *e);

/* Sets the title or a label, in which what would act on a terminal is shown by its number. Errors:
 * memory. */
int plot_set_text(plot *p, plot_text which, const char *text, kv_err *e);

/* Checks that there is something to draw, counts what leaves gaps, and makes long lines as short as
 * a picture can show: the smallest and the largest number of each part stay. Errors: value (no
 * finite number), interrupted. */
int plot_prepare(plot *p, kv_err *e);

void plot_release(plot *p);
#define own_plot OWN(plot_release) plot

/* Drawing ends early where base/stop.h says so; the text drawn until then is worth nothing. */

/* A line of blocks for each series, `loss ▇▅▃▂▁ 0.1 .. 2.5`, of at most `columns` columns.
 * Of a heat map a line for each row, at most `rows` of them, all in one range. */
void plot_sparkline(buf *out, const plot *p, int columns, int rows);

/* Appends a script with which gnuplot writes the picture to its stdout. columns, rows: of
 * PLOT_TEXT, in which heat maps have colours and nothing else has. */
void plot_script(buf *out, const plot *p, plot_target target, int columns, int rows);
