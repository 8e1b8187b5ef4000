/* Plans as source text for GPUs where rows matter: rules whose input is some rows of a row_sparse
 * key, and rules that work row by row. plan_text.h has the others.
 *
 * A rule that does not work row by row has a kernel for each pass, whose threads take an element
 * each. One that does has a single kernel for all passes: a thread has a row, whose numbers are
 * variables and whose sums are added in the order of the CPU (vm/plan_rows.c).
 *
 * Worked example, stored += input * 2 behind `rows present`:
 *     for (kv_i64 i = at + kv_lane(); i < at + m; i += JOB_TEAM) {
 *         const kv_i64 row = i / j->row, column = i % j->row;
 *         const kv_i64 e = j->index[row] * j->row + column, in = i;
 *         const float v0 = ((const float *)j->more[0])[e];
 *         const float v1 = ((const float *)j->src[0])[in];
 *         const float v2 = (float)(v0*k0 + v1*k1);
 *         ((float *)j->more[0])[e] = v2;
 *     }
 */
#ifndef VM_PLAN_TEXT_ROWS_H
#define VM_PLAN_TEXT_ROWS_H

#include "vm/plan.h"

/* Which rows a kernel goes through, which are present, and where their input is in src[0]. */
typedef enum plan_form {
    PLAN_ROWS_ALL,     /* every row; all are present; input row r is row r */
    PLAN_ROWS_SPREAD,  /* every row; all are present; input row r is row index[r], or zeros */
    PLAN_ROWS_PRESENT, /* the rows index[k], which are present; their input is row k */
    PLAN_ROWS_SOME     /* every row; row r is present where index[r] is not negative; its input is
                          that row, or zeros */
} plan_form;

/* The places of arrays in `more` of a job. */
enum {
    PLAN_AT_STORED,
    PLAN_AT_WEIGHT,
    PLAN_AT_STATE, /* and on, by number of the state */
    PLAN_AT_END = PLAN_AT_STATE + PLAN_MAX_STATES
};

/* The elements of a job that stand for one row, where a thread has a row. Tiles of a launch are a
 * multiple of it. */
enum { PLAN_ROW_ELEMENTS = 32 };

/* Whether a plan can run this way. Reductions over all elements cannot. */
bool plan_text_rows_possible(const plan *p);

/* Its kernels: one a pass, of which some have none, or one alone. */
int plan_text_rows_kernels(const plan *p);
bool plan_text_rows_has(const plan *p, int kernel);

/* The form of a kernel. rows: some rows are present, the others are not; else the input is all
 * rows, or with `spread` some of them, the others being zeros. */
plan_form plan_text_rows_form(const plan *p, int kernel, bool rows, bool spread);

/* Whether a job of the kernel has PLAN_ROW_ELEMENTS elements for each row, not the row's own. */
bool plan_text_rows_is_by_row(const plan *p);

/* The kernel, called `name`. Errors end in out. */
void plan_text_rows(buf *out, const plan *p, int kernel, plan_form form, const char *name);

/* The words that a job needs: the constants of its programs, then what normal() draws from. */
int64_t plan_text_rows_words(const plan *p, int kernel);
void plan_text_rows_fill(double *words, const plan *p, int kernel, uint64_t seed, int64_t t);

/* Whether they are the same for all keys. */
bool plan_text_rows_is_shared(const plan *p, int kernel);

#endif
