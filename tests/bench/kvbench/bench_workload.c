/* Shapes of networks, and the table of workloads. */
#include "bench_workload.h"

#include "base/mem.h"

/* ---- Networks ---- */

static int add(bench_shapes *out, int ndim, int64_t a, int64_t b, int64_t c, int64_t d, kv_err *e)
{
    bench_shape one = {ndim, {a, b, c, d}, 1};
    for (int i = 0; i < ndim; i++)
        one.size *= one.shape[i];
    if (mem_grow(&out->items, &out->cap, out->n + 1, sizeof *out->items, e))
        return KV_E_MEMORY;
    out->items[out->n++] = one;
    out->elements += one.size;
    return KV_OK;
}

/* A convolution of k x k, and behind it the two arrays of a batch normalisation. */
static int add_conv(bench_shapes *out, int64_t to, int64_t from, int64_t k, bool norm, kv_err *e)
{
    int code = add(out, 4, to, from, k, k, e);
    if (code == KV_OK && norm)
        code = add(out, 1, to, 0, 0, 0, e);
    return code == KV_OK && norm ? add(out, 1, to, 0, 0, 0, e) : code;
}

static int add_dense(bench_shapes *out, int64_t to, int64_t from, kv_err *e)
{
    int code = add(out, 2, to, from, 0, 0, e);
    return code ? code : add(out, 1, to, 0, 0, 0, e);
}

/* He et al., "Deep residual learning for image recognition": four stages of blocks of three
 * convolutions, the first block of a stage with one more on its shortcut. */
static int add_resnet(bench_shapes *out, const int blocks[4], bool norm, kv_err *e)
{
    int64_t from = 64;
    int code = add_conv(out, 64, 3, 7, norm, e);
    for (int stage = 0; stage < 4; stage++) {
        int64_t narrow = (int64_t)64 << stage, wide = 4 * narrow;
        for (int b = 0; b < blocks[stage] && code == KV_OK; b++, from = wide) {
            if ((code = add_conv(out, narrow, from, 1, norm, e)) ||
                (code = add_conv(out, narrow, narrow, 3, norm, e)) ||
                (code = add_conv(out, wide, narrow, 1, norm, e)))
                return code;
            if (b == 0)
                code = add_conv(out, wide, from, 1, norm, e);
        }
    }
    return code ? code : add_dense(out, 1000, from, e);
}

static int resnet50(bench_shapes *out, int64_t size, kv_err *e)
{
    (void)size;
    return add_resnet(out, (const int[]){3, 4, 6, 3}, true, e);
}

/* As MXNet's tool measures it: weights and biases alone. */
static int resnet200(bench_shapes *out, int64_t size, kv_err *e)
{
    (void)size;
    return add_resnet(out, (const int[]){3, 24, 36, 3}, false, e);
}

/* Simonyan and Zisserman, "Very deep convolutional networks", configuration D. */
static int vgg16(bench_shapes *out, int64_t size, kv_err *e)
{
    static const int channels[] = {64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512};
    int64_t from = 3;
    int code = KV_OK;
    (void)size;
    for (size_t i = 0; i < sizeof channels / sizeof *channels && code == KV_OK; i++) {
        code = add(out, 4, channels[i], from, 3, 3, e);
        if (code == KV_OK)
            code = add(out, 1, channels[i], 0, 0, 0, e);
        from = channels[i];
    }
    if (code == KV_OK)
        code = add_dense(out, 4096, 512 * 7 * 7, e);
    if (code == KV_OK)
        code = add_dense(out, 4096, 4096, e);
    return code ? code : add_dense(out, 1000, 4096, e);
}

/* ---- Others ---- */

static int small_keys(bench_shapes *out, int64_t size, kv_err *e)
{
    int code = KV_OK;
    for (int64_t i = 0; i < size && code == KV_OK; i++)
        code = add(out, 1, 16, 0, 0, 0, e);
    return code;
}

int bench_one_array(bench_shapes *out, int64_t size, kv_err *e)
{
    return add(out, 1, size, 0, 0, 0, e);
}

/* ---- The table ---- */

#define FLOAT32 {{"float32", KV_FLOAT32, NULL}}
#define NETWORK "push,pull,pushpull,sgd,momentum,adam,lamb,nadam,push+adam+pull"

const bench_workload bench_workloads[] = {
    {"W1", "ResNet-50", resnet50, FLOAT32, NETWORK, "1,2,4,8", 0, false},
    {"W2", "ResNet-200", resnet200, FLOAT32, NETWORK, "1,2,4,8", 0, false},
    {"W3", "VGG-16", vgg16, FLOAT32, NETWORK, "1,2,4,8", 0, false},
    {"W4", "keys of 16 floats", small_keys, FLOAT32, "push,pull,pushpull,sgd", "2", 100000, true},
    {"W5", "one array", bench_one_array, FLOAT32, "push,pull,pushpull", "2", (int64_t)1 << 28,
     false},
    {"W7", "ResNet-50 in half precision", resnet50,
     {{"float16", KV_FLOAT16, NULL}, {"bfloat16", KV_BFLOAT16, NULL}},
     "push,pull", "1,2,4,8", 0, false},
    {"W8", "ResNet-50 compressed", resnet50,
     {{"2bit", KV_FLOAT32, "2bit"}, {"1bit", KV_FLOAT32, "1bit"}},
     "push", "1,2,4", 0, false},
    {0},
};

/* ---- Sizes ---- */

/* The same number of arrays with at most a 64th of the elements, flat. */
static void shrink(bench_shapes *s)
{
    s->elements = 0;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t size = (s->items[i].size + 63) / 64;
        s->items[i] = (bench_shape){1, {size}, size};
        s->elements += size;
    }
}

int bench_workload_shapes(const bench_workload *w, int64_t size, int64_t row, bool quick,
                          bench_shapes *out, kv_err *e)
{
    *out = (bench_shapes){0};
    int64_t own = quick ? w->size / 100 : w->size;
    int code = w->shapes(out, size > 0 && w->size > 0 ? size : own, e);
    if (code == KV_OK && quick && w->size == 0)
        shrink(out);
    if (code == KV_OK && row > 0 && w->shapes == bench_one_array) {
        int64_t rows = out->elements / row > 0 ? out->elements / row : 1;
        out->n = 0;
        out->elements = 0;
        code = add(out, 2, rows, row, 0, 0, e);
    }
    if (code) {
        mem_free(out->items);
        *out = (bench_shapes){0};
    }
    return code;
}
