/* Stores in files. Writing takes an image first; reading checks the description, then makes the
 * slots in the order of the keys. */
#include "core/store_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/utf8.h"
#include "core/call.h"
#include "core/image.h"
#include "core/state_file.h"

#define FORMAT       "1"
#define UPDATER      "kvstore.updater"
#define RESERVED     "__"
#define KEY_PREFIX   "__key__/"
#define STATE_PREFIX "__state__/"

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

static void add_list(image *im, const char *name, const int64_t *numbers, int64_t n)
{
    buf text = {0};
    for (int64_t i = 0; i < n; i++)
        buf_printf(&text, i ? " %lld" : "%lld", (long long)numbers[i]);
    image_buf(im, name, "", &text);
}

/* The three lists. numbers has room for one a key. */
static void add_lists(image *im, const slot_table *t, const ranked *sorted, int64_t *numbers)
{
    for (int64_t i = 0; i < t->n; i++)
        numbers[i] = t->items[sorted[i].i].pushes;
    add_list(im, "kvstore.pushes", numbers, t->n);
    for (int64_t i = 0; i < t->n; i++)
        numbers[i] = t->items[sorted[i].i].updates;
    add_list(im, "kvstore.updates", numbers, t->n);
    if (t->n == 0 || !t->items[0].key.name)
        return;
    for (int64_t i = 0; i < t->n; i++)
        numbers[sorted[i].i] = i;
    add_list(im, "kvstore.order", numbers, t->n);
}

static void add_updater(image *im, const updater *u, const slot_table *slots)
{
    switch (u->kind) {
    case UPDATER_ASSIGN:
        image_text(im, UPDATER, "", "assign");
        break;
    case UPDATER_CALLBACK:
        kv_err_set(&im->why, KV_E_UNSUPPORTED,
                   "a file cannot hold an updater that is a function of the program");
        kv_err_hint(&im->why,
                    "save before kv_set_updater, or set a rule, whose text goes into the file");
        break;
    case UPDATER_RULE:
        image_text(im, UPDATER, "", "rule");
        state_parts_add_rule(im, u->optimizer);
        state_parts_add(im, u->optimizer, slots, STATE_PREFIX);
        break;
    }
}

static int check_saveable(const kv *store, kv_err *e)
{
    return store->in_slots ? KV_OK
                           : kv_err_set(e, KV_E_UNSUPPORTED,
                                        "stores of type \"%s\" cannot be saved", store->type);
}

static void add_remarks(image *im, const kv *store)
{
    for (int64_t i = 0; i < store->nremarks; i++)
        image_text(im, store->remark[i].name, "", store->remark[i].text);
}

int store_file_take_arrays(image *im, const kv *store, kv_err *e)
{
    char number[32];
    *im = (image){.plain = true};
    TRY(check_saveable(store, e));
    for (int64_t i = 0; i < store->slots.n; i++) {
        const slot *s = &store->slots.items[i];
        if (kv_array_storage(s->stored) == KV_ROW_SPARSE)
            kv_err_set(&im->why, KV_E_UNSUPPORTED,
                       "key %s is row_sparse, which files of other tools cannot hold",
                       SLOT_KEY(&s->key));
        image_array(im, "", image_key(number, &s->key), s->stored);
    }
    add_remarks(im, store);
    return image_finish(im, e);
}

int store_file_take(image *im, const kv *store, kv_err *e)
{
    const slot_table *t = &store->slots;
    *im = (image){0};
    TRY(check_saveable(store, e));
    image_text(im, "kvstore.format", "", FORMAT);
    if (store->base)
        image_text(im, "kvstore.base", "", store->base);
    image_text(im, "kvstore.type", "", store->type);
    image_text(im, "kvstore.key_type", "", image_key_type(t));
    /* Tensors stand in the order of updates: the same keys and values give the same file. */
    own_mem ranked *sorted = mem_alloc(t->n, sizeof *sorted, &im->why);
    own_mem int64_t *numbers = mem_alloc(t->n, sizeof *numbers, &im->why);
    for (int64_t i = 0; i < t->n && !im->why.code; i++)
        sorted[i] = (ranked){t->items[i].key, i};
    if (!im->why.code)
        qsort(sorted, (size_t)t->n, sizeof *sorted, by_key);
    for (int64_t i = 0; i < t->n && !im->why.code; i++) {
        const slot *s = &t->items[t->items[0].key.name ? i : sorted[i].i];
        char number[32];
        const char *text = image_key(number, &s->key);
        bool reserved = s->key.name && image_begins(text, RESERVED);
        if (kv_array_storage(s->stored) == KV_ROW_SPARSE)
            row_parts_add(im, text, s->stored);
        else
            image_array(im, reserved ? KEY_PREFIX : "", text, s->stored);
    }
    if (!im->why.code)
        add_lists(im, t, sorted, numbers);
    residual_parts_add(im, &store->compression, t);
    add_updater(im, &store->updater, t);
    add_remarks(im, store);
    return image_finish(im, e);
}

/* ---- Reading: the description ---------------------------------------------------------------- */

static int get(const store_file *f, const char *name, const char **text, kv_err *e)
{
    *text = checkpoint_metadata(f->file, name);
    return *text ? KV_OK : file_bad(e, KV_E_FORMAT, f->path, "the metadata have no \"%s\"", name);
}

static int check_format(const store_file *f, kv_err *e)
{
    const char *format = checkpoint_metadata(f->file, "kvstore.format");
    if (!format || strcmp(format, FORMAT) == 0)
        return KV_OK;
    file_bad(e, KV_E_FORMAT, f->path,
             "a store in format \"%.20s\", this version reads format " FORMAT, format);
    kv_err_hint(e, "a later version wrote it");
    return KV_E_FORMAT;
}

/* A store whose dtypes are others than those of its file would change the file when it is saved. */
static int check_types(const store_file *f, kv_err *e)
{
    for (int64_t i = 0; i < checkpoint_count(f->file); i++) {
        const tensor_info *t = checkpoint_at(f->file, i);
        kv_dtype dtype;
        if (tensor_type_dtype(t->type, &dtype) && tensor_type_of(dtype) == t->type)
            continue;
        file_bad(e, KV_E_DTYPE, f->path, "tensor \"%.80s\" is %s, which no store keeps",
                 t->name, tensor_type_name(t->type));
        kv_err_hint(e, "init * @FILE takes its values as numbers of another dtype; kvctl convert "
                       "--dtype changes the file");
        return KV_E_DTYPE;
    }
    return KV_OK;
}

int store_file_open(store_file *f, const char *path, kv_err *e)
{
    static const char *const names[] = {
        "kvstore.format", "kvstore.type",  "kvstore.base",    "kvstore.key_type", "kvstore.pushes",
        "kvstore.order",  "kvstore.updater", "kvstore.updates", ROWS_PART, NULL};
    const char *format;
    bool ours;
    *f = (store_file){.path = path, .type = "local"};
    TRY(checkpoint_open(&f->file, path, NULL, e));
    if (!checkpoint_is_safetensors(f->file)) {
        /* saved there, it would not be the file that it was */
        file_bad(e, KV_E_FORMAT, path,
                 "a store is kept in a safetensors file, and this is not one");
        kv_err_hint(e, "init * @FILE takes its values; convert makes a safetensors file of it");
        return KV_E_FORMAT;
    }
    TRY(image_check(f->file, path, e));
    if (checkpoint_metadata(f->file, "kvstore.states"))
        return file_bad(e, KV_E_FORMAT, path, "the states of an optimizer, not a store");
    TRY(check_format(f, e)); /* first: names that are unknown may belong to another one */
    TRY(image_check_names(f->file, path, names, state_part_names, &ours, e));
    f->foreign = !ours;
    TRY(f->foreign ? KV_OK : get(f, "kvstore.format", &format, e));
    TRY(f->foreign ? KV_OK : get(f, "kvstore.type", &f->type, e));
    f->base = checkpoint_metadata(f->file, "kvstore.base");
    return check_types(f, e);
}

void store_file_close(store_file *f)
{
    checkpoint_close(f->file);
    *f = (store_file){0};
}

/* ---- Reading: keys and lists ----------------------------------------------------------------- */

/* The keys of a file, and their counts. sorted[r] is the r-th in ascending order. */
typedef struct contents {
    const store_file *f;
    kv_array **arrays; /* by tensor; a slot that takes one over leaves NULL */
    int64_t n;
    ranked *sorted;
    arena names;                       /* of keys whose tensors have longer ones */
    int64_t *pushes, *updates, *order; /* by rank; order: ranks in the order of making */
} contents;

static int integer_key(const contents *c, const char *name, kv_key *key, kv_err *e)
{
    return image_integer_key(name, key)
               ? KV_OK
               : file_bad(e, KV_E_FORMAT, c->f->path, "the tensor \"%.80s\" is not an integer key",
                          name);
}

/* whole: name is that of a tensor, in which texts that begin with RESERVED have another meaning. */
static int text_key(const contents *c, const char *name, bool whole, kv_array *a, kv_key *key,
                    kv_err *e)
{
    key->name = name;
    if (whole && !c->f->foreign && image_begins(name, KEY_PREFIX))
        key->name = name + strlen(KEY_PREFIX);
    else if (whole && !c->f->foreign && image_begins(name, RESERVED))
        return file_bad(e, KV_E_FORMAT, c->f->path,
                        "the tensor \"%.80s\" is not a key, and this version does not know it",
                        name);
    kv_err why = {0};
    if (call_check_form(&(kv_pairs){key, &a, 1}, &why))
        return file_bad(e, KV_E_FORMAT, c->f->path, "%s", why.text);
    return KV_OK;
}

/* n whole numbers from 0 on with a blank between two. */
static int read_list(const contents *c, const char *name, int64_t *numbers, kv_err *e)
{
    const char *text;
    TRY(get(c->f, name, &text, e));
    const char *rest = text;
    for (int64_t i = 0; i < c->n; i++) {
        rest = image_count(rest, &numbers[i]);
        if (!rest || (i + 1 < c->n && rest[-1] != ' '))
            return file_bad(e, KV_E_FORMAT, c->f->path,
                            "\"%s\" is not a list of %lld counts, one a key", name,
                            (long long)c->n);
    }
    if (*rest || (rest > text && rest[-1] == ' '))
        return file_bad(e, KV_E_FORMAT, c->f->path, "\"%s\" has more counts than there are keys",
                        name);
    return KV_OK;
}

/* order is a permutation: every rank stands in it once. */
static int check_order(const contents *c, kv_err *e)
{
    own_mem char *seen = mem_zalloc(c->n, 1, e);
    if (!seen)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < c->n; i++) {
        if (c->order[i] >= c->n || seen[c->order[i]])
            return file_bad(e, KV_E_FORMAT, c->f->path,
                            "\"kvstore.order\" does not name every key once");
        seen[c->order[i]] = 1;
    }
    return KV_OK;
}

static int read_kind(const contents *c, bool *text_keys, kv_err *e)
{
    const char *kind;
    *text_keys = true;
    if (c->f->foreign)
        return KV_OK;
    TRY(get(c->f, "kvstore.key_type", &kind, e));
    *text_keys = strcmp(kind, "text") == 0;
    if (strcmp(kind, "none") == 0 ? c->n == 0 : *text_keys || strcmp(kind, "integer") == 0)
        return KV_OK;
    return file_bad(e, KV_E_FORMAT, c->f->path, "\"kvstore.key_type\" is \"%.20s\" for %lld keys",
                    kind, (long long)c->n);
}

static bool is_state(const store_file *f, int64_t i)
{
    return !f->foreign && image_begins(checkpoint_at(f->file, i)->name, STATE_PREFIX);
}

static row_part part_of(const store_file *f, int64_t i)
{
    return f->foreign ? ROW_PART_NONE : row_parts_kind(checkpoint_at(f->file, i)->name);
}

/* A tensor that stands for a key: that of its array, or of a row_sparse one that of the ids. */
static bool is_key(const store_file *f, int64_t i)
{
    return f->foreign ||
           (!is_state(f, i) && !residual_parts_is(checkpoint_at(f->file, i)->name) &&
            part_of(f, i) != ROW_PART_DATA);
}

static int read_contents(contents *c, kv_err *e)
{
    bool text_keys;
    TRY(read_kind(c, &text_keys, e));
    int64_t n = 0;
    for (int64_t i = 0; i < checkpoint_count(c->f->file); i++) {
        const char *name = checkpoint_at(c->f->file, i)->name;
        bool rows = part_of(c->f, i) == ROW_PART_IDS;
        if (!is_key(c->f, i))
            continue;
        c->order[n] = n;
        c->sorted[n].i = i;
        if (rows && !(name = row_parts_key(&c->names, name, e)))
            return KV_E_MEMORY;
        TRY(text_keys ? text_key(c, name, !rows, c->arrays[i], &c->sorted[n++].key, e)
                      : integer_key(c, name, &c->sorted[n++].key, e));
    }
    kv_assert(n == c->n, "%lld tensors are keys, and %lld were counted", (long long)n,
              (long long)c->n);
    if (c->f->foreign)
        return KV_OK; /* the order of the file, and no counts */
    qsort(c->sorted, (size_t)c->n, sizeof *c->sorted, by_key);
    for (int64_t i = 1; i < c->n; i++) {
        if (by_key(&c->sorted[i - 1], &c->sorted[i]) == 0)
            return file_bad(e, KV_E_FORMAT, c->f->path, "the key %s stands in it twice",
                       SLOT_KEY(&c->sorted[i].key));
    }
    TRY(read_list(c, "kvstore.pushes", c->pushes, e));
    TRY(read_list(c, "kvstore.updates", c->updates, e));
    if (!text_keys)
        return KV_OK;
    TRY(read_list(c, "kvstore.order", c->order, e));
    return check_order(c, e);
}

static int make_slots(const contents *c, slot_table *t, kv_err *e)
{
    TRY(slot_reserve(t, c->n, e));
    if (!kv_assert(t->n == 0, "a file is loaded into a store that has %lld keys", (long long)t->n))
        return kv_assert_report(e);
    for (int64_t i = 0; i < c->n; i++) {
        int64_t rank = c->order[i];
        const ranked *r = &c->sorted[rank];
        TRY(slot_add(t, &r->key, c->arrays[r->i], e));
        c->arrays[r->i] = NULL;
        t->items[i].pushes = c->pushes[rank];
        t->items[i].updates = c->updates[rank];
    }
    return KV_OK;
}

static int contents_init(contents *c, const store_file *f, kv_err *e)
{
    *c = (contents){.f = f};
    for (int64_t i = 0; i < checkpoint_count(f->file); i++)
        c->n += is_key(f, i);
    c->sorted = mem_zalloc(c->n, sizeof *c->sorted, e);
    c->pushes = mem_zalloc(3 * c->n, sizeof *c->pushes, e);
    c->arrays = mem_zalloc(checkpoint_count(f->file), sizeof(kv_array *), e);
    if (!c->sorted || !c->pushes || !c->arrays)
        return KV_E_MEMORY;
    c->updates = c->pushes + c->n;
    c->order = c->updates + c->n;
    return KV_OK;
}

static void contents_release(contents *c)
{
    for (int64_t i = 0; c->arrays && i < checkpoint_count(c->f->file); i++)
        kv_array_unref(c->arrays[i]);
    mem_free(c->arrays);
    mem_free(c->pushes);
    mem_free(c->sorted);
    arena_release(&c->names);
}

static int load_keys(const store_file *f, kv_array **arrays, kv_err *e)
{
    TRY(f->foreign ? KV_OK : row_parts_check(f->file, f->path, e));
    for (int64_t i = 0; i < checkpoint_count(f->file); i++) {
        if (part_of(f, i) == ROW_PART_IDS)
            TRY(row_parts_load(&arrays[i], f->file, f->path, i, e));
        else if (is_key(f, i))
            TRY(image_load(&arrays[i], f->file, i, f->later, f->path, e));
    }
    return KV_OK;
}

static int fill_slots(const store_file *f, slot_table *t, kv_err *e)
{
    OWN(contents_release) contents c = {0};
    TRY(contents_init(&c, f, e));
    TRY(load_keys(f, c.arrays, e));
    TRY(read_contents(&c, e));
    return make_slots(&c, t, e);
}

/* ---- Reading: updater and remarks ------------------------------------------------------------ */

static int fill_updater(const store_file *f, updater *u, kv_err *e)
{
    const char *kind;
    TRY(get(f, UPDATER, &kind, e));
    if (strcmp(kind, "rule") == 0)
        return state_parts_read_rule(u, f->file, f->path, e);
    if (strcmp(kind, "assign") != 0)
        return file_bad(e, KV_E_FORMAT, f->path, "\"" UPDATER "\" is \"%.20s\", not assign or rule",
                        kind);
    for (int64_t i = 0; i < checkpoint_metadata_count(f->file); i++)
        if (image_lists(state_part_names, checkpoint_metadata_at(f->file, i)->name))
            return file_bad(e, KV_E_FORMAT, f->path, "it holds a rule that nobody uses");
    for (int64_t i = 0; i < checkpoint_count(f->file); i++)
        if (is_state(f, i))
            return file_bad(e, KV_E_FORMAT, f->path, "it holds states that nobody uses");
    return KV_OK;
}

/* The states of the updater, when all keys are there. */
static int fill_states(const store_file *f, kv *store, kv_err *e)
{
    state_parts parts;
    slot_table *t = &store->slots;
    optimizer *o = store->updater.optimizer;
    own_mem int64_t *updates = mem_alloc(t->n, sizeof *updates, e);
    if (!updates)
        return KV_E_MEMORY;
    for (int64_t i = 0; i < t->n; i++)
        updates[i] = t->items[i].updates;
    TRY(state_parts_read(&parts, f->file, f->path, STATE_PREFIX, o, t, updates, false, f->later,
                         e));
    state_parts_commit(&parts, o, t);
    return KV_OK;
}

/* The compression and its residuals, when all keys are there. */
static int fill_compression(const store_file *f, kv *store, kv_err *e)
{
    own_residual_parts parts = {0};
    kv_err why = {0};
    TRY(residual_parts_read(&parts, f->file, f->path, &store->slots, e));
    compression how = parts.how;
    if (how.code && !store->compresses)
        return file_bad(e, KV_E_FORMAT, f->path,
                        "it compresses gradients, which the type \"%.40s\" does not", store->type);
    if (how.code && compression_check_slots(&store->slots, &why))
        return file_bad(e, KV_E_FORMAT, f->path, "%.300s", why.text);
    residual_parts_commit(&parts, &store->slots);
    store->compression = how;
    return KV_OK;
}

/* Puts a text in place `at`, that of an old one or behind the last. */
static int put_remark(kv *store, int64_t at, const char *name, const char *text, kv_err *e)
{
    const char *copy = arena_text(&store->remarks, name, strlen(name), e);
    const char *words = copy ? arena_text(&store->remarks, text, strlen(text), e) : NULL;
    if (!words || mem_grow(&store->remark, &store->remarks_cap, at + 1, sizeof *store->remark, e))
        return KV_E_MEMORY;
    store->remark[at] = (checkpoint_text){copy, words};
    store->nremarks += at == store->nremarks;
    return KV_OK;
}

int store_file_remark(kv *store, const char *name, const char *text, kv_err *e)
{
    int64_t at = 0;
    if (image_begins(name, IMAGE_OURS))
        return kv_err_set(e, KV_E_VALUE, "the metadata \"%.80s\" are the store's own", name);
    if (!utf8_valid(name, strlen(name)))
        return kv_err_set(e, KV_E_VALUE, "the name of a metadata text is not UTF-8");
    if (!utf8_valid(text, strlen(text)))
        return kv_err_set(e, KV_E_VALUE, "the metadata text \"%.*s\" is not UTF-8",
                          (int)utf8_cut(name, strlen(name), 80), name);
    while (at < store->nremarks && strcmp(store->remark[at].name, name) != 0)
        at++;
    return put_remark(store, at, name, text, e);
}

int store_file_fill_states(const store_file *f, kv *store, kv_err *e)
{
    TRY(fill_compression(f, store, e));
    if (store->updater.kind == UPDATER_RULE)
        TRY(fill_states(f, store, e));
    return KV_OK;
}

int store_file_fill(const store_file *f, kv *store, kv_err *e)
{
    if (!store->in_slots)
        return kv_err_set(e, KV_E_UNSUPPORTED, "%s: stores of type \"%s\" cannot be loaded",
                          f->path, store->type);
    store->foreign = f->foreign;
    TRY(f->foreign ? KV_OK : fill_updater(f, &store->updater, e));
    for (int64_t i = 0; i < checkpoint_metadata_count(f->file); i++) {
        const checkpoint_text *p = checkpoint_metadata_at(f->file, i);
        if (!image_begins(p->name, IMAGE_OURS)) /* other tools' */
            TRY(put_remark(store, store->nremarks, p->name, p->text, e));
    }
    TRY(fill_slots(f, &store->slots, e));
    for (int64_t i = 0; i < store->slots.n; i++)
        store->slots.items[i].loaded = true;
    store->keeps_states = !f->foreign;
    store->later = f->later;
    return f->foreign ? KV_OK : store_file_fill_states(f, store, e);
}
