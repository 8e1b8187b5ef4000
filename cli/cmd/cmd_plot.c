/* plot: lines, a heat map or a histogram, on the terminal or in a file.
 *
 * gnuplot draws when it is there; what is drawn it gets as text and as numbers, so there is nothing
 * of the user's that it could run. Without it, and with --safe, which starts no program, a
 * sparkline stands for the picture, as for a heat map in a text without colours: gnuplot has no
 * shades there. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/stop.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "files/files.h"
#include "out/plot.h"
#include "run/run.h"
#include "session/unit.h"
#include "syntax/effect.h"
#include "syntax/parse_statement.h"
#include "term/signals.h"
#include "term/terminal.h"

/* A picture that goes somewhere else than to a terminal is as large everywhere. */
#define COLUMNS 79
#define ROWS 24

/* The size of the surface that is drawn on, and whether a heat map has colours there. */
typedef struct canvas {
    int columns, rows;
    bool colour;
} canvas;

static int between(int x, int low, int high)
{
    return x < low ? low : x > high ? high : x;
}

static canvas canvas_of(const session *s, const plot *p, bool redirected)
{
    canvas c = {COLUMNS, ROWS, false};
    int width = terminal_width(STDOUT_FILENO), height = terminal_height(STDOUT_FILENO);
    if (redirected || sink_takes(s) || width <= 0 || height <= 0)
        return c;
    c.columns = between(width - 1, 30, 160);
    c.rows = between(height - 2, 10, 40);
    /* gnuplot draws no image of a single row or column */
    const plot_series *first = &p->series[0];
    c.colour = p->style == PLOT_HEAT && first->columns > 1 && first->n > first->columns &&
               terminal_color(STDOUT_FILENO) && !s->safe && child_finds("gnuplot");
    return c;
}

/* The length of a line up to its last sign that can be seen: blanks and colours behind it go. */
static size_t seen_end(const char *line, size_t from, size_t n)
{
    size_t to = from;
    for (size_t i = from; i < n; i++) {
        if (line[i] == '\033')
            i += strcspn(line + i, "m\n");
        else if (line[i] != ' ' && line[i] != '\f')
            to = i + 1;
    }
    return to;
}

/* gnuplot's text without the blanks and the empty lines around it. */
static void tidy(buf *out, const char *text)
{
    size_t empty = 0;
    bool begun = false;
    while (*text) {
        size_t n = strcspn(text, "\n"), from = strspn(text, "\f"), to = seen_end(text, from, n);
        empty += to <= from;
        if (to > from) {
            buf_repeat(out, '\n', begun ? (int64_t)empty : 0);
            buf_put(out, text + from, to - from);
            buf_char(out, '\n');
            empty = 0;
            begun = true;
        }
        text += n + (text[n] == '\n');
    }
}

/* The script is a text of its own, so that nothing of the user's settings changes the picture. */
static int run_gnuplot(session *s, const plot *p, plot_target target, canvas c, buf *out,
                       kv_err *e)
{
    own_buf script = {0};
    plot_script(&script, p, target, c.columns, c.rows);
    TRY(buf_check(&script, e));
    TRY(stop_check(e));
    return shell_filter(s, "exec gnuplot -d", buf_text(&script), script.len, out, e);
}

static int draw(session *s, const plot *p, plot_target target, canvas c, buf *out, kv_err *e)
{
    if (target == PLOT_TEXT) {
        const char *why =
            s->guest ? "with --json a line stands for the picture; plot EXPR > FILE draws it here"
            : !child_finds("gnuplot")
                ? "gnuplot is not installed, so a line stands for the picture; "
                  "apt-get install gnuplot-nox"
            : s->safe ? "--safe starts no gnuplot, so a line stands for the picture"
            : p->style == PLOT_HEAT && !c.colour
                ? "a heat map has no shades without colours, so a line stands for each row"
                : NULL;
        if (why) {
            session_note(s, "%s", why);
            plot_sparkline(out, p, c.columns, c.rows);
            return stop_check(e);
        }
        own_buf text = {0};
        int rc = run_gnuplot(s, p, PLOT_TEXT, c, &text, e);
        tidy(out, buf_text(&text));
        return rc;
    }
    if (!child_finds("gnuplot")) {
        kv_err_set(e, KV_E_UNSUPPORTED, "gnuplot draws pictures in files, and it is not installed");
        return kv_err_hint(e, "apt-get install gnuplot-nox; a .txt file needs none");
    }
    return run_gnuplot(s, p, target, c, out, e);
}

static int draw_file(session *s, const plot *p, kv_err *e)
{
    own_buf picture = {0};
    TRY(safe_write(s, p->file, e));
    TRY(draw(s, p, plot_target_of(p->file), canvas_of(s, p, true), &picture, e));
    TRY(buf_check(&picture, e));
    return save_text(s, p->file, &picture, p->append, e);
}

/* What a picture on stdout is: of `kvctl plot x > x.png` in a shell what the file's name says, if
 * nothing stands in it yet. */
static plot_target target_of_stdout(const session *s, bool piped)
{
    char name[PLOT_FILE_SIZE];
    struct stat st;
    ssize_t n = readlink("/proc/self/fd/1", name, sizeof name - 1);
    if (n <= 0 || piped || s->guest || s->safe || sink_takes(s) || fflush(stdout) != 0 ||
        fstat(STDOUT_FILENO, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > 0)
        return PLOT_TEXT;
    name[n] = '\0';
    return plot_path_check(name, false, &(kv_err){0}) ? PLOT_TEXT : plot_target_of(name);
}

/* A transcript and an `expect` hear the picture without colours. */
static int draw_screen(session *s, const plot *p, bool piped, kv_err *e)
{
    own_buf text = {0}, plain = {0};
    canvas c = canvas_of(s, p, piped);
    bool twice = sink_hears(s) && c.colour;
    TRY(draw(s, p, target_of_stdout(s, piped), c, &text, e));
    if (twice)
        plot_sparkline(&plain, p, c.columns, c.rows);
    TRY(buf_check(&text, e));
    TRY(buf_check(&plain, e));
    return session_out_twice(s, &text, twice ? &plain : &text, e);
}

int cmd_plot_show(session *s, const plot *p, kv_err *e)
{
    return *p->file ? draw_file(s, p, e) : draw_screen(s, p, false, e);
}

/* The series of a dict have its keys as names. */
static int add_dict(session *s, plot *p, const ast *node, value dict, kv_err *e)
{
    dict_settle(dict);
    const value *item = dict.u.list->items;
    for (int64_t i = 0; i < dict_count(dict); i++, item += 2) {
        const char *name = item->kind == VALUE_TEXT ? item->u.text : "";
        if (plot_add(p, name, item[1], e))
            return unit_at(s, node, e);
    }
    return KV_OK;
}

/* A series is named by the text of its expression. */
static int add_value(session *s, plot *p, const ast *node, kv_err *e)
{
    own_value v = value_none();
    char name[256];
    const char *text = s->unit->src.text + node->pos;
    uint32_t n = node->end - node->pos;
    TRY(eval(s, node, &v, e));
    if (v.kind == VALUE_DICT && dict_count(v) > 0)
        return add_dict(s, p, node, v, e);
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), text);
    return plot_add(p, name, v, e) ? unit_at(s, node, e) : KV_OK;
}

/* --log, --bins, the texts, and the file of a redirect. */
static int take_options(session *s, const ast *call, const ast *to, plot *p, result *out, kv_err *e)
{
    static const struct {
        const char *option, *what;
    } texts[] = {{"title", "a title"}, {"xlabel", "a label"}, {"ylabel", "a label"}};
    const ast *bins = command_option_of(call, "bins");
    p->log = command_option_of(call, "log") != NULL;
    TRY(bins ? eval_int32(s, bins, "a count of bars", &p->bins, e) : KV_OK);
    if (bins && (p->bins < 1 || p->bins > PLOT_BINS))
        return unit_err(s, bins, e, KV_E_VALUE, "a histogram has 1 to %d bars, not %d", PLOT_BINS,
                        (int)p->bins);
    for (int i = 0; i < PLOT_NTEXTS; i++) {
        const ast *given = command_option_of(call, texts[i].option);
        const char *text = given ? eval_word(s, given, texts[i].what, out, e) : "";
        if (!text || plot_set_text(p, (plot_text)i, text, e))
            return e->code;
    }
    if (!to || to->op == REDIRECT_PIPE)
        return KV_OK;
    const char *name = eval_word(s, to->kid[0], "a file name", out, e);
    p->append = to->op == REDIRECT_APPEND;
    if (!name)
        return e->code;
    if (plot_path_check(name, p->append, e))
        return unit_at(s, to, e);
    if ((size_t)snprintf(p->file, sizeof p->file, "%s", name) >= sizeof p->file)
        return unit_err(s, to, e, KV_E_VALUE, "the name of a picture has at most %d bytes",
                        PLOT_FILE_SIZE - 1);
    return KV_OK;
}

int cmd_plot(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *values = call->kid[0], *to = command_redirect_of(call, false);
    bool heat = command_option_of(call, "heat");
    bool hist = command_option_of(call, "hist") || command_option_of(call, "histogram");
    own_plot p = {.style = heat ? PLOT_HEAT : hist ? PLOT_HIST : PLOT_LINES};
    TRY(take_options(s, call, to, &p, out, e));
    for (uint32_t i = 0; i < values->n; i++)
        TRY(add_value(s, &p, values->kid[i], e));
    if (p.n > 1 && heat)
        return kv_err_set(e, KV_E_VALUE, "plot --heat draws one array, not %d", p.n);
    TRY(plot_prepare(&p, e));
    int rc = s->guest && (*p.file || !s->out.recorder.on) ? s->guest->draw(s->guest->arg, &p, e)
             : *p.file                                    ? draw_file(s, &p, e)
                                                          : draw_screen(s, &p, to != NULL, e);
    if (rc && *p.file)
        unit_at(s, to, e);
    /* Numbers that leave gaps are easily taken for ones that were never there. */
    long long odd = p.odd, below = p.below, all = p.all;
    if (odd > 0)
        session_note(s, "%lld of %lld values are not finite", odd, all);
    if (below > 0)
        session_note(s, "%lld of %lld values are not above 0", below, all);
    return rc;
}
