/* Walks. The pieces of all tensors stand in one line, which is cut into parts of a few megabytes:
 * many small tensors or a part of a large one. Runners, each with its own readers, take the next
 * part until none is left. There are as many runners as threads, but no more than the memory for
 * windows allows. */
#include "tensors/walk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/stop.h"
#include "checkpoint/tensor_reader.h"
#include "engine/pool.h"

/* A part is large enough that the order of the disk is mostly kept, and small enough that threads
 * end at about the same time. A piece costs something without its bytes, too: 10^6 tensors of one
 * element must not be one part. */
#define PART_BYTES ((int64_t)4 << 20)
#define PIECE_COST ((int64_t)4 << 10)
#define PARTS_MAX  ((int64_t)1 << 18) /* parts of larger checkpoints are larger */

/* All windows together, whatever the number of threads; they count as resident memory. */
#define WINDOWS_BYTES ((int64_t)96 << 20)
#define WINDOW_MOST   ((int64_t)16 << 20)

/* Where a part begins; it ends where the next one begins. */
typedef struct part {
    int64_t tensor, piece;
    int64_t number; /* of its first piece, of all */
} part;

/* Results of pieces of a tensor that wait for the others. */
typedef struct waiting {
    char *results; /* NULL until the first piece came, and when all are there */
    int64_t missing;
} waiting;

typedef struct run {
    const walk *w;
    part *parts; /* and one behind the last */
    int64_t nparts, cap;
    int64_t window_bytes;
    atomic_llong next;    /* the next part */
    atomic_llong failed;  /* the number of the first piece that failed so far, else INT64_MAX */
    pthread_mutex_t lock; /* for error, and to set failed */
    kv_err error;
    pthread_mutex_t telling; /* one thread calls progress at a time */
    atomic_llong done;       /* bytes */
    int64_t all;
    pthread_mutex_t keeping; /* for results */
    waiting *results;        /* of each tensor, in a fold */
} run;

/* ---- Tensors --------------------------------------------------------------------------------- */

/* The number of a tensor in an input, or -1. */
static int64_t number_in(const walk *w, int64_t tensor, int input)
{
    return w->at[tensor * w->ninputs + input];
}

static int64_t piece_elements(const walk *w, int64_t tensor)
{
    return w->piece_elements ? w->piece_elements[tensor] : WALK_PIECE;
}

static int64_t pieces_of(const walk *w, int64_t tensor, int64_t elements)
{
    int64_t n = piece_elements(w, tensor);
    return elements / n + (elements % n != 0);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* The size of a tensor in all inputs together. */
typedef struct sizes {
    int64_t elements, bytes;
    bool whole;   /* one worker reads its pieces, in order */
    bool strided; /* what a worker gathers of it at a time is as large as its window */
} sizes;

static sizes sizes_of(const walk *w, int64_t tensor)
{
    sizes s = {.whole = w->in_order};
    for (int i = 0; i < w->ninputs; i++) {
        int64_t at = number_in(w, tensor, i);
        if (at < 0)
            continue;
        const tensor_info *t = checkpoint_at(w->inputs[i], at);
        kv_assert(s.bytes == 0 || s.elements == t->elements,
                  "a walk reads %lld elements of \"%.64s\" beside %lld", (long long)t->elements,
                  t->name, (long long)s.elements);
        s.elements = t->elements;
        s.bytes += t->bytes;
        s.whole |= (t->form & TENSOR_DEFLATED) != 0;
        s.strided |= (t->form & TENSOR_STRIDED) != 0;
    }
    return s;
}

static int add_part(run *r, int64_t tensor, int64_t piece, int64_t number, kv_err *e)
{
    TRY(mem_grow(&r->parts, &r->cap, r->nparts + 1, sizeof *r->parts, e));
    r->parts[r->nparts++] = (part){tensor, piece, number};
    return KV_OK;
}

/* Cuts one tensor; *room is what the open part may still take. */
static int cut_tensor(run *r, int64_t tensor, int64_t *number, int64_t *room, int64_t part_bytes,
                      kv_err *e)
{
    sizes s = sizes_of(r->w, tensor);
    int64_t pieces = pieces_of(r->w, tensor, s.elements), step = s.whole ? pieces : 1;
    for (int64_t piece = 0; piece < pieces; piece += step) {
        if (*room <= 0) {
            TRY(add_part(r, tensor, piece, *number + piece, e));
            *room = s.strided && part_bytes < WINDOW_MOST ? WINDOW_MOST : part_bytes;
        }
        *room -= s.bytes / pieces * step + PIECE_COST * step;
    }
    *number += pieces;
    return KV_OK;
}

static int cut(run *r, kv_err *e)
{
    int64_t number = 0, room = 0;
    for (int64_t i = 0; i < r->w->ntensors; i++)
        r->all += sizes_of(r->w, i).bytes;
    int64_t part_bytes = r->all / PARTS_MAX > PART_BYTES ? r->all / PARTS_MAX : PART_BYTES;
    for (int64_t i = 0; i < r->w->ntensors; i++)
        TRY(cut_tensor(r, i, &number, &room, part_bytes, e));
    TRY(add_part(r, r->w->ntensors, 0, number, e));
    r->nparts--;
    return KV_OK;
}

/* ---- Running them ---------------------------------------------------------------------------- */

/* Pieces before the one that failed are still handled, since an earlier error would be the first.
 * Every part that begins before it has been taken already. */
static void fail(run *r, int64_t number, const kv_err *e)
{
    pthread_mutex_lock(&r->lock);
    if (number < atomic_load(&r->failed)) {
        atomic_store(&r->failed, number);
        r->error = *e;
    }
    pthread_mutex_unlock(&r->lock);
}

/* A thread that finds another one telling goes on. */
static void tell(run *r, int64_t bytes)
{
    atomic_fetch_add(&r->done, bytes);
    if (!r->w->progress || pthread_mutex_trylock(&r->telling))
        return;
    r->w->progress(r->w->progress_arg, atomic_load(&r->done), r->all);
    pthread_mutex_unlock(&r->telling);
}

static int read_piece(const walk *w, tensor_reader *const *readers, walk_piece *p, int64_t *bytes,
                      kv_err *e)
{
    for (int i = 0; i < w->ninputs; i++) {
        int64_t at = number_in(w, p->tensor, i);
        p->data[i] = NULL;
        if (at < 0)
            continue;
        const tensor_info *t = checkpoint_at(w->inputs[i], at);
        int64_t n = tensor_type_bytes(t->type, p->n);
        *bytes += n;
        if (w->block_bytes == 0)
            TRY(tensor_read(readers[i], &p->data[i], at, tensor_type_bytes(t->type, p->first), n,
                            e));
    }
    return KV_OK;
}

/* Keeps a result; *all becomes the results of the tensor when this was the last one. */
static int keep(run *r, const walk_piece *p, int64_t pieces, char **all, kv_err *e)
{
    waiting *w = &r->results[p->tensor];
    size_t bytes = r->w->result_bytes;
    if (!w->results) {
        if (!(w->results = mem_alloc(pieces, bytes, e)))
            return KV_E_MEMORY;
        w->missing = pieces;
    }
    memcpy(w->results + (size_t)p->number * bytes, p->result, bytes);
    kv_assert(w->missing > 0, "piece %lld of tensor %lld came twice", (long long)p->number,
              (long long)p->tensor);
    if (--w->missing == 0) {
        *all = w->results;
        w->results = NULL;
    }
    return KV_OK;
}

/* Hands over the result of a piece. */
static int put_result(run *r, const walk_piece *p, int64_t elements, kv_err *e)
{
    int64_t pieces = pieces_of(r->w, p->tensor, elements);
    own_mem char *all = NULL;
    if (!r->results)
        return KV_OK;
    if (pieces == 1) {
        r->w->end(r->w->arg, p->tensor, p->result, 1);
        return KV_OK;
    }
    pthread_mutex_lock(&r->keeping);
    int rc = keep(r, p, pieces, &all, e);
    pthread_mutex_unlock(&r->keeping);
    if (all)
        r->w->end(r->w->arg, p->tensor, all, pieces);
    return rc;
}

/* The number of elements of a tensor of the walk. */
static int64_t elements_of(const walk *w, int64_t tensor)
{
    for (int i = 0; i < w->ninputs; i++)
        if (number_in(w, tensor, i) >= 0)
            return checkpoint_at(w->inputs[i], number_in(w, tensor, i))->elements;
    return 0;
}

/* Tells the readers that elements of a tensor up to that one are read in order. */
static void look_ahead(const walk *w, tensor_reader *const *readers, int64_t tensor,
                       int64_t elements)
{
    for (int i = 0; i < w->ninputs; i++) {
        int64_t at = number_in(w, tensor, i);
        if (at >= 0)
            tensor_reader_ahead(
                readers[i], at,
                tensor_type_bytes(checkpoint_at(w->inputs[i], at)->type, elements));
    }
}

/* Handles the pieces of a part, up to the first one that fails or that is behind a failed one. */
static void run_part(run *r, const part *from, tensor_reader *const *readers, void *result,
                     int worker, kv_err *e)
{
    const walk *w = r->w;
    int64_t number = from->number, end = from[1].number;
    walk_piece p = {.tensor = from->tensor, .number = from->piece, .readers = readers,
                    .result = result};
    int64_t elements = elements_of(w, p.tensor), most = piece_elements(w, p.tensor), bytes = 0;
    int rc = KV_OK;
    for (; number < end && number < atomic_load(&r->failed); number++, p.number++) {
        while (p.number >= pieces_of(w, p.tensor, elements)) {
            elements = elements_of(w, ++p.tensor);
            most = piece_elements(w, p.tensor);
            p.number = 0;
        }
        p.first = p.number * most;
        if (p.number == 0 || number == from->number) {
            int64_t behind = p.first + (end - number) * most;
            look_ahead(w, readers, p.tensor, behind < elements ? behind : elements);
        }
        p.n = elements - p.first < most ? elements - p.first : most;
        if ((rc = stop_check(e))) {
            number = -1; /* what was interrupted is not examined to the end */
            break;
        }
        if ((rc = read_piece(w, readers, &p, &bytes, e)) ||
            (rc = w->piece(w->arg, &p, worker, e)) ||
            (rc = put_result(r, &p, elements, e)))
            break;
        if (bytes >= PART_BYTES) {
            tell(r, bytes);
            bytes = 0;
        }
    }
    tell(r, bytes);
    for (int i = 0; i < w->ninputs && rc == KV_OK; i++)
        if ((rc = tensor_reader_check(readers[i], e)))
            number = from->number;
    if (rc)
        fail(r, number, e);
}

static void runner(void *arg, int64_t number, int worker)
{
    run *r = arg;
    kv_err e = {0};
    tensor_reader *readers[WALK_INPUTS_MOST] = {0};
    int64_t i;
    (void)number;
    void *result = r->results ? mem_alloc(1, r->w->result_bytes, &e) : NULL;
    for (int k = 0; k < r->w->ninputs && e.code == KV_OK; k++) {
        tensor_reader_new(&readers[k], r->w->inputs[k], r->window_bytes, &e);
        if (r->w->block_bytes > 0 && e.code == KV_OK)
            tensor_reader_map_always(readers[k]);
    }
    if (e.code)
        fail(r, -1, &e);
    while (e.code == KV_OK && (i = atomic_fetch_add(&r->next, 1)) < r->nparts)
        run_part(r, &r->parts[i], readers, result, worker, &e);
    mem_free(result);
    for (int k = 0; k < r->w->ninputs; k++)
        tensor_reader_free(readers[k]);
}

/* The number of runners; sets the size of their windows. Those that read blocks by themselves map
 * them where all have room for windows; else they read into buffers of that size, which stay in a
 * processor's cache. */
static int64_t runners(run *r)
{
    int64_t ninputs = r->w->ninputs > 0 ? r->w->ninputs : 1, n = pool_workers();
    if (r->w->most_workers > 0 && r->w->most_workers < n)
        n = r->w->most_workers;
    n = n < r->nparts ? n : r->nparts;
    if (r->w->block_bytes > 0) {
        int64_t fit = WINDOWS_BYTES / ninputs / r->w->block_bytes;
        n = n < fit ? n : fit < 1 ? 1 : fit;
        r->window_bytes = n * ninputs * TENSOR_BLOCK > WINDOWS_BYTES ? 0 : TENSOR_BLOCK;
        return n;
    }
    int64_t most = WINDOWS_BYTES / TENSOR_BLOCK / ninputs;
    n = n < most ? n : most;
    if (n > 0)
        r->window_bytes = WINDOWS_BYTES / ninputs / n;
    if (r->window_bytes > WINDOW_MOST)
        r->window_bytes = WINDOW_MOST;
    return n;
}

int walk_run(const walk *w, kv_err *e)
{
    run r = {.w = w, .failed = INT64_MAX};
    kv_assert(w->ninputs <= WALK_INPUTS_MOST, "a walk has %d inputs", w->ninputs);
    /* Tensors that are only listed cannot be walked over. */
    int rc = KV_OK;
    for (int64_t i = 0; i < w->ntensors && rc == KV_OK; i++)
        for (int k = 0; k < w->ninputs && rc == KV_OK; k++)
            if (number_in(w, i, k) >= 0)
                rc = checkpoint_has_numbers(w->inputs[k], number_in(w, i, k), e);
    if (rc)
        kv_err_hint(e, "--exclude leaves keys out");
    if (w->result_bytes && !(r.results = mem_zalloc(w->ntensors, sizeof *r.results, e)))
        rc = KV_E_MEMORY;
    if (rc == KV_OK && (rc = cut(&r, e)) == KV_OK) {
        pthread_mutex_init(&r.keeping, NULL);
        pthread_mutex_init(&r.lock, NULL);
        pthread_mutex_init(&r.telling, NULL);
        pool_run(runners(&r), runner, &r);
        pthread_mutex_destroy(&r.lock);
        pthread_mutex_destroy(&r.telling);
        pthread_mutex_destroy(&r.keeping);
        rc = r.error.code;
        if (rc && e && e->code == KV_OK)
            *e = r.error;
    }
    for (int64_t i = 0; i < w->ntensors && r.results; i++)
        mem_free(r.results[i].results);
    mem_free(r.results);
    mem_free(r.parts);
    return rc;
}
