/* Numbers into pictures. See plot.h. */
#include "out/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "cpu/cpu.h"

#define THIN 4096       /* numbers of a line beyond which it is thinned */
#define HEAT_MOST 512   /* rows and columns of a heat map */
#define BINS_MOST 64    /* bars of a histogram whose number nobody chose */
#define SPARK_MOST 60   /* columns of a sparkline */

/* ---- Numbers ---- */

typedef struct range {
    double low, high;
    int64_t n; /* finite numbers */
} range;

static void widen(range *r, const double *y, int64_t n)
{
    for (int64_t i = 0; i < n && !stop_check_at(i, NULL); i++) {
        if (!isfinite(y[i]))
            continue;
        r->low = r->n == 0 || y[i] < r->low ? y[i] : r->low;
        r->high = r->n == 0 || y[i] > r->high ? y[i] : r->high;
        r->n++;
    }
}

static range range_of(const plot *p)
{
    range r = {0};
    for (int i = 0; i < p->n; i++)
        widen(&r, p->series[i].y, p->series[i].n);
    return r;
}

/* An array of any dtype and storage as doubles; *out is a new block, the caller's also after an
 * error. */
static int doubles(kv_array *a, double **out, kv_err *e)
{
    own_array *dense = NULL;
    const void *data;
    int64_t n = kv_array_size(a);
    int64_t bytes = kv_dtype_bytes(kv_array_dtype(a));
    TRY(kv_array_to_dense(&dense, a, e));
    TRY(kv_array_read(dense, &data, e));
    if (!(*out = mem_alloc(n, sizeof **out, e)))
        return KV_E_MEMORY;
    for (int64_t i = 0; i < n; i += STOP_EVERY) {
        convert_elements(*out + i, KV_FLOAT64, (const char *)data + i * bytes, kv_array_dtype(a),
                         n - i < STOP_EVERY ? n - i : STOP_EVERY);
        TRY(stop_check(e));
    }
    return KV_OK;
}

/* name and what tells its parts apart; a long name is cut at a character. It is a text of one line
 * on a terminal and in a picture, so what would not show itself is shown by its number. */
static int set_text(char *out, size_t room, const char *name, const char *part, kv_err *e)
{
    char line[256];
    own_buf shown = {0};
    size_t size = strnlen(name, sizeof line), most = room - 3 - strlen(part);
    for (size_t i = 0; i < size; i++)
        line[i] = name[i] && strchr("\t\n\r", name[i]) ? ' ' : name[i];
    visible_line(&shown, line, size);
    bool cut = shown.len > most;
    snprintf(out, room, "%.*s%s%s", (int)utf8_cut(buf_text(&shown), shown.len, most),
             buf_text(&shown), cut ? ".." : "", part);
    return buf_check(&shown, e);
}

int plot_set_text(plot *p, plot_text which, const char *text, kv_err *e)
{
    return set_text(p->texts[which], PLOT_TEXT_SIZE, text, "", e);
}

/* A new series; *y is NULL once it is taken, and stays the caller's else. */
static int add_series(plot *p, const char *name, double **y, int64_t n, int64_t columns, kv_err *e)
{
    if (p->n == PLOT_MAX_LINES)
        return kv_err_set(e, KV_E_VALUE, "plot draws at most %d lines", PLOT_MAX_LINES);
    plot_series *s = &p->series[p->n++];
    s->y = *y;
    *y = NULL;
    s->n = n;
    s->columns = columns;
    s->step = 1;
    return set_text(s->name, PLOT_NAME, name, "", e);
}

static int add_column(plot *p, const char *name, const double *y, const int64_t *shape,
                      int64_t column, kv_err *e)
{
    char own[PLOT_NAME], part[24];
    snprintf(part, sizeof part, "[:, %d]", (int)column);
    TRY(set_text(own, PLOT_NAME, name, part, e));
    own_mem double *copy = mem_alloc(shape[0], sizeof *copy, e);
    if (!copy)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < shape[0]; i++)
        copy[i] = y[i * shape[1] + column];
    return add_series(p, own, &copy, shape[0], 0, e);
}

static int add_array(plot *p, const char *name, kv_array *a, kv_err *e)
{
    char text[128];
    own_mem double *y = NULL;
    int ndim = kv_array_ndim(a);
    const int64_t *shape = kv_array_shape(a);
    if (ndim > 2 && p->style != PLOT_HIST)
        return kv_err_set(e, KV_E_SHAPE, "%s has shape %s, and a picture has at most two axes",
                          name, kv_shape_text(text, sizeof text, ndim, shape));
    TRY(doubles(a, &y, e));
    if (p->style == PLOT_LINES && ndim == 2) {
        if (shape[1] > PLOT_MAX_LINES) {
            kv_err_set(e, KV_E_VALUE, "%s has %lld columns, and plot draws at most %d lines", name,
                       (long long)shape[1], PLOT_MAX_LINES);
            return kv_err_hint(e, "--heat draws them all");
        }
        for (int64_t i = 0; i < shape[1]; i++)
            TRY(add_column(p, name, y, shape, i, e));
        return KV_OK;
    }
    int64_t columns = p->style != PLOT_HEAT ? 0 : ndim > 0 ? shape[ndim - 1] : 1;
    return add_series(p, name, &y, kv_array_size(a), columns, e);
}

/* A list of losses: arrays of one element among numbers. */
static int add_items(plot *p, const char *name, const value_list *list, kv_err *e)
{
    own_mem double *y = mem_alloc(list->n, sizeof *y, e);
    if (!y)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < list->n; i++) {
        value number;
        TRY(value_item(&number, list->items[i], e));
        y[i] = value_number(number);
    }
    return add_series(p, name, &y, list->n, 0, e);
}

static bool is_single(value v)
{
    return value_is_number(v) || (v.kind == VALUE_ARRAY && kv_array_size(v.u.box->array) == 1);
}

int plot_add(plot *p, const char *name, value v, kv_err *e)
{
    own_array *a = NULL;
    const value_list *list = v.u.list;
    int64_t singles = 0;
    if (!value_is_several(v)) {
        TRY(value_to_array(&a, v, e));
        return add_array(p, name, a, e);
    }
    /* arrays each by itself, unless each holds one number */
    TRY(value_descend(e));
    for (int64_t i = 0; i < list->n; i++)
        singles += is_single(list->items[i]);
    if (singles == list->n && p->style != PLOT_HEAT)
        return add_items(p, name, list, e);
    for (int64_t i = 0; i < list->n; i++) {
        char own[PLOT_NAME], part[24];
        snprintf(part, sizeof part, "[%lld]", (long long)i);
        TRY(set_text(own, PLOT_NAME, name, part, e));
        TRY(plot_add(p, own, list->items[i], e));
    }
    return KV_OK;
}

void plot_release(plot *p)
{
    for (int i = 0; i < p->n; i++)
        mem_free(p->series[i].y);
    p->n = 0;
}

/* ---- Making it small ---- */

/* The smallest and the largest number of each part of a long line, in their order. It is done in
 * place: two numbers take the place of many. */
static void thin(plot_series *s)
{
    int64_t parts = THIN / 2, kept = 0;
    for (int64_t k = 0; k < parts; k++) {
        int64_t from = s->n * k / parts, to = s->n * (k + 1) / parts, low = from, high = from;
        if (stop_asked())
            return;
        for (int64_t i = from; i < to; i++) {
            low = s->y[i] < s->y[low] || isnan(s->y[low]) ? i : low;
            high = s->y[i] > s->y[high] || isnan(s->y[high]) ? i : high;
        }
        double first = s->y[low < high ? low : high], second = s->y[low < high ? high : low];
        s->y[kept++] = first;
        s->y[kept++] = second;
    }
    s->step = (double)s->n / (double)kept;
    s->n = kept;
}

/* The mean of the finite numbers of a block, or nan. */
static double block_mean(const plot_series *s, const int64_t from[2], const int64_t to[2])
{
    double sum = 0;
    int64_t n = 0;
    for (int64_t r = from[0]; r < to[0] && !stop_check_at(r, NULL); r++) {
        for (int64_t c = from[1]; c < to[1]; c++) {
            double x = s->y[r * s->columns + c];
            sum += isfinite(x) ? x : 0;
            n += isfinite(x);
        }
    }
    return n > 0 ? sum / (double)n : NAN;
}

/* Element r, c of an array that is shown as rows x columns blocks. */
static double block(const plot_series *s, int64_t rows, int64_t columns, int64_t r, int64_t c)
{
    int64_t all = s->n / s->columns;
    int64_t from[2] = {all * r / rows, s->columns * c / columns};
    int64_t to[2] = {all * (r + 1) / rows, s->columns * (c + 1) / columns};
    return block_mean(s, from, to);
}

/* What leaves gaps becomes nan. */
static void count_gaps(plot *p, plot_series *s)
{
    bool above = p->log && p->style != PLOT_HIST;
    p->all += s->n;
    for (int64_t i = 0; i < s->n && !stop_check_at(i, NULL); i++) {
        bool low = above && s->y[i] <= 0, odd = !isfinite(s->y[i]);
        p->below += low && !odd;
        p->odd += odd;
        if (low || odd)
            s->y[i] = NAN;
    }
}

int plot_prepare(plot *p, kv_err *e)
{
    for (int i = 0; i < p->n; i++)
        count_gaps(p, &p->series[i]);
    range all = range_of(p);
    if (stop_check(e))
        return KV_E_INTERRUPTED;
    if (all.n == 0)
        return kv_err_set(e, KV_E_VALUE, p->below ? "there is no number above 0 to draw with --log"
                                                  : "there is no finite number to draw");
    if (all.high - all.low > 1.7e308)
        return kv_err_set(e, KV_E_VALUE, "the numbers lie too far apart to be drawn");
    for (int i = 0; i < p->n && p->style == PLOT_LINES; i++)
        if (p->series[i].n > THIN)
            thin(&p->series[i]);
    return stop_check(e);
}

/* ---- Histograms ---- */

/* The bars of all series are the same. */
typedef struct histogram {
    int n;
    double from, width; /* bar i covers from + i * width and what follows it */
    bool whole;         /* each bar is about one whole number */
    double count[PLOT_BINS], most; /* of one series; most: of all so far */
} histogram;

/* The number of bars, by Sturges' rule, 1 + log2 n; a few whole numbers have one each. */
static void set_bars(histogram *h, const plot *p)
{
    range r = range_of(p);
    double spread = r.high - r.low, least = fabs(r.low) / 10;
    *h = (histogram){.from = r.low, .whole = spread < BINS_MOST - 1 && !p->bins};
    for (int k = 0; k < p->n; k++)
        for (int64_t i = 0; i < p->series[k].n && h->whole && !stop_check_at(i, NULL); i++)
            h->whole = isnan(p->series[k].y[i]) || p->series[k].y[i] == floor(p->series[k].y[i]);
    h->n = h->whole ? (int)spread + 1 : p->bins ? p->bins : (int)ceil(log2((double)r.n)) + 1;
    h->width = h->whole ? 1 : spread / h->n;
    if (spread <= 0) { /* one bar, as wide as its place on the axis needs */
        h->n = 1;
        h->width = least > 1 ? least : 1;
    }
}

static void count_numbers(histogram *h, const plot_series *s)
{
    memset(h->count, 0, sizeof h->count);
    for (int64_t i = 0; i < s->n && !stop_check_at(i, NULL); i++) {
        if (!isfinite(s->y[i]))
            continue;
        int k = (int)((s->y[i] - h->from) / h->width);
        double *count = &h->count[k < h->n ? k : h->n - 1];
        h->most = ++*count > h->most ? *count : h->most;
    }
}

/* ---- As text ---- */

static void add_number(buf *out, double x)
{
    char text[64];
    num_fixed(text, sizeof text, x, 6, 'g');
    buf_add(out, text);
}

static void add_range(buf *out, const range *r)
{
    add_number(out, r->low);
    buf_add(out, " .. ");
    add_number(out, r->high);
}

/* The level of x, of `levels` levels of the range. */
static int level_of(double x, const range *r, int levels)
{
    int level = r->high > r->low ? (int)((x - r->low) / (r->high - r->low) * levels) : 0;
    return level < levels ? level : levels - 1;
}

/* Row r of `rows` rows of an array, or a line. With log the range is one of logarithms. */
static void add_blocks(buf *out, const plot_series *s, int64_t rows, int64_t row, const range *r,
                       int columns, bool log)
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    plot_series line = *s;
    line.columns = s->columns ? s->columns : s->n;
    int64_t shown = at_most(line.columns, columns);
    range logs = {log10(r->low), log10(r->high), r->n};
    for (int64_t i = 0; i < shown; i++) {
        double x = block(&line, rows, shown, row, i);
        x = log ? log10(x) : x;
        buf_add(out, isfinite(x) ? blocks[level_of(x, log ? &logs : r, 8)] : " ");
    }
}

static void add_counts(buf *out, const plot *p, histogram *h, const plot_series *s, int columns)
{
    h->most = 0;
    count_numbers(h, s);
    range r = {p->log ? 1 : 0, h->most, h->n};
    add_blocks(out, &(plot_series){.y = h->count, .n = h->n}, 1, 0, &r, columns, p->log);
}

/* The rows of an array, and the range of all of them. */
static void add_rows(buf *out, const plot_series *s, int columns, int rows, bool log)
{
    range r = {0};
    int64_t all = s->n / s->columns, shown = at_most(all, rows - 1);
    widen(&r, s->y, s->n);
    for (int64_t i = 0; i < shown; i++) {
        buf_printf(out, "[%lld] ", (long long)(all * i / shown));
        add_blocks(out, s, shown, i, &r, columns - 10, log);
        buf_char(out, '\n');
    }
    buf_printf(out, "%s ", s->name);
    add_range(out, &r);
    buf_char(out, '\n');
}

void plot_sparkline(buf *out, const plot *p, int columns, int rows)
{
    histogram h;
    if (p->texts[PLOT_TITLE][0])
        buf_printf(out, "%s\n", p->texts[PLOT_TITLE]);
    if (p->style == PLOT_HEAT) {
        add_rows(out, &p->series[0], columns, rows, p->log);
        return;
    }
    if (p->style == PLOT_HIST)
        set_bars(&h, p);
    for (int i = 0; i < p->n; i++) {
        const plot_series *s = &p->series[i];
        range r = {0};
        widen(&r, s->y, s->n);
        int room = columns - (int)strlen(s->name) - 30; /* for the name and the range */
        room = room > SPARK_MOST ? SPARK_MOST : room < 10 ? 10 : room;
        buf_printf(out, "%s ", s->name);
        if (p->style == PLOT_HIST)
            add_counts(out, p, &h, s, room);
        else
            add_blocks(out, s, 1, 0, &r, room, p->log);
        buf_char(out, ' ');
        add_range(out, &r);
        buf_char(out, '\n');
    }
}

/* ---- For gnuplot ---- */

static void add_terminal(buf *out, const plot *p, plot_target target, int columns, int rows)
{
    static const char *const terminals[] = {
        [PLOT_SVG] = "set terminal svg size 800,480 noenhanced background 'white'\n",
        [PLOT_PNG] = "set terminal png size 800,480 noenhanced\n"};
    if (target == PLOT_SVG || target == PLOT_PNG)
        buf_add(out, terminals[target]);
    else
        buf_printf(out, "set terminal dumb size %d,%d %s noenhanced\n", columns, rows,
                   p->style == PLOT_HEAT ? "ansi256" : "mono"); /* mono draws no image */
}

/* A text in single quotes, where gnuplot knows no escapes. */
static void add_quoted(buf *out, const char *text)
{
    buf_char(out, '\'');
    for (; *text; text++)
        buf_printf(out, *text == '\'' ? "''" : "%c", *text);
    buf_char(out, '\'');
}

static void add_exact(buf *out, double x)
{
    char text[NUM_TEXT_MAX];
    num_plain(text, x, NUM_BINARY64);
    buf_add(out, text);
}

static void set_range(buf *out, const char *axis, double low, double high)
{
    buf_printf(out, "set %srange [", axis);
    add_exact(out, low);
    buf_char(out, ':');
    add_exact(out, high);
    buf_add(out, "]\n");
}

static void add_point(buf *out, double x, double y)
{
    add_exact(out, x);
    buf_char(out, ' ');
    add_exact(out, isfinite(y) ? y : NAN);
    buf_char(out, '\n');
}

static void set_text_of(buf *out, const char *what, const char *text)
{
    if (!*text)
        return;
    buf_printf(out, "set %s ", what);
    add_quoted(out, text);
    buf_char(out, '\n');
}

/* Returns true if number k has no neighbour that a line could lead to. */
static bool is_lone(const plot_series *s, int64_t k)
{
    return !isnan(s->y[k]) && (k == 0 || isnan(s->y[k - 1])) &&
           (k + 1 == s->n || isnan(s->y[k + 1]));
}

static bool has_lone(const plot_series *s)
{
    for (int64_t k = 0; k < s->n; k++)
        if (is_lone(s, k))
            return true;
    return false;
}

/* What each of several series is drawn with; with points: also the numbers between two gaps. */
static void add_plots(buf *out, const plot *p, const char *with, bool points)
{
    for (int i = 0; i < p->n; i++) {
        const plot_series *s = &p->series[i];
        buf_add(out, i == 0 ? "plot '-' title " : ", '-' title ");
        add_quoted(out, s->name);
        buf_printf(out, " with %s", points && s->n == 1 ? "points" : with);
        if (points && s->n > 1 && has_lone(s))
            buf_printf(out, " lt %d, '-' notitle with points lt %d", i + 1, i + 1);
    }
    buf_char(out, '\n');
}

static void lines_script(buf *out, const plot *p)
{
    range r = range_of(p);
    int64_t longest = 0;
    buf_add(out, "set key above width 2\n");
    for (int i = 0; i < p->n; i++)
        longest = p->series[i].n > longest ? p->series[i].n : longest;
    if (longest == 1)
        set_range(out, "x", -1, 1);
    if (r.high <= r.low) { /* gnuplot wants a range that is one */
        double around = r.low != 0 ? fabs(r.low) / 10 : 1;
        set_range(out, "y", r.low - around, r.high + around);
    }
    if (p->log)
        buf_add(out, "set logscale y\n");
    add_plots(out, p, "lines", true);
    for (int i = 0; i < p->n; i++) {
        const plot_series *s = &p->series[i];
        for (int64_t k = 0; k < s->n; k++)
            add_point(out, (double)k * s->step, s->y[k]);
        buf_add(out, "e\n");
        if (s->n == 1 || !has_lone(s))
            continue;
        for (int64_t k = 0; k < s->n; k++)
            if (is_lone(s, k))
                add_point(out, (double)k * s->step, s->y[k]);
        buf_add(out, "e\n");
    }
}

/* Bars of several series would hide each other, so these are outlines. */
static void hist_script(buf *out, const plot *p)
{
    histogram h;
    set_bars(&h, p);
    for (int i = 0; i < p->n; i++)
        count_numbers(&h, &p->series[i]);
    /* the bar is centred on its number, or spans the interval that it counts */
    double first = h.from + (h.whole ? 0 : h.width / 2);
    buf_add(out, "set key above width 2\nset style fill solid 0.6 border -1\nset boxwidth ");
    add_exact(out, h.width);
    buf_add(out, p->log ? "\nset logscale y\n" : "\n");
    set_range(out, "x", first - h.width, first + h.n * h.width);
    set_range(out, "y", p->log ? 0.5 : 0, h.most * (p->log ? 2 : 1.05));
    add_plots(out, p, p->n > 1 ? "histeps" : "boxes", false);
    for (int k = 0; k < p->n; k++) {
        count_numbers(&h, &p->series[k]);
        for (int i = 0; i < h.n; i++)
            add_point(out, first + i * h.width, h.count[i]);
        buf_add(out, "e\n");
    }
}

static void heat_script(buf *out, const plot *p)
{
    const plot_series *s = &p->series[0];
    int64_t rows = at_most(s->n / s->columns, HEAT_MOST), columns = at_most(s->columns, HEAT_MOST);
    range r = {0};
    widen(&r, s->y, s->n);
    if (!p->texts[PLOT_TITLE][0])
        set_text_of(out, "title", s->name);
    /* viridis, by S. van der Walt and N. Smith, which newer versions have built in */
    buf_add(out, "unset key\nset palette defined (0 '#440154', 1 '#3b528b', 2 '#21918c', "
                 "3 '#5ec962', 4 '#fde725')\n");
    if (p->log)
        buf_add(out, "set logscale cb\n");
    if (r.high <= r.low)
        set_range(out, "cb", p->log ? r.low / 2 : r.low - 1, p->log ? r.high * 2 : r.high + 1);
    set_range(out, "x", -0.5, (double)columns - 0.5);
    set_range(out, "y", (double)rows - 0.5, -0.5);
    buf_add(out, "plot '-' with image pixels\n");
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < columns; k++) {
            buf_printf(out, "%lld ", (long long)k);
            add_point(out, (double)i, block(s, rows, columns, i, k));
        }
    }
    buf_add(out, "e\n");
}

void plot_script(buf *out, const plot *p, plot_target target, int columns, int rows)
{
    static void (*const scripts[])(buf *, const plot *) = {
        [PLOT_LINES] = lines_script, [PLOT_HEAT] = heat_script, [PLOT_HIST] = hist_script};
    add_terminal(out, p, target, columns, rows);
    buf_add(out, "set encoding utf8\n");
    set_text_of(out, "title", p->texts[PLOT_TITLE]);
    set_text_of(out, "xlabel", p->texts[PLOT_XLABEL]);
    set_text_of(out, "ylabel", p->texts[PLOT_YLABEL]);
    scripts[p->style](out, p);
}
