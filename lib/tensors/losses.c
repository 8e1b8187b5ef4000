/* Counts of losses, and elements in messages. */
#include "tensors/losses.h"

#include <stdio.h>

#include "base/num.h"
#include "checkpoint/tensor_codec.h"

void losses_add(losses *l, int64_t key, const tensor_loss *loss)
{
    const int64_t n[LOSSES_KINDS] = {loss->inf, loss->nan, loss->saturated, loss->rounded,
                                     loss->fraction};
    if (!l || loss->first < 0)
        return;
    for (int i = 0; i < LOSSES_KINDS; i++)
        atomic_fetch_add_explicit(&l->keys[key].count[i], n[i], memory_order_relaxed);
}

void tensor_words_number(buf *out, tensor_type type, const void *data, int64_t i)
{
    int64_t most = tensor_type_run(type), inner = i % most;
    const char *at = (const char *)data + i / most * tensor_type_run_bytes(type);
    char text[NUM_TEXT_MAX];
    double x[4];
    int64_t integer;
    uint64_t large;
    bool is_float = tensor_type_kind(type) == TENSOR_KIND_FLOAT;
    if (is_float)
        tensor_decode_f64(x, type, at, inner + 1);
    if (is_float)
        num_plain(text, x[inner], NUM_BINARY64);
    else if (tensor_decode_i64(&integer, type, at, 1) < 0)
        num_int(text, integer);
    else if (tensor_decode_u64(&large, type, at, 1) < 0)
        snprintf(text, sizeof text, "%llu", (unsigned long long)large);
    buf_add(out, text);
}

void tensor_words_place(buf *out, const tensor_info *t, int64_t element)
{
    int64_t at[KV_MAX_NDIM];
    tensor_info_index(at, t, element);
    buf_char(out, '[');
    for (int j = 0; j < t->ndim; j++)
        buf_printf(out, "%s%lld", j ? ", " : "", (long long)at[j]);
    buf_char(out, ']');
}
