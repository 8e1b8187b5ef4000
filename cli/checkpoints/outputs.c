/* Options of commands that write checkpoints. */
#include "checkpoints/outputs.h"

#include <fnmatch.h>
#include <string.h>

#include "base/num.h"
#include "session/unit.h"

/* ---- Types ----------------------------------------------------------------------------------- */

/* "T" or "GLOB=T": a pattern may hold a = itself, a type does not. */
static int read_rule(session *s, const word *w, result *out, type_rule *rule, kv_err *e)
{
    const char *sign = strrchr(w->text, '=');
    *rule = (type_rule){.at = w->at};
    if (sign && !(rule->glob = arena_text(&out->names, w->text, (size_t)(sign - w->text), e)))
        return KV_E_MEMORY;
    return tensor_type_parse(&rule->to, sign ? sign + 1 : w->text, e) ? unit_at(s, w->at, e)
                                                                      : KV_OK;
}

int type_rules_read(session *s, const ast *call, result *out, type_rules *rules, kv_err *e)
{
    words given = {0};
    int code = eval_option_words(s, call, "dtype", "a dtype", out, &given, e);
    if (code)
        return code;
    rules->items = arena_alloc(&out->names, (size_t)given.n * sizeof *rules->items, e);
    if (!rules->items)
        return KV_E_MEMORY;
    for (; rules->n < given.n && code == KV_OK; rules->n++)
        code = read_rule(s, &given.items[rules->n], out, &rules->items[rules->n], e);
    return code;
}

tensor_type type_rules_of(type_rules *rules, const char *key, tensor_type has)
{
    tensor_type to = has;
    for (int64_t i = 0; i < rules->n; i++) {
        type_rule *r = &rules->items[i];
        bool takes =
            r->glob ? fnmatch(r->glob, key, 0) == 0 : tensor_type_kind(has) == TENSOR_KIND_FLOAT;
        if (takes)
            to = r->to;
        r->matched |= takes;
    }
    return to;
}

bool type_rules_touch(const type_rules *rules, const char *key)
{
    for (int64_t i = 0; i < rules->n; i++)
        if (!rules->items[i].glob || fnmatch(rules->items[i].glob, key, 0) == 0)
            return true;
    return false;
}

int type_rules_check(const session *s, const type_rules *rules, kv_err *e)
{
    for (int64_t i = 0; i < rules->n; i++) {
        const type_rule *r = &rules->items[i];
        if (r->glob && !r->matched)
            return unit_err(s, r->at, e, KV_E_KEY, "no name matches \"%s\"", r->glob);
    }
    return KV_OK;
}

/* ---- Metadata -------------------------------------------------------------------------------- */

static int grow(metadata_list *m, result *out, kv_err *e)
{
    if (m->n < m->cap)
        return KV_OK;
    int64_t cap = m->cap ? m->cap * 2 : 8;
    checkpoint_text *more = arena_alloc(&out->names, (size_t)cap * sizeof *more, e);
    if (!more)
        return KV_E_MEMORY;
    if (m->n > 0)
        memcpy(more, m->items, (size_t)m->n * sizeof *more);
    m->items = more;
    m->cap = cap;
    return KV_OK;
}

int metadata_set(metadata_list *m, const char *name, const char *text, result *out, kv_err *e)
{
    int64_t at = 0;
    const char *copy = arena_text(&out->names, text, strlen(text), e);
    while (at < m->n && strcmp(m->items[at].name, name) != 0)
        at++;
    if (!copy || (at == m->n && grow(m, out, e)))
        return KV_E_MEMORY;
    if (at == m->n) {
        const char *own = arena_text(&out->names, name, strlen(name), e);
        if (!own)
            return KV_E_MEMORY;
        m->items[m->n++].name = own;
    }
    m->items[at].text = copy;
    return KV_OK;
}

static int read_text(session *s, const word *w, result *out, metadata_list *m, kv_err *e)
{
    const char *sign = strchr(w->text, '=');
    if (!sign || sign == w->text) {
        unit_err(s, w->at, e, KV_E_USAGE, "--metadata takes NAME=TEXT, not \"%.64s\"", w->text);
        return kv_err_hint(e, "--metadata format=pt");
    }
    if (strncmp(w->text, "kvstore.", strlen("kvstore.")) == 0)
        return unit_err(
            s, w->at, e, KV_E_VALUE,
            "names that begin with \"kvstore.\" belong to what a store keeps of itself");
    const char *name = arena_text(&out->names, w->text, (size_t)(sign - w->text), e);
    return name ? metadata_set(m, name, sign + 1, out, e) : KV_E_MEMORY;
}

int metadata_read(session *s, const ast *call, result *out, metadata_list *m, kv_err *e)
{
    words given = {0};
    int code = eval_option_words(s, call, "metadata", "a text", out, &given, e);
    for (int64_t i = 0; i < given.n && code == KV_OK; i++)
        code = read_text(s, &given.items[i], out, m, e);
    return code;
}

/* ---- The place ------------------------------------------------------------------------------- */

/* A size such as 5G, 5GB, 1.5g or 300: K, M, G and T are powers of 1000. 0: it is none. */
static int64_t size_of(const char *text)
{
    static const char letters[] = "kKmMgGtT";
    double x;
    size_t n = num_parse(text, strlen(text), NUM_BINARY64, &x, NULL);
    const char *letter = n > 0 && text[n] ? strchr(letters, text[n]) : NULL;
    for (int64_t i = 0; letter && i <= (letter - letters) / 2; i++)
        x *= 1000;
    text += n + (letter != NULL);
    text += *text == 'B' || *text == 'b';
    return n == 0 || *text || !(x >= 1 && x <= 1e18) ? 0 : (int64_t)x;
}

int out_options_read(session *s, const ast *call, const char *to, result *out,
                     checkpoint_out_options *o, kv_err *e)
{
    const ast *at = command_option_of(call, "shard-size");
    const char *size = eval_option_word(s, call, "shard-size", "a size", out, e);
    o->force = command_option_of(call, "force") != NULL;
    o->unsynced = s->writes_unsynced;
    if (!size)
        return e->code;
    if (!*to || to[strlen(to) - 1] != '/') {
        unit_err(s, at, e, KV_E_USAGE, "\"%s\" is one file, and --shard-size cuts into several",
                 to);
        return kv_err_hint(e, "that of a folder ends in /");
    }
    o->shard_bytes = size_of(size);
    if (o->shard_bytes)
        return KV_OK;
    unit_err(s, at, e, KV_E_USAGE, "\"%s\" is no size", size);
    return kv_err_hint(e, "a size is a number of bytes, or 500M, 5G: K, M, G are powers of 1000");
}
