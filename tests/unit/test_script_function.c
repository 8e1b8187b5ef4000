/* Functions of expressions, through the language: what is printed and what is refused. */
#include "language.h"
#include "syntax/function.h"

#include "cmd/help.h"
#include "run/run.h"
#include "session/session.h"
#include "session/unit.h"
#include "syntax/read_unit.h"
#include "test.h"
#include "vm/element.h"

/* Runs a text in a session; what it prints goes to out. */
static int run_in(session *s, buf *out, const char *text, kv_err *e)
{
    sink taken = {.kind = SINK_TAKES};
    unit *u = NULL;
    char *copy = mem_text(text, strlen(text), e);
    sink_push(s, &taken);
    int rc = unit_read(s, &u, "test", copy, strlen(text), 1, NULL, e);
    if (!rc) {
        rc = unit_run(s, u, e);
        unit_drop(s, u);
    }
    sink_pop(s, &taken);
    buf_put(out, buf_text(&taken.text), taken.text.len);
    buf_release(&taken.text);
    return rc;
}

static session new_session(void)
{
    session s;
    language_init();
    session_init(&s);
    s.out.quiet = true;
    dev_set_virtual_gpus(s.virtual_gpus);
    return s;
}

/* Checks the output of `print EXPRESSION`, without its last newline. */
static void check(const char *expression, const char *want)
{
    OWN(session_release) session s = new_session();
    own_buf out = {0}, text = {0};
    buf_printf(&text, "print %s", expression);
    CHECK_OK(run_in(&s, &out, buf_text(&text), &e));
    if (out.len)
        out.data[--out.len] = '\0';
    CHECK_TEXT(buf_text(&out), want);
}

static void check_error(const char *text, kv_code code, const char *want, const char *hint)
{
    kv_err e = {0};
    OWN(session_release) session s = new_session();
    own_buf out = {0};
    int rc = run_in(&s, &out, text, &e);
    CHECK_TEXT(e.hint, hint);
    CHECK_FAILED(rc, code, want);
}

static void refused(const char *text, kv_code code, const char *want)
{
    check_error(text, code, want, "");
}

TEST(function_table_is_sorted)
{
    language_init();
    CHECK(registry.first[128] > 50);
    for (int i = 0; registry.functions[i].name; i++) {
        const function *f = &registry.functions[i];
        CHECK_TEXT(i == 0 || strcmp(f[-1].name, f->name) < 0 ? "" : f->name, "");
        CHECK(function_find(f->name) == f);
        CHECK(f->help && *f->help && f->help[strlen(f->help) - 1] != '.');
        CHECK((f->call == NULL) == ((f->flags & FUNCTION_ELEMENT) != 0));
        CHECK(!(f->flags & FUNCTION_ELEMENT) || element_find(f->name));
    }
    CHECK(function_find("") == NULL);
    CHECK(function_find("zzz") == NULL);
    CHECK(function_find("one") == NULL);
}

/* Whether the page on rules has a name in its table of functions. */
static bool rules_name(const char *name)
{
    const char *table = strstr(rules_text, "| functions |"), *end = strstr(table, "\n\n");
    size_t n = strlen(name);
    for (const char *s = strstr(table, name); s && s < end; s = strstr(s + 1, name))
        if (strchr("` ", s[-1]) && strchr("` (", s[n]))
            return true;
    return false;
}

/* A function of elements has a line of help, with the parameters that it takes. Rules have some of
 * their own; `help rules` names them all. */
TEST(function_table_has_every_element_function)
{
    language_init();
    for (int i = 0; i < element_function_count; i++) {
        const element_function *f = &element_functions[i];
        const function *help = function_find(f->name);
        if (f->traits & FN_MERGES)
            continue; /* the page on merges has them */
        CHECK_TEXT(rules_name(f->name) ? "" : f->name, "");
        if (element_is_of_rules(f))
            continue;
        CHECK_TEXT(help ? help->name : "", f->name);
        if (!help || !(help->flags & FUNCTION_ELEMENT))
            continue; /* min and max reduce too */
        int min = 0, max = 0;
        for (; help->params[max]; max++)
            min += !strchr(help->params[max], '=');
        CHECK_INT(min, f->min);
        CHECK(max == f->max || f->kind == FN_ENDSWITH);
    }
}

TEST(function_usages)
{
    language_init();
    own_buf b = {0};
    function_usage(&b, function_find("full"));
    buf_char(&b, ' ');
    function_usage(&b, function_find("concat"));
    buf_char(&b, ' ');
    function_usage(&b, function_find("rank"));
    CHECK_TEXT(buf_text(&b), "full(shape, v, dtype=, ctx=) concat(a…, axis=) rank()");
}

TEST(function_arguments)
{
    check_error("ones()", KV_E_USAGE, "ones() takes 1 to 3 arguments, not 0",
                "ones(shape, dtype=, ctx=)");
    check_error("full(2)", KV_E_USAGE, "full() takes 2 to 4 arguments, not 1",
                "full(shape, v, dtype=, ctx=)");
    check_error("astype(1, 2, 3)", KV_E_USAGE, "astype() takes 2 arguments, not 3",
                "astype(a, dtype)");
    check_error("len()", KV_E_USAGE, "len() takes 1 argument, not 0", "len(x)");
    check_error("rank(1)", KV_E_USAGE, "rank() takes no arguments, not 1", "rank()");
    check_error("concat()", KV_E_USAGE, "concat() takes at least 1 argument, not 0",
                "concat(a…, axis=)");
    check_error("ones(2, dtpe=1)", KV_E_USAGE, "ones() has no argument dtpe",
                "did you mean dtype?");
    check_error("ones(2, nothing=1)", KV_E_USAGE, "ones() has no argument nothing",
                "ones(shape, dtype=, ctx=)");
    refused("sum(ones(2), axis=0, axis=1)", KV_E_USAGE, "sum() has the argument axis twice");
    refused("ones(dtype=\"int8\", 2)", KV_E_USAGE,
                "ones() has a plain argument behind a named one");
    check_error("concat(a=[1])", KV_E_USAGE, "concat() has no argument a", "concat(a…, axis=)");
    check_error("ones((2,3), \"int8\", gpu(1), 5)", KV_E_USAGE,
                "ones() takes 1 to 3 arguments, not 4", "ones(shape, dtype=, ctx=)");
    check_error("ones(2, 3, gpu(1), gpu(2), gpu(3))", KV_E_USAGE,
                "ones() takes 1 to 3 arguments, not 4", "ones(shape, dtype=, ctx=)");
    refused("full(2, 3, \"int8\")", KV_E_DTYPE, "a text is not a number");
}

/* Element-wise functions are operators of a tree unless arguments are named. */
TEST(function_named_arguments_of_elements)
{
    check("clip(a_max=2, a_min=0, x=3), clip(3, a_max=2, a_min=0), clip(x=-3, a_min=1)", "2 2 -1");
    check("clip(ones(2)*3, a_min=0, a_max=2), (ones(2)*3).clip(a_max=2, a_min=0)",
          "[2. 2.] [2. 2.]");
    check("where(y=1, x=2, condition=true), maximum(b=1, a=ones(2)*3), sqrt(x=[1, 4])",
          "2 [3. 3.] [1. 2.]");
    check("abs(x=row_sparse(-ones(1,2), [1], shape=(2,2))).sum()", "2.0");
    check_error("abs(y=3)", KV_E_USAGE, "abs() has no argument y", "abs(x)");
    check_error("clip(ones(2), a_max=2)", KV_E_USAGE, "clip() needs the argument a_min",
                "clip(x, a_min, a_max=)");
    refused("clip(a_min=1, 2)", KV_E_USAGE, "clip() has a plain argument behind a named one");
    refused("abs(x={})", KV_E_DTYPE, "abs takes numbers and arrays, not a dict");
    refused("clip(1, {}, 2)", KV_E_DTYPE, "clip takes numbers and arrays, not a dict");
    refused("where(ones(2), 1, [1, \"a\"])", KV_E_DTYPE, "an array holds numbers, not a text");
}

/* Made by an independent program from the definition of Philox4x32-10. */
TEST(function_random)
{
    check("uniform(4, seed=1)", "[0.89025915 0.67199826 0.24740142 0.7576265 ]");
    check("uniform(4, low=-1, high=2, seed=1)",
          "[ 1.6707774   1.0159948  -0.25779575  1.2728794 ]");
    check("uniform(2, seed=1, dtype=\"float64\")", "[0.89025917 0.67199827]");
    check("normal(4, seed=1)", "[-0.4138978  -0.88116354 -0.38374126  0.46265423]");
    check("normal(4, loc=2, scale=3, seed=1)", "[ 0.75830656 -0.6434906   0.84877616  3.3879628 ]");
    check("randint(4, low=-5, high=5, seed=1)", "[ 3  1 -3  2]");
    check("randint(2, high=2).dtype, randint((2,2), 0, 9).shape, uniform().shape, normal(0).shape",
          "int32 (2, 2) () (0,)");
    check("uniform(shape=(2,2), low=3, high=3), uniform((1,2), 5, 5)",
          "[[3. 3.]\n [3. 3.]] [[5. 5.]]");
    check("randint(3, low=-128, high=-127, dtype=\"int8\")", "[-128 -128 -128]");
}

/* Draws without seed= depend on the seed of the session and their number, not on seeded ones. */
TEST(function_random_draws)
{
    OWN(session_release) session s = new_session();
    own_buf out = {0};
    CHECK_OK(run_in(&s, &out, "uniform(1,seed=3); a = uniform(3); print uniform(3)", &e));
    CHECK(strstr(buf_text(&out), "[0.5166791  0.79096925 0.7733471 ]\n") != NULL);
    CHECK_INT(s.draws, 2);
}

/* What no session prints. */
TEST(function_values)
{
    check("linspace(0,1,5), linspace(3,4,1), linspace(0,1,0).shape, linspace(0,1).shape",
          "[0.   0.25 0.5  0.75 1.  ] [3.] (0,) (50,)");
    check("empty(2), zeros(0,3).shape, full(2, v=3), eye(2,3,dtype=\"bool\")",
          "[0. 0.] (0, 3) [3. 3.] [[ True False False]\n [False  True False]]");
    check("ones(2, gpu(1)).ctx, ones(2, gpu(1), \"int8\").dtype, ones(2, \"int8\", gpu(2)).ctx",
          "gpu(1) int8 gpu(2)");
    check("arange(3,1).shape, arange(9007199254740993, 9007199254740994, dtype=\"int64\")",
          "(0,) [9007199254740993]");
    check(
        "array([9007199254740993], \"int64\"), array([1,2], gpu(3)).ctx, array(ones(2,gpu(1))).ctx",
        "[9007199254740993] gpu(3) gpu(1)");
    check("cpu(), gpu(), gpu(3), cpu(0..2), gpu([1,5]), concat(ones(1,gpu(2)), ones(1)).ctx",
          "cpu(0) gpu(0) gpu(3) [cpu(0), cpu(1), cpu(2)] [gpu(1), gpu(5)] gpu(2)");
    check("allclose([1,2],[1,2.00001]), allclose([1,2],[1,2.0001]), "
          "allclose([1,2],[1,2.1],rtol=0.1), allclose(0,1e-9), allclose(0,1e-7), "
          "allclose([1,1],1), allclose([nan],[nan]), allclose([inf],[inf]), allclose([1],[inf])",
          "True False True True False True False True False");
    check("allclose(ones(2,\"int8\"), [1,1]), allclose(zeros(0), ones(0))", "True True");
    check("args(), env(\"NO_SUCH_VARIABLE\"), env(\"NO_SUCH_VARIABLE\", default=5), has(\"3\"), "
          "keys(), type(), rank(), num_workers(), rounds()",
          "[] None 5 False [] local 0 1 0");
}

/* What error-functions and error-values do not show. */
TEST(function_errors)
{
    refused("ones(2, 3.5)", KV_E_DTYPE, "a dtype is a text such as \"float16\", not a float");
    refused("ones(2.5)", KV_E_DTYPE, "a size in a shape is a whole number, not 2.5");
    refused("ones(\"a\")", KV_E_DTYPE, "a shape is integers, as in (2, 3), not a text");
    refused("ones([1, \"a\"])", KV_E_DTYPE, "a size in a shape is an integer, not a text");
    refused("ones(1e300)", KV_E_VALUE, "a size in a shape does not fit into 64 bits: 1e+300");
    refused("ones(4611686018427387904, 4)", KV_E_SHAPE,
            "shape (4611686018427387904, 4) of float32 is too large: more than 2^63 bytes");
    check_error("zeros(2, dtype=\"float17\")", KV_E_DTYPE, "there is no dtype \"float17\"",
                "float32 float64 float16 bfloat16 int8 uint8 int32 int64 bool, and f32 f64 f16 "
                "bf16 i8 u8 i32 i64");
    refused("arange(0, 1, 0)", KV_E_VALUE, "arange() cannot step by 0");
    refused("arange(nan)", KV_E_VALUE, "arange() has no such number of elements");
    refused("arange(inf)", KV_E_VALUE, "arange() has no such number of elements");
    refused("uniform(2, low=1, high=0)", KV_E_VALUE,
                "uniform() takes a low that is not above high");
    refused("uniform(2, dtype=\"int8\")", KV_E_DTYPE, "uniform() makes floats, not int8");
    refused("normal(2, scale=-1)", KV_E_VALUE, "normal() takes a scale that is not negative");
    refused("randint(2)", KV_E_USAGE, "randint() needs high=, as in randint(2,3, high=10)");
    refused("randint(2, high=0)", KV_E_VALUE, "randint() has no number from 0 up to but without 0");
    refused("randint(2, high=300, dtype=\"uint8\")", KV_E_VALUE,
                "299 does not fit into uint8: it holds 0 to 255");
    refused("randint(2, high=3, dtype=\"bool\")", KV_E_DTYPE, "randint() makes integers, not bool");
    refused("uniform(2, seed=\"a\")", KV_E_DTYPE, "seed is an integer, not a text");
    refused("len(3)", KV_E_DTYPE, "an integer has no length");
    refused("len(array(3))", KV_E_SHAPE, "an array of shape () has no length");
    refused("reshape(ones(2,3), 4)", KV_E_SHAPE,
                "an array of shape (2, 3) cannot have the shape (4,)");
    refused("concat([])", KV_E_VALUE, "concat() takes at least one array");
    refused("concat(ones(2), ones(2,2))", KV_E_SHAPE,
                "arrays of shape (2,) and (2, 2) do not join along axis 0");
    refused("split(ones(5), 2)", KV_E_VALUE, "an axis of 5 cannot be split into 2 equal parts");
    refused("split(ones(5), 0)", KV_E_VALUE, "an axis of 5 cannot be split into 0 equal parts");
    refused("transpose(ones(2,3), 0, 0)", KV_E_VALUE,
            "a transpose names every axis once: axis 0 is there twice");
    refused("sum(ones(2), axis=\"a\")", KV_E_DTYPE, "axis is an integer, not a text");
    refused("max(ones(2), 3, axis=0)", KV_E_USAGE, "max() with axis= takes one array");
    refused("dot(ones(2,3), ones(2,3))", KV_E_SHAPE,
            "dot() of shapes (2, 3) and (2, 3): the last axis of the first must be as long as the "
            "first axis of the second");
    check_error("dot(ones(2,3,4), ones(4))", KV_E_SHAPE,
                "dot() of shapes (2, 3, 4) and (4,): the last axis of the first must be as long as "
                "the first axis of the second",
                "dot() takes vectors and matrices");
    refused("gpu(65536)", KV_E_VALUE, "65536 is not a device number: they go from 0 to 65535");
    refused("cpu(\"a\")", KV_E_DTYPE, "a device number is an integer, not a text");
    refused("range(1.5)", KV_E_DTYPE, "a bound of range() is a whole number, not 1.5");
    refused("int(\"1.5\")", KV_E_VALUE, "\"1.5\" is not an integer");
    refused("float(\"abc\")", KV_E_VALUE, "\"abc\" is not a number");
    refused("float(\"\")", KV_E_VALUE, "\"\" is not a number");
    refused("int(\"99999999999999999999\")", KV_E_VALUE,
                "99999999999999999999 does not fit into 64 bits");
    refused("float(\"-1e999\")", KV_E_VALUE, "-1e999 is too large for a number");
    refused("int(nan)", KV_E_VALUE, "int() takes a finite number");
    refused("env(3)", KV_E_DTYPE, "the name of an environment variable is a text, not an integer");
    refused("arange(3)[5]", KV_E_INDEX, "index 5 is out of range: axis 0 has 3");
}

/* Every allocation of a call fails once; nothing is lost and nothing crashes. */
TEST(function_without_memory)
{
    static const char *const texts[] = {
        "a = ones(2,3)", "a = concat(ones(2), [1])", "a = split(arange(4), 2)", "a = range(5)",
        "a = sum(ones(2,3), axis=(0,1))", "a = dot(ones(2,\"int8\"), ones(2))",
        "a = tile([1,2], 2, 2)", "a = allclose(ones(2,3), ones(3))", "a = str(ones(2))",
        "a = gpu([1,2])", "a = keys()"
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int rc = KV_E_MEMORY;
        for (int n = 1; rc && n < 1000; n++) {
            e = (kv_err){0};
            OWN(session_release) session s = new_session();
            sink out = {.kind = SINK_TAKES};
            unit *u = NULL;
            char *copy = mem_text(texts[i], strlen(texts[i]), &e);
            CHECK_OK(unit_read(&s, &u, "test", copy, strlen(texts[i]), 1, NULL, &e));
            sink_push(&s, &out);
            rc = WITHOUT_MEMORY(n, unit_run(&s, u, &e));
            unit_drop(&s, u);
            sink_pop(&s, &out);
            buf_release(&out.text);
        }
        CHECK_INT(rc, KV_OK);
    }
}
