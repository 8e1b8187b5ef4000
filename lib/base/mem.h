/* All memory comes from here: sizes are checked for overflow, and a test can make the n-th call
 * fail. Here also stand the words for what a block owns (OWN) and for steps that may fail (TRY).
 *
 * Out of memory is an error like any other: the functions return NULL (or a code) and fill e. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kv_err.h"

/* n items of `size` bytes, not initialised; never NULL on success, not even for n = 0. */
void *mem_alloc(int64_t n, size_t size, kv_err *e);

/* The same, all zero. */
void *mem_zalloc(int64_t n, size_t size, kv_err *e);

/* A block of `bytes` aligned to MEM_ALIGN, for array data; released with mem_free or mem_free_data.
 * The first write of each page of fresh memory costs more than most loops over it. So a large block
 * asks the system for large pages, and the last two large ones that mem_free_data got back are
 * kept, up to 256 MB each, for the next of about their size. The system may take its memory while
 * it is unused. */
void *mem_alloc_data(int64_t bytes, kv_err *e);
void mem_free_data(void *block);

#define MEM_ALIGN 64 /* a cache line, and the widest vector register */

/* The next multiple of MEM_ALIGN. bytes: at least 0. */
static inline int64_t mem_aligned(int64_t bytes)
{
    return (bytes + MEM_ALIGN - 1) & ~(int64_t)(MEM_ALIGN - 1);
}

/* n, but no more than `most`. */
static inline int64_t at_most(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* Makes room for `need` items in the block *block of *cap items, at least doubling it. *block is a
 * pointer to the items' pointer. On failure nothing changes. */
int mem_grow(void *block, int64_t *cap, int64_t need, size_t size, kv_err *e);

/* Gives back the room of a grown block beyond n items; the items may move. Cannot fail: at worst
 * the block stays as large as it is. */
void mem_shrink(void *block, int64_t *cap, int64_t n, size_t size);

/* A copy of n bytes of text with a NUL behind it. */
char *mem_text(const char *text, size_t n, kv_err *e);

/* Releases a block of any function above; NULL is allowed. */
void mem_free(void *block);

/* A variable declared with OWN(f) is released at the end of its block, however that is left: f gets
 * its address. The header of a type has a word for it, such as own_buf. To give away what such a
 * variable holds, set it to NULL or {0} afterwards. */
#define OWN(release) __attribute__((cleanup(release)))

/* A step of a function that returns an error code: goes on where it succeeds, and returns its code
 * where it fails. Only where all that the function holds at that point is released at the
 * ends of blocks. */
#define TRY(step)                                                                                  \
    do {                                                                                           \
        int try_rc = (step);                                                                       \
        if (try_rc)                                                                                \
            return try_rc;                                                                         \
    } while (0)

/* own_mem int64_t *ids = mem_alloc(…); the type is written, since a block may be of any. */
#define own_mem OWN(mem_release)
static inline void mem_release(void *address)
{
    void *block;
    memcpy(&block, address, sizeof block);
    mem_free(block);
}

/* A limit of what a thread that works for somebody else may hold: bytes that it took and did not
 * release. What would go beyond it is refused as if there were no memory. */
typedef struct mem_limit {
    int64_t most, used;
    bool refused;
} mem_limit;

/* The limit of this thread from now on, which stays the caller's; NULL, as at the start: none.
 * Returns the one before. */
mem_limit *mem_limit_here(mem_limit *limit);

/* 1 in a build that watches each block of the C library, where memory should not be kept. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEM_SANITIZED 1
#else
#define MEM_SANITIZED 0
#endif

/* For tests: the n-th allocation from now on fails, and all that follow (n = 1: the next one). With
 * -n only the n-th fails, which finds code that forgets an error and goes on: if the following ones
 * failed too, the next allocation would report it. 0 switches it off. Returns the number of
 * allocations made since the last call. */
int64_t mem_fail_at(int64_t n);

/* An arena: many small blocks that are released together. All zero is an empty arena. */
typedef struct arena {
    struct arena_chunk *chunk; /* the one being filled; it links to the earlier ones */
    size_t used;
    size_t total_bytes; /* of all chunks */
} arena;

/* `bytes` zeroed bytes aligned for any type. */
void *arena_alloc(arena *a, size_t bytes, kv_err *e);

/* Makes room for one item behind the n of *block, a pointer to the items' pointer, which has room
 * for *cap. What was there stays in the arena. On failure nothing changes. */
int arena_grow(arena *a, void *block, int64_t *cap, int64_t n, size_t size, kv_err *e);

/* A copy of n bytes of text with a NUL behind it. */
char *arena_text(arena *a, const char *text, size_t n, kv_err *e);

/* Gives everything back and leaves an empty arena. */
void arena_release(arena *a);
#define own_arena OWN(arena_release) arena

/* Small blocks, aligned like all array data and side by side: a program that has very many of one
 * size, and walks over them in the order in which it made them, reads memory without gaps. */
enum { MEM_SMALL_MOST = 1536 }; /* bytes */

/* A block of 1 to MEM_SMALL_MOST bytes, aligned to MEM_ALIGN, not initialised. Any thread may
 * release it, but only with mem_free_small; NULL is allowed. */
void *mem_alloc_small(int64_t bytes, kv_err *e);
void mem_free_small(void *block);
