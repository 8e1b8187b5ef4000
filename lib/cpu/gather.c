/* Rows by number: gathered one behind the other, and scattered back.
 *
 * Numbers of rows are known ahead, so a row is prefetched some rows before it is copied.
 * Rows of a few bytes are moved by loops of their own: a call of memcpy for each would take longer
 * than the memory does.
 */
#include <string.h>

#include "base/compiler.h"
#include "cpu/cpu.h"
#include "cpu/lines.h"

/* Prefetches run that many rows ahead, for that many bytes of each, into the L2 cache: requests for
 * the L1 cache take its few buffers, which copies wait for. Rows of 64 floats on an AMD EPYC: lazy
 * sgd and adam took 1.3 times as long, pulls 1.2 times. */
enum { AHEAD = 24, AHEAD_BYTES = 256, LINE = 64 };

static inline void ask_for(const char *src, int64_t at, int64_t bytes)
{
    int64_t some = bytes < AHEAD_BYTES ? bytes : AHEAD_BYTES;
    for (int64_t i = 0; at >= 0 && i < some; i += LINE)
        __builtin_prefetch(src + at * bytes + i, 0, 2);
}

/* The number of the first n numbers that count up by one. */
static int64_t run_length(const int64_t *at, int64_t n)
{
    int64_t i = 1;
    while (i < n && at[i] == at[0] + i && at[0] >= 0)
        i++;
    return i;
}

/* Rows that are whole lines, one by one: their addresses are what takes time. known: the
 * length of `at`, whose first n rows are gathered. */
static void gather_far_lines(char *dst, const char *src, const int64_t *at, int64_t n,
                             int64_t known, int64_t bytes)
{
    for (int64_t k = 0; k < n; k++) {
        if (k + AHEAD < known)
            ask_for(src, at[k + AHEAD], bytes);
        if (at[k] >= 0)
            lines_copy(dst + k * bytes, src + at[k] * bytes, bytes);
        else
            memset(dst + k * bytes, 0, (size_t)bytes);
    }
    lines_fence();
}

/* Rows of one word. */
static bool is_word(int64_t bytes)
{
    return bytes == 4 || bytes == 8;
}

#define WORDS(name, type)                                                                          \
    static void gather_##name(void *dst, const void *src, const int64_t *at, int64_t n,            \
                              int64_t known)                                                       \
    {                                                                                              \
        type *d = dst;                                                                             \
        const type *s = src;                                                                       \
        int64_t k = 0;                                                                             \
        for (; k < n && k + AHEAD < known; k++) {                                                  \
            __builtin_prefetch(s + (at[k + AHEAD] >= 0 ? at[k + AHEAD] : 0));                      \
            d[k] = at[k] >= 0 ? s[at[k]] : 0;                                                      \
        }                                                                                          \
        for (; k < n; k++)                                                                         \
            d[k] = at[k] >= 0 ? s[at[k]] : 0;                                                      \
    }

WORDS(32, uint32_t)
WORDS(64, uint64_t)

/* Words of up to MOST_WORDS arrays, or back from their rooms: a number is read once for all. On the
 * way back, which waits for no memory, the words of the next rows are asked for, `more` at most:
 * with only one array the processor prefetches them itself. */
enum { MOST_WORDS = 3 };

#define MOVE_WORDS(name, type)                                                                     \
    static inline __attribute__((always_inline)) void some_##name(                                 \
        const row_move *moves, int count, const int64_t *at, int64_t n, int64_t more, bool back)   \
    {                                                                                              \
        for (int64_t k = 0; k < n; k++)                                                            \
            for (int j = 0; j < count; j++) {                                                      \
                type *x = (type *)moves[j].array + at[k], *room = (type *)moves[j].room + k;       \
                if (back && count > 1 && k < more)                                                 \
                    __builtin_prefetch((type *)moves[j].array + at[k + n], 0, 2);                  \
                *(back ? x : room) = *(back ? room : x);                                           \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    static void name(const row_move *moves, int64_t count, const int64_t *at, int64_t n,           \
                     int64_t more, bool back)                                                      \
    {                                                                                              \
        if (count == 3)                                                                            \
            back ? some_##name(moves, 3, at, n, more, true)                                        \
                 : some_##name(moves, 3, at, n, more, false);                                      \
        else if (count == 2)                                                                       \
            back ? some_##name(moves, 2, at, n, more, true)                                        \
                 : some_##name(moves, 2, at, n, more, false);                                      \
        else                                                                                       \
            back ? some_##name(moves, 1, at, n, more, true)                                        \
                 : some_##name(moves, 1, at, n, more, false);                                      \
    }

MOVE_WORDS(words_32, uint32_t)
MOVE_WORDS(words_64, uint64_t)

/* Moves the words among the rows. */
static void move_words(const row_move *moves, int64_t nmoves, const int64_t *at, int64_t n,
                       int64_t more, bool back)
{
    for (int64_t j = 0, count; j < nmoves; j += count) {
        int64_t bytes = moves[j].bytes;
        count = 1;
        while (count < MOST_WORDS && j + count < nmoves && moves[j + count].bytes == bytes)
            count++;
        if (bytes == 4)
            words_32(moves + j, count, at, n, more, back);
        else if (bytes == 8)
            words_64(moves + j, count, at, n, more, back);
    }
}

/* Half a line, which may begin at any byte: whole ones GCC 12 copies through the stack on AVX2. */
typedef uint64_t half_line __attribute__((vector_size(LINE / 2), aligned(1), may_alias));

#define COPY_HALF(i) (((half_line *)(void *)dst)[i] = ((const half_line *)(const void *)src)[i])
#define COPY_LINE(i) (COPY_HALF(2 * (i)), COPY_HALF(2 * (i) + 1))

/* Copies one row. No loop copies the lines of a short one, for compilers take it for memcpy. */
static inline __attribute__((always_inline)) void copy_row(char *dst, const char *src,
                                                           int64_t bytes)
{
    if (bytes % LINE != 0 || bytes > 4 * LINE || bytes == 0) {
        memcpy(dst, src, (size_t)bytes);
        return;
    }
    COPY_LINE(0);
    if (bytes > LINE)
        COPY_LINE(1);
    if (bytes > 2 * LINE)
        COPY_LINE(2);
    if (bytes > 3 * LINE)
        COPY_LINE(3);
}

/* Rows of one dtype, at numbers that may be negative. */
CPU_CLONES static void gather_same(char *dst, const char *src, const int64_t *at, int64_t n,
                                   int64_t known, int64_t bytes)
{
    for (int64_t k = 0; k < n; k++) {
        if (k + AHEAD < known)
            ask_for(src, at[k + AHEAD], bytes);
        if (at[k] >= 0)
            copy_row(dst + k * bytes, src + at[k] * bytes, bytes);
        else
            memset(dst + k * bytes, 0, (size_t)bytes);
    }
}

CPU_CLONES static void scatter(char *dst, const char *src, const int64_t *at, int64_t n,
                               int64_t bytes)
{
    for (int64_t k = 0; k < n; k++)
        copy_row(dst + at[k] * bytes, src + k * bytes, bytes);
}

void gather_rows(void *dst, kv_dtype to, const void *src, kv_dtype from, const int64_t *at,
                 int64_t n, int64_t more, int64_t row, bool far)
{
    int64_t wide = row * kv_dtype_bytes(to), bytes = row * kv_dtype_bytes(from), known = n + more;
    bool same = to == from && to != KV_BOOL;
    if (far && same && bytes % LINE == 0 && (uintptr_t)dst % LINE == 0) {
        gather_far_lines(dst, src, at, n, known, bytes);
        return;
    }
    if (same && bytes == 4) {
        gather_32(dst, src, at, n, known);
        return;
    }
    if (same && bytes == 8) {
        gather_64(dst, src, at, n, known);
        return;
    }
    if (same) {
        gather_same(dst, src, at, n, known, bytes);
        return;
    }
    for (int64_t k = 0, m; k < n; k += m) {
        char *d = (char *)dst + k * wide;
        m = run_length(at + k, n - k);
        if (k + AHEAD < known)
            ask_for(src, at[k + AHEAD], bytes);
        if (at[k] < 0)
            memset(d, 0, (size_t)wide);
        else
            convert_elements(d, to, (const char *)src + at[k] * bytes, from, m * row);
    }
}

/* Rows of several arrays, one row of each in turn: their memory, and that of what is read beside
 * them, comes at the same time. Rows that are words are left to others. */
CPU_CLONES static void gather_wide(const row_move *moves, int64_t nmoves, const int64_t *at,
                                   int64_t n, int64_t known, const char *beside,
                                   int64_t beside_bytes)
{
    for (int64_t k = 0; k < n; k++) {
        for (int64_t i = 0; i < beside_bytes; i += LINE)
            __builtin_prefetch(beside + k * beside_bytes + i, 0, 2);
        for (int64_t j = 0; j < nmoves; j++) {
            const row_move *x = &moves[j];
            int64_t ahead = x->bytes > 4 * LINE ? 4 : AHEAD;
            if (is_word(x->bytes))
                continue;
            if (k + ahead < known)
                ask_for(x->array, at[k + ahead], x->bytes);
            copy_row((char *)x->room + k * x->bytes, (const char *)x->array + at[k] * x->bytes,
                     x->bytes);
        }
    }
}

void gather_each(const row_move *moves, int64_t nmoves, const int64_t *at, int64_t n, int64_t more,
                 const void *beside, int64_t beside_bytes)
{
    bool wide = false;
    for (int64_t j = 0; j < nmoves; j++)
        wide |= !is_word(moves[j].bytes);
    move_words(moves, nmoves, at, n, n + more, false);
    if (wide)
        gather_wide(moves, nmoves, at, n, n + more, beside, beside ? beside_bytes : 0);
}

void scatter_each(const row_move *moves, int64_t nmoves, const int64_t *at, int64_t n, int64_t more)
{
    move_words(moves, nmoves, at, n, more, true);
    for (int64_t j = 0; j < nmoves; j++)
        if (!is_word(moves[j].bytes))
            scatter(moves[j].array, moves[j].room, at, n, moves[j].bytes);
}
