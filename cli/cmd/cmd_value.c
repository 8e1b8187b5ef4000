/* The commands that work on values: print, write, assert, settings, files of statements. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "cmd/commands.h"
#include "eval/eval.h"
#include "files/files.h"
#include "io/scalar.h"
#include "out/record.h"
#include "out/transcript.h"
#include "run/run.h"
#include "session/containers.h"
#include "session/result.h"
#include "session/unit.h"
#include "syntax/read_unit.h"

/* ---- Expected outputs and errors ---- */

/* A report may hold such a report in turn, so more lines of it than these are left out. */
#define REPORT_MAX 20

/* Lines of the details of a report are indented: they are a part of it wherever it is pasted. */
static void add_indented(buf *out, const buf *lines, int most)
{
    const char *at = buf_text(lines);
    for (int i = 0; *at && i < most; i++) {
        size_t n = strcspn(at, "\n");
        buf_printf(out, "  %.*s\n", (int)n, at);
        at += n + (at[n] == '\n');
    }
}

int cmd_expect(session *s, const ast *call, result *out, kv_err *e)
{
    own_buf expected = {0};
    own_buf difference = {0};
    (void)out;
    if (!s->out.previous.present) {
        unit_err(s, call, e, KV_E_USAGE, "no statement stands before this `expect`");
        return kv_err_hint(e, "it compares what the statement before it puts out");
    }
    s->out.previous.present = false;
    if (s->out.previous.missed) {
        kv_err_set(e, KV_E_UNSUPPORTED, "what a shell command prints is not seen at the prompt");
        return kv_err_hint(e, "write the `expect` into the same entry, or into a script");
    }
    buf_add(&expected, call->kid[0]->u.text);
    diff_normalise(&expected);
    diff_normalise(&s->out.previous.text);
    int rc = buf_check(&expected, e) ? KV_E_MEMORY : buf_check(&s->out.previous.text, e);
    if (rc == KV_OK && strcmp(buf_text(&expected), buf_text(&s->out.previous.text)) != 0) {
        buf_add(&s->detail, "  - expected, + got\n");
        diff_lines(&difference, buf_text(&expected), buf_text(&s->out.previous.text));
        add_indented(&s->detail, &difference, INT_MAX);
        rc = kv_err_set(e, KV_E_EXPECT, "the statement before puts out something else");
    }
    buf_release(&s->out.previous.text);
    return rc;
}

int cmd_expect_error(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *wanted = call->kid[0], *block = call->kid[1];
    kv_err got = {0};
    (void)out;
    if (block->kind == AST_NONE)
        return KV_OK; /* its words alone are the error */
    int rc = run_argument(s, block, &got);
    s->out.recorder.failed = false;
    if (rc == KV_E_INTERRUPTED || rc == KV_E_INTERNAL) {
        *e = got;
        return rc;
    }
    if (rc == KV_OK && s->leaving)
        return KV_OK;
    if (rc == KV_OK)
        return unit_err(s, wanted, e, KV_E_EXPECT, "the block does not fail with `%s`",
                        wanted->u.text);
    if (strcmp(kv_code_name(rc), wanted->u.text) == 0) {
        buf_clear(&s->detail);
        s->create_failed = false; /* it was to fail */
        return KV_OK;
    }
    own_buf report = {0};
    report_text(s, &got, &report);
    add_indented(&s->detail, &report, REPORT_MAX);
    return unit_err(s, wanted, e, KV_E_EXPECT, "the block fails with `%s`, not with `%s`",
                    kv_code_name(rc), wanted->u.text);
}

/* ---- Values ---- */

/* sep= and end= of print(…): the texts between the values, and behind the last one. */
static int print_option(session *s, const ast *arg, value *sep, value *end, kv_err *e)
{
    value *given = strcmp(arg->u.text, "sep") == 0 ? sep : end;
    if (given == end && strcmp(arg->u.text, "end") != 0) {
        unit_err(s, arg, e, KV_E_USAGE, "print has no argument %s", arg->u.text);
        return kv_err_hint(e, strcmp(arg->u.text, "file") == 0
                                  ? "print a > log.txt writes into a file"
                                  : "print(a, b, sep=\", \", end=\"\")");
    }
    value_release(given);
    return eval_text(s, arg->kid[0], arg->u.text, given, e);
}

int cmd_print(session *s, const ast *call, result *out, kv_err *e)
{
    own_buf text = {0};
    own_stack values = {0};
    own_value sep = value_none(), end = value_none();
    (void)out;
    /* The values are shown when all of them are known: a call among them may change a list. */
    for (uint32_t i = 0; i < call->kid[0]->n; i++) {
        const ast *arg = call->kid[0]->kid[i];
        value v;
        if (arg->kind == AST_ARG) {
            TRY(print_option(s, arg, &sep, &end, e));
            continue;
        }
        TRY(eval(s, arg, &v, e));
        TRY(value_stack_add(&values, v, e));
    }
    for (int64_t i = 0; i < values.n; i++) {
        if (i > 0)
            buf_add(&text, sep.kind == VALUE_TEXT ? sep.u.text : " ");
        TRY(show_value(s, &text, values.items[i], false, e));
    }
    buf_add(&text, end.kind == VALUE_TEXT ? end.u.text : "\n");
    TRY(buf_check(&text, e));
    return session_out(s, buf_text(&text), text.len, e);
}

int cmd_write(session *s, const ast *call, result *out, kv_err *e)
{
    own_value v = value_none();
    TRY(eval(s, call->kid[0], &v, e));
    const char *name = eval_word(s, call->kid[1], "a file name", out, e);
    if (name && strcmp(name, "-") != 0)
        save_result(s, name, &(result){.v = v}, false, e);
    else if (name && session_flush(s, e) == KV_OK)
        save_stdout(s, v, e);
    return unit_at(s, call->kid[1], e);
}

/* ---- assert ---- */

/* Differing elements that are listed one by one. */
#define SHOWN_DIFFERENCES 5

static void add_number(buf *out, double x, kv_dtype dtype)
{
    char number[NUM_TEXT_MAX];
    num_plain(number, x, scalar_width(dtype));
    buf_add(out, number);
}

/* One side of a comparison: its numbers as doubles. */
typedef struct side {
    value v;        /* as it was; borrowed */
    kv_array *a;    /* as an array */
    kv_array *wide; /* float64 */
    const double *x;
} side;

static void side_release(side *s)
{
    kv_array_unref(s->a);
    kv_array_unref(s->wide);
}

/* Reads the numbers of a side as they are compared with the other: a number by operators, and lists
 * by allclose(), have the dtype of an array. exact: a number is the double that it is. */
static bool side_read(side *out, value other, bool operators, bool exact)
{
    kv_err e = {0};
    const void *data = NULL;
    bool ok = (exact ? value_numbers_array(&out->a, out->v, KV_FLOAT64, (kv_ctx){0}, &e)
               : operators && value_is_sequence(out->v)
                   ? value_to_array(&out->a, out->v, &e)
                   : value_array_beside(&out->a, out->v, other, &e)) == KV_OK &&
              kv_array_dup(&out->wide, out->a, KV_FLOAT64, (kv_ctx){0}, &e) == KV_OK &&
              kv_array_read(out->wide, &data, &e) == KV_OK;
    out->x = data;
    return ok;
}

/* The sides of what is asserted, and what is asked of each pair of elements; op 0: allclose(). */
typedef struct asked {
    value sides[2];
    int op;
    double rtol, atol;
} asked;

static bool holds(const asked *ask, double a, double b)
{
    const bool is[] = {a == b, a != b, a < b, a <= b, a > b, a >= b};
    return ask->op ? is[ask->op - OP_EQ] : value_is_close(a, b, ask->rtol, ask->atol);
}

static void describe_side(buf *out, const char *name, const side *v)
{
    char shape[128];
    buf_printf(out, "  %-6s ", name);
    if (kv_array_size(v->a) == 1 && kv_array_ndim(v->a) == 0)
        add_number(out, v->x[0], kv_array_dtype(v->a));
    else
        buf_printf(out, "%s %s",
                   kv_shape_text(shape, sizeof shape, kv_array_ndim(v->a), kv_array_shape(v->a)),
                   kv_dtype_name(kv_array_dtype(v->a)));
    buf_char(out, '\n');
}

/* The differences of two sides. */
typedef struct difference {
    const kv_array *shaped; /* the side that has the shape of the result */
    int64_t n, wrong;       /* the number of elements, and of failed comparisons */
    int64_t shown[SHOWN_DIFFERENCES]; /* the first of them */
    int64_t worst;
    double most;            /* the largest difference; NaN when there is one */
} difference;

/* The first few elements that do not hold go to out. */
static difference find_difference(buf *out, const asked *ask, const side *l, const side *r)
{
    int64_t nl = kv_array_size(l->a), nr = kv_array_size(r->a);
    difference d = {.shaped = nl >= nr ? l->a : r->a, .n = nl > nr ? nl : nr, .most = -1};
    for (int64_t i = 0; i < d.n; i++) {
        double a = l->x[nl == 1 ? 0 : i], b = r->x[nr == 1 ? 0 : i], far = fabs(a - b);
        if (holds(ask, a, b))
            continue;
        if (d.wrong < SHOWN_DIFFERENCES)
            d.shown[d.wrong] = i;
        if (++d.wrong <= SHOWN_DIFFERENCES && d.n > 1) {
            buf_add(out, "  ");
            show_index(out, d.shaped, i);
            buf_add(out, "  ");
            add_number(out, a, kv_array_dtype(l->a));
            buf_add(out, "  ");
            add_number(out, b, kv_array_dtype(r->a));
            buf_char(out, '\n');
        }
        if (far > d.most || (isnan(far) && !isnan(d.most))) {
            d.most = far;
            d.worst = i;
        }
    }
    return d;
}

/* The indices of element i as a tuple. */
static int index_value(value *out, const kv_array *a, int64_t i, kv_err *e)
{
    int ndim = kv_array_ndim(a);
    TRY(value_list_new(out, VALUE_TUPLE, ndim, e));
    for (int k = ndim - 1; k >= 0; k--) {
        out->u.list->items[k] = value_int(i % kv_array_shape(a)[k]);
        i /= kv_array_shape(a)[k];
    }
    return KV_OK;
}

/* Element i of a side. */
static value element_value(const side *s, int64_t i)
{
    return value_float(s->x[kv_array_size(s->a) == 1 ? 0 : i]);
}

/* (index, left, right) of each of the first differences. */
static int give_differences(value *out, const side *l, const side *r, const difference *d,
                            kv_err *e)
{
    int64_t n = d->wrong < SHOWN_DIFFERENCES ? d->wrong : SHOWN_DIFFERENCES;
    TRY(value_list_new(out, VALUE_TUPLE, n, e));
    for (int64_t i = 0; i < n; i++) {
        value *one = &out->u.list->items[i];
        TRY(value_list_new(one, VALUE_TUPLE, 3, e));
        value *parts = one->u.list->items;
        parts[1] = element_value(l, d->shown[i]);
        parts[2] = element_value(r, d->shown[i]);
        TRY(index_value(&parts[0], d->shaped, d->shown[i], e));
    }
    return KV_OK;
}

/* Both sides and where they differ, for the record, which does without what there is no memory for.
 */
static void give_sides(comparison *out, const side *l, const side *r, const difference *d)
{
    kv_err unused = {0};
    out->made = true;
    out->left = value_ref(l->v);
    out->right = value_ref(r->v);
    if (d->wrong == 0 || index_value(&out->index, d->shaped, d->shown[0], &unused))
        return;
    out->max_diff = value_float(d->most);
    if (d->n > 1)
        give_differences(&out->differences, l, r, d, &unused);
}

/* Both sides of a comparison or of allclose(a, b), for the report. */
static void describe_failure(session *s, const asked *ask, comparison *out)
{
    OWN(side_release) side l = {.v = ask->sides[0]}, r = {.v = ask->sides[1]};
    difference d = {0};
    bool exact = value_is_number(l.v) && value_is_number(r.v);
    if (side_read(&l, r.v, ask->op, exact) && side_read(&r, l.v, ask->op, exact)) {
        int64_t nl = kv_array_size(l.a), nr = kv_array_size(r.a);
        describe_side(&s->detail, "left", &l);
        describe_side(&s->detail, "right", &r);
        if (kv_array_same_shape(l.a, r.a) || nl == 1 || nr == 1)
            d = find_difference(&s->detail, ask, &l, &r);
        if (d.n > 1 && d.wrong > 0) {
            buf_printf(&s->detail, "  %lld of %lld element%s %s; the largest difference is ",
                       (long long)d.wrong, (long long)d.n, d.n == 1 ? "" : "s",
                       d.wrong == 1 ? "fails" : "fail");
            add_number(&s->detail, d.most, KV_FLOAT64);
            buf_add(&s->detail, ", at ");
            show_index(&s->detail, d.shaped, d.worst);
            buf_char(&s->detail, '\n');
        }
        give_sides(out, &l, &r, &d);
    }
}

/* Whether an assert holds: of a list each comparison in it, a boolean or an array; its numbers and
 * texts are values, and a list of values is true when there are some. */
static int assert_holds(value v, bool *truth, kv_err *e)
{
    TRY(eval_truth_of_all(v, truth, e));
    for (int64_t i = 0; value_is_sequence(v) && i < v.u.list->n && *truth; i++) {
        value item = v.u.list->items[i];
        if (item.kind == VALUE_BOOL || item.kind == VALUE_ARRAY || value_is_sequence(item))
            TRY(assert_holds(item, truth, e));
    }
    return KV_OK;
}

static int eval_close(session *s, const ast *expr, asked *ask, value *out, kv_err *e)
{
    const function *f = function_find(expr->u.text);
    value v[FUNCTION_MAX_PARAMS];
    own_stack given = {0};
    TRY(eval_args(s, expr, &given, e));
    TRY(function_call(s, f, given.items, expr, given.n, out, e));
    TRY(function_sort(f, given.items, expr, given.n, v, e));
    ask->sides[0] = value_ref(v[0]);
    ask->sides[1] = value_ref(v[1]);
    TRY(v[2].kind == VALUE_NONE ? KV_OK : function_number(v[2], "rtol", &ask->rtol, e));
    return v[3].kind == VALUE_NONE ? KV_OK : function_number(v[3], "atol", &ask->atol, e);
}

/* The value of what is asserted; of a comparison and of allclose() also its sides. */
static int eval_asserted(session *s, const ast *expr, asked *ask, value *out, kv_err *e)
{
    bool named = expr->kind == AST_CALL && !(expr->flags & AST_METHOD);
    if (named && strcmp(expr->u.text, "allclose") == 0 && session_def(s, expr->u.text) < 0)
        return eval_close(s, expr, ask, out, e);
    if (expr->kind != AST_BINARY || expr->op < OP_EQ || expr->op > OP_GE)
        return eval(s, expr, out, e);
    ask->op = expr->op;
    TRY(eval(s, expr->kid[0], &ask->sides[0], e));
    TRY(eval(s, expr->kid[1], &ask->sides[1], e));
    return eval_operate(s, expr, ask->sides, out, e);
}

static int assert_sides(session *s, const ast *call, asked *ask, result *out, kv_err *e)
{
    const ast *list = call->kid[0], *expr = list->kid[0];
    const source *src = &s->unit->src;
    const char *text = NULL;
    own_value v = value_none();
    bool truth;
    if (list->n > 2)
        return unit_err(s, list, e, KV_E_USAGE, "assert takes an expression and a text");
    if (eval_asserted(s, expr, ask, &v, e) || assert_holds(v, &truth, e))
        return unit_at(s, expr, e);
    value_release(&v);
    out->sides.answered = true;
    out->sides.holds = truth;
    if (truth)
        return KV_OK;
    if (list->n == 2 && !(text = eval_word(s, list->kid[1], "the message of an assert", out, e)))
        return e->code;
    describe_failure(s, ask, &out->sides);
    int n = (int)(expr->end - expr->pos > 200 ? 200 : expr->end - expr->pos);
    return text ? unit_err(s, expr, e, KV_E_ASSERT, "%s", text)
                : unit_err(s, expr, e, KV_E_ASSERT, "%.*s does not hold", n, src->text + expr->pos);
}

int cmd_assert(session *s, const ast *call, result *out, kv_err *e)
{
    asked ask = {{value_none(), value_none()}, 0, CLOSE_RTOL, CLOSE_ATOL};
    int rc = assert_sides(s, call, &ask, out, e);
    value_release(&ask.sides[0]);
    value_release(&ask.sides[1]);
    return rc;
}

/* ---- Settings, files, leaving ---- */

int cmd_set(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *name = call->kid[0], *node = call->kid[1];
    own_value v = value_none();
    buf text = {0};
    const char *word = name ? eval_word(s, name, "the name of a setting", out, e) : NULL;
    if (name && !word)
        return e->code;
    if (!node) {
        int rc = setting_show(s, &text, word, e);
        return result_text(out, &text, rc && name ? unit_at(s, name, e) : rc, e);
    }
    /* the name of a format may stand without quotes */
    TRY(node->kind == AST_NAME && !session_find(s, node->u.text) ? value_text(&v, node->u.text, e)
                                                                 : eval(s, node, &v, e));
    int rc = setting_set(s, word, v, e);
    return rc ? unit_at(s, rc == KV_E_USAGE ? name : node, e) : KV_OK;
}

/* A file whose name was computed; one with a literal name was read while parsing. */
int cmd_source(session *s, const ast *call, result *out, kv_err *e)
{
    char *text;
    size_t n;
    unit *u = NULL;
    if (s->sourced_depth >= SOURCE_MAX_DEPTH)
        return unit_err(s, call, e, KV_E_VALUE, SOURCE_TOO_DEEP);
    const char *path = eval_word(s, call->kid[0], "a file name", out, e);
    if (!path)
        return e->code;
    s->sourced_depth++;
    int rc = file_read_text(path, &text, &n, e);
    if (rc == KV_OK && (rc = unit_read(s, &u, path, text, n, 1, NULL, e)) == KV_OK)
        rc = unit_run(s, u, e);
    s->sourced_depth--;
    return rc;
}

int cmd_quit(session *s, const ast *call, result *out, kv_err *e)
{
    int32_t code = 0;
    (void)out;
    const ast *given = call->kid[0];
    if (given && given->kind == AST_TUPLE && given->n == 0) /* quit() */
        given = NULL;
    TRY(given ? eval_int32(s, given, "an exit code", &code, e) : KV_OK);
    if (code < 0 || code > 255)
        return unit_err(s, call->kid[0], e, KV_E_VALUE,
                        "an exit code lies in 0 .. 255, %d does not", code);
    s->leaving = true;
    s->discards = command_option_of(call, "discard") != NULL;
    s->exit_code = code;
    return KV_OK;
}
