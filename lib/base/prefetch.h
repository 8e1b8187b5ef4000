/* Asking for memory ahead of time.
 *
 * gcc takes a function that does nothing else for one without effect, and leaves out the calls of
 * it. An empty instruction is an effect that it keeps.
 */
#ifndef BASE_PREFETCH_H
#define BASE_PREFETCH_H

/* Asks for the cache line of p, which may be any address: to read it, and to write it. */
static inline void prefetch(const void *p)
{
    __builtin_prefetch(p);
    __asm__ volatile("" : : "r"(p));
}

static inline void prefetch_write(const void *p)
{
    __builtin_prefetch(p, 1);
    __asm__ volatile("" : : "r"(p));
}

#endif
