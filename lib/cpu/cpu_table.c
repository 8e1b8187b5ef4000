/* The CPU's device table. Memory of every cpu(i) is the host's. */
#include <string.h>

#include "array/device.h"
#include "base/mem.h"
#include "cpu/convert.h"
#include "cpu/quantise.h"
#include "cpu/rows.h"
#include "cpu/spread.h"
#include "cpu/stream.h"
#include "cpu/sum.h"

static int cpu_alloc(int id, int64_t bytes, void **out, kv_err *e)
{
    (void)id;
    *out = mem_alloc_data(bytes, e);
    return *out ? KV_OK : KV_E_MEMORY;
}

static void cpu_free(int id, void *block)
{
    (void)id;
    mem_free_data(block);
}

static int cpu_zero(int id, void *dst, int64_t bytes, kv_err *e)
{
    (void)id;
    (void)e;
    memset(dst, 0, (size_t)bytes);
    return KV_OK;
}

const dev_ops cpu_dev_ops = {
    .alloc = cpu_alloc,
    .free = cpu_free,
    .zero = cpu_zero,
    .convert = convert_elements,
    .sum = sum_elements,
    .convert_far = stream_convert,
    .sum_far = stream_sum,
    .gather_rows = rows_gather,
    .spread_far = spread_far,
    .sum_rows = rows_sum,
    .quantise = quantise_encode,
    .dequantise = quantise_decode,
    .dequantise_add = quantise_decode_add,
    .quantise_sum = quantise_sum,
};
