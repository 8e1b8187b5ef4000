/* Codes become numbers here and nowhere else. */
#include "checkpoint/tensor_decoded.h"

#include <string.h>

#include "base/file.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "checkpoint/gguf_blocks.h"
#include "checkpoint/tensor_codec.h"

/* A tensor that is read. */
typedef struct reading {
    tensor_decoded *room;
    tensor_reader *r;
    tensor_fetch *fetch;
    const checkpoint *c;
    const tensor_values *v;
    int64_t i;
} reading;

/* The numbers of a row that are scaled together at most: their scales stay in the cache. */
enum { SEGMENT = 4096 };

/* The codes of a matrix whose axes are swapped are kept while its numbers are read. Those of
 * gpt-oss have 8 MB. */
#define MATRIX_MOST ((int64_t)64 << 20)

/* n scales from number `at` on. */
static int read_scales(const reading *g, float *out, int64_t at, int64_t n, kv_err *e)
{
    const tensor_values *v = g->v;
    const void *data;
    int rc = g->fetch(g->r, v->scaled, &data, v->scale, tensor_type_bytes(v->scale_type, at),
                      tensor_type_bytes(v->scale_type, n), e);
    if (rc)
        return rc;
    tensor_decode_f32(out, v->scale_type, data, n);
    for (int64_t i = 0; i < n && v->has_global; i++)
        out[i] = v->divides ? out[i] / v->global : out[i] * v->global;
    return KV_OK;
}

/* Multiplies numbers first to last - 1 of a tensor by their scales. */
static int scale(const reading *g, float *x, int64_t first, int64_t last, kv_err *e)
{
    const tensor_values *v = g->v;
    float by[SEGMENT + 1];
    int64_t known = -1, known_n = 0;
    for (int64_t n; first < last; first += n, x += n) {
        int64_t row = first / v->width, k = first % v->width;
        int64_t left = v->width - k < last - first ? v->width - k : last - first;
        n = left < SEGMENT ? left : SEGMENT;
        int64_t at = row / v->height * v->a_matrix + row % v->height / v->rows * v->a_row +
                     k / v->columns;
        int64_t nscales = (k + n - 1) / v->columns - k / v->columns + 1;
        if (at != known || nscales != known_n) {
            int rc = read_scales(g, by, at, nscales, e);
            if (rc)
                return rc;
            known = at;
            known_n = nscales;
        }
        for (int64_t i = 0, j = 0; i < n; j++) {
            int64_t rest = v->columns - (k + i) % v->columns, end = rest < n - i ? i + rest : n;
            for (; i < end; i++)
                x[i] *= by[j];
        }
    }
    return KV_OK;
}

/* Reads the codes of a whole matrix, and behind them its scales. */
static int read_matrix(const reading *g, int64_t matrix, kv_err *e)
{
    const tensor_values *v = g->v;
    tensor_decoded *room = g->room;
    int64_t codes = v->height * (v->width / 2), exponents = v->a_matrix, n;
    room->matrix_tensor = 0;
    if (codes > MATRIX_MOST)
        return file_bad(e, KV_E_UNSUPPORTED, checkpoint_name(g->c),
                        "\"%.*s\" has %lld bytes of codes in a matrix, and %lld can be read",
                        SHOWN(g->c->tensors[g->i].name), (long long)codes, (long long)MATRIX_MOST);
    int rc = mem_grow(&room->matrix, &room->matrix_cap, codes + exponents, 1, e);
    for (int64_t at = 0; at < codes + exponents && !rc; at += n) {
        bool is_codes = at < codes;
        int64_t from = is_codes ? at : at - codes, all = is_codes ? codes : exponents;
        const void *data;
        n = all - from < TENSOR_BLOCK ? all - from : TENSOR_BLOCK;
        rc = g->fetch(g->r, is_codes ? NULL : v->scaled, &data, is_codes ? v->codes : v->scale,
                      matrix * all + from, n, e);
        if (!rc)
            memcpy(room->matrix + at, data, (size_t)n);
        rc = rc ? rc : stop_check(e);
    }
    room->matrix_tensor = rc ? 0 : g->i + 1;
    room->matrix_of = matrix;
    return rc;
}

/* Numbers first to last - 1 of a tensor whose rows are columns of the codes. */
static int read_swapped(const reading *g, float *out, int64_t first, int64_t last, kv_err *e)
{
    const tensor_values *v = g->v;
    const tensor_decoded *room = g->room;
    int64_t numbers = v->height * v->width, pitch = v->width / 2, groups = v->a_row;
    for (; first < last;) {
        int64_t matrix = first / numbers, k = first % numbers / v->height, row = first % v->height;
        int64_t end = v->height - row < last - first ? v->height : row + last - first;
        int rc = KV_OK;
        if (room->matrix_tensor != g->i + 1 || room->matrix_of != matrix)
            rc = read_matrix(g, matrix, e);
        if (rc)
            return rc;
        const uint8_t *codes = (const uint8_t *)room->matrix + k / 2;
        const uint8_t *exponents =
            (const uint8_t *)room->matrix + v->height * pitch + k / v->columns;
        for (; row < end; row++, first++) {
            uint8_t c = codes[row * pitch] >> 4 * (k % 2) & 15;
            float x[2], s;
            tensor_decode_f32(x, TENSOR_F4, &c, 1);
            tensor_decode_f32(&s, TENSOR_F8_E8M0, &exponents[row * groups], 1);
            *out++ = x[0] * s;
        }
    }
    return KV_OK;
}

/* Numbers first to last - 1, where codes and numbers have one order. */
static int read_ordered(const reading *g, float *out, int64_t first, int64_t last, kv_err *e)
{
    const tensor_values *v = g->v;
    const void *data;
    int rc = g->fetch(g->r, NULL, &data, v->codes, tensor_type_bytes(v->type, first),
                      tensor_type_bytes(v->type, last - first), e);
    if (rc)
        return rc;
    if (gguf_blocks_can(v->type)) {
        gguf_blocks_decode(out, v->type, data, (last - first) / tensor_type_run(v->type));
        return KV_OK;
    }
    tensor_decode_f32(out, v->type, data, last - first);
    return v->scaled ? scale(g, out, first, last, e) : KV_OK;
}

int tensor_decoded_read(tensor_decoded *d, const checkpoint *c, tensor_fetch *fetch,
                        tensor_reader *r, const void **data, int64_t i, int64_t at, int64_t n,
                        kv_err *e)
{
    const tensor_values *v = &c->values[c->tensors[i].values - 1];
    const reading g = {d, r, fetch, c, v, i};
    int64_t run = v->swapped ? 1 : tensor_type_run(v->type), size = sizeof *d->numbers;
    int64_t first = at / size, last = (at + n) / size, begin = first - first % run;
    int64_t end = last % run ? last + run - last % run : last;
    int rc = mem_grow(&d->numbers, &d->numbers_cap, end - begin, sizeof *d->numbers, e);
    if (rc)
        return rc;
    *data = d->numbers + (first - begin);
    return v->swapped ? read_swapped(&g, d->numbers, begin, end, e)
                      : read_ordered(&g, d->numbers, begin, end, e);
}

void tensor_decoded_release(tensor_decoded *d)
{
    mem_free(d->numbers);
    mem_free(d->matrix);
}
