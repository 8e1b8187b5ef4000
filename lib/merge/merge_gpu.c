/* See merge_gpu.h. The memory of the device that a worker has, from its first byte on, in the sizes
 * of merge_room (n inputs):
 *
 *   n + 1 of gpu_array_bytes   each input, then the merged elements: float32 or float64 of a piece
 *   n + 1 of gpu_raw_bytes     the same in the types of their files
 *   gpu_terms_bytes            the terms of each sum of the pass
 *   gpu_lanes_bytes            the lanes of each sum of the pass
 *   8 * numbers                the numbers of the key
 */
#include "merge/merge_gpu.h"

#include <string.h>

#include "array/mirror.h"
#include "checkpoint/tensor_codec.h"
#include "vm/kernel_fold.h"
#include "vm/plan_text.h"

/* ---- Checks ---------------------------------------------------------------------------------- */

bool merge_gpu_wanted(const merge *m)
{
    return mirror_needed(m->ctx);
}

/* What a plan needs that the CPU alone has, or NULL. */
static const char *missing(const merge_plan *p)
{
    for (int i = 0; i < p->plan->npasses; i++) {
        const plan_pass *pass = &p->plan->pass[i];
        for (int k = 0; k < pass->nsums; k++)
            if (pass->sum[k].fold >= PLAN_FOLDS)
                return "selects elements by size (largest, quantile)";
        for (int s = 0; s < pass->nslots; s++) {
            int kind = plan_slot_kind(pass->slot[s]);
            if (kind == MERGE_PRODUCT)
                return "multiplies factors of adapters (matmul)";
            if (kind == MERGE_UNIFORM)
                return "draws random numbers (uniform)";
        }
    }
    return p->nranks > 0 ? "ranks the elements of rows (rowrank)" : NULL;
}

int merge_gpu_check(const merge *m, const merge_plan *p, kv_err *e)
{
    char ctx[KV_CTX_TEXT];
    const char *what = missing(p), *inexact = what ? NULL : plan_text_inexact(p->plan);
    const char *name = m->rule->nnames > 0 ? m->rule->names[0] : "this rule";
    if (!what && !inexact)
        return KV_OK;
    kv_ctx_text(ctx, m->ctx);
    if (what)
        kv_err_set(e, KV_E_UNSUPPORTED, "%.64s does not run on %s: it %s", name, ctx, what);
    else
        kv_err_set(e, KV_E_UNSUPPORTED,
                   "%.64s does not run on %s: it calls %s, which a GPU may round otherwise", name,
                   ctx, inexact);
    return kv_err_hint(e, "without --ctx it runs on the CPU"), KV_E_UNSUPPORTED;
}

/* ---- The device ------------------------------------------------------------------------------ */

int merge_gpu_open(merge_gpu *g, const merge *m, kv_err *e)
{
    if (!merge_gpu_wanted(m))
        return KV_OK;
    int rc = ctx_check(m->ctx, e);
    if (rc)
        return rc;
    *g = (merge_gpu){.ops = gpu_find(e), .id = m->ctx.id};
    return g->ops ? KV_OK : KV_E_UNSUPPORTED;
}

void merge_gpu_release(merge_gpu *g)
{
    if (g->block)
        g->ops->free(g->id, g->block);
    *g = (merge_gpu){0};
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* The kernel over elements of a pass, as plan_text.h counts them. */
static int kernel_of(int pass)
{
    return 2 * pass + 1;
}

static int compile(const merge_gpu *g, const gpu_rule **out, const plan *p, int kernel, kv_err *e)
{
    buf text = {0};
    plan_text(&text, p, kernel, PLAN_INPUT_ALL, GPU_RULE_KERNEL);
    int rc = buf_check(&text, e);
    if (!rc)
        rc = g->ops->compile(g->id, buf_text(&text), out, e);
    buf_release(&text);
    return rc;
}

int merge_gpu_compile(const merge_gpu *g, merge_job *j, arena *memory, kv_err *e)
{
    const plan *p = j->plan->plan;
    int rc = KV_OK;
    j->kernel = arena_alloc(memory, (size_t)p->npasses * sizeof *j->kernel, e);
    if (!j->kernel)
        return KV_E_MEMORY;
    for (int i = 0; i < p->npasses && !rc; i++) {
        merge_kernel *k = &j->kernel[i];
        int which = kernel_of(i);
        *k = (merge_kernel){0};
        if (!plan_text_has(p, which))
            continue;
        k->nwords = plan_text_words(p, which);
        double *words = arena_alloc(memory, (size_t)k->nwords * sizeof *words + 1, e);
        if (!words)
            return KV_E_MEMORY;
        plan_text_fill(words, p, which, &(plan_arrays){0});
        k->words = words;
        rc = compile(g, &k->rule, p, which, e);
    }
    return rc;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void grow(int64_t *most, int64_t n)
{
    *most = n > *most ? n : *most;
}

/* The dtype of a type that the device converts by itself. */
static bool device_dtype(tensor_type t, kv_dtype *dtype)
{
    bool is = t == TENSOR_F16 || t == TENSOR_BF16 || t == TENSOR_F32 || t == TENSOR_F64;
    return is && tensor_type_dtype(t, dtype);
}

static kv_dtype own_dtype(const merge_job *j)
{
    return j->wide ? KV_FLOAT64 : KV_FLOAT32;
}

static int64_t lanes_of(int64_t n)
{
    return (n + MERGE_CHUNK - 1) / MERGE_CHUNK * KERNEL_FOLD_LANES;
}

static int64_t term_bytes(const plan *p, const plan_total *t)
{
    return p->number_type[t->number] == PROG_F32 ? 4 : 8;
}

void merge_gpu_room_add(merge_room *room, const merge_job *j, const tensor_type *types, int ntypes)
{
    int64_t n = j->piece < j->like->elements ? j->piece : j->like->elements;
    const plan *p = j->plan->plan;
    kv_dtype unused;
    grow(&room->gpu_array_bytes, mem_aligned(n * j->width));
    for (int i = 0; i <= ntypes; i++) {
        tensor_type t = i < ntypes ? types[i] : j->type;
        if (device_dtype(t, &unused))
            grow(&room->gpu_raw_bytes, mem_aligned(tensor_type_bytes(t, n)));
        else
            grow(&room->staging_bytes, n * j->width);
    }
    for (int i = 0; i < p->npasses; i++) {
        int64_t terms = 0, lanes = p->pass[i].nsums * lanes_of(n) * (int64_t)sizeof(double);
        for (int s = 0; s < p->pass[i].nsums; s++)
            terms += mem_aligned(n * term_bytes(p, &p->pass[i].sum[s]));
        grow(&room->gpu_terms_bytes, terms);
        grow(&room->gpu_lanes_bytes, mem_aligned(lanes));
        grow(&room->staging_bytes, lanes);
    }
}

static int64_t raw_place(const merge_room *room, int i)
{
    return (room->inputs + 1) * room->gpu_array_bytes + i * room->gpu_raw_bytes;
}

static int64_t terms_place(const merge_room *room)
{
    return raw_place(room, room->inputs + 1);
}

static int64_t lanes_place(const merge_room *room)
{
    return terms_place(room) + room->gpu_terms_bytes;
}

static int64_t numbers_place(const merge_room *room)
{
    return lanes_place(room) + room->gpu_lanes_bytes;
}

static int64_t worker_bytes(const merge_room *room)
{
    return numbers_place(room) + mem_aligned(room->numbers * (int64_t)sizeof(uint64_t));
}

int merge_gpu_room(merge_gpu *g, const merge_room *room, int *nworkers, kv_err *e)
{
    int64_t each = worker_bytes(room), left = 0, most;
    int rc = each > 0 ? g->ops->room(g->id, &left, e) : KV_OK;
    if (rc || each == 0)
        return rc;
    left = g->bytes + left / 2; /* half of what is free: other programs use the device too */
    most = (left < g->ops->scratch ? left : g->ops->scratch) / each;
    if (*nworkers > most)
        *nworkers = most < 1 ? 1 : (int)most;
    if (*nworkers * each > g->bytes) {
        void *block = NULL;
        if (g->block)
            g->ops->free(g->id, g->block);
        g->block = NULL;
        g->bytes = 0;
        rc = g->ops->alloc(g->id, *nworkers * each, &block, e);
        if (rc)
            return rc;
        g->block = block;
        g->bytes = *nworkers * each;
        /* Earlier work may still use this memory, and copy_in_beside will not wait for it. */
        rc = g->ops->wait(g->id, e);
    }
    return rc;
}

char *merge_gpu_memory(const merge_gpu *g, const merge_room *room, int worker)
{
    return g->block ? g->block + worker * worker_bytes(room) : NULL;
}

/* ---- A piece --------------------------------------------------------------------------------- */

/* A piece on its way through the device. */
typedef struct piece {
    const merge_gpu *g;
    merge_worker *w;
    const merge_job *j;
    const plan_pass *pass;
    const walk_piece *p;
    gpu_job convert[MERGE_INPUTS]; /* from the types of files */
    const void *from[MERGE_INPUTS];
    int nconverts;
} piece;

static void *array_at(const piece *c, int i)
{
    return c->w->device + i * c->w->room->gpu_array_bytes;
}

static void *raw_at(const piece *c, int i)
{
    return c->w->device + raw_place(c->w->room, i);
}

static void *merged_at(const piece *c)
{
    return array_at(c, c->w->room->inputs);
}

static char *terms_at(const piece *c, int sum)
{
    char *at = c->w->device + terms_place(c->w->room);
    for (int s = 0; s < sum; s++)
        at += mem_aligned(c->p->n * term_bytes(c->j->plan->plan, &c->pass->sum[s]));
    return at;
}

/* The bytes of the piece in an input. */
static int read_bytes(const piece *c, int i, tensor_type type, const void **data, kv_err *e)
{
    return tensor_read(c->p->readers[i], data, c->j->at[i], tensor_type_bytes(type, c->p->first),
                       tensor_type_bytes(type, c->p->n), e);
}

/* Sends the bytes of an input, which the device is to convert unless they are numbers already. */
static int send_bytes(piece *c, int i, tensor_type type, kv_dtype dtype, kv_err *e)
{
    const void *data;
    bool raw = dtype != own_dtype(c->j);
    int rc = read_bytes(c, i, type, &data, e);
    if (!rc)
        rc = c->g->ops->copy_in_beside(c->g->id, raw ? raw_at(c, i) : array_at(c, i), data,
                                       tensor_type_bytes(type, c->p->n), e);
    if (rc || !raw)
        return rc;
    c->from[c->nconverts] = raw_at(c, i);
    c->convert[c->nconverts] = (gpu_job){.dst = array_at(c, i),
                                         .n = c->p->n,
                                         .src = &c->from[c->nconverts],
                                         .nsrc = 1,
                                         .to = own_dtype(c->j),
                                         .from = dtype};
    c->nconverts++;
    return KV_OK;
}

/* Sends an input of a type that the device does not know: it is decoded here. */
static int send_decoded(piece *c, int i, tensor_type type, kv_err *e)
{
    const void *data;
    void *to = c->w->staging;
    int rc = read_bytes(c, i, type, &data, e);
    if (rc)
        return rc;
    if (c->j->wide)
        tensor_decode_f64(to, type, data, c->p->n);
    else
        tensor_decode_f32(to, type, data, c->p->n);
    return c->g->ops->copy_in_beside(c->g->id, array_at(c, i), to, c->p->n * c->j->width, e);
}

/* The input that a slot reads, or -1. */
static int input_of(const piece *c, int slot)
{
    if (slot == MERGE_BASE)
        return c->w->room->inputs - 1;
    return slot < PLAN_MERGE ? -1 : plan_slot_index(slot);
}

/* Sends what the pass reads. */
static int send_inputs(piece *c, kv_err *e)
{
    const merge_gpu *g = c->g;
    int rc = KV_OK;
    for (int s = 0; s < c->pass->nslots && !rc; s++) {
        int i = input_of(c, c->pass->slot[s]);
        kv_dtype dtype;
        if (i < 0)
            continue;
        tensor_type type = checkpoint_at(tensor_reader_of(c->p->readers[i]), c->j->at[i])->type;
        rc = device_dtype(type, &dtype) ? send_bytes(c, i, type, dtype, e)
                                        : send_decoded(c, i, type, e);
    }
    return rc || c->nconverts == 0
               ? rc
               : g->ops->run(g->id, GPU_CONVERT, c->convert, c->nconverts, e);
}

/* Sends the numbers of the job, once for each pass. */
static int send_numbers(const piece *c, void *to, kv_err *e)
{
    merge_worker *w = c->w;
    int64_t bytes = c->j->plan->plan->nnumbers * (int64_t)sizeof *c->j->number;
    if (bytes == 0 || (w->copied == c->j && w->copied_pass == c->j->pass))
        return KV_OK;
    int rc = c->g->ops->copy_in_beside(c->g->id, to, c->j->number, bytes, e);
    w->copied = rc ? NULL : c->j;
    w->copied_pass = c->j->pass;
    return rc;
}

static int run_kernel(const piece *c, kv_err *e)
{
    const merge_kernel *k = &c->j->kernel[c->j->pass];
    void *arrays[PLAN_MAX_SLOTS + 1] = {0}, *numbers = c->w->device + numbers_place(c->w->room);
    int n = c->pass->nslots, rc = send_numbers(c, numbers, e);
    if (rc)
        return rc;
    for (int s = 0; s < n; s++) {
        int slot = c->pass->slot[s];
        if (slot == MERGE_MERGED)
            arrays[s] = merged_at(c);
        else if (slot >= PLAN_MERGE)
            arrays[s] = array_at(c, input_of(c, slot));
        else if (plan_slot_kind(slot) == PLAN_TERMS)
            arrays[s] = terms_at(c, plan_slot_index(slot));
    }
    arrays[n] = numbers;
    gpu_job job = {.n = c->p->n,
                   .more = arrays,
                   .nmore = n + 1,
                   .numbers = k->words,
                   .nnumbers = k->nwords};
    return c->g->ops->apply(c->g->id, k->rule, &job, 1, e);
}

/* Reduces the terms of the pass to lanes, which come down, and joins them chunk by chunk. */
static int fold_terms(const piece *c, double *sums, kv_err *e)
{
    static const gpu_work works[PLAN_FOLDS] = {[PLAN_SUM] = GPU_FOLD_SUM,
                                               [PLAN_MAX] = GPU_FOLD_MAX,
                                               [PLAN_MIN] = GPU_FOLD_MIN};
    const plan *p = c->j->plan->plan;
    const gpu_ops *ops = c->g->ops;
    int64_t n = lanes_of(c->p->n), bytes = n * (int64_t)sizeof(double);
    char *lanes = c->w->device + lanes_place(c->w->room);
    const double *down = (const double *)(const void *)c->w->staging;
    int rc = KV_OK;
    for (int s = 0; s < c->pass->nsums && !rc; s++) {
        const plan_total *t = &c->pass->sum[s];
        const void *from = terms_at(c, s);
        gpu_job job = {.dst = lanes + s * bytes,
                       .n = n,
                       .src = &from,
                       .nsrc = 1,
                       .row = c->p->n,
                       .to = term_bytes(p, t) == 4 ? KV_FLOAT32 : KV_FLOAT64};
        rc = ops->run(c->g->id, works[t->fold], &job, 1, e);
    }
    if (!rc && c->pass->nsums > 0)
        rc = ops->copy_out(c->g->id, c->w->staging, lanes, c->pass->nsums * bytes, e);
    for (int s = 0; s < c->pass->nsums && !rc; s++)
        for (int64_t at = 0; at < n; at += KERNEL_FOLD_LANES)
            sums[s] = kernel_fold_join(c->pass->sum[s].fold, sums[s],
                                       kernel_fold_lanes(c->pass->sum[s].fold, down + s * n + at));
    return rc;
}

/* Rounds the merged elements and brings them down, or brings them as they are. */
static int bring(const piece *c, void *out, const void **numbers, kv_err *e)
{
    const gpu_ops *ops = c->g->ops;
    const void *from = merged_at(c);
    kv_dtype dtype;
    if (!device_dtype(c->j->type, &dtype)) {
        *numbers = c->w->staging;
        return ops->copy_out(c->g->id, c->w->staging, from, c->p->n * c->j->width, e);
    }
    gpu_job job = {.dst = raw_at(c, c->w->room->inputs),
                   .n = c->p->n,
                   .src = &from,
                   .nsrc = 1,
                   .to = dtype,
                   .from = own_dtype(c->j)};
    bool rounds = dtype != own_dtype(c->j);
    int rc = rounds ? ops->run(c->g->id, GPU_CONVERT, &job, 1, e) : KV_OK;
    return rc ? rc
              : ops->copy_out(c->g->id, out, rounds ? job.dst : from,
                                tensor_type_bytes(c->j->type, c->p->n), e);
}

int merge_gpu_piece(const merge_gpu *g, merge_worker *w, const merge_job *j, const walk_piece *p,
                    void *out, const void **numbers, double *sums, kv_err *e)
{
    piece c = {.g = g, .w = w, .j = j, .pass = &j->plan->plan->pass[j->pass], .p = p};
    *numbers = NULL;
    int rc = send_inputs(&c, e);
    if (!rc)
        rc = run_kernel(&c, e);
    if (!rc)
        rc = fold_terms(&c, sums, e);
    return !rc && merge_job_stores(j, j->pass) ? bring(&c, out, numbers, e) : rc;
}
