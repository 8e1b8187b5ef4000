/* Statements: commands, control, redirects, the first word that decides. */
#include "language.h"
#include "syntax/function.h"
#include "syntax/read_unit.h"
#include "test_statement.h"

static bool is_function(const char *name)
{
    return function_find(name) != NULL;
}

/* Statements with a blank between them; names of files are not looked up. */
static bool script(lang_text *t)
{
    t->p.is_function = is_function;
    return parse_statements(t);
}

/* The table of section "words and blanks" of the manual. */
TEST(script_parse_blank_rule)
{
    LANG_TREES(script,
        {"init 3 -1", "(init (key 3) [(- 1)])"}, {"init 3 1 - 2", "(init (key 3) [(- 1 2)])"},
        {"init 3,4 1 -2", "(init (keys 3 4) [1 (- 2)])"},
        {"init (3 - 1) 5", "(init (key $(- 3 1)) [5])"},
        {"push 3 ones(2,3)", "(push (key 3) [(ones 2 3)])"},
        {"push 3 a -b (c) [d] @e.csv", "(push (key 3) [a (- b) c [d] (file <e.csv>)])"},
        {"push 3 (a > 0)", "(push (key 3) [(> a 0)])"});
    LANG_ERRORS(script,
        {"init 3 - 1", "1:8-9", "`-` joins two values, but the word before it is a key",
         "init 3 -1, or init (3 - 1) VALUE to compute a key"},
        {"init 3 1 -2", "1:10-12", "init takes one value a key",
         "blanks separate values: a `-` with a blank before it and none behind it begins a new one",
         KV_E_USAGE},
        {"set-optimizer adam(wd=0.1)", "1:19-20", "set-optimizer takes no more arguments",
         "set-optimizer NAME learning_rate=0.1: no brackets", KV_E_USAGE},
        {"merge average a b --output c", "1:1-29", "merge needs --out OUT", "--out, not --output",
         KV_E_USAGE},
        {"pull 3 outt=a", "1:8-12", "`pull` has no option --outt", "did you mean --out?",
         KV_E_USAGE},
        {"push 3 a priorty=1", "1:10-17", "`push` has no option --priorty",
         "did you mean --priority?", KV_E_USAGE},
        {"set-optimizer sgd update=1", "1:19-25", "--update takes no value", NULL, KV_E_USAGE},
        {"push w = a", "1:8-9", "no `=` stands between two arguments", "a blank separates them"},
        {"set-optimizer(\"sgd\", lr=0.1)", "1:1-14", "there is no function `set-optimizer`",
         "`set-optimizer` is a command: set-optimizer [NAME] [--PARAM V]... [--update] [--fresh]",
         KV_E_USAGE},
        {"init 3 1 2", "1:10-11", "init takes one value a key",
         "several keys have commas between them, and their values brackets: init 3,4 [5, 6]",
         KV_E_USAGE},
        {"init 3-1 5", "1:6-9", "`3-1` is not a key",
         "\"3-1\" for a text key, (3-1) to compute one"},
        {"init 03 5", "1:6-8", "`03` is not a key",
         "\"03\" for a text key; a whole number begins with no 0"},
        {"init 3..-05 5", "1:9-12", "`-05` is not a key",
         "\"-05\" for a text key; a whole number begins with no 0"},
        {"init 3a 5", "1:6-8", "`3a` is not a key", "\"3a\" for a text key, (3a) to compute one"},
        {"push 3 ones (2,3)", "1:8-12", "`ones` is a function and stands without its arguments",
         "write no blank before the bracket: ones(…)", KV_E_USAGE},
        {"push 3 - a", "1:8-9", "`-` joins two values, but the word before it is a key",
         "push 3 -a, or push (3 - a) VALUE to compute a key"});
}

/* Hints. */
#define BLOCK       "a block is { … }, or lines indented below a `:`"
#define TAKE(name)  "it has a meaning of its own, so it names nothing else: take " name
#define PRINT_USAGE "usage: print EXPR[, EXPR]..."

TEST(script_parse_errors)
{
    static const lang_error cases[] = {
        /* what the first word decides */
        {"frob 3", "1:1-5", "there is no command `frob`", "`help` lists the commands", KV_E_USAGE},
        {"pul 3", "1:1-4", "there is no command `pul`", "did you mean pull?", KV_E_USAGE},
        {"set-updter a", "1:1-11", "there is no command `set-updter`", "did you mean set-updater?",
         KV_E_USAGE},
        {"elif a { }", "1:1-5", "`elif` follows the block of its `if`"},
        {"else { }", "1:1-5", "`else` follows the block of its `if`",
         "a loop has none: set a name before `break`, and ask for it"},
        {"if = 3", "1:1-3", "`if` is a word of the language", TAKE("if_")},
        {"pi = 3", "1:1-3", "`pi` is a constant", TAKE("pi_")},
        {"true += 3", "1:1-5", "`true` is a word of the language", TAKE("true_")},
        {"a.b = 3", "1:1-4", "an attribute cannot be given a value",
         "of the optimizer in use: kv.set_optimizer(update=True, learning_rate=0.01); else make a "
         "new value", KV_E_USAGE},
        {"a[0].T[1] = 3", "1:1-10", "only a name or an index of one can be given a value"},
        {"a[0].x = 3", "1:1-7", "only a name or an index of one can be given a value"},
        {"a[0", "1:2-3", "the `[` that opens here is not closed"},
        {"a[1.2.3] = 3", "1:3-8", "`1.2.3` is not a number"},
        {"a =", "1:4-5", "the text ends where a value is needed"},
        {"a = \n3", "1:4-5", "the statement ends where a value is needed"},
        {"a = 1 b", "1:7-8", "`b` stands where the end of the statement is needed"},
        {"a = 1 b = 2", "1:7-8", "`b` stands where the end of the statement is needed",
         "`;` or a new line stands between two statements"},
        {"a = 1 }", "1:7-8", "`}` stands where the end of the statement is needed"},
        {"}", "1:1-2", "`}` stands where a value is needed"},
        {")", "1:1-2", "`)` stands where a value is needed"},
        {"/ 3", "1:1-2", "`/` stands where a value is needed"},
        {"./run.sh a", "1:1-2", "`.` stands where a value is needed",
         "!./run.sh runs a program in a shell; source runs a script of kvctl"},
        {"/bin/ls", "1:1-2", "`/` stands where a value is needed",
         "!/bin/ls runs a program in a shell; source runs a script of kvctl"},
        /* commands */
        {"type 3", "1:6-7", "type takes no argument", "usage: type", KV_E_USAGE},
        {"type \"a", "1:6-7", "the quote that opens here is not closed"},
        {"use", "1:1-4", "use needs NAME", "usage: use NAME", KV_E_USAGE},
        {"use a b", "1:7-8", "use takes no more arguments", "usage: use NAME", KV_E_USAGE},
        {"write a", "1:1-8", "write needs FILE", "usage: write VALUE FILE", KV_E_USAGE},
        {"pull w --prioriti 3", "1:8-18", "`pull` has no option --prioriti",
         "did you mean --priority?", KV_E_USAGE},
        {"pull w --out", "1:8-13", "--out needs a value: --out V", NULL, KV_E_USAGE},
        {"pull w -> if", "1:11-13", "`if` is a word of the language", TAKE("if_")},
        {"pull w ->", "1:10-11", "the text ends where the name of a variable is needed"},
        {"pull w >", "1:9-10", "the text ends where a file name is needed"},
        {"pull w |", "1:9-10", "the text ends where a shell command is needed"},
        {"pull w -> v -> u", "1:13-17", "a command takes one redirect", NULL, KV_E_USAGE},
        {"pull w -> v > u.csv", "1:13-20", "a command takes one redirect", NULL, KV_E_USAGE},
        {"pull w --priority 1 --priority 2", "1:21-33", "--priority is given twice", NULL,
         KV_E_USAGE},
        {"pull w - v", "1:8-9", "pull takes no more arguments", "_", KV_E_USAGE},
        {"init w 1 -> v", "1:10-12", "`init` gives nothing to redirect", NULL, KV_E_USAGE},
        {"init w", "1:1-7", "init needs VALUES", "_", KV_E_USAGE},
        {"init w 1'a'", "1:9-12", "a blank is needed before `'a'`"},
        {"init 3 1 $", "1:10-11", "`$` needs the name of a variable"},
        {"write a\"x.csv\"", "1:8-15", "a blank is needed before `\"x.csv\"`"},
        {"print", "1:1-6", "print needs EXPR[, EXPR]...", PRINT_USAGE, KV_E_USAGE},
        {"print a b", "1:9-10", "print takes no more arguments", PRINT_USAGE, KV_E_USAGE},
        {"print a --b", "1:9-12", "`print` has no option --b", PRINT_USAGE, KV_E_USAGE},
        {"print(a", "1:6-7", "the `(` that opens here is not closed"},
        {"push 3 a, b", "1:9-10", "a comma stands between two values",
         "a list and a call have brackets: [5, 6], ones(2,3)"},
        {"set-updater", "1:1-12", "set-updater needs NAME | { RULE }", "_", KV_E_USAGE},
        {"set-updater {", "1:13-14", "the `{` that opens here is not closed"},
        {"!", "1:2-3", "the text ends where a shell command is needed"},
        /* control */
        {"if a", "1:5-6", "the text ends where `{` is needed", BLOCK},
        {"if a\n{ }", "1:5-6", "the statement ends where `{` is needed", BLOCK},
        {"if { }", "1:4-5", "`{` stands where a value is needed"},
        {"if a {\n b = (1\n", "2:6-7", "the `(` that opens here is not closed"},
        {"if a {\n type\n", "1:6-7", "the `{` that opens here is not closed"},
        {"if a { type } rank", "1:15-19", "`rank` stands where the end of the statement is needed",
         "`;` or a new line stands between two statements"},
        {"if a { } else b { }", "1:15-16", "`b` stands where `{` is needed", BLOCK},
        {"for 3 in a { }", "1:5-6", "`3` stands where the name of a variable is needed"},
        {"for i of a { }", "1:7-9", "`of` stands where `in` is needed"},
        {"for pi in a { }", "1:5-7", "`pi` is a constant", TAKE("pi_")},
        {"repeat { }", "1:8-9", "`{` stands where a value is needed"},
        {"repeat 3", "1:9-10", "the text ends where a statement or a block is needed"},
        {"def f { }", "1:7-8", "`{` stands where `(` is needed"},
        {"def f(a", "1:6-7", "the `(` that opens here is not closed"},
        {"def f(3) { }", "1:7-8", "`3` stands where the name of a parameter or `)` is needed"},
        {"def f(a) a", "1:10-11", "`a` stands where `{` is needed", BLOCK},
        {"def if(a) = a", "1:5-7", "`if` is a word of the language", TAKE("if_")},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lang_error want = cases[i];
        if (!want.hint || strcmp(want.hint, "_") != 0) {
            lang_check_error(&want, script);
            continue;
        }
        /* a usage line, which the tests of the command table pin */
        LANG_TEXT(t, want.text);
        CHECK(!script(&t));
        CHECK_INT(t.e.code, want.code ? want.code : KV_E_SYNTAX);
        CHECK_TEXT(t.e.text, want.message);
        CHECK(strncmp(t.e.hint, "usage: ", 7) == 0);
    }
}

/* ---- What a prompt asks ---- */

TEST(script_parse_complete)
{
    language_init();
    static const struct {
        const char *text;
        bool complete;
    } cases[] = {
        {"", true},         {"type", true},
        {"a = (1,", false}, {"a = (1,\n2)", true},
        {"if a {", false},  {"if a {\n type\n", false},
        {"if a {\n b =", false},
        {"if a {\n b = \n", true}, /* a mistake, and no more lines make it good */
        {"if a {\n type\n}", true},         {"set-updater {\n stored = input", false},
        {"init w \\", false},               {"init w \\\n", false},
        {"init w \\\n 3", true},            {"init [5,", false},
        {"init w", true},                   {"a =", true},
        {"if a", true},                     {"pull w ->", true},
        {"print 'a", true},                 {"print ('a", true},
        {"!ls (", true},                    {"def f(a,", false},
        {"updater a(x = 1,", false},        {"# (", true},
        {"f\"{a\"", true},                  {"a[1:", false},
        {"push 3 [ones(2)\n for 4", false}, {"(]", true},
        {"!", true},                        {"?", true},
        {"x = 'a", true},                   {"x = \"\"\"a", false},
        {"x = f'''{a}\n", false},           {"x = r\"\"\"a\n\"\"\"", true},
        {"x = 'a\\\n", false},
        {"kv> for i in 0..1:\n..>     print i", false},
        {"kv> for i in 0..1:\n..>     print i\n0\n1", true}, /* what a page printed ends it */
        {">>> for i in 0..1:\n...     print(i)\n...\n0", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (unit_is_complete(cases[i].text, strlen(cases[i].text)) != cases[i].complete)
            printf("# in: %s\n", cases[i].text);
        CHECK_INT(unit_is_complete(cases[i].text, strlen(cases[i].text)), cases[i].complete);
    }
}

/* ---- Limits ---- */

TEST(script_parse_depth)
{
    static const struct {
        const char *head, *piece, *middle, *piece2;
        int deepest;
    } cases[] = {
        {"", "if a {", "", "}", PARSE_MAX_DEPTH},
        {"", "for i in a {", "", "}", PARSE_MAX_DEPTH},
        {"", "while a {", "", "}", PARSE_MAX_DEPTH},
        {"", "repeat 2 ", "type", "", PARSE_MAX_DEPTH},
        {"if a {}", " elif b {}", "", "", PARSE_MAX_DEPTH - 1},
        {"if a {}", " else if b {}", "", "", PARSE_MAX_DEPTH - 1},
        {"", "def f() {", "", "}", PARSE_MAX_DEPTH}, {"a = ", "(", "1", ")", PARSE_MAX_DEPTH},
        {"push 3 ", "[", "1", "]", PARSE_MAX_DEPTH}, {"a[", "(", "0", ")", PARSE_MAX_DEPTH - 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int over = 0; over < 2; over++) {
            const char *tail = cases[i].head[0] && cases[i].head[1] == '[' ? "] = 1" : "";
            own_text *text = lang_repeated(cases[i].head, cases[i].piece, cases[i].deepest + over,
                                       cases[i].middle, cases[i].piece2, tail);
            LANG_TEXT(t, text);
            if (script(&t) == over)
                printf("# %d of %s: %s\n", cases[i].deepest + over, cases[i].piece, t.e.text);
            CHECK_TEXT(t.e.text, over ? "nested deeper than 200" : "");
        }
    }
}

/* The statement around an expression does not count. */
TEST(script_parse_height)
{
    for (int over = 0; over < 2; over++) {
        own_text *text = lang_repeated("type\nif a { while b { x = 1", "+1", AST_MAX_HEIGHT + over,
                                   "}}", "", "");
        LANG_TEXT(t, text);
        language_init();
        CHECK(over == (statement_parse_all(&t.p) == NULL));
        CHECK_TEXT(t.e.text, over ? "more than 1000 operators one inside the other" : "");
        CHECK_INT(t.e.line, over ? 2 : 0);
        CHECK_INT(t.e.col, over ? 22 : 0);
    }
}

TEST(script_parse_long_lines)
{
    static const char *const pieces[] = {
        "a = 1;", "push 3 a;", "if a {", "repeat 2 ", "}", "!", "?", "a[0]", "pull w ", "--a ",
        "> ", "-> ", "5,", "\r", ";", "def f(", "\xff", "if a {} el", "set-updater {", "updater a{",
        "print a, ", "\\\n", "push 3 ", "=", "'a' "};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        int n = (int)((1 << 18) / strlen(pieces[i]));
        own_text *text = lang_repeated("", pieces[i], n, "", "", "");
        LANG_TEXT(t, text);
        language_init();
        bool ok = statement_parse_all(&t.p) != NULL;
        CHECK(ok == (t.e.code == KV_OK));
        CHECK(ok || (t.e.text[0] && t.e.line > 0));
    }
}

/* A script of a million small lines must fit, and be read in less time than it runs. */
TEST(script_parse_many_lines)
{
    enum { LINES = 50000 };
    own_text *text = lang_repeated("", "push w g\n", LINES, "", "", "");
    LANG_TEXT(t, text);
    language_init();
    const ast *body = statement_parse_all(&t.p);
    CHECK(body && body->n == LINES);
    int64_t a_line = (int64_t)t.nodes.total_bytes / LINES;
    if (a_line > 300)
        printf("# %lld bytes a line\n", (long long)a_line);
    CHECK(a_line <= 300);
}

TEST(script_parse_no_memory)
{
    static const char text[] =
        "create local --name b\ninit w,x{0..3} [1, 2] --priority 1; pull [a, \"b\"] -> v\n"
        "a[0] += f(x, k=1) ; print f\"a{b:d}\", c > d.csv; if a { type | cat\n } elif b { !ls\n } "
        "else { }\n"
        "for i in 0..3 { repeat 2 break }\n def f(a, b) { return a }\nset-updater s --lr_x 3\n"
        "set-updater { if a { state m } else { print m }; stored += input }\n?push\na-b\n[i for i "
        "in a]";
    lang_no_memory(text, script, 10);
    /* Of a look ahead that fails for want of memory nothing is known: no other reading is right. */
    static const char print[] = "print(", rate[] = "set-updater s --lr_x f(",
                      def[] = "def u(key, input, stored) { v = [";
    own_text *call = lang_repeated(print, "ab < 3, ", 200, "1", "", ")");
    own_text *option = lang_repeated(rate, "ab < 3, ", 200, "1", "", ")");
    own_text *body = lang_repeated(def, "ab < 3, ", 200, "1", "", "] }");
    lang_no_memory(call, script, 3);
    lang_no_memory(option, script, 3);
    lang_no_memory(body, script, 3);
}
