/* Expressions in both modes, texts and paths. */
#include <math.h>

#include "test_lang.h"

/* An expression that is the whole text, in expression mode. */
static bool expression(lang_text *t)
{
    ast *node = parse_expr(&t->p, false);
    if (node && parse_peek(&t->p)->kind != TOK_END)
        node = parse_unexpected(&t->p, "the end");
    if (node)
        lang_dump(&t->out, node, NULL);
    return node != NULL;
}

/* Parses an expression before a redirect, where < and > do not compare. */
static bool shown(lang_text *t)
{
    ast *node = parse_expr(&t->p, true);
    if (!node)
        return false;
    lang_dump(&t->out, node, NULL);
    uint32_t rest = parse_here(&t->p);
    if (rest < t->src.len)
        buf_printf(&t->out, " | %s", t->src.text + rest);
    return true;
}

/* Values in argument mode, up to the end, with ; between them. */
static bool values(lang_text *t)
{
    do {
        ast *node = parse_value(&t->p);
        if (!node)
            return false;
        if (t->out.len > 0)
            buf_add(&t->out, " ; ");
        lang_dump(&t->out, node, NULL);
    } while (parse_peek(&t->p)->kind != TOK_END);
    return true;
}

static bool path(lang_text *t)
{
    ast *node = parse_path(&t->p);
    if (!node)
        return false;
    lang_dump(&t->out, node, NULL);
    uint32_t rest = parse_here(&t->p);
    if (rest < t->src.len)
        buf_printf(&t->out, " | %s", t->src.text + rest);
    return true;
}

static bool literal(lang_text *t)
{
    ast *node = parse_literal(&t->p);
    if (node)
        lang_dump(&t->out, node, NULL);
    return node != NULL;
}

/* ---- The two modes ---- */

TEST(parse_blanks_separate_values)
{
    LANG_TREES(values,
        {"1 -2", "1 ; (- 2)"},                    {"1 +2", "1 ; (+ 2)"},
        {"1-2", "(- 1 2)"},                       {"1 - 2", "(- 1 2)"},
        {"1- 2", "(- 1 2)"},                      {"1+2", "(+ 1 2)"},
        {"1 -2 - 3", "1 ; (- (- 2) 3)"},          {"1\t-2", "1 ; (- 2)"},
        {"1 \\\n-2", "1 ; (- 2)"},                {"1 -\\\n2", "(- 1 2)"},
        {"f(2)", "(f 2)"},                        {"a[0]", "(index a 0)"},
        {"a@gpu(1)", "(@ a (gpu 1))"},            {"a (b)", "a ; b"},
        {"a [0]", "a ; [0]"},                     {"a @f.csv", "a ; (file <f.csv>)"},
        {"a @f.csv b", "a ; (file <f.csv>) ; b"}, {"a b 'c' 1 $d", "a ; b ; \"c\" ; 1 ; d"},
        /* all other signs join */
        {"a * b", "(* a b)"},      {"a *b", "(* a b)"},
        {"2 * -1", "(* 2 (- 1))"}, {"2 * -1 -1", "(* 2 (- 1)) ; (- 1)"},
        {"1 + -2", "(+ 1 (- 2))"},
        {"a / b // c % d ** e", "(% (// (/ a b) c) (** d e))"},
        {"0 .. 3", "(.. 0 3)"}, {"0 .. 3 by 2", "(.. 0 3 2)"},
        {"a == b", "(== a b)"}, {"a <= b", "(<= a b)"},
        {"a >= b c", "(>= a b) ; c"},
        {"a and b or not c", "(or (and a b) (not c))"},
        {"not a b", "(not a) ; b"},
        /* in brackets blanks mean nothing again, and < > compare */
        {"(1 -2) [1 -2, a (b)]", "(- 1 2) ; [(- 1 2) (a b)]"},
        {"f(a < b) a[0 -1]", "(f (< a b)) ; (index a (- 0 1))"},
        {"(a > 0)", "(> a 0)"},
        {"a < b c > -1 d >e", "(< a b) ; (> c (- 1)) ; (> d e)"},
        {"ones(2,3)@gpu(0..3) a.f (b)", "(@ (ones 2 3) (gpu (.. 0 3))) ; (.f a) ; b"},
        {"f(1) (2)", "(f 1) ; 2"}, {"a.f(1) [2]", "(.f a 1) ; [2]"});
}

static bool is_function(const char *name)
{
    return strcmp(name, "ones") == 0 || strcmp(name, "gpu") == 0;
}

static bool values_with_functions(lang_text *t)
{
    t->p.is_function = is_function;
    return values(t);
}

TEST(parse_errors_of_values)
{
    LANG_ERRORS(values_with_functions,
        {"- 1", "1:1-2", "`-` joins two values, but none stands before it"},
        {"ones (2,3)", "1:1-5", "`ones` is a function and stands without its arguments",
         "write no blank before the bracket: ones(…)", KV_E_USAGE},
        {"a@gpu (1)", "1:3-6", "`gpu` is a function and stands without its arguments",
         "write no blank before the bracket: gpu(…)", KV_E_USAGE},
        {"a <", "1:4-5", "the text ends where a value is needed"},
        {"a .T", "1:3-4", "`.` stands where a value is needed"},
        {"1 -", "1:3-4", "`-` joins two values, but none stands before it"},
        {"1 - # c", "1:3-4", "`-` joins two values, but none stands before it"},
        {"1-", "1:3-4", "the text ends where a value is needed"},
        {"--a", "1:1-4", "`--a` stands where a value is needed"});
}

static bool is_file(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".csv") == 0;
}

static bool shown_with_files(lang_text *t)
{
    t->p.is_file = is_file;
    return shown(t);
}

TEST(parse_angles_redirect)
{
    LANG_TREES(shown_with_files,
        {"a > f.csv", "a | > f.csv"}, {"a >> f", "a | >> f"},
        {"a < b", "(< a b)"},         {"a < b.csv", "(< a (.csv b))"},
        {"a > f.x", "(> a (.x f))"},  {"(a > b) > c.csv", "(> a b) | > c.csv"},
        {"f(a > b.csv)[c > d] > e.csv", "(index (f (> a (.csv b))) (> c d)) | > e.csv"},
        {"a >= b > c.csv", "(>= a b) | > c.csv"}, {"a > -", "a | > -"},
        {"a > - # c", "a | > - # c"},             {"a > - 1", "(> a (- 1))"},
        {"a > -1", "(> a (- 1))"},                {"a > $b", "a | > $b"},
        {"a > (b)", "a | > (b)"},                 {"a > 'b'", "a | > 'b'"},
        {"a > [b]", "(> a [b])"},                 {"a > w-{key}.csv", "a | > w-{key}.csv"},
        {"a -> b", "a | -> b"});
    LANG_ERRORS(shown, {"a - > b", "1:5-6", "`>` stands where a value is needed"});
}

/* ---- Texts ---- */

#define UNKNOWN_ESCAPE \
    "unknown escape in a text; known are \\n \\t \\r \\\" \\\\ \\xNN \\uNNNN " \
    "\\u{…}"

TEST(parse_errors_of_escapes)
{
    LANG_ERRORS(expression,
        {"\"\\N{DASH}\"", "1:2-4", UNKNOWN_ESCAPE},
        {"\"\\0\"", "1:2-4", "a text cannot hold this character"},
        {"\"\\x4\"", "1:2-4", UNKNOWN_ESCAPE},  {"\"\\xg0\"", "1:2-4", UNKNOWN_ESCAPE},
        {"\"\\u41\"", "1:2-4", UNKNOWN_ESCAPE}, {"\"\\u{}\"", "1:2-4", UNKNOWN_ESCAPE},
        {"\"\\u{41\"", "1:2-4", UNKNOWN_ESCAPE},
        {"\"\\u{1234567}\"", "1:2-4", UNKNOWN_ESCAPE},
        {"\"\\x00\"", "1:2-6", "a text cannot hold this character"},
        {"\"\\u{0}\"", "1:2-7", "a text cannot hold this character"},
        {"\"\\u{d800}\"", "1:2-10", "a text cannot hold this character"},
        {"\"\\u{110000}\"", "1:2-12", "a text cannot hold this character"});
}

TEST(parse_errors_of_formatted_texts)
{
    LANG_ERRORS(expression,
        {"f\"{a\"", "1:3-4", "the `{` that opens here is not closed"},
        {"f\"x{a:d\"", "1:4-5", "the `{` that opens here is not closed"},
        {"f\"{\"", "1:3-4", "the `{` that opens here is not closed"},
        {"f\"{f(a}\"", "1:7-8", "`}` stands where `)` is needed"},
        {"f\"{(a\"", "1:4-5", "the `(` that opens here is not closed"},
        {"f\"{}\"", "1:4-5", "`}` stands where a value is needed"},
        {"f\"{a b}\"", "1:6-7", "`b` stands where `}` is needed"},
        {"f\"a}\"", "1:4-5", "a single `}` in an f-string; write `}}`"},
        {"f\"}a\"", "1:3-4", "a single `}` in an f-string; write `}}`"},
        {"f\"{1e999}\"", "1:4-9", "1e999 is too large for a number", NULL, KV_E_VALUE},
        {"f\"{a}\\x\"", "1:6-8", UNKNOWN_ESCAPE},
        {"f\"{a!x}\"", "1:6-7", "`x` stands where `r` or `s`, as in {x!r}, is needed"},
        {"f\"{a:{b}\"", "1:3-4", "the `{` that opens here is not closed"},
        {"f\"{a", "1:2-3", "the quote that opens here is not closed"});
}

/* ---- Files and paths ---- */

TEST(parse_files)
{
    LANG_TREES(expression,
        {"@x.csv", "(file <x.csv>)"},
        {"@~/a-b_c/x+1.json", "(file <~/a-b_c/x+1.json>)"},
        {"@-", "(file <->)"}, {"@-x.csv", "(file <-x.csv>)"},
        {"@\"my file.json\"", "(file \"my file.json\")"},
        {"@f\"{a}.csv\"", "(file (f {a} \".csv\"))"}, {"@$name", "(file name)"},
        {"@(a + '.csv')", "(file (+ a \".csv\"))"},
        {"@m.safetensors#fc1.weight", "(file <m.safetensors> \"fc1.weight\")"},
        {"@\"m n.safetensors\"#fc1.weight", "(file \"m n.safetensors\" \"fc1.weight\")"},
        {"@$m#a/b:0-1", "(file m \"a/b:0-1\")"}, {"@m.st#a * 2", "(* (file <m.st> \"a\") 2)"},
        {"@m.st #a", "(file <m.st>)"}, {"[@a.csv, @b.csv]", "[(file <a.csv>) (file <b.csv>)]"},
        {"f(@a.csv)", "(f (file <a.csv>))"}, {"@a.csv*2", "(* (file <a.csv>) 2)"},
        {"@a.csv[0]", "(index (file <a.csv>) 0)"}, {"@\"a.csv\"[0]", "(index (file \"a.csv\") 0)"},
        {"@\"a.csv\".T", "(.T (file \"a.csv\"))"}, {"@a.csv@cpu", "(@ (file <a.csv>) cpu)"},
        {"(@a.csv).T", "(.T (file <a.csv>))"}, {"@\xc3\xa4\xff.csv", "(file <\xc3\xa4\xff.csv>)"});
}

TEST(parse_paths)
{
    LANG_TREES(path, {"x.csv", "<x.csv>"}, {"  /tmp/x-{key}.csv y", "</tmp/x-{key}.csv> | y"},
               {"a.csv}", "<a.csv> | }"}, {"a{b}.csv}", "<a{b}.csv> | }"},
               {"a.csv; b", "<a.csv> | ; b"}, {"'a b'", "\"a b\""}, {"'a b'[0]", "\"a b\" | [0]"},
               {"$a.csv", "a | .csv"}, {"(a).b", "a | .b"});
}

TEST(parse_errors_of_files)
{
    LANG_ERRORS(expression,
        {"@", "1:2-3", "the text ends where a file name is needed"},
        {"@*", "1:2-3", "`*` stands where a file name is needed"},
        {"@\n", "1:2-3", "the statement ends where a file name is needed"},
        {"@a.st#", "1:6-7", "`#` needs the name of a tensor"},
        {"@a.st#x#y", "1:8-9", "the name of a tensor with `#` stands in quotes", "@a.st#\"x#y\""},
        {"@\"a", "1:2-3", "the quote that opens here is not closed"},
        {"@(a", "1:2-3", "the `(` that opens here is not closed"},
        {"@$", "1:2-3", "`$` needs the name of a variable"});
}

/* ---- Literals ---- */

/* The text of an error, its hint and code. */
#define TOO_LARGE "9223372036854775808 is too large for a 64-bit integer", NULL, KV_E_VALUE

TEST(parse_literals)
{
    LANG_TREES(literal, {"1", "1"}, {"-1", "-1"}, {"- 1", "-1"}, {"1.5", "1.5"}, {"-.5", "-0.5"},
               {"-0.0", "-0.0"}, {"true", "true"}, {"false", "false"}, {"none", "none"},
               {"'a'", "\"a\""}, {"inf", "inf"}, {"-inf", "-inf"}, {"nan", "nan"},
               {"pi", "3.141592653589793"}, {"-9223372036854775808", "-9223372036854775808"});
    static const char wanted[] = "`x` stands where a number, text, true, false or none is needed";
    LANG_ERRORS(literal,
        {"x", "1:1-2", wanted},
        {"-x", "1:2-3", "`x` stands where a number is needed"},
        {"-", "1:2-3", "the text ends where a number is needed"},
        {"-'a'", "1:2-5", "`'a'` stands where a number is needed"},
        {"9223372036854775808", "1:1-20", TOO_LARGE},
        {"-9223372036854775809", "1:2-21", "9223372036854775809 is too large for a 64-bit integer",
         NULL, KV_E_VALUE},
        {"-007", "1:2-5", "`007` is not a number",
         "a whole number begins with no 0, as in Python"});
}

TEST(parse_the_smallest_integer)
{
    LANG_TREES(expression, {"-9223372036854775808", "-9223372036854775808"},
               {"- 9223372036854775808 + 1", "(+ -9223372036854775808 1)"},
               {"9223372036854775807", "9223372036854775807"},
               {"--9223372036854775808", "(- -9223372036854775808)"}, {"00 + 01.5", "(+ 0 1.5)"});
    LANG_ERRORS(expression,
        {"-09223372036854775808", "1:2-22", "`09223372036854775808` is not a number",
         "a whole number begins with no 0, as in Python"},
        {"9223372036854775808", "1:1-20", TOO_LARGE},
        {"+9223372036854775808", "1:2-21", TOO_LARGE},
        {"0-9223372036854775808", "1:3-22", TOO_LARGE},
        {"-9223372036854775808 ** 2", "1:2-21", TOO_LARGE},
        {"-1e999", "1:2-7", "1e999 is too large for a number", NULL, KV_E_VALUE},
        {"[1 for 9223372036854775808 gpus]", "1:8-27",
         TOO_LARGE});
}

/* ---- Errors ---- */

TEST(parse_errors_of_expressions)
{
    LANG_ERRORS(expression,
        {"", "1:1-2", "the text ends where a value is needed"},
        {"a +", "1:4-5", "the text ends where a value is needed"},
        {"a + # c", "1:4-5", "the text ends where a value is needed"},
        {"a +\nb", "1:4-5", "the statement ends where a value is needed"},
        {"a +;", "1:4-5", "`;` stands where a value is needed"},
        {"a b", "1:3-4", "`b` stands where the end is needed"},
        {"a = 3", "1:3-4", "`=` stands where the end is needed", "`==` compares"},
        {"a && b", "1:3-4", "`&` does not belong here",
         "`and` joins conditions; a * b joins masks"},
        {"a ^ 2", "1:3-4", "`^` does not belong here", "`**` is the power"},
        {"!a", "1:1-2", "`!` stands where a value is needed",
         "`not a` of a condition, 1 - a of a mask"},
        {"if", "1:1-3", "`if` stands where a value is needed"},
        {"repeat (a)", "1:1-7", "`repeat` stands where a value is needed"},
        {"(x for x in l)", "1:4-7", "there are no generators", "a list: [x for x in l]",
         KV_E_UNSUPPORTED},
        {"{1, 2}", "1:1-2", "there are no sets", "a list: [1, 2]; a dict: {'a': 1, 'b': 2}",
         KV_E_UNSUPPORTED},
        {"a +* 2", "1:4-5", "`*` stands where a value is needed"},
        {"a * ** b", "1:5-7", "`**` stands where a value is needed"},
        {"f(*a)", "1:3-4", "`*` unpacks nothing here",
         "name each item, or take a slice: first = l[0]; rest = l[1:]", KV_E_UNSUPPORTED},
        {"a if b", "1:7-8", "the text ends where `else` is needed",
         "a if c else b; `if c: …` is a statement"},
        {"0..1..2", "1:5-7", "`..` stands where the end is needed"},
        {"a == not b", "1:6-9", "`not` stands where a value is needed"},
        {"$", "1:1-2", "`$` needs the name of a variable"},
        {"$ a", "1:1-2", "`$` needs the name of a variable"},
        {"a.", "1:3-4", "the text ends where the name of a function is needed"},
        {"a.1", "1:2-4", "`.1` stands where the end is needed"},
        {"a@1", "1:3-4", "`1` stands where a device, as in a@gpu(1), is needed"},
        {"(a)(1)", "1:4-5", "only a name can be called"},
        {"f(1)(2)", "1:5-6", "only a name can be called"},
        {"f(in=1)", "1:3-5", "`in` stands where a value is needed"},
        {"f(1=2)", "1:4-5", "`=` stands where `)` is needed", "`==` compares"},
        {"f(,)", "1:3-4", "`,` stands where a value is needed"},
        {"a[]", "1:3-4", "`]` stands where a value is needed"},
        {"a[1:2:3:4]", "1:8-9", "`:` stands where `]` is needed"},
        {"[i for in a]", "1:8-10", "`in` is a word of the language",
         "it has a meaning of its own, so it names nothing else: take in_"},
        {"[i for i of a]", "1:10-12", "`of` stands where `in` is needed"},
        {"[i for 4 tpus]", "1:10-14", "`tpus` stands where `gpus` or `cpus` is needed"},
        {"[i for 'a']", "1:8-11", "`'a'` stands where the name of a variable is needed"},
        {"[i, j for i in a]", "1:7-10", "`for` stands where `]` is needed"},
        {"a --b", "1:3-6", "`--b` stands where the end is needed"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa4z ) x", "1:63-64",
         "`)` stands where the end is needed"},
        {"1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3\xa4z", "1:3-64",
         "`aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa` stands where the end is "
         "needed"});
}

TEST(parse_errors_of_brackets)
{
    LANG_ERRORS(expression,
        {"(", "1:1-2", "the `(` that opens here is not closed"},
        {"a + (1", "1:5-6", "the `(` that opens here is not closed"},
        {"a + (1 +\n\n", "1:5-6", "the `(` that opens here is not closed"},
        {"f(\n[1,\n 2", "2:1-2", "the `[` that opens here is not closed"},
        {"f(a, b", "1:2-3", "the `(` that opens here is not closed"},
        {"f(a=", "1:2-3", "the `(` that opens here is not closed"},
        {"a[1:", "1:2-3", "the `[` that opens here is not closed"},
        {"[a for i in", "1:1-2", "the `[` that opens here is not closed"},
        {"[a for 3", "1:1-2", "the `[` that opens here is not closed"},
        {"(a]", "1:3-4", "`]` stands where `)` is needed"},
        {"(a; b)", "1:3-4", "`;` stands where `)` is needed"},
        {"f(1,\n 2\nb = 3", "3:1-2", "`b` stands where `)` is needed",
         "the `(` that is to be closed stands in line 1, column 2"},
        {"(1\n)]", "2:2-3", "`]` stands where the end is needed"},
        {"[\n(1 2)]", "2:4-5", "`2` stands where `)` is needed",
         "a comma stands between two values"},
        {"[1 2.5]", "1:4-7", "`2.5` stands where `]` is needed",
         "a comma stands between two values"},
        {"f(1 'a')", "1:5-8", "`'a'` stands where `)` is needed",
         "a comma stands between two values"},
        {"a)", "1:2-3", "`)` stands where the end is needed"});
}

/* A text is incomplete when it ends in an open bracket, not because it ends early. */
TEST(parse_incomplete)
{
    static const struct {
        const char *text;
        bool incomplete;
    } rows[] = {{"(", true},        {"f(1,", true},     {"[1, 2\n", true}, {"a[", true},
                {"a + \\\n", true}, {"a + \\", true},   {"a +", false},    {"(1))", false},
                {"(]", false},      {"f\"{a\"", false}, {"'a", false},     {"('a", false},
                {"\"a\\", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        LANG_TEXT(t, rows[i].text);
        CHECK(!expression(&t));
        if (t.p.lx.incomplete != rows[i].incomplete)
            printf("# in: %s\n", rows[i].text);
        CHECK_INT(t.p.lx.incomplete, rows[i].incomplete);
    }
}

/* ---- Limits ---- */

/* Checks that n of something are read and n + 1 refused with message. */
static void check_limit(const char *head, const char *piece, const char *middle, const char *piece2,
                        int n, const char *message)
{
    for (int over = 0; over < 2; over++) {
        own_text *text = lang_repeated(head, piece, n + over, middle, piece2, "");
        LANG_TEXT(t, text);
        ast *node = parse_expr(&t.p, false);
        if (over == (node != NULL))
            printf("# %d of %s: %s\n", n + over, piece, t.e.text);
        CHECK(over == (node == NULL));
        CHECK(!node || parse_peek(&t.p)->kind == TOK_END);
        CHECK_INT(t.e.code, over ? KV_E_SYNTAX : KV_OK);
        CHECK_TEXT(t.e.text, over ? message : "");
        CHECK(!over || t.e.line == 1);
    }
}

TEST(parse_depth)
{
    static const char *const rows[][3] = {
        {"(", "a", ")"},  {"[", "a", "]"},     {"f(", "a", ")"},     {"a[", "0", "]"},
        {"-", "a", ""},   {"+", "a", ""},      {"not ", "a", ""},    {"2**", "a", ""},
        {"g(k=", "a", ")"}, {"x.f(", "a", ")"}, {"[", "a", " for i in b]"}, {"[1, ", "a", "]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_limit("", rows[i][0], rows[i][1], rows[i][2], PARSE_MAX_DEPTH,
                    "nested deeper than 200");
}

TEST(parse_height)
{
    static const char *const rows[] = {"+1", "-1", "*a", "/a", "//a", "%a", " and a", " or a",
                                       "[0]", ".f", "@cpu", ".f(1)", "[:]"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_limit("a", rows[i], "", "", AST_MAX_HEIGHT,
                    "more than 1000 operators one inside the other");
    /* brackets and operators count together */
    check_limit("(((((((((((((((((((a)))))))))))))))))))", "+1", "", "", AST_MAX_HEIGHT,
                "more than 1000 operators one inside the other");
    check_limit("-a", "+1", "", "", AST_MAX_HEIGHT - 1,
                "more than 1000 operators one inside the other");
}

/* Siblings do not count as nesting. */
TEST(parse_wide)
{
    own_text *text = lang_repeated("f(0", ", [1, -2] + (3)", 100000, ")", "", "");
    LANG_TEXT(t, text);
    ast *node = parse_expr(&t.p, false);
    CHECK(node && node->n == 100001);
}

/* Long texts that end wrongly are refused quickly and without a deep stack. */
TEST(parse_long_lines)
{
    static const char *const pieces[] = {"(",    "[",  "-",  "not ", "2**",  "a.",          "a@",
                                         "a[",   "f(", "'",  "\"\\", "f\"{", "1..",         "1.",
                                         "\\\n", "# ", "@a", "a,",   "a+",   "\xff",        "9",
                                         "a ",   "{",  "}",  "f'{{", "$",    "[a for a in "};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        int n = (int)((1 << 18) / strlen(pieces[i]));
        own_text *text = lang_repeated("", pieces[i], n, "", "", "");
        LANG_TEXT(t, text);
        bool ok = expression(&t);
        CHECK(!ok && t.e.code != KV_OK && t.e.text[0] && t.e.line > 0);
    }
}

TEST(parse_no_memory)
{
    static const char text[] =
        "f(a + 1, k=[i*2 for i in 0..3 by 2], b[1:, ...], f\"a{x:.3f}\\n\", "
        "@\"m\"#w, (1, 'a long text that is longer than the room for words'))";
    lang_no_memory(text, expression, 10);
}

/* ---- A whole text ---- */

TEST(parse_expr_text)
{
    own_arena nodes = {0};
    source ok = {.name = "t", .text = "a +\n b # c\n", .len = 11, .line = 1, .col = 1};
    ast *node = MADE(ast, parse_expr_text, &ok, &nodes);
    CHECK_INT(node->kind, AST_BINARY);
    source two = {.name = "t", .text = "a b", .len = 3, .line = 1, .col = 1};
    CHECK_ERR(parse_expr_text(&node, &two, &nodes, &e), KV_E_SYNTAX,
              "`b` stands where the end of the expression is needed");
    CHECK(node == NULL);
    CHECK_INT(parse_expr_text(&node, &two, &nodes, NULL), KV_E_SYNTAX);
}

TEST(parse_words_of_the_language)
{
    static const char *const reserved[] = {
        "if",    "elif",     "else", "for", "in",  "while", "repeat", "def", "return",
        "break", "continue", "and",  "or",  "not", "true",  "false",  "none"};
    double x;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        CHECK(parse_is_reserved(reserved[i]));
    CHECK(!parse_is_reserved("by") && !parse_is_reserved("inf") && !parse_is_reserved("If"));
    CHECK(!parse_is_reserved("updater")); /* pages of MXNet have a variable of this name */
    CHECK(parse_is_constant("inf", 3, &x) && isinf(x));
    CHECK(parse_is_constant("nan", 3, &x) && isnan(x));
    CHECK(parse_is_constant("pi", 2, &x) && x > 3.14 && x < 3.15);
    CHECK(!parse_is_constant("e", 1, &x));
}
