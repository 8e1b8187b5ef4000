/* Reading and checking the text of a rule; finding an optimizer by name. */
#include "core/kv_rule.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/kv_assert.h"
#include "base/suggest.h"
#include "lang/parse.h"
#include "vm/rule.h"

static int read_rule(kv_rule *r, const char *text, const char *file, int line, int col, kv_err *e)
{
    size_t len = strlen(text);
    if (len > SOURCE_MAX)
        return kv_err_set(e, KV_E_SYNTAX, "a rule of %zu bytes is too long", len);
    if (!(r->text = mem_text(text, len, e)))
        return KV_E_MEMORY;
    if (file && !(r->file = mem_text(file, strlen(file), e)))
        return KV_E_MEMORY;
    r->src = (source){.name = r->file,
                      .text = r->text,
                      .len = (uint32_t)len,
                      .line = line > 0 ? line : 1,
                      .col = col > 0 ? col : 1};
    int rc = parse_rule(&r->ast, &r->src, &r->memory, e);
    return rc ? rc : rule_check(r->ast, &r->src, &r->memory, e);
}

int kv_rule_new(kv_rule **rule, const char *text, const char *file, int line, int col, kv_err *e)
{
    e = e ? e : &(kv_err){0};
    int rc = arg_given(rule, "rule", e);
    if (rc || (rc = arg_given(text, "text", e)))
        return rc;
    kv_rule *r = mem_zalloc(1, sizeof *r, e);
    if (!r)
        return KV_E_MEMORY;
    r->refs = 1;
    rc = read_rule(r, text, file, line, col, e);
    if (rc)
        kv_rule_free(r);
    else
        *rule = r;
    return rc;
}

kv_rule *kv_rule_ref(kv_rule *r)
{
    __atomic_fetch_add(&r->refs, 1, __ATOMIC_RELAXED);
    return r;
}

void kv_rule_free(kv_rule *r)
{
    if (!r || __atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    arena_release(&r->memory);
    mem_free(r->text);
    mem_free(r->file);
    mem_free(r);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ';'; /* ; is a line's end */
}

/* Skips blanks and comments. A comment begins at the start or behind a blank. */
static const char *skip_blanks(const char *begin, const char *at)
{
    for (;; at++) {
        if (*at == '#' && (at == begin || is_blank(at[-1])))
            at += strcspn(at, "\n");
        if (!is_blank(*at))
            return at;
    }
}

bool kv_rule_same_text(const kv_rule *a, const kv_rule *b)
{
    const char *x = a->text, *y = b->text;
    char quote = 0; /* blanks in a text count */
    for (;; x++, y++) {
        x = quote ? x : skip_blanks(a->text, x);
        y = quote ? y : skip_blanks(b->text, y);
        if (*x != *y || !*x)
            return *x == *y;
        if (quote && *x == '\\' && x[1] && x[1] == y[1])
            x++, y++;
        else if (quote ? *x == quote : *x == '"' || *x == '\'')
            quote = quote ? 0 : *x;
    }
}

int builtin_rule(kv_rule **out, const char *name, kv_err *e)
{
    char file[64];
    for (const builtin_text *t = builtin_texts; t->name; t++) {
        if (strcasecmp(t->name, name) != 0)
            continue;
        snprintf(file, sizeof file, "%s.kvu", t->name);
        return kv_rule_new(out, t->text, file, 1, 1, e);
    }
    kv_err_set(e, KV_E_USAGE, "there is no optimizer `%s`", name);
    suggest near = {.word = name, .by_first_letters = true};
    for (const builtin_text *t = builtin_texts; t->name; t++)
        suggest_add(&near, t->name);
    return suggest_done(&near, e), KV_E_USAGE;
}

const char *kv_optimizer_text(int i, const char **name)
{
    const builtin_text *t = builtin_texts;
    if (i < 0)
        return NULL;
    while (i-- > 0 && t->name)
        t++;
    if (name)
        *name = t->name;
    return t->text;
}
