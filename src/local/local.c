/* The types local and device: the store is in this process, and sums happen where it keeps its
 * arrays.
 *
 * local keeps every array on cpu(0). device begins there too; the first push whose first value lies
 * on a GPU moves the key to that GPU, where it stays. A push reads the values straight from the
 * caller's arrays and never keeps one of them: the stored array is always the store's own.
 */
#include "local/local.h"

#include "base/mem.h"
#include "core/schedule.h"
#include "core/store.h"

typedef struct local {
    kv *store;
    bool moves; /* device: keys follow their values to a GPU */
} local;

static int open_store(kv *store, bool moves, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    if (nopts)
        return kv_err_set(e, KV_E_USAGE, "the type \"%s\" has no option \"%.64s\"", kv_type(store),
                          opts[0].name);
    local *l = mem_alloc(1, sizeof *l, e);
    if (!l)
        return KV_E_MEMORY;
    *l = (local){store, moves};
    store->in_slots = true;
    *self = l;
    return KV_OK;
}

static int open_local(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    return open_store(store, false, opts, nopts, self, e);
}

static int open_device(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e)
{
    return open_store(store, true, opts, nopts, self, e);
}

/* ---- init ---- */

static int init_key(slot_table *t, int64_t old_n, const kv_key *key, kv_array *value, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    int64_t number = slot_find(t, key, -1);
    int rc = slot_check_kind(t, key, e);
    if (rc)
        return rc;
    if (number >= 0) {
        kv_err_set(e, KV_E_KEY,
                   number < old_n ? "key %s is initialised already"
                                  : "key %s stands twice in the call",
                   slot_key_text(text, key));
        kv_err_key(e, key);
        return KV_E_KEY;
    }
    kv_array *stored = NULL;
    rc = kv_array_dup(&stored, value, kv_array_dtype(value), (kv_ctx){KV_CPU, 0}, e);
    if (rc == KV_OK && (rc = slot_add(t, key, stored, e)))
        kv_array_unref(stored);
    return rc;
}

static int init(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                const kv_call *how, kv_err *e)
{
    kv *s = ((local *)self)->store;
    slot_table *t = &s->slots;
    int64_t old_n = t->n;
    (void)how;
    int rc = slot_reserve(t, n, e);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++) {
        if ((rc = init_key(t, old_n, &keys[i], values[i], e))) {
            slot_truncate(t, old_n);
            return rc;
        }
    }
    s->changes++;
    return KV_OK;
}

/* ---- push ---- */

static int run_push(void *arg, kv_err *e)
{
    return updater_run(arg, e);
}

/* From here on only a C callback can still fail, for its own key. */
static int push_groups(kv *s, call *c, const kv_call *how, kv_err *e)
{
    updater_push p;
    int rc = updater_prepare(&p, &s->updater, c, &s->work, e);
    if (rc) {
        updater_cancel(&p);
        call_abort(c);
        return rc;
    }
    rc = schedule_run(&c->vars, run_push, &p, how, e);
    s->changes++; /* also when a callback refused: it does so for its own key only */
    int lines = updater_finish(&p, &s->print, rc ? NULL : e);
    call_commit(c);
    return rc ? rc : lines;
}

static int push(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                const kv_call *how, kv_err *e)
{
    const local *l = self;
    kv *s = l->store;
    call c;
    int flags = s->updater.kind == UPDATER_ASSIGN ? CALL_CREATE : CALL_UPDATE;
    if (l->moves)
        flags |= CALL_FOLLOW_GPU;
    int rc = call_begin(&c, &s->slots, &s->room, keys, n, values, flags, e);
    return rc ? rc : push_groups(s, &c, how, e);
}

/* ---- pull ---- */

/* The stored arrays of the call's keys, found and checked; then copied. */
typedef struct pull_arg {
    kv_array *const *outs;
    kv_array **stored;
    int64_t n;
} pull_arg;

static int run_pull(void *arg, kv_err *e)
{
    const pull_arg *p = arg;
    (void)e;
    for (int64_t i = 0; i < p->n; i++)
        apply_copy(p->outs[i], p->stored[i]);
    return KV_OK;
}

/* GAP: a row_sparse array takes rows that are asked for by id, which this version cannot do. */
static int check_out(const kv_key *key, const kv_array *out, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    if (kv_array_storage(out) == KV_DEFAULT)
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED, "key %s is pulled into a row_sparse array",
               slot_key_text(text, key));
    kv_err_hint(e, "pull into a default one, and convert that");
    kv_err_key(e, key);
    return KV_E_UNSUPPORTED;
}

static int find_stored(const slot_table *t, const kv_key *keys, const pull_arg *p,
                       schedule_vars *vars, kv_err *e)
{
    int64_t guess = 0;
    for (int64_t i = 0; i < p->n; i++) {
        int64_t number;
        int rc = call_find(t, &keys[i], guess, &number, e);
        if (rc || (rc = call_check_shape(&t->items[number], p->outs[i], "array", e)) ||
            (rc = check_out(&keys[i], p->outs[i], e)))
            return rc;
        p->stored[i] = t->items[number].stored;
        schedule_read(vars, p->stored[i]);
        schedule_write(vars, p->outs[i]);
        guess = number + 1;
    }
    return KV_OK;
}

static int pull(void *self, const kv_key *keys, int64_t n, kv_array *const *outs,
                const kv_call *how, kv_err *e)
{
    kv *s = ((local *)self)->store;
    int rc = call_room_reserve(&s->room, n, sizeof(kv_array *) + 2 * sizeof(engine_var *), e);
    if (rc)
        return rc;
    pull_arg p = {outs, (kv_array **)(void *)s->room.memory, n};
    schedule_vars vars = {.reads = (engine_var **)(void *)(p.stored + n)};
    vars.writes = vars.reads + n;
    if ((rc = find_stored(&s->slots, keys, &p, &vars, e)))
        return rc;
    return schedule_run(&vars, run_pull, &p, how, e);
}

static const char *const local_names[] = {"local", "local_update_cpu", "local_allreduce_cpu", NULL};
static const char *const device_names[] = {"device", "local_allreduce_device", NULL};

const kv_type_ops local_type_ops = {
    .size = sizeof local_type_ops,
    .version = KV_TYPE_VERSION,
    .names = local_names,
    .open = open_local,
    .close = mem_free,
    .init = init,
    .push = push,
    .pull = pull,
};

const kv_type_ops device_type_ops = {
    .size = sizeof device_type_ops,
    .version = KV_TYPE_VERSION,
    .names = device_names,
    .open = open_device,
    .close = mem_free,
    .init = init,
    .push = push,
    .pull = pull,
};
