/* Commands that take paths, patterns and raw words, and those that answer: by a command of the test
 * that shows what it was given. */
#include "language.h"
#include "test.h"

#include "eval/eval_keys.h"
#include "out/record.h"
#include "run/run.h"
#include "session/session.h"
#include "session/unit.h"
#include "syntax/read_unit.h"

static int add_words(rows *table, const char *part, const words *given, kv_err *e)
{
    int code = KV_OK;
    for (int64_t i = 0; i < given->n && code == KV_OK; i++)
        if ((code = rows_add_text(table, part, e)) == KV_OK)
            code = rows_add_text(table, given->items[i].text, e);
    return code;
}

/* A table of the words; the answer is no unless --brief was given. */
static int cmd_scan(session *s, const ast *call, result *out, kv_err *e)
{
    static const rows_column columns[] = {{"part", NULL}, {"text", NULL}};
    static const char *const options[] = {"rename", "out"};
    rows table = {columns, 2, NULL, 0, 0};
    words paths = {0}, more = {0};
    buf text = {0};
    int code = eval_words(s, call->kid[0], "a path", out, &paths, e);
    if (code == KV_OK)
        code = eval_words(s, call->kid[1], "a path", out, &paths, e);
    if (code == KV_OK)
        code = eval_words(s, call->kid[2], "a pattern", out, &more, e);
    if (code == KV_OK)
        code = add_words(&table, "path", &paths, e);
    if (code == KV_OK)
        code = add_words(&table, "glob", &more, e);
    for (int i = 0; i < 2 && code == KV_OK; i++) {
        words given = {0};
        if ((code = eval_option_words(s, call, options[i], "a text", out, &given, e)) == KV_OK)
            code = add_words(&table, options[i], &given, e);
    }
    int64_t n = table.n / 2;
    code = result_table(out, &text, &table, code, e);
    bool yes = command_option_of(call, "brief") != NULL;
    return code ? code : result_answer(out, yes, e, "%d words were given", (int)n);
}

static const command scan = {
    .name = "scan",
    .args = {{ARG_PATH, "A", false}, {ARG_PATH, "B", false}, {ARG_PATHS, "GLOB...", true}},
    .options = {{"rename", OPTION_RAWS, "s/RE/TO/"},
                {"out", OPTION_PATH, "FILE"}, {"rtol", OPTION_VALUE, "R"},
                {"brief", OPTION_FLAG, NULL}},
    .flags = COMMAND_GIVES,
    .run = cmd_scan,
};

/* A session whose first command is the one above. */
static session new_session(void)
{
    static command table[128];
    session s;
    int n = 0;
    language_init();
    table[n++] = scan;
    for (const command *c = registry.commands; c->name && n < 127; c++)
        table[n++] = *c;
    registry.commands = table;
    session_init(&s);
    s.out.quiet = true;
    return s;
}

#define own_session OWN(end_session) session
static void end_session(session *s)
{
    session_release(s);
    language_init();
}

/* typed: run in the place of the text, or NULL. */
static int run_as(session *s, const char *name, buf *out, const char *text, shell_words *typed,
                  kv_err *e)
{
    sink taken = {.kind = SINK_TAKES};
    unit *u = NULL;
    sink_push(s, &taken);
    int rc = typed ? unit_read_words(s, &u, typed, e)
                   : unit_read(s, &u, name, mem_text(text, strlen(text), e), strlen(text), 1, NULL,
                               e);
    if (!rc)
        rc = unit_run(s, u, e);
    sink_pop(s, &taken);
    buf_put(out, buf_text(&taken.text), taken.text.len);
    buf_release(&taken.text);
    return rc;
}

static int run_in(session *s, buf *out, const char *text, kv_err *e)
{
    return run_as(s, "test", out, text, NULL, e);
}

/* Checks the words that `scan TEXT` gets: "path a|glob b". */
static void check(const char *text, const char *want)
{
    own_session s = new_session();
    own_buf out = {0}, line = {0}, got = {0};
    buf_printf(&line, "x = 3; p = \"a b\"; l = [\"u\", \"v\"]; scan --brief %s", text);
    CHECK_OK(run_in(&s, &out, buf_text(&line), &e));
    for (const char *c = buf_text(&out); *c; c += strcspn(c, "\n"), c += *c == '\n') {
        size_t part = strcspn(c, " "), blanks = strspn(c + part, " ");
        size_t rest = strcspn(c + part + blanks, "\n");
        if (got.len > 0)
            buf_char(&got, '|');
        buf_printf(&got, "%.*s %.*s", (int)part, c, (int)rest, c + part + blanks);
    }
    CHECK_TEXT(buf_text(&got), want);
}

static void check_error(const char *text, kv_code code, const char *want, const char *hint)
{
    kv_err e = {0};
    own_session s = new_session();
    own_buf out = {0};
    int rc = run_in(&s, &out, text, &e);
    CHECK_TEXT(e.hint, hint);
    CHECK_FAILED(rc, code, want);
}

static void refused(const char *text, kv_code code, const char *want)
{
    check_error(text, code, want, "");
}

TEST(script_command_paths)
{
    check("m/ ../x/y.safetensors", "path m/|path ../x/y.safetensors");
    check("- ~/a+b", "path -|path ~/a+b");
    check("1 2.5e3 [0-9]?? *norm* model.layers.[!0-9].mlp **",
          "path 1|path 2.5e3|glob [0-9]??|glob *norm*|glob model.layers.[!0-9].mlp|glob **");
    check("a,b=c:d@e%f^g k#l {a,b}.npz", "path a,b=c:d@e%f^g|path k#l|glob {a,b}.npz");
    check("'a b' \"c'd\" $p (p + \"c\") $l f\"{p}!\"",
          "path a b|path c'd|glob a b|glob a bc|glob u|glob v|glob a b!");
    check("a b c --rename s/x/y/ d e --out o f",
          "path a|path b|glob c|glob d|glob e|glob f|rename s/x/y/|out o");
    check("--out x/y a --rtol 1e-5 b c", "path a|path b|glob c|out x/y");
    check("é/ü \\*", "path é/ü|path \\*");
    check("and if 'in' or", "path and|path if|glob in|glob or");
}

TEST(script_command_raw_words)
{
    check("a b --rename s/(a)\\.b/\\1/ --rename 's/(a)\\.b/\\1/' --rename \"s/ /_/\"",
          "path a|path b|rename s/(a)\\.b/\\1/|rename s/(a)\\.b/\\1/|rename s/ /_/");
    check("a b --rename s|a|b| --rename s#a#b# --rename s;a;b; --rename s>a>b>",
          "path a|path b|rename s|a|b||rename s#a#b#|rename s;a;b;|rename s>a>b>");
    check("a b --rename s/}/{/ --rename s/a|b/c;d/ --rename s/\\//x/ --rename s/->/>/g",
          "path a|path b|rename s/}/{/|rename s/a|b/c;d/|rename s/\\//x/|rename s/->/>/g");
    check("a b --rename *norm*=F32 --rename=K=V --rename x=$HOME'\"(",
          "path a|path b|rename *norm*=F32|rename K=V|rename x=$HOME'\"(");
    check("a b --rename $p --rename (\"a\\tb\") --rename r'\\d' --rename $l --rename ''",
          "path a|path b|rename a b|rename a\tb|rename \\d|rename u|rename v|rename ");
    check("a b --rename bf16; print \"path\", 7; scan --brief a b",
          "path a|path b|rename bf16|path 7|path a|path b");
    check("a b --rename x#y # comment\nscan --brief c d", "path a|path b|rename x#y|path c|path d");
    check("a b --rename x -> v; print \"text\", len(v)", "text 30");
    check("a b --rename {0,1}; if true {scan --brief c d --rename e}",
          "path a|path b|rename {0,1}|path c|path d|rename e");
}

TEST(script_command_word_mistakes)
{
    check_error("scan a", KV_E_USAGE, "scan needs B",
                "usage: scan A B [GLOB...] [--rename s/RE/TO/]... [--out FILE] [--rtol R] "
                "[--brief]");
    refused("scan a b --rename", KV_E_USAGE, "--rename needs a value: --rename s/RE/TO/");
    refused("scan a b --out --brief", KV_E_USAGE, "--out needs a value: --out FILE");
    refused("scan a b --out x --out y", KV_E_USAGE, "--out is given twice");
    refused("scan a b --brief --brief", KV_E_USAGE, "--brief is given twice");
    check_error("scan a b -x", KV_E_USAGE, "`-x` is not an option",
                "! before the line runs it in a shell; a file of this name stands in quotes");
    refused("scan a b c\"d\"", KV_E_SYNTAX, "a blank is needed before `\"d\"`");
    refused("x = 3; scan a $x", KV_E_DTYPE, "a path is a text, not an integer");
    refused("scan a b [1", KV_E_ASSERT, "3 words were given");
    refused("scan a b --rename $y", KV_E_NAME, "there is no variable `y`");
}

/* Words of the shell become a command that has the same words. */
TEST(script_command_words_of_the_shell)
{
    static const char *const texts[] = {
        "plain", "a b", "", "-5", "--brief", "*", "1e-5", "it's", "\"", "\\", "\\1", "a\\", "$x",
        "#", "~", "a\nb", "a\r\nb", "s/(a)/\\1/", "{", "x;y|z>w", "->", "(1)", "'\"\\$",
        "é", "[0-9]", "-l"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        own_session s = new_session();
        shell_words w = {0};
        buf out = {0}, want = {0};
        CHECK(shell_words_begin(&w, "scan"));
        CHECK_OK(shell_words_add(&w, texts[i], true, &e));
        CHECK_OK(shell_words_add(&w, "--rename", false, &e));
        CHECK_OK(shell_words_add(&w, texts[i], false, &e));
        CHECK_OK(shell_words_add(&w, "--out", false, &e));
        CHECK_OK(shell_words_add(&w, texts[i], false, &e));
        CHECK_OK(shell_words_add(&w, "b", false, &e));
        CHECK_OK(shell_words_add(&w, texts[i], true, &e));
        CHECK_OK(shell_words_add(&w, "--brief", false, &e));
        s.out.recorder.on = true;
        CHECK_OK(run_as(&s, "", &out, "", &w, &e));
        s.out.recorder.on = false;
        const char *from = strstr(buf_text(&out), "\"entries\"");
        buf found = {0};
        const char *parts[] = {"path", "path", "glob", "rename", "out"};
        for (int k = 0; k < 5; k++) {
            buf_printf(&found, "%s{\"part\":\"%s\",\"text\":\"", k ? "," : "", parts[k]);
            for (const char *c = k == 1 ? "b" : texts[i]; *c; c++) {
                if (*c == '"' || *c == '\\')
                    buf_char(&found, '\\');
                if (*c == '\n' || *c == '\r')
                    buf_add(&found, *c == '\n' ? "\\n" : "\\r");
                else
                    buf_char(&found, *c);
            }
            buf_add(&found, "\"}");
        }
        buf_printf(&want, "\"entries\":[%s]}\n", buf_text(&found));
        CHECK_TEXT(from, buf_text(&want));
        buf_release(&found);
        buf_release(&want);
        buf_release(&out);
        shell_words_release(&w);
    }
}

/* C takes a row that fills its array to the end, and whoever walks it runs on into what follows. */
static bool has_ends(const command *c)
{
    return !c->options[COMMAND_MAX_OPTIONS].name && c->args[COMMAND_MAX_ARGS].kind == ARG_END;
}

TEST(script_command_rows_end)
{
    command full = scan;
    for (int i = 0; i <= COMMAND_MAX_OPTIONS; i++)
        full.options[i] = scan.options[0];
    CHECK(!has_ends(&full));
    CHECK(has_ends(&scan));
    int n = 0;
    language_init();
    for (const command *c = registry.commands; c->name; c++, n++)
        CHECK_TEXT(has_ends(c) ? "" : c->name, "");
    CHECK(n > 50);
}
