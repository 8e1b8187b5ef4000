/* Gathering rows. Counts are of elements, unless they say bytes. */
#include "checkpoint/tensor_fortran.h"

#include <string.h>

#include "checkpoint/tensor_reader.h"

#define WINDOW_BYTES ((int64_t)256 << 10)
#define NEAR_BYTES   ((int64_t)1 << 10) /* so much is copied in the time of a call of pread */

/* A box of the band: from index `first` of an axis on. */
typedef struct box {
    int axis;
    int64_t count;          /* of indices of that axis */
    int64_t step, out_step; /* from one to the next, in the file and in the band */
    int64_t file, out;      /* where its first element is */
} box;

/* From an index to the next: of axis k, in the file or in rows. */
static int64_t step_in_file(const tensor_info *t, int axis)
{
    int64_t step = 1;
    for (int k = 0; k < axis; k++)
        step *= t->shape[k];
    return step;
}

static int64_t step_in_rows(const tensor_info *t, int axis)
{
    int64_t step = 1;
    for (int k = axis + 1; k < t->ndim; k++)
        step *= t->shape[k];
    return step;
}

/* ---- Reading --------------------------------------------------------------------------------- */

void tensor_fortran_begin(tensor_fortran *f, int64_t i, const input *in, int64_t from)
{
    f->tensor = i + 1;
    f->in = in;
    f->from = from;
    f->begin = f->end = f->at = f->n = 0;
}

/* n bytes of the data (WINDOW_BYTES at most) from byte `at` on; `ahead` are read if they must be
 * read. */
static int look(tensor_fortran *f, const tensor_info *t, const char **data, int64_t at, int64_t n,
                int64_t ahead, kv_err *e)
{
    int code = KV_OK;
    if (at < f->at || at + n > f->at + f->n) {
        int64_t rest = t->bytes - at;
        f->at = at;
        f->n = ahead > n ? ahead : n;
        f->n = f->n < rest ? f->n : rest;
        if ((code = input_read(f->in, f->window, f->from + at, f->n, e)))
            f->n = 0;
    }
    *data = f->window + (at - f->at);
    return code;
}

/* ---- Gathering ------------------------------------------------------------------------------- */

#define SCATTER(type)                                                                              \
    for (int64_t i = 0; i < n; i++)                                                                \
        memcpy(to + i * step * (int64_t)sizeof(type), from + i * (int64_t)sizeof(type),            \
               sizeof(type))

/* n elements side by side, to places `step` apart. */
static void scatter(char *to, int64_t step, const char *from, int64_t n, int64_t width)
{
    switch (width) {
    case 1:
        SCATTER(uint8_t);
        break;
    case 2:
        SCATTER(uint16_t);
        break;
    case 4:
        SCATTER(uint32_t);
        break;
    default:
        SCATTER(uint64_t);
    }
}

/* The elements of a box along its axis, `file` and `out` bytes on. */
static int gather_line(tensor_fortran *f, const tensor_info *t, const box *b, int64_t file,
                       int64_t out, int64_t ahead, kv_err *e)
{
    int64_t width = tensor_type_run_bytes(t->type), most = b->step == 1 ? WINDOW_BYTES / width : 1;
    int code = KV_OK;
    for (int64_t i = 0, n; i < b->count && !code; i += n) {
        const char *from;
        n = b->count - i < most ? b->count - i : most;
        code = look(f, t, &from, (file + i * b->step) * width, n * width, ahead, e);
        if (!code)
            scatter(f->band + (out + i * b->out_step) * width, b->out_step, from, n, width);
    }
    return code;
}

/* The bytes to read at once: the part of the file with the next elements, if they are near each
 * other. */
static int64_t ahead_of(const tensor_info *t, const box *b)
{
    int64_t width = tensor_type_run_bytes(t->type), step = b->step, count = b->count;
    if (step == 1 && b->axis + 1 < t->ndim) {
        step = step_in_file(t, b->axis + 1);
        count = t->shape[b->axis + 1];
    }
    if (step * width > NEAR_BYTES)
        return 0;
    return count < WINDOW_BYTES / (step * width) ? count * step * width : WINDOW_BYTES;
}

/* Elements of several lines at a time, so that whole cache lines of the band are written. */
#define TILE_LINES 16
#define TILE_BYTES ((int64_t)64 << 10)

#define TRANSPOSE(type)                                                                            \
    for (int64_t i = 0; i < n; i++)                                                                \
        for (int64_t j = 0; j < lines; j++)                                                        \
            memcpy(to + (i * step + j) * (int64_t)sizeof(type),                                    \
                   from + (j * n + i) * (int64_t)sizeof(type), sizeof(type))

/* `lines` lines of n elements each, one behind the other, to n rows `step` apart. */
static void transpose(char *to, int64_t step, const char *from, int64_t n, int64_t lines,
                      int64_t width)
{
    switch (width) {
    case 1:
        TRANSPOSE(uint8_t);
        break;
    case 2:
        TRANSPOSE(uint16_t);
        break;
    case 4:
        TRANSPOSE(uint32_t);
        break;
    default:
        TRANSPOSE(uint64_t);
    }
}

/* A box of whole lines of a matrix: the axis behind its own is the last one. */
static int gather_matrix(tensor_fortran *f, const tensor_info *t, const box *b, kv_err *e)
{
    int64_t width = tensor_type_run_bytes(t->type), columns = t->shape[b->axis + 1];
    int64_t line = step_in_file(t, b->axis + 1), ahead = ahead_of(t, b);
    int64_t most = columns < TILE_LINES ? columns : TILE_LINES;
    int64_t rows = TILE_BYTES / (most * width);
    int code = KV_OK;
    for (int64_t i = 0, n; i < b->count && !code; i += n) {
        n = b->count - i < rows ? b->count - i : rows;
        for (int64_t j = 0, lines; j < columns && !code; j += lines) {
            lines = columns - j < most ? columns - j : most;
            for (int64_t k = 0; k < lines && !code; k++) {
                const char *from;
                code = look(f, t, &from, (b->file + i + (j + k) * line) * width, n * width, ahead,
                            e);
                if (!code)
                    memcpy(f->tile + k * n * width, from, (size_t)(n * width));
            }
            if (!code)
                transpose(f->band + (b->out + i * b->out_step + j) * width, b->out_step, f->tile,
                          n, lines, width);
        }
    }
    return code;
}

/* Goes through the axes behind the box's, the first of them fastest, as they are in the file. */
static int gather_box(tensor_fortran *f, const tensor_info *t, const box *b, kv_err *e)
{
    int64_t index[KV_MAX_NDIM] = {0}, file = b->file, out = b->out, ahead = ahead_of(t, b);
    if (b->step == 1 && b->axis + 2 == t->ndim)
        return gather_matrix(f, t, b, e);
    for (;;) {
        int code = gather_line(f, t, b, file, out, ahead, e);
        if (code)
            return code;
        int k = b->axis + 1;
        for (; k < t->ndim; k++) {
            int64_t in_file = step_in_file(t, k), in_rows = step_in_rows(t, k);
            file += in_file;
            out += in_rows;
            if (++index[k] < t->shape[k])
                break;
            file -= index[k] * in_file;
            out -= index[k] * in_rows;
            index[k] = 0;
        }
        if (k == t->ndim)
            return KV_OK;
    }
}

/* The largest box that begins at element `at` of the rows and ends at `end` or before. */
static box box_at(const tensor_info *t, int64_t begin, int64_t at, int64_t end)
{
    box b = {.out = at - begin};
    int64_t rest = at;
    for (int k = 0; k < t->ndim; k++) {
        int64_t rows = step_in_rows(t, k), i = rest / rows;
        b.file += i * step_in_file(t, k);
        rest -= i * rows;
        if (rest == 0 && rows <= end - at) {
            int64_t fit = (end - at) / rows, left = t->shape[k] - i;
            b.axis = k;
            b.count = fit < left ? fit : left;
            b.step = step_in_file(t, k);
            b.out_step = rows;
            break;
        }
    }
    return b;
}

/* ---- Bands ----------------------------------------------------------------------------------- */

/* Chooses a band that has bytes at to at + n, of whole rows if some fit. */
static void choose_band(tensor_fortran *f, const tensor_info *t, int64_t at, int64_t n)
{
    int64_t row = step_in_rows(t, 0) * tensor_type_run_bytes(t->type);
    f->begin = row <= TENSOR_BLOCK ? at - at % row : at;
    f->end = f->begin + (row <= TENSOR_BLOCK ? TENSOR_BLOCK / row * row : TENSOR_BLOCK);
    f->end = f->end > at + n ? f->end : at + n;
    f->end = f->end < t->bytes ? f->end : t->bytes;
}

static int fill_band(tensor_fortran *f, const tensor_info *t, kv_err *e)
{
    int64_t width = tensor_type_run_bytes(t->type);
    int64_t begin = f->begin / width, end = f->end / width;
    int code = mem_grow(&f->band, &f->cap, f->end - f->begin, 1, e);
    if (!code && !f->window && !(f->window = mem_alloc(WINDOW_BYTES, 1, e)))
        code = KV_E_MEMORY;
    if (!code && !f->tile && !(f->tile = mem_alloc(TILE_BYTES, 1, e)))
        code = KV_E_MEMORY;
    for (int64_t at = begin; at < end && !code;) {
        box b = box_at(t, begin, at, end);
        code = gather_box(f, t, &b, e);
        at += b.count * b.out_step;
    }
    return code;
}

int tensor_fortran_read(tensor_fortran *f, const tensor_info *t, const void **data, int64_t at,
                        int64_t n, kv_err *e)
{
    int code = KV_OK;
    if (at < f->begin || at + n > f->end) {
        choose_band(f, t, at, n);
        if ((code = fill_band(f, t, e)))
            f->end = f->begin;
    }
    *data = f->band + (at - f->begin);
    return code;
}

void tensor_fortran_release(tensor_fortran *f)
{
    mem_free(f->band);
    mem_free(f->window);
    mem_free(f->tile);
}
