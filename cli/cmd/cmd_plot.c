/* plot: lines, a heat map or a histogram, on the terminal or in a file.
 *
 * gnuplot draws when it is there; what is drawn it gets as text and as numbers, so there is nothing
 * of the user's that it could run. Without it, and with --safe, which starts no program, a
 * sparkline stands for the picture. Heat maps on the terminal are our own: gnuplot has no shades
 * there. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/stop.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "files/save.h"
#include "out/plot.h"
#include "run/shell.h"
#include "session/unit.h"
#include "syntax/effect.h"
#include "syntax/parse_statement.h"
#include "term/signals.h"
#include "term/terminal.h"

/* A picture that goes somewhere else than to a terminal is as large everywhere. */
#define COLUMNS 79
#define ROWS 24

/* The size and the abilities of the surface that is drawn on. */
typedef struct canvas {
    int columns, rows;
    bool colour, sixel;
} canvas;

/* Terminals that have always known sixel say so by their names; asking others could not be told
 * from what is typed. */
static bool shows_sixel(void)
{
    static const char *const names[] = {"foot", "mlterm", "contour", "yaft"};
    const char *term = getenv("TERM");
    for (size_t i = 0; term && i < sizeof names / sizeof *names; i++)
        if (strncmp(term, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static int between(int x, int low, int high)
{
    return x < low ? low : x > high ? high : x;
}

static bool can_run_gnuplot(const session *s)
{
    return !s->safe && child_finds("gnuplot");
}

static canvas canvas_of(const session *s, const plot *p, bool redirected)
{
    canvas c = {COLUMNS, ROWS, false, false};
    int width = terminal_width(STDOUT_FILENO), height = terminal_height(STDOUT_FILENO);
    if (redirected || sink_takes(s) || width <= 0 || height <= 0)
        return c;
    c.columns = between(width - 1, 30, 160);
    c.rows = between(height - 2, 10, 40);
    c.sixel = shows_sixel() && can_run_gnuplot(s);
    c.colour = p->style == PLOT_HEAT && !c.sixel && terminal_color(STDOUT_FILENO);
    return c;
}

/* gnuplot's text without the blanks and the empty lines around it. */
static void tidy(buf *out, const char *text)
{
    size_t empty = 0;
    bool begun = false;
    while (*text) {
        size_t n = strcspn(text, "\n"), from = strspn(text, "\f"), to = n;
        while (to > from && text[to - 1] == ' ')
            to--;
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
    buf script = {0};
    plot_script(&script, p, target, c.columns, c.rows);
    int code = buf_check(&script, e);
    if (code == KV_OK && (code = stop_check(e)) == KV_OK)
        code = shell_filter(s, "exec gnuplot -d", buf_text(&script), script.len, out, e);
    buf_release(&script);
    return code;
}

/* The picture as text. */
static int draw_text(session *s, const plot *p, canvas c, buf *out, kv_err *e)
{
    if (p->style == PLOT_HEAT && !c.sixel) {
        plot_shades(out, p, c.columns, c.rows, c.colour);
        return stop_check(e);
    }
    if (!can_run_gnuplot(s)) {
        session_note(s, child_finds("gnuplot")
                            ? "--safe starts no gnuplot, so a line stands for the picture"
                            : "gnuplot is not installed, so a line stands for the picture; "
                              "apt-get install gnuplot-nox");
        plot_sparkline(out, p, c.columns);
        return stop_check(e);
    }
    if (c.sixel)
        return run_gnuplot(s, p, PLOT_SIXEL, c, out, e);
    buf text = {0};
    int code = run_gnuplot(s, p, PLOT_TEXT, c, &text, e);
    tidy(out, buf_text(&text));
    buf_release(&text);
    return code;
}

static int draw(session *s, const plot *p, plot_target target, canvas c, buf *out, kv_err *e)
{
    if (target == PLOT_TEXT)
        return draw_text(s, p, c, out, e);
    if (!child_finds("gnuplot")) {
        kv_err_set(e, KV_E_UNSUPPORTED, "gnuplot draws pictures in files, and it is not installed");
        return kv_err_hint(e, "apt-get install gnuplot-nox; a .txt file needs none"),
               KV_E_UNSUPPORTED;
    }
    return run_gnuplot(s, p, target, c, out, e);
}

/* To the file of a redirect. */
static int draw_file(session *s, const plot *p, const ast *to, result *out, kv_err *e)
{
    buf picture = {0};
    bool append = to->op == REDIRECT_APPEND;
    const char *name = eval_word(s, to->kid[0], "a file name", out, e);
    if (!name)
        return e->code;
    int code = plot_path_check(name, append, e);
    if (code == KV_OK && (code = safe_write(s, name, e)) == KV_OK &&
        (code = draw(s, p, plot_target_of(name), canvas_of(s, p, true), &picture, e)) == KV_OK &&
        (code = buf_check(&picture, e)) == KV_OK)
        code = save_text(s, name, &picture, append, e);
    buf_release(&picture);
    return code ? unit_at(s, to, e) : KV_OK;
}

/* A transcript and an `expect` hear the picture without colours. */
static int draw_screen(session *s, const plot *p, bool piped, kv_err *e)
{
    if (s->guest)
        return s->guest->draw(s->guest->arg, p, e);
    buf text = {0}, plain = {0};
    canvas c = canvas_of(s, p, piped), grey = {c.columns, c.rows, false, false};
    bool twice = sink_hears(s) && (c.colour || c.sixel);
    int code = draw(s, p, PLOT_TEXT, c, &text, e);
    if (code == KV_OK && twice)
        code = draw(s, p, PLOT_TEXT, grey, &plain, e);
    if (code == KV_OK && (code = buf_check(&text, e)) == KV_OK &&
        (code = buf_check(&plain, e)) == KV_OK)
        code = session_out_twice(s, &text, twice ? &plain : &text, e);
    buf_release(&text);
    buf_release(&plain);
    return code;
}

int cmd_plot_show(session *s, const plot *p, kv_err *e)
{
    return draw_screen(s, p, false, e);
}

/* A series is named by the text of its expression. */
static int add_value(session *s, plot *p, const ast *node, kv_err *e)
{
    value v;
    char name[256];
    const char *text = s->unit->src.text + node->pos;
    uint32_t n = node->end - node->pos;
    int code = eval(s, node, &v, e);
    if (code)
        return code;
    snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), text);
    code = plot_add(p, name, v, e);
    value_release(&v);
    return code ? unit_at(s, node, e) : KV_OK;
}

int cmd_plot(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *values = call->kid[0], *to = command_redirect_of(call, false);
    bool heat = command_option_of(call, "heat"), hist = command_option_of(call, "hist");
    plot p = {.style = heat ? PLOT_HEAT : hist ? PLOT_HIST : PLOT_LINES};
    int code = KV_OK;
    if (heat && hist)
        return kv_err_set(e, KV_E_USAGE, "--heat and --hist do not go together");
    for (uint32_t i = 0; i < values->n && code == KV_OK; i++)
        code = add_value(s, &p, values->kid[i], e);
    if (code == KV_OK && p.n > 1 && p.style != PLOT_LINES)
        code = kv_err_set(e, KV_E_VALUE, "plot %s draws one array, not %d",
                          heat ? "--heat" : "--hist", p.n);
    if (code == KV_OK && (code = plot_prepare(&p, e)) == KV_OK)
        code = to && to->op != REDIRECT_PIPE ? draw_file(s, &p, to, out, e)
                                             : draw_screen(s, &p, to != NULL, e);
    plot_release(&p);
    return code;
}
