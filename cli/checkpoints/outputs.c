/* The options of a checkpoint that is written, and what is said of it. */
#include "checkpoints/outputs.h"

#include <fnmatch.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "session/containers.h"
#include "session/unit.h"
#include "syntax/effect.h"
#include "term/terminal.h"

/* ---- Types ----------------------------------------------------------------------------------- */

/* "T" or "GLOB=T": a pattern may hold a = itself, a type does not. */
static int read_rule(const target *o, const word *w, type_rule *rule, kv_err *e)
{
    const char *sign = strrchr(w->text, '=');
    *rule = (type_rule){.at = w->at};
    if (sign && !(rule->glob = arena_text(&o->out->names, w->text, (size_t)(sign - w->text), e)))
        return KV_E_MEMORY;
    return tensor_type_parse(&rule->to, sign ? sign + 1 : w->text, e) ? unit_at(o->s, w->at, e)
                                                                      : KV_OK;
}

static int read_types(target *o, kv_err *e)
{
    words given = {0};
    type_rules *rules = &o->types;
    TRY(eval_option_words(o->s, o->call, "dtype", "a dtype", o->out, &given, e));
    rules->items = arena_alloc(&o->out->names, (size_t)given.n * sizeof *rules->items, e);
    if (!rules->items)
        return KV_E_MEMORY;
    for (; rules->n < given.n; rules->n++)
        TRY(read_rule(o, &given.items[rules->n], &rules->items[rules->n], e));
    return KV_OK;
}

tensor_type target_type(target *o, const char *key, tensor_type has)
{
    tensor_type to = has;
    type_rules *rules = &o->types;
    first_names_add(&rules->seen, key);
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

int target_check_types(const target *o, kv_err *e)
{
    const type_rules *rules = &o->types;
    for (int64_t i = 0; i < rules->n; i++) {
        const type_rule *r = &rules->items[i];
        if (r->matched)
            continue;
        if (!r->glob) {
            if (rules->seen.n > 0)
                session_note(o->s,
                             "no key has floats, so --dtype %s changes none: "
                             "GLOB=%s is for others",
                             tensor_type_name(r->to), tensor_type_name(r->to));
            continue;
        }
        unit_err(o->s, r->at, e, KV_E_KEY, "no name matches \"%s\"", r->glob);
        first_names_hint(&rules->seen, e);
        return e->code;
    }
    return KV_OK;
}

/* ---- Metadata -------------------------------------------------------------------------------- */

/* Adds a text to the metadata, or puts it in the place of the one with this name. */
static int target_text(target *o, const char *name, const char *text, kv_err *e)
{
    int64_t at = 0;
    arena *names = &o->out->names;
    checkpoint_text own = {name, arena_text(names, text, strlen(text), e)};
    while (at < o->nmetadata && strcmp(o->metadata[at].name, name) != 0)
        at++;
    if (at < o->nmetadata)
        own.name = o->metadata[at].name;
    else if (arena_grow(names, &o->metadata, &o->metadata_cap, at, sizeof *o->metadata, e) ||
             !(own.name = arena_text(names, name, strlen(name), e)))
        return KV_E_MEMORY;
    if (!own.text)
        return KV_E_MEMORY;
    o->metadata[at] = own;
    o->nmetadata += at == o->nmetadata;
    return KV_OK;
}

static int read_text(target *o, const word *w, kv_err *e)
{
    const char *sign = strchr(w->text, '=');
    if (!sign || sign == w->text) {
        unit_err(o->s, w->at, e, KV_E_USAGE, "--metadata takes NAME=TEXT, not \"%.64s\"", w->text);
        return kv_err_hint(e, "--metadata format=pt");
    }
    if (strncmp(w->text, "kvstore.", strlen("kvstore.")) == 0)
        return unit_err(
            o->s, w->at, e, KV_E_VALUE,
            "names that begin with \"kvstore.\" belong to what a store keeps of itself");
    const char *name = arena_text(&o->out->names, w->text, (size_t)(sign - w->text), e);
    return name ? target_text(o, name, sign + 1, e) : KV_E_MEMORY;
}

/* The format of an output that holds no metadata, or NULL. */
static const char *format_without(const char *to)
{
    const char *dot = strrchr(to, '.');
    return dot && (strcmp(dot, ".npz") == 0 || strcmp(dot, ".params") == 0) ? dot + 1 : NULL;
}

static int read_metadata(target *o, kv_err *e)
{
    words given = {0};
    TRY(eval_option_words(o->s, o->call, "metadata", "a text", o->out, &given, e));
    for (int64_t i = 0; i < given.n; i++)
        TRY(read_text(o, &given.items[i], e));
    return KV_OK;
}

int target_check_metadata(const target *o, kv_err *e)
{
    const ast *at = command_option_of(o->call, "metadata");
    const char *format = format_without(o->to.text);
    return at && format ? unit_err(o->s, at, e, KV_E_USAGE, "%s files hold no metadata", format)
                        : KV_OK;
}

int target_metadata(target *o, checkpoint *const *inputs, int n, kv_err *e)
{
    bool drop = command_option_of(o->call, "drop-metadata") != NULL;
    TRY(conversion_metadata(&o->texts, &o->nmetadata, inputs, n, drop, o->metadata, o->nmetadata,
                            e));
    o->metadata = o->texts;
    return KV_OK;
}

/* A note that names the metadata which such an output was written without. */
static void tell_metadata(const target *o)
{
    own_buf names = {0};
    bool patch = command_option_of(o->call, "patch-from"); /* it holds them */
    const char *format = patch ? NULL : format_without(o->to.text);
    for (int64_t i = 0; i < o->nmetadata && format; i++)
        if (strcmp(o->metadata[i].name, "format") != 0 && names.len < 200)
            buf_printf(&names, "%s%.60s", names.len ? ", " : "", o->metadata[i].name);
    if (names.len)
        session_note(o->s, "%s files hold no metadata, so these are left out: %s", format,
                     buf_text(&names));
}

/* ---- The place ------------------------------------------------------------------------------- */

int target_check_path(const target *o, kv_err *e)
{
    TRY(target_check_metadata(o, e));
    if (!checkpoint_out_is_path(o->to.text)) {
        unit_err(o->s, o->to.at, e, KV_E_USAGE, "\"%s\" does not end as a file to write",
                 o->to.text);
        return kv_err_hint(e, OUTPUT_ENDINGS);
    }
    return safe_write(o->s, o->to.text, e) ? unit_at(o->s, o->to.at, e) : KV_OK;
}

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

int target_read_place(target *o, kv_err *e)
{
    const char *to = o->to.text;
    const ast *at = command_option_of(o->call, "shard-size");
    const char *size = eval_option_word(o->s, o->call, "shard-size", "a size", o->out, e);
    o->how.force = command_option_of(o->call, "force") != NULL;
    o->how.unsynced = o->s->writes_unsynced;
    if (!size)
        return e->code;
    if (!*to || to[strlen(to) - 1] != '/') {
        unit_err(o->s, at, e, KV_E_USAGE, "\"%s\" is one file, and --shard-size cuts into several",
                 to);
        return kv_err_hint(e, "that of a folder ends in /");
    }
    o->how.shard_bytes = size_of(size);
    if (o->how.shard_bytes)
        return KV_OK;
    unit_err(o->s, at, e, KV_E_USAGE, "\"%s\" is not a size", size);
    return kv_err_hint(e, "a size is a number of bytes, or 500M, 5G: K, M, G are powers of 1000");
}

int target_read(target *o, const ast *globs, kv_err *e)
{
    TRY(choose_read(o->s, o->call, globs, o->out, &o->chosen, e));
    TRY(read_types(o, e));
    TRY(read_metadata(o, e));
    return target_read_place(o, e);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

#define LOST_NAMES 5 /* that a warning shows of a kind */

int target_begin(target *o, int64_t n, kv_err *e)
{
    o->lost.strict = command_option_of(o->call, "strict") != NULL;
    o->lost.keys = mem_zalloc(n, sizeof *o->lost.keys, e);
    o->keys = arena_alloc(&o->out->names, (size_t)n * sizeof *o->keys, e);
    o->nkeys = n;
    return o->lost.keys && o->keys ? KV_OK : KV_E_MEMORY;
}

/* "3 elements of 2 keys became inf (w, lm_head)", behind what is there. */
static void put_lost(buf *text, const target *o, int kind)
{
    own_buf names = {0};
    int64_t elements = 0, of = 0;
    tensor_type first = TENSOR_F4;
    for (int64_t i = 0; i < o->nkeys; i++) {
        int64_t here = o->lost.keys[i].count[kind];
        if (here == 0)
            continue;
        if (of == 0)
            first = o->keys[i].type;
        if (of < LOST_NAMES)
            buf_printf(&names, "%s%.80s", of ? ", " : "", o->keys[i].name);
        elements += here;
        of++;
    }
    if (of > LOST_NAMES)
        buf_printf(&names, " and %lld more", (long long)(of - LOST_NAMES));
    if (elements > 0) {
        buf_printf(text, "%s%lld %s%s of %lld key%s ", text->len > 0 ? ", " : "",
                   (long long)elements, kind == LOSSES_ROUNDED ? "whole number" : "element",
                   elements == 1 ? "" : "s", (long long)of, of == 1 ? "" : "s");
        if (kind == LOSSES_INF || kind == LOSSES_NAN)
            buf_printf(text, "became %s", kind == LOSSES_INF ? "inf" : "nan");
        else if (kind == LOSSES_SATURATED)
            buf_printf(text, "became the largest that %s holds", tensor_type_name(first));
        else if (kind == LOSSES_ROUNDED)
            buf_printf(text, "%s rounded", elements == 1 ? "was" : "were");
        else
            buf_printf(text, "lost %s in %s", elements == 1 ? "its fraction" : "their fractions",
                       tensor_type_name(first));
        buf_printf(text, " (%s)", buf_text(&names));
    }
}

/* A field of about.lost. */
static int set_lost(value dict, const char *name, value v, kv_err *e)
{
    own_value key = value_none();
    TRY(value_text(&key, name, e));
    return dict_set(dict, key, v, e);
}

static bool has_lost(const losses_key *l)
{
    bool has = false;
    for (int k = 0; k < LOSSES_KINDS; k++)
        has |= l->count[k] > 0;
    return has;
}

int about_add(result *out, const char *name, value v, kv_err *e)
{
    static const rows_column pair[] = {{"name", NULL}, {"value", NULL}};
    if (!out->summary.columns)
        out->summary = (rows){pair, 2, NULL, 0, 0};
    if (rows_add_text(&out->summary, name, e)) {
        value_release(&v);
        return e->code;
    }
    return rows_add(&out->summary, v, e);
}

static int lost_record(const target *o, kv_err *e)
{
    static const char *const fields[] = {"inf", "nan", "saturated", "rounded", "fraction"};
    int64_t sums[LOSSES_KINDS] = {0}, of = 0;
    own_value dict = value_none();
    own_value names = value_none();
    for (int64_t i = 0; i < o->nkeys; i++) {
        for (int k = 0; k < LOSSES_KINDS; k++)
            sums[k] += o->lost.keys[i].count[k];
        of += has_lost(&o->lost.keys[i]);
    }
    TRY(dict_new(&dict, e));
    for (int k = 0; k < LOSSES_KINDS; k++)
        TRY(set_lost(dict, fields[k], value_int(sums[k]), e));
    TRY(value_list_new(&names, VALUE_TUPLE, of, e));
    for (int64_t i = 0, at = 0; i < o->nkeys; i++)
        if (has_lost(&o->lost.keys[i]))
            TRY(value_text(&names.u.list->items[at++], o->keys[i].name, e));
    TRY(set_lost(dict, "keys", names, e));
    return about_add(o->out, "lost", value_ref(dict), e);
}

int target_end(target *o, kv_err *e)
{
    session *s = o->s;
    own_buf text = {0};
    tell_metadata(o);
    /* Scripts stay silent unless -v was given. */
    bool typed = s->unit->src.name[0] == '<' && isatty(STDERR_FILENO) && !s->out.quiet;
    if (typed || s->out.verbose)
        terminal_say("wrote %s: %lld key%s", o->to.text, (long long)o->nkeys,
                     o->nkeys == 1 ? "" : "s");
    for (int k = 0; k < LOSSES_KINDS; k++)
        put_lost(&text, o, k);
    TRY(buf_check(&text, e));
    if (text.len == 0)
        return KV_OK;
    session_warn(s, o->call, "%s", buf_text(&text));
    return lost_record(o, e);
}

/* ---- Files of a model ------------------------------------------------------------------------ */

void target_plan_files(target *o, const checkpoint *c)
{
    size_t n = strlen(o->to.text);
    bool folders = n > 0 && o->to.text[n - 1] == '/' && c && folder_files_has(c);
    if (!folders || command_option_of(o->call, "weights-only"))
        return;
    o->beside.from = c;
    for (int64_t i = 0; i < o->types.n; i++) /* the last --dtype T without a pattern */
        if (!o->types.items[i].glob)
            o->beside.dtype = folder_files_dtype(o->types.items[i].to);
    o->how.files = &o->beside;
}

static int add_names(result *out, const char *member, const char *const *names, int64_t n,
                     kv_err *e)
{
    own_value list = value_none();
    TRY(value_list_new(&list, VALUE_TUPLE, n, e)); /* a plain list in JSON */
    for (int64_t i = 0; i < n; i++)
        TRY(value_text(&list.u.list->items[i], names[i], e));
    return about_add(out, member, value_ref(list), e);
}

/* The first names, and that or how many others there are. */
static void list_names(buf *out, const char *const *names, int64_t n, int64_t most)
{
    for (int64_t i = 0; i < n && i < most; i++)
        buf_printf(out, "%s%s", i ? ", " : "", names[i]);
}

int target_release(target *o, int rc, kv_err *e)
{
    enum { COPIED = 2, LEFT = 5 };
    folder_files *f = &o->beside;
    own_buf text = {0};
    const char *path = f->from ? checkpoint_name(f->from) : "";
    size_t n = strlen(path);
    const char *slash = n > 0 && path[n - 1] != '/' ? "/" : "";
    if (!rc && f->ncopied + f->nleft > 0) {
        if (f->ncopied > 0)
            buf_printf(&text, "copied %lld file%s of %s%s (", (long long)f->ncopied,
                       f->ncopied == 1 ? "" : "s", path, slash);
        else
            buf_printf(&text, "copied no file of %s%s", path, slash);
        list_names(&text, f->copied, f->ncopied, COPIED);
        buf_add(&text, f->ncopied > COPIED ? ", …)" : f->ncopied > 0 ? ")" : "");
        buf_add(&text, f->nleft > 0 ? ", not " : "");
        list_names(&text, f->left, f->nleft, LEFT);
        if (f->nleft > LEFT)
            buf_printf(&text, " and %lld more", (long long)(f->nleft - LEFT));
        if (!(rc = buf_check(&text, e)))
            session_note(o->s, "%s", buf_text(&text));
    }
    if (!rc && f->odd_config)
        session_warn(o->s, o->call, "%s%sconfig.json is not a JSON object: copied as it is", path,
                     slash);
    if (!rc && f->from && !(rc = add_names(o->out, "copied", f->copied, f->ncopied, e)))
        rc = add_names(o->out, "not_copied", f->left, f->nleft, e);
    folder_files_release(f);
    mem_free(o->texts);
    mem_free(o->lost.keys);
    return rc;
}
