/* Stores in files. Writing takes an image first; reading checks the description, then makes the
 * slots in the order of the keys. */
#include "core/store_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "core/call.h"

#define FORMAT      "1"
#define OURS        "kvstore."
#define PARAM       "kvstore.param."
#define RESERVED    "__"
#define KEY_PREFIX  "__key__/"
#define MAX_OF_OURS 9 /* names of the table that are no parameters */

/* ---- The ascending order of keys ------------------------------------------------------------- */

typedef struct ranked {
    kv_key key;
    int64_t i; /* which slot or tensor */
} ranked;

static int by_key(const void *a, const void *b)
{
    const kv_key *x = &((const ranked *)a)->key, *y = &((const ranked *)b)->key;
    return x->name ? strcmp(x->name, y->name) : (x->id > y->id) - (x->id < y->id);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static const char *tensor_name(store_image *im, const kv_key *key, kv_err *e)
{
    char number[32];
    const char *text = key->name;
    if (!text) {
        snprintf(number, sizeof number, "%lld", (long long)key->id);
        text = number;
    }
    size_t n = strlen(text), prefix = 0;
    if (key->name && strncmp(text, RESERVED, strlen(RESERVED)) == 0)
        prefix = strlen(KEY_PREFIX);
    char *name = arena_alloc(&im->memory, prefix + n + 1, e);
    if (name) {
        memcpy(name, KEY_PREFIX, prefix);
        memcpy(name + prefix, text, n);
    }
    return name;
}

static int add_metadata(store_image *im, const char *name, const char *text, kv_err *e)
{
    const char *n = arena_text(&im->memory, name, strlen(name), e);
    const char *t = n ? arena_text(&im->memory, text, strlen(text), e) : NULL;
    if (t)
        im->metadata[im->nmetadata++] = (safetensors_pair){n, t};
    return t ? KV_OK : KV_E_MEMORY;
}

static int add_list(store_image *im, const char *name, const int64_t *numbers, kv_err *e)
{
    buf text = {0};
    for (int64_t i = 0; i < im->n; i++)
        buf_printf(&text, i ? " %lld" : "%lld", (long long)numbers[i]);
    int rc = buf_check(&text, e);
    if (rc == KV_OK)
        rc = add_metadata(im, name, buf_text(&text), e);
    buf_release(&text);
    return rc;
}

/* The three lists. numbers has room for one a key. */
static int add_lists(store_image *im, const slot_table *t, const ranked *sorted, int64_t *numbers,
                     kv_err *e)
{
    for (int64_t i = 0; i < t->n; i++)
        numbers[i] = t->items[sorted[i].i].pushes;
    int rc = add_list(im, "kvstore.pushes", numbers, e);
    for (int64_t i = 0; i < t->n; i++)
        numbers[i] = t->items[sorted[i].i].updates;
    if (rc == KV_OK)
        rc = add_list(im, "kvstore.updates", numbers, e);
    if (rc || t->n == 0 || !t->items[0].key.name)
        return rc;
    for (int64_t i = 0; i < t->n; i++)
        numbers[sorted[i].i] = i;
    return add_list(im, "kvstore.order", numbers, e);
}

/* Tensors stand in the order of updates: the same keys and values give the same file. */
static int add_keys(store_image *im, const slot_table *t, kv_err *e)
{
    ranked *sorted = mem_alloc(t->n, sizeof *sorted, e);
    int64_t *numbers = sorted ? mem_alloc(t->n, sizeof *numbers, e) : NULL;
    int rc = numbers ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < t->n && rc == KV_OK; i++)
        sorted[i] = (ranked){t->items[i].key, i};
    if (rc == KV_OK)
        qsort(sorted, (size_t)t->n, sizeof *sorted, by_key);
    for (int64_t i = 0; i < t->n && rc == KV_OK; i++) {
        const slot *s = &t->items[t->items[0].key.name ? i : sorted[i].i];
        const char *name = tensor_name(im, &s->key, e);
        if (name)
            im->items[im->n++] = (safetensors_item){name, kv_array_ref(s->stored)};
        else
            rc = KV_E_MEMORY;
    }
    if (rc == KV_OK)
        rc = add_lists(im, t, sorted, numbers, e);
    mem_free(numbers);
    mem_free(sorted);
    return rc;
}

static int add_rule(store_image *im, const optimizer *use, kv_err *e)
{
    int rc = add_metadata(im, "kvstore.updater", "rule", e);
    if (rc == KV_OK)
        rc = add_metadata(im, "kvstore.rule", use->rule->text, e);
    for (int i = 0; i < use->nparams && rc == KV_OK; i++) {
        buf name = {0};
        buf_printf(&name, PARAM "%s", use->params[i].name);
        if ((rc = buf_check(&name, e)) == KV_OK)
            rc = add_metadata(im, buf_text(&name), use->params[i].value, e);
        buf_release(&name);
    }
    return rc;
}

/* GAP: states of rules are not part of the file yet; they would be tensors of their own. */
static int check_states(const slot_table *slots, kv_err *e)
{
    for (int64_t i = 0; i < slots->n; i++) {
        if (!slots->items[i].state)
            continue;
        kv_err_set(e, KV_E_UNSUPPORTED, "the states of the updater cannot be kept in a file yet");
        return kv_err_key(e, &slots->items[i].key);
    }
    return KV_OK;
}

static int add_updater(store_image *im, const updater *u, const slot_table *slots, kv_err *e)
{
    int rc = check_states(slots, e);
    if (rc)
        return rc;
    switch (u->kind) {
    case UPDATER_ASSIGN:
        return add_metadata(im, "kvstore.updater", "assign", e);
    case UPDATER_CALLBACK:
        kv_err_set(e, KV_E_UNSUPPORTED, "a file cannot hold an updater that is a C function");
        kv_err_hint(e, "save before kv_set_updater, or set a rule, whose text goes into the file");
        return KV_E_UNSUPPORTED;
    case UPDATER_RULE:
        return add_rule(im, u->optimizer, e);
    }
    return KV_E_INTERNAL;
}

static int make_room(store_image *im, const kv *store, kv_err *e)
{
    const optimizer *use = store->updater.optimizer;
    int64_t texts = MAX_OF_OURS + (use ? use->nparams : 0) + store->nremarks;
    im->items = mem_alloc(store->slots.n, sizeof *im->items, e);
    im->metadata = mem_alloc(texts, sizeof *im->metadata, e);
    return im->items && im->metadata ? KV_OK : KV_E_MEMORY;
}

int store_image_take(store_image *im, const kv *store, kv_err *e)
{
    const slot_table *t = &store->slots;
    const char *kind = t->n == 0 ? "none" : t->items[0].key.name ? "text" : "integer";
    *im = (store_image){0};
    if (!store->in_slots)
        return kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" cannot be saved",
                          store->type);
    int rc = make_room(im, store, e);
    if (rc == KV_OK && (rc = add_metadata(im, "kvstore.format", FORMAT, e)) == KV_OK &&
        (rc = add_metadata(im, "kvstore.type", store->type, e)) == KV_OK &&
        (rc = add_metadata(im, "kvstore.key_type", kind, e)) == KV_OK &&
        (rc = add_keys(im, t, e)) == KV_OK)
        rc = add_updater(im, &store->updater, &store->slots, e);
    for (int64_t i = 0; i < store->nremarks && rc == KV_OK; i++)
        rc = add_metadata(im, store->remark[i].name, store->remark[i].text, e);
    if (rc)
        store_image_release(im);
    return rc;
}

int store_image_write(const store_image *im, const char *path, kv_err *e)
{
    file_out out;
    int rc = file_out_open(&out, path, e);
    if (rc)
        return rc;
    rc = safetensors_write(out.f, path, im->items, im->n, im->metadata, im->nmetadata, e);
    if (rc)
        file_out_abandon(&out);
    else
        rc = file_out_commit(&out, e);
    return rc;
}

void store_image_release(store_image *im)
{
    for (int64_t i = 0; i < im->n; i++)
        kv_array_unref(im->items[i].array);
    mem_free(im->items);
    mem_free(im->metadata);
    arena_release(&im->memory);
    *im = (store_image){0};
}

/* ---- Reading: the description ---------------------------------------------------------------- */

static int bad(const store_file *f, kv_err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* `w.kvs: …`, code format. */
static int bad(const store_file *f, kv_err *e, const char *fmt, ...)
{
    char text[sizeof e->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return kv_err_set(e, KV_E_FORMAT, "%s: %s", f->path, text);
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Every name under kvstore. is one of the table. */
static int check_names(store_file *f, kv_err *e)
{
    static const char *const known[] = {"kvstore.format",  "kvstore.type",    "kvstore.key_type",
                                        "kvstore.pushes",  "kvstore.updates", "kvstore.order",
                                        "kvstore.updater", "kvstore.rule"};
    f->foreign = true;
    for (int64_t i = 0; i < safetensors_metadata_count(f->file); i++) {
        const char *name = safetensors_metadata_at(f->file, i)->name;
        if (!begins(name, OURS))
            continue;
        f->foreign = false;
        bool found = begins(name, PARAM);
        for (size_t j = 0; j < sizeof known / sizeof *known; j++)
            found |= strcmp(name, known[j]) == 0;
        if (!found) {
            bad(f, e, "it holds \"%.80s\", which this version does not know", name);
            return kv_err_hint(e, "a later version wrote it");
        }
    }
    return KV_OK;
}

static int get(const store_file *f, const char *name, const char **text, kv_err *e)
{
    *text = safetensors_metadata(f->file, name);
    return *text ? KV_OK : bad(f, e, "the metadata have no \"%s\"", name);
}

static int check_format(const store_file *f, kv_err *e)
{
    const char *format;
    int rc = get(f, "kvstore.format", &format, e);
    if (rc || strcmp(format, FORMAT) == 0)
        return rc;
    bad(f, e, "a store in format \"%.20s\", this version reads format " FORMAT, format);
    return kv_err_hint(e, "a later version wrote it");
}

int store_file_open(store_file *f, const char *path, kv_err *e)
{
    *f = (store_file){.path = path, .type = "local"};
    int rc = safetensors_open(&f->file, path, e);
    if (rc)
        return rc;
    /* the format comes first: names that are unknown may belong to another one */
    if (safetensors_metadata(f->file, "kvstore.format"))
        rc = check_format(f, e);
    if (rc == KV_OK && (rc = check_names(f, e)) == KV_OK && !f->foreign &&
        (rc = check_format(f, e)) == KV_OK)
        rc = get(f, "kvstore.type", &f->type, e);
    if (rc)
        store_file_close(f);
    return rc;
}

void store_file_close(store_file *f)
{
    safetensors_close(f->file);
    *f = (store_file){0};
}

/* ---- Reading: keys and lists ----------------------------------------------------------------- */

/* What the file says of all its keys. sorted[r] is the r-th in ascending order. */
typedef struct contents {
    const store_file *f;
    int64_t n;
    ranked *sorted;
    int64_t *pushes, *updates, *order; /* by rank; order: ranks in the order of making */
} contents;

static int integer_key(const contents *c, const char *name, kv_key *key, kv_err *e)
{
    char again[32];
    bool over = false;
    size_t n = strlen(name);
    if (n > 0 && num_parse_int(name, n, &key->id, &over) == n && !over) {
        snprintf(again, sizeof again, "%lld", (long long)key->id);
        if (strcmp(again, name) == 0)
            return KV_OK;
    }
    return bad(c->f, e, "the tensor \"%.80s\" is no integer key", name);
}

static int text_key(const contents *c, const char *name, kv_array *a, kv_key *key, kv_err *e)
{
    key->name = name;
    if (!c->f->foreign && begins(name, KEY_PREFIX))
        key->name = name + strlen(KEY_PREFIX);
    else if (!c->f->foreign && begins(name, RESERVED))
        return bad(c->f, e, "the tensor \"%.80s\" is no key, and this version does not know it",
                   name);
    kv_err why = {0};
    if (call_check_form(key, 1, &a, &why))
        return bad(c->f, e, "%s", why.text);
    return KV_OK;
}

/* n whole numbers from 0 on with a blank between two. */
static int read_list(const contents *c, const char *name, int64_t *numbers, kv_err *e)
{
    const char *text;
    int rc = get(c->f, name, &text, e);
    if (rc)
        return rc;
    for (int64_t i = 0; i < c->n; i++) {
        bool over = false;
        size_t len = strcspn(text, " ");
        if (len == 0 || num_parse_int(text, len, &numbers[i], &over) != len || over ||
            numbers[i] < 0 || (i + 1 < c->n && !text[len]))
            return bad(c->f, e, "\"%s\" is no list of %lld counts, one a key", name,
                       (long long)c->n);
        text += len + (text[len] == ' ' && i + 1 < c->n);
    }
    return *text ? bad(c->f, e, "\"%s\" has more counts than there are keys", name) : KV_OK;
}

/* order is a permutation: every rank stands in it once. */
static int check_order(const contents *c, kv_err *e)
{
    char *seen = mem_zalloc(c->n, 1, e);
    int rc = seen ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < c->n && rc == KV_OK; i++) {
        if (c->order[i] >= c->n || seen[c->order[i]])
            rc = bad(c->f, e, "\"kvstore.order\" does not name every key once");
        else
            seen[c->order[i]] = 1;
    }
    mem_free(seen);
    return rc;
}

static int read_lists(contents *c, bool text_keys, kv_err *e)
{
    int rc = read_list(c, "kvstore.pushes", c->pushes, e);
    if (rc || (rc = read_list(c, "kvstore.updates", c->updates, e)) || !text_keys)
        return rc;
    rc = read_list(c, "kvstore.order", c->order, e);
    return rc ? rc : check_order(c, e);
}

static int read_kind(const contents *c, bool *text_keys, kv_err *e)
{
    const char *kind;
    *text_keys = true;
    if (c->f->foreign)
        return KV_OK;
    int rc = get(c->f, "kvstore.key_type", &kind, e);
    if (rc)
        return rc;
    *text_keys = strcmp(kind, "text") == 0;
    if (strcmp(kind, "none") == 0 ? c->n == 0 : *text_keys || strcmp(kind, "integer") == 0)
        return KV_OK;
    return bad(c->f, e, "\"kvstore.key_type\" is \"%.20s\" for %lld keys", kind, (long long)c->n);
}

/* The keys and lists. arrays[i] is tensor i. */
static int read_contents(contents *c, kv_array *const *arrays, kv_err *e)
{
    bool text_keys;
    int rc = read_kind(c, &text_keys, e);
    for (int64_t i = 0; i < c->n && rc == KV_OK; i++) {
        const char *name = safetensors_at(c->f->file, i)->name;
        c->order[i] = c->sorted[i].i = i;
        rc = text_keys ? text_key(c, name, arrays[i], &c->sorted[i].key, e)
                       : integer_key(c, name, &c->sorted[i].key, e);
    }
    if (rc || c->f->foreign)
        return rc; /* the order of the file, and no counts */
    qsort(c->sorted, (size_t)c->n, sizeof *c->sorted, by_key);
    for (int64_t i = 1; i < c->n; i++) {
        if (by_key(&c->sorted[i - 1], &c->sorted[i]) == 0)
            return bad(c->f, e, "the key \"%.80s\" stands in it twice", c->sorted[i].key.name);
    }
    return read_lists(c, text_keys, e);
}

/* Makes the slots; each takes its array over, and arrays[i] is NULL then. */
static int make_slots(const contents *c, slot_table *t, kv_array **arrays, kv_err *e)
{
    int rc = slot_reserve(t, c->n, e);
    for (int64_t i = 0; i < c->n && rc == KV_OK; i++) {
        int64_t rank = c->order[i];
        const ranked *r = &c->sorted[rank];
        if ((rc = slot_add(t, &r->key, arrays[r->i], e)))
            break;
        arrays[r->i] = NULL;
        t->items[i].pushes = c->pushes[rank];
        t->items[i].updates = c->updates[rank];
    }
    return rc;
}

static int contents_init(contents *c, const store_file *f, kv_err *e)
{
    *c = (contents){.f = f, .n = safetensors_count(f->file)};
    c->sorted = mem_zalloc(c->n, sizeof *c->sorted, e);
    c->pushes = mem_zalloc(3 * c->n, sizeof *c->pushes, e);
    if (!c->sorted || !c->pushes)
        return KV_E_MEMORY;
    c->updates = c->pushes + c->n;
    c->order = c->updates + c->n;
    return KV_OK;
}

static int fill_slots(const store_file *f, slot_table *t, kv_err *e)
{
    contents c;
    int rc = contents_init(&c, f, e);
    kv_array **arrays = rc ? NULL : mem_zalloc(c.n, sizeof(kv_array *), e);
    if (rc == KV_OK)
        rc = arrays ? safetensors_load_all(arrays, f->file, e) : KV_E_MEMORY;
    if (rc == KV_OK) {
        if ((rc = read_contents(&c, arrays, e)) == KV_OK)
            rc = make_slots(&c, t, arrays, e);
        for (int64_t i = 0; i < c.n; i++)
            kv_array_unref(arrays[i]);
    }
    mem_free(arrays);
    mem_free(c.pushes);
    mem_free(c.sorted);
    return rc;
}

/* ---- Reading: updater and remarks ------------------------------------------------------------ */

/* The names under PARAM, as the parameters of kv_set_rule. params has room for all metadata. */
static int read_params(const store_file *f, kv_opt *params)
{
    int n = 0;
    for (int64_t i = 0; i < safetensors_metadata_count(f->file); i++) {
        const safetensors_pair *p = safetensors_metadata_at(f->file, i);
        if (begins(p->name, PARAM))
            params[n++] = (kv_opt){p->name + strlen(PARAM), p->text};
    }
    return n;
}

/* An error of a rule that stands in a file begins with the file. */
static int in_rule(const store_file *f, const kv_err *why, kv_err *e)
{
    kv_err_set(e, why->code == KV_E_MEMORY ? KV_E_MEMORY : KV_E_FORMAT, "%s: its rule: %s", f->path,
               why->text);
    return why->hint[0] ? kv_err_hint(e, "%s", why->hint) : e ? e->code : why->code;
}

static int fill_rule(const store_file *f, updater *u, const kv_opt *params, int n, kv_err *e)
{
    const char *text;
    kv_rule *rule = NULL;
    kv_err why = {0};
    int rc = get(f, "kvstore.rule", &text, e);
    if (rc)
        return rc;
    if ((rc = kv_rule_new(&rule, text, NULL, 0, 0, &why)) ||
        (rc = updater_init_rule(u, rule, params, n, &why)))
        rc = in_rule(f, &why, e);
    kv_rule_free(rule);
    return rc;
}

static int fill_updater(const store_file *f, updater *u, kv_err *e)
{
    const char *kind;
    int rc = get(f, "kvstore.updater", &kind, e);
    kv_opt *params = rc ? NULL : mem_alloc(safetensors_metadata_count(f->file), sizeof *params, e);
    if (!params)
        return rc ? rc : KV_E_MEMORY;
    int n = read_params(f, params);
    bool is_rule = strcmp(kind, "rule") == 0;
    if (is_rule)
        rc = fill_rule(f, u, params, n, e);
    else if (strcmp(kind, "assign") != 0)
        rc = bad(f, e, "\"kvstore.updater\" is \"%.20s\", not assign or rule", kind);
    else if (n > 0 || safetensors_metadata(f->file, "kvstore.rule"))
        rc = bad(f, e, "it holds a rule that nobody uses");
    mem_free(params);
    return rc;
}

/* Keeps what other tools say in the file. */
static int fill_remarks(const store_file *f, kv *store, kv_err *e)
{
    int64_t n = safetensors_metadata_count(f->file);
    store->remark = arena_alloc(&store->remarks, (size_t)n * sizeof *store->remark, e);
    for (int64_t i = 0; i < n && store->remark; i++) {
        const safetensors_pair *p = safetensors_metadata_at(f->file, i);
        if (begins(p->name, OURS))
            continue;
        const char *name = arena_text(&store->remarks, p->name, strlen(p->name), e);
        const char *text = name ? arena_text(&store->remarks, p->text, strlen(p->text), e) : NULL;
        if (!text)
            return KV_E_MEMORY;
        store->remark[store->nremarks++] = (safetensors_pair){name, text};
    }
    return store->remark ? KV_OK : KV_E_MEMORY;
}

int store_file_fill(const store_file *f, kv *store, kv_err *e)
{
    if (!store->in_slots)
        return kv_err_set(e, KV_E_UNSUPPORTED, "%s: stores of type \"%s\" cannot be loaded",
                          f->path, store->type);
    int rc = f->foreign ? KV_OK : fill_updater(f, &store->updater, e);
    if (rc == KV_OK && (rc = fill_remarks(f, store, e)) == KV_OK)
        rc = fill_slots(f, &store->slots, e);
    return rc;
}
