/* A round is a small record with a place for every worker; it ends in the call that brings the last
 * contribution, and is kept until its answers have gone. Answers are sent at once where the link
 * takes them, else they wait in the queue of their rank. All of it belongs to the thread that
 * drives.
 */
#include "distributed/sums.h"

#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "distributed/coordinator.h"
#include "distributed/server.h"
#include "distributed/straggler.h"

enum { AT_ONCE = 16 << 10 }; /* bytes of a sum that cannot be made in place */

struct sum;

/* What one worker contributes. */
typedef struct share {
    net_item item; /* that answers it */
    struct sum *sum;
    const char *data; /* or NULL: of a broadcast */
    char *copy;       /* of the data, or NULL */
    uint64_t request;
    int64_t chunk;
    bool come;
} share;

/* One round of one part. */
typedef struct sum {
    server_state *server;
    int64_t part, round, bytes;
    kv_dtype dtype;
    int have, broadcasts;
    int answers;  /* that are on their way, and one while they are made */
    char *out;    /* of this rank, or NULL */
    char *result; /* out, or memory of its own */
    bool lent;    /* stands in the list of those whose data lie in the link's memory */
    bool given_up; /* stays until all have come, who are told so */
    int64_t since_us; /* when it was opened */
    struct sum *next, *next_lent;
    share by[];
} sum;

/* Memory for a part, kept for the next. */
typedef struct block {
    struct block *next;
} block;

struct sums {
    int workers;
    sum **parts; /* by number: their open rounds, in order */
    int64_t nparts, cap;
    sum *lent, *spare;
    block *blocks;
    const void **sources;
};

sums *sums_new(int workers, kv_err *e)
{
    sums *s = mem_zalloc(1, sizeof *s, e);
    if (!s)
        return NULL;
    s->workers = workers;
    s->sources = mem_alloc(workers, sizeof *s->sources, e);
    if (!s->sources) {
        mem_free(s);
        return NULL;
    }
    return s;
}

static char *take_block(sums *s)
{
    kv_err unused = {0};
    block *b = s->blocks;
    if (!b)
        return mem_alloc(1, LINK_PAYLOAD, &unused);
    s->blocks = b->next;
    return (char *)b;
}

static void give_block(sums *s, char *memory)
{
    block *b = (block *)(void *)memory;
    if (!b)
        return;
    b->next = s->blocks;
    s->blocks = b;
}

static void free_list(sum *x)
{
    for (sum *next; x; x = next) {
        next = x->next;
        mem_free(x);
    }
}

void sums_free(sums *s)
{
    if (!s)
        return;
    for (int64_t i = 0; i < s->nparts; i++)
        free_list(s->parts[i]);
    free_list(s->spare);
    for (block *b = s->blocks, *next; b; b = next) {
        next = b->next;
        mem_free(b);
    }
    mem_free(s->parts);
    mem_free(s->sources);
    mem_free(s);
}

/* ---- Rounds ---- */

static sum *new_sum(server_state *of, const link_rec *r, kv_err *e)
{
    sums *s = of->sums;
    size_t bytes = sizeof(sum) + (size_t)s->workers * sizeof(share);
    sum *x = s->spare;
    if (x)
        s->spare = x->next;
    else if (!(x = mem_alloc(1, bytes, e)))
        return NULL;
    memset(x, 0, bytes);
    x->server = of;
    x->part = r->part;
    x->round = r->add.round;
    x->since_us = net_now_us();
    return x;
}

/* The sum to which a contribution belongs. */
static sum *find(server_state *of, const link_rec *r, kv_err *e)
{
    sums *s = of->sums;
    if (r->part < 0) {
        ask_malformed(e);
        return NULL;
    }
    if (mem_grow(&s->parts, &s->cap, r->part + 1, sizeof(sum *), e))
        return NULL;
    while (s->nparts < s->cap)
        s->parts[s->nparts++] = NULL;
    sum **at = &s->parts[r->part];
    while (*at && (*at)->round < r->add.round)
        at = &(*at)->next;
    if (*at && (*at)->round == r->add.round)
        return *at;
    sum *x = new_sum(of, r, e);
    if (x) {
        x->next = *at;
        *at = x;
    }
    return x;
}

static bool is_complete(const sum *x)
{
    const server_state *of = x->server;
    for (int i = 0; i < of->how.workers; i++)
        if (!x->by[i].come && !of->done[i])
            return false;
    return x->have > 0;
}

static void forget(sum *x)
{
    sums *s = x->server->sums;
    if (x->result != x->out)
        give_block(s, x->result);
    x->next = s->spare;
    s->spare = x;
}

/* ---- Answers ---- */

static void answered(sum *x)
{
    if (--x->answers > 0)
        return;
    const share *own = net_rank() < x->server->how.workers ? &x->by[net_rank()] : NULL;
    if (own && own->come) {
        const kv_err fine = {0};
        reduce_ended(own->request, own->chunk, x->result, &fine);
    }
    forget(x);
}

static net_step answer(net_item *i)
{
    const share *c = (share *)(void *)i;
    const sum *x = c->sum;
    link_rec *r = net_reserve(i->peer, x->bytes);
    if (!r)
        return NET_FULL;
    *r = (link_rec){.bytes = (uint32_t)x->bytes,
                    .kind = LINK_VALUE,
                    .flags = LINK_LAST,
                    .store = (uint16_t)x->server->number,
                    .part = x->part,
                    .request = c->request,
                    .value.chunk = c->chunk};
    memcpy(r + 1, x->result, (size_t)x->bytes);
    net_commit(i->peer);
    return NET_ENDED;
}

static void answer_ended(net_item *i)
{
    answered(((share *)(void *)i)->sum);
}

/* Ends a round: every worker is told the sum, or what is wrong. */
static void tell_wrong(sum *x, const kv_err *e)
{
    for (int i = 0; i < x->server->how.workers; i++) {
        const share *c = &x->by[i];
        if (c->come && i == net_rank())
            reduce_ended(c->request, c->chunk, NULL, e);
        else if (c->come)
            server_fail(i, c->request, x->server->number, x->part, e);
    }
}

static void tell(sum *x)
{
    x->answers = 1;
    for (int i = 0; i < x->server->how.workers; i++) {
        share *c = &x->by[i];
        if (!c->come || i == net_rank())
            continue;
        x->answers++;
        if (answer(&c->item) == NET_ENDED)
            answered(x);
        else
            net_post(&c->item);
    }
    answered(x);
}

/* ---- Adding up ---- */

/* The data of those that have any, by rank; how many. */
static int sources(const sum *x, const void **list)
{
    int n = 0;
    for (int i = 0; i < x->server->how.workers; i++)
        if (x->by[i].come && x->by[i].data)
            list[n++] = x->by[i].data;
    return n;
}

/* Where the result is also one of the values, but not the first, a sum would overwrite what is
 * still to be added: it is made beside, and copied while it is in the cache. */
static void add_beside(sum *x, const void **list, int n)
{
    _Alignas(64) char some[AT_ONCE];
    int64_t each = kv_dtype_bytes(x->dtype);
    for (int64_t at = 0; at < x->bytes; at += AT_ONCE) {
        int64_t bytes = x->bytes - at < AT_ONCE ? x->bytes - at : AT_ONCE;
        cpu_dev_ops.sum(some, list, n, x->dtype, bytes / each);
        memcpy(x->result + at, some, (size_t)bytes);
        for (int i = 0; i < n; i++)
            list[i] = (const char *)list[i] + bytes;
    }
}

static void add_up(sum *x)
{
    const void **list = x->server->sums->sources;
    int n = sources(x, list);
    bool beside = false;
    for (int i = 1; i < n; i++)
        beside |= list[i] == x->result;
    if (beside)
        add_beside(x, list, n);
    else if (n > 0)
        cpu_dev_ops.sum(x->result, list, n, x->dtype, x->bytes / kv_dtype_bytes(x->dtype));
}

static void drop_copies(sum *x)
{
    for (int i = 0; i < x->server->how.workers; i++) {
        give_block(x->server->sums, x->by[i].copy);
        x->by[i].copy = NULL;
    }
}

static void unlink_lent(sum *x)
{
    sum **at = &x->server->sums->lent;
    if (!x->lent)
        return;
    while (*at != x)
        at = &(*at)->next_lent;
    *at = x->next_lent;
    x->lent = false;
}

static void unlink_sum(sum *x)
{
    sum **at = &x->server->sums->parts[x->part];
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    unlink_lent(x);
}

/* It stays, so that those who come late find it. */
static void give_up(sum *x, const kv_err *why)
{
    tell_wrong(x, why);
    unlink_lent(x);
    drop_copies(x);
    x->given_up = true;
}

static void finish(sum *x)
{
    kv_err e = {0};
    unlink_sum(x);
    if (x->given_up) {
        forget(x);
        return;
    }
    if (x->broadcasts && x->broadcasts < x->have)
        kv_err_set(&e, KV_E_VALUE, "some ranks broadcast the key while others push and pull it");
    else if (!(x->result = x->out ? x->out : take_block(x->server->sums)))
        kv_err_set(&e, KV_E_MEMORY, "no memory for a sum");
    if (!e.code)
        add_up(x);
    drop_copies(x);
    if (!e.code) {
        tell(x);
        return;
    }
    tell_wrong(x, &e);
    forget(x);
}

/* Whether it waits for a worker that has ended. */
static bool waits_for_ended(const sum *x, int *rank)
{
    const server_state *of = x->server;
    for (int i = 0; i < of->how.workers; i++) {
        if (x->by[i].come || !of->ended[i] || of->done[i])
            continue;
        *rank = i;
        return true;
    }
    return false;
}

static void look_at_ended(sum *x)
{
    kv_err why = {0};
    int rank;
    if (x->given_up || !waits_for_ended(x, &rank))
        return;
    kv_err_set(&why, KV_E_PEER, "rank %d has ended, and a sum waits for its values", rank);
    give_up(x, &why);
}

/* ---- Contributions ---- */

static int add_share(server_state *of, int rank, const link_rec *r, const char *data, int64_t bytes,
                     char *out, kv_err *e)
{
    sum *x = find(of, r, e);
    if (!x)
        return e->code;
    share *c = &x->by[rank];
    if (c->come)
        return kv_err_set(e, KV_E_INTERNAL, "rank %d contributes twice to one round", rank);
    if (x->given_up) {
        c->come = true;
        x->have++;
        if (is_complete(x))
            finish(x);
        return kv_err_set(e, KV_E_TIMEOUT, "these values came when their round had been given up");
    }
    bool broadcast = r->flags & LINK_BROADCAST;
    if (!broadcast || rank == 0) {
        c->data = data;
        x->bytes = bytes;
    }
    *c = (share){.item = {.step = answer, .release = answer_ended, .peer = rank,
                          .priority = r->add.priority},
                 .sum = x, .data = c->data, .request = r->request, .chunk = r->add.chunk,
                 .come = true};
    x->dtype = (kv_dtype)r->add.dtype;
    x->broadcasts += broadcast;
    x->have++;
    x->out = out ? out : x->out;
    if (is_complete(x)) {
        finish(x);
        return KV_OK;
    }
    if (c->data && rank != net_rank() && !x->lent) {
        x->lent = true;
        x->next_lent = of->sums->lent;
        of->sums->lent = x;
    }
    look_at_ended(x);
    return KV_OK;
}

int sums_take(server_state *s, int rank, const link_rec *r, kv_err *e)
{
    if (r->bytes > LINK_PAYLOAD)
        return ask_malformed(e);
    return add_share(s, rank, r, (const char *)(r + 1), r->bytes, NULL, e);
}

int sums_own(server_state *s, const link_rec *r, const char *data, char *out, kv_err *e)
{
    return add_share(s, net_rank(), r, data, r->bytes, out, e);
}

static void keep(sum *x)
{
    for (int i = 0; i < x->server->how.workers; i++) {
        share *c = &x->by[i];
        if (!c->data || c->copy || i == net_rank())
            continue;
        c->copy = take_block(x->server->sums);
        if (c->copy)
            memcpy(c->copy, c->data, (size_t)x->bytes);
        c->data = c->copy;
    }
    x->lent = false;
}

void sums_keep(server_state *s)
{
    for (sum *x = s->sums->lent, *next; x; x = next) {
        next = x->next_lent;
        keep(x);
    }
    s->sums->lent = NULL;
}

void sums_look(server_state *s)
{
    for (int64_t i = 0; i < s->sums->nparts; i++) {
        while (s->sums->parts[i] && is_complete(s->sums->parts[i]))
            finish(s->sums->parts[i]);
        for (sum *x = s->sums->parts[i]; x; x = x->next)
            look_at_ended(x);
    }
}

/* ---- Stragglers ---- */

static bool sum_has(const void *of, int worker)
{
    return ((const sum *)of)->by[worker].come;
}

static void tell_sum(const sum *x, buf *out)
{
    char text[SLOT_KEY_TEXT];
    kv_key key;
    bool known = coordinator_key(x->server, x->part, &key);
    buf_printf(out, "round %lld of %s %s", (long long)x->round, known ? "key" : "a",
               known ? slot_key_text(text, &key) : "key");
    straggler_tell_ranks(x->server, sum_has, x, out);
}

static void give_up_late(sum *x)
{
    kv_err why = {0};
    buf text = {0};
    tell_sum(x, &text);
    kv_err_set(&why, KV_E_TIMEOUT, "gave up: %s", buf_text(&text));
    buf_release(&text);
    give_up(x, &why);
}

int64_t sums_waits(server_state *s, int64_t before, buf *out)
{
    const sum *first = NULL;
    for (int64_t i = 0; i < s->sums->nparts; i++) {
        for (sum *x = s->sums->parts[i]; x; x = x->next) {
            if (!x->given_up && x->since_us < before)
                give_up_late(x);
            else if (!x->given_up && (!first || x->since_us < first->since_us))
                first = x;
        }
    }
    if (first)
        tell_sum(first, out);
    return first ? first->since_us : INT64_MAX;
}

int64_t sums_missed(const server_state *s, int rank, ask_missed *list, int64_t n)
{
    for (int64_t i = 0; i < s->sums->nparts; i++) {
        for (const sum *x = s->sums->parts[i]; x && n < ASK_MOST_MISSED; x = x->next) {
            int other = 0;
            while (other < s->how.workers && !x->by[other].come)
                other++;
            if (!x->given_up && x->have > 0 && !x->by[rank].come)
                list[n++] = (ask_missed){x->part, x->round, other};
        }
    }
    return n;
}
