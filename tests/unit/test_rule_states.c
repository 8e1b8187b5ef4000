/* Random rules with states of all kinds, reductions, `rows present`, `if` and `f64`, over several
 * updates: the passes of a plan give the same bits as a naive evaluation, line by line and element
 * by element, at lengths around the blocks and for any number of threads.
 *
 * The naive side keeps a number for every element of every name. It computes absent rows like the
 * others; what makes them absent is that reductions leave them out and that `stored` and states are
 * not written there. One element more than there are stands for names that hold one number.
 */
#include <math.h>

#include "lang/parse.h"
#include "test.h"
#include "vm/rule.h"

static uint64_t seed;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* ---- Rules as trees -------------------------------------------------------------------------- */

typedef enum expr_op {
    NAME, LITERAL, ADD, SUB, MUL, DIV, LESS, MIN, MAX, ROOT, WHERE, WIDE, BOTH, NEGATE, CLIP, SUM,
    NORM, MEAN
} expr_op;

static const struct {
    const char *before, *between, *behind;
    int kids;
} shapes[] = {
    [NAME] = {"", "", "", 0},           [LITERAL] = {"", "", "", 0},
    [ADD] = {"(", " + ", ")", 2},       [SUB] = {"(", " - ", ")", 2},
    [MUL] = {"(", " * ", ")", 2},       [DIV] = {"(", " / ", ")", 2},
    [LESS] = {"(", " < ", ")", 2},      [MIN] = {"min(", ", ", ")", 2},
    [MAX] = {"max(", ", ", ")", 2},     [ROOT] = {"sqrt(abs(", "", "))", 1},
    [WHERE] = {"where(", ", ", ")", 3}, [WIDE] = {"f64(", "", ")", 1},
    [BOTH] = {"(", " and ", ")", 2},    [NEGATE] = {"(-", "", ")", 1},
    [CLIP] = {"clip(", ", ", ")", 3},   [SUM] = {"sum(", "", ")", 1},
    [NORM] = {"norm(", "", ")", 1},     [MEAN] = {"rowmean(", "", ")", 1},
};

/* Names: a, b and c are arrays, r and s numbers, u is a host number; m, v and w are array states, q
 * a row state, k a key state, g shared. */
enum { INPUT, STORED, A, B, C, R, S, U, M, V, W, Q, K, G, NNAMES };

static const char *const name_text[NNAMES] = {"input", "stored", "a", "b", "c", "r", "s",
                                              "u",     "m",      "v", "w", "q", "k", "g"};

static bool is_state(int name)
{
    return name >= M;
}

static bool is_host(int name)
{
    return name == U || name == K || name == G;
}

typedef struct expr {
    expr_op op;
    int kid[3];
    int name;
    double literal;
} expr;

typedef enum line_kind { SET, STATE, ROWS, PRINT, IF, ELSE, END } line_kind;

/* IF: taken when t is odd (name 1) or even (name 0). */
typedef struct line {
    line_kind kind;
    int name, value; /* an expr, or -1 */
} line;

enum { MAX_EXPRS = 800, MAX_LINES = 40 };

typedef struct rule_tree {
    expr exprs[MAX_EXPRS];
    line lines[MAX_LINES];
    int nexprs, nlines, reductions, prints;
    bool by_rows, sparse, rows; /* sparse: the input; rows: behind `rows present` */
    bool known[NNAMES];         /* can be read here */
    bool late[NNAMES];          /* absent rows have no such value */
} rule_tree;

/* ---- Random trees ---------------------------------------------------------------------------- */

static int add_expr(rule_tree *r, expr e)
{
    CHECK(r->nexprs < MAX_EXPRS);
    r->exprs[r->nexprs] = e;
    return r->nexprs++;
}

static int any_literal(rule_tree *r)
{
    static const double literals[] = {0.1, 2, 0.5, 1, 3, 0.001, 0, 8, 1e-30};
    return add_expr(r, (expr){.op = LITERAL, .literal = literals[draw(9)]});
}

/* A name that can be read: first = INPUT for elements, R for numbers, U for host numbers. whole:
 * one that absent rows have too. */
static int any_name(rule_tree *r, bool whole)
{
    for (int tries = 0; tries < 30; tries++) {
        int name = (int)draw(NNAMES);
        if (r->known[name] && !(whole && (r->late[name] || (is_state(name) && !is_host(name)))))
            return add_expr(r, (expr){.op = NAME, .name = name});
    }
    return add_expr(r, (expr){.op = NAME, .name = INPUT});
}

static int any_expr(rule_tree *r, int depth, bool whole)
{
    if (depth == 0 || r->nexprs > MAX_EXPRS / 2)
        return draw(4) ? any_name(r, whole) : any_literal(r);
    uint32_t what = draw(30);
    bool reduces = what >= 28 && r->reductions < 5 && !(whole && r->by_rows);
    expr e = {.op = what < 12 ? (expr_op)(ADD + what % 4) : (expr_op)(LESS + what % 9)};
    if (reduces) {
        r->reductions++;
        e.op = r->by_rows ? MEAN : draw(2) ? NORM : SUM;
    }
    int nkids = shapes[e.op].kids;
    for (int i = 0; i < nkids; i++)
        e.kid[i] = any_expr(r, depth - 1, whole);
    if (reduces) { /* of an array, whatever stands there */
        int inner = e.kid[0], one = add_expr(r, (expr){.op = LITERAL, .literal = 1});
        int input = add_expr(r, (expr){.op = NAME, .name = INPUT});
        e.kid[0] = add_expr(r, (expr){.op = WHERE, .kid = {one, inner, input}});
    }
    return add_expr(r, e);
}

/* An array, whatever stands in it: a line of host numbers alone would be a host line. */
static int any_array(rule_tree *r, bool whole)
{
    int one = add_expr(r, (expr){.op = LITERAL, .literal = 1});
    int inner = any_expr(r, 1 + (int)draw(3), whole);
    int input = add_expr(r, (expr){.op = NAME, .name = INPUT});
    return add_expr(r, (expr){.op = WHERE, .kid = {one, inner, input}});
}

static int any_number(rule_tree *r)
{
    r->reductions++;
    return add_expr(r, (expr){.op = r->by_rows ? MEAN
                                    : draw(2)  ? NORM
                                               : SUM,
                              .kid = {any_array(r, false)}});
}

static int any_host(rule_tree *r, int name)
{
    int left = any_literal(r);
    if (r->known[name])
        left = add_expr(r, (expr){.op = NAME, .name = name});
    return add_expr(r, (expr){.op = (expr_op)(ADD + draw(3)), .kid = {left, any_literal(r)}});
}

static void add_line(rule_tree *r, line_kind kind, int name, int value)
{
    CHECK(r->nlines < MAX_LINES);
    r->lines[r->nlines++] = (line){kind, name, value};
}

/* Whether an expression reads what absent rows do not have. */
static bool reads_late(const rule_tree *r, int at)
{
    const expr *e = &r->exprs[at];
    bool late = e->op == MEAN;
    if (e->op == NAME)
        return r->late[e->name] || (is_state(e->name) && !is_host(e->name));
    for (int i = 0; i < shapes[e->op].kids; i++)
        late |= reads_late(r, e->kid[i]);
    return late;
}

static void add_set(rule_tree *r, int name)
{
    int value = is_host(name)            ? any_host(r, name)
                : name == R || name == S ? any_number(r)
                : name == Q              ? any_number(r)
                                         : any_array(r, false);
    add_line(r, SET, name, value);
    r->late[name] |= r->rows && (name == STORED || is_state(name) || reads_late(r, value));
    r->known[name] = true;
}

static void add_state(rule_tree *r, int name)
{
    uint32_t what = draw(3);
    bool element = !is_host(name);
    int value = -1;
    if (what == 1 || (what == 2 && (!element || name == Q)))
        value = any_literal(r);
    else if (what == 2)
        value = any_array(r, r->rows);
    if (name == Q && !r->rows && draw(3) == 0)
        value = any_number(r);
    add_line(r, STATE, name, value);
    r->known[name] = true;
}

static void add_print(rule_tree *r)
{
    int name = (int)draw(NNAMES);
    if (!r->known[name] || r->prints >= 6)
        return;
    add_line(r, PRINT, name, -1);
    r->prints++;
}

static void add_states(rule_tree *r)
{
    static const int kinds[] = {M, V, K, G, Q};
    for (int i = 0; i < 5; i++) {
        bool fits = kinds[i] != Q || r->by_rows;
        if (fits && !r->known[kinds[i]] && draw(3) == 0)
            add_state(r, kinds[i]);
    }
}

/* Above `rows present` neither stored nor a state is written. */
static void add_lines(rule_tree *r, int n, bool writes)
{
    static const int targets[] = {A, B, C, R, S, U, STORED, M, V, Q, K, G};
    for (int i = 0; i < n; i++) {
        int name = targets[draw(writes ? 12 : 6)];
        bool state = is_state(name);
        if ((state && !r->known[name]) ||
            ((name == R || name == S || name == Q) && r->reductions > 4))
            continue;
        add_set(r, name);
        if (draw(4) == 0)
            add_print(r);
    }
}

/* Inside `if` a state may be declared that exists only then, and names that are known change. */
static void add_branch(rule_tree *r)
{
    bool known[NNAMES];
    memcpy(known, r->known, sizeof known);
    if (!r->known[W] && draw(2) == 0)
        add_state(r, W);
    for (int i = 0; i < 2; i++) {
        int name = STORED + (int)draw(4);
        if (known[name])
            add_set(r, name);
    }
    if (r->known[W])
        add_set(r, W);
    add_print(r);
    memcpy(r->known, known, sizeof known);
}

static void add_if(rule_tree *r)
{
    add_line(r, IF, (int)draw(2), -1);
    add_branch(r);
    if (draw(2)) {
        add_line(r, ELSE, 0, -1);
        for (int i = 0; i < NNAMES; i++)
            if (i == W)
                r->known[i] = false;
        add_branch(r);
    }
    add_line(r, END, 0, -1);
}

static void grow(rule_tree *r, bool by_rows)
{
    *r = (rule_tree){.by_rows = draw(3) == 0 || by_rows, .sparse = draw(2)};
    r->known[INPUT] = r->known[STORED] = true;
    add_states(r);
    bool rows = draw(2);
    add_lines(r, (int)draw(4), !rows);
    if (rows) {
        add_line(r, ROWS, 0, -1);
        r->rows = true;
        r->known[A] = r->known[B] = r->known[C] = false;
        add_states(r);
        add_lines(r, (int)draw(4), true);
    }
    if (draw(2))
        add_if(r);
    add_print(r);
    add_set(r, STORED);
    add_print(r);
}

/* ---- Trees as text --------------------------------------------------------------------------- */

static void write_expr(buf *out, const rule_tree *r, int at)
{
    const expr *e = &r->exprs[at];
    if (e->op == NAME)
        buf_add(out, name_text[e->name]);
    if (e->op == LITERAL)
        buf_printf(out, "%g", e->literal);
    buf_add(out, shapes[e->op].before);
    for (int i = 0; i < shapes[e->op].kids; i++) {
        buf_add(out, i ? shapes[e->op].between : "");
        write_expr(out, r, e->kid[i]);
    }
    buf_add(out, shapes[e->op].behind);
}

static void write_rule(buf *out, const rule_tree *r)
{
    buf_add(out, "{\n");
    for (int i = 0; i < r->nlines; i++) {
        const line *l = &r->lines[i];
        switch (l->kind) {
        case SET:
            buf_printf(out, "%s = ", name_text[l->name]);
            break;
        case STATE:
            buf_printf(out, "state %s%s",
                       l->name == Q   ? "row "
                       : l->name == K ? "key "
                       : l->name == G ? "shared "
                                      : "",
                       name_text[l->name]);
            buf_add(out, l->value >= 0 ? " = " : "");
            break;
        case ROWS:
            buf_add(out, "rows present");
            break;
        case PRINT:
            buf_printf(out, "print %s", name_text[l->name]);
            break;
        case IF:
            buf_printf(out, "if t %% 2 == %d {", l->name);
            break;
        case ELSE:
            buf_add(out, "} else {");
            break;
        case END:
            buf_add(out, "}");
            break;
        }
        if (l->value >= 0)
            write_expr(out, r, l->value);
        buf_add(out, "\n");
    }
    buf_add(out, "}");
}

/* ---- The naive side -------------------------------------------------------------------------- */

/* A key and its states, as the naive side and as the plan see them. */
typedef struct world {
    const rule_tree *r;
    bool narrow;             /* T is float32 */
    int64_t n, row, nrows;   /* elements, of a row, rows */
    double *x[NNAMES];       /* naive: n + 1 each; of key and shared states the last one counts */
    bool have[NNAMES];       /* the state exists */
    bool *present;           /* rows */
    int64_t *rows, npresent; /* their ids */
    bool integer[NNAMES];    /* what a host number holds now */
    bool masked;             /* behind `rows present`, and rows are absent */
    bool behind;             /* behind `rows present`, of a sparse input */
    int64_t t;
    double *prints[PLAN_MAX_PRINTS]; /* what was printed, and */
    bool printed_behind[PLAN_MAX_PRINTS];
    int nprints;
} world;

static double *numbers(const world *w)
{
    double *x = mem_zalloc(w->n + 1, sizeof *x, NULL);
    CHECK(x != NULL);
    return x;
}

static double rounded(const world *w, double x, bool wide)
{
    return w->narrow && !wide ? (double)(float)x : x;
}

static bool counts(const world *w, int64_t i)
{
    return !w->masked || w->present[i / w->row];
}

/* The sum of the elements from … to that count: blocks of PLAN_CHUNK, then their sums. */
static double naive_sum(const world *w, const double *x, int64_t from, int64_t to, bool wide,
                        bool all)
{
    double sum = 0, block = 0;
    int64_t n = 0;
    for (int64_t i = from; i < to; i++) {
        if (!all && !counts(w, i))
            continue;
        block = rounded(w, block + x[i], wide);
        if (++n % PLAN_CHUNK == 0) {
            sum = rounded(w, sum + block, wide);
            block = 0;
        }
    }
    return n % PLAN_CHUNK ? rounded(w, sum + block, wide) : sum;
}

static void naive_reduce(const world *w, expr_op op, double *out, const double *x, bool wide)
{
    own_mem double *y = numbers(w);
    for (int64_t i = 0; i < w->n; i++)
        y[i] = op == NORM ? rounded(w, x[i] * x[i], wide) : x[i];
    if (op == MEAN) {
        for (int64_t i = 0; i < w->n; i += w->row) {
            double sum = naive_sum(w, y, i, i + w->row, wide, true);
            for (int64_t j = i; j < i + w->row; j++)
                out[j] = rounded(w, sum / (double)w->row, wide);
        }
    } else {
        double sum = naive_sum(w, y, 0, w->n, wide, false);
        sum = op == NORM ? rounded(w, sqrt(sum), wide) : sum;
        for (int64_t i = 0; i <= w->n; i++)
            out[i] = sum;
    }
}

static double naive_one(expr_op op, double x, double y, double z)
{
    return op == ADD      ? x + y
           : op == SUB    ? x - y
           : op == MUL    ? x * y
           : op == DIV    ? x / y
           : op == LESS   ? x < y
           : op == MIN    ? (x < y || isnan(x) ? x : y)
           : op == MAX    ? (x > y || isnan(x) ? x : y)
           : op == ROOT   ? sqrt(fabs(x))
           : op == WHERE  ? (x != 0 ? y : z)
           : op == BOTH   ? x != 0 && y != 0
           : op == NEGATE ? -x
           : op == CLIP   ? (x > z ? z : x < y ? y : x)
                          : x; /* f64() changes nothing here */
}

/* Names and literals hold numbers of T whatever they are read for. binary64: a host line. */
static void naive_eval(const world *w, int at, double *out, bool wide, bool binary64)
{
    const expr *e = &w->r->exprs[at];
    double *kid[3] = {NULL, NULL, NULL};
    if (e->op == NAME || e->op == LITERAL) {
        for (int64_t i = 0; i <= w->n; i++) {
            double x = e->op == LITERAL ? e->literal : w->x[e->name][is_host(e->name) ? w->n : i];
            out[i] = rounded(w, x, binary64);
        }
        return;
    }
    for (int i = 0; i < 3; i++) {
        kid[i] = numbers(w);
        if (i < shapes[e->op].kids)
            naive_eval(w, e->kid[i], kid[i], wide || e->op == WIDE, binary64);
    }
    if (e->op == SUM || e->op == NORM || e->op == MEAN)
        naive_reduce(w, e->op, out, kid[0], wide);
    else
        for (int64_t i = 0; i <= w->n; i++)
            out[i] =
                rounded(w, naive_one(e->op, kid[0][i], kid[1][i], kid[2][i]), wide || binary64);
    for (int i = 0; i < 3; i++)
        mem_free(kid[i]);
}

/* Whether a host number is an integer: its 0 has no sign. */
static bool is_integer(const world *w, int at)
{
    const expr *e = &w->r->exprs[at];
    if (e->op == LITERAL)
        return e->literal == floor(e->literal);
    return e->op == NAME ? w->integer[e->name]
                         : is_integer(w, e->kid[0]) && is_integer(w, e->kid[1]);
}

static void naive_set(world *w, const line *l, bool first)
{
    own_mem double *value = numbers(w);
    bool masked = !first && w->masked && (l->name == STORED || is_state(l->name));
    if (l->value >= 0)
        naive_eval(w, l->value, value, false, is_host(l->name));
    if (is_host(l->name))
        w->integer[l->name] = l->value < 0 || is_integer(w, l->value);
    for (int64_t i = 0; i <= w->n && w->integer[l->name]; i++)
        value[i] += 0.0; /* -0 becomes 0 */
    for (int64_t i = 0; i <= w->n; i++)
        if (i == w->n || !masked || counts(w, i))
            w->x[l->name][i] = value[i];
}

static void naive_print(world *w, int name)
{
    if (is_host(name))
        return;
    double *x = numbers(w);
    memcpy(x, w->x[name], (size_t)(w->n + 1) * sizeof *x);
    w->printed_behind[w->nprints] = w->behind;
    w->prints[w->nprints++] = x;
}

static void naive_update(world *w)
{
    bool taken = true, runs = true;
    w->masked = w->behind = false;
    for (int i = 0; i < w->r->nlines; i++) {
        const line *l = &w->r->lines[i];
        switch (l->kind) {
        case SET:
            if (runs)
                naive_set(w, l, false);
            break;
        case STATE:
            if (runs && !w->have[l->name])
                naive_set(w, l, true);
            w->have[l->name] |= runs;
            break;
        case ROWS:
            w->masked = w->behind = w->r->sparse;
            break;
        case PRINT:
            if (runs)
                naive_print(w, l->name);
            break;
        case IF:
            taken = runs = w->t % 2 == l->name;
            break;
        case ELSE:
            runs = !taken;
            break;
        case END:
            runs = true;
            break;
        }
    }
}

/* ---- The plan's side ------------------------------------------------------------------------- */

/* The numbers of the key in memory of type T. */
typedef struct memory_of {
    void *input, *packed, *stored, *states[PLAN_MAX_STATES];
    int64_t n, row;
    int64_t bytes;
} memory_of;

static double read_number(const world *w, const void *at, int64_t i)
{
    return w->narrow ? (double)((const float *)at)[i] : ((const double *)at)[i];
}

static void write_number(const world *w, void *at, int64_t i, double x)
{
    if (w->narrow)
        ((float *)at)[i] = (float)x;
    else
        ((double *)at)[i] = x;
}

static const void *input_at(void *arg, int64_t from, int64_t n, void *room)
{
    const memory_of *m = arg;
    (void)n, (void)room;
    return (const char *)m->input + from * m->bytes;
}

static const void *rows_at(void *arg, int64_t from, int64_t n, void *room)
{
    const memory_of *m = arg;
    (void)n, (void)room;
    return (const char *)m->packed + from * m->bytes;
}

static bool same(double x, double y)
{
    return memcmp(&x, &y, sizeof x) == 0 || (isnan(x) && isnan(y));
}

static const char *rule_text;

/* Shows the rule when the two sides differ. */
static void agree(const world *w, const char *what, int64_t i, double got, double want)
{
    char difference[200];
    if (same(got, want))
        return;
    snprintf(difference, sizeof difference,
             "%s[%lld] is %.17g, not %.17g; t %lld, %lld rows of %lld", what, (long long)i, got,
             want, (long long)w->t, (long long)w->nrows, (long long)w->row);
    CHECK_TEXT(rule_text, difference);
}

/* Compares the i-th print with the array that the plan wrote. */
static void check_print(const world *w, const rule_print *p, const void *data, int i)
{
    const double *want = w->prints[i];
    CHECK_INT(p->present, w->printed_behind[i] && p->extent != RULE_ONE);
    int64_t step = p->extent == RULE_EACH_ROW ? w->row : 1, at = 0;
    if (p->extent == RULE_ONE) {
        double x = p->known ? p->value.u.number : read_number(w, data, 0);
        agree(w, "print", i, x, want[w->r->by_rows && w->n ? 0 : w->n]);
        return;
    }
    for (int64_t k = 0; k < w->n; k += step)
        if (!p->present || w->present[k / w->row])
            agree(w, "print", k, read_number(w, data, at++), want[k]);
}

static void check_update(const world *w, const memory_of *m, const rule_update *u,
                         const plan_arrays *a, const rule_state_info *info, int nstates)
{
    for (int64_t i = 0; i < w->n; i++)
        agree(w, "stored", i, read_number(w, m->stored, i), w->x[STORED][i]);
    for (int s = 0; s < nstates; s++) {
        int name = M;
        while (strcmp(name_text[name], info[s].name) != 0)
            name++;
        CHECK_INT(u->states >> s & 1 || w->have[name], w->have[name]);
        for (int64_t i = 0; i < w->n && !is_host(name) && w->have[name]; i++)
            agree(w, info[s].name, i, read_number(w, m->states[s], name == Q ? i / w->row : i),
                  w->x[name][i]);
    }
    CHECK_INT(u->nprints, w->nprints);
    for (int i = 0; i < w->nprints; i++)
        check_print(w, &u->prints[i], a->prints[i], i);
}

/* The data that a rule keeps from update to update. */
typedef struct keeper {
    const rule_ast *ast;
    const source *src;
    rule_state_info info[PLAN_MAX_STATES];
    int nstates;
    uint32_t have;
    host numbers[PLAN_MAX_STATES];
    rule_case *cases[3]; /* that its updates were compiled for */
    int ncases;
    uint64_t pool[1 << 14];
} keeper;

/* The update of a case that an earlier one was compiled for, or a new case. */
static void make_update(keeper *k, const world *w, rule_update *u)
{
    kv_err e = {0};
    host values[16];
    own_arena memory = {0};
    CHECK_OK(rule_bind(k->ast, NULL, NULL, NULL, 0, values, &memory, &e));
    rule_binding b = {k->ast, k->src, values, NULL};
    rule_given given = {.key = {7, NULL}, .t = w->t, .lr = 0.5,
                        .dtype = w->narrow ? KV_FLOAT32 : KV_FLOAT64, .sparse_input = w->r->sparse,
                        .row = w->row, .size = w->n, .have = k->have, .numbers = k->numbers};
    bool made = false;
    for (int i = 0; i < k->ncases && !made; i++) {
        CHECK(rule_case_pool_bytes(k->cases[i]) <= (int64_t)sizeof k->pool);
        made = rule_case_fits(k->cases[i], &given, true) &&
               rule_case_update(k->cases[i], &b, &given, u, k->pool);
    }
    int rc = made ? KV_OK : rule_case_make(&b, &given, true, u, &k->cases[k->ncases], &e);
    if (rc)
        CHECK_TEXT(e.text, "");
    k->ncases += !made && k->cases[k->ncases];
}

static void run_update(keeper *k, world *w, memory_of *m)
{
    rule_update u;
    kv_err e = {0};
    make_update(k, w, &u);
    plan_arrays a = {.stored = m->stored, .stored_dtype = w->narrow ? KV_FLOAT32 : KV_FLOAT64,
                     .size = w->n, .row = w->row, .input = input_at,
                     .input_dtype = w->narrow ? KV_FLOAT32 : KV_FLOAT64,
                     .input_lies = draw(2) ? m->input : NULL,
                     .rows = u.rows_present ? w->rows : NULL,
                     .nrows = u.rows_present ? w->npresent : 0, .input_rows = rows_at, .arg = m,
                     .pool = u.pool, .t = w->t};
    for (int s = 0; s < k->nstates; s++) {
        bool fills = (u.fills & ~k->have) >> s & 1;
        a.states[s] = m->states[s];
        for (int64_t i = 0; i < w->n && fills; i++)
            write_number(w, m->states[s], i,
                         u.numbers[s].kind == HOST_FLOAT ? u.numbers[s].u.number
                                                         : (double)u.numbers[s].u.integer);
    }
    for (int i = 0; i < u.nprints; i++) {
        a.prints[i] = mem_zalloc(w->n + 1, 8, &e);
        a.print_dtypes[i] = u.prints[i].dtype;
    }
    void *scratch = mem_alloc_data(plan_scratch_bytes(u.plan, w->n, 0), &e);
    plan_run(u.plan, &a, scratch);
    mem_free(scratch);
    check_update(w, m, &u, &a, k->info, k->nstates);
    k->have |= u.states;
    for (int s = 0; s < k->nstates; s++)
        if (u.states >> s & 1)
            k->numbers[s] = u.numbers[s];
    for (int i = 0; i < u.nprints; i++)
        mem_free(a.prints[i]);
    rule_update_release(&u);
}

/* ---- Both ------------------------------------------------------------------------------------ */

static double any_element(void)
{
    static const double special[] = {0, -0.0, 1, -1, INFINITY, NAN, 1e-40, 3e38};
    return draw(40) == 0 ? special[draw(8)] : ((double)draw(200001) - 100000) / 65536;
}

/* The input of the next update: random rows of it, when it is sparse. */
static void draw_input(world *w, memory_of *m)
{
    w->npresent = 0;
    for (int64_t k = 0; k < w->nrows; k++) {
        w->present[k] = !w->r->sparse || draw(3) == 0;
        for (int64_t i = k * w->row; i < (k + 1) * w->row; i++) {
            w->x[INPUT][i] = w->present[k] ? rounded(w, any_element(), false) : 0;
            write_number(w, m->input, i, w->x[INPUT][i]);
            if (w->present[k])
                write_number(w, m->packed, w->npresent * w->row + i - k * w->row, w->x[INPUT][i]);
        }
        if (w->present[k])
            w->rows[w->npresent++] = k;
    }
}

static void run_updates(world *w, keeper *k)
{
    kv_err e = {0};
    memory_of m = {.n = w->n, .row = w->row, .bytes = w->narrow ? 4 : 8};
    void **all[] = {&m.input, &m.packed, &m.stored};
    for (int i = 0; i < 3; i++)
        *all[i] = mem_zalloc(w->n + 1, 8, &e);
    for (int i = 0; i < k->nstates; i++)
        m.states[i] = mem_zalloc(w->n + 1, 8, &e);
    for (int64_t i = 0; i < w->n; i++) {
        w->x[STORED][i] = rounded(w, any_element(), false);
        write_number(w, m.stored, i, w->x[STORED][i]);
    }
    for (w->t = 1; w->t <= 3; w->t++) {
        draw_input(w, &m);
        w->nprints = 0;
        naive_update(w);
        run_update(k, w, &m);
        for (int i = 0; i < w->nprints; i++)
            mem_free(w->prints[i]);
    }
    for (int i = 0; i < 3; i++)
        mem_free(*all[i]);
    for (int i = 0; i < k->nstates; i++)
        mem_free(m.states[i]);
}

/* One random rule over three updates of nrows rows. by_rows: its reductions are surely those. */
static void one_rule_of(bool by_rows, int64_t nrows, int64_t row)
{
    static rule_tree r;
    grow(&r, by_rows);
    kv_err e = {0};
    own_buf text = {0};
    own_arena memory = {0};
    write_rule(&text, &r);
    rule_text = buf_text(&text);
    source src = {
        .name = "r", .text = buf_text(&text), .len = (uint32_t)text.len, .line = 1, .col = 1};
    rule_ast *tree = MADE(rule_ast, parse_rule, &src, &memory);
    int rc = rule_check(tree, &src, &memory, &e);
    if (rc)
        CHECK_TEXT(e.text, buf_text(&text));
    keeper k = {.ast = tree, .src = &src};
    CHECK_OK(rule_states(tree, k.info, &k.nstates, &e));
    world w = {.r = &r, .narrow = draw(4) != 0, .n = nrows * row, .row = row, .nrows = nrows};
    w.present = mem_zalloc(nrows + 1, sizeof *w.present, &e);
    w.rows = mem_zalloc(nrows + 1, sizeof *w.rows, &e);
    for (int i = 0; i < NNAMES; i++)
        w.x[i] = numbers(&w);
    run_updates(&w, &k);
    for (int i = 0; i < k.ncases; i++)
        rule_case_unref(k.cases[i]);
    for (int i = 0; i < NNAMES; i++)
        mem_free(w.x[i]);
    mem_free(w.rows);
    mem_free(w.present);
}

static void one_rule(int64_t nrows, int64_t row)
{
    one_rule_of(false, nrows, row);
}

/* Lengths around the blocks of programs, around those of sums, and one that threads share. */
static void many_rules(const char *threads)
{
    bool alone = strcmp(threads, "1") == 0; /* others share long arrays above all */
    setenv("KVSTORE_THREADS", threads, 1);
    seed = test_seed(11);
    for (int64_t i = test_random(alone ? 40 : 15); i > 0; i--)
        one_rule(draw(6), 1 + draw(3));
    for (int64_t i = test_random(alone ? 9000 : 3000) / 1000; i > 0; i--) {
        int64_t block = i % 3 == 0 ? PLAN_CHUNK : i % 3 == 1 ? 512 : 256;
        const int64_t lengths[] = {0, 1, block - 1, block, block + 1, 3 * block + 7};
        for (int j = 0; j < 6; j++)
            one_rule(lengths[j], 1);
        one_rule(i % 5, block + 1);
        one_rule(block / 4 + 1, 3);
    }
    for (int i = 0; i < 3; i++)
        one_rule(18 * PLAN_CHUNK + 7, 2);
}

TEST(rule_states_random_1_thread)
{
    many_rules("1");
}

TEST(rule_states_random_3_threads)
{
    many_rules("3");
}

/* Rows shorter and longer than a chunk, and than an eighth of it, which is the longest of which
 * several share a chunk; as many rows as are worked on together, and some more or fewer. */
static void many_rows(const char *threads)
{
    static const int64_t rows[] = {1, 2, 7, 8, 9, 63, 64, 65, 511, 512, 513, 4095, 4096, 4097};
    bool alone = strcmp(threads, "1") == 0 && !getenv("TEST_RANDOM"); /* some of them */
    setenv("KVSTORE_THREADS", threads, 1);
    seed = test_seed(12);
    for (size_t i = alone; i < sizeof rows / sizeof *rows; i += 1 + alone) {
        int64_t row = rows[i], batch = row <= PLAN_CHUNK / 8 ? PLAN_CHUNK / row : 8;
        const int64_t counts[] = {1, batch - 1, batch, batch + 1, 2 * batch + 3};
        for (int j = 0; j < 5; j++)
            for (int tries = 0; tries < (row < 4000 ? 1 + test_random(999) / 1000 : 1); tries++)
                one_rule_of(true, counts[j], row);
    }
}

TEST(rule_states_rows_1_thread)
{
    many_rows("1");
}

TEST(rule_states_rows_3_threads)
{
    many_rows("3");
}

/* Arrays that threads share. */
TEST(rule_states_rows_shared)
{
    static const int64_t rows[] = {3, 600, 4097};
    setenv("KVSTORE_THREADS", "3", 1);
    seed = test_seed(13);
    for (int i = 0; i < 3; i++)
        one_rule_of(true, (1 << 17) / rows[i] + 5, rows[i]);
}
