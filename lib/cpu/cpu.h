/* The loops over elements in host memory. Each is the reference of what GPUs do (array/device.h),
 * which give the same bits.
 *
 * Counts are elements unless named _bytes, and regions do not overlap unless a comment allows it.
 *
 * Conversions: float to integer truncates towards zero and saturates, nan becomes 0; integer to
 * integer wraps; anything to bool is x != 0; to a float rounds to nearest even.
 *
 * The functions named stream_, and functions with `far`, store past the caches, for results that
 * are too large to stay in a cache and are not read soon: to write a line the ordinary way it must
 * be read first. The bits are the same.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kv_dtype.h"

/* dst[i] = src[i], converted. */
void convert_elements(void *dst, kv_dtype to, const void *src, kv_dtype from, int64_t n);
void stream_convert(void *dst, kv_dtype to, const void *src, kv_dtype from, int64_t n);

/* dst[i] = src[i] rounded to odd (head of convert.c): rounding that again, to a float of at most 22
 * bits of significand, gives what rounding src[i] once gives. Not from float16 or bfloat16. */
void convert_to_odd(float *dst, const void *src, kv_dtype from, int64_t n);

/* dst[i] = src[0][i] + src[1][i] + …, added left to right, nsrc >= 1, all of one dtype. float16 and
 * bfloat16 add in float32 and round once; integers wrap; bool is OR. dst may be src[0] but no other
 * source. */
void sum_elements(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n);
void stream_sum(void *dst, const void *const *src, int64_t nsrc, kv_dtype dtype, int64_t n);

/* The same sum to each of ndst places in one pass, 1 <= ndst <= STREAM_PLACES. A place may be a
 * source, but the first one only src[0]. Returns false, and nothing is written, where one pass is
 * not possible: the places begin at different bytes of a line, or there are too few or too many
 * sources. */
enum { STREAM_PLACES = 16 };
bool stream_sums(void *const *dst, int64_t ndst, const void *const *src, int64_t nsrc,
                 kv_dtype dtype, int64_t n);

/* The bytes at src to each of ndst places. */
void stream_copies(void *const *dst, int64_t ndst, const void *src, int64_t bytes);

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Some rows of a row_sparse array: their ids, ascending, and their elements. */
typedef struct sparse_rows {
    const int64_t *ids;
    int64_t n;
    const void *data;
} sparse_rows;

/* The number of the first of n ascending ids, from number `from` on, that is at least id; n where
 * there is none. The next id wanted mostly lies near the last one found, so the steps begin small
 * and double. */
static inline int64_t row_ids_find(const int64_t *ids, int64_t from, int64_t n, int64_t id)
{
    int64_t step = 1, low = from, high;
    while (low + step <= n && ids[low + step - 1] < id) {
        low += step;
        step *= 2;
    }
    high = low + step <= n ? low + step - 1 : n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Row k of dst = row at[k] of src, converted, or zeros where at[k] is negative, for n rows of `row`
 * elements. more: as many numbers follow those n, whose rows are wanted next. */
void gather_rows(void *dst, kv_dtype to, const void *src, kv_dtype from, const int64_t *at,
                 int64_t n, int64_t more, int64_t row, bool far);

/* Rows of an array, and room for some of them. */
typedef struct row_move {
    void *array, *room;
    int64_t bytes; /* of a row */
} row_move;

/* Row k of each room = row at[k] of its array, for n rows. beside: NULL, or memory that is read
 * behind this, beside_bytes for each row: it is asked for meanwhile. */
void gather_each(const row_move *moves, int64_t nmoves, const int64_t *at, int64_t n, int64_t more,
                 const void *beside, int64_t beside_bytes);

/* The way back: row at[k] of each array = row k of its room. more: as many numbers follow those n,
 * whose rows are gathered next. */
void scatter_each(const row_move *moves, int64_t nmoves, const int64_t *at, int64_t n,
                  int64_t more);

/* The sum of nsrc >= 1 row_sparse arrays with rows of `row` elements. dst has ndst rows, whose ids
 * (ascending) are those of all sources together. Each is 0, to which the sources that hold the row
 * are added in their order, by the rules of sum_elements. room: memory for nsrc numbers of 64 bits
 * a worker of the thread pool. */
void sum_rows(void *dst, const int64_t *ids, int64_t ndst, const sparse_rows *src, int64_t nsrc,
              kv_dtype dtype, int64_t row, void *room);

/* The same sum of sources of one length, row > 0, whose ids are expected to be the same: they are
 * copied to ids, which has room for those of a source, as dst has for its rows. Returns false if
 * the ids differ; dst and ids are undefined then. room: nsrc + 1 pointers a worker. */
bool sum_same_rows(void *dst, int64_t *ids, const sparse_rows *src, int64_t nsrc, kv_dtype dtype,
                   int64_t row, void *room);

/* ---- Gradient compression -------------------------------------------------------------------- */

/* Codes of compressed gradients, by their bits. Element 0 is in the highest bits of byte 0; codes
 * fill whole 32-bit words, and the bits behind the last element are 0. (MXNet's layout) */
typedef enum quantise_code { QUANTISE_1BIT = 1, QUANTISE_2BIT = 2 } quantise_code;

/* Bytes of the codes of n elements. */
static inline int64_t quantise_bytes(quantise_code code, int64_t n)
{
    int64_t in_word = 32 / (int64_t)code;
    return (n / in_word + (n % in_word != 0)) * 4;
}

/* Codes of n float32 elements, quantise_bytes of them. For each element r = residual[i] + src[i],
 * then with 2 bits and t = threshold > 0:
 *   r >= t: code 11, residual[i] = r - t; r <= -t: code 10, r + t; else code 00, r (also nan);
 * and with 1 bit: r > t: code 1, residual[i] = r - 1; else code 0, r + 1. */
void quantise_encode(void *codes, float *residual, const float *src, quantise_code code,
                     float threshold, int64_t n);

/* dst[i] = the number that code i means: t, -t, 0 (00 and 01); or 1 and -1. */
void quantise_decode(float *dst, const void *codes, quantise_code code, float threshold, int64_t n);

/* Both steps without the codes, for nsrc gradients and their residuals: residual[j][i] as
 * quantise_encode leaves it, dst[i] = sum[i] and then, from left to right, the numbers that their
 * codes i would mean. sum: NULL is zeros, and dst may be sum. far is about dst, unless it is
 * sum. */
void quantise_sum(float *dst, const float *sum, float *const *residual, const float *const *src,
                  int64_t nsrc, quantise_code code, float threshold, int64_t n, bool far);
