/* O_DIRECT: the kernel writes whole blocks straight from aligned memory. So data is gathered in a
 * buffer of many blocks, small enough for the processor's cache. The last part of a file,
 * which does not fill the buffer, is written through the page cache. */
#include "base/file_around.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum {
    BLOCK = 4096,    /* what O_DIRECT needs on common disks; where it needs more, EINVAL says so */
    BUFFER = 1 << 20 /* bytes; a multiple of BLOCK */
};

typedef struct around {
    int fd;
    bool direct;           /* O_DIRECT is set */
    size_t used;           /* bytes in the buffer */
    char *memory, *buffer; /* buffer: the first block in memory */
} around;

static void set_direct(around *a, bool on)
{
    int flags = fcntl(a->fd, F_GETFL), want = on ? flags | O_DIRECT : flags & ~O_DIRECT;
    a->direct = flags >= 0 && fcntl(a->fd, F_SETFL, want) == 0 && on;
}

/* Writes the buffer. Once the file system refuses a direct write, all others go through the page
 * cache. Returns false with errno. */
static bool write_buffer(around *a)
{
    for (size_t at = 0; at < a->used;) {
        ssize_t n = write(a->fd, a->buffer + at, a->used - at);
        if (n > 0)
            at += (size_t)n;
        else if (n < 0 && errno == EINVAL && a->direct)
            set_direct(a, false);
        else if (n == 0 || errno != EINTR)
            return false;
    }
    a->used = 0;
    return true;
}

/* The stream's write function: returns n, or 0 with errno. */
static ssize_t put(void *cookie, const char *data, size_t n)
{
    around *a = cookie;
    for (size_t at = 0; at < n;) {
        size_t some = n - at < BUFFER - a->used ? n - at : BUFFER - a->used;
        memcpy(a->buffer + a->used, data + at, some);
        a->used += some;
        at += some;
        if (a->used == BUFFER && !write_buffer(a))
            return 0;
    }
    return (ssize_t)n;
}

/* The stream's close function. */
static int end(void *cookie)
{
    around *a = cookie;
    set_direct(a, false);
    bool good = write_buffer(a);
    int why = errno;
    mem_free(a->memory);
    mem_free(a);
    errno = why;
    return good ? 0 : EOF;
}

int file_around_open(FILE **out, int fd, const char *path, kv_err *e)
{
    around *a = mem_zalloc(1, sizeof *a, e);
    char *memory = a ? mem_alloc(BUFFER + BLOCK, 1, e) : NULL;
    const cookie_io_functions_t to = {.write = put, .close = end};
    *out = memory ? fopencookie(a, "wb", to) : NULL;
    if (!*out) {
        int rc = memory ? file_error(e, "write", path, errno) : KV_E_MEMORY;
        mem_free(memory);
        mem_free(a);
        return rc;
    }
    *a = (around){.fd = fd, .memory = memory, .buffer = memory + BLOCK - (uintptr_t)memory % BLOCK};
    set_direct(a, true);
    setvbuf(*out, NULL, _IONBF, 0); /* the buffer is here */
    return KV_OK;
}
