/* Assertions of scripts: expected outputs and errors. */
#include <limits.h>
#include <string.h>

#include "cmd/commands.h"
#include "out/diff.h"
#include "eval/eval.h"
#include "out/report.h"
#include "session/unit.h"
#include "run/run.h"

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
    buf expected = {0}, difference = {0};
    (void)out;
    if (!s->out.previous.present) {
        unit_err(s, call, e, KV_E_USAGE, "no statement stands before this `expect`");
        return kv_err_hint(e, "it compares what the statement before it puts out"), KV_E_USAGE;
    }
    s->out.previous.present = false;
    if (s->out.previous.missed) {
        kv_err_set(e, KV_E_UNSUPPORTED, "what a shell command prints is not seen at the prompt");
        return kv_err_hint(e, "write the `expect` into the same entry, or into a script"),
               KV_E_UNSUPPORTED;
    }
    buf_add(&expected, call->kid[0]->u.text);
    diff_normalise(&expected);
    diff_normalise(&s->out.previous.text);
    int code = buf_check(&expected, e) ? KV_E_MEMORY : buf_check(&s->out.previous.text, e);
    if (code == KV_OK && strcmp(buf_text(&expected), buf_text(&s->out.previous.text)) != 0) {
        buf_add(&s->detail, "  - expected, + got\n");
        diff_lines(&difference, buf_text(&expected), buf_text(&s->out.previous.text));
        add_indented(&s->detail, &difference, INT_MAX);
        buf_release(&difference);
        code = kv_err_set(e, KV_E_EXPECT, "the statement before puts out something else");
    }
    buf_release(&expected);
    buf_release(&s->out.previous.text);
    return code;
}

/* The whole report of an error that is not the expected one, as details of ours. */
static void add_report(session *s, const kv_err *got)
{
    buf report = {0};
    report_text(s, got, &report);
    add_indented(&s->detail, &report, REPORT_MAX);
    buf_release(&report);
}

int cmd_expect_error(session *s, const ast *call, result *out, kv_err *e)
{
    const ast *wanted = call->kid[0], *block = call->kid[1];
    kv_err got = {0};
    (void)out;
    if (block->kind == AST_NONE)
        return KV_OK; /* its words alone are the error */
    int code = run_argument(s, block, &got);
    s->out.recorder.failed = false;
    if (code == KV_E_INTERRUPTED || code == KV_E_INTERNAL) {
        *e = got;
        return code;
    }
    if (code == KV_OK && s->leaving)
        return KV_OK;
    if (code == KV_OK)
        return unit_err(s, wanted, e, KV_E_EXPECT, "the block does not fail with `%s`",
                        wanted->u.text);
    if (strcmp(kv_code_name(code), wanted->u.text) == 0) {
        buf_clear(&s->detail);
        s->create_failed = false; /* it was to fail */
        return KV_OK;
    }
    add_report(s, &got);
    return unit_err(s, wanted, e, KV_E_EXPECT, "the block fails with `%s`, not with `%s`",
                    kv_code_name(code), wanted->u.text);
}
