/* Memory of the C library: each block is counted, and may be refused. */
#include <dlfcn.h>
#include <errno.h>
#include <regex.h>
#include <stdlib.h>

#include "faults.h"

/* Those of the library under their names there; dlsym needs memory itself. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *block);

#define CALLER __builtin_return_address(0)

static bool fails(void)
{
    return faults_hits(FAULT_MEMORY, NULL, -1);
}

static void *made(void *block, size_t n, void *caller)
{
    blocks_add(block, n, caller);
    return block;
}

void *malloc(size_t n)
{
    return fails() ? NULL : made(__libc_malloc(n), n, CALLER);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : made(__libc_calloc(n, size), n * size, CALLER);
}

void *realloc(void *block, size_t n)
{
    if (fails())
        return NULL;
    void *now = __libc_realloc(block, n);
    if (now || n == 0)
        blocks_drop(block);
    return made(now, n, CALLER);
}

void free(void *block)
{
    blocks_drop(block);
    int error = errno;
    __libc_free(block);
    errno = error;
}

int posix_memalign(void **out, size_t align, size_t n)
{
    if (fails())
        return ENOMEM;
    void *block = made(__libc_memalign(align, n), n, CALLER);
    if (block)
        *out = block;
    return block ? 0 : ENOMEM;
}

void *aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : made(__libc_memalign(align, n), n, CALLER);
}

/* That of the C library frees a block twice when its memory ends within: it fails as a whole. */
int regcomp(regex_t *re, const char *text, int flags)
{
    if (fails())
        return REG_ESPACE;
    faults_pause();
    int rc = ((int (*)(regex_t *, const char *, int))dlsym(RTLD_NEXT, "regcomp"))(re, text, flags);
    faults_go_on();
    return rc;
}
