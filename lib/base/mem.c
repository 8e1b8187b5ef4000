/* Checked memory. Every allocation of the project passes through `mem_permit`, which lets tests
 * make the n-th one fail; sizes are multiplied with a check before anything is asked of the system.
 */
#include "base/mem.h"

#include <malloc.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/kv_assert.h"

/* The test hook of mem_fail_at: allocations since its last call, and the argument of that call.
 * Atomic, because any thread may allocate. */
static atomic_int_least64_t made;
static atomic_int_least64_t fail_at;

int64_t mem_fail_at(int64_t n)
{
    int64_t before = atomic_exchange(&made, 0);
    atomic_store(&fail_at, n);
    return before;
}

static bool mem_permit(void)
{
    int64_t mine = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed) + 1;
    int64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return at > 0 ? mine < at : mine != -at;
}

/* Limits of threads: how many there are, so that without one nothing is counted, and this one's. */
static atomic_int limits;
static _Thread_local mem_limit *limit;

mem_limit *mem_limit_here(mem_limit *l)
{
    mem_limit *before = limit;
    if (before || l)
        atomic_fetch_add(&limits, (l != NULL) - (before != NULL));
    limit = l;
    return before;
}

static bool is_limited(void)
{
    return atomic_load_explicit(&limits, memory_order_relaxed) > 0 && limit;
}

static bool mem_allows(int64_t bytes)
{
    if (!is_limited() || bytes <= limit->most - limit->used)
        return true;
    limit->refused = true;
    return false;
}

/* A block that another thread took and this one releases does not raise this one's limit. */
static void mem_count(int64_t bytes)
{
    if (is_limited())
        limit->used = limit->used + bytes > 0 ? limit->used + bytes : 0;
}

static void *counted(void *block)
{
    if (block && is_limited())
        mem_count((int64_t)malloc_usable_size(block));
    return block;
}

static void uncount(void *block)
{
    if (block && is_limited())
        mem_count(-(int64_t)malloc_usable_size(block));
}

/* Returns true if a block of that many bytes may be requested. */
static bool may_take(size_t bytes)
{
    return mem_permit() && mem_allows((int64_t)bytes);
}

static int out_of_memory(kv_err *e, uint64_t bytes)
{
    return kv_err_set(e, KV_E_MEMORY, "out of memory (%llu bytes asked for)",
                      (unsigned long long)bytes);
}

static void *mem_refuse(int64_t bytes, kv_err *e)
{
    out_of_memory(e, (uint64_t)bytes);
    return NULL;
}

/* n * size, or an error. Sizes beyond PTRDIFF_MAX are errors too: no object can be that large. */
static bool product(size_t *bytes, int64_t n, size_t size, kv_err *e)
{
    if (n < 0 || __builtin_mul_overflow((size_t)n, size, bytes) || *bytes > PTRDIFF_MAX) {
        kv_err_set(e, KV_E_MEMORY, "out of memory (%lld items of %llu bytes asked for)",
                   (long long)n, (unsigned long long)size);
        return false;
    }
    return true;
}

void *mem_alloc(int64_t n, size_t size, kv_err *e)
{
    size_t bytes = 0;
    if (!product(&bytes, n, size, e))
        return NULL;
    void *block = may_take(bytes) ? counted(malloc(bytes ? bytes : 1)) : NULL;
    if (!block)
        out_of_memory(e, bytes);
    return block;
}

void *mem_zalloc(int64_t n, size_t size, kv_err *e)
{
    size_t bytes = 0;
    if (!product(&bytes, n, size, e))
        return NULL;
    void *block = may_take(bytes) ? counted(calloc(1, bytes ? bytes : 1)) : NULL;
    if (!block)
        out_of_memory(e, bytes);
    return block;
}

/* A large page of x86-64 and, with pages of 4 KB, of arm64. Blocks of a few of them are asked for
 * in such pages; below that the alignment could waste as much as it saves. */
enum { LARGE_PAGE = 2 << 20, LARGE_DATA = 4 * LARGE_PAGE, SPARE_MOST = 256 << 20 };

/* The large blocks that mem_free_data got last, the newest first, or NULL: the elements of an array
 * and the row ids that may come with them. A thread that exchanges one owns the old block. */
enum { SPARES = 2 };
static void *_Atomic spares[SPARES];

static void keep_spare(void *block)
{
    for (int i = 0; i < SPARES && block; i++)
        block = atomic_exchange(&spares[i], block);
    free(block);
}

static void *new_large(size_t bytes)
{
    /* A spare block that fits, at most a quarter too large. Where none does they are given back, so
     * that keeping never makes the most memory in use at a time more than SPARES blocks larger. */
    void *other[SPARES], *block = NULL;
    int n = 0;
    for (int i = 0; i < SPARES && !block; i++) {
        void *spare = atomic_exchange(&spares[i], NULL);
        size_t has = malloc_usable_size(spare);
        if (has >= bytes && has - has / 4 <= bytes)
            block = spare;
        else
            other[n++] = spare;
    }
    while (n > 0)
        if (block)
            keep_spare(other[--n]);
        else
            free(other[--n]);
    if (block || posix_memalign(&block, LARGE_PAGE, bytes))
        return block;
    madvise(block, bytes, MADV_HUGEPAGE); /* only advice: without it all works, slower */
    return block;
}

void *mem_alloc_data(int64_t bytes, kv_err *e)
{
    /* posix_memalign takes any size, and 0 must still give a block of its own. */
    void *block = NULL;
    if (bytes >= 0 && may_take((size_t)bytes)) {
        if (bytes >= LARGE_DATA)
            block = new_large((size_t)bytes);
        else if (posix_memalign(&block, MEM_ALIGN, bytes ? (size_t)bytes : 1))
            block = NULL;
    }
    if (!block)
        out_of_memory(e, (uint64_t)bytes);
    return counted(block);
}

void mem_free_data(void *block)
{
    uncount(block);
    size_t bytes = malloc_usable_size(block);
    if (bytes >= LARGE_DATA && bytes <= SPARE_MOST && (uintptr_t)block % LARGE_PAGE == 0) {
        /* The system may take its pages, which then cost nothing until they are written again. */
        madvise(block, bytes / LARGE_PAGE * LARGE_PAGE, MADV_FREE);
        keep_spare(block);
    } else {
        free(block);
    }
}

int mem_grow(void *block, int64_t *cap, int64_t need, size_t size, kv_err *e)
{
    if (need <= *cap)
        return KV_OK;
    int64_t n = *cap > INT64_MAX / 2 ? need : *cap * 2;
    if (n < need)
        n = need;
    if (n < 8)
        n = 8;
    size_t bytes = 0;
    if (!product(&bytes, n, size, e))
        return KV_E_MEMORY;
    /* The caller's pointer may have any type, so its bytes are copied, not its value. */
    void *old;
    memcpy(&old, block, sizeof old);
    int64_t had = is_limited() ? (int64_t)malloc_usable_size(old) : 0;
    void *grown = mem_permit() && mem_allows((int64_t)bytes - had) ? realloc(old, bytes) : NULL;
    if (!grown)
        return out_of_memory(e, bytes);
    mem_count(-had);
    counted(grown);
    memcpy(block, &grown, sizeof grown);
    *cap = n;
    return KV_OK;
}

void mem_shrink(void *block, int64_t *cap, int64_t n, size_t size)
{
    void *old;
    memcpy(&old, block, sizeof old);
    if (!old || n >= *cap)
        return;
    int64_t kept = n > 0 ? n : 1;
    uncount(old);
    void *less = realloc(old, (size_t)kept * size);
    counted(less ? less : old);
    if (less) {
        memcpy(block, &less, sizeof less);
        *cap = kept;
    }
    /* cppcheck-suppress memleak ; it is in *block */
}

char *mem_text(const char *text, size_t n, kv_err *e)
{
    char *copy = mem_alloc(n < INT64_MAX ? (int64_t)n + 1 : -1, 1, e);
    if (!copy)
        return NULL;
    if (n)
        memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

void mem_free(void *block)
{
    uncount(block);
    free(block);
}

/* ---- Arenas ----------------------------------------------------------------------------- */

struct arena_chunk {
    struct arena_chunk *earlier;
    size_t size;
    alignas(max_align_t) char data[];
};

/* The first chunk of an arena: most syntax trees fit. Each later one doubles the arena. */
#define ARENA_FIRST 4096
/* Chunks double up to this, so that a large arena wastes little of its last one. */
#define ARENA_MOST (1 << 20)

void *arena_alloc(arena *a, size_t bytes, kv_err *e)
{
    const size_t unit = alignof(max_align_t);
    if (bytes > PTRDIFF_MAX / 2) {
        out_of_memory(e, bytes);
        return NULL;
    }
    size_t need = bytes ? (bytes + unit - 1) / unit * unit : unit;
    if (!a->chunk || a->chunk->size - a->used < need) {
        size_t size = a->total_bytes > ARENA_FIRST ? a->total_bytes : ARENA_FIRST;
        if (size > ARENA_MOST)
            size = ARENA_MOST;
        if (size < need)
            size = need;
        struct arena_chunk *c = mem_alloc((int64_t)(sizeof *c + size), 1, e);
        if (!c)
            return NULL;
        c->earlier = a->chunk;
        c->size = size;
        a->chunk = c;
        a->used = 0;
        a->total_bytes += size;
    }
    void *block = a->chunk->data + a->used;
    a->used += need;
    /* Not the whole chunk at once: most arenas of expressions use little of theirs. */
    return memset(block, 0, need);
}

int arena_grow(arena *a, void *block, int64_t *cap, int64_t n, size_t size, kv_err *e)
{
    void *old, *more;
    if (n < *cap)
        return KV_OK;
    int64_t wanted = n > 0 ? 2 * n : 8;
    if (wanted > PTRDIFF_MAX / 2 / (int64_t)size)
        return out_of_memory(e, PTRDIFF_MAX), KV_E_MEMORY;
    if (!(more = arena_alloc(a, (size_t)wanted * size, e)))
        return KV_E_MEMORY;
    memcpy(&old, block, sizeof old);
    if (n > 0)
        memcpy(more, old, (size_t)n * size);
    memcpy(block, &more, sizeof more);
    *cap = wanted;
    return KV_OK;
}

char *arena_text(arena *a, const char *text, size_t n, kv_err *e)
{
    char *copy = arena_alloc(a, n < SIZE_MAX ? n + 1 : n, e);
    if (copy && n)
        memcpy(copy, text, n);
    return copy;
}

void arena_release(arena *a)
{
    for (struct arena_chunk *c = a->chunk; c;) {
        struct arena_chunk *earlier = c->earlier;
        mem_free(c);
        c = earlier;
    }
    *a = (arena){0};
}

/* Slabs of small blocks.
 *
 * A slab is a page of memory, so that the address of a block gives that of its slab. It holds
 * blocks of one size, a multiple of a cache line. The C library would put its own header in front
 * of each block, and with it a gap of a line: of 100,000 arrays of 16 floats a third of the memory
 * would be gaps. The processor prefetches the lines that follow, so gaps also cost time: a loop
 * over such arrays takes half as long without them.
 *
 * The slabs of a size that have room are a list. A slab goes back to the system when its last block
 * is released, except for one of each size: a program that makes and releases one array in turn
 * would ask for a slab each time.
 *
 * Under a sanitizer each block comes from the C library, so that it finds uses after a release. */

enum {
    SLAB = 4 << 10, /* a page */
    FIRST = 2 * MEM_ALIGN,       /* where the first block begins */
    USED = SLAB - MEM_ALIGN,     /* the rest holds the C library's header of the next slab */
    SIZES = MEM_SMALL_MOST / MEM_ALIGN
};

typedef struct slab {
    struct slab *next, *before; /* of those with room */
    struct slab **list;         /* the first of them */
    void **released;            /* a list: each block begins with the address of the next */
    int32_t bytes;              /* of a block */
    int32_t fresh;              /* where the part begins that was never given out */
    int32_t given;              /* blocks in use */
} slab;

_Static_assert(sizeof(slab) <= FIRST, "blocks begin behind the header of their slab");

/* By size, in lines. The lock guards the lists and every slab; nothing is locked under it. */
static slab *with_room[SIZES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool has_room(const slab *s)
{
    return s->released || s->fresh + s->bytes <= USED;
}

static void link_slab(slab *s)
{
    s->before = NULL;
    s->next = *s->list;
    if (s->next)
        s->next->before = s;
    *s->list = s;
}

static void unlink_slab(slab *s)
{
    if (s->next)
        s->next->before = s->before;
    if (s->before)
        s->before->next = s->next;
    else
        *s->list = s->next;
}

/* A slab with room for blocks of that many bytes, or NULL. */
static slab *find_slab(int64_t bytes)
{
    slab **list = &with_room[bytes / MEM_ALIGN - 1];
    void *memory;
    if (*list || posix_memalign(&memory, SLAB, USED))
        return *list;
    slab *s = memory;
    *s = (slab){.list = list, .bytes = (int32_t)bytes, .fresh = FIRST};
    link_slab(s);
    return s;
}

static void *take_block(slab *s)
{
    void **block = s->released;
    if (block) {
        s->released = *block;
    } else {
        block = (void **)((char *)s + s->fresh);
        s->fresh += s->bytes;
    }
    s->given++;
    if (!has_room(s))
        unlink_slab(s);
    return block;
}

void *mem_alloc_small(int64_t bytes, kv_err *e)
{
    if (!kv_assert(bytes > 0 && bytes <= MEM_SMALL_MOST, "a small block of %lld bytes",
                   (long long)bytes))
        return mem_refuse(bytes, e);
    if (MEM_SANITIZED)
        return mem_alloc_data(bytes, e);
    void *block = NULL;
    if (mem_permit() && mem_allows(bytes)) {
        pthread_mutex_lock(&lock);
        slab *s = find_slab(mem_aligned(bytes));
        if (s)
            block = take_block(s);
        pthread_mutex_unlock(&lock);
    }
    if (block)
        mem_count(mem_aligned(bytes));
    return block ? block : mem_refuse(bytes, e);
}

/* Returns the slab if it shall go back to the system. */
static slab *put_block(void **block)
{
    slab *s = (slab *)((uintptr_t)block & ~(uintptr_t)(SLAB - 1));
    if (!has_room(s))
        link_slab(s);
    *block = s->released;
    s->released = block;
    if (--s->given > 0 || (!s->next && !s->before))
        return NULL;
    unlink_slab(s);
    return s;
}

void mem_free_small(void *block)
{
    if (MEM_SANITIZED || !block) {
        mem_free(block);
        return;
    }
    mem_count(-((slab *)((uintptr_t)block & ~(uintptr_t)(SLAB - 1)))->bytes);
    pthread_mutex_lock(&lock);
    slab *empty = put_block(block);
    pthread_mutex_unlock(&lock);
    free(empty);
}
