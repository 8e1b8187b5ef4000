/* Writing goes slot by slot. Reading goes through the file, marks the states that the texts promise
 * and those that were found, and compares the two at the end. */
#include "core/state_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/buf.h"
#include "base/kv_assert.h"
#include "base/num.h"
#include "core/value_parts.h"

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

static bool is_own(const optimizer *o, const slot_state *s, int i)
{
    return o->states[i].how != STATE_SHARED && s->have >> i & 1;
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
    buf name = {0};
    buf_printf(&name, "%s/%s", key, info->name);
    buf_printf(names, names->len ? " %s" : "%s", info->name);
    buf_check(&name, &im->why);
    if (info->how == STATE_KEY)
        add_number(im, NUMBER, buf_text(&name), s->numbers[i]);
    else if (s->arrays[i]) /* that of a worker's slot is with the servers */
        image_array(im, prefix, buf_text(&name), s->arrays[i]);
    buf_release(&name);
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
        if (is_own(o, s->state, i))
            add_state(im, s->state, i, &o->states[i], key, prefix, &names);
    if (s->state->master) {
        slot_state only = {.arrays = {s->state->master}};
        add_state(im, &only, 0, &master, key, prefix, &names);
    }
    if (names.len || names.failed)
        image_buf(im, STATES, key, &names);
}

static void add_schedule(image *im, const lr_schedule *s)
{
    buf text = {0}, now = {0};
    char rate[NUM_TEXT_MAX];
    lr_schedule_print(s, &text);
    image_buf(im, STATE_SCHEDULE, "", &text);
    num_repr(rate, s->base_lr, NUM_BINARY64);
    buf_printf(&now, "%s %lld %lld", rate, (long long)s->at, (long long)s->count);
    image_buf(im, NOW, "", &now);
}

void state_parts_add(image *im, const optimizer *o, const slot_table *t, const char *prefix)
{
    char number[NUM_TEXT_MAX];
    num_int(number, o->now.num_update);
    image_text(im, NUM_UPDATE, "", number);
    if (o->scheduled)
        add_schedule(im, &o->now.schedule);
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

bool state_parts_has(const char *name)
{
    return strcmp(name, NUM_UPDATE) == 0 || strcmp(name, STATE_SCHEDULE) == 0 ||
           strcmp(name, NOW) == 0 || image_begins(name, STATES) || image_begins(name, NUMBER) ||
           image_begins(name, SHARED) || strcmp(name, RULE_PART) == 0 ||
           image_begins(name, PARAM_PART);
}

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
    int rc = find_slot(r, key, strlen(key), &at);
    while (!rc && *names) {
        size_t n = strcspn(names, " ");
        if (!(rc = find_bit(r, at, names, n, &bit)))
            r->listed[at] |= bit;
        names += n + (names[n] == ' ');
    }
    if (!rc && !(r->p->states[at] = mem_zalloc(1, sizeof **r->p->states, r->e)))
        rc = KV_E_MEMORY;
    return rc;
}

/* KEY/STATE, which a list must have promised. */
static int read_name(reader *r, const char *name, int64_t *at, uint32_t *bit)
{
    const char *slash = strrchr(name, '/');
    if (!slash)
        return file_bad(r->e, KV_E_FORMAT, r->path, "\"%.80s\" is not a state of a key", name);
    int rc = find_slot(r, name, (size_t)(slash - name), at);
    if (rc || (rc = find_bit(r, *at, slash + 1, strlen(slash + 1), bit)))
        return rc;
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
    int rc = image_load(&a, r->f, i, r->later && same, r->path, r->e);
    if (rc)
        return rc;
    if (same) {
        *out = a;
        return KV_OK;
    }
    rc = kv_array_dup(out, a, kv_array_dtype(a), ctx, r->e);
    kv_array_unref(a);
    return rc;
}

static int read_tensor(reader *r, int64_t i)
{
    const tensor_info *t = checkpoint_at(r->f, i);
    int64_t at;
    uint32_t bit;
    int rc = read_name(r, t->name + strlen(r->prefix), &at, &bit);
    if (rc)
        return rc;
    if (is_number(r, bit))
        return file_bad(r->e, KV_E_FORMAT, r->path, "the tensor \"%.80s\" should be a number",
                        t->name);
    int state = bit == MASTER_BIT ? -1 : bit_number(bit);
    optimizer_form form = optimizer_state_form(r->o, state, &r->t->items[at]);
    if ((rc = check_form(r, t, &form)))
        return rc;
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
    int rc = read_name(r, name, &at, &bit);
    if (rc)
        return rc;
    if (!is_number(r, bit))
        return file_bad(r->e, KV_E_FORMAT, r->path, "\"%.80s\" should be a tensor", name);
    return read_number(r, name, text, &r->p->states[at]->numbers[bit_number(bit)]);
}

/* All texts that begin so. */
static int each_text(reader *r, const char *prefix,
                     int (*read)(reader *r, const char *name, const char *text))
{
    int rc = KV_OK;
    r->last = -1;
    for (int64_t i = 0; i < checkpoint_metadata_count(r->f) && !rc; i++) {
        const checkpoint_text *p = checkpoint_metadata_at(r->f, i);
        if (image_begins(p->name, prefix))
            rc = read(r, p->name + strlen(prefix), p->text);
    }
    return rc;
}

static int read_schedule(reader *r)
{
    const char *text = checkpoint_metadata(r->f, STATE_SCHEDULE),
               *now = checkpoint_metadata(r->f, NOW);
    lr_schedule *s = &r->p->draft.schedule;
    buf mine = {0};
    if (!text && !now)
        return KV_OK;
    if (r->o->scheduled)
        lr_schedule_print(&r->o->now.schedule, &mine);
    int rc = buf_check(&mine, r->e);
    bool same = text && strcmp(buf_text(&mine), text) == 0;
    buf_release(&mine);
    if (rc || (text && now && !same))
        return rc;
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
    int rc = each_text(r, STATES, read_list);
    r->last = -1;
    for (int64_t i = 0; i < checkpoint_count(r->f) && !rc; i++)
        if (image_begins(checkpoint_at(r->f, i)->name, r->prefix) &&
            !residual_parts_is(checkpoint_at(r->f, i)->name))
            rc = read_tensor(r, i);
    if (rc || (rc = each_text(r, NUMBER, read_key_number)) ||
        (rc = each_text(r, SHARED, read_shared)) || (rc = read_num_update(r)))
        return rc;
    rc = read_schedule(r);
    for (int64_t i = 0; i < r->t->n && !rc; i++)
        rc = check_slot(r, i);
    return rc;
}

int state_parts_read(state_parts *p, const checkpoint *f, const char *path, const char *prefix,
                     const optimizer *o, const slot_table *t, const int64_t *updates,
                     bool numbers_only, bool later, kv_err *e)
{
    *p = (state_parts){0};
    p->draft.schedule = o->now.schedule;
    reader r = {.p = p, .f = f, .path = path, .prefix = prefix, .o = o, .t = t, .updates = updates,
                .later = later, .required = numbers_only ? 0 : UINT32_MAX, .last = -1, .e = e};
    for (int i = 0; i < o->nstates; i++)
        r.required |= o->states[i].how == STATE_KEY ? 1u << i : 0;
    p->states = mem_zalloc(t->n, sizeof *p->states, e);
    r.listed = mem_zalloc(t->n, sizeof *r.listed, e);
    int rc = p->states && r.listed ? KV_OK : KV_E_MEMORY;
    if (!rc) {
        p->n = t->n;
        rc = read_all(&r);
    }
    mem_free(r.listed);
    if (rc)
        state_parts_release(p);
    return rc;
}

void state_parts_commit(state_parts *p, optimizer *o, slot_table *t)
{
    for (int64_t i = 0; i < p->n; i++) {
        slot_state *old = t->items[i].state;
        t->items[i].state = p->states[i];
        p->states[i] = old;
    }
    optimizer_commit(o, &p->draft);
    state_parts_release(p); /* it holds the old ones now */
}

void state_parts_release(state_parts *p)
{
    for (int64_t i = 0; i < p->n; i++)
        slot_state_free(p->states[i]);
    mem_free(p->states);
    *p = (state_parts){0};
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

/* An error of a rule that stands in a file begins with the file. */
static int in_rule(const char *path, const kv_err *why, kv_err *e)
{
    kv_code code = why->code == KV_E_MEMORY ? KV_E_MEMORY : KV_E_FORMAT;
    kv_err_set(e, code, "%s: its rule: %s", path, why->text);
    if (why->hint[0])
        kv_err_hint(e, "%s", why->hint);
    return code;
}

int state_parts_read_rule(updater *u, const checkpoint *f, const char *path, kv_err *e)
{
    const char *text = checkpoint_metadata(f, RULE_PART);
    kv_rule *rule = NULL;
    kv_err why = {0};
    if (!text)
        return kv_err_set(e, KV_E_FORMAT, "%s: the metadata have no \"" RULE_PART "\"", path);
    kv_opt *params = mem_alloc(checkpoint_metadata_count(f), sizeof *params, e);
    if (!params)
        return KV_E_MEMORY;
    int rc = kv_rule_new(&rule, text, NULL, 0, 0, &why);
    if (!rc)
        rc = updater_init_rule(u, rule, params, read_params(f, params), &why);
    if (rc)
        rc = in_rule(path, &why, e);
    kv_rule_free(rule);
    mem_free(params);
    return rc;
}
