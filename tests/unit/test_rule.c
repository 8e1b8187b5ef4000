/* Tests of rules: what is refused and where, parameters, and what an update does to numbers. */
#include "vm/rule.h"

#include <math.h>

#include "cpu/cpu.h"
#include "lang/parse.h"
#define SHARED_KV_ERR
#include "test.h"
#include "vm/plan_pass.h"

static arena memory;
/* It is filled by helpers, too. */
#undef WITH_KV_ERR
#define WITH_KV_ERR(check) check
static kv_err e;
static source text;

static rule_ast *parsed(const char *rule)
{
    rule_ast *r = NULL;
    text =
        (source){.name = "r.kv", .text = rule, .len = (uint32_t)strlen(rule), .line = 1, .col = 1};
    CHECK_OK(parse_rule(&r, &text, &memory, &e));
    return r;
}

static rule_ast *checked(const char *rule)
{
    rule_ast *r = parsed(rule);
    CHECK_OK(rule_check(r, &text, &memory, &e));
    return r;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* "line:col-end text (hint)" of the refusal of a rule, which is its usage */
static const char *refusal(const char *rule)
{
    static buf out;
    rule_ast *r = parsed(rule);
    memset(&e, 0, sizeof e);
    int rc = rule_check(r, &text, &memory, &e);
    host *values = arena_alloc(&memory, sizeof *values * (size_t)rule_nvalues(r), &e);
    CHECK(values != NULL);
    if (!rc && !(rc = rule_bind(r, NULL, NULL, NULL, 0, values, &memory, &e)))
        rc = rule_check_given(&(rule_binding){r, &text, values, NULL}, &e);
    buf_clear(&out);
    if (rc)
        buf_printf(&out, "%d:%d-%d %s", e.line, e.col, e.end, e.text);
    if (e.hint[0])
        buf_printf(&out, " (%s)", e.hint);
    CHECK_INT(e.code, rc ? KV_E_USAGE : KV_OK);
    memset(&e, 0, sizeof e);
    return buf_text(&out);
}

#define REFUSES(rule, want) CHECK_TEXT(refusal(rule), want)
#define NO_VALUE(name)                                                                             \
    "`" name "` has no value here (give it one above, on every path that leads here)"
#define IF_ARRAY                                                                                   \
    "`if` takes one number, and this is an array (choose element by element: where(condition, a, " \
    "b))"

TEST(rule_check_accepts)
{
    REFUSES("{ stored += input * 2 }", "");
    REFUSES("updater scale(factor = 2.0 in 0 .. 10, name2 = \"x\", c = none) {\n"
            "  if name2 == \"x\" and t > 1 { a = factor } else { a = 1 }\n"
            "  print f\"{key} {a:.2f}\", \"%d %s\" % (t, name)\n"
            "  if endswith(name, \"_bias\") { skip }\n"
            "  if a < 0 { fail \"no\" }\n"
            "  g = clip(input * a, c)\n"
            "  stored -= where(isfinite(g) and g != 0, sqrt(abs(g)) // 1, min(g, 1, 2)) % 3\n"
            "}",
            "");
}

TEST(rule_check_names)
{
    REFUSES("{ stored += inptu }",
            "1:13-18 a rule knows no name `inptu` here (did you mean input?)");
    REFUSES("updater s(factor = 1) { stored += input * facter }",
            "1:43-49 a rule knows no name `facter` here (did you mean factor?)");
    REFUSES("{ if t > 1 { a = 2 }\n stored += input * a }", "2:20-21 " NO_VALUE("a"));
    REFUSES("{ if t > 1 { a = 2 } else if t > 0 { b = 1 } else { a = 3 }\n stored += a }",
            "2:12-13 " NO_VALUE("a"));
    REFUSES("{ stored += a; a = 1 }", "1:13-14 " NO_VALUE("a"));
    REFUSES("{ m = 0.9 * m + input; stored -= m }",
            "1:13-14 `m` has no value here (`state m` above makes it an array that stays "
            "from update to update, of zeros at first)");
    REFUSES("{ state m; m = 0.9 * m + input; stored -= m }", "");
    REFUSES("{ stored += lr * input }", "");
}

TEST(rule_check_kinds)
{
    REFUSES("{ if input > 0 { stored += input } }", "1:6-15 " IF_ARRAY);
    REFUSES("{ if rowmean(input) > 0 { stored += input } }", "1:6-24 " IF_ARRAY);
    REFUSES("{ if sum(input) > 0 { stored += input } }", "");
    /* a name that holds an element anywhere holds one everywhere */
    REFUSES("{ b = input; a = b; if a > 0 { stored += input }; a = 1 }", "1:24-29 " IF_ARRAY);
    REFUSES("{ fail input; stored += input }", "1:8-13 `fail` takes a text, not an array");
    REFUSES("{ print key, input, input + 1; stored += input }", "");
    REFUSES("{ print f\"{input}\"; stored += input }",
            "1:9-19 a text holds what is known before the arrays are read, and this is an "
            "array (print(input, sum(input)) prints values as they are)");
    REFUSES("{ print f\"{sum(input)}\"; stored += input }",
            "1:9-24 a text holds what is known before the arrays are read, and this is a "
            "number that is known only after the arrays are read (print(input, sum(input)) "
            "prints values as they are)");
    REFUSES("{ stored += input * \"a\" }", "1:21-24 a text cannot be computed with arrays");
    REFUSES("{ stored += [1, 2] }",
            "1:13-19 a rule holds numbers, texts and arrays, but not this (operators go "
            "over all elements: stored -= 0.1 * input)");
    REFUSES("{ stored += m[key] }",
            "1:13-19 a rule holds numbers, texts and arrays, but not this (state m is an "
            "array for each key, 0 at first: state m; m = …)");
    REFUSES("{ a = (1, 2); stored += input }",
            "1:7-13 a rule has no tuples but behind a text and %");
}

/* What a block cannot do of which it is known late whether it runs. */
TEST(rule_check_late_branches)
{
#define LATE(what)                                                                                 \
    what " stands in an `if` on a number that is known only after the arrays are read (there "     \
         "names get values, or `skip` leaves the key as it is)"
    REFUSES("{ if sum(input) > 1 { print 1 }; stored += input }", "1:23-30 " LATE("`print`"));
    REFUSES("{ if sum(input) > 1 { if t > 1 { fail \"x\" } }; stored += input }",
            "1:34-42 " LATE("`fail`"));
    REFUSES("{ if sum(input) > 1 { rows present }; stored += input }",
            "1:23-35 " LATE("`rows present`"));
    REFUSES("{ if sum(input) > 1 { state m; stored += m } }",
            "1:29-30 " LATE("a state that begins"));
    REFUSES("{ state key n; if sum(input) > 1 { n = 2 }; stored += n }",
            "1:36-41 " LATE("a state that is one number"));
#undef LATE
    REFUSES("{ if sum(input) > 1 { x = 2 }; stored += x }", "1:42-43 " NO_VALUE("x"));
    static const char undone[] = "the `skip` of an `if` on a number that is known only after the "
                                 "arrays are read does not undo this (`state NAME`, an array that "
                                 "begins with a number, can be left as it was)";
    own_buf want = {0};
    buf_printf(&want, "1:49-55 %s", undone);
    REFUSES("{ state key n; if isnan(sum(input)) { skip }   ;n += 1; stored += n }",
            buf_text(&want));
    buf_clear(&want);
    buf_printf(&want, "1:9-18 %s", undone);
    REFUSES("{ state m = input; if sum(input) > 1 { skip }; stored += m }", buf_text(&want));
}

TEST(rule_check_writes)
{
    REFUSES("{ x = input }",
            "1:1-14 the rule never writes `stored` (for example: stored += input)");
    REFUSES("{ input = 1; stored += input }", "1:3-12 `input` is given and keeps its value");
    REFUSES("{ t += 1; stored += input }",
            "1:3-9 `t` is given and keeps its value (it counts the updates of the key "
            "already, with this one)");
    REFUSES("updater s(f = 1) { f += 1; stored += input }",
            "1:20-26 `f` is a parameter and keeps its value");
}

TEST(rule_check_functions)
{
    REFUSES("{ stored += sqr(input) }",
            "1:13-23 a rule knows no function `sqr` (did you mean sqrt?)");
    REFUSES("{ stored += sqrt(input, 2) }", "1:13-27 sqrt takes 1 argument, not 2");
    REFUSES("{ stored += clip(input) }", "1:13-24 clip takes 2 to 3 arguments, not 1");
    REFUSES("{ stored += norm(input) }", "");
    REFUSES("{ stored += norm(2) }", "1:13-20 norm takes an array, and this holds none");
    REFUSES("{ if sparse(key) { skip }; stored += input }",
            "1:6-17 sparse takes `input` or `stored`");
    REFUSES("{ stored += clip(input, c=1) }", "1:25-28 functions of rules take no named arguments");
    REFUSES("{ stored += mean(input, axis=0) }",
            "1:25-31 functions of rules take no named arguments (colmean(x) is mean(x, "
            "axis=0), and rowmean(x) is mean(x, axis=1))");
    REFUSES("{ stored += dot(input, stored) }",
            "1:13-31 a rule knows no function `dot` (for example: matmul(x, T(y)))");
    REFUSES("{ stored += max(t) }", "1:13-19 max takes an array, and this holds none");
    REFUSES("{ stored += endswith(input, \"a\") }", "1:13-33 endswith takes texts, not arrays");
}

TEST(rule_check_states)
{
    REFUSES("{ state m; state key n = 2; m = input; stored += m * n }", "");
    REFUSES("{ if t > 1 { state m; stored += m } else { state m; stored -= m } }", "");
    REFUSES("{ state m; state m; stored += m }", "1:18-19 state m is declared twice");
    REFUSES("{ state input; stored += input }",
            "1:9-14 `input` is taken, so no state can be called so");
    REFUSES("{ state key n; n = input; stored += input }",
            "1:16-25 state n is set before the arrays are read, and this is an array "
            "(`state n` keeps an array, also one that a sum or norm fills)");
    REFUSES("{ state shared n = 0.0; n = norm(input); stored += n }",
            "1:25-40 state n is set before the arrays are read, and this is a number that "
            "is known only after the arrays are read (`state n` keeps an array, also one that a "
            "sum or norm fills)");
    REFUSES("{ if t > 1 { state m }; stored += m }", "1:35-36 " NO_VALUE("m"));
}

/* Whether a state is refused because absent rows would not know what it begins with. */
static bool begins_late(const char *rule)
{
    return strstr(refusal(rule), "begins with what absent rows do not have") != NULL;
}

TEST(rule_check_states_that_begin_behind_rows_present)
{
    REFUSES("{ rows present; state m = 0.5; stored += m * input }", "");
    REFUSES("{ rows present; g = 2 * input; state m = g + stored; stored += m }", "");
    REFUSES("{ rows present; n = norm(input); state m = n * stored; stored += m }", "");
    REFUSES("{ state m = stored; rows present; stored += m }", "");
    REFUSES("{ rows present; stored = 1; state m = stored; stored = m }",
            "1:35-45 state m begins with what absent rows do not have behind `rows "
            "present` (declare it above `rows present`, or begin with a number)");
    CHECK(begins_late("{ rows present; stored += 1; g = stored; state m = g; stored = m }"));
    CHECK(begins_late("{ rows present; state m; state v = m; stored = v }"));
    CHECK(begins_late("{ rows present; state row h = rowmean(input); stored = h }"));
    /* on one path is enough, but not on another one */
    CHECK(begins_late("{ if t > 1 { rows present; stored = 1 }; state m = stored; stored = m }"));
    CHECK(!begins_late("{ if t > 1 { rows present; stored = 1 }\n"
                       "  else { state m = input; stored = m } }"));
}

TEST(rule_check_params)
{
    REFUSES("updater s(key = 1) { stored += input }",
            "1:11-18 `key` is given, so no parameter can be called so");
    REFUSES("updater s(base_lr = 0.1) { stored += input * base_lr }",
            "1:11-24 `base_lr` is given, so no parameter can be called so (call it learning_rate)");
    REFUSES("updater s(a = 1, a = 2) { stored += input * a }",
            "1:18-23 there are two parameters `a`");
    REFUSES("updater s(a = 3 in 0 .. 1) { stored += input * a }",
            "1:11-26 the default of `a` lies outside its range");
    REFUSES("updater s(a = \"x\" in 0 .. 1) { stored += input }", "1:11-28 a range is of numbers");
    REFUSES("updater s(wd = 0.1) { stored += input * wd }", "");
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static const char *const param_rule =
    "updater scale(factor = 2.0 in 0.0 .. 10.0, steps = 3, on = true, mode = \"sum\", c = none) {\n"
    "  stored += input * factor * steps }";

static int bind(const char *name, const char *value, host *out)
{
    rule_ast *r = parsed(param_rule);
    static host values[16];
    int rc = rule_bind(r, NULL, &name, &value, 1, values, &memory, &e);
    for (int i = 0; !rc && i < r->nparams; i++)
        if (strncmp(r->params[i].name, name, 2) == 0)
            *out = values[i];
    return rc;
}

/* The text stays until the call after the next, so that two can be compared. */
static const char *printed(host x)
{
    static buf texts[2];
    static int turn;
    buf *out = &texts[turn ^= 1];
    buf_clear(out);
    host_print(out, x, true);
    return buf_text(out);
}

static const char *bound(const char *name, const char *value)
{
    host x;
    CHECK_OK(bind(name, value, &x));
    return printed(x);
}

TEST(rule_bind_values)
{
    CHECK_TEXT(bound("factor", "0.5"), "0.5");
    CHECK_TEXT(bound("factor", "3"), "3.0");
    CHECK_TEXT(bound("steps", "-4"), "-4");
    CHECK_TEXT(bound("on", "false"), "False");
    CHECK_TEXT(bound("mode", "mean"), "'mean'");
    CHECK_TEXT(bound("c", "1.5"), "1.5");
    CHECK_TEXT(bound("c", "none"), "None");
    rule_ast *r = parsed(param_rule);
    host values[16];
    CHECK_OK(rule_bind(r, NULL, NULL, NULL, 0, values, &memory, &e));
    CHECK(values[0].u.number == 2 && values[1].u.integer == 3 && values[4].kind == HOST_NONE);
    r = parsed("updater s(max_norm = 1) { stored += input }");
    const char *dashed = "max-norm", *seven = "7";
    CHECK_OK(rule_bind(r, NULL, &dashed, &seven, 1, values, &memory, &e));
    CHECK_INT(values[0].u.integer, 7);
}

TEST(rule_bind_errors)
{
    static const struct {
        const char *name, *value;
        kv_code code;
        const char *text, *hint;
    } cases[] = {
        {"factr", "1", KV_E_USAGE, "scale has no parameter `factr`", "did you mean factor?"},
        {"factor", "abc", KV_E_DTYPE, "parameter factor takes a number, not \"abc\"", ""},
        {"factor", "11", KV_E_VALUE, "parameter factor must lie in 0.0 .. 10.0, not 11", ""},
        {"factor", "nan", KV_E_VALUE, "parameter factor must lie in 0.0 .. 10.0, not nan", ""},
        {"steps", "1.5", KV_E_DTYPE, "parameter steps takes an integer, not \"1.5\"", ""},
        {"steps", "99999999999999999999", KV_E_DTYPE,
         "parameter steps takes an integer, not \"99999999999999999999\"", ""},
        {"on", "maybe", KV_E_DTYPE, "parameter on takes true or false, not \"maybe\"", ""},
        {"c", "x", KV_E_DTYPE, "parameter c takes a number or none, not \"x\"", ""},
    };
    host x;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = bind(cases[i].name, cases[i].value, &x);
        CHECK_TEXT(e.hint, cases[i].hint);
        CHECK_ERR(rc, cases[i].code, cases[i].text);
    }
}

/* ---- Updates --------------------------------------------------------------------------------- */

/* The first update of key 7, and the third of key w. */
#define FIRST   ((rule_given){.key = {7, NULL}, .t = 1})
#define THIRD_W ((rule_given){.key = {0, "w"}, .t = 3})

static int make(const char *rule, kv_dtype dtype, rule_given given, rule_update *u)
{
    rule_ast *r = checked(rule);
    static host values[16];
    CHECK_OK(rule_bind(r, NULL, NULL, NULL, 0, values, &memory, &e));
    rule_binding b = {r, &text, values, NULL};
    given.dtype = dtype;
    given.row = 1;
    return rule_case_make(&b, &given, true, u, NULL, &e);
}

typedef struct given_input {
    const void *data;
    kv_dtype dtype;
} given_input;

static const void *input_at(void *arg, int64_t from, int64_t n, void *room)
{
    const given_input *in = arg;
    (void)n, (void)room;
    return (const char *)in->data + from * kv_dtype_bytes(in->dtype);
}

/* Runs the rule on memory of its dtype. */
static void update(const char *rule, kv_dtype dtype, void *stored, const void *input, int64_t n)
{
    rule_update u;
    CHECK_OK(make(rule, dtype, (rule_given){.key = {7, NULL}, .t = 1, .row = 1, .size = n}, &u));
    own_mem void *scratch = mem_alloc_data(plan_scratch_bytes(u.plan, n, 0), &e);
    plan_arrays a = {.stored = stored, .stored_dtype = dtype, .size = n, .row = 1,
                     .input = input_at, .input_dtype = dtype, .arg = &(given_input){input, dtype}};
    plan_run(u.plan, &a, scratch);
    rule_update_release(&u);
}

/* The result of the rule for stored = x and input = y, as text. */
static const char *number(const char *rule, kv_dtype dtype, double x, double y)
{
    char stored[8], input[8];
    double result;
    convert_elements(stored, dtype, &x, KV_FLOAT64, 1);
    convert_elements(input, dtype, &y, KV_FLOAT64, 1);
    update(rule, dtype, stored, input, 1);
    convert_elements(&result, KV_FLOAT64, stored, dtype, 1);
    return printed(host_float(result));
}

static const char *f32(const char *rule, double x, double y)
{
    return number(rule, KV_FLOAT32, x, y);
}

TEST(rule_update_none_and_texts)
{
    CHECK_TEXT(
        f32("updater s(c = none) { stored = where(c > 0, 1, 2) + (c == none) + (c != none) }", 0,
            0),
        "3.0");
    CHECK_TEXT(
        f32("updater s(m = \"a\") { stored = input * (m == \"a\") + endswith(m, \"b\") }", 0, 4),
        "4.0");
    /* the text that is made for the first argument stays whole while the others are evaluated */
    CHECK_TEXT(f32("{ stored = input * endswith(f\"{key}_weight\", \"x\", \"_weight\") }", 0, 4),
               "4.0");
    rule_update u;
    CHECK_ERR(make("updater s(c = none) { stored = input * c }", KV_FLOAT32, FIRST, &u), KV_E_DTYPE,
              "none cannot be computed with arrays");
    int rc = make("updater s(m = \"a\") { stored = input * m }", KV_FLOAT32, FIRST, &u);
    int col = e.col;
    CHECK_ERR(rc, KV_E_DTYPE, "a text cannot be computed with arrays");
    CHECK_INT(col, 39); /* m, not input */
}

TEST(rule_update_integer_refusals)
{
    static const struct {
        const char *rule;
        kv_code code;
        const char *text;
        int col;
    } cases[] = {
        {"{ stored += input / 2 }", KV_E_DTYPE,
         "a rule on a key of int32 computes in integers, which have no `/`", 13},
        {"{ stored += sqrt(input) }", KV_E_DTYPE,
         "a rule on a key of int32 computes in integers, which have no sqrt", 13},
        {"{ stored += input * 0.5 }", KV_E_DTYPE,
         "a rule on a key of int32 reads only whole numbers", 21},
        {"{ stored += input * 3000000000 }", KV_E_VALUE, "3000000000 does not fit into int32", 21},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rule_update u;
        int rc = make(cases[i].rule, KV_INT32, FIRST, &u);
        CHECK_INT(e.col, cases[i].col);
        CHECK_ERR(rc, cases[i].code, cases[i].text);
    }
}

TEST(rule_update_prints_skips_fails)
{
    rule_update u;
    CHECK_OK(
        make("{ print \"update on key: %d\" % key; print t, name, 0.5; skip; stored += input }",
             KV_FLOAT32, (rule_given){.key = {7, NULL}, .t = 3}, &u));
    CHECK_TEXT(buf_text(&u.printed), "update on key: 7\n3  0.5\n");
    CHECK(u.skipped && u.plan == NULL);
    rule_update_release(&u);
    CHECK_OK(make("{ print f\"{key}/{name}: {t:03d} {1/3:.2f}\"; stored += input }", KV_FLOAT32,
                  THIRD_W, &u));
    CHECK_TEXT(buf_text(&u.printed), "w/w: 003 0.33\n");
    rule_update_release(&u);
    int rc =
        make("{ if t == 3 { fail \"no \" + name }; stored += input }", KV_FLOAT32, THIRD_W, &u);
    CHECK_INT(e.line, 0);
    CHECK_ERR(rc, KV_E_VALUE, "no w");
}

/* A branch on a number that is known only after the arrays are read. */
TEST(rule_update_branches_late)
{
    static const char clip[] = "{ g = input; if norm(g) > 5 { g *= 5 / norm(g) }; stored += g }";
    CHECK_TEXT(f32(clip, 1, 4), "5.0");
    CHECK_TEXT(f32(clip, 1, 20), "6.0");
    static const char chain[] = "{ if sum(input) > 10 { x = 1 } else if sum(input) > 5 and t == 1 "
                                "{ x = 2; if max(1, t) == 1 { x += 10 } } else { x = 3 }; "
                                "stored = x }";
    CHECK_TEXT(f32(chain, 0, 11), "1.0");
    CHECK_TEXT(f32(chain, 0, 6), "12.0");
    CHECK_TEXT(f32(chain, 0, 5), "3.0");
    /* a nan is true, as in Python, and what is not taken leaves no trace */
    CHECK_TEXT(f32("{ x = 1; if sum(input) { x = 2 }; stored = x }", 0, NAN), "2.0");
    CHECK_TEXT(f32("{ x = 1; if sum(input) > 0 { x = sqrt(input) }; stored = x }", 0, -1), "1.0");
    static const char skips[] = "{ if isnan(sum(input)) { skip }; stored += input }";
    CHECK_TEXT(f32(skips, 7, NAN), "7.0");
    CHECK_TEXT(f32(skips, 7, 1), "8.0");
    static const char nested[] =
        "{ if sum(input) > 0 { if sum(input) > 2 { skip } else { stored += 1 } } else { if t > 0 "
        "{ skip } }; stored += 10 }";
    CHECK_TEXT(f32(nested, 0, 3), "0.0");
    CHECK_TEXT(f32(nested, 0, 1), "11.0");
    CHECK_TEXT(f32(nested, 0, -1), "0.0");
    CHECK_TEXT(f32("{ if sum(input) > 0 { skip } else { skip }; stored += 10 }", 4, 3), "4.0");
    CHECK_TEXT(f32("{ stored = mean(input) + size(stored) * 10 + len(input) * 100 }", 0, 2),
               "112.0");
}

TEST(rule_update_host_errors_have_places)
{
    rule_update u;
    int rc = make("{\n  a = 1 // (t - 1)\n  stored += input * a }", KV_FLOAT32, FIRST, &u);
    CHECK_INT(e.line, 2);
    CHECK_INT(e.col, 7);
    CHECK_ERR(rc, KV_E_VALUE, "a number is divided by 0");
    CHECK_ERR(make("{ print \"%d\" % name; stored += input }", KV_FLOAT32,
                   (rule_given){.key = {0, "w"}, .t = 1}, &u),
              KV_E_DTYPE, "%d takes a whole number, not text");
}

/* ---- Passes ---------------------------------------------------------------------------------- */

static bool lies;    /* rules are told where the input lies */
static bool starved; /* no memory can be taken while they run */

/* The rows of a row_sparse input, or NULL: of `input` the first elements are theirs. */
static const int64_t *present;
static int64_t npresent;

/* A rule over arrays with its states, for n elements in rows of `row`. */
static void update_states(const char *rule, float *stored, const float *input, int64_t n,
                          int64_t row, int64_t t, float *const *states, uint32_t have)
{
    rule_ast *r = checked(rule);
    host values[16], numbers[PLAN_MAX_STATES] = {{0}};
    CHECK_OK(rule_bind(r, NULL, NULL, NULL, 0, values, &memory, &e));
    rule_binding b = {r, &text, values, NULL};
    rule_given given = {
        .key = {7, NULL}, .t = t, .row = row, .size = n, .have = have, .numbers = numbers};
    rule_update u;
    given.lr = 0.5;
    given.sparse_input = present != NULL;
    CHECK_OK(rule_case_make(&b, &given, true, &u, NULL, &e));
    plan_arrays a = {.stored = stored, .stored_dtype = KV_FLOAT32, .size = n, .row = row,
                     .input = input_at, .input_dtype = KV_FLOAT32,
                     .input_lies = lies ? input : NULL, .rows = present, .nrows = npresent,
                     .input_rows = input_at, .arg = &(given_input){input, KV_FLOAT32}, .t = t};
    for (int i = 0; i < 2 && states; i++)
        a.states[i] = states[i];
    own_mem void *scratch = mem_alloc_data(plan_scratch_bytes(u.plan, n, 0), &e);
    if (starved)
        WITHOUT_MEMORY(1, (plan_run(u.plan, &a, scratch), KV_OK));
    else
        plan_run(u.plan, &a, scratch);
    rule_update_release(&u);
}

/* Rows that lie apart, and a run of them that is longer than what is added up at a time. */
TEST(plan_sums_present_rows_in_blocks)
{
    enum { ROW = 3, RUN = 20000, ROWS = 40000, N = ROW * ROWS };
    static float stored[N], input[N];
    static int64_t rows[ROWS];
    float total = 0;
    npresent = 0;
    for (int i = 0; i < ROWS; i++)
        if (i < RUN || i % 7 != 0)
            rows[npresent++] = i;
    for (int i = 0; i < npresent * ROW; i += PLAN_CHUNK) {
        float block = 0;
        for (int j = i; j < npresent * ROW && j < i + PLAN_CHUNK; j++)
            block += input[j] = 1.0f / (float)(j + 1);
        total += block;
    }
    present = rows;
    update_states("{ rows present; stored = sum(input) }", stored, input, N, ROW, 1, NULL, 0);
    present = NULL;
    for (int i = 0; i < N; i++)
        CHECK(stored[i] == (i / ROW < RUN || i / ROW % 7 != 0 ? total : 0));
}

/* Every way to run a rule gives the same bits: with values that are kept or not, with sums of the
 * input where it lies, with arrays of less than a group of chunks and of more. */
TEST(plan_lean_has_the_same_bits)
{
    enum { N = 17 * PLAN_CHUNK + 21 };
    static float one[N], two[N], input[N], m[N], copy[N];
    float *states[2] = {m, NULL}, *others[2] = {copy, NULL};
    const char *rule = "{ state m; g = input / norm(input); m = 0.5 * m + g; "
                       "u = g / (sqrt(abs(m)) + 0.125) + stored; v = m / (abs(g) + 2) / 3; "
                       "stored -= 0.25 * norm(stored) / norm(u) * u - v / sum(v) }";
    for (int i = 0; i < N; i++) {
        one[i] = two[i] = (float)(i % 97 - 40) / 7;
        input[i] = (float)(i % 89 - 50) / 3;
        m[i] = copy[i] = (float)(i % 13) / 5;
    }
    update_states(rule, one, input, N, 1, 2, states, 1);
    lies = true;
    update_states(rule, two, input, N, 1, 2, others, 1);
    lies = false;
    CHECK(memcmp(one, two, sizeof one) == 0 && memcmp(m, copy, sizeof m) == 0);
}

/* The part of a large array whose values have no room is computed again; without memory for them
 * the whole array is. */
TEST(plan_keeps_a_part_with_the_same_bits)
{
    const int64_t n = PLAN_KEPT_BYTES / 4 + 3 * PLAN_CHUNK + 21;
    const char *rule =
        "{ u = sqrt(abs(input)) / (abs(stored) + norm(input)); stored -= u / norm(u) }";
    OWN(test_free) float *input = malloc((size_t)n * 4), *want = malloc((size_t)n * 4);
    OWN(test_free) float *stored = malloc((size_t)n * 4);
    for (int64_t i = 0; i < n; i++)
        input[i] = (float)(i % 8191) / 3;
    for (int way = 0; way < 3; way++) { /* not lean, lean, lean without memory */
        float *to = way == 0 ? want : stored;
        lies = way > 0;
        starved = way == 2;
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)(i % 97 - 40) / 7;
        update_states(rule, to, input, n, 1, 1, NULL, 0);
        CHECK(memcmp(to, want, (size_t)n * 4) == 0);
    }
    lies = starved = false;
}

TEST(plan_normal_is_repeatable)
{
    static float one[5000], two[5000], input[5000];
    double sum = 0, squares = 0;
    update_states("{ stored = input + normal(2.0) }", one, input, 5000, 1, 4, NULL, 0);
    update_states("{ stored = input + normal(2.0) }", two, input, 5000, 1, 4, NULL, 0);
    CHECK(memcmp(one, two, sizeof one) == 0);
    for (int i = 0; i < 5000; i++) {
        sum += one[i];
        squares += (double)one[i] * one[i];
    }
    CHECK(fabs(sum / 5000) < 0.15 && fabs(squares / 5000 - 4) < 0.4);
    update_states("{ stored = input + normal(2.0) }", two, input, 5000, 1, 5, NULL, 0);
    CHECK(memcmp(one, two, sizeof one) != 0);
}

TEST(rule_update_no_memory)
{
    rule_ast *r = checked("{ a = \"x\" + \"y\"; print a; if a == \"xy\" { stored += input * 2 } }");
    host values[16];
    CHECK_OK(rule_bind(r, NULL, NULL, NULL, 0, values, &memory, &e));
    rule_binding b = {r, &text, values, NULL};
    rule_given given = {.key = {7, NULL}, .t = 1, .row = 1};
    rule_update u;
    int rc = KV_E_MEMORY, n = 0;
    for (n = 1; n < 30 && rc; n++) {
        memset(&e, 0, sizeof e);
        rc = WITHOUT_MEMORY(n, rule_case_make(&b, &given, true, &u, NULL, &e));
    }
    CHECK(rc == KV_OK && n > 3);
    rule_update_release(&u);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Rules whose programs fold, branch and simplify by values that pushes bring. */
static const char *const varying[] = {
    "{ stored = stored * lr + input / t - wd }",
    "{ stored = (stored - wd) + (input ** lr) * (stored // t) }",
    "{ stored = clip(input, lr) + clip(stored, -t, wd) + clip(stored, wd) }",
    "{ stored = where(t > 2, input, stored) + where(lr, stored, 1) + (input and wd) + (stored or "
    "lr) }",
    "{ stored = min(lr, input) + max(stored, t - 2) + min(input, wd) + max(0 * t, stored) }",
    "{ stored -= lr * -(input * t) - sqrt(abs(input) + wd) / (sqrt(abs(stored)) + lr) }",
    "{ stored -= f64(input * lr + wd) / (lr - t) }",
    "{ a = lr; if t > 2 { a = wd }; b = a and lr or t; stored += input * a ** b }",
    "{ n = round(lr * t); m = min(t, 2) * max(wd, 1); stored += input * n - m + (t == 3) * "
    "floor(wd) }",
    "{ state key n = 1; state shared q = lr; n = n * 2 + t; q -= n / 3; stored += input * (n - q) "
    "}",
    "{ if endswith(name, \"w\", \"b\") == (key == 7) { stored += size(input) } else { stored -= lr "
    "} }",
    "{ stored -= lr * input / (mean(stored) + t) + norm(input) * wd }",
    "{ stored -= max(input) * lr + min(stored) - rowsum(input) * t }",
    "{ z = 1 / (t - 3); stored -= input * z }",
    "{ z = t; if t == 2 { z = none }; stored = where(z == none, stored, input) }",
    "{ z = name + \"x\"; if z == \"bx\" { stored = t } else { stored = lr } }",
    "{ stored = input; if t == 4 { fail f\"not {t}\" } }",
};

enum { CASE_SIZE = 5, CASE_KEPT = 64 };

typedef struct case_run {
    int rc;
    rule_update u;
    kv_err e;
    double stored[CASE_SIZE]; /* elements of any dtype */
} case_run;

static void run_case(case_run *r, kv_dtype dtype, const double *from, const void *input)
{
    plan_arrays a = {.stored = r->stored, .stored_dtype = dtype, .size = CASE_SIZE, .row = 1,
                     .input = input_at, .input_dtype = dtype, .arg = &(given_input){input, dtype},
                     .pool = r->u.pool};
    convert_elements(r->stored, dtype, from, KV_FLOAT64, CASE_SIZE);
    if (r->rc || !r->u.plan)
        return;
    int64_t bytes = plan_scratch_bytes(r->u.plan, CASE_SIZE, 0);
    own_mem void *scratch = mem_alloc_data(bytes, &e);
    plan_run(r->u.plan, &a, scratch);
}

/* The update of a case among those that were kept, or of a new one. */
static void make_of_cases(case_run *r, const rule_binding *b, const rule_given *g, rule_case **kept,
                          uint64_t *pool)
{
    int i = 0;
    while (kept[i] &&
           !(rule_case_fits(kept[i], g, true) && rule_case_update(kept[i], b, g, &r->u, pool)))
        i++;
    r->rc = kept[i] ? KV_OK : rule_case_make(b, g, true, &r->u, &kept[i], &r->e);
}

static void compare_case(const rule_binding *b, rule_given *g, rule_case **kept, host *numbers)
{
    static const double from[CASE_SIZE] = {1, 0, 3, 2, 5}, in[CASE_SIZE] = {0, 2, 1, 4, 3};
    static uint64_t pool[4096];
    double input[CASE_SIZE];
    static case_run old, new;
    memset(&old, 0, sizeof old);
    memset(&new, 0, sizeof new);
    convert_elements(input, g->dtype, in, KV_FLOAT64, CASE_SIZE);
    g->numbers = numbers;
    old.rc = rule_case_make(b, g, true, &old.u, NULL, &old.e);
    make_of_cases(&new, b, g, kept, pool);
    CHECK_INT(new.rc, old.rc);
    CHECK_TEXT(new.e.text, old.e.text);
    CHECK_INT(new.e.col, old.e.col);
    run_case(&old, g->dtype, from, input);
    run_case(&new, g->dtype, from, input);
    CHECK(memcmp(old.stored, new.stored, sizeof old.stored) == 0);
    CHECK(old.u.states == new.u.states &&old.u.skipped == new.u.skipped);
    for (int i = 0; i < 2 && !old.rc; i++) {
        CHECK_INT(new.u.numbers[i].kind, old.u.numbers[i].kind);
        CHECK(memcmp(&new.u.numbers[i].u, &old.u.numbers[i].u, sizeof old.u.numbers[i].u) == 0);
        numbers[i] = old.u.numbers[i];
    }
    g->have |= old.u.states;
    rule_update_release(&old.u);
    rule_update_release(&new.u);
}

/* Whatever the numbers of a push are, a case gives the bits, and the errors, of a rule that is
 * compiled with these numbers. */
TEST(rule_case_gives_the_same_bits)
{
    static const double rates[] = {1, 2, 0.25, 0.1, 0, -0.0, -1, INFINITY, NAN};
    static const kv_dtype dtypes[] = {KV_FLOAT32, KV_FLOAT64, KV_FLOAT16, KV_INT32, KV_UINT8};
    for (size_t k = 0; k < sizeof varying / sizeof *varying * 5; k++) {
        rule_ast *r = checked(varying[k / 5]);
        host values[16], numbers[PLAN_MAX_STATES] = {{0}};
        rule_case *kept[CASE_KEPT] = {NULL};
        CHECK_OK(rule_bind(r, NULL, NULL, NULL, 0, values, &memory, &e));
        rule_binding b = {r, &text, values, NULL};
        rule_given g = {.key = {7, NULL}, .row = 1, .size = CASE_SIZE, .dtype = dtypes[k % 5]};
        for (int i = 0; i < 54; i++) {
            g.t = 1 + i % 6;
            g.lr = rates[i % 9];
            g.wd = rates[i * 5 / 7 % 9];
            g.name = i % 4 == 0 ? "a_w" : i % 4 == 1 ? "b" : NULL;
            g.key = (kv_key){7 + i % 2, i % 7 == 6 ? "b" : NULL};
            compare_case(&b, &g, kept, numbers);
        }
        for (int i = 0; kept[i]; i++)
            rule_case_unref(kept[i]);
    }
}

/* A process that only follows an update makes no plan, and finds the same errors. */
TEST(rule_case_without_a_plan)
{
    rule_ast *r = checked("{ state m; state key n = t; n += lr; stored += input * n }");
    host values[16], numbers[PLAN_MAX_STATES] = {{0}};
    CHECK_OK(rule_bind(r, NULL, NULL, NULL, 0, values, &memory, &e));
    rule_binding b = {r, &text, values, NULL};
    rule_given g = {.key = {7, NULL}, .t = 1, .lr = 0.5, .row = 1, .size = 3, .numbers = numbers};
    rule_update u;
    rule_case *c = NULL;
    CHECK_OK(rule_case_make(&b, &g, false, &u, &c, &e));
    CHECK(c && !u.plan && u.states == 3 && u.numbers[1].u.number == 1.5);
    CHECK(rule_case_fits(c, &g, false) && !rule_case_fits(c, &g, true));
    rule_update_release(&u);
    g.t = 4;
    CHECK(rule_case_update(c, &b, &g, &u, NULL));
    CHECK(!u.plan && u.states == 3 && u.numbers[1].u.number == 4.5);
    rule_update_release(&u);
    rule_case_unref(c);
    r = checked("{ a = sum(input); b = sum(input - a); c = sum(input - b); d = sum(input - c); "
                "f = sum(input - d); g = sum(input - f); h = sum(input - g); i = sum(input - h); "
                "stored = i }");
    b.rule = r;
    CHECK_ERR(rule_case_make(&b, &g, false, &u, &c, &e), KV_E_VALUE,
              "a rule reduces at most 7 times in a row");
    CHECK(!c);
}

TEST(rule_case_no_memory)
{
    rule_ast *r = checked("{ a = t / 3; if name != \"x\" { stored += input * a } }");
    host values[16];
    CHECK_OK(rule_bind(r, NULL, NULL, NULL, 0, values, &memory, &e));
    rule_binding b = {r, &text, values, NULL};
    rule_given given = {.key = {7, NULL}, .t = 1, .row = 1};
    int rc = KV_E_MEMORY, n, without = 0;
    rule_case *c = NULL;
    for (n = 1; n < 60 && (rc || !c); n++) {
        rule_update u;
        memset(&e, 0, sizeof e);
        mem_fail_at(-n);
        rc = rule_case_make(&b, &given, true, &u, &c, &e);
        mem_fail_at(0);
        CHECK(rc == KV_OK || (rc == KV_E_MEMORY && !c));
        without += !rc && !c;
        if (rc == KV_OK)
            rule_update_release(&u);
    }
    CHECK(rc == KV_OK && c && without > 1); /* an update without a case is right all the same */
    rule_case_unref(c);
}

TEST(rule_cuts)
{
    CHECK_INT(rule_cuts(checked("{ stored += input * key }")), RULE_CUT_ANYWHERE);
    CHECK_INT(rule_cuts(checked("{ rows present; stored += input }")), RULE_CUT_BY_ROWS);
    CHECK_INT(rule_cuts(checked("{ if sparse(input) { stored += input } }")), RULE_CUT_BY_ROWS);
    CHECK_INT(rule_cuts(checked("updater g { rows present; state row h; h += rowmean(input); "
                                "stored -= input / h }")),
              RULE_CUT_BY_ROWS);
    CHECK_INT(rule_cuts(checked("{ stored += input / norm(input) }")), RULE_CUT_NOWHERE);
    CHECK_INT(rule_cuts(checked("{ rows present; stored += input + sum(stored) }")),
              RULE_CUT_NOWHERE);
    CHECK_INT(rule_cuts(checked("{ print \"x\"; stored += input }")), RULE_CUT_NOWHERE);
    CHECK_INT(rule_cuts(checked("{ stored += rowsum(input) }")), RULE_CUT_BY_ROWS);
    CHECK_INT(rule_cuts(checked("{ stored += rowmax(input) }")), RULE_CUT_NOWHERE);
    CHECK_INT(rule_cuts(checked("{ state col c; stored += c + input }")), RULE_CUT_NOWHERE);
    CHECK_INT(rule_cuts(checked("{ stored += input / len(input) }")), RULE_CUT_NOWHERE);
}
