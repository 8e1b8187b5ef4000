/* Collecting rows: the optimizer as one, and one for each thing that it keeps for a key. */
#include "core/describe.h"

#include <string.h>

#include "core/state_file.h"
#include "core/state_parts.h"

#define SHAPE_TEXT (22 * KV_MAX_NDIM + 3) /* holds every shape */

/* ---- Fields ---------------------------------------------------------------------------------- */

static int add(describe *d, const char *name, const char *text, int64_t number, kv_err *e)
{
    const char *copy = text ? arena_text(&d->memory, text, strlen(text), e) : NULL;
    if ((text && !copy) || mem_grow(&d->fields, &d->cap, d->n + 1, sizeof *d->fields, e))
        return KV_E_MEMORY;
    d->fields[d->n++] = (kv_field){name, copy, number};
    return KV_OK;
}

/* Adds the text that b holds, and releases b. */
static int add_buf(describe *d, const char *name, buf *b, kv_err *e)
{
    int rc = buf_check(b, e);
    if (!rc)
        rc = add(d, name, buf_text(b), 0, e);
    buf_release(b);
    return rc;
}

/* The digits of a number without its kind: "0.1" of "float 0.1". */
static const char *digits(const char *text)
{
    const char *blank = strchr(text, ' ');
    return blank ? blank + 1 : text;
}

/* ---- The optimizer --------------------------------------------------------------------------- */

/* A float, or a number of any kind. */
static int add_number(describe *d, const char *name, host x, kv_err *e)
{
    buf text = {0};
    state_parts_number(&text, x);
    int rc = buf_check(&text, e);
    if (!rc)
        rc = add(d, name, digits(buf_text(&text)), 0, e);
    buf_release(&text);
    return rc;
}

/* A learning rate takes the place of the base of schedules that decay by a factor; poly and cosine
 * run from the base of the call all the same. */
static int add_schedule(describe *d, const optimizer *o, kv_err *e)
{
    buf text = {0};
    lr_schedule shown = o->schedule;
    host rate = rule_value(&o->binding, RULE_LEARNING_RATE);
    if ((shown.kind == LR_FACTOR || shown.kind == LR_MULTIFACTOR) && host_is_number(rate))
        shown.base_lr_orig = host_number(rate);
    lr_schedule_print(&shown, &text);
    return add_buf(d, "schedule", &text, e);
}

int describe_optimizer(describe *d, const kv *store, kv_err *e)
{
    *d = (describe){0};
    int rc = state_file_check(store, e);
    if (rc)
        return rc;
    const optimizer *o = store->updater.optimizer;
    if ((rc = add(d, "optimizer", updater_name(&store->updater), 0, e)) == KV_OK &&
        (rc = add(d, "num_update", NULL, o->num_update, e)) == KV_OK)
        rc = add_number(d, "learning_rate", host_float(optimizer_rate(o)), e);
    if (!rc && o->scheduled)
        rc = add_schedule(d, o, e);
    buf reads = {0};
    optimizer_reads_text(o, &reads);
    if (!rc && (reads.len > 0 || reads.failed))
        rc = add_buf(d, "reads", &reads, e);
    buf_release(&reads);
    for (int i = 0; i < o->nstates && !rc; i++) {
        const char *name = arena_text(&d->memory, o->states[i].name, strlen(o->states[i].name), e);
        if (!name)
            rc = KV_E_MEMORY;
        else if (o->states[i].how == STATE_SHARED && o->have >> i & 1)
            rc = add_number(d, name, o->shared[i], e);
    }
    d->width = (int)d->n;
    if (rc)
        describe_release(d);
    return rc;
}

/* ---- States ---------------------------------------------------------------------------------- */

/* One thing that is kept for a key: an array, or a number. */
typedef struct kept {
    const char *state; /* "": the key keeps nothing */
    const kv_array *array;
    const host *number;
} kept;

static int add_form(describe *d, const kept *k, kv_err *e)
{
    char shape[SHAPE_TEXT] = "";
    buf number = {0};
    const char *dtype = k->array    ? kv_dtype_name(kv_array_dtype(k->array))
                        : k->number ? host_kind_name(k->number->kind)
                                    : "";
    if (k->array)
        kv_shape_text(shape, sizeof shape, kv_array_ndim(k->array), kv_array_shape(k->array));
    if (k->number)
        state_parts_number(&number, *k->number);
    int rc = buf_check(&number, e);
    if (!rc && (rc = add(d, "dtype", dtype, 0, e)) == KV_OK &&
        (rc = add(d, "shape", shape, 0, e)) == KV_OK)
        rc = add(d, "value", k->number ? digits(buf_text(&number)) : "", 0, e);
    buf_release(&number);
    return rc;
}

static int add_row(describe *d, const slot *s, const kept *k, kv_err *e)
{
    int rc = add(d, "key", s->key.name, s->key.id, e);
    if (!rc && (rc = add(d, "state", k->state, 0, e)) == KV_OK &&
        (rc = add_form(d, k, e)) == KV_OK &&
        (rc = add(d, "bytes", NULL, k->array ? kv_array_bytes(k->array) : 0, e)) == KV_OK)
        rc = add(d, "t", NULL, s->updates, e);
    return rc;
}

static int add_slot(describe *d, const kv *store, const slot *s, kv_err *e)
{
    const optimizer *o = store->updater.optimizer;
    const slot_state *state = s->state;
    int64_t before = d->n;
    int rc = KV_OK;
    if (state && state->master)
        rc = add_row(d, s, &(kept){STATE_MASTER, state->master, NULL}, e);
    for (int i = 0; i < o->nstates && state && !rc; i++) {
        bool number = o->states[i].how == STATE_KEY;
        if (o->states[i].how == STATE_SHARED || !(state->have >> i & 1))
            continue;
        rc = add_row(d, s,
                     &(kept){o->states[i].name, number ? NULL : state->arrays[i],
                             number ? &state->numbers[i] : NULL},
                     e);
    }
    return rc || d->n > before ? rc : add_row(d, s, &(kept){"", NULL, NULL}, e);
}

/* Rows of `width` fields for the slots in the order of updates. */
static int add_slots(describe *d, kv *store, int width,
                     int (*add_one)(describe *d, const kv *store, const slot *s, kv_err *e),
                     kv_err *e)
{
    int rc = KV_OK;
    *d = (describe){.width = width};
    for (int64_t i = 0; i < store->slots.n && !rc; i++) {
        int64_t number;
        rc = slot_in_order(&store->slots, i, &number, e);
        if (!rc)
            rc = add_one(d, store, &store->slots.items[number], e);
    }
    if (rc)
        describe_release(d);
    return rc;
}

int describe_states(describe *d, kv *store, kv_err *e)
{
    int rc = state_file_check(store, e);
    return rc ? rc : add_slots(d, store, 7, add_slot, e);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static int add_slot_rounds(describe *d, const kv *store, const slot *s, kv_err *e)
{
    (void)store;
    int rc = add(d, "key", s->key.name, s->key.id, e);
    if (!rc && (rc = add(d, "round", NULL, s->pushes, e)) == KV_OK &&
        (rc = add(d, "newest", NULL, s->pushes, e)) == KV_OK &&
        (rc = add(d, "ahead", NULL, 0, e)) == KV_OK &&
        (rc = add(d, "pushed", "", 0, e)) == KV_OK)
        rc = add(d, "missing", "", 0, e);
    return rc;
}

int describe_rounds(describe *d, kv *store, kv_err *e)
{
    return add_slots(d, store, 6, add_slot_rounds, e);
}

/* ---- Handing over ---------------------------------------------------------------------------- */

int describe_visit(const describe *d, kv_visitor visit, void *arg, kv_err *e)
{
    int rc = KV_OK;
    for (int64_t i = 0; i < d->n && !rc; i += d->width)
        rc = visit(arg, d->fields + i, d->width, e);
    return rc;
}

void describe_release(describe *d)
{
    arena_release(&d->memory);
    mem_free(d->fields);
    *d = (describe){0};
}
