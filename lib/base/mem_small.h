/* Small blocks, aligned like all array data and side by side: a program that has very many of one
 * size, and walks over them in the order in which it made them, reads memory without gaps.
 */
#ifndef BASE_MEM_SMALL_H
#define BASE_MEM_SMALL_H

#include "base/mem.h"

enum { MEM_SMALL_MOST = 1536 }; /* bytes */

/* A block of 1 to MEM_SMALL_MOST bytes, aligned to MEM_ALIGN, not initialised. Any thread may
 * release it, with mem_free_small alone; NULL is allowed. */
void *mem_alloc_small(int64_t bytes, kv_err *e);
void mem_free_small(void *block);

#endif
