/* Writes the checkpoint file of a job and reads it back. Values are pulled from the servers, states
 * of optimizers come by states.h. */
#include "distributed/job_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/num.h"
#include "core/store_file.h"
#include "distributed/environment.h"
#include "distributed/request.h"
#include "distributed/spares.h"
#include "distributed/states.h"
#include "distributed/worker.h"
#include "runtime.h"

/* ---- At the start ---- */

static bool read_rounds(job_checkpoint *c, const char *text)
{
    bool over = false;
    size_t n = strlen(text);
    return n > 0 && num_parse_int(text, n, &c->every, &over) == n && !over && c->every >= 1;
}

/* Reads a text such as "30s". */
static bool read_seconds(job_checkpoint *c, const char *text)
{
    enum { MOST = 31536000 /* a year */ };
    bool over = false;
    double seconds = 0;
    size_t n = num_parse(text, strlen(text), NUM_BINARY64, &seconds, &over);
    bool is = n > 0 && strcmp(text + n, "s") == 0 && !over && seconds > 0 && seconds <= MOST;
    c->every = 0;
    c->every_ms = is ? (int64_t)(seconds * 1000) : 0;
    return is;
}

static int read_environment(job_checkpoint *c, kv_err *e)
{
    const char *path = environment(ENV_CHECKPOINT), *every = environment(ENV_CHECKPOINT_EVERY);
    if (!path || !*path)
        return KV_OK;
    if (!read_rounds(c, every ? every : "") && !read_seconds(c, every ? every : ""))
        return kv_err_set(e, KV_E_VALUE,
                          "KVSTORE_CHECKPOINT_EVERY is a number of rounds from 1 on, or seconds "
                          "such as 30s, not \"%.40s\"",
                          every ? every : "");
    c->path = path;
    c->last_ms = clock_ms();
    return KV_OK;
}

static int check_type(const worker *w, kv_err *e)
{
    if (w->how.is_async || w->how.sums)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "a job with checkpoints needs the rounds of dist_sync or "
                          "dist_device_sync; a store of type \"%s\" has none that could be kept",
                          kv_type(w->store));
    if (w->number > 0)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "a job with checkpoints keeps one store, and this is the second");
    return KV_OK;
}

static int load(job_checkpoint *c, kv *store, kv_err *e)
{
    bool there;
    TRY(file_look(c->path, &there, e));
    if (!there)
        return KV_OK;
    TRY(kv_load(&c->kept, c->path, e));
    for (int64_t i = 0; i < c->kept->nremarks; i++)
        TRY(store_file_remark(store, c->kept->remark[i].name, c->kept->remark[i].text, e));
    const slot_table *t = &c->kept->slots;
    for (int64_t i = 0; i < t->n; i++)
        if (t->items[i].pushes > c->rounds)
            c->rounds = t->items[i].pushes;
    c->saved = c->rounds;
    c->left = t->n;
    c->has_states = c->kept->updater.kind == UPDATER_RULE;
    return KV_OK;
}

/* On several hosts each rank must see the file that the launcher saw. */
static int check_round(const job_checkpoint *c, kv_err *e)
{
    const char *text = environment(ENV_CHECKPOINT_ROUND);
    bool over = false;
    int64_t round;
    size_t n = text ? strlen(text) : 0;
    if (n == 0 || num_parse_int(text, n, &round, &over) != n || over || round == c->rounds)
        return KV_OK;
    return kv_err_set(e, KV_E_VALUE,
                      "the job goes on from round %lld, and \"%s\" on %s is of round %lld: all "
                      "hosts must see the same file",
                      (long long)round, c->path, link_host(link_rank()), (long long)c->rounds);
}

static void warn_untold(void)
{
    runtime_log("the number of rounds cannot be told to the launcher: %s", strerror(errno));
}

static void tell_rounds(const job_checkpoint *c)
{
    char line[CHECKPOINT_LINE + 1];
    snprintf(line, sizeof line, "%*lld\n", CHECKPOINT_LINE - 1, (long long)c->rounds);
    if (c->fd >= 0 && pwrite(c->fd, line, CHECKPOINT_LINE, 0) < 0)
        warn_untold();
}

int job_checkpoint_open(worker *w, kv_err *e)
{
    job_checkpoint *c = &w->checkpoint;
    const char *folder = environment(ENV_RUN_DIR);
    char path[4200];
    c->fd = -1;
    TRY(read_environment(c, e));
    if (!c->path)
        return KV_OK;
    TRY(check_type(w, e));
    /* a newcomer takes values and counts from the servers instead: see worker.h */
    if (!spares_was(link_rank())) {
        TRY(load(c, w->store, e));
        TRY(check_round(c, e));
    }
    if (folder) {
        snprintf(path, sizeof path, "%s/rounds.%d", folder, link_rank());
        c->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (c->fd < 0)
            warn_untold();
        tell_rounds(c);
    }
    return KV_OK;
}

void job_checkpoint_release(worker *w)
{
    job_checkpoint *c = &w->checkpoint;
    checkpoint_wait(&c->writer);
    array_reuse_release(&c->arrays);
    kv_free(c->kept);
    if (c->path && c->fd >= 0)
        close(c->fd);
}

/* ---- Writing ---- */

/* Makes slots a copy of the store's slots, with values, whose elements come while rounds go on. */
static int pull_all(worker *w, slot *slots, kv_err *e)
{
    const slot_table *t = &w->store->slots;
    for (int64_t i = 0; i < t->n; i++) {
        slots[i] = t->items[i];
        slots[i].stored = NULL;
    }
    array_reuse_begin(&w->checkpoint.arrays);
    for (int64_t i = 0; i < t->n; i++) {
        const slot *s = &t->items[i];
        const kv_array *a = s->stored;
        kv_array **out = &slots[i].stored;
        if (kv_array_storage(a) != KV_DEFAULT) {
            TRY(worker_pull_stored(w, s, out, e));
        } else {
            TRY(array_reuse_get(&w->checkpoint.arrays, out, kv_array_dtype(a), kv_array_ndim(a),
                                kv_array_shape(a), e));
            TRY(request_pull(w, &(kv_pairs){&s->key, out, 1}, NULL, e));
        }
    }
    return KV_OK;
}

typedef struct writing {
    worker *w;
    slot *slots; /* with values */
} writing;

/* Called while the slots hold all states: begins to write the file, which looks as if one process
 * had held the store. */
static int begin_file(void *arg, kv_err *unused)
{
    const writing *x = arg;
    job_checkpoint *c = &x->w->checkpoint;
    const slot *with_states = x->w->store->slots.items;
    kv whole = *x->w->store;
    own_image im = {0};
    kv_err why = {0};
    (void)unused;
    for (int64_t i = 0; i < whole.slots.n; i++) {
        x->slots[i].state = with_states[i].state;
        x->slots[i].residuals = with_states[i].residuals;
    }
    whole.slots.items = x->slots;
    whole.type = "device";
    whole.base = NULL;
    whole.in_slots = true;
    int rc = store_file_take(&im, &whole, &why);
    /* Pushes go on and change residuals; all else that the image refers to was made for it. */
    for (int64_t i = 0; i < whole.slots.n && !rc; i++)
        rc = rank_residuals_detach(&x->w->store->slots.items[i], &why);
    if (!rc)
        checkpoint_write(&c->writer, &im, c->path, c->rounds);
    else
        checkpoint_missing(c->path, c->rounds, &why);
    return KV_OK;
}

/* Called on rank 0. */
static int gather_and_write(worker *w, bool compressed, kv_err *e)
{
    int64_t n = w->store->slots.n;
    writing x = {.w = w, .slots = mem_zalloc(n, sizeof *x.slots, e)};
    int rc = x.slots ? pull_all(w, x.slots, e) : KV_E_MEMORY;
    if (!rc && compressed) {
        rc = states_checkpoint(w, false, begin_file, &x, e);
    } else if (!rc) {
        if (w->store->updater.kind == UPDATER_RULE)
            rc = states_pull(w, &w->checkpoint.arrays, e);
        if (!rc)
            rc = begin_file(&x, e);
        states_drop(w);
    }
    for (int64_t i = 0; x.slots && i < n; i++)
        kv_array_unref(x.slots[i].stored);
    mem_free(x.slots);
    return rc;
}

/* last: this worker begins no further round. */
static int write_checkpoint(worker *w, bool last, kv_err *e)
{
    job_checkpoint *c = &w->checkpoint;
    bool rule = w->store->updater.kind == UPDATER_RULE,
         compressed = w->store->compression.code != 0;
    if (compressed && !rule)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "a job with checkpoints compresses gradients of an optimizer only");
    int rc = KV_OK;
    if (link_rank() == 0 || compressed) /* residuals must be those of this round */
        engine_wait_group(&w->store->calls.group, 0);
    if (link_rank() == 0) { /* a round that failed is not written */
        rc = engine_take_error(&w->store->calls.group, e);
        rc = rc ? rc : gather_and_write(w, compressed, e);
    } else if (compressed) {
        rc = states_checkpoint(w, last, NULL, NULL, e);
    }
    if (!rc || compressed) /* all ranks go on together */
        c->saved = c->rounds;
    c->last_ms = clock_ms();
    return rc;
}

/* Returns true if a checkpoint is to be written before the round that is about to begin. */
static bool is_due(job_checkpoint *c)
{
    if (c->every)
        return c->rounds - c->saved >= c->every;
    return c->rounds > c->saved && clock_ms() - c->last_ms >= c->every_ms &&
           !(c->writer.started && !atomic_load(&c->writer.over));
}

int job_checkpoint_push(worker *w, const int64_t *numbers, int64_t n, kv_err *e)
{
    job_checkpoint *c = &w->checkpoint;
    bool begins = false;
    if (!c->path)
        return KV_OK;
    if (!c->every && w->store->compression.code)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "with gradient compression checkpoints go by rounds, not by seconds");
    TRY(c->has_states ? states_visit(w, KV_STATES_LOAD, NULL, NULL, e) : KV_OK);
    for (int64_t i = 0; i < n && !begins; i++)
        begins = w->store->slots.items[numbers[i]].pushes == c->rounds;
    kv_assert(c->saved <= c->rounds, "round %lld was saved, and %lld is under way",
              (long long)c->saved, (long long)c->rounds);
    if (!begins)
        return KV_OK;
    if (is_due(c))
        TRY(write_checkpoint(w, false, e));
    c->rounds++;
    tell_rounds(c);
    return KV_OK;
}

void job_checkpoint_end(worker *w)
{
    job_checkpoint *c = &w->checkpoint;
    kv_err why = {0};
    /* files of further rounds have what this rank owes */
    bool owes = link_rank() != 0 && w->store->compression.code &&
                w->store->updater.kind == UPDATER_RULE;
    int rc = KV_OK;
    if (c->path && owes && c->has_states) { /* it never pushed */
        rc = checkpoint_read_states(w, &why);
        states_drop(w);
    }
    if (c->path && !rc && (c->rounds > c->saved || owes))
        rc = write_checkpoint(w, true, &why);
    if (rc)
        checkpoint_missing(c->path, c->rounds, &why);
    checkpoint_wait(&c->writer);
}

void job_checkpoint_close(worker *w)
{
    job_checkpoint *c = &w->checkpoint;
    kv_err why = {0};
    if (c->path && !w->done) {
        engine_wait_group(&w->store->calls.group, 0);
        worker_call_all(w, (net_call){.what = ASK_DONE, .args.closes = 1}, &why);
        if (worker_barrier(w, &why) == KV_OK)
            job_checkpoint_end(w);
        else if (c->rounds > c->saved)
            checkpoint_missing(c->path, c->rounds, &why);
    }
    job_checkpoint_release(w);
}
