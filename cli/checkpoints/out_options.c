/* See out_options.h. */
#include "checkpoints/out_options.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "session/unit.h"

static bool ends_in(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

/* ---- --dtype --------------------------------------------------------------------------------- */

int retypes_read(session *s, const ast *call, result *out, retypes *t, kv_err *e)
{
    int code = eval_option_words(s, call, "dtype", "a dtype", out, &t->given, e);
    if (code)
        return code;
    t->items = arena_alloc(&out->names, (size_t)t->given.n * sizeof *t->items, e);
    if (!t->items)
        return KV_E_MEMORY;
    for (; t->n < t->given.n; t->n++) {
        const word *w = &t->given.items[t->n];
        const char *type = strrchr(w->text, '='); /* no dtype has one, a pattern may */
        convert_type *to = &t->items[t->n];
        *to = (convert_type){0};
        if (type && !(to->glob = arena_text(&out->names, w->text, (size_t)(type - w->text), e)))
            return KV_E_MEMORY;
        if (tensor_type_parse(&to->type, type ? type + 1 : w->text, e))
            return unit_at(s, w->at, e);
    }
    return KV_OK;
}

int retypes_check(const session *s, const retypes *t, kv_err *e)
{
    for (int64_t i = 0; i < t->n; i++) {
        if (t->items[i].glob && !t->items[i].matched)
            return unit_err(s, t->given.items[i].at, e, KV_E_KEY, "no name matches \"%s\"",
                            t->items[i].glob);
    }
    return KV_OK;
}

/* ---- --metadata ------------------------------------------------------------------------------ */

#define OWN_NAMES "kvstore." /* of files of stores */

static int read_text(session *s, const word *w, result *out, checkpoint_text *text, kv_err *e)
{
    const char *equals = strchr(w->text, '=');
    if (!equals) {
        unit_err(s, w->at, e, KV_E_USAGE, "\"%s\" is no NAME=TEXT", w->text);
        return kv_err_hint(e, "--metadata format=pt");
    }
    if (strncmp(w->text, OWN_NAMES, strlen(OWN_NAMES)) == 0)
        return unit_err(s, w->at, e, KV_E_USAGE,
                        "names under " OWN_NAMES " belong to files of stores");
    text->name = arena_text(&out->names, w->text, (size_t)(equals - w->text), e);
    text->text = equals + 1;
    return text->name ? KV_OK : KV_E_MEMORY;
}

int metadata_words_read(session *s, const ast *call, const char *to, result *out,
                        metadata_words *m, kv_err *e)
{
    words given = {0};
    int code = eval_option_words(s, call, "metadata", "a text", out, &given, e);
    if (code)
        return code;
    m->drop = command_option_of(call, "drop-metadata") != NULL;
    m->items = arena_alloc(&out->names, (size_t)given.n * sizeof *m->items, e);
    if (!m->items)
        return KV_E_MEMORY;
    if (given.n > 0 && ends_in(to, ".npz"))
        return unit_err(s, given.items[0].at, e, KV_E_USAGE, "npz files hold no metadata");
    for (; m->n < given.n && code == KV_OK; m->n++)
        code = read_text(s, &given.items[m->n], out, &m->items[m->n], e);
    return code;
}

/* ---- --shard-size ---------------------------------------------------------------------------- */

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
    if (!ends_in(to, "/")) {
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
