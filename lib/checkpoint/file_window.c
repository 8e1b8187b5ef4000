/* Windows, and the table by which a handler finds them. */
#include "checkpoint/file_window.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* Windows that can be mapped at once; others are read into their buffers. */
#define SLOTS 512

/* A mapped part. begin is set last when one is made and cleared first when it goes, so that a
 * handler in another thread never sees half of it. */
static struct slot {
    atomic_bool taken, shrank;
    _Atomic(char *) begin;
    atomic_size_t bytes;
} slots[SLOTS];

static atomic_bool handled;

void file_window_handled(void)
{
    atomic_store(&handled, true);
}

bool file_window_fault(const void *address)
{
    const char *at = address;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < SLOTS; i++) {
        char *begin = atomic_load(&slots[i].begin);
        size_t bytes = atomic_load(&slots[i].bytes);
        if (!begin || at < begin || at >= begin + bytes)
            continue;
        size_t from = (size_t)(at - begin) / page * page;
        atomic_store(&slots[i].shrank, true);
        return mmap(begin + from, bytes - from, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return false;
}

static void unmap(file_window *w)
{
    struct slot *s = &slots[w->slot - 1];
    char *begin = atomic_exchange(&s->begin, NULL);
    munmap(begin, atomic_load(&s->bytes));
    atomic_store(&s->shrank, false);
    atomic_store(&s->taken, false);
    w->slot = 0;
}

static int take_slot(void)
{
    for (int i = 0; i < SLOTS; i++) {
        bool free = false;
        if (atomic_compare_exchange_strong(&slots[i].taken, &free, true))
            return i + 1;
    }
    return 0;
}

/* Where the page cache holds a file in large pages and a part begins at a multiple of them, the
 * system maps each with one fault, and a loop over the part runs at two to three times the speed
 * that it has with a fault for each 64 KB. */
#define LARGE_PAGE ((int64_t)2 << 20)

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Maps a part of up to `most` bytes with the n bytes from `at` on; false when these have to be
 * read. */
static bool map(file_window *w, int fd, int64_t size, int64_t at, int64_t n, int64_t most)
{
    int64_t from = at / LARGE_PAGE * LARGE_PAGE, end = from + most / LARGE_PAGE * LARGE_PAGE;
    end = least(end < at + n ? at + n : end, size);
    if (!atomic_load(&handled) || (w->slot = take_slot()) == 0)
        return false;
    struct slot *s = &slots[w->slot - 1];
    size_t bytes = (size_t)(end - from);
    char *begin = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, from);
    if (begin == MAP_FAILED) {
        atomic_store(&s->taken, false);
        w->slot = 0;
        return false;
    }
    atomic_store(&s->bytes, bytes);
    atomic_store(&s->begin, begin);
    w->begin = from;
    w->bytes = (int64_t)bytes;
    w->data = begin;
    return true;
}

static int fill(file_window *w, int fd, const char *name, int64_t at, int64_t n, kv_err *e)
{
    int code = mem_grow(&w->buffer, &w->cap, n, 1, e);
    int64_t got = 0;
    while (!code && got < n) {
        ssize_t some = pread(fd, w->buffer + got, (size_t)(n - got), at + got);
        if (some < 0 && errno != EINTR)
            code = file_error(e, "read", name, errno);
        else if (some == 0)
            code = file_bad(e, KV_E_IO, name, "the file became shorter while it was read");
        got += some > 0 ? some : 0;
    }
    w->data = w->buffer;
    w->begin = at;
    w->bytes = code ? 0 : n;
    return code;
}

int file_window_check(const file_window *w, const char *name, kv_err *e)
{
    return w->slot && atomic_load(&slots[w->slot - 1].shrank)
               ? file_bad(e, KV_E_IO, name, "the file became shorter while it was read")
               : KV_OK;
}

/* A part that is read is a piece of it, which stays in a processor's cache. */
#define BUFFER_BYTES ((int64_t)512 << 10)

int file_window_move(file_window *w, const void **data, int fd, const char *name, int64_t size,
                     int64_t at, int64_t n, int64_t most, kv_err *e)
{
    int code = file_window_check(w, name, e);
    if (code)
        return code;
    if (!w->data || w->fd != fd || at < w->begin || at + n > w->begin + w->bytes) {
        if (w->slot)
            unmap(w);
        w->fd = fd;
        int64_t piece = least(least(size - at, most), BUFFER_BYTES);
        if (!map(w, fd, size, at, n, most) &&
            (code = fill(w, fd, name, at, n > piece ? n : piece, e))) {
            w->data = NULL;
            return code;
        }
    }
    *data = w->data + (at - w->begin);
    return KV_OK;
}

void file_window_close(file_window *w)
{
    if (w->slot)
        unmap(w);
    mem_free(w->buffer);
    *w = (file_window){0};
}
