/* Slabs of small blocks.
 *
 * A slab is a page of memory, so that a block finds its begin, and holds blocks of one
 * size: a multiple of a cache line. The C library would put its own header in front of each block,
 * and with it a gap of a line: of 100,000 arrays of 16 floats a third of the memory would be gaps.
 * The processor prefetches the lines that follow, so gaps also cost time: a loop over such arrays
 * takes half as long without them.
 *
 * The slabs of a size that have room are a list. A slab goes back to the system when its last block
 * is released, but for one of each size: a program that makes and releases one array in turn would
 * ask for a slab each time.
 *
 * Under a sanitizer each block is one of the C library, so that it finds what is used too late.
 */
#include "base/mem_small.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/kv_assert.h"

enum {
    SLAB = 4 << 10, /* a page */
    FIRST = 2 * MEM_ALIGN,       /* where the first block begins */
    USED = SLAB - MEM_ALIGN,     /* what is left is for the C library's header of the next slab */
    SIZES = MEM_SMALL_MOST / MEM_ALIGN
};

typedef struct slab {
    struct slab *next, *before; /* of those with room */
    struct slab **list;         /* the first of them */
    void **released;            /* blocks, each of which begins with the address of the next one */
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
