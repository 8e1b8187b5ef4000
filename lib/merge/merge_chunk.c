/* A chunk of a key: its arrays are made when a program asks for them, and stay until the next one,
 * since a ranking or a selection may run programs of its own on the chunk. */
#include <math.h>
#include <string.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "checkpoint/tensor_codec.h"
#include "merge/merge_job.h"
#include "merge/row_ranks.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Buffers whose distance is a power of two would share a few sets of a cache. */
#define BUFFER_BYTES ((int64_t)(MERGE_CHUNK + MERGE_DRAW_GROUP) * 8 + 192)

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
        grow_bytes(&room->scratch_bytes, prog_scratch_bytes(p->rank[i]));
    if (p->nranks > 0) {
        grow_bytes(&room->ranks_bytes, p->nranks * mem_aligned(job->piece * job->width));
        grow_bytes(&room->sorting_bytes, row_ranks_bytes(merge_row_of(job->like)));
    }
}

/* Parts of a worker's memory, in the order of merge_worker_init. */
static int64_t lay_out(merge_worker *w, const merge_room *r, char *memory)
{
    char **const part[] = {&w->inputs, &w->draws, &w->products, &w->terms, &w->merged,
                           &w->copies, &w->ranks, &w->sorting,  &w->out,   &w->staging};
    int64_t bytes[] = {r->inputs * BUFFER_BYTES,
                       r->draws * BUFFER_BYTES,
                       r->products * BUFFER_BYTES,
                       r->sums * BUFFER_BYTES,
                       BUFFER_BYTES,
                       (int64_t)r->numbers * 2 * PROG_REG_BYTES,
                       r->ranks_bytes,
                       r->sorting_bytes,
                       r->out_bytes,
                       r->staging_bytes};
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

/* The bytes of the chunk in an input. */
static int bytes_of(merge_worker *w, int i, const char **data, tensor_type *type, kv_err *e)
{
    int64_t number = w->job->at[i];
    *type = checkpoint_at(tensor_reader_of(w->readers[i]), number)->type;
    int code = KV_OK;
    if (!w->block[i])
        code = tensor_read(w->readers[i], &w->block[i], number,
                           tensor_type_bytes(*type, w->block_first),
                           tensor_type_bytes(*type, w->block_n), e);
    if (code)
        w->block[i] = NULL;
    else
        *data = (const char *)w->block[i] + tensor_type_bytes(*type, w->first - w->block_first);
    return code;
}

/* The elements of an input, as numbers. */
static int input_of(merge_worker *w, int i, void **at, kv_err *e)
{
    const merge_job *j = w->job;
    *at = (void *)(uintptr_t)w->input[i];
    if (w->have_input[i])
        return KV_OK;
    tensor_type type;
    const char *data;
    int code = bytes_of(w, i, &data, &type, e);
    if (code)
        return code;
    w->have_input[i] = true;
    if (type == (j->wide ? TENSOR_F64 : TENSOR_F32) && (uintptr_t)data % (uintptr_t)j->width == 0) {
        w->input[i] = data;
    } else {
        char *to = w->inputs + i * BUFFER_BYTES;
        if (j->wide)
            tensor_decode_f64((double *)(void *)to, type, data, w->n);
        else
            tensor_decode_f32((float *)(void *)to, type, data, w->n);
        w->input[i] = to;
    }
    *at = (void *)(uintptr_t)w->input[i]; /* only read */
    return KV_OK;
}

static void *draw_of(merge_worker *w, int i)
{
    const merge_job *j = w->job;
    char *to = w->draws + i * BUFFER_BYTES;
    int64_t group = w->first / MERGE_DRAW_GROUP, skipped = w->first % MERGE_DRAW_GROUP;
    int64_t ngroups = (skipped + w->n + MERGE_DRAW_GROUP - 1) / MERGE_DRAW_GROUP;
    if (!w->have_draw[i] && j->wide)
        merge_draw_f64((double *)(void *)to, &j->draw[i], group, ngroups);
    else if (!w->have_draw[i])
        merge_draw_f32((float *)(void *)to, &j->draw[i], group, ngroups);
    w->have_draw[i] = true;
    return to + skipped * j->width;
}

static void *product_of(merge_worker *w, int i)
{
    char *to = w->products + i * BUFFER_BYTES;
    if (!w->have_product[i])
        merge_product_part(to, &w->job->product[i], w->first, w->n);
    w->have_product[i] = true;
    return to;
}

static void *rank_of(const merge_worker *w, int i)
{
    const merge_job *j = w->job;
    return w->ranks + i * mem_aligned(j->piece * j->width) + (w->first - w->piece_first) * j->width;
}

/* The elements of the chunk of an array that programs read. */
static int array_of(merge_worker *w, int slot, void **at, kv_err *e)
{
    if (slot == MERGE_BASE)
        return input_of(w, w->room->inputs - 1, at, e);
    if (slot >= MERGE_RANK)
        *at = rank_of(w, slot - MERGE_RANK);
    else if (slot >= MERGE_UNIFORM)
        *at = draw_of(w, slot - MERGE_UNIFORM);
    else if (slot >= MERGE_PRODUCT)
        *at = product_of(w, slot - MERGE_PRODUCT);
    else
        return input_of(w, slot - MERGE_MODEL, at, e);
    return KV_OK;
}

/* ---- Passes ---------------------------------------------------------------------------------- */

bool merge_job_ranks(const merge_job *job, int pass)
{
    const plan_pass *p = &job->plan->plan->pass[pass];
    for (int s = 0; s < p->nslots; s++)
        if (p->slot[s] >= MERGE_RANK && p->slot[s] < MERGE_BASE)
            return true;
    return false;
}

bool merge_job_stores(const merge_job *job, int pass)
{
    const plan_pass *p = &job->plan->plan->pass[pass];
    for (int s = 0; s < p->nslots; s++)
        if (p->slot[s] == MERGE_MERGED)
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
        int i = pass->slot[s] - PLAN_PRIVATE;
        if (i < 0 || i >= PLAN_MAX_NUMBERS)
            continue;
        bool single = j->plan->plan->number_type[i] == PROG_F32;
        repeat(copies_of(w, i, false), &j->number[i], single ? 4 : 8);
        if (!j->select[i])
            continue;
        double next = merge_select_next(j->select[i]);
        float narrow = (float)next;
        repeat(copies_of(w, i, true), single ? (void *)&narrow : (void *)&next, single ? 4 : 8);
    }
}

/* *cut becomes the number of elements at the chunk's begin that are compared with a selected
 * number; the others are compared with the next larger one (see PLAN_LEAST in vm/plan.h). */
static int cut_of(merge_worker *w, int number, int64_t *cut, kv_err *e)
{
    const merge_job *j = w->job;
    const merge_select *s = j->select[number];
    *cut = merge_select_cut(s, w->chunk);
    if (*cut >= 0) {
        *cut = *cut < w->n ? *cut : w->n;
        return KV_OK;
    }
    int pass = j->pass_of[number], code = merge_worker_run(w, pass, NULL, e);
    if (!code)
        *cut = merge_select_cut_in(s, merge_worker_terms(w, pass, j->sum_of[number]), w->n);
    return code;
}

/* The arrays of a pass at the chunk's begin, and where each number changes to the next one. */
typedef struct pass_slots {
    void *at[PLAN_MAX_SLOTS];
    int64_t width[PLAN_MAX_SLOTS]; /* of an element; 0 for numbers */
    int64_t cut[PLAN_MAX_SLOTS];
    int number[PLAN_MAX_SLOTS]; /* -1: none */
} pass_slots;

static int slot_of(merge_worker *w, pass_slots *to, int s, int pass, void *merged, kv_err *e)
{
    const plan *p = w->job->plan->plan;
    int slot = p->pass[pass].slot[s], sum = slot - PLAN_PRIVATE - PLAN_MAX_NUMBERS;
    to->number[s] = -1;
    to->cut[s] = w->n;
    to->width[s] = w->job->width;
    if (slot == MERGE_MERGED) {
        to->at[s] = merged ? merged : w->merged;
    } else if (slot >= PLAN_MERGE) {
        return array_of(w, slot, &to->at[s], e);
    } else if (sum >= 0) {
        to->at[s] = merge_worker_terms(w, pass, sum);
        to->width[s] = p->number_type[p->pass[pass].sum[sum].number] == PROG_F32 ? 4 : 8;
    } else {
        int i = slot - PLAN_PRIVATE;
        to->number[s] = i;
        to->width[s] = 0;
        to->at[s] = copies_of(w, i, false);
        if (w->job->select[i] && w->job->pass_of[i] < pass)
            return cut_of(w, i, &to->cut[s], e);
    }
    return KV_OK;
}

/* Runs a program on the elements up to the next cut, and so on. */
static void run_cut(merge_worker *w, const plan_pass *pass, const pass_slots *slots)
{
    void *at[PLAN_MAX_SLOTS];
    for (int64_t from = 0, to; from < w->n; from = to) {
        to = w->n;
        for (int s = 0; s < pass->nslots; s++) {
            bool behind = slots->cut[s] <= from;
            at[s] = behind ? copies_of(w, slots->number[s], true)
                           : (char *)slots->at[s] + from * slots->width[s];
            to = !behind && slots->cut[s] < to ? slots->cut[s] : to;
        }
        prog_run(pass->elements, at, to - from, w->scratch);
    }
}

int merge_worker_run(merge_worker *w, int pass, void *merged, kv_err *e)
{
    const plan_pass *p = &w->job->plan->plan->pass[pass];
    pass_slots slots;
    int code = KV_OK;
    for (int s = 0; s < p->nslots && !code; s++)
        code = slot_of(w, &slots, s, pass, merged, e);
    if (!code)
        run_cut(w, p, &slots);
    return code;
}

int merge_worker_fuse(merge_worker *w, int pass, void *merged, kv_err *e)
{
    const plan_pass *p = &w->job->plan->plan->pass[pass];
    merge_fused_array arrays[PLAN_MAX_SLOTS];
    for (int s = 0; s < p->nslots; s++) {
        int slot = p->slot[s], code = KV_OK;
        tensor_type type;
        const char *data;
        arrays[s].kind = MERGE_FUSED_F32;
        if (slot == MERGE_MERGED) {
            arrays[s].at = merged ? merged : w->merged;
        } else if (slot < PLAN_MERGE) {
            int i = slot - PLAN_PRIVATE;
            int64_t cut = w->n;
            if (w->job->select[i] && (code = cut_of(w, i, &cut, e)))
                return code;
            if (cut > 0 && cut < w->n)
                return merge_worker_run(w, pass, merged, e);
            arrays[s] = (merge_fused_array){copies_of(w, i, cut <= 0), MERGE_FUSED_NUMBER};
        } else if (slot < MERGE_PRODUCT || slot == MERGE_BASE) {
            int i = slot == MERGE_BASE ? w->room->inputs - 1 : slot - MERGE_MODEL;
            code = bytes_of(w, i, &data, &type, e);
            if (!code && type == TENSOR_BF16 && (uintptr_t)data % 2 == 0)
                arrays[s] = (merge_fused_array){(void *)(uintptr_t)data, MERGE_FUSED_BF16};
            else if (!code)
                code = input_of(w, i, &arrays[s].at, e);
        } else {
            code = array_of(w, slot, &arrays[s].at, e);
        }
        if (code)
            return code;
    }
    merge_fused_run(w->job->fused, arrays, w->n);
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
        tensor_type type;
        const char *data;
        if (j->at[k] < 0)
            continue;
        int code = bytes_of(w, k, &data, &type, e);
        if (code)
            return code;
        tensor_decode_f64(numbers, type, data, w->n);
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
    memset(w->have_input, 0, sizeof w->have_input);
    memset(w->have_draw, 0, sizeof w->have_draw);
    memset(w->have_product, 0, sizeof w->have_product);
    if (first >= w->block_first && first + n <= w->block_first + w->block_n)
        return;
    w->block_first = first;
    w->block_n = w->piece_end - first < w->block_most ? w->piece_end - first : w->block_most;
    memset(w->block, 0, sizeof w->block);
}

/* The terms of one ranking, of the chunk. */
static int rank_terms(merge_worker *w, int i, kv_err *e)
{
    const merge_plan *p = w->job->plan;
    void *arrays[PLAN_MAX_SLOTS];
    int code = KV_OK;
    for (int s = 0; s < p->rank_terms[i] && !code; s++)
        code = array_of(w, p->rank_slot[i][s], &arrays[s], e);
    if (code)
        return code;
    arrays[p->rank_terms[i]] = rank_of(w, i);
    prog_run(p->rank[i], arrays, w->n, w->scratch);
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
            int code = rank_terms(w, i, e);
            if (code)
                return code;
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
    int code = KV_OK;
    merge_worker_job(w, job, p->readers);
    w->piece_first = p->first;
    w->piece_end = p->first + p->n;
    if (job->plan->nranks > 0 && merge_job_ranks(job, job->pass))
        code = rank_piece(w, e);
    w->block_n = 0;
    return code;
}
