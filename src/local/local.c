/* The types local and device: the store is in this process, and sums happen where it keeps its
 * arrays.
 *
 * local keeps every array on cpu(0). device begins there too; the first push whose first value lies
 * on a GPU moves the key to that GPU, where it stays. A push reads the values straight from the
 * caller's arrays and never keeps one of them: the stored array is always the store's own.
 */
#include "local/local.h"

#include "base/kv_assert.h"
#include "base/map.h"
#include "core/call.h"
#include "core/store.h"

int local_no_options(const kv *store, const kv_opt *opts, int nopts, kv_err *e)
{
    if (nopts == 0)
        return KV_OK;
    kv_err_set(e, KV_E_USAGE, "the type \"%s\" has no option \"%.64s\"", store->type, opts[0].name);
    return kv_err_option(e, 0), KV_E_USAGE;
}

int local_open(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    if (local_no_options(store, opts, nopts, e))
        return KV_E_USAGE;
    store->in_slots = true;
    *self = store;
    return KV_OK;
}

static int open_device(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    store->compresses = true; /* only device has values in several contexts */
    store->follows_gpus = true;
    return local_open(store, opts, nopts, self, e);
}

/* ---- init ---- */

static int init_key(slot_table *t, int64_t old_n, const kv_key *key, kv_array *value,
                    bool compressed, kv_err *e)
{
    int64_t number = slot_find(t, key, -1);
    TRY(slot_check_kind(t, key, e));
    if (compressed)
        TRY(compression_check(key, value, e));
    if (number >= 0 && number < old_n)
        return slot_refuse_inited(key, e);
    if (number >= 0)
        return slot_error(e, KV_E_KEY, key, NULL, "key %s stands twice in the call", SLOT_KEY(key));
    own_array *stored = NULL;
    TRY(kv_array_dup(&stored, value, kv_array_dtype(value), (kv_ctx){KV_CPU, 0}, e));
    TRY(slot_add(t, key, stored, e));
    stored = NULL;
    return KV_OK;
}

int local_init(void *self, const kv_pairs *values, const kv_call *how, kv_err *e)
{
    kv *s = self;
    slot_table *t = &s->slots;
    int64_t old_n = t->n;
    uint64_t op = trace_on() ? trace_number() : 0;
    int64_t begin = op ? trace_now() : 0;
    (void)how;
    TRY(slot_reserve(t, values->n, e));
    for (int64_t i = 0; i < values->n; i++) {
        int rc = init_key(t, old_n, &values->keys[i], values->arrays[i], s->compression.code, e);
        if (rc) {
            slot_truncate(t, old_n);
            return rc;
        }
    }
    kv_assert(t->n == old_n + values->n, "init of %lld keys made %lld", (long long)values->n,
              (long long)(t->n - old_n));
    s->changes++;
    if (op)
        call_trace_alone(op, begin, "init", values->keys, values->n);
    return KV_OK;
}

/* ---- push, pull ---- */

int local_push(void *self, const kv_pairs *values, const kv_call *how, kv_err *e)
{
    kv *s = self;
    call *c;
    bool did;
    TRY(call_direct(s, values, NULL, &did, e));
    if (!did)
        TRY(call_in_batches(s, &push_ops, values, false, &did, e));
    if (did)
        return KV_OK;
    TRY(call_new(&c, s, &push_ops, values, e));
    TRY(call_prepare(c, e));
    return call_run(c, how, e);
}

int local_pull(void *self, const kv_pairs *outs, const kv_call *how, kv_err *e)
{
    kv *s = self;
    call *c;
    bool did;
    TRY(call_direct(s, NULL, outs, &did, e));
    if (!did)
        TRY(call_in_batches(s, &pull_ops, outs, false, &did, e));
    s->pulled_dense |= did; /* both take default arrays alone */
    if (did)
        return KV_OK;
    bool may_fill = how && how->flags & KV_FILL_SPARSE, fills = false;
    for (int64_t i = 0; i < outs->n && may_fill && !fills; i++)
        fills = outs->arrays[i]->storage != KV_DEFAULT;
    TRY(call_new(&c, s, fills ? &row_pull_all_ops : &pull_ops, outs, e));
    TRY(call_prepare(c, e));
    return call_run(c, how, e);
}

static int pull_rows(void *self, kv_array *const *ids, const kv_pairs *outs, const kv_call *how,
                     kv_err *e)
{
    call *c;
    TRY(call_new(&c, self, &row_pull_some_ops, outs, e));
    c->ids = ids;
    TRY(call_prepare(c, e));
    return call_run(c, how, e);
}

/* ---- pushpull, broadcast ---- */

/* Both halves are checked and have their room before the first one runs. Keys may be pulled that
 * the call itself makes: their shape is that of their first value. */

typedef struct first_half {
    const kv_pairs *values;
    bool creates; /* it makes the keys that are not there */
    map made;     /* each of its keys to its first value; filled when it is first needed */
} first_half;

/* The number of the first value that the call has for a key, or -1. */
static int find_made(first_half *h, const kv_key *key, int64_t *value, kv_err *e)
{
    *value = -1;
    if (!h->creates)
        return KV_OK;
    if (h->made.n == 0) {
        TRY(map_reserve(&h->made, h->values->n, e));
        for (int64_t i = h->values->n - 1; i >= 0; i--)
            TRY(map_put(&h->made, h->values->keys[i], i, e));
    }
    *value = map_get(&h->made, *key);
    return KV_OK;
}

static int check_out(const slot_table *t, first_half *h, const kv_key *key, const kv_array *out,
                     int64_t *guess, kv_err *e)
{
    int64_t number = slot_find(t, key, *guess), value = -1;
    if (number < 0)
        TRY(find_made(h, key, &value, e));
    if (number < 0 && value < 0)
        TRY(call_find(t, key, -1, &number, e));
    *guess = number + 1;
    slot coming = {.key = *key, .stored = value >= 0 ? h->values->arrays[value] : NULL};
    return call_check_shape(number >= 0 ? &t->items[number] : &coming, out, "array", e);
}

static int check_outs(const slot_table *t, const kv_pairs *values, const kv_pairs *outs,
                      bool creates, kv_err *e)
{
    first_half first = {values, creates, {0}};
    int64_t guess = 0;
    int rc = KV_OK;
    for (int64_t i = 0; i < outs->n && !rc; i++)
        rc = check_out(t, &first, &outs->keys[i], outs->arrays[i], &guess, e);
    map_release(&first.made);
    return rc;
}

/* Makes the second half, with all the memory that it needs. Its pairs were checked, and it is
 * prepared behind the first half, when all of them are there. */
static int new_second_half(call **out, kv *s, const kv_pairs *outs, kv_err *e)
{
    int rc = call_new(out, s, &pull_ops, outs, e);
    if (!rc && (rc = call_reserve_pairs(*out, e)))
        call_end(*out);
    return rc;
}

static int run_second_half(call *c, const kv_call *how, kv_err *e)
{
    int rc = call_prepare(c, e);
    kv_assert(rc == KV_OK, "the second half fails (%s), and the first one has changed the store",
              kv_code_name(rc));
    return rc ? rc : call_run(c, how, e);
}

/* A push whose work gives the outs what it stores is all of it; else a pull follows. */
int local_pushpull(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                   kv_err *e)
{
    kv *s = self;
    call *push, *pull = NULL;
    bool in_place = outs == values, did = false;
    TRY(call_direct(s, values, outs, &did, e));
    s->pulled_dense |= did;
    if (!did && in_place)
        TRY(call_in_batches(s, &push_ops, values, true, &did, e));
    if (did)
        return KV_OK;
    if (!in_place) /* in place, the push checks the same pairs */
        TRY(check_outs(&s->slots, values, outs, s->updater.kind == UPDATER_ASSIGN, e));
    TRY(call_new(&push, s, &push_ops, values, e));
    push->results = outs;
    TRY(call_prepare(push, e));
    int rc = push->nouts == 0 ? new_second_half(&pull, s, outs, e) : KV_OK;
    if (rc) {
        call_abort(push);
        return rc;
    }
    kv_assert(push->nouts > 0 || pull, "a push gives nothing to %lld outs, and no pull follows",
              (long long)outs->n);
    /* A C callback that refuses keeps the old value of its key, which the outs receive. */
    rc = call_run(push, how, e);
    int rc2 = pull ? run_second_half(pull, how, e) : KV_OK;
    return rc ? rc : rc2;
}

int local_broadcast(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                    kv_err *e)
{
    kv *s = self;
    call *pull = NULL;
    if (outs != values)
        TRY(check_outs(&s->slots, values, outs, true, e));
    if (outs->n > 0)
        TRY(new_second_half(&pull, s, outs, e));
    int rc = local_init(self, values, how, e);
    if (!rc && pull)
        return run_second_half(pull, how, e);
    if (pull)
        call_end(pull);
    return rc;
}

/* ---- The tables ---- */

enum {
    CAN = KV_CAN_UPDATER | KV_CAN_OPTIMIZER | KV_CAN_STATES | KV_CAN_ROW_SPARSE |
          KV_CAN_TRANSACTIONS | KV_CAN_FILES | KV_CAN_DELETE
};

static const char *const local_names[] = {"local", "local_update_cpu", "local_allreduce_cpu", NULL};
static const char *const device_names[] = {"device", "local_allreduce_device", NULL};

/* These two types differ in their names, in where keys lie, and in what device can do beside. */
#define OPERATIONS                                                                                 \
    .size = sizeof(kv_type_ops), .version = KV_TYPE_VERSION,                \
    .init = local_init, .push = local_push, .pull = local_pull, .row_sparse_pull = pull_rows,      \
    .pushpull = local_pushpull, .broadcast = local_broadcast

const kv_type_ops local_type_ops = {
    OPERATIONS,
    .names = local_names,
    .capabilities = CAN,
    .open = local_open,
};

const kv_type_ops device_type_ops = {
    OPERATIONS,
    .names = device_names,
    .capabilities = CAN | KV_CAN_GRADIENT_COMPRESSION,
    .open = open_device,
};
