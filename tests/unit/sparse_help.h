/* Arrays of 5 x 2 whose rows are given as texts: "1=5 3=0.5" holds the rows 1 and 3, of 5, 5 and of
 * 0.5, 0.5.
 */
#pragma once

#include "store_help.h"

enum { SPARSE_ROWS = 5 };

/* The rows of a text; gives their number. */
static inline int parse_rows(const char *text, int64_t *ids, double *x)
{
    int n = 0;
    for (int used; sscanf(text, " %ld=%lf%n", &ids[n], &x[n], &used) == 2; text += used)
        n++;
    CHECK_INT(text[strspn(text, " ")], 0);
    return n;
}

static inline kv_array *rows_as(kv_dtype dtype, const char *text, kv_ctx ctx)
{
    int64_t ids[SPARSE_ROWS];
    double x[SPARSE_ROWS];
    int n = parse_rows(text, ids, x);
    own_array *a = MADE(kv_array, kv_array_new_sparse, KV_FLOAT64, 2, (int64_t[]){SPARSE_ROWS, 2},
                        n, ids, cpu0);
    double *data = row_data(a);
    for (int i = 0; i < 2 * n; i++)
        data[i] = x[i / 2];
    return MADE(kv_array, kv_array_dup, a, dtype, ctx);
}

static inline kv_array *rows(const char *text)
{
    return rows_as(KV_FLOAT32, text, cpu0);
}

/* a holds these rows and no others. */
static inline void check_rows(kv_array *a, const char *text)
{
    int64_t ids[SPARSE_ROWS];
    double x[SPARSE_ROWS];
    int n = parse_rows(text, ids, x);
    CHECK_INT(kv_array_nrows(a), n);
    own_array *wide = MADE(kv_array, kv_array_dup, a, KV_FLOAT64, cpu0);
    const double *data = row_elements(wide);
    for (int i = 0; i < 2 * n; i++) {
        CHECK_INT(kv_array_row_ids(a)[i / 2], ids[i / 2]);
        CHECK(data[i] == x[i / 2]);
    }
}
