/* Loaded in front of kvctl: makes calls of the C library fail. FAIL names one:
 *
 *     stat      of the file FAIL_PATH: EIO
 *     fgetc     reads nothing, EIO
 *     write     the first to stdout is interrupted
 *     memory    every allocation from the one numbered FAIL_FROM on
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Those of the library under their names there; dlsym needs memory itself. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t n);
void *__libc_memalign(size_t align, size_t n);

static long from, made;

__attribute__((constructor)) static void begin(void)
{
    const char *what = getenv("FAIL"), *n = getenv("FAIL_FROM");
    from = what && n && strcmp(what, "memory") == 0 ? atol(n) : 0;
    made = 0;
}

static bool is_wanted(const char *what)
{
    const char *wanted = getenv("FAIL");
    return wanted && strcmp(wanted, what) == 0;
}

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

int stat(const char *path, struct stat *about)
{
    int (*real)(const char *, struct stat *) = next("stat");
    const char *wanted = getenv("FAIL_PATH");
    if (!is_wanted("stat") || !wanted || strcmp(path, wanted) != 0)
        return real(path, about);
    errno = EIO;
    return -1;
}

int fgetc(FILE *f)
{
    int (*real)(FILE *) = next("fgetc");
    if (!is_wanted("fgetc"))
        return real(f);
    errno = EIO;
    return EOF;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    static bool interrupted;
    ssize_t (*real)(int, const void *, size_t) = next("write");
    if (fd != STDOUT_FILENO || interrupted || !is_wanted("write"))
        return real(fd, bytes, n);
    interrupted = true;
    errno = EINTR;
    return -1;
}

static bool fails(void)
{
    if (from == 0 || __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED) < from)
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *block, size_t n)
{
    return fails() ? NULL : __libc_realloc(block, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    *out = fails() ? NULL : __libc_memalign(align, n);
    return *out ? 0 : ENOMEM;
}
