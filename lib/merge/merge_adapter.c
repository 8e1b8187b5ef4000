/* Names of adapters. PEFT, which trains them, puts a prefix before the names of the model. */
#include "merge/merge_adapter.h"

#include <string.h>

#include "base/buf.h"
#include "base/compiler.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "checkpoint/tensor_codec.h"
#include "checkpoint/tensor_reader.h"

#define PREFIX "base_model.model."

/* The endings of the names of the two matrices, in place of the key's ".weight". */
static const char *const endings[] = {".lora_A.weight", ".lora_B.weight"};

/* ---- Names ----------------------------------------------------------------------------------- */

int merge_adapter_check(const checkpoint *adapter, const checkpoint *base, kv_err *e)
{
    buf key = {0};
    int rc = KV_OK;
    for (int64_t i = 0; i < checkpoint_count(adapter) && !rc; i++) {
        const char *name = checkpoint_at(adapter, i)->name, *plain = name;
        if (strncmp(name, PREFIX, strlen(PREFIX)) == 0)
            plain += strlen(PREFIX);
        if (!utf8_ends_in(plain, endings[0]) && !utf8_ends_in(plain, endings[1])) {
            rc = file_bad(e, KV_E_KEY, checkpoint_name(adapter),
                          "\"%.80s\" is neither lora_A.weight nor lora_B.weight of a key", name);
            continue;
        }
        buf_clear(&key);
        buf_put(&key, plain, strlen(plain) - strlen(endings[0]));
        buf_add(&key, ".weight");
        rc = buf_check(&key, e);
        if (!rc && checkpoint_find(base, buf_text(&key)) < 0)
            rc = file_bad(e, KV_E_KEY, checkpoint_name(adapter),
                          "\"%.80s\" belongs to \"%.80s\", which %.200s does not have", name,
                          buf_text(&key), checkpoint_name(base));
    }
    buf_release(&key);
    return rc;
}

/* *out becomes the index of a key's tensor with this ending, or -1. */
static int find(int64_t *out, const checkpoint *adapter, const char *key, const char *ending,
                kv_err *e)
{
    buf name = {0};
    *out = -1;
    buf_add(&name, PREFIX);
    buf_put(&name, key, strlen(key) - strlen(".weight"));
    buf_add(&name, ending);
    int rc = buf_check(&name, e);
    if (!rc && (*out = checkpoint_find(adapter, buf_text(&name) + strlen(PREFIX))) < 0)
        *out = checkpoint_find(adapter, buf_text(&name));
    buf_release(&name);
    return rc;
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static int check_fit(const checkpoint *adapter, merge_factors f, const tensor_info *key,
                     double rank, kv_err *e)
{
    const tensor_info *a = checkpoint_at(adapter, f.a), *b = checkpoint_at(adapter, f.b);
    const char *name = checkpoint_name(adapter);
    if (tensor_type_kind(a->type) != TENSOR_KIND_FLOAT ||
        tensor_type_kind(b->type) != TENSOR_KIND_FLOAT)
        return file_bad(e, KV_E_DTYPE, name, "lora_A and lora_B of \"%.80s\" are %s and %s",
                        key->name, tensor_type_name(a->type), tensor_type_name(b->type));
    if (key->ndim != 2 || a->ndim != 2 || b->ndim != 2)
        return file_bad(e, KV_E_SHAPE, name,
                        "\"%.80s\", its lora_A and its lora_B have %d, %d and %d axes, not 2",
                        key->name, key->ndim, a->ndim, b->ndim);
    if (a->shape[0] != b->shape[1] || b->shape[0] != key->shape[0] || a->shape[1] != key->shape[1])
        return file_bad(e, KV_E_SHAPE, name,
                        "lora_B (%lld, %lld) times lora_A (%lld, %lld) is not \"%.80s\" (%lld, "
                        "%lld)",
                        (long long)b->shape[0], (long long)b->shape[1], (long long)a->shape[0],
                        (long long)a->shape[1], key->name, (long long)key->shape[0],
                        (long long)key->shape[1]);
    if (rank > 0 && (double)a->shape[0] != rank) {
        file_bad(e, KV_E_SHAPE, name,
                 "lora_A and lora_B of \"%.80s\" have rank %lld, and the configuration says %.15g",
                 key->name, (long long)a->shape[0], rank);
        return kv_err_hint(e, "the scale is lora_alpha / r: is this the adapter_config.json of "
                              "these tensors?"),
               KV_E_SHAPE;
    }
    if (a->elements > MERGE_FACTORS_BYTES / 8 || b->elements > MERGE_FACTORS_BYTES / 8 ||
        (a->elements + b->elements) * 8 > MERGE_FACTORS_BYTES)
        return file_bad(e, KV_E_UNSUPPORTED, name,
                        "lora_A and lora_B of \"%.80s\" are too large to be held: their rank is "
                        "%lld",
                        key->name, (long long)a->shape[0]);
    return KV_OK;
}

int merge_adapter_find(merge_factors *out, const checkpoint *adapter, const tensor_info *key,
                       double rank, kv_err *e)
{
    *out = (merge_factors){-1, -1};
    if (!utf8_ends_in(key->name, ".weight"))
        return KV_OK;
    int rc = find(&out->a, adapter, key->name, endings[0], e);
    if (!rc)
        rc = find(&out->b, adapter, key->name, endings[1], e);
    if (rc || (out->a < 0 && out->b < 0))
        return rc;
    if (out->a < 0 || out->b < 0)
        return file_bad(e, KV_E_KEY, checkpoint_name(adapter), "\"%.80s\" has no %s", key->name,
                        out->a < 0 ? "lora_A" : "lora_B");
    return check_fit(adapter, *out, key, rank, e);
}

/* ---- Matrices -------------------------------------------------------------------------------- */

int64_t merge_adapter_bytes(const checkpoint *adapter, merge_factors f, bool wide)
{
    int64_t width = wide ? 8 : 4;
    return mem_aligned(checkpoint_at(adapter, f.a)->elements * width) +
           mem_aligned(checkpoint_at(adapter, f.b)->elements * width);
}

/* Elements that are read at once: a multiple of the runs of every packed type. */
enum { TOGETHER = 1 << 16 };

static int read_all(char *out, tensor_reader *r, const checkpoint *c, int64_t i, bool wide,
                    kv_err *e)
{
    const tensor_info *t = checkpoint_at(c, i);
    int rc = KV_OK;
    for (int64_t at = 0; at < t->elements && !rc; at += TOGETHER) {
        const void *data;
        int64_t n = t->elements - at < TOGETHER ? t->elements - at : TOGETHER;
        rc = tensor_read(r, &data, i, tensor_type_bytes(t->type, at),
                         tensor_type_bytes(t->type, n), e);
        if (rc)
            break;
        if (wide)
            tensor_decode_f64((double *)(void *)out + at, t->type, data, n);
        else
            tensor_decode_f32((float *)(void *)out + at, t->type, data, n);
    }
    return rc;
}

int merge_adapter_read(merge_product *out, void *memory, const checkpoint *adapter, merge_factors f,
                       bool wide, kv_err *e)
{
    const tensor_info *a = checkpoint_at(adapter, f.a);
    char *b_at = (char *)memory + mem_aligned(a->elements * (wide ? 8 : 4));
    tensor_reader *r = NULL;
    int rc = tensor_reader_new(&r, adapter, 0, e);
    if (!rc)
        rc = read_all(memory, r, adapter, f.a, wide, e);
    if (!rc)
        rc = read_all(b_at, r, adapter, f.b, wide, e);
    if (!rc)
        rc = tensor_reader_check(r, e);
    tensor_reader_free(r);
    *out = (merge_product){memory, b_at, a->shape[0], a->shape[1], wide};
    return rc;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* A part of a row is added up in a few columns at a time, which stay in the L1 cache, four terms
 * each time they are loaded. */
enum { COLUMNS = 512, TERMS = 4 };

#define LOOPS(suffix, T)                                                                           \
    CPU_CLONES static void part_##suffix(T *restrict out, const T *restrict a,                     \
                                         const T *restrict b, int64_t rank, int64_t columns,       \
                                         int64_t n)                                                \
    {                                                                                              \
        double sum[COLUMNS];                                                                       \
        int64_t k = 0;                                                                             \
        for (int64_t j = 0; j < n; j++)                                                            \
            sum[j] = 0;                                                                            \
        for (; k + TERMS <= rank; k += TERMS) {                                                    \
            const T *a0 = a + k * columns, *a1 = a0 + columns, *a2 = a1 + columns,                 \
                    *a3 = a2 + columns;                                                            \
            double b0 = b[k], b1 = b[k + 1], b2 = b[k + 2], b3 = b[k + 3];                         \
            for (int64_t j = 0; j < n; j++)                                                        \
                sum[j] = (((sum[j] + b0 * a0[j]) + b1 * a1[j]) + b2 * a2[j]) + b3 * a3[j];         \
        }                                                                                          \
        for (; k < rank; k++)                                                                      \
            for (int64_t j = 0; j < n; j++)                                                        \
                sum[j] += (double)b[k] * a[k * columns + j];                                       \
        for (int64_t j = 0; j < n; j++)                                                            \
            out[j] = (T)sum[j];                                                                    \
    }

LOOPS(f32, float)
LOOPS(f64, double)

void merge_product_part(void *out, const merge_product *p, int64_t from, int64_t n)
{
    while (n > 0) {
        int64_t row = from / p->columns, column = from % p->columns, k = p->columns - column;
        k = k < n ? k : n;
        k = k < COLUMNS ? k : COLUMNS;
        if (p->wide)
            part_f64(out, (const double *)p->a + column, (const double *)p->b + row * p->rank,
                     p->rank, p->columns, k);
        else
            part_f32(out, (const float *)p->a + column, (const float *)p->b + row * p->rank,
                     p->rank, p->columns, k);
        out = (char *)out + k * (p->wide ? 8 : 4);
        from += k;
        n -= k;
    }
}
