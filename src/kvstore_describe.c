/* kv_describe: rows of fields, taken under the store's lock and handed to the caller's visitor
 * without it. The comment of kv_describe lists the fields. */
#include "kvstore.h"

#include <stdio.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "core/state_file.h"
#include "entry.h"
#include "runtime.h"
#include "vm/rule.h"

#define SHAPE_TEXT (22 * KV_MAX_NDIM + 3) /* holds every shape */

/* Rows of width fields each. All zero: no rows. */
typedef struct describe {
    arena memory; /* of texts */
    kv_field *fields;
    int64_t n, cap; /* fields */
    int width;
} describe;

static void describe_release(describe *d)
{
    arena_release(&d->memory);
    mem_free(d->fields);
}
#define own_describe OWN(describe_release) describe

/* Hands the rows over, one by one, until the visitor says otherwise. */
static int hand_over(const describe *d, kv_visitor visit, void *arg, kv_err *e)
{
    for (int64_t i = 0; i < d->n; i += d->width)
        TRY(visit(arg, d->fields + i, d->width, e));
    return KV_OK;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static int add(describe *d, const char *name, const char *text, int64_t number, kv_err *e)
{
    const char *copy = text ? arena_text(&d->memory, text, strlen(text), e) : NULL;
    if ((text && !copy) || mem_grow(&d->fields, &d->cap, d->n + 1, sizeof *d->fields, e))
        return KV_E_MEMORY;
    d->fields[d->n++] = (kv_field){name, copy, number};
    return KV_OK;
}

static int add_buf(describe *d, const char *name, const buf *b, kv_err *e)
{
    TRY(buf_check(b, e));
    return add(d, name, buf_text(b), 0, e);
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
    own_buf text = {0};
    state_parts_number(&text, x);
    TRY(buf_check(&text, e));
    return add(d, name, digits(buf_text(&text)), 0, e);
}

/* Takes the topic "optimizer" of a store whose lock is held. Errors: usage (no optimizer is in
 * use), unsupported (the updater is a C function), memory. */
static int describe_optimizer(describe *d, const kv *store, kv_err *e)
{
    TRY(state_file_check(store, e));
    const optimizer *o = store->updater.optimizer;
    TRY(add(d, "optimizer", updater_name(&store->updater), 0, e));
    TRY(add(d, "num_update", NULL, o->now.num_update, e));
    TRY(add_number(d, "learning_rate", host_float(optimizer_rate(o)), e));
    if (o->scheduled) {
        /* A learning rate takes the place of the base of schedules that decay by a factor; poly and
         * cosine run from the base of the call all the same. */
        own_buf text = {0};
        lr_schedule shown = o->now.schedule;
        host rate = rule_value(&o->binding, RULE_LEARNING_RATE);
        if ((shown.kind == LR_FACTOR || shown.kind == LR_MULTIFACTOR) && host_is_number(rate))
            shown.base_lr_orig = host_number(rate);
        lr_schedule_print(&shown, &text);
        TRY(add_buf(d, "schedule", &text, e));
    }
    own_buf reads = {0};
    optimizer_reads_text(o, &reads);
    if (reads.len > 0 || reads.failed)
        TRY(add_buf(d, "reads", &reads, e));
    for (int i = 0; i < o->nstates; i++) {
        const char *name = arena_text(&d->memory, o->states[i].name, strlen(o->states[i].name), e);
        if (!name)
            return KV_E_MEMORY;
        if (o->states[i].how == STATE_SHARED && o->now.have >> i & 1)
            TRY(add_number(d, name, o->now.shared[i], e));
    }
    d->width = (int)d->n;
    return KV_OK;
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
    own_buf number = {0};
    const char *dtype = k->array    ? kv_dtype_name(kv_array_dtype(k->array))
                        : k->number ? host_kind_name(k->number->kind)
                                    : "";
    if (k->array)
        kv_shape_text(shape, sizeof shape, kv_array_ndim(k->array), kv_array_shape(k->array));
    if (k->number)
        state_parts_number(&number, *k->number);
    TRY(buf_check(&number, e));
    TRY(add(d, "dtype", dtype, 0, e));
    TRY(add(d, "shape", shape, 0, e));
    return add(d, "value", k->number ? digits(buf_text(&number)) : "", 0, e);
}

static int add_row(describe *d, const slot *s, const kept *k, kv_err *e)
{
    TRY(add(d, "key", s->key.name, s->key.id, e));
    TRY(add(d, "state", k->state, 0, e));
    TRY(add_form(d, k, e));
    TRY(add(d, "bytes", NULL, k->array ? kv_array_bytes(k->array) : 0, e));
    return add(d, "t", NULL, s->updates, e);
}

static int add_slot(describe *d, const kv *store, const slot *s, kv_err *e)
{
    const optimizer *o = store->updater.optimizer;
    const slot_state *state = s->state;
    int64_t before = d->n;
    if (state && state->master)
        TRY(add_row(d, s, &(kept){STATE_MASTER, state->master, NULL}, e));
    for (int i = 0; i < o->nstates && state; i++) {
        bool number = o->states[i].how == STATE_KEY;
        if (o->states[i].how == STATE_SHARED || !(state->have >> i & 1))
            continue;
        TRY(add_row(d, s,
                    &(kept){o->states[i].name, number ? NULL : state->arrays[i],
                            number ? &state->numbers[i] : NULL},
                    e));
    }
    return d->n > before ? KV_OK : add_row(d, s, &(kept){"", NULL, NULL}, e);
}

/* Rows of `width` fields for the slots in the order of updates. */
static int add_slots(describe *d, kv *store, int width,
                     int (*add_one)(describe *d, const kv *store, const slot *s, kv_err *e),
                     kv_err *e)
{
    d->width = width;
    for (int64_t i = 0; i < store->slots.n; i++) {
        int64_t number;
        TRY(slot_in_order(&store->slots, i, &number, e));
        TRY(add_one(d, store, &store->slots.items[number], e));
    }
    return KV_OK;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static int add_slot_rounds(describe *d, const kv *store, const slot *s, kv_err *e)
{
    (void)store;
    TRY(add(d, "key", s->key.name, s->key.id, e));
    TRY(add(d, "round", NULL, s->pushes, e));
    TRY(add(d, "newest", NULL, s->pushes, e));
    TRY(add(d, "ahead", NULL, 0, e));
    TRY(add(d, "pushed", "", 0, e));
    return add(d, "missing", "", 0, e);
}

/* ---- The topics ------------------------------------------------------------------------------ */

static int describe_store(kv *store, kv_visitor visit, void *arg, kv_err *e)
{
    enum { STORE_FIELDS = 11 };
    char name[96], how[COMPRESSION_TEXT], norm[NUM_TEXT_MAX] = "";
    int64_t bytes = 0;
    TRY(store_enter(store, e));
    int64_t nkeys = store->slots.n;
    for (int64_t i = 0; i < nkeys; i++)
        bytes += kv_array_bytes(store->slots.items[i].stored);
    snprintf(name, sizeof name, "%s", updater_name(&store->updater));
    compression_print(how, &store->compression);
    own_buf reads = {0};
    if (store->updater.kind == UPDATER_RULE) {
        optimizer_reads_text(store->updater.optimizer, &reads);
        if (store->updater.optimizer->clip_norm > 0)
            num_plain(norm, store->updater.optimizer->clip_norm, NUM_BINARY64);
    }
    int64_t moved = store->since_moved, whole = store->since_whole;
    TRY(store_leave(store, buf_check(&reads, e), e));
    kv_field fields[STORE_FIELDS + KV_MOST_SETTINGS] = {
                         {.name = "type", .text = kv_type(store)},
                         {.name = "rank", .number = kv_rank(store)},
                         {.name = "num_workers", .number = kv_num_workers(store)},
                         {.name = "updater", .text = name},
                         {.name = "compression", .text = how},
                         {.name = "keys", .number = nkeys},
                         {.name = "bytes", .number = bytes}};
    int n = STORE_FIELDS - 4;
    if (whole > 0) {
        fields[n++] = (kv_field){.name = "since_bytes", .number = moved};
        fields[n++] = (kv_field){.name = "whole_bytes", .number = whole};
    }
    if (reads.len > 0)
        fields[n++] = (kv_field){.name = "reads", .text = buf_text(&reads)};
    if (*norm)
        fields[n++] = (kv_field){.name = "clip_global_norm", .text = norm};
    if (store->ops->settings)
        n += store->ops->settings(store->self, fields + n);
    return visit(arg, fields, n, e);
}

static int describe_rule(kv *store, kv_visitor visit, void *arg, kv_err *e)
{
    enum { RULE_FIELDS = 6 };
    char name[96];
    own_mem char *text = NULL;
    bool lr = false, wd = false;
    own_buf reads = {0}, schedule = {0};
    TRY(store_enter(store, e));
    const updater *u = &store->updater;
    snprintf(name, sizeof name, "%s", updater_name(u));
    int rc = KV_OK;
    if (u->kind != UPDATER_RULE) {
        rc = kv_err_set(e, KV_E_VALUE, "no rule is in use");
    } else {
        const optimizer *o = u->optimizer;
        optimizer_reads_text(o, &reads);
        if (o->scheduled)
            lr_schedule_print(&o->now.schedule, &schedule);
        const rule_ast *tree = o->rule->ast;
        lr = rule_reader(tree, "lr") || rule_reader(tree, "base_lr") ||
             rule_lists(tree, "learning_rate");
        wd = rule_reader(tree, "wd") || rule_lists(tree, "wd");
        text = mem_text(o->rule->text, strlen(o->rule->text), e);
        rc = text ? buf_check(&reads, e) : KV_E_MEMORY;
        rc = rc ? rc : buf_check(&schedule, e);
    }
    TRY(store_leave(store, rc, e));
    kv_field fields[RULE_FIELDS] = {{.name = "rule", .text = name},
                                    {.name = "text", .text = text},
                                    {.name = "uses_lr", .number = lr},
                                    {.name = "uses_wd", .number = wd}};
    int n = RULE_FIELDS - 2;
    if (reads.len > 0)
        fields[n++] = (kv_field){.name = "reads", .text = buf_text(&reads)};
    if (schedule.len > 0)
        fields[n++] = (kv_field){.name = "schedule", .text = buf_text(&schedule)};
    return visit(arg, fields, n, e);
}

/* "optimizer" or "states". */
typedef struct rows_use {
    kv *store;
    describe *rows;
    bool states;
} rows_use;

static int list_rows(void *arg, kv_err *e)
{
    rows_use *u = arg;
    if (!u->states)
        return describe_optimizer(u->rows, u->store, e);
    TRY(state_file_check(u->store, e));
    return add_slots(u->rows, u->store, 7, add_slot, e);
}

static int describe_rows(kv *store, bool states, kv_visitor visit, void *arg, kv_err *e)
{
    own_describe rows = {0};
    rows_use u = {store, &rows, states};
    TRY(store_visit_states(store, KV_STATES_LOOK, list_rows, &u, e));
    return hand_over(&rows, visit, arg, e);
}

static int describe_metadata(kv *store, kv_visitor visit, void *arg, kv_err *e)
{
    TRY(store_enter(store, e));
    int64_t n = store->nremarks; /* the texts stay until the store is freed, their list does not */
    own_mem checkpoint_text *texts = mem_alloc(n, sizeof *texts, e);
    if (texts && n > 0)
        memcpy(texts, store->remark, (size_t)n * sizeof *texts);
    TRY(store_leave(store, texts ? KV_OK : KV_E_MEMORY, e));
    for (int64_t i = 0; i < n; i++)
        TRY(visit(arg,
                  (kv_field[]){{.name = "name", .text = texts[i].name},
                               {.name = "text", .text = texts[i].text}},
                  2, e));
    return KV_OK;
}

static int describe_cluster(kv *store, kv_visitor visit, void *arg, kv_err *e)
{
    own_mem kv_rank_info *rows = NULL;
    int64_t n = 0;
    TRY(store_look(store, e));
    int rc = KV_OK;
    if (store->ops->cluster) {
        rc = store->ops->cluster(store->self, &rows, &n, e);
    } else {
        rc = kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have one rank", store->type);
        kv_err_hint(e, "a store of all ranks of a job is of type dist_sync, or another dist_…");
    }
    TRY(kv_assert_check(rc, e));
    for (int64_t i = 0; i < n; i++) {
        const kv_rank_info *r = &rows[i];
        kv_field f[] = {{"rank", NULL, r->rank},           {"role", r->role, 0},
                        {"host", r->host, 0},              {"heard_ms", NULL, r->heard_ms},
                        {"link", r->link, 0},              {"keys", NULL, r->keys},
                        {"bytes", NULL, r->bytes},         {"rounds", NULL, r->rounds},
                        {"open", NULL, r->open},           {"missing", r->missing, 0},
                        {"stalest", NULL, r->stalest},     {"contributors", NULL, r->contributors}};
        TRY(visit(arg, f, sizeof f / sizeof *f, e));
    }
    return KV_OK;
}

static int visit_rounds(kv *store, kv_visitor visit, void *arg, kv_err *e)
{
    own_describe d = {0};
    TRY(store_look(store, e));
    if (store->ops->rounds)
        return kv_assert_check(store->ops->rounds(store->self, visit, arg, e), e);
    TRY(store_enter(store, e));
    TRY(store_leave(store, add_slots(&d, store, 6, add_slot_rounds, e), e));
    return hand_over(&d, visit, arg, e);
}

int kv_describe(kv *store, const char *topic, kv_visitor visit, void *arg, kv_err *e)
{
    TRY(arg_given(topic, "topic", e));
    TRY(arg_given(visit, "visit", e));
    if (strcmp(topic, "types") == 0)
        return runtime_describe_types(visit, arg, e);
    if (strcmp(topic, "gpus") == 0)
        return runtime_describe_gpus(visit, arg, e);
    if (strcmp(topic, "mpi") == 0)
        return kv_assert_check(plugin_describe_mpi(visit, arg, e), e);
    if (strcmp(topic, "store") == 0)
        return describe_store(store, visit, arg, e);
    if (strcmp(topic, "cluster") == 0)
        return describe_cluster(store, visit, arg, e);
    if (strcmp(topic, "rounds") == 0)
        return visit_rounds(store, visit, arg, e);
    if (strcmp(topic, "metadata") == 0)
        return describe_metadata(store, visit, arg, e);
    if (strcmp(topic, "rule") == 0)
        return describe_rule(store, visit, arg, e);
    bool states = strcmp(topic, "states") == 0;
    if (states || strcmp(topic, "optimizer") == 0)
        return describe_rows(store, states, visit, arg, e);
    kv_err_set(e, KV_E_USAGE, "there is no description of \"%.64s\"", topic);
    kv_err_hint(e, store ? "types, gpus, mpi, store, cluster, rounds, metadata, rule, optimizer, "
                                 "states"
                         : "types, gpus, mpi");
    return KV_E_USAGE;
}
