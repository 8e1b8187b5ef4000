/* Writing goes slot by slot. Reading goes through the file, marks what the texts promise and what
 * was found, and compares the two at the end. */
#include "core/state_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/buf.h"
#include "base/num.h"
#include "core/checksum.h"
#include "core/key_text.h"
#include "core/residual_parts.h"

#define NUM_UPDATE "kvstore.num_update"
#define STATES     "kvstore.states."
#define NUMBER     "kvstore.number."
#define SHARED     "kvstore.shared."
#define NOW        "kvstore.schedule_now"
#define MASTER     STATE_MASTER

/* Bits of what a key keeps: its states by number, and the master. */
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

/* Adds the text that b holds, and empties b. */
static int add_text(image *im, const char *prefix, const char *name, buf *b, kv_err *e)
{
    int rc = buf_check(b, e);
    if (!rc)
        rc = image_text(im, prefix, name, buf_text(b), e);
    buf_clear(b);
    return rc;
}

static int add_number(image *im, const char *prefix, const char *name, host x, kv_err *e)
{
    buf b = {0};
    state_parts_number(&b, x);
    int rc = add_text(im, prefix, name, &b, e);
    buf_release(&b);
    return rc;
}

static bool is_own(const optimizer *o, const slot_state *s, int i)
{
    return o->states[i].how != STATE_SHARED && s->have >> i & 1;
}

/* One state of a key. names gets its name. */
static int add_state(image *im, const slot_state *s, int i, const rule_state_info *info,
                     const char *key, const char *prefix, buf *names, kv_err *e)
{
    buf name = {0};
    buf_printf(&name, "%s/%s", key, info->name);
    buf_printf(names, names->len ? " %s" : "%s", info->name);
    int rc = buf_check(&name, e);
    if (!rc && info->how == STATE_KEY)
        rc = add_number(im, NUMBER, buf_text(&name), s->numbers[i], e);
    else if (!rc)
        rc = image_array(im, prefix, buf_text(&name), s->arrays[i], e);
    buf_release(&name);
    return rc;
}

static int add_slot(image *im, const optimizer *o, const slot *s, const char *prefix, kv_err *e)
{
    static const rule_state_info master = {MASTER, STATE_ARRAY};
    char number[32];
    const char *key = key_text_of(number, &s->key);
    buf names = {0};
    int rc = KV_OK, listed = 0;
    if (!s->state)
        return KV_OK;
    for (int i = 0; i < o->nstates && !rc; i++) {
        if (!is_own(o, s->state, i))
            continue;
        rc = add_state(im, s->state, i, &o->states[i], key, prefix, &names, e);
        listed++;
    }
    if (!rc && s->state->master) {
        slot_state only = {.arrays = {s->state->master}};
        rc = add_state(im, &only, 0, &master, key, prefix, &names, e);
        listed++;
    }
    if (!rc && listed) /* a length of 0 could be an addition that failed */
        rc = add_text(im, STATES, key, &names, e);
    buf_release(&names);
    return rc;
}

static int add_schedule(image *im, const lr_schedule *s, kv_err *e)
{
    buf b = {0};
    char rate[NUM_TEXT_MAX];
    lr_schedule_print(s, &b);
    int rc = add_text(im, STATE_SCHEDULE, "", &b, e);
    num_repr(rate, s->base_lr, NUM_BINARY64);
    buf_printf(&b, "%s %lld %lld", rate, (long long)s->at, (long long)s->count);
    if (!rc)
        rc = add_text(im, NOW, "", &b, e);
    buf_release(&b);
    return rc;
}

int state_parts_add(image *im, const optimizer *o, const slot_table *t, const char *prefix,
                    kv_err *e)
{
    char number[NUM_TEXT_MAX];
    num_int(number, o->num_update);
    int rc = image_text(im, NUM_UPDATE, "", number, e);
    if (!rc && o->scheduled)
        rc = add_schedule(im, &o->schedule, e);
    for (int i = 0; i < o->nstates && !rc; i++)
        if (o->states[i].how == STATE_SHARED && o->have >> i & 1)
            rc = add_number(im, SHARED, o->states[i].name, o->shared[i], e);
    for (int64_t i = 0; i < t->n && !rc; i++)
        rc = add_slot(im, o, &t->items[i], prefix, e);
    return rc;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool state_parts_has(const char *name)
{
    return strcmp(name, NUM_UPDATE) == 0 || strcmp(name, STATE_SCHEDULE) == 0 ||
           strcmp(name, NOW) == 0 || begins(name, STATES) || begins(name, NUMBER) ||
           begins(name, SHARED);
}

typedef struct reader {
    state_parts *p;
    const safetensors *f;
    const char *path, *prefix;
    const optimizer *o;
    const slot_table *t;
    const int64_t *updates;
    uint32_t *listed, *found; /* by slot: what the texts say, and what was there */
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
    *at = r->last = key_text_slot(r->t, text, n, r->last + 1);
    if (*at < 0)
        return file_bad(r->e, KV_E_FORMAT, r->path, "states of \"%.*s\", which is no key of it",
                   n > 80 ? 80 : (int)n, text);
    return KV_OK;
}

/* The bit of a name in a list. */
static int find_bit(reader *r, int64_t at, const char *name, size_t n, uint32_t *bit)
{
    char key[SLOT_KEY_TEXT];
    int i = find_state(r->o, name, n);
    if (n == strlen(MASTER) && memcmp(name, MASTER, n) == 0)
        *bit = MASTER_BIT;
    else if (i >= 0 && r->o->states[i].how != STATE_SHARED)
        *bit = 1u << i;
    else
        return file_bad(r->e, KV_E_VALUE, r->path,
                        "key %s has a state \"%.*s\", which the optimizer in use does not have",
                        slot_key_text(key, &r->t->items[at].key), n > 80 ? 80 : (int)n, name);
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

/* KEY/STATE, of what a list has promised. */
static int read_name(reader *r, const char *name, int64_t *at, uint32_t *bit)
{
    const char *slash = strrchr(name, '/');
    if (!slash)
        return file_bad(r->e, KV_E_FORMAT, r->path, "\"%.80s\" is no state of a key", name);
    int rc = find_slot(r, name, (size_t)(slash - name), at);
    if (rc || (rc = find_bit(r, *at, slash + 1, strlen(slash + 1), bit)))
        return rc;
    if (!(r->listed[*at] & *bit))
        return file_bad(r->e, KV_E_FORMAT, r->path,
                        "\"%.80s\" is not in the list of what the key keeps", name);
    r->found[*at] |= *bit;
    return KV_OK;
}

static int bit_number(uint32_t bit)
{
    int i = 0;
    while (!(bit >> i & 1))
        i++;
    return i;
}

static bool is_number(const reader *r, uint32_t bit)
{
    return bit != MASTER_BIT && r->o->states[bit_number(bit)].how == STATE_KEY;
}

static int check_form(const reader *r, const safetensors_tensor *t, const optimizer_form *want)
{
    char got[128], wanted[128];
    bool same = t->dtype == want->dtype && t->ndim == want->ndim;
    for (int i = 0; i < t->ndim && same; i++)
        same = t->shape[i] == want->shape[i];
    if (same)
        return KV_OK;
    return file_bad(
        r->e, KV_E_FORMAT, r->path, "the tensor \"%.80s\" is %s %s, a state of this key is %s %s",
        t->name, kv_dtype_name(t->dtype), kv_shape_text(got, sizeof got, t->ndim, t->shape),
        kv_dtype_name(want->dtype), kv_shape_text(wanted, sizeof wanted, want->ndim, want->shape));
}

/* Tensor i in the context of the key. */
static int load(const reader *r, int64_t i, kv_ctx ctx, kv_array **out)
{
    kv_array *a;
    int rc = checksum_load(&a, r->f, i, r->path, r->e);
    if (rc)
        return rc;
    if (kv_ctx_same(kv_array_ctx(a), ctx)) {
        *out = a;
        return KV_OK;
    }
    rc = kv_array_dup(out, a, kv_array_dtype(a), ctx, r->e);
    kv_array_unref(a);
    return rc;
}

static int read_tensor(reader *r, int64_t i)
{
    const safetensors_tensor *t = safetensors_at(r->f, i);
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
    else if (begins(text, "int ") && n && num_parse_int(rest, n, &i, &over) == n && !over)
        *x = host_int(i);
    else if (begins(text, "float ") && n && num_parse(rest, n, NUM_BINARY64, &d, NULL) == n)
        *x = host_float(d);
    else
        return false;
    return true;
}

static int read_number(const reader *r, const char *name, const char *text, host *x)
{
    if (parse_number(text, x))
        return KV_OK;
    return file_bad(r->e, KV_E_FORMAT, r->path, "\"%.80s\" is \"%.80s\", which is no number", name,
                    text);
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
    for (int64_t i = 0; i < safetensors_metadata_count(r->f) && !rc; i++) {
        const safetensors_pair *p = safetensors_metadata_at(r->f, i);
        if (begins(p->name, prefix))
            rc = read(r, p->name + strlen(prefix), p->text);
    }
    return rc;
}

/* A whole number from 0 on, with a blank or the end behind it. Returns what follows, or NULL. */
static const char *count_in(const char *text, int64_t *n)
{
    bool over = false;
    size_t len = strcspn(text, " ");
    if (len == 0 || num_parse_int(text, len, n, &over) != len || over || *n < 0)
        return NULL;
    return text + len + (text[len] == ' ');
}

static int read_schedule(reader *r)
{
    const char *text = safetensors_metadata(r->f, STATE_SCHEDULE),
               *now = safetensors_metadata(r->f, NOW);
    lr_schedule *s = &r->p->draft.schedule;
    buf mine = {0};
    if (!text && !now)
        return KV_OK;
    if (r->o->scheduled)
        lr_schedule_print(&r->o->schedule, &mine);
    int rc = buf_check(&mine, r->e);
    bool same = text && strcmp(buf_text(&mine), text) == 0;
    buf_release(&mine);
    if (rc || (text && now && !same))
        return rc;
    size_t len = now ? strcspn(now, " ") : 0;
    const char *rest = now ? now + len + (now[len] == ' ') : NULL;
    if (!text || !len || num_parse(now, len, NUM_BINARY64, &s->base_lr, NULL) != len ||
        !(rest = count_in(rest, &s->at)) || !(rest = count_in(rest, &s->count)) || *rest ||
        s->at > s->nsteps)
        return file_bad(r->e, KV_E_FORMAT, r->path, "\"" NOW "\" is not where a schedule stands");
    return KV_OK;
}

static int read_num_update(reader *r)
{
    const char *text = safetensors_metadata(r->f, NUM_UPDATE);
    const char *rest = text ? count_in(text, &r->p->draft.num_update) : NULL;
    if (!rest || *rest)
        return file_bad(r->e, KV_E_FORMAT, r->path, "\"" NUM_UPDATE "\" is no count");
    return KV_OK;
}

/* What a list promised is there, and there is a master where one is needed. */
static int check_slot(const reader *r, int64_t i)
{
    char key[SLOT_KEY_TEXT];
    const slot *s = &r->t->items[i];
    uint32_t lost = r->listed[i] & ~r->found[i];
    bool master = r->listed[i] & MASTER_BIT, needed = optimizer_has_master(r->o, s);
    slot_key_text(key, &s->key);
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
        r->p->states[i]->have = r->found[i] & ~MASTER_BIT;
    return KV_OK;
}

static int read_all(reader *r)
{
    int rc = each_text(r, STATES, read_list);
    r->last = -1;
    for (int64_t i = 0; i < safetensors_count(r->f) && !rc; i++)
        if (begins(safetensors_at(r->f, i)->name, r->prefix) &&
            !residual_parts_is(safetensors_at(r->f, i)->name))
            rc = read_tensor(r, i);
    if (rc || (rc = each_text(r, NUMBER, read_key_number)) ||
        (rc = each_text(r, SHARED, read_shared)) || (rc = read_num_update(r)))
        return rc;
    rc = read_schedule(r);
    for (int64_t i = 0; i < r->t->n && !rc; i++)
        rc = check_slot(r, i);
    return rc;
}

int state_parts_read(state_parts *p, const safetensors *f, const char *path, const char *prefix,
                     const optimizer *o, const slot_table *t, const int64_t *updates, kv_err *e)
{
    *p = (state_parts){0};
    p->draft.schedule = o->schedule;
    reader r = {p, f, path, prefix, o, t, updates, NULL, NULL, -1, e};
    p->states = mem_zalloc(t->n, sizeof *p->states, e);
    r.listed = mem_zalloc(t->n, sizeof *r.listed, e);
    r.found = mem_zalloc(t->n, sizeof *r.found, e);
    int rc = p->states && r.listed && r.found ? KV_OK : KV_E_MEMORY;
    if (!rc) {
        p->n = t->n;
        rc = read_all(&r);
    }
    mem_free(r.listed);
    mem_free(r.found);
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
    state_parts_release(p); /* what it holds now is what nobody needs */
}

void state_parts_release(state_parts *p)
{
    for (int64_t i = 0; i < p->n; i++)
        slot_state_free(p->states[i]);
    mem_free(p->states);
    *p = (state_parts){0};
}
