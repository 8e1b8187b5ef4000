/* How a server answers: parts that were pulled, ends of pushes, optimizers that workers set. */
#include "distributed/server_state.h"

#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "core/store.h"
#include "distributed/rounds.h"

/* ---- Replies of parts ---- */

typedef struct reply {
    part *part;
    int64_t index;
} reply;

/* Parts that one request of a worker receives. Collected while the net settles, then an item. */
typedef struct server_replies {
    net_item item;
    server_state *s;
    uint64_t request;
    reply *list;
    int64_t n, cap, at;
    int64_t offset; /* bytes of the one at `at` that were sent */
} server_replies;

static const kv_array *stored(const server_state *s, const part *p)
{
    return s->store->slots.items[p->slot].stored;
}

static net_step replied(server_replies *r, int64_t n, int64_t left)
{
    net_commit(r->item.peer);
    r->offset += n;
    if (n < left)
        return NET_MORE;
    rounds_sent(r->s, r->list[r->at].part);
    r->offset = 0;
    return ++r->at < r->n ? NET_MORE : NET_ENDED;
}

/* The codes of what is stored; offset counts elements. */
static net_step send_codes(server_replies *r)
{
    enum { AT_ONCE = 1 << 19 };
    const reply *x = &r->list[r->at];
    const part *p = x->part;
    dev_code code = (dev_code)p->coded.code;
    int64_t left = p->count - r->offset, n = left < AT_ONCE ? left : AT_ONCE;
    int64_t bytes = dev_code_bytes(code, n);
    link_rec *to = net_reserve(r->item.peer, (int64_t)sizeof p->coded + bytes);
    if (!to)
        return NET_FULL;
    *to = (link_rec){.bytes = (uint32_t)((int64_t)sizeof p->coded + bytes),
                     .kind = LINK_VALUE,
                     .flags = (uint8_t)(LINK_CODES | (n == left ? LINK_LAST : 0)),
                     .store = (uint16_t)r->s->number,
                     .part = p->id,
                     .request = r->request,
                     .value = {.chunk = x->index, .element = r->offset, .elements = n}};
    memcpy(to + 1, &p->coded, sizeof p->coded);
    memcpy((char *)(to + 1) + sizeof p->coded, p->codes + r->offset / 8 * (int64_t)code,
           (size_t)bytes);
    return replied(r, n, left);
}

static net_step send_next(net_item *i)
{
    server_replies *r = (server_replies *)(void *)i;
    const reply *x = &r->list[r->at];
    if (x->part->coded.code)
        return send_codes(r);
    int64_t left = x->part->bytes - r->offset;
    int64_t n = left < LINK_PAYLOAD ? left : LINK_PAYLOAD;
    link_rec *to = net_reserve(i->peer, n);
    if (!to)
        return NET_FULL;
    *to = (link_rec){.bytes = (uint32_t)n,
                     .kind = LINK_VALUE,
                     .flags = n == left ? LINK_LAST : 0,
                     .store = (uint16_t)r->s->number,
                     .part = x->part->id,
                     .request = r->request,
                     .value = {.chunk = x->index, .offset = r->offset}};
    if (n)
        memcpy(to + 1, (const char *)stored(r->s, x->part)->data + r->offset, (size_t)n);
    return replied(r, n, left);
}

static void free_replies(net_item *i)
{
    server_replies *r = (server_replies *)(void *)i;
    mem_free(r->list);
    mem_free(r);
}

static void flush_replies(server_state *s)
{
    if (s->replies)
        net_post(&s->replies->item);
    s->replies = NULL;
}

/* A row_sparse part as a dense array, for workers that pull it whole. */
static void send_dense(server_state *s, part *p, const server_pull *x)
{
    kv_array *dense = NULL;
    kv_err e = {0};
    kv_array *a = s->store->slots.items[p->slot].stored;
    int64_t at = 0;
    if (kv_array_to_dense(&dense, a, &e)) {
        link_rec r = {.bytes = sizeof e, .kind = LINK_FAILED, .store = (uint16_t)s->number,
                      .request = x->request, .part = p->id};
        net_answer(x->rank, r, &e);
        return;
    }
    do {
        int64_t left = p->bytes - at, n = left < LINK_PAYLOAD ? left : LINK_PAYLOAD;
        link_rec r = {.bytes = (uint32_t)n, .kind = LINK_VALUE, .flags = n == left ? LINK_LAST : 0,
                      .store = (uint16_t)s->number, .part = p->id,
                      .request = x->request, .value = {.chunk = x->index, .offset = at}};
        net_answer(x->rank, r, (const char *)dense->data + at);
        at += n;
    } while (at < p->bytes);
    kv_array_unref(dense);
}

void server_send(server_state *s, part *p, const server_pull *x)
{
    kv_err unused = {0};
    server_replies *r = s->replies;
    if (stored(s, p)->storage == KV_ROW_SPARSE) {
        send_dense(s, p, x);
        return;
    }
    if (r && (r->item.peer != x->rank || r->request != x->request))
        flush_replies(s);
    if (!s->replies) {
        r = mem_zalloc(1, sizeof *r, &unused);
        if (!r)
            return; /* the worker gives up in time */
        r->item = (net_item){.step = send_next, .release = free_replies, .peer = x->rank,
                             .priority = x->priority};
        r->s = s;
        r->request = x->request;
        s->replies = r;
    }
    r = s->replies;
    if (mem_grow(&r->list, &r->cap, r->n + 1, sizeof *r->list, &unused))
        return;
    r->list[r->n++] = (reply){p, x->index};
    p->replies++;
}

void server_send_rows(server_state *s, part *p, const server_pull *x)
{
    kv_err e = {0};
    kv_array *ids = NULL, *out = NULL;
    kv_key key = {.id = p->id};
    buf bytes = {0};
    int rc =
        kv_array_wrap(&ids, x->ids, KV_INT64, 1, &x->nids, (kv_ctx){KV_CPU, 0}, NULL, NULL, &e);
    if (!rc)
        rc = kv_array_new_sparse(&out, p->dtype, p->ndim, p->shape, 0, NULL, (kv_ctx){KV_CPU, 0},
                                 &e);
    if (!rc)
        rc = kv_row_sparse_pull(s->store, &key, 1, &ids, &out, NULL, &e);
    if (!rc)
        rc = kv_wait(s->store, &e);
    if (!rc) {
        ask_put_rows(&bytes, out, 0, INT64_MAX);
        rc = buf_check(&bytes, &e);
    }
    if (rc)
        server_refuse(x->rank, x->request, &e);
    else
        server_reply(x->rank, x->request, bytes.data, (int64_t)bytes.len);
    buf_release(&bytes);
    kv_array_unref(out);
    kv_array_unref(ids);
}

/* ---- Ends of pushes ---- */

static void tell_ends(server_state *s, int worker)
{
    server_ends *x = &s->ends[worker];
    link_rec r = {.kind = LINK_DONE, .store = (uint16_t)s->number, .request = x->request,
                  .done.pushes = x->n};
    if (x->n)
        net_answer(worker, r, NULL);
    x->n = 0;
}

void server_note_done(server_state *s, int worker, uint64_t request)
{
    server_ends *x = &s->ends[worker];
    if (x->request != request)
        tell_ends(s, worker);
    x->request = request;
    x->n++;
}

void server_flush(server_state *s)
{
    flush_replies(s);
    for (int i = 0; i < s->how.workers; i++)
        tell_ends(s, i);
}

/* ---- Sums ---- */

bool server_is_sum(const server_state *s, const part *p, const round *x)
{
    if (s->how.is_async || s->store->updater.kind != UPDATER_ASSIGN || p->storage != KV_DEFAULT)
        return false;
    for (int i = 0; i < s->how.workers; i++)
        if (x->by[i].complete && x->by[i].sparse)
            return false;
    return true;
}

/* How the first worker wants the sum of a round coded; code 0: not. */
static push_codes back_of(const server_state *s, const round *x)
{
    for (int i = 0; i < s->how.workers; i++)
        if (x->by[i].complete)
            return x->by[i].how.back ? x->by[i].how : (push_codes){0};
    return (push_codes){0};
}

void server_drop_codes(part *p)
{
    mem_free(p->codes);
    mem_free(p->residual);
    p->codes = NULL;
    p->residual = NULL;
    p->coded = (push_codes){0};
}

/* What a part keeps beside the codes of its sum; a residual that is new is 0. */
static int reserve_codes(part *p, const push_codes *how, kv_err *e)
{
    if (!how->code || how->back == BACK_ANEW)
        server_drop_codes(p);
    if (!how->code || p->codes || !p->count)
        return KV_OK;
    p->codes = mem_alloc(dev_code_bytes((dev_code)how->code, p->count), 1, e);
    p->residual = p->codes ? mem_zalloc(p->count, sizeof *p->residual, e) : NULL;
    if (p->residual)
        return KV_OK;
    server_drop_codes(p);
    return KV_E_MEMORY;
}

int server_add_up(server_state *s, part *p, const round *x, kv_err *e)
{
    int n = 0;
    void *to = NULL;
    push_codes how = back_of(s, x);
    int rc = kv_array_write(s->store->slots.items[p->slot].stored, &to, e);
    if (!rc)
        rc = reserve_codes(p, &how, e);
    for (int i = 0; i < s->how.workers && !rc; i++) {
        if (x->by[i].complete && !x->by[i].data && p->bytes)
            rc = kv_err_set(e, KV_E_MEMORY, "no memory for a push");
        else if (x->by[i].complete)
            s->sources[n++] = x->by[i].data;
    }
    if (rc || !p->bytes)
        return rc;
    if (n == 1)
        memcpy(to, s->sources[0], (size_t)p->bytes);
    else
        cpu_dev_ops.sum(to, s->sources, n, p->dtype, p->count);
    p->coded = how;
    if (how.code) {
        cpu_dev_ops.quantise(p->codes, p->residual, to, (dev_code)how.code, how.threshold,
                             p->count);
        cpu_dev_ops.dequantise(to, p->codes, (dev_code)how.code, how.threshold, p->count);
    }
    return KV_OK;
}

/* ---- Optimizers ---- */

/* The texts of ASK_OPTIMIZER: "assign"; or "optimizer", its name and parameters as pairs; "rule"
 * with its text; "update" with "". */
int server_set_optimizer(server_state *s, const server_optimizer *o, kv_err *e)
{
    enum { MOST = 256 };
    kv_opt params[MOST];
    int n = 0;
    const char *kind = o->text, *end = o->text + o->bytes;
    const char *text = kind + strlen(kind) + 1;
    if (strcmp(kind, "assign") == 0)
        return kv_set_updater(s->store, NULL, NULL, NULL, e);
    for (const char *at = text + strlen(text) + 1; at < end && n < MOST;) {
        params[n].name = at;
        at += strlen(at) + 1;
        params[n++].value = at;
        at += strlen(at) + 1;
    }
    if (strcmp(kind, "update") == 0)
        return kv_update_optimizer(s->store, params, n, e);
    if (strcmp(kind, "optimizer") == 0)
        return kv_set_optimizer(s->store, text, params, n, e);
    kv_rule *rule;
    int rc = kv_rule_new(&rule, text, NULL, 0, 0, e);
    if (!rc) {
        rc = kv_set_rule(s->store, rule, params, n, e);
        kv_rule_free(rule);
    }
    return rc;
}
