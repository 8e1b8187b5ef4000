/* Both tables are lists: few calls wait at a time, and few come in several records. */
#include "distributed/net_calls.h"

#include <stddef.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "distributed/asks.h"

/* A call of which some bytes have come. */
typedef struct partial_call {
    int rank;
    uint64_t request;
    int64_t bytes, cap;
    char *record; /* header and payload */
    struct partial_call *next;
} partial_call;

/* ---- Calls of this rank ---- */

void net_calls_begin(net_calls *t, waiting_group *g)
{
    pthread_mutex_lock(&t->lock);
    g->first = link_call_number(t->requests + 1);
    t->requests += (uint64_t)g->n;
    for (int i = 0; i < g->n; i++)
        g->calls[i].request = g->first + (uint64_t)i;
    g->next = t->waiting;
    t->waiting = g;
    pthread_mutex_unlock(&t->lock);
}

void net_calls_forget(net_calls *t, const waiting_group *g)
{
    pthread_mutex_lock(&t->lock);
    waiting_group **at = &t->waiting;
    while (*at && *at != g)
        at = &(*at)->next;
    if (kv_assert(*at, "%d calls end, and were not waited for", g->n))
        *at = g->next;
    pthread_mutex_unlock(&t->lock);
}

void net_calls_take_reply(net_calls *t, int rank, const link_rec *r)
{
    pthread_mutex_lock(&t->lock);
    waiting_group *g = t->waiting;
    while (g && r->request - g->first >= (uint64_t)g->n)
        g = g->next;
    waiting *w = g ? &g->calls[r->request - g->first] : NULL;
    if (w && w->request == r->request && w->rank == rank) {
        bool last = r->kind == LINK_FAILED || r->flags & LINK_LAST;
        w->failed = r->kind == LINK_FAILED;
        w->bytes = w->failed ? 0 : w->bytes;
        if (mem_grow(&w->reply, &w->cap, w->bytes + r->bytes, 1, NULL)) {
            mem_free(w->reply);
            w->reply = NULL;
            last = w->failed = true;
        } else {
            if (r->bytes > 0)
                memcpy(w->reply + w->bytes, r + 1, r->bytes);
            w->bytes += r->bytes;
        }
        if (last) {
            w->request = 0;
            __atomic_store_n(&w->done, 1, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&t->lock);
}

/* ---- Calls of other ranks ---- */

static void drop_partial(partial_call **at)
{
    partial_call *p = *at;
    *at = p->next;
    mem_free(p->record);
    mem_free(p);
}

int net_calls_take(net_calls *t, int rank, const link_rec *r, const link_rec **whole, kv_err *e)
{
    partial_call **at = &t->partial, *p;
    *whole = NULL;
    while (*at && ((*at)->rank != rank || (*at)->request != r->request))
        at = &(*at)->next;
    p = *at;
    if (r->from != (p ? p->bytes - (int64_t)sizeof *r : 0)) {
        if (p)
            drop_partial(at);
        return ask_malformed(e);
    }
    if (!p && r->flags & LINK_LAST) {
        *whole = r;
        return KV_OK;
    }
    if (!p) {
        if (!(p = mem_alloc(1, sizeof *p, e)))
            return KV_E_MEMORY;
        *p = (partial_call){.rank = rank, .request = r->request, .bytes = sizeof *r,
                            .next = t->partial};
        t->partial = p;
        at = &t->partial;
    }
    if (mem_grow(&p->record, &p->cap, p->bytes + r->bytes, 1, e))
        return KV_E_MEMORY;
    memcpy(p->record + p->bytes, r + 1, r->bytes);
    p->bytes += r->bytes;
    if (r->flags & LINK_LAST) {
        *(link_rec *)(void *)p->record = *r;
        *whole = (link_rec *)(void *)p->record;
        *at = p->next;
        mem_free(p);
    }
    return KV_OK;
}

void net_calls_end(const link_rec *whole, const link_rec *r)
{
    if (whole != r)
        mem_free((link_rec *)(uintptr_t)whole);
}

void net_calls_drop(net_calls *t, int rank)
{
    for (partial_call **at = &t->partial; *at;) {
        if (rank < 0 || (*at)->rank == rank)
            drop_partial(at);
        else
            at = &(*at)->next;
    }
}
