/* A chunk of a key: its arrays are made when a program asks for them, and stay until the next one,
 * since a ranking or a selection may run programs of its own on the chunk. */
#include <math.h>
#include <string.h>

#include "array/sort.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "checkpoint/tensor_codec.h"
#include "merge/merge_job.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Buffers whose distance is a power of two would share a few sets of a cache. */
#define BUFFER_BYTES ((int64_t)(MERGE_CHUNK + KERNEL_UNIFORMS) * 8 + 192)

static void grow(int *most, int n)
{
    *most = n > *most ? n : *most;
}

static void grow_bytes(int64_t *most, int64_t n)
{
    *most = n > *most ? n : *most;
}

/* The number of sums in all passes before one. */
static int sums_before(const plan *p, int pass)
{
    int n = 0;
    for (int i = 0; i < pass; i++)
        n += p->pass[i].nsums;
    return n;
}

int64_t merge_row_of(const tensor_info *t)
{
    return t->ndim > 1 ? t->elements / t->shape[0] : t->elements;
}

void merge_room_add(merge_room *room, const merge_job *job, int ninputs)
{
    grow_bytes(&room->out_bytes, tensor_type_bytes(job->type, job->piece + 8 - job->piece % 8));
    if (job->kind != MERGE_JOB_RULE)
        return;
    const merge_plan *p = job->plan;
    grow(&room->inputs, ninputs);
    grow(&room->draws, p->ndraws);
    grow(&room->products, job->product ? MERGE_MODELS : 0);
    grow(&room->numbers, p->plan->nnumbers);
    grow(&room->sums, sums_before(p->plan, p->plan->npasses));
    grow_bytes(&room->scratch_bytes, p->plan->program_bytes);
    for (int i = 0; i < p->nranks; i++)
        grow_bytes(&room->scratch_bytes, p->rank[i]->program_bytes);
    if (p->nranks > 0) {
        grow_bytes(&room->ranks_bytes, p->nranks * mem_aligned(job->piece * job->width));
        grow_bytes(&room->sorting_bytes, sort_order_bytes(merge_row_of(job->like)));
    }
}

/* Parts of a worker's memory, in the order of merge_worker_init. */
static int64_t lay_out(merge_worker *w, const merge_room *r, char *memory)
{
    char **const part[] = {&w->inputs, &w->draws, &w->products, &w->terms, &w->merged,
                           &w->copies, &w->ranks, &w->sorting,  &w->out};
    int64_t bytes[] = {r->inputs * BUFFER_BYTES,
                       r->draws * BUFFER_BYTES,
                       r->products * BUFFER_BYTES,
                       r->sums * BUFFER_BYTES,
                       BUFFER_BYTES,
                       (int64_t)r->numbers * 2 * PROG_REG_BYTES,
                       r->ranks_bytes,
                       r->sorting_bytes,
                       r->out_bytes};
    int64_t at = 0;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        *part[i] = memory ? memory + at : NULL;
        at += mem_aligned(bytes[i]);
    }
    w->scratch = memory ? memory + at : NULL;
    return at + mem_aligned(r->scratch_bytes);
}

int64_t merge_room_bytes(const merge_room *room)
{
    merge_worker w;
    return lay_out(&w, room, NULL);
}

void merge_worker_init(merge_worker *w, const merge_room *room, char *memory)
{
    *w = (merge_worker){.room = room};
    lay_out(w, room, memory);
}

void *merge_worker_terms(const merge_worker *w, int pass, int sum)
{
    return w->terms + (sums_before(w->job->plan->plan, pass) + sum) * BUFFER_BYTES;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* Keeps the MERGE_BLOCK of an inflated input in which element `first` stands. A sample of a few
 * elements keeps all of it too: what stands before them was inflated anyway. */
static int keep_block(merge_worker *w, int i, int64_t first, kv_err *e)
{
    const merge_job *j = w->job;
    tensor_type type = j->types[i];
    const merge_mapped *m = &j->mapped[i];
    int64_t block = first / MERGE_BLOCK, left = j->like->elements - block * MERGE_BLOCK;
    int64_t at = tensor_type_bytes(type, block * MERGE_BLOCK);
    int64_t n = tensor_type_bytes(type, left < MERGE_BLOCK ? left : MERGE_BLOCK);
    const void *data;
    if (m->has[block])
        return KV_OK;
    TRY(tensor_read(w->readers[i], &data, j->at[i], at, n, e));
    memcpy(m->kept + at, data, (size_t)n);
    m->has[block] = true;
    return KV_OK;
}

/* Reads the block of an input, or finds it where the input is mapped or kept. */
static int read_block(merge_worker *w, int i, const void **block, kv_err *e)
{
    const merge_job *j = w->job;
    tensor_type type = j->types[i];
    const merge_mapped *m = &j->mapped[i];
    int64_t at = tensor_type_bytes(type, w->block_first), n = tensor_type_bytes(type, w->block_n);
    if (!m->bytes && !m->kept)
        return tensor_read(w->readers[i], block, j->at[i], at, n, e);
    kv_assert(!m->kept || w->block_first % MERGE_BLOCK + w->block_n <= MERGE_BLOCK,
              "%lld elements from %lld on are of two blocks", (long long)w->block_n,
              (long long)w->block_first);
    TRY(m->kept ? keep_block(w, i, w->block_first, e) : KV_OK);
    *block = (m->kept ? m->kept : m->bytes) + at;
    return KV_OK;
}

/* The bytes of the chunk in an input. */
static int bytes_of(merge_worker *w, int i, const char **data, kv_err *e)
{
    const void *block = w->block[i];
    TRY(block ? KV_OK : read_block(w, i, &block, e));
    w->block[i] = block;
    *data = (const char *)block + tensor_type_bytes(w->job->types[i], w->first - w->block_first);
    return KV_OK;
}

/* The elements of an input as programs read them: numbers, or BF16. */
static int input_of(merge_worker *w, int i, void **at, kv_err *e)
{
    const merge_job *j = w->job;
    tensor_type type = j->types[i];
    const char *data;
    if ((*at = w->input[i]))
        return KV_OK;
    TRY(bytes_of(w, i, &data, e));
    bool same = type == (j->wide ? TENSOR_F64 : TENSOR_F32) || merge_reads_bf16(j, i);
    int64_t width = tensor_type_bytes(type, 1);
    *at = w->inputs + i * BUFFER_BYTES;
    if (same && (uintptr_t)data % (uintptr_t)width == 0)
        *at = (void *)(uintptr_t)data; /* only read */
    else if (same)
        memcpy(*at, data, (size_t)(w->n * width));
    else if (j->wide)
        tensor_decode_f64(*at, type, data, w->n);
    else
        tensor_decode_f32(*at, type, data, w->n);
    w->input[i] = *at;
    return KV_OK;
}

static void *rank_of(const merge_worker *w, int i)
{
    const merge_job *j = w->job;
    return w->ranks + i * mem_aligned(j->piece * j->width) + (w->first - w->piece_first) * j->width;
}

/* The elements of the chunk of an array that programs read. */
static int array_of(merge_worker *w, int slot, void **at, kv_err *e)
{
    const merge_job *j = w->job;
    int i = plan_slot_index(slot);
    int64_t group = w->first / KERNEL_UNIFORMS, skipped = w->first % KERNEL_UNIFORMS;
    int64_t ngroups = (skipped + w->n + KERNEL_UNIFORMS - 1) / KERNEL_UNIFORMS;
    char *to;
    switch (plan_slot_kind(slot)) {
    case MERGE_RANK:
        *at = rank_of(w, i);
        return KV_OK;
    case MERGE_UNIFORM:
        to = w->draws + i * BUFFER_BYTES;
        if (!w->draw[i])
            kernel_best()->uniforms(to, j->wide, (uint64_t)j->plan->draw[i].seed, j->draw[i],
                                    (uint64_t)group, ngroups);
        *at = w->draw[i] = to + skipped * j->width;
        return KV_OK;
    case MERGE_PRODUCT:
        to = w->products + i * BUFFER_BYTES;
        if (!w->product[i])
            merge_product_part(to, &j->product[i], w->first, w->n);
        *at = w->product[i] = to;
        return KV_OK;
    default:
        return input_of(w, slot == MERGE_BASE ? w->room->inputs - 1 : i, at, e);
    }
}

/* ---- Passes ---------------------------------------------------------------------------------- */

bool merge_job_uses(const merge_job *job, int pass, int kind)
{
    const plan_pass *p = &job->plan->plan->pass[pass];
    for (int s = 0; s < p->nslots; s++)
        if (plan_slot_kind(p->slot[s]) == kind)
            return true;
    return false;
}

static char *copies_of(const merge_worker *w, int number, bool next)
{
    return w->copies + ((int64_t)number * 2 + next) * PROG_REG_BYTES;
}

static void repeat(char *to, const void *cell, int bytes)
{
    kernel_best()->spread(to, cell, bytes, 0, PROG_REG_BYTES / bytes, PROG_REG_BYTES / bytes);
}

/* Repeats the numbers that a pass reads, for programs that read arrays. */
static void copy_numbers(merge_worker *w, const merge_job *j, const plan_pass *pass)
{
    for (int s = 0; s < pass->nslots; s++) {
        int i = plan_slot_index(pass->slot[s]);
        if (plan_slot_kind(pass->slot[s]) != PLAN_NUMBER)
            continue;
        prog_type type = (prog_type)j->plan->plan->number_type[i];
        int bytes = type == PROG_F32 ? 4 : 8;
        repeat(copies_of(w, i, false), &j->number[i].value, bytes);
        if (!j->number[i].select)
            continue;
        uint64_t next;
        prog_number_put(&next, type, (prog_number){merge_select_next(j->number[i].select)});
        repeat(copies_of(w, i, true), &next, bytes);
    }
}

/* *cut becomes the number of elements at the chunk's begin that are compared with a selected
 * number; the others are compared with the next larger one (see PLAN_LEAST in vm/plan.h). */
static int cut_of(merge_worker *w, int number, int64_t *cut, kv_err *e)
{
    const merge_number *n = &w->job->number[number];
    const merge_select *s = n->select;
    *cut = merge_select_cut(s, w->chunk);
    if (*cut >= 0) {
        *cut = *cut < w->n ? *cut : w->n;
        return KV_OK;
    }
    int rc = merge_worker_run(w, n->pass, NULL, e);
    if (!rc)
        *cut = merge_select_cut_in(s, merge_worker_terms(w, n->pass, n->sum), w->n);
    return rc;
}

/* Binds slot s of a pass to the chunk; *cut: at which of its elements a number changes. */
static int bind_slot(merge_worker *w, int s, int pass, void *merged, void **at, int64_t *cut,
                     kv_err *e)
{
    int slot = w->job->plan->plan->pass[pass].slot[s], i = plan_slot_index(slot), rc = KV_OK;
    *cut = w->n;
    if (slot == MERGE_MERGED) {
        *at = merged ? merged : w->merged;
    } else if (slot >= PLAN_MERGE) {
        rc = array_of(w, slot, at, e);
    } else if (plan_slot_kind(slot) == PLAN_TERMS) {
        *at = merge_worker_terms(w, pass, i);
    } else {
        if (w->job->number[i].select && w->job->number[i].pass < pass)
            rc = cut_of(w, i, cut, e);
        *at = copies_of(w, i, *cut <= 0);
    }
    return rc;
}

int merge_worker_pack(merge_worker *w, int pass, void *merged, bool *done, kv_err *e)
{
    const plan_pass *p = &w->job->plan->plan->pass[pass];
    void *at[PLAN_MAX_SLOTS];
    int64_t cut;
    *done = p->program->packed;
    for (int s = 0; s < p->nslots && *done; s++) {
        TRY(bind_slot(w, s, pass, merged, &at[s], &cut, e));
        *done = cut <= 0 || cut >= w->n;
    }
    *done = *done && prog_pack(p->program, at, w->n);
    return KV_OK;
}

/* Between two cuts, the program runs on all elements at once. */
int merge_worker_run(merge_worker *w, int pass, void *merged, kv_err *e)
{
    const plan_pass *p = &w->job->plan->plan->pass[pass];
    const prog *elements = p->program;
    void *at[PLAN_MAX_SLOTS];
    int64_t cut[PLAN_MAX_SLOTS];
    for (int s = 0; s < p->nslots; s++)
        TRY(bind_slot(w, s, pass, merged, &at[s], &cut[s], e));
    for (int64_t from = 0, to; from < w->n; from = to) {
        to = w->n;
        for (int s = 0; s < p->nslots; s++)
            to = cut[s] > from && cut[s] < to ? cut[s] : to;
        prog_run(elements, at, to - from, w->scratch);
        for (int s = 0; s < p->nslots && to < w->n; s++) {
            int64_t bytes = s < elements->nslots ? elements->slot_bytes[s] : 0;
            at[s] = (char *)at[s] + bytes * (to - from);
            if (cut[s] == to)
                at[s] = copies_of(w, plan_slot_index(p->slot[s]), true);
        }
    }
    return KV_OK;
}

/* ---- Overflow -------------------------------------------------------------------------------- */

/* Clears lost[i] where an element of the product has a factor that is not finite. */
static void spare_product(const merge_worker *w, const merge_product *p, bool *lost)
{
    for (int64_t i = 0; i < w->n; i++) {
        int64_t row = (w->first + i) / p->columns, column = (w->first + i) % p->columns;
        for (int64_t r = 0; r < p->rank && lost[i]; r++) {
            int64_t a = r * p->columns + column, b = row * p->rank + r;
            lost[i] = p->wide ? isfinite(((const double *)p->a)[a] + 0 * ((const double *)p->b)[b])
                              : isfinite(((const float *)p->a)[a] + 0 * ((const float *)p->b)[b]);
        }
    }
}

int merge_worker_lost(merge_worker *w, const void *merged, bool *lost, kv_err *e)
{
    const merge_job *j = w->job;
    double numbers[MERGE_CHUNK];
    for (int64_t i = 0; i < w->n; i++)
        lost[i] = j->wide ? !isfinite(((const double *)merged)[i])
                          : !isfinite(((const float *)merged)[i]);
    for (int k = 0; k < w->room->inputs; k++) {
        const char *data;
        if (j->at[k] < 0)
            continue;
        TRY(bytes_of(w, k, &data, e));
        tensor_decode_f64(numbers, j->types[k], data, w->n);
        for (int64_t i = 0; i < w->n; i++)
            lost[i] &= (bool)isfinite(numbers[i]);
    }
    for (int k = 0; j->product && k < j->nproducts; k++)
        spare_product(w, &j->product[k], lost);
    return KV_OK;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

void merge_worker_chunk(merge_worker *w, int64_t first, int64_t n, int64_t chunk)
{
    w->first = first;
    w->n = n;
    w->chunk = chunk;
    memset(w->input, 0, (size_t)w->room->inputs * sizeof *w->input);
    memset(w->draw, 0, (size_t)w->room->draws * sizeof *w->draw);
    memset(w->product, 0, (size_t)w->room->products * sizeof *w->product);
    if (first >= w->block_first && first + n <= w->block_first + w->block_n)
        return;
    w->block_first = first;
    w->block_n = w->piece_end - first < w->block_most ? w->piece_end - first : w->block_most;
    memset(w->block, 0, sizeof w->block);
}

void row_ranks(void *rank, const void *terms, bool wide, int64_t n, void *scratch)
{
    const int64_t *at = sort_order(scratch, terms, wide ? KV_FLOAT64 : KV_FLOAT32, n);
    double last = (double)(n - 1);
    for (int64_t i = 0; i < n; i++) {
        double r = n == 1 ? 0.5 : (double)i / last;
        if (wide)
            ((double *)rank)[at[i]] = r;
        else
            ((float *)rank)[at[i]] = (float)r;
    }
}

/* The terms of one ranking, of the chunk. */
static int rank_terms(merge_worker *w, int i, kv_err *e)
{
    const plan_pass *pass = &w->job->plan->rank[i]->pass[0];
    void *arrays[PLAN_MAX_SLOTS];
    for (int s = 0; s < pass->nslots; s++) {
        arrays[s] = rank_of(w, i);
        TRY(pass->slot[s] == MERGE_MERGED ? KV_OK : array_of(w, pass->slot[s], &arrays[s], e));
    }
    prog_run(pass->program, arrays, w->n, w->scratch);
    return KV_OK;
}

/* The ranks of all elements of the piece, which are whole rows. */
static int rank_piece(merge_worker *w, kv_err *e)
{
    const merge_job *j = w->job;
    int64_t row = merge_row_of(j->like), n = w->piece_end - w->piece_first;
    for (int64_t at = 0; at < n; at += MERGE_CHUNK) {
        merge_worker_chunk(w, w->piece_first + at, n - at < MERGE_CHUNK ? n - at : MERGE_CHUNK, 0);
        for (int i = 0; i < j->plan->nranks; i++) {
            TRY(rank_terms(w, i, e));
        }
    }
    for (int i = 0; i < j->plan->nranks; i++) {
        char *ranks = w->ranks + i * mem_aligned(j->piece * j->width);
        for (int64_t at = 0; at < n; at += row)
            row_ranks(ranks + at * j->width, ranks + at * j->width, j->wide, row, w->sorting);
    }
    return KV_OK;
}

void merge_worker_job(merge_worker *w, const merge_job *job, tensor_reader *const *readers)
{
    w->readers = readers;
    w->job = job;
    w->piece_first = 0;
    w->piece_end = job->like->elements;
    w->block_n = 0;
    w->block_most = MERGE_BLOCK;
    if (w->copied == job && w->copied_pass == job->pass)
        return;
    for (int pass = 0; pass <= job->pass; pass++)
        copy_numbers(w, job, &job->plan->plan->pass[pass]);
    w->copied = job;
    w->copied_pass = job->pass;
}

int merge_worker_piece(merge_worker *w, const merge_job *job, const walk_piece *p, kv_err *e)
{
    int rc = KV_OK;
    merge_worker_job(w, job, p->readers);
    w->piece_first = p->first;
    w->piece_end = p->first + p->n;
    if (job->plan->nranks > 0 && merge_job_uses(job, job->pass, MERGE_RANK))
        rc = rank_piece(w, e);
    w->block_n = 0;
    return rc;
}
