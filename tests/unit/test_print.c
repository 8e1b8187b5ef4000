/* print: character by character what numpy prints. */
#include "test.h"

#include <inttypes.h>

#include "io/print.h"
#include "test_io.h"

static void check_print(kv_array *a, const print_style *style, const char *want)
{
    own_buf b = {0};
    CHECK_OK(print_array(&b, a, style, &e));
    CHECK_TEXT(buf_text(&b), want);
}

/* A line `dtype (shape) precision threshold edgeitems linewidth: numbers`, where numbers may be
 * `start + step i`, then numpy's str, its repr, and its str in its mode of version 1.13, with lines
 * -- between them. */
static void check_case(char *text)
{
    char name[16], sign;
    int64_t shape[6], size = 1;
    print_style style = {PRINT_NUMPY, 0, 0, 0, 0, false};
    kv_dtype dtype;
    int ndim = 0, n;
    CHECK_INT(sscanf(text, "%15s (%n", name, &n), 1);
    CHECK_OK(kv_dtype_parse(&dtype, name, &e));
    char *at = text + n;
    for (; *at != ')'; at += *at == ',') {
        shape[ndim] = strtoll(at, &at, 10);
        size *= shape[ndim++];
    }
    int read = sscanf(at, ") %d %" SCNd64 " %d %d:%n", &style.precision, &style.threshold,
                      &style.edgeitems, &style.linewidth, &n);
    CHECK_INT(read, 4);
    at += n;
    double *x = malloc(sizeof *x * (size_t)(size + 1)), start, step;
    bool ramp = sscanf(at, "%lf + %lf %c", &start, &step, &sign) == 3;
    for (int64_t j = 0; j < size; j++) {
        x[j] = ramp ? start + step * (double)j : strtod(at, &at);
        if (dtype == KV_BOOL)
            x[j] = x[j] != 0;
    }
    own_array *a = io_array(dtype, ndim, shape, x);
    static const print_format formats[] = {PRINT_NUMPY, PRINT_REPR, PRINT_LEGACY};
    char *want = strchr(text, '\n') + 1;
    for (int i = 0; i < 3; i++) {
        char *end = strstr(want, i < 2 ? "\n--\n" : "\n==\n");
        CHECK(end != NULL);
        *end = 0;
        style.format = formats[i];
        check_print(a, &style, want);
        want = end + 4;
    }
    free(x);
}

/* What numpy 1.26 prints. */
TEST(print_as_numpy)
{
    FILE *f = popen("gzip -dc tests/unit/print_cases.gz", "r");
    CHECK(f != NULL);
    static char texts[100000];
    texts[fread(texts, 1, sizeof texts - 1, f)] = 0;
    CHECK_INT(pclose(f), 0);
    int n = 0;
    for (char *text = texts, *end; *text; text = end + 4, n++) {
        end = strstr(text, "\n==\n");
        CHECK(end != NULL);
        check_case(text);
    }
    CHECK_INT(n, 101);
}

/* numpy has no bfloat16: it prints like float32, with the digits that name a bfloat16. */
TEST(print_bfloat16)
{
    print_style style = print_style_default();
    own_array *a = io_array(KV_BFLOAT16, 1, (int64_t[]){3}, (double[]){0.5, 3, -250});
    check_print(a, &style, "[   0.5    3.  -250. ]");
    style.format = PRINT_REPR;
    check_print(a, &style, "array([   0.5,    3. , -250. ], dtype=bfloat16)");
    kv_array_unref(a);
    a = io_array(KV_BFLOAT16, 1, (int64_t[]){2}, (double[]){1e-5, 3e38});
    check_print(a, &style, "array([1.e-05, 3.e+38], dtype=bfloat16)");
    kv_array_unref(a);
    a = io_array(KV_BFLOAT16, 0, NULL, (double[]){1 / 3.0});
    check_print(a, &style, "array(0.334, dtype=bfloat16)");
    style.format = PRINT_NUMPY;
    check_print(a, &style, "0.334");
}

TEST(print_no_memory)
{
    own_array *a = io_array(KV_FLOAT32, 2, (int64_t[]){2, 3}, (double[]){1, 2, 3, 4, 5, 6});
    print_style style = print_style_default();
    for (int n = 1, rc = KV_E_MEMORY; rc; n++) {
        own_buf b = {0};
        rc = WITHOUT_MEMORY(n, print_array(&b, a, &style, &e));
        CHECK(n < 20);
    }
}

TEST(print_extremes)
{
    /* Every style with the largest and smallest numbers and odd settings: no crash, some text. */
    uint64_t state = 5;
    for (int d = 0; d < NDTYPES; d++) {
        for (int s = 0; s < NSHAPES; s++) {
            kv_array *a =
                io_random_array(all_dtypes[d], io_shapes[s].ndim, io_shapes[s].shape, &state);
            for (int k = 0; k < 81; k++) {
                print_style style = {(print_format)(k % 3), (int[]){0, 8, 300}[k / 3 % 3],
                                     (int[]){0, 5, 1000}[k / 9 % 3], (int[]){0, 1, 100}[k / 27 % 3],
                                     (int[]){0, 10, 75}[k % 3], false};
                own_buf b = {0};
                CHECK_OK(print_array(&b, a, &style, &e));
                CHECK(b.len > 0 && b.data[b.len - 1] != '\n');
            }
            kv_array_unref(a);
        }
    }
}

TEST(print_last_item_alone)
{
    /* Without items at the ends the last one is shown all the same, and laid out like any other. */
    print_style style = {PRINT_NUMPY, 8, 0, 0, 75, false};
    own_array *a = io_array(KV_FLOAT64, 1, (int64_t[]){4}, (double[]){1, 2, 3, -1e20});
    own_buf b = {0};
    CHECK_OK(print_array(&b, a, &style, &e));
    CHECK_TEXT(buf_text(&b), "[... -1.e+20]");
}
