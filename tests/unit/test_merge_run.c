/* Merges of whole checkpoints, against loops over the same numbers. */
#define SHARED_KV_ERR
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
static void make_files(buf *files, float **x, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) {
        x[i] = numbers(SIZE, seed + (uint64_t)i);
        files[i] = tensor_file(&(tensor_given){"w", TENSOR_F32, SIZE, 0, x[i]}, 1);
    }
}

static void release_files(buf *files, float **x, int n)
{
    for (int i = 0; i < n; i++) {
        buf_release(&files[i]);
        free(x[i]);
    }
}

static float *merged(merge_case c)
{
    own_checkpoint *out = MADE(checkpoint, merge_try, &c);
    return merge_floats(out, "w");
}

/* A merge of the first n of files, into this type; has_base: the file behind them is the base. */
#define CASE_OF(to, n, has_base, text, ...)                                                        \
    ((merge_case){.rule = (text),                                                                  \
                  .files = files,                                                                  \
                  .nmodels = (n),                                                                  \
                  .base = (has_base) ? &files[n] : NULL,                                           \
                  .type = (to),                                                                    \
                  ##__VA_ARGS__})
#define CASE(...) CASE_OF(TENSOR_TYPE_END, __VA_ARGS__)

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Selections in one pass, more than there are inputs: each has terms of its own. */
TEST(merge_run_largest_of_many)
{
    enum { N = 4 };
    IN_FOLDER("out.safetensors", NULL);
    buf files[2];
    float *x[2], *terms[N], *sorted[N];
    int64_t told[3] = {0};
    make_files(files, x, 2, 1);
    float *y = merged(CASE(1, true,
                           "{ k = floor(0.2 * size(base))\n"
                           "merged = largest(models[0], k) + largest(base, k) + "
                           "largest(models[0] - base, k) + largest(models[0] + base, k) }",
                           .told = told));
    CHECK(told[1] > 0 && told[1] % (2 * SIZE * sizeof(float)) == 0); /* both inputs in each pass */
    CHECK(told[0] == told[1] && told[1] == told[2]);
    for (int m = 0; m < N; m++) {
        terms[m] = malloc(SIZE * sizeof(float));
        sorted[m] = malloc(SIZE * sizeof(float));
        for (int i = 0; i < SIZE; i++) {
            terms[m][i] = m < 2 ? x[m][i] : m == 2 ? x[0][i] - x[1][i] : x[0][i] + x[1][i];
            sorted[m][i] = fabsf(terms[m][i]);
        }
        qsort(sorted[m], SIZE, sizeof(float), by_size);
    }
    for (int i = 0; i < SIZE; i++) {
        float all = 0;
        for (int m = 0; m < N; m++)
            all += fabsf(terms[m][i]) < sorted[m][SIZE - (int64_t)(0.2 * SIZE)] ? 0 : terms[m][i];
        CHECK(y[i] == all);
    }
    for (int m = 0; m < N; m++) {
        free(terms[m]);
        free(sorted[m]);
    }
    free(y);
    release_files(files, x, 2);
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* What loops of programs compute, of three models. */
#define LOOPS(X)                                                                                   \
    X("a + b", a + b)                                                                              \
    X("a - b", a - b)                                                                              \
    X("a * b", a * b)                                                                              \
    X("a / b", a / b)                                                                              \
    X("a * abs(b)", a * fabsf(b))                                                                  \
    X("abs(a) * 3 + b * 0.7", fabsf(a) * 3 + b * 0.7f)                                             \
    X("abs(a) * 3 + b * 0.7 + c * 5", fabsf(a) * 3 + b * 0.7f + c * 5)                             \
    X("abs(a)", fabsf(a))                                                                          \
    X("a < b", (float)(a < b))                                                                     \
    X("where(a < b, b, c)", a < b ? b : c)                                                         \
    X("a * 3 + 0.5", a * 3 + 0.5f)                                                                 \
    X("a * 3 + b * 0.7", a * 3 + b * 0.7f)                                                         \
    X("a * 3 + b * 0.7 + c * 5", a * 3 + b * 0.7f + c * 5)                                         \
    X("a * 3 + b * 0.7 * c", a * 3 + b * 0.7f * c)                                                 \
    X("a * 3 + b * 0.7 / c", a * 3 + b * 0.7f / c)                                                 \
    X("a * 3 * b", a * 3 * b)                                                                      \
    X("a / 3", a / 3)                                                                              \
    X("a == 0.5", (float)(a == 0.5f))                                                              \
    X("a < 0.5", (float)(a < 0.5f))                                                                \
    X("a <= 0.5", (float)(a <= 0.5f))                                                              \
    X("a > 0.5", (float)(a > 0.5f))                                                                \
    X("a >= 0.5", (float)(a >= 0.5f))                                                              \
    X("where(a > 0.5, b, 4)", a > 0.5f ? b : 4)                                                    \
    X("where(a > 0.5, 4, b)", a > 0.5f ? 4 : b)                                                    \
    X("where(a > 0.5, 4, 2)", (float)(a > 0.5f ? 4 : 2))

static uint16_t *upper_halves(const float *x)
{
    uint16_t *y = malloc(SIZE * sizeof *y);
    for (int64_t i = 0; i < SIZE; i++)
        memcpy(&y[i], (const char *)&x[i] + sizeof *y, sizeof *y);
    return y;
}

/* The models are numbers that BF16 holds. odd: they stand at an odd address, behind one byte. */
static void check_loops(tensor_type type, bool odd)
{
    IN_FOLDER("out.safetensors", NULL);
    buf files[3];
    float *x[3];
    for (int m = 0; m < 3; m++) {
        x[m] = numbers(SIZE, 30 + (uint64_t)m);
        for (int i = 0; i < SIZE; i++)
            x[m][i] = floorf(x[m][i] * 8) / 8 + 0.0625f * (float)m;
        OWN(test_free) uint16_t *narrow = upper_halves(x[m]);
        const void *data = type == TENSOR_BF16 ? (const void *)narrow : x[m];
        const tensor_given tensors[] = {{"a", TENSOR_U8, 1, 0, "7"}, {"w", type, SIZE, 0, data}};
        files[m] = odd ? tensor_file(tensors, 2) : tensor_file(tensors + 1, 1);
    }
    float *y;
    int differ;
#define CHECK_LOOP(text, expression)                                                              \
    y = merged(CASE_OF(TENSOR_F32, 3, false,                                                       \
                       "{ a = models[0]; b = models[1]; c = models[2]; merged = " text " }"));     \
    differ = 0;                                                                                    \
    for (int i = 0; i < SIZE; i++) {                                                               \
        float a = x[0][i], b = x[1][i], c = x[2][i], want = (expression);                          \
        (void)b, (void)c;                                                                          \
        differ += memcmp(&y[i], &want, sizeof want) != 0;                                          \
    }                                                                                              \
    CHECK_INT(differ, 0);                                                                          \
    free(y);
    LOOPS(CHECK_LOOP)
    release_files(files, x, 3);
}

TEST(merge_run_loops)
{
    check_loops(TENSOR_F32, false);
    check_loops(TENSOR_F32, true);
    check_loops(TENSOR_BF16, false);
    check_loops(TENSOR_BF16, true);
}

/* ---- Equal bits ------------------------------------------------------------------------------ */

#define ROWS    91
#define COLUMNS 3001

/* Rules of every kind: sums, selections, draws, ranks. */
static const char *const rules[] = {
    "{ a = models[0]; b = models[1]; merged = (dot(a, b) / (norm(a) * norm(b))) * a + max(b) * b }",
    "{ d = [largest(m - base, floor(0.2 * size(base))) for m in models]; merged = base + sum(d) }",
    "{ merged = where(abs(models[0]) > quantile(abs(models[0]), 0.3), models[1], base) }",
    "{ merged = sum([where(uniform(7, i) < 0.5, m, base) for i, m in enumerate(models)]) }",
    "{ merged = where(uniform(1, 2) < rowrank(abs(models[0] - base)), models[0], base) }",
};

/* A hash of what each rule gives of two small tensors and a large one. */
static void hash_merges(uint64_t *hash)
{
    buf files[3];
    for (int i = 0; i < 3; i++) {
        OWN(test_free)
        float *a = numbers(ROWS * COLUMNS, 10 + (uint64_t)i), *b = numbers(60, 20 + (uint64_t)i);
        for (int k = 0; k < ROWS * COLUMNS; k += 3)
            a[k] = floorf(a[k] * 8) / 8; /* many are equal */
        tensor_given t[] = {{"a", TENSOR_F32, ROWS, COLUMNS, a},
                            {"b", TENSOR_F32, 6, 10, b},
                            {"c", TENSOR_F32, -1, 0, b},
                            {"d", TENSOR_F32, 0, 4, b}};
        files[i] = tensor_file(t, 4);
    }
    *hash = 0;
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        merge_case c = CASE(2, true, rules[r]);
        own_checkpoint *out = MADE(checkpoint, merge_try, &c);
        CHECK_INT(checkpoint_count(out), 4);
        for (int64_t i = 0; i < 4; i++) {
            OWN(test_free) float *y = merge_floats(out, checkpoint_at(out, i)->name);
            for (int64_t k = 0; k < checkpoint_at(out, i)->elements; k++) {
                uint32_t bits;
                memcpy(&bits, &y[k], sizeof bits);
                *hash = (*hash ^ bits) * 0x100000001b3u;
            }
        }
    }
    for (int i = 0; i < 3; i++)
        buf_release(&files[i]);
}

TEST(merge_run_threads)
{
    IN_FOLDER("out.safetensors", NULL);
    static const char *const counts[] = {"1", "2", "3", "4", "16"};
    uint64_t *hashes = test_shared(5 * sizeof *hashes);
    for (int i = 0; i < 5; i++) {
        IN_CHILD(counts[i])
            hash_merges(&hashes[i]);
        CHECK(hashes[i] && hashes[i] == hashes[0]);
    }
}

/* ---- Selections and ranks of whole tensors --------------------------------------------------- */

/* Of equal changes the first ones are kept: all are equal, in several pieces. */
TEST(merge_run_keeps_the_first)
{
    IN_FOLDER("out.safetensors", NULL);
    buf files[2];
    float *x[2];
    make_files(files, x, 2, 1);
    for (int i = 0; i < 2; i++) {
        buf_release(&files[i]);
        for (int k = 0; k < SIZE; k++)
            x[i][k] = i ? 1 : k % 2 ? 3 : -1;
        files[i] = tensor_file(&(tensor_given){"w", TENSOR_F32, SIZE, 0, x[i]}, 1);
    }
    static const int kept[] = {1, 1000, WALK_PIECE - 1, WALK_PIECE, WALK_PIECE + 1, SIZE - 1};
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
        char text[16];
        snprintf(text, sizeof text, "%d", kept[k]);
        OWN(test_free) float *y =
            merged(CASE(1, true, "merge t(k = 1) { merged = base + largest(models[0] - base, k) }",
                        .names = {"k"}, .texts = {text}, .nparams = 1));
        for (int i = 0; i < SIZE; i++)
            CHECK(y[i] == (i < kept[k] ? x[0][i] : 1));
    }
    release_files(files, x, 2);
}

TEST(merge_run_ranks)
{
    IN_FOLDER("out.safetensors", NULL);
    static const int64_t shapes[][2] = {{1, 1}, {5, 1}, {1, 300}, {3, 1 << 18}, {700, 201}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t rows = shapes[s][0], columns = shapes[s][1];
        OWN(test_free) float *x = numbers(rows * columns, s);
        own_buf file = tensor_file(&(tensor_given){"w", TENSOR_F32, rows, columns, x}, 1);
        const buf *files = &file;
        OWN(test_free) float *y = merged(CASE(1, false, "{ merged = rowrank(2 * models[0]) }"));
        for (int64_t r = 0; r < rows; r++) {
            float *row = x + r * columns;
            for (int64_t i = 0; i < columns; i += 1 + columns / 20) {
                int64_t before = 0;
                for (int64_t k = 0; k < columns; k++)
                    before += row[k] < row[i] || (row[k] == row[i] && k < i);
                double want = columns == 1 ? 0.5 : (double)before / (double)(columns - 1);
                CHECK(y[r * columns + i] == (float)want);
            }
        }
    }
}

/* A mask follows from the key, not from its neighbours or the size of the blocks. */
TEST(merge_run_masks)
{
    IN_FOLDER("out.safetensors", NULL);
    OWN(test_free) float *x = numbers(SIZE, 1);
    static const char rule[] = "{ merged = where(uniform(3, 1) < 0.25, models[0], 0) }";
    tensor_given t[] = {{"other", TENSOR_F32, 100, 0, x}, {"w", TENSOR_F32, SIZE, 0, x}};
    own_buf one = tensor_file(t + 1, 1), two = tensor_file(t, 2);
    merge_case c = {.rule = rule, .files = &one, .nmodels = 1, .type = TENSOR_TYPE_END};
    OWN(test_free) float *y = merged(c), *z = NULL;
    c.files = &two;
    z = merged(c);
    int kept = 0;
    for (int i = 0; i < SIZE; i++) {
        CHECK(y[i] == z[i] && (y[i] == 0 || y[i] == x[i]));
        kept += y[i] != 0;
    }
    CHECK(kept > SIZE / 5 && kept < SIZE / 3);
}

/* ---- Types ----------------------------------------------------------------------------------- */

TEST(merge_run_types)
{
    IN_FOLDER("out.safetensors", NULL);
    float a[] = {1, 2.5f, -3, 0}, b[] = {2, 0.5f, 1, 1};
    double wide[] = {1e-20, 2, 3, 4};
    uint16_t bf16[4];
    unsigned char f4[2];
    int32_t whole[] = {1, 2, 3, 4};
    CHECK_INT(tensor_convert(bf16, TENSOR_BF16, b, TENSOR_F32, 4), -1);
    CHECK_INT(tensor_convert(f4, TENSOR_F4, b, TENSOR_F32, 4), -1);
    tensor_given one[] = {{"half", TENSOR_F32, 4, 0, a},
                          {"tiny", TENSOR_F4, 4, 0, f4},
                          {"wide", TENSOR_F64, 4, 0, wide},
                          {"whole", TENSOR_I32, 2, 2, whole}};
    tensor_given two[] = {{"whole", TENSOR_I32, 2, 2, whole},
                          {"wide", TENSOR_F64, 4, 0, wide},
                          {"tiny", TENSOR_F32, 4, 0, a},
                          {"half", TENSOR_BF16, 4, 0, bf16}};
    buf files[] = {tensor_file(one, 4), tensor_file(two, 4)};
    merge_case c = CASE(2, false, "{ merged = sum(models) }");
    own_checkpoint *out = MADE(checkpoint, merge_try, &c);
    OWN(test_free) float *y = merge_floats(out, "half");
    for (int i = 0; i < 4; i++)
        CHECK(y[i] == a[i] + b[i]);
    CHECK_INT(checkpoint_at(out, checkpoint_find(out, "tiny"))->type, TENSOR_F4);
    kv_array *array = MADE(kv_array, checkpoint_load_name, out, "wide");
    const double *data = array_elements(array);
    CHECK(data[0] == 2e-20);
    kv_array_unref(array);
    CHECK_OK(checkpoint_load_name(&array, out, "whole", &e));
    data = array_elements(array);
    CHECK_INT(memcmp(data, whole, sizeof whole), 0);
    kv_array_unref(array);
    buf_release(&files[0]);
    buf_release(&files[1]);
}

/* Sums and products alone take another way, which begins with the bits of BF16. */
TEST(merge_run_bf16)
{
    IN_FOLDER("out.safetensors", NULL);
    static const char *const sums[] = {
        "{ merged = sum(models) / 3 }",
        "{ merged = 0.3 * models[0] + (0.7 * models[1] - models[2]) * models[0] }",
        "{ m = max(models[1]); merged = m * models[0] * models[1] + m * models[2] }"};
    buf files[3];
    float *x[3];
    make_files(files, x, 3, 5);
    for (int i = 0; i < 3; i++) {
        OWN(test_free) uint16_t *bits = malloc(SIZE * sizeof *bits);
        tensor_convert(bits, TENSOR_BF16, x[i], TENSOR_F32, SIZE);
        bits[i] = 0x7fc0; /* nan */
        tensor_decode_f32(x[i], TENSOR_BF16, bits, SIZE);
        buf_release(&files[i]);
        files[i] = tensor_file(&(tensor_given){"w", i < 2 ? TENSOR_BF16 : TENSOR_F32, SIZE, 0,
                                               i < 2 ? (void *)bits : x[i]},
                               1);
    }
    for (int r = 0; r < 3; r++) {
        OWN(test_free) float *y = merged(CASE_OF(TENSOR_F32, 3, false, sums[r]));
        for (int i = 0; i < SIZE; i++) {
            float a = x[0][i], b = x[1][i], c = x[2][i];
            float want = r == 0 ? (a + b + c) / 3 : r == 1 ? 0.3f * a + (0.7f * b - c) * a : NAN;
            CHECK(y[i] == want || (y[i] != y[i] && want != want));
        }
    }
    release_files(files, x, 3);
}

/* What a merge of one tensor each, in models a and b, says. */
static void check_refusal(tensor_given a, tensor_given b, const char *rule, kv_code code,
                          const char *text)
{
    checkpoint *out = NULL;
    buf files[] = {tensor_file(&a, 1), tensor_file(&b, 1)};
    merge_case c = CASE(2, false, rule);
    CHECK_ERR(merge_try(&out, &c, &e), code, text);
    CHECK(access("out.safetensors", F_OK) != 0);
    buf_release(&files[0]);
    buf_release(&files[1]);
}

TEST(merge_run_refusals)
{
    IN_FOLDER("out.safetensors", NULL);
    float x[] = {1, 2, 3, 4}, nan[] = {1, 2, NAN, 4};
    int64_t one[] = {1, 2, 3, 4}, other[] = {1, 2, -3, 4};
    unsigned char f4[] = {0, 0};
    static const char sum[] = "{ merged = sum(models) }";
    tensor_given w = {"w", TENSOR_F32, 2, 2, x};
    check_refusal(w, (tensor_given){"v", TENSOR_F32, 2, 2, x}, sum, KV_E_KEY,
                  "b: there is no \"w\", which a has");
    check_refusal(w, (tensor_given){"w", TENSOR_F32, 4, 0, x}, sum, KV_E_SHAPE,
                  "b: \"w\" is (4,), in a (2, 2)");
    check_refusal(w, (tensor_given){"w", TENSOR_I32, 2, 2, x}, sum, KV_E_DTYPE,
                  "b: \"w\" is I32, in a F32");
    check_refusal((tensor_given){"w", TENSOR_C64, 2, 0, x},
                  (tensor_given){"w", TENSOR_C64, 2, 0, x}, sum, KV_E_DTYPE,
                  "a: \"w\" is C64, which cannot be merged");
    check_refusal((tensor_given){"w", TENSOR_I64, 2, 2, one},
                  (tensor_given){"w", TENSOR_I64, 2, 2, other}, sum, KV_E_VALUE,
                  "b: \"w\" is -3 at [1, 0], in a 3");
    check_refusal((tensor_given){"w", TENSOR_F4, 2, 2, f4},
                  (tensor_given){"w", TENSOR_F32, 2, 2, nan}, sum, KV_E_VALUE,
                  "a: \"w\" becomes nan at [1, 0], which F4 cannot hold");
}

/* What a caller may ask of merge_check that the tool does not. */
TEST(merge_run_usage)
{
    IN_FOLDER("out.safetensors", NULL);
    float x[] = {1, 2, 3, 4};
    int64_t whole[] = {1, 2, 3, 4};
    tensor_given w[] = {{"w", TENSOR_F32, 2, 2, x}, {"n", TENSOR_I64, 2, 2, whole}};
    buf file = tensor_file(w, 2), files[] = {file, file};
    merge_case c = {.rule = "{ merged = base + sum(models) }", .files = files, .base = &file,
                    .type = TENSOR_TYPE_END};
    checkpoint *out = NULL;
    CHECK_ERR(merge_try(&out, &c, &e), KV_E_USAGE, "a merge takes 1 to 64 models, not 0");
    c.nmodels = 2;
    c.base = NULL;
    c.adapters = true;
    CHECK_ERR(merge_try(&out, &c, &e), KV_E_USAGE,
              "adapters are merged into a base, and none is given");
    CHECK(!out && access("out.safetensors", F_OK) != 0);
    buf_release(&file);
}

/* ---- Adapters -------------------------------------------------------------------------------- */

TEST(merge_run_adapters)
{
    IN_FOLDER("out.safetensors", NULL);
    enum { OUT = 5, IN = 7, RANK = 2 };
    OWN(test_free)
    float *base = numbers(OUT * IN, 1), *a = numbers(RANK * IN, 2), *b = numbers(OUT * RANK, 3);
    tensor_given model[] = {{"fc.weight", TENSOR_F32, OUT, IN, base},
                            {"norm.weight", TENSOR_F32, IN, 0, base}};
    tensor_given adapter[] = {{"base_model.model.fc.lora_A.weight", TENSOR_F32, RANK, IN, a},
                              {"base_model.model.fc.lora_B.weight", TENSOR_F32, OUT, RANK, b}};
    static const double scales[] = {3, 0.5};
    buf file = tensor_file(model, 2), empty = tensor_file(adapter, 0);
    buf files[] = {empty, tensor_file(adapter, 2)};
    merge_case c = {.rule = "{ merged = base; for a, b, s in zip(lora_A, lora_B, lora_scale) { "
                            "merged += s * matmul(b, a) } }",
                    .files = files,
                    .nmodels = 2,
                    .base = &file,
                    .scales = scales,
                    .adapters = true,
                    .type = TENSOR_TYPE_END};
    checkpoint *out = MADE(checkpoint, merge_try, &c);
    float *fc = merge_floats(out, "fc.weight"), *norm = merge_floats(out, "norm.weight");
    for (int i = 0; i < OUT * IN; i++) {
        double sum = 0;
        for (int k = 0; k < RANK; k++)
            sum += (double)b[i / IN * RANK + k] * (double)a[k * IN + i % IN];
        CHECK(fc[i] == base[i] + 0.5f * (float)sum);
    }
    CHECK_INT(memcmp(norm, base, IN * sizeof *norm), 0);
    free(fc);
    free(norm);
    checkpoint_close(out);
    unlink("out.safetensors");
    int32_t whole[OUT * IN] = {0};
    const tensor_given right_a = {"fc.lora_A.weight", TENSOR_F32, RANK, IN, a};
    const struct {
        tensor_given a; /* or none */
        int64_t out;    /* rows of b */
        tensor_type base;
        kv_code code;
        const char *want;
    } wrong[] = {
        {{"fcc.lora_A.weight", TENSOR_F32, RANK, IN, a}, OUT, TENSOR_F32, KV_E_KEY,
         "b: \"fcc.lora_A.weight\" belongs to \"fcc.weight\", which base does not have"},
        {{NULL}, OUT, TENSOR_F32, KV_E_KEY, "b: \"fc.weight\" has no lora_A"},
        {{"fc.lora_A.weight", TENSOR_F32, IN, RANK, a}, OUT, TENSOR_F32, KV_E_SHAPE,
         "b: lora_B (5, 2) times lora_A (7, 2) is not \"fc.weight\" (5, 7)"},
        /* one length of four */
        {{"fc.lora_A.weight", TENSOR_F32, RANK - 1, IN, a}, OUT, TENSOR_F32, KV_E_SHAPE,
         "b: lora_B (5, 2) times lora_A (1, 7) is not \"fc.weight\" (5, 7)"},
        {{"fc.lora_A.weight", TENSOR_F32, RANK, IN - 1, a}, OUT, TENSOR_F32, KV_E_SHAPE,
         "b: lora_B (5, 2) times lora_A (2, 6) is not \"fc.weight\" (5, 7)"},
        {right_a, OUT - 1, TENSOR_F32, KV_E_SHAPE,
         "b: lora_B (4, 2) times lora_A (2, 7) is not \"fc.weight\" (5, 7)"},
        {{"fc.lora_A.weight", TENSOR_F32, RANK * IN, 0, a}, OUT, TENSOR_F32, KV_E_SHAPE,
         "b: \"fc.weight\", its lora_A and its lora_B have 2, 1 and 2 axes, not 2"},
        {{"fc.lora_A.weight", TENSOR_I32, RANK, IN, whole}, OUT, TENSOR_F32, KV_E_DTYPE,
         "b: lora_A and lora_B of \"fc.weight\" are I32 and F32"},
        {right_a, OUT, TENSOR_I32, KV_E_DTYPE,
         "base: \"fc.weight\" is I32, to which no adapter can be added"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bool floats = wrong[i].base == TENSOR_F32;
        model[0].type = wrong[i].base;
        model[0].data = floats ? (void *)base : whole;
        adapter[0] = wrong[i].a;
        adapter[1].rows = wrong[i].out;
        buf_release(&file);
        buf_release(&files[1]);
        file = tensor_file(model, floats ? 2 : 1);
        files[1] = wrong[i].a.name ? tensor_file(adapter, 2) : tensor_file(adapter + 1, 1);
        CHECK_ERR(merge_try(&out, &c, &e), wrong[i].code, wrong[i].want);
    }
    buf_release(&files[0]);
    buf_release(&files[1]);
    buf_release(&file);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

/* Every allocation fails, with all that follow and alone: an error and nothing written, or what
 * would have been written anyway. */
TEST(merge_run_without_memory)
{
    IN_FOLDER("out.safetensors", NULL);
    OWN(test_free) float *x = numbers(5000, 1), *y = numbers(5000, 2);
    tensor_given t[] = {{"w", TENSOR_F32, 5000, 0, x}, {"v", TENSOR_F32, 50, 2, y}};
    buf files[] = {tensor_file(t, 2), tensor_file(t, 2)};
    setenv("KVSTORE_THREADS", "1", 1);
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        for (int sign = -1; sign <= 1; sign += 2)
            for (int64_t n = 1, failed = 1; failed; n++) {
                own_checkpoint *out = NULL;
                merge_case c = {.rule = rules[r], .files = files, .nmodels = 2, .base = &files[0],
                                .type = TENSOR_TYPE_END};
                memset(&e, 0, sizeof e);
                unlink("out.safetensors");
                int code = merge_try_failing(&out, &c, n * sign, &failed, &e);
                CHECK(code == KV_OK || code == KV_E_MEMORY);
                CHECK_INT(code, e.code);
                CHECK((access("out.safetensors", F_OK) == 0) == (code == KV_OK));
            }
    buf_release(&files[0]);
    buf_release(&files[1]);
}

/* A nan is as large as inf, and of equal ones the first are in. */
TEST(merge_run_largest_of_nan)
{
    static const char *const texts[] = {"{ merged = largest(models[0], 1) }",
                                        "{ merged = largest(models[0], 2) }",
                                        "{ merged = largest(models[0], 3) }"};
    static const int at[] = {5, 9, WALK_PIECE + 5};
    IN_FOLDER("out.safetensors", NULL);
    OWN(test_free) float *x = numbers(SIZE, 1);
    x[at[0]] = -INFINITY;
    x[at[1]] = NAN;
    x[at[2]] = INFINITY;
    own_buf file = tensor_file(&(tensor_given){"w", TENSOR_F32, SIZE, 0, x}, 1);
    const buf *files = &file;
    for (int k = 0; k < 3; k++) {
        OWN(test_free) float *y = merged(CASE(1, false, texts[k]));
        for (int i = 0; i < SIZE; i++) {
            bool in = false;
            for (int a = 0; a <= k; a++)
                in = in || i == at[a];
            CHECK(in ? !isfinite(y[i]) : y[i] == 0);
        }
    }
}
