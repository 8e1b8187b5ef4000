/* Results of pieces that wait for the others of their tensor. */
#include "tensors/walk_results.h"

#include <pthread.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"

typedef struct waiting {
    char *results; /* NULL until the first piece came, and when all are there */
    int64_t missing;
} waiting;

struct walk_results {
    pthread_mutex_t lock; /* for tensors */
    waiting *tensors;
    int64_t ntensors;
    size_t result_bytes;
    walk_results_fn *combine;
    void *arg;
};

int walk_results_new(walk_results **out, int64_t ntensors, size_t result_bytes,
                     walk_results_fn *combine, void *arg, kv_err *e)
{
    walk_results *g = mem_zalloc(1, sizeof *g, e);
    if (!g || !(g->tensors = mem_zalloc(ntensors, sizeof *g->tensors, e))) {
        mem_free(g);
        return KV_E_MEMORY;
    }
    pthread_mutex_init(&g->lock, NULL);
    g->ntensors = ntensors;
    g->result_bytes = result_bytes;
    g->combine = combine;
    g->arg = arg;
    *out = g;
    return KV_OK;
}

void walk_results_free(walk_results *g)
{
    if (!g)
        return;
    for (int64_t i = 0; i < g->ntensors; i++)
        mem_free(g->tensors[i].results);
    mem_free(g->tensors);
    pthread_mutex_destroy(&g->lock);
    mem_free(g);
}

/* Keeps a result; *all becomes the results of the tensor when this was the last one. */
static int keep(walk_results *g, const walk_piece *p, int64_t pieces, const void *result,
                char **all, kv_err *e)
{
    waiting *w = &g->tensors[p->tensor];
    if (!w->results) {
        if (!(w->results = mem_alloc(pieces, g->result_bytes, e)))
            return KV_E_MEMORY;
        w->missing = pieces;
    }
    memcpy(w->results + (size_t)p->number * g->result_bytes, result, g->result_bytes);
    kv_assert(w->missing > 0, "piece %lld of tensor %lld came twice", (long long)p->number,
              (long long)p->tensor);
    if (--w->missing == 0) {
        *all = w->results;
        w->results = NULL;
    }
    return KV_OK;
}

int walk_results_put(walk_results *g, const walk_piece *p, int64_t elements, const void *result,
                     kv_err *e)
{
    int64_t pieces = walk_pieces(elements);
    char *all = NULL;
    if (pieces == 1) {
        g->combine(g->arg, p->tensor, result, 1);
        return KV_OK;
    }
    pthread_mutex_lock(&g->lock);
    int code = keep(g, p, pieces, result, &all, e);
    pthread_mutex_unlock(&g->lock);
    if (all)
        g->combine(g->arg, p->tensor, all, pieces);
    mem_free(all);
    return code;
}
