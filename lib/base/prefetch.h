/* Prefetches.
 *
 * gcc treats a function that does nothing but prefetch as one without side effects, and removes
 * calls of it. The empty volatile asm counts as a side effect, so the calls stay.
 * tests/house/compiled.bats looks for the instructions.
 */
#ifndef BASE_PREFETCH_H
#define BASE_PREFETCH_H

/* Brings the cache line of p nearer, to read it or to write it. p need not point to anything: a
 * prefetch of an invalid address does nothing. */
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
