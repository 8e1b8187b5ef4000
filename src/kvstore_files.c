/* The public functions for stores and states in files, and for descriptions of a store. */
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "checkpoint/params.h"
#include "core/describe.h"
#include "core/state_file.h"
#include "core/store.h"
#include "core/store_file.h"
#include "kvstore.h"
#include "plugin.h"
#include "runtime.h"
#include "store_lock.h"

/* ---- Files ---- */

/* Writes an image that was taken under the lock, and releases it. */
static int write_image(image *im, const char *path, kv_err *e)
{
    int rc = image_write(im, path, e);
    image_release(im);
    return kv_assert_check(rc, e);
}

static int save(kv *store, const char *path, int (*take)(image *im, const kv *store, kv_err *e),
                kv_err *e)
{
    image im;
    int rc = args_store(store, e);
    if (!rc && (rc = arg_given(path, "path", e)) == KV_OK &&
        (rc = store_enter_idle(store, e)) == KV_OK)
        rc = store_leave(store, take(&im, store, e), e);
    return rc ? rc : write_image(&im, path, e);
}

int kv_save(kv *store, const char *path, kv_err *e)
{
    return save(store, path, store_file_take, e);
}

int kv_save_arrays(kv *store, const char *path, kv_err *e)
{
    return save(store, path, store_file_take_arrays, e);
}

int kv_set_metadata(kv *store, const char *name, const char *text, kv_err *e)
{
    int rc = args_store(store, e);
    if (rc || (rc = arg_given(name, "name", e)) || (rc = arg_given(text, "text", e)) ||
        (rc = store_enter(store, e)))
        return rc;
    return store_leave(store, store_file_remark(store, name, text, e), e);
}

bool kv_is_foreign(const kv *store)
{
    return store->foreign;
}

/* The store that a file asks for. A name that was registered when it was saved, and is not now,
 * stands for its base. */
static int make_loaded(kv **made, const store_file *f, kv_err *e)
{
    int rc = kv_create(f->type, NULL, 0, made, e);
    kv_err unused = {0};
    if (rc != KV_E_UNSUPPORTED || !f->base || !runtime_is_name(f->type) ||
        kv_create(f->base, NULL, 0, made, &unused))
        return rc;
    kv *s = *made;
    *e = (kv_err){0};
    s->base = s->base ? s->base : s->ops->names[0];
    s->type = arena_text(&s->remarks, f->type, strlen(f->type), e);
    if (s->type)
        return KV_OK;
    s->type = s->base;
    kv_free(s);
    *made = NULL;
    return KV_E_MEMORY;
}

static int load(kv **store, const char *path, bool later, kv_err *e)
{
    store_file f;
    kv *made = NULL;
    kv_err why = {0};
    e = e ? e : &(kv_err){0};
    int rc = arg_given(store, "store", e);
    if (rc || (rc = arg_given(path, "path", e)) || (rc = store_file_open(&f, path, e)))
        return rc;
    f.later = later;
    if ((rc = make_loaded(&made, &f, &why))) {
        kv_err_set(e, (kv_code)rc, "%s: %s", path, why.text);
        if (why.hint[0])
            kv_err_hint(e, "%s", why.hint);
    } else if ((rc = store_file_fill(&f, made, e))) {
        kv_free(made);
    } else {
        *store = made;
    }
    store_file_close(&f);
    return kv_assert_check(rc, e);
}

int kv_load(kv **store, const char *path, kv_err *e)
{
    return load(store, path, false, e);
}

int kv_load_later(kv **store, const char *path, kv_err *e)
{
    return load(store, path, true, e);
}

int kv_save_list(const char *path, const kv_key *keys, int64_t n, kv_array *const *arrays,
                 kv_err *e)
{
    bool has_names = false;
    int rc = arg_given(path, "path", e);
    if (rc || (rc = args_pairs(&(kv_pairs){keys, arrays, n}, "keys", "arrays", e)))
        return rc;
    char(*numbers)[32] = mem_alloc(n, sizeof *numbers, e);
    const char **names = mem_alloc(n, sizeof *names, e);
    rc = numbers && names ? KV_OK : KV_E_MEMORY;
    for (int64_t i = 0; i < n && !rc; i++) {
        names[i] = image_key(numbers[i], &keys[i]);
        has_names |= keys[i].name || keys[i].id != i;
    }
    if (!rc)
        rc = kv_assert_check(params_save(path, names, has_names, n, arrays, e), e);
    mem_free(numbers);
    mem_free(names);
    return rc;
}

int kv_load_list(const char *path,
                 int (*visit)(void *arg, const char *name, kv_array *array, kv_err *e), void *arg,
                 kv_err *e)
{
    checkpoint *c;
    int rc = arg_given(path, "path", e);
    if (rc || (rc = arg_given(visit, "visit", e)) ||
        (rc = checkpoint_open(&c, path, &(checkpoint_options){.entries = true}, e)))
        return rc;
    rc = kv_assert_check(params_load(c, visit, arg, e), e);
    checkpoint_close(c);
    return rc;
}

/* The arguments of reading or writing the states of a store. */
typedef struct states_use {
    kv *store;
    const char *path;
    image *im;
    uint32_t flags;
    updater gone;
    describe *rows;
} states_use;

/* Types that keep states elsewhere bring them here first. */
static int visit_states(kv_states_visit why, int (*use)(void *arg, kv_err *e), states_use *v,
                        kv_err *e)
{
    kv *store = v->store;
    e = e ? e : &(kv_err){0};
    int rc = store_enter_idle(store, e);
    if (rc)
        return rc;
    rc = store->ops->visit_states ? store->ops->visit_states(store->self, why, use, v, e)
                                  : use(v, e);
    return store_leave(store, rc, e);
}

static int take_states(void *arg, kv_err *e)
{
    states_use *v = arg;
    return state_file_take(v->im, v->store, v->flags, e);
}

static int write_states(void *arg, kv_err *e)
{
    states_use *v = arg;
    int rc = take_states(v, e);
    return rc ? rc : write_image(v->im, v->path, e);
}

/* If this process has all the states, other threads may use the store while they are written. */
int kv_save_states(kv *store, const char *path, uint32_t flags, kv_err *e)
{
    image im;
    if (flags & ~KV_DUMP_OPTIMIZER)
        return kv_err_set(e, KV_E_VALUE, "kv_save_states has no flags 0x%x", flags);
    states_use v = {.store = store, .path = path, .im = &im, .flags = flags};
    int rc = args_can(store, KV_CAN_STATES, e);
    if (rc || (rc = arg_given(path, "path", e)))
        return rc;
    if (store->ops->visit_states)
        return visit_states(KV_STATES_SAVE, write_states, &v, e);
    rc = visit_states(KV_STATES_SAVE, take_states, &v, e);
    return rc ? rc : write_image(&im, path, e);
}

static int read_states(void *arg, kv_err *e)
{
    states_use *v = arg;
    checkpoint *f;
    int rc = checkpoint_open(&f, v->path, NULL, e);
    if (rc)
        return rc;
    rc = state_file_load(v->store, f, v->path, false, &v->gone, e);
    checkpoint_close(f);
    return rc;
}

int kv_load_states(kv *store, const char *path, kv_err *e)
{
    states_use v = {.store = store, .path = path};
    int rc = args_can(store, KV_CAN_STATES, e);
    if (!rc && (rc = arg_given(path, "path", e)) == KV_OK)
        rc = visit_states(KV_STATES_LOAD, read_states, &v, e);
    updater_release(&v.gone);
    return rc;
}

/* ---- Descriptions ---- */

static int describe_store(kv *store, kv_visitor visit, void *arg, kv_err *e)
{
    enum { STORE_FIELDS = 11 };
    char name[96], how[COMPRESSION_TEXT], norm[NUM_TEXT_MAX] = "";
    int64_t bytes = 0;
    int rc = store_enter(store, e);
    if (rc)
        return rc;
    int64_t nkeys = store->slots.n;
    for (int64_t i = 0; i < nkeys; i++)
        bytes += kv_array_bytes(store->slots.items[i].stored);
    snprintf(name, sizeof name, "%s", updater_name(&store->updater));
    compression_print(how, &store->compression);
    buf reads = {0};
    if (store->updater.kind == UPDATER_RULE) {
        optimizer_reads_text(store->updater.optimizer, &reads);
        if (store->updater.optimizer->clip_norm > 0)
            num_plain(norm, store->updater.optimizer->clip_norm, NUM_BINARY64);
    }
    int64_t moved = store->since_moved, whole = store->since_whole;
    rc = store_leave(store, buf_check(&reads, e), e);
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
    if (!rc)
        rc = visit(arg, fields, n, e);
    buf_release(&reads);
    return rc;
}

static int describe_rule(kv *store, kv_visitor visit, void *arg, kv_err *e)
{
    enum { RULE_FIELDS = 6 };
    char name[96], *text = NULL;
    bool lr = false, wd = false;
    buf reads = {0}, schedule = {0};
    int rc = store_enter(store, e);
    if (rc)
        return rc;
    const updater *u = &store->updater;
    snprintf(name, sizeof name, "%s", updater_name(u));
    if (u->kind != UPDATER_RULE) {
        rc = kv_err_set(e, KV_E_VALUE, "no rule is in use");
    } else {
        const optimizer *o = u->optimizer;
        optimizer_reads_text(o, &reads);
        if (o->scheduled)
            lr_schedule_print(&o->schedule, &schedule);
        const rule_ast *tree = o->rule->ast;
        lr = rule_reader(tree, "lr") || rule_reader(tree, "base_lr") ||
             rule_lists(tree, "learning_rate");
        wd = rule_reader(tree, "wd") || rule_lists(tree, "wd");
        text = mem_text(o->rule->text, strlen(o->rule->text), e);
        rc = text ? buf_check(&reads, e) : KV_E_MEMORY;
        rc = rc ? rc : buf_check(&schedule, e);
    }
    rc = store_leave(store, rc, e);
    kv_field fields[RULE_FIELDS] = {{.name = "rule", .text = name},
                                    {.name = "text", .text = text},
                                    {.name = "uses_lr", .number = lr},
                                    {.name = "uses_wd", .number = wd}};
    int n = RULE_FIELDS - 2;
    if (reads.len > 0)
        fields[n++] = (kv_field){.name = "reads", .text = buf_text(&reads)};
    if (schedule.len > 0)
        fields[n++] = (kv_field){.name = "schedule", .text = buf_text(&schedule)};
    if (!rc)
        rc = visit(arg, fields, n, e);
    buf_release(&reads);
    buf_release(&schedule);
    mem_free(text);
    return rc;
}

static int list_states(void *arg, kv_err *e)
{
    states_use *v = arg;
    return describe_states(v->rows, v->store, e);
}

static int list_optimizer(void *arg, kv_err *e)
{
    states_use *v = arg;
    return describe_optimizer(v->rows, v->store, e);
}

/* "optimizer" and "states". */
static int describe_rows(kv *store, bool states, kv_visitor visit, void *arg, kv_err *e)
{
    describe d;
    states_use v = {.store = store, .rows = &d};
    int rc = visit_states(KV_STATES_LOOK, states ? list_states : list_optimizer, &v, e);
    if (rc)
        return rc;
    rc = describe_visit(&d, visit, arg, e);
    describe_release(&d);
    return rc;
}

static int describe_metadata(kv *store, kv_visitor visit, void *arg, kv_err *e)
{
    int rc = store_enter(store, e);
    if (rc)
        return rc;
    int64_t n = store->nremarks; /* the texts stay until the store is freed, their list does not */
    checkpoint_text *texts = mem_alloc(n, sizeof *texts, e);
    if (texts && n > 0)
        memcpy(texts, store->remark, (size_t)n * sizeof *texts);
    rc = store_leave(store, texts ? KV_OK : KV_E_MEMORY, e);
    for (int64_t i = 0; i < n && !rc; i++)
        rc = visit(arg,
                   (kv_field[]){{.name = "name", .text = texts[i].name},
                                {.name = "text", .text = texts[i].text}},
                   2, e);
    mem_free(texts);
    return rc;
}

static int describe_cluster(kv *store, kv_visitor visit, void *arg, kv_err *e)
{
    kv_rank_info *rows = NULL;
    int64_t n = 0;
    int rc = store_look(store, e);
    if (rc)
        return rc;
    if (store->ops->cluster) {
        rc = store->ops->cluster(store->self, &rows, &n, e);
    } else {
        rc = kv_err_set(e, KV_E_UNSUPPORTED, "stores of type \"%s\" have one rank", store->type);
        kv_err_hint(e, "a store of all ranks of a job is of type dist_sync, or another dist_…");
    }
    rc = kv_assert_check(rc, e);
    for (int64_t i = 0; i < n && !rc; i++) {
        const kv_rank_info *r = &rows[i];
        kv_field f[] = {{"rank", NULL, r->rank},           {"role", r->role, 0},
                        {"host", r->host, 0},              {"heard_ms", NULL, r->heard_ms},
                        {"link", r->link, 0},              {"keys", NULL, r->keys},
                        {"bytes", NULL, r->bytes},         {"rounds", NULL, r->rounds},
                        {"open", NULL, r->open},           {"missing", r->missing, 0},
                        {"stalest", NULL, r->stalest},     {"contributors", NULL, r->contributors}};
        rc = visit(arg, f, sizeof f / sizeof *f, e);
    }
    mem_free(rows);
    return rc;
}

static int visit_rounds(kv *store, kv_visitor visit, void *arg, kv_err *e)
{
    describe d;
    int rc = store_look(store, e);
    if (rc)
        return rc;
    if (store->ops->rounds)
        return kv_assert_check(store->ops->rounds(store->self, visit, arg, e), e);
    if ((rc = store_enter(store, e)) || (rc = store_leave(store, describe_rounds(&d, store, e), e)))
        return rc;
    rc = describe_visit(&d, visit, arg, e);
    describe_release(&d);
    return rc;
}

int kv_describe(kv *store, const char *topic, kv_visitor visit, void *arg, kv_err *e)
{
    int rc = arg_given(topic, "topic", e);
    if (rc || (rc = arg_given(visit, "visit", e)))
        return rc;
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
