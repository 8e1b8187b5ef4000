/* Blocks of memory that nothing points to when a process ends.
 *
 * What may point to a block: every word of memory that can be written, the stack above this
 * function, and, again and again, the blocks that were found this way. A pointer into the middle of
 * a block counts. So no leak is reported that is none, but one that an old word happens to point to
 * is missed.
 */
#include "faults.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS (1 << 16)
#define MOST  (SLOTS / 2)

typedef struct block {
    uintptr_t begin;
    uint64_t bytes;
    int64_t number; /* of its allocation */
    void *caller;
    bool found;
} block;

static block *table;
static int64_t n, number;
static atomic_flag lock = ATOMIC_FLAG_INIT;

static void take(void)
{
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        ;
}

static void give(void)
{
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

static block *fresh(void)
{
    long p = syscall(SYS_mmap, NULL, SLOTS * sizeof(block), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
    if (p == -1)
        abort();
    return (block *)p; /* NOLINT(performance-no-int-to-ptr) */
}

static int64_t slot_of(uintptr_t begin)
{
    int64_t i = (int64_t)((begin >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 48);
    while (table[i].begin && table[i].begin != begin)
        i = (i + 1) % SLOTS;
    return i;
}

void blocks_add(void *p, uint64_t bytes, void *caller)
{
    if (!p)
        return;
    take();
    if (!table)
        table = fresh();
    number++;
    if (n == MOST)
        abort();
    block *b = &table[slot_of((uintptr_t)p)];
    n += b->begin == 0;
    *b = (block){(uintptr_t)p, bytes, number, caller, false};
    give();
}

void blocks_drop(void *p)
{
    if (!p || !table)
        return;
    take();
    int64_t i = slot_of((uintptr_t)p);
    if (table[i].begin) {
        table[i].begin = 0;
        n--;
        /* those behind it may have wanted this slot */
        for (int64_t k = (i + 1) % SLOTS; table[k].begin; k = (k + 1) % SLOTS) {
            block b = table[k];
            table[k].begin = 0;
            table[slot_of(b.begin)] = b;
        }
    }
    give();
}

/* ---- Marking --------------------------------------------------------------------------------- */

static block *list; /* in the order of their places */
static int64_t *todo, ntodo;

static int compare(const void *a, const void *b)
{
    uintptr_t x = ((const block *)a)->begin, y = ((const block *)b)->begin;
    return x < y ? -1 : x > y;
}

static void look(uintptr_t word)
{
    if (word < list[0].begin || word > list[n - 1].begin + list[n - 1].bytes)
        return;
    int64_t low = 0, high = n;
    while (high - low > 1) {
        int64_t mid = (low + high) / 2;
        *(list[mid].begin <= word ? &low : &high) = mid;
    }
    if (word <= list[low].begin + list[low].bytes && !list[low].found) {
        list[low].found = true;
        todo[ntodo++] = low;
    }
}

static void look_through(uintptr_t from, uintptr_t to)
{
    for (uintptr_t at = (from + 7) / 8 * 8; at + 8 <= to; at += 8) {
        uintptr_t word;
        memcpy(&word, (void *)at, 8); /* NOLINT(performance-no-int-to-ptr) */
        look(word);
    }
}

/* A part of memory without what this file has in it, and without the blocks themselves. */
static void look_around(uintptr_t from, uintptr_t to, const uintptr_t (*not)[2], int nnot)
{
    for (int i = 0; i < nnot; i++) {
        if (not[i][1] <= from || not[i][0] >= to)
            continue;
        look_around(from, not[i][0], not, nnot);
        look_around(not[i][1], to, not, nnot);
        return;
    }
    look_through(from, to);
}

/* The lines of /proc/self/maps that can be written and are not the heap. */
static void look_at_all(const char *sp, const uintptr_t (*not)[2], int nnot)
{
    static char text[1 << 16];
    int fd = (int)syscall(SYS_openat, -100, "/proc/self/maps", 0, 0);
    size_t len = 0;
    for (long got; (got = syscall(SYS_read, fd, text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)got;
    syscall(SYS_close, fd);
    text[len] = '\0';
    for (char *line = text, *end; *line; line = *end ? end + 1 : end) {
        end = strchr(line, '\n') ? strchr(line, '\n') : line + strlen(line);
        char *at, keep = *end;
        *end = '\0';
        uintptr_t from = strtoul(line, &at, 16), to = strtoul(at + 1, &at, 16);
        bool is_ours = strncmp(at, " rw-p", 5) == 0 && !strstr(line, "[heap]");
        if (from <= (uintptr_t)sp && (uintptr_t)sp < to)
            from = (uintptr_t)sp;
        if (is_ours)
            look_around(from, to, not, nnot);
        *end = keep;
    }
}

/* Libraries lose blocks of their own when there is no memory, regcomp and newlocale of the C
 * library among them. */
static bool is_ours(void *caller)
{
    Dl_info about;
    return !dladdr(caller, &about) || !about.dli_fname || strstr(about.dli_fname, "kvctl") ||
           strstr(about.dli_fname, "kvstore");
}

void blocks_find_leaks(fault_page *page)
{
    if (!table || n == 0)
        return;
    list = fresh();
    todo = (int64_t *)fresh();
    int64_t k = 0;
    for (int64_t i = 0; i < SLOTS; i++)
        if (table[i].begin)
            list[k++] = table[i];
    qsort(list, (size_t)n, sizeof *list, compare);
    /* large blocks have mappings of their own */
    uintptr_t not[67][2];
    int nnot = 0;
    void *own[] = {table, list, todo};
    for (int i = 0; i < 3; i++, nnot++) {
        not[nnot][0] = (uintptr_t)own[i];
        not[nnot][1] = (uintptr_t)own[i] + SLOTS * sizeof(block);
    }
    table = NULL; /* these pointers are of no use to find blocks by */
    for (int64_t i = 0; i < n && nnot < 67; i++)
        if (list[i].bytes >= 100000) {
            not[nnot][0] = list[i].begin;
            not[nnot++][1] = list[i].begin + list[i].bytes;
        }
    look_at_all(__builtin_frame_address(0), (const uintptr_t(*)[2])not, nnot);
    while (ntodo > 0) {
        const block *b = &list[todo[--ntodo]];
        look_through(b->begin, b->begin + b->bytes);
    }
    for (int64_t i = 0; i < n; i++) {
        if (list[i].found)
            continue;
        if (!is_ours(list[i].caller)) {
            page->foreign_leaks++;
            continue;
        }
        if (page->leaks++ == 0 || list[i].number < page->first_leak) {
            page->first_leak = list[i].number;
            page->first_bytes = (int64_t)list[i].bytes;
        }
    }
}
