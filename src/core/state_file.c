/* The frame around the parts: which optimizer and which keys the states are of; then the parts. */
#include "core/state_file.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/num.h"
#include "core/image.h"

#define FORMAT     "1"
#define STATES_FORMAT "kvstore.states"
#define OPTIMIZER  "kvstore.optimizer"
#define KEY_TYPE   "kvstore.key_type"
#define KEY        "kvstore.key."
#define SHAPE_TEXT (22 * KV_MAX_NDIM + 3) /* holds every shape */

int state_file_check(const kv *store, kv_err *e)
{
    if (!store->in_slots && !store->ops->visit_states)
        return kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" keep no states here",
                          store->type);
    switch (store->updater.kind) {
    case UPDATER_ASSIGN:
        kv_err_set(e, KV_E_VALUE, "no optimizer is in use, so there are no states");
        kv_err_hint(e, "kv_set_optimizer sets one");
        return KV_E_VALUE;
    case UPDATER_CALLBACK:
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "the updater is a function of the program, so there are no states");
    case UPDATER_RULE:
        return KV_OK;
    }
    kv_assert(false, "the updater has the unknown kind %d", (int)store->updater.kind);
    return kv_assert_report(e);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* "float32 (2, 3)" */
static void print_form(buf *out, const slot *s)
{
    char shape[SHAPE_TEXT];
    const kv_array *a = s->stored;
    kv_shape_text(shape, sizeof shape, kv_array_ndim(a), kv_array_shape(a));
    buf_printf(out, "%s %s", kv_dtype_name(kv_array_dtype(a)), shape);
}

int state_file_take(image *im, const kv *store, bool dump, kv_err *e)
{
    const slot_table *t = &store->slots;
    *im = (image){0};
    TRY(state_file_check(store, e));
    image_text(im, STATES_FORMAT, "", FORMAT);
    image_text(im, OPTIMIZER, "", updater_name(&store->updater));
    image_text(im, KEY_TYPE, "", image_key_type(t));
    for (int64_t i = 0; i < t->n; i++) {
        const slot *s = &t->items[i];
        char number[32];
        buf text = {0};
        buf_printf(&text, "%lld ", (long long)s->updates);
        print_form(&text, s);
        image_buf(im, KEY, image_key(number, &s->key), &text);
    }
    state_parts_add(im, store->updater.optimizer, t, "");
    residual_parts_add(im, &store->compression, t);
    if (dump)
        state_parts_add_rule(im, store->updater.optimizer);
    return image_finish(im, e);
}

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct file_reader {
    const kv *store;
    const checkpoint *f;
    const char *path;
    kv_err *e;
} file_reader;

static int check_format(const file_reader *r)
{
    const char *format = checkpoint_metadata(r->f, STATES_FORMAT);
    if (!format && checkpoint_metadata(r->f, "kvstore.format")) {
        file_bad(r->e, KV_E_FORMAT, r->path, "a whole store, not the states of an optimizer");
        kv_err_hint(r->e, "kv_load, or kvctl -s, reads it");
        return KV_E_FORMAT;
    }
    if (!format)
        return file_bad(r->e, KV_E_FORMAT, r->path,
                        "no states of an optimizer: the metadata have no \"" STATES_FORMAT "\"");
    if (strcmp(format, FORMAT) == 0)
        return KV_OK;
    file_bad(r->e, KV_E_FORMAT, r->path,
             "states in format \"%.20s\", this version reads format " FORMAT, format);
    kv_err_hint(r->e, "a later version wrote it");
    return KV_E_FORMAT;
}

static int check_optimizer(const file_reader *r)
{
    const char *name = checkpoint_metadata(r->f, OPTIMIZER),
               *mine = updater_name(&r->store->updater);
    if (!name)
        return file_bad(r->e, KV_E_FORMAT, r->path, "the metadata have no \"" OPTIMIZER "\"");
    if (checkpoint_metadata(r->f, RULE_PART) || strcmp(name, mine) == 0)
        return KV_OK;
    file_bad(r->e, KV_E_VALUE, r->path, "states of %.80s, the optimizer in use is %.80s", name,
             mine);
    if (strcmp(name, "rule") != 0) /* which stands for one without a name */
        kv_err_hint(r->e, "kv_set_optimizer %.80s comes first", name);
    return KV_E_VALUE;
}

static int check_key_type(const file_reader *r)
{
    const char *type = checkpoint_metadata(r->f, KEY_TYPE),
               *mine = image_key_type(&r->store->slots);
    if (!type)
        return file_bad(r->e, KV_E_FORMAT, r->path, "the metadata have no \"" KEY_TYPE "\"");
    if (strcmp(type, "none") == 0 || strcmp(mine, "none") == 0 || strcmp(type, mine) == 0)
        return KV_OK; /* keys that are missing are named later */
    return file_bad(r->e, KV_E_KEY, r->path, "states of %.20s keys, this store has %s keys", type,
                    mine);
}

/* dtype or shape of the file differ from those of the key. */
static int other_form(const file_reader *r, const slot *s, const char *form)
{
    char shape[SHAPE_TEXT];
    const kv_array *a = s->stored;
    size_t n = strcspn(form, " ");
    const char *dtype = kv_dtype_name(kv_array_dtype(a));
    const char *key = SLOT_KEY(&s->key);
    kv_shape_text(shape, sizeof shape, kv_array_ndim(a), kv_array_shape(a));
    if (strlen(dtype) != n || memcmp(dtype, form, n) != 0)
        return file_bad(r->e, KV_E_DTYPE, r->path, "key %s is %.*s in it, %s in this store", key,
                   n > 20 ? 20 : (int)n, form, dtype);
    return file_bad(r->e, KV_E_SHAPE, r->path,
                    "key %s has shape %.120s in it, %.120s in this store", key,
                    form + n + (form[n] == ' '), shape);
}

/* "5 float32 (2, 3)" */
static int read_key(const file_reader *r, const char *name, const char *text, int64_t *last,
                    int64_t *updates)
{
    int64_t i = *last = image_slot(&r->store->slots, name, strlen(name), *last + 1), t;
    if (i < 0) {
        file_bad(r->e, KV_E_KEY, r->path, "it has the key \"%.80s\", this store does not", name);
        return kv_err_hint(r->e, "the values come first: init, or the file that kept the store"),
               KV_E_KEY;
    }
    const char *form = image_count(text, &t);
    if (!form || !*form)
        return file_bad(r->e, KV_E_FORMAT, r->path,
                        "\"" KEY "%.80s\" is not a count, dtype and shape", name);
    own_buf mine = {0};
    print_form(&mine, &r->store->slots.items[i]);
    TRY(buf_check(&mine, r->e));
    if (strcmp(buf_text(&mine), form) != 0)
        TRY(other_form(r, &r->store->slots.items[i], form));
    updates[i] = t;
    return KV_OK;
}

/* updates[i] becomes the count of slot i. All keys are there, and no others. */
static int read_keys(const file_reader *r, int64_t *updates)
{
    TRY(check_key_type(r));
    int64_t last = -1;
    for (int64_t i = 0; i < r->store->slots.n; i++)
        updates[i] = -1;
    for (int64_t i = 0; i < checkpoint_metadata_count(r->f); i++) {
        const checkpoint_text *p = checkpoint_metadata_at(r->f, i);
        if (image_begins(p->name, KEY))
            TRY(read_key(r, p->name + strlen(KEY), p->text, &last, updates));
    }
    for (int64_t i = 0; i < r->store->slots.n; i++)
        if (updates[i] < 0)
            return file_bad(r->e, KV_E_KEY, r->path, "it has no states of key %s",
                            SLOT_KEY(&r->store->slots.items[i].key));
    return KV_OK;
}

/* Reads the residuals of compressed gradients; the store must compress as it did when the file was
 * written. */
static int read_residuals(const file_reader *r, residual_parts *owed)
{
    char theirs[COMPRESSION_TEXT], mine[COMPRESSION_TEXT];
    const compression *c = &r->store->compression;
    TRY(residual_parts_read(owed, r->f, r->path, &r->store->slots, r->e));
    if (!owed->how.code || compression_same(&owed->how, c))
        return KV_OK;
    file_bad(r->e, KV_E_VALUE, r->path, "residuals of compression %s, that of this store is %s",
        compression_print(theirs, &owed->how), compression_print(mine, c));
    kv_err_hint(r->e, "kv_set_gradient_compression");
    return KV_E_VALUE;
}

/* Everything was read: from here on nothing fails. */
static void commit(kv *store, updater *next, state_parts *parts, residual_parts *owed,
                   const int64_t *updates, updater *gone)
{
    if (next->kind == UPDATER_RULE) {
        updater old = store->updater;
        store->updater = *next;
        *next = (updater){0};
        if (!transaction_keep_updater(&store->open, &old))
            *gone = old;
    }
    kv_assert(store->updater.optimizer, "states are taken by an updater of kind %d",
              (int)store->updater.kind);
    for (int64_t i = 0; i < store->slots.n; i++)
        store->slots.items[i].updates = updates[i];
    state_parts_commit(parts, store->updater.optimizer, &store->slots);
    residual_parts_commit(owed, &store->slots);
    store->changes++;
}

int state_file_load(kv *store, const checkpoint *f, const char *path, bool numbers_only,
                    updater *gone, kv_err *e)
{
    static const char *const names[] = {STATES_FORMAT, OPTIMIZER, KEY_TYPE, KEY, NULL};
    file_reader r = {store, f, path, e};
    bool ours;
    own_updater next = {0};
    state_parts parts;
    own_residual_parts owed = {0};
    TRY(state_file_check(store, e));
    TRY(image_check(f, path, e));
    TRY(check_format(&r));
    TRY(image_check_names(f, path, names, state_part_names, &ours, e));
    TRY(check_optimizer(&r));
    own_mem int64_t *updates = mem_alloc(store->slots.n, sizeof *updates, e);
    TRY(updates ? read_keys(&r, updates) : KV_E_MEMORY);
    if (checkpoint_metadata(f, RULE_PART))
        TRY(state_parts_read_rule(&next, f, path, e));
    optimizer *o = next.optimizer ? next.optimizer : store->updater.optimizer;
    TRY(read_residuals(&r, &owed));
    TRY(state_parts_read(&parts, f, path, "", o, &store->slots, updates, numbers_only, false, e));
    commit(store, &next, &parts, &owed, updates, gone);
    return KV_OK;
}

/* ---- The parts of a file ----
 *
 * Writing goes slot by slot. Reading goes through the file, marks the states that the texts promise
 * and those that were found, and compares the two at the end. */

#define NUM_UPDATE "kvstore.num_update"
#define STATES     "kvstore.states."
#define NUMBER     "kvstore.number."
#define SHARED     "kvstore.shared."
#define NOW        "kvstore.schedule_now"
#define MASTER     STATE_MASTER

/* Bits of the states of a key, by number, and of its master. */
#define MASTER_BIT (1u << 31)
_Static_assert(PLAN_MAX_STATES <= 31, "no bit left for the master");

/* ---- Writing --------------------------------------------------------------------------------- */

void state_parts_number(buf *out, host x)
{
    char text[NUM_TEXT_MAX];
    buf_add(out, host_kind_name(x.kind));
    switch (x.kind) {
    case HOST_NONE:
        break;
    case HOST_BOOL:
        buf_add(out, x.u.integer ? " true" : " false");
        break;
    case HOST_INT:
        buf_printf(out, " %lld", (long long)x.u.integer);
        break;
    case HOST_FLOAT:
        num_repr(text, x.u.number, NUM_BINARY64);
        buf_printf(out, " %s", text);
        break;
    case HOST_TEXT: /* no state holds one */
        break;
    }
}

static void add_number(image *im, const char *prefix, const char *name, host x)
{
    buf b = {0};
    state_parts_number(&b, x);
    image_buf(im, prefix, name, &b);
}

/* One state of a key. names gets its name. */
static void add_state(image *im, const slot_state *s, int i, const rule_state_info *info,
                      const char *key, const char *prefix, buf *names)
{
    own_buf name = {0};
    buf_printf(&name, "%s/%s", key, info->name);
    buf_printf(names, names->len ? " %s" : "%s", info->name);
    buf_check(&name, &im->why);
    if (info->how == STATE_KEY)
        add_number(im, NUMBER, buf_text(&name), s->numbers[i]);
    else if (s->arrays[i]) /* that of a worker's slot is with the servers */
        image_array(im, prefix, buf_text(&name), s->arrays[i]);
}

static void add_slot(image *im, const optimizer *o, const slot *s, const char *prefix)
{
    static const rule_state_info master = {MASTER, STATE_ARRAY};
    char number[32];
    const char *key = image_key(number, &s->key);
    buf names = {0};
    if (!s->state)
        return;
    for (int i = 0; i < o->nstates; i++)
        if (o->states[i].how != STATE_SHARED && s->state->have >> i & 1)
            add_state(im, s->state, i, &o->states[i], key, prefix, &names);
    if (s->state->master) {
        slot_state only = {.arrays = {s->state->master}};
        add_state(im, &only, 0, &master, key, prefix, &names);
    }
    if (names.len || names.failed)
        image_buf(im, STATES, key, &names);
}

void state_parts_add(image *im, const optimizer *o, const slot_table *t, const char *prefix)
{
    char number[NUM_TEXT_MAX];
    num_int(number, o->now.num_update);
    image_text(im, NUM_UPDATE, "", number);
    if (o->scheduled) {
        const lr_schedule *s = &o->now.schedule;
        buf text = {0}, now = {0};
        char rate[NUM_TEXT_MAX];
        lr_schedule_print(s, &text);
        image_buf(im, STATE_SCHEDULE, "", &text);
        num_repr(rate, s->base_lr, NUM_BINARY64);
        buf_printf(&now, "%s %lld %lld", rate, (long long)s->at, (long long)s->count);
        image_buf(im, NOW, "", &now);
    }
    for (int i = 0; i < o->nstates; i++)
        if (o->states[i].how == STATE_SHARED && o->now.have >> i & 1)
            add_number(im, SHARED, o->states[i].name, o->now.shared[i]);
    for (int64_t i = 0; i < t->n; i++)
        add_slot(im, o, &t->items[i], prefix);
}

void state_parts_add_rule(image *im, const optimizer *o)
{
    image_text(im, RULE_PART, "", o->rule->text);
    for (int i = 0; i < o->params->n; i++)
        image_text(im, PARAM_PART, o->params->given[i].name, o->params->given[i].value);
}

/* ---- Reading --------------------------------------------------------------------------------- */

const char *const state_part_names[] = {NUM_UPDATE, STATE_SCHEDULE, NOW,        STATES, NUMBER,
                                        SHARED,     RULE_PART,      PARAM_PART, NULL};

typedef struct reader {
    state_parts *p;
    const checkpoint *f;
    const char *path, *prefix;
    const optimizer *o;
    const slot_table *t;
    const int64_t *updates;
    bool later;        /* see state_parts_read */
    uint32_t required; /* a promised state of these bits must be found */
    uint32_t *listed;  /* by slot: promised states; the ones found are in `have` */
    int64_t last;             /* the slot found last */
    kv_err *e;
} reader;

static int find_state(const optimizer *o, const char *name, size_t n)
{
    for (int i = 0; i < o->nstates; i++)
        if (strlen(o->states[i].name) == n && memcmp(o->states[i].name, name, n) == 0)
            return i;
    return -1;
}

static int find_slot(reader *r, const char *text, size_t n, int64_t *at)
{
    *at = r->last = image_slot(r->t, text, n, r->last + 1);
    if (*at < 0)
        return file_bad(r->e, KV_E_FORMAT, r->path, "states of \"%.*s\", which is not a key of it",
                   n > 80 ? 80 : (int)n, text);
    return KV_OK;
}

/* The bit of a name in a list. */
static int find_bit(reader *r, int64_t at, const char *name, size_t n, uint32_t *bit)
{
    int i = find_state(r->o, name, n);
    if (n == strlen(MASTER) && memcmp(name, MASTER, n) == 0)
        *bit = MASTER_BIT;
    else if (i >= 0 && r->o->states[i].how != STATE_SHARED)
        *bit = 1u << i;
    else
        return file_bad(r->e, KV_E_VALUE, r->path,
                        "key %s has a state \"%.*s\", which the optimizer in use does not have",
                        SLOT_KEY(&r->t->items[at].key), n > 80 ? 80 : (int)n, name);
    return KV_OK;
}

/* "mean var" */
static int read_list(reader *r, const char *key, const char *names)
{
    int64_t at;
    uint32_t bit;
    TRY(find_slot(r, key, strlen(key), &at));
    while (*names) {
        size_t n = strcspn(names, " ");
        TRY(find_bit(r, at, names, n, &bit));
        r->listed[at] |= bit;
        names += n + (names[n] == ' ');
    }
    r->p->states[at] = mem_zalloc(1, sizeof **r->p->states, r->e);
    return r->p->states[at] ? KV_OK : KV_E_MEMORY;
}

/* KEY/STATE, which a list must have promised. */
static int read_name(reader *r, const char *name, int64_t *at, uint32_t *bit)
{
    const char *slash = strrchr(name, '/');
    if (!slash)
        return file_bad(r->e, KV_E_FORMAT, r->path, "\"%.80s\" is not a state of a key", name);
    TRY(find_slot(r, name, (size_t)(slash - name), at));
    TRY(find_bit(r, *at, slash + 1, strlen(slash + 1), bit));
    if (!(r->listed[*at] & *bit))
        return file_bad(r->e, KV_E_FORMAT, r->path,
                        "\"%.80s\" is not in the list of what the key keeps", name);
    r->p->states[*at]->have |= *bit;
    return KV_OK;
}

static int bit_number(uint32_t bit)
{
    int i = 0;
    if (!kv_assert(bit, "a state is looked for in an empty set"))
        return 0;
    while (!(bit >> i & 1))
        i++;
    return i;
}

static bool is_number(const reader *r, uint32_t bit)
{
    return bit != MASTER_BIT && r->o->states[bit_number(bit)].how == STATE_KEY;
}

static int check_form(const reader *r, const tensor_info *t, const optimizer_form *want)
{
    char got[128], wanted[128];
    bool same = t->type == tensor_type_of(want->dtype) && t->ndim == want->ndim;
    for (int i = 0; i < t->ndim && same; i++)
        same = t->shape[i] == want->shape[i];
    if (same)
        return KV_OK;
    return file_bad(
        r->e, KV_E_FORMAT, r->path, "the tensor \"%.80s\" is %s %s, a state of this key is %s %s",
        t->name, tensor_type_name(t->type), kv_shape_text(got, sizeof got, t->ndim, t->shape),
        kv_dtype_name(want->dtype), kv_shape_text(wanted, sizeof wanted, want->ndim, want->shape));
}

/* Tensor i in the context of the key. */
static int load(const reader *r, int64_t i, kv_ctx ctx, kv_array **out)
{
    kv_array *a;
    bool same = kv_ctx_same(ctx, (kv_ctx){0});
    TRY(image_load(&a, r->f, i, r->later && same, r->path, r->e));
    if (same) {
        *out = a;
        return KV_OK;
    }
    int rc = kv_array_dup(out, a, kv_array_dtype(a), ctx, r->e);
    kv_array_unref(a);
    return rc;
}

static int read_tensor(reader *r, int64_t i)
{
    const tensor_info *t = checkpoint_at(r->f, i);
    int64_t at;
    uint32_t bit;
    TRY(read_name(r, t->name + strlen(r->prefix), &at, &bit));
    if (is_number(r, bit))
        return file_bad(r->e, KV_E_FORMAT, r->path, "the tensor \"%.80s\" should be a number",
                        t->name);
    int state = bit == MASTER_BIT ? -1 : bit_number(bit);
    optimizer_form form = optimizer_state_form(r->o, state, &r->t->items[at]);
    TRY(check_form(r, t, &form));
    slot_state *s = r->p->states[at];
    return load(r, i, kv_array_ctx(r->t->items[at].stored),
                state < 0 ? &s->master : &s->arrays[state]);
}

/* The number of a text, see the table. */
static bool parse_number(const char *text, host *x)
{
    size_t kind = strcspn(text, " "), n;
    bool over = false;
    int64_t i;
    double d;
    const char *rest = text + kind + (text[kind] == ' ');
    n = strlen(rest);
    if (strcmp(text, "none") == 0)
        *x = host_none();
    else if (strcmp(text, "bool true") == 0 || strcmp(text, "bool false") == 0)
        *x = host_bool(*rest == 't');
    else if (image_begins(text, "int ") && n && num_parse_int(rest, n, &i, &over) == n && !over)
        *x = host_int(i);
    else if (image_begins(text, "float ") && n && num_parse(rest, n, NUM_BINARY64, &d, NULL) == n)
        *x = host_float(d);
    else
        return false;
    return true;
}

static int read_number(const reader *r, const char *name, const char *text, host *x)
{
    if (parse_number(text, x))
        return KV_OK;
    return file_bad(r->e, KV_E_FORMAT, r->path, "\"%.80s\" is \"%.80s\", which is not a number",
                    name, text);
}

static int read_shared(reader *r, const char *name, const char *text)
{
    int i = find_state(r->o, name, strlen(name));
    if (i < 0 || r->o->states[i].how != STATE_SHARED)
        return file_bad(r->e, KV_E_VALUE, r->path,
                        "it has a shared state \"%.80s\", which the optimizer in use does not have",
                        name);
    r->p->draft.have |= 1u << i;
    return read_number(r, name, text, &r->p->draft.shared[i]);
}

static int read_key_number(reader *r, const char *name, const char *text)
{
    int64_t at;
    uint32_t bit;
    TRY(read_name(r, name, &at, &bit));
    if (!is_number(r, bit))
        return file_bad(r->e, KV_E_FORMAT, r->path, "\"%.80s\" should be a tensor", name);
    return read_number(r, name, text, &r->p->states[at]->numbers[bit_number(bit)]);
}

/* All texts that begin so. */
static int each_text(reader *r, const char *prefix,
                     int (*read)(reader *r, const char *name, const char *text))
{
    r->last = -1;
    for (int64_t i = 0; i < checkpoint_metadata_count(r->f); i++) {
        const checkpoint_text *p = checkpoint_metadata_at(r->f, i);
        if (image_begins(p->name, prefix))
            TRY(read(r, p->name + strlen(prefix), p->text));
    }
    return KV_OK;
}

static int read_schedule(reader *r)
{
    const char *text = checkpoint_metadata(r->f, STATE_SCHEDULE),
               *now = checkpoint_metadata(r->f, NOW);
    lr_schedule *s = &r->p->draft.schedule;
    own_buf mine = {0};
    if (!text && !now)
        return KV_OK;
    if (r->o->scheduled)
        lr_schedule_print(&r->o->now.schedule, &mine);
    TRY(buf_check(&mine, r->e));
    bool same = text && strcmp(buf_text(&mine), text) == 0;
    if (text && now && !same)
        return KV_OK;
    size_t len = now ? strcspn(now, " ") : 0;
    const char *rest = now ? now + len + (now[len] == ' ') : NULL;
    if (!text || !len || num_parse(now, len, NUM_BINARY64, &s->base_lr, NULL) != len ||
        !(rest = image_count(rest, &s->at)) || !(rest = image_count(rest, &s->count)) || *rest ||
        s->at > s->nsteps)
        return file_bad(r->e, KV_E_FORMAT, r->path, "\"" NOW "\" is not where a schedule stands");
    return KV_OK;
}

static int read_num_update(reader *r)
{
    const char *text = checkpoint_metadata(r->f, NUM_UPDATE);
    const char *rest = text ? image_count(text, &r->p->draft.num_update) : NULL;
    if (!rest || *rest)
        return file_bad(r->e, KV_E_FORMAT, r->path, "\"" NUM_UPDATE "\" is not a count");
    return KV_OK;
}

/* Checks that promised states were found, and that there is a master where one is needed. */
static int check_slot(const reader *r, int64_t i)
{
    const slot *s = &r->t->items[i];
    uint32_t lost = r->listed[i] & r->required & ~(r->p->states[i] ? r->p->states[i]->have : 0);
    bool master = r->listed[i] & MASTER_BIT;
    bool needed = r->required & MASTER_BIT && optimizer_has_master(r->o, s);
    const char *key = SLOT_KEY(&s->key);
    if (lost)
        return file_bad(r->e, KV_E_FORMAT, r->path, "the state \"%s\" of key %s is missing",
                   lost == MASTER_BIT ? MASTER : r->o->states[bit_number(lost)].name, key);
    if (master && !needed)
        return file_bad(r->e, KV_E_VALUE, r->path,
                        "key %s was updated with multi_precision, the optimizer in use has it off",
                        key);
    if (needed && !master && r->updates[i] > 0 && r->listed[i])
        return file_bad(
            r->e, KV_E_VALUE, r->path,
            "key %s was updated without multi_precision, the optimizer in use has it on", key);
    if (r->p->states[i])
        r->p->states[i]->have = r->listed[i] & ~MASTER_BIT;
    return KV_OK;
}

static int read_all(reader *r)
{
    TRY(each_text(r, STATES, read_list));
    r->last = -1;
    for (int64_t i = 0; i < checkpoint_count(r->f); i++)
        if (image_begins(checkpoint_at(r->f, i)->name, r->prefix) &&
            !residual_parts_is(checkpoint_at(r->f, i)->name))
            TRY(read_tensor(r, i));
    TRY(each_text(r, NUMBER, read_key_number));
    TRY(each_text(r, SHARED, read_shared));
    TRY(read_num_update(r));
    TRY(read_schedule(r));
    for (int64_t i = 0; i < r->t->n; i++)
        TRY(check_slot(r, i));
    return KV_OK;
}

static void release_parts(state_parts *p)
{
    for (int64_t i = 0; i < p->n; i++)
        slot_state_free(p->states[i]);
    mem_free(p->states);
    *p = (state_parts){0};
}

int state_parts_read(state_parts *p, const checkpoint *f, const char *path, const char *prefix,
                     const optimizer *o, const slot_table *t, const int64_t *updates,
                     bool numbers_only, bool later, kv_err *e)
{
    OWN(release_parts) state_parts made = {.draft.schedule = o->now.schedule};
    own_mem uint32_t *listed = mem_zalloc(t->n, sizeof *listed, e);
    reader r = {.p = &made, .f = f, .path = path, .prefix = prefix, .o = o, .t = t,
                .updates = updates, .listed = listed, .later = later,
                .required = numbers_only ? 0 : UINT32_MAX, .last = -1, .e = e};
    for (int i = 0; i < o->nstates; i++)
        r.required |= o->states[i].how == STATE_KEY ? 1u << i : 0;
    if (!listed || !(made.states = mem_zalloc(t->n, sizeof *made.states, e)))
        return KV_E_MEMORY;
    made.n = t->n;
    TRY(read_all(&r));
    *p = made;
    made = (state_parts){0};
    return KV_OK;
}

void state_parts_commit(state_parts *p, optimizer *o, slot_table *t)
{
    for (int64_t i = 0; i < p->n; i++) {
        slot_state *old = t->items[i].state;
        t->items[i].state = p->states[i];
        p->states[i] = old;
    }
    optimizer_commit(o, &p->draft);
    release_parts(p); /* it holds the old ones now */
}

/* ---- The rule -------------------------------------------------------------------------------- */

/* params has room for all metadata. */
static int read_params(const checkpoint *f, kv_opt *params)
{
    int n = 0;
    for (int64_t i = 0; i < checkpoint_metadata_count(f); i++) {
        const checkpoint_text *p = checkpoint_metadata_at(f, i);
        if (image_begins(p->name, PARAM_PART))
            params[n++] = (kv_opt){p->name + strlen(PARAM_PART), p->text};
    }
    return n;
}

int state_parts_read_rule(updater *u, const checkpoint *f, const char *path, kv_err *e)
{
    const char *text = checkpoint_metadata(f, RULE_PART);
    kv_rule *rule = NULL;
    kv_err why = {0};
    if (!text)
        return kv_err_set(e, KV_E_FORMAT, "%s: the metadata have no \"" RULE_PART "\"", path);
    own_mem kv_opt *params = mem_alloc(checkpoint_metadata_count(f), sizeof *params, e);
    if (!params)
        return KV_E_MEMORY;
    int rc = kv_rule_new(&rule, text, NULL, 0, 0, &why);
    if (!rc)
        rc = updater_init_rule(u, rule, params, read_params(f, params), &why);
    if (rc) {
        /* An error of a rule that stands in a file begins with the file. */
        kv_code code = why.code == KV_E_MEMORY ? KV_E_MEMORY : KV_E_FORMAT;
        kv_err_set(e, code, "%s: its rule: %s", path, why.text);
        kv_err_hint(e, "%s", why.hint);
        rc = code;
    }
    kv_rule_free(rule);
    return rc;
}
