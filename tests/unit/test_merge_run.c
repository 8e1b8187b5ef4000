/* Merges of whole checkpoints, against loops over the same numbers. */
#include "test_merge.h"

#include "checkpoint/tensor_codec.h"
#include "tensors/walk.h"

static kv_err e;

/* Numbers from -1 to 1. */
static float *numbers(int64_t n, uint64_t seed)
{
    float *x = malloc((size_t)n * sizeof *x + 1);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(int32_t)(seed >> 33) / 1073741824.0f - 1;
    }
    return x;
}

#define SIZE (WALK_PIECE + 777)

/* n files of "w", of SIZE elements. */
static void make(buf *files, float **x, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) {
        x[i] = numbers(SIZE, seed + (uint64_t)i);
        files[i] = tensor_file(&(tensor_given){"w", TENSOR_F32, SIZE, 0, x[i]}, 1);
    }
}

static void release(buf *files, float **x, int n)
{
    for (int i = 0; i < n; i++) {
        buf_release(&files[i]);
        free(x[i]);
    }
}

static float *merged(const merge_case *c)
{
    checkpoint *out = NULL;
    CHECK_OK(merge_try(&out, c, &e));
    float *y = merge_floats(out, "w");
    checkpoint_close(out);
    return y;
}

TEST(merge_run_linear)
{
    buf files[3];
    float *x[3];
    static const double weights[] = {1, 2, 3};
    make(files, x, 3, 1);
    float *y = merged(&(merge_case){
        .rule = "{ merged = sum([w * m for m, w in zip(models, weights)]) / sum(weights) }",
        .files = files,
        .nmodels = 3,
        .weights = weights,
        .type = TENSOR_TYPE_END});
    for (int i = 0; i < SIZE; i++)
        CHECK(y[i] == (x[0][i] + 2 * x[1][i] + 3 * x[2][i]) / 6);
    free(y);
    release(files, x, 3);
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

TEST(merge_run_largest)
{
    buf files[2];
    float *x[2];
    make(files, x, 2, 1);
    float *y = merged(&(merge_case){
        .rule = "{ merged = base + largest(models[0] - base, floor(0.2 * size(base))) }",
        .files = files,
        .nmodels = 1,
        .base = &files[1],
        .type = TENSOR_TYPE_END});
    float *sorted = malloc(SIZE * sizeof *sorted);
    for (int i = 0; i < SIZE; i++)
        sorted[i] = fabsf(x[0][i] - x[1][i]);
    qsort(sorted, SIZE, sizeof *sorted, by_size);
    int64_t k = (int64_t)(0.2 * SIZE);
    float least = sorted[SIZE - k];
    for (int i = 0; i < SIZE; i++) {
        float d = x[0][i] - x[1][i];
        CHECK(y[i] == x[1][i] + (fabsf(d) < least ? 0 : d));
    }
    free(sorted);
    free(y);
    release(files, x, 2);
}

/* A nan is as large as inf, and of equal ones the first are in. */
TEST(merge_run_largest_of_nan)
{
    static const char *const rules[] = {"{ merged = largest(models[0], 1) }",
                                        "{ merged = largest(models[0], 2) }",
                                        "{ merged = largest(models[0], 3) }"};
    static const int at[] = {5, 9, WALK_PIECE + 5};
    float *x = numbers(SIZE, 1);
    x[at[0]] = -INFINITY;
    x[at[1]] = NAN;
    x[at[2]] = INFINITY;
    buf file = tensor_file(&(tensor_given){"w", TENSOR_F32, SIZE, 0, x}, 1);
    for (int k = 0; k < 3; k++) {
        float *y = merged(&(merge_case){
            .rule = rules[k], .files = &file, .nmodels = 1, .type = TENSOR_TYPE_END});
        for (int i = 0; i < SIZE; i++) {
            bool in = false;
            for (int a = 0; a <= k; a++)
                in = in || i == at[a];
            CHECK(in ? !isfinite(y[i]) : y[i] == 0);
        }
        free(y);
    }
    buf_release(&file);
    free(x);
}
