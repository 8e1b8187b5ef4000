/* Texts of a session, and errors with places in them. */
#include "session/unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/utf8.h"
#include "session/visit.h"

int unit_err(const session *s, const ast *node, kv_err *e, kv_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    kv_err_vset(e, code, fmt, ap);
    va_end(ap);
    unit_at(s, node, e);
    return code;
}

int unit_too_deep(const session *s, const ast *node, kv_err *e)
{
    return unit_err(s, node, e, KV_E_VALUE,
                    "calls, blocks and files are nested deeper than the stack allows");
}

/* A hint of the library names functions of C: says what does the same in the shell. */
static void say_in_the_shell(kv_err *e)
{
    static const char *const words[][2] = {
        {"kv_array_to_dense", "dense(a)"},
        {"kv_create", "create --name NAME"},
        {"kv_pull gives all of it; kv_init or kv_push", "pull gives all of it; init or push"},
        {"kv_set_gradient_compression without pull", "set-gradient-compression without --pull"},
        {"kv_set_gradient_compression", "set-gradient-compression"},
        {"kv_set_optimizer", "set-optimizer"},
    };
    kv_err told = *e;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *at = strstr(told.hint, words[i][0]);
        if (!at)
            continue;
        e->hint[0] = '\0';
        kv_err_hint(e, "%.*s%s%s", (int)(at - told.hint), told.hint, words[i][1],
                    at + strlen(words[i][0]));
        return;
    }
}

int unit_at(const session *s, const ast *node, kv_err *e)
{
    if (e->hint[0])
        say_in_the_shell(e);
    if (s->unit && node)
        source_at(&s->unit->src, node->pos, node->end, e);
    return e->code;
}

const char *unit_text(char out[UNIT_TEXT], const unit *u, const ast *node)
{
    size_t n = node->end - node->pos, kept = n <= 40 ? n : utf8_cut(u->src.text + node->pos, n, 40);
    for (size_t i = 0; i < kept; i++) {
        char c = u->src.text[node->pos + i];
        out[i] = c == '\n' ? ' ' : c;
    }
    snprintf(out + kept, UNIT_TEXT - kept, "%s", kept < n ? "…" : "");
    return out;
}

int unit_of_text(session *s, unit **out, const char *name, char *text, size_t n, kv_err *e)
{
    unit *u = mem_zalloc(1, sizeof *u, e);
    char *copy = u ? mem_text(name, strlen(name), e) : NULL;
    if (!copy) {
        mem_free(u);
        mem_free(text);
        return KV_E_MEMORY;
    }
    u->src = (source){.name = copy, .text = text, .len = (uint32_t)n, .line = 1, .col = 1};
    u->src.mark = &u->mark;
    u->next = s->units;
    s->units = u;
    *out = u;
    return KV_OK;
}

static void unlink_unit(session *s, const unit *u)
{
    unit **at = &s->units;
    while (*at && *at != u)
        at = &(*at)->next;
    if (*at)
        *at = u->next;
}

void unit_drop(session *s, unit *u)
{
    if (!u || u->kept)
        return;
    kv_assert(s->unit != u, "%s is released while it runs", u->src.name);
    if (s->visit && s->visit->in == u)
        visit_begin(s, NULL);
    if (s->out.recorder.unit == u)
        s->out.recorder.unit = NULL;
    if (s->asked_in == u)
        s->asked_in = NULL;
    unlink_unit(s, u);
    arena_release(&u->nodes);
    mem_free((char *)u->src.text);
    mem_free((char *)u->src.name);
    mem_free(u);
}

void unit_failed(session *s, unit *u)
{
    unlink_unit(s, u);
    u->next = s->units;
    s->units = u;
}

/* ---- Details of a failure ---- */

/* The begin of a line that names a caller. A recursion that failed names the same ones over and
 * over, so of more than CALLERS_MAX the innermost and the outermost are shown. */
#define CALLER      "  in "
#define CALLERS_MAX 10

static void put_caller(session *s, const struct ast *node)
{
    int line, col;
    source_locate(&s->unit->src, node->pos, &line, &col);
    buf_printf(&s->detail, CALLER "%s:%d", s->unit->src.name, line);
}

void session_caller(session *s, const struct ast *node)
{
    put_caller(s, node);
    buf_char(&s->detail, '\n');
}

void session_caller_of_rule(session *s, const struct ast *node, const kv_err *e)
{
    int first, last, col;
    source_locate(&s->unit->src, node->pos, &first, &col);
    source_locate(&s->unit->src, node->end, &last, &col);
    if (e->line == 0 ||
        (strcmp(e->file, s->unit->src.name) == 0 && e->line >= first && e->line <= last))
        return;
    put_caller(s, node);
    if (e->has_key && e->key_is_text)
        buf_printf(&s->detail, ", key \"%s\"", e->key_name);
    else if (e->has_key)
        buf_printf(&s->detail, ", key %lld", (long long)e->key_id);
    buf_char(&s->detail, '\n');
}

/* Appends n lines, and returns what stands behind them. */
static const char *put_lines(buf *out, const char *text, int64_t n)
{
    for (; n > 0; n--) {
        size_t length = strcspn(text, "\n") + 1;
        buf_put(out, text, length);
        text += length;
    }
    return text;
}

void session_details(const session *s, buf *out)
{
    const char *at = buf_text(&s->detail), *last = at;
    while (*at) {
        int64_t callers = 0; /* lines from here on that name callers; last: where the last begins */
        for (const char *text = at; strncmp(text, CALLER, strlen(CALLER)) == 0; callers++) {
            last = text;
            text += strcspn(text, "\n") + 1;
        }
        if (callers > CALLERS_MAX) {
            put_lines(out, at, CALLERS_MAX - 1);
            buf_printf(out, "  and %lld more\n", (long long)(callers - CALLERS_MAX));
            at = last;
            callers = 1;
        }
        at = put_lines(out, at, callers ? callers : 1);
    }
}
