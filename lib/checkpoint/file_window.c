/* Windows, and the table by which a handler finds them. */
#include "checkpoint/file_window.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* Where the page cache holds a file in large pages and a part begins at a multiple of them, the
 * system maps each with one fault, and a loop over the part runs at two to three times the speed
 * that it has with a fault for each 64 KB. */
#define LARGE_PAGE ((int64_t)2 << 20)

/* Windows that can be mapped at once; others are read into their buffers. */
#define SLOTS 512

/* A mapped part. A handler looks for the part that its own thread reads, which no thread changes
 * meanwhile, and goes past the parts of other threads, which may change. The version is odd while
 * begin and bytes are set, and another one afterwards, so that a handler that has seen the begin of
 * one part and the bytes of the next knows it. */
static struct slot {
    atomic_bool taken, shrank;
    atomic_uint version;
    _Atomic(char *) begin;
    atomic_size_t bytes;
} slots[SLOTS];

static atomic_bool handled;

void file_window_handled(void)
{
    atomic_store(&handled, true);
}

/* Reads a part. False: there is none, or it changes, so that it is another thread's. */
static bool look(struct slot *s, char **begin, size_t *bytes)
{
    unsigned version = atomic_load(&s->version);
    *begin = atomic_load(&s->begin);
    *bytes = atomic_load(&s->bytes);
    return *begin && version % 2 == 0 && atomic_load(&s->version) == version;
}

static void set_part(struct slot *s, char *begin, size_t bytes)
{
    atomic_fetch_add(&s->version, 1);
    atomic_store(&s->begin, begin);
    atomic_store(&s->bytes, bytes);
    atomic_fetch_add(&s->version, 1);
}

bool file_window_fault(const void *address)
{
    const char *at = address;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes;
    char *begin;
    for (int i = 0; i < SLOTS; i++) {
        if (!look(&slots[i], &begin, &bytes) || at < begin || at >= begin + bytes)
            continue;
        int before = errno;
        size_t from = (size_t)(at - begin) / page * page;
        atomic_store(&slots[i].shrank, true);
        bool mended = mmap(begin + from, bytes - from, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
        errno = before;
        return mended;
    }
    return false;
}

static void unmap(file_window *w)
{
    struct slot *s = &slots[w->slot - 1];
    char *begin = atomic_load(&s->begin);
    set_part(s, NULL, 0);
    /* other threads cannot unmap while munmap takes pages out; while madvise does they can */
    madvise(begin, (size_t)w->bytes, MADV_DONTNEED);
    munmap(begin, (size_t)w->bytes);
    atomic_store(&s->shrank, false);
    atomic_store(&s->taken, false);
    w->slot = 0;
}

static int64_t count_faults(void)
{
    struct rusage use;
    return getrusage(RUSAGE_THREAD, &use) ? 0 : use.ru_minflt;
}

/* A hole of a file in memory, such as one in /dev/shm, takes memory when it is mapped and looked
 * at, and a signal ends the look where there is none left; reading it takes none. */
static bool has_holes(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 && about.st_blocks * 512 < about.st_size;
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

/* Maps a part of up to `most` bytes with the n bytes from `at` on; false when these have to be
 * read. */
static bool map(file_window *w, int fd, int64_t size, int64_t at, int64_t n, int64_t most)
{
    int64_t from = at / LARGE_PAGE * LARGE_PAGE, end = from + most / LARGE_PAGE * LARGE_PAGE;
    end = at_most(end < at + n ? at + n : end, size);
    if (w->small || most == 0 || !atomic_load(&handled) || (w->slot = take_slot()) == 0)
        return false;
    struct slot *s = &slots[w->slot - 1];
    size_t bytes = (size_t)(end - from);
    char *begin = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, from);
    if (begin == MAP_FAILED) {
        atomic_store(&s->taken, false);
        w->slot = 0;
        return false;
    }
    set_part(s, begin, bytes);
    w->faults = count_faults();
    w->begin = from;
    w->bytes = (int64_t)bytes;
    w->data = begin;
    return true;
}

static int fill(file_window *w, int fd, const char *name, int64_t at, int64_t n, kv_err *e)
{
    int rc = mem_grow(&w->buffer, &w->cap, n, 1, e);
    if (!rc)
        rc = file_read_at(fd, name, at, w->buffer, n, NULL, e);
    w->data = w->buffer;
    w->begin = at;
    w->bytes = rc ? 0 : n;
    return rc;
}

/* A file that ends within a page has zeros behind its end there, and no signal tells of them: so
 * its size is asked for, too. */
int file_window_check(const file_window *w, kv_err *e)
{
    struct stat about;
    if (!w->slot)
        return KV_OK;
    if (fstat(w->fd, &about) != 0)
        return file_error(e, "read", w->name, errno);
    if (about.st_size < w->begin + w->bytes)
        return file_bad(e, KV_E_IO, w->name, "the file became shorter while it was read");
    return atomic_load(&slots[w->slot - 1].shrank)
               ? file_bad(e, KV_E_IO, w->name,
                          "the file was changed while it was read, or its disk failed")
               : KV_OK;
}

const char *file_window_map(file_window *w, int fd, const char *name, int64_t size, int64_t at,
                            int64_t n)
{
    w->fd = fd;
    w->name = name;
    return !has_holes(fd) && map(w, fd, size, at, n, n) ? w->data + (at - w->begin) : NULL;
}

/* A part that is read is a piece of it, which stays in a processor's cache. */
#define BUFFER_BYTES ((int64_t)256 << 10)

int file_window_move(file_window *w, const void **data, int fd, const char *name, int64_t size,
                     int64_t at, int64_t n, int64_t most, kv_err *e)
{
    if (!w->data || w->fd != fd || at < w->begin || at + n > w->begin + w->bytes) {
        TRY(file_window_check(w, e));
        if (w->slot) {
            /* A part in large pages takes one fault for each 2 MB, one in small pages one for each
             * 64 KB. The bound lies between them, since a part may be used in pieces, and the
             * faults of other memory that the thread used meanwhile count too. */
            w->small =
                !w->always && count_faults() - w->faults > 8 + w->bytes / ((int64_t)384 << 10);
            unmap(w);
        }
        if (w->fd != fd)
            w->small = has_holes(fd);
        w->fd = fd;
        w->name = name;
        int64_t piece = w->always ? n : at_most(at_most(size - at, most), BUFFER_BYTES);
        int rc = KV_OK;
        if (!map(w, fd, size, at, n, most) &&
            (rc = fill(w, fd, name, at, n > piece ? n : piece, e))) {
            w->data = NULL;
            return rc;
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
    *w = (file_window){.always = w->always};
}
