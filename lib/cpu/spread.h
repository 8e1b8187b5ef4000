/* Copies to several places that go past the caches: what is stored is read once, however many
 * arrays receive it. */
#ifndef CPU_SPREAD_H
#define CPU_SPREAD_H

#include <stdint.h>

/* The bytes at src, to each of the ndst places. No two regions overlap. */
void spread_far(void *const *dst, int64_t ndst, const void *src, int64_t bytes);

#endif
