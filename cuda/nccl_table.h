/* The functions of NCCL that the plugin uses, as a table like that of driver.h: nothing is linked,
 * and a test can put others in their place.
 *
 * Every function gives 0 or an error number, which text() explains. Numbers of dtypes and
 * operations are NCCL's. (NCCL documentation, version 2.28)
 */
#pragma once

#include <stddef.h>

#include "cuda/driver.h"

typedef struct nccl_comm nccl_comm;

enum { NCCL_SUM = 0 };

typedef enum nccl_dtype {
    NCCL_INT8 = 0,
    NCCL_UINT8 = 1,
    NCCL_INT32 = 2,
    NCCL_INT64 = 4,
    NCCL_FLOAT16 = 6,
    NCCL_FLOAT32 = 7,
    NCCL_FLOAT64 = 8,
    NCCL_BFLOAT16 = 9
} nccl_dtype;

typedef struct nccl {
    const char *(*text)(int code);
    int (*version)(int *out);

    /* One communicator for each of n devices. */
    int (*connect)(nccl_comm **out, int n, const int *ids);

    /* Ends a communicator and its work, even if the work waits for others. */
    int (*stop)(nccl_comm *c);

    /* The work given between the two is one group: each piece is given once for each communicator,
     * in the same order. */
    int (*begin)(void);
    int (*end)(void);
    int (*reduce)(const void *src, void *dst, size_t n, nccl_dtype dtype, int op, int root,
                  nccl_comm *c, driver_stream *s);
    int (*broadcast)(const void *src, void *dst, size_t n, nccl_dtype dtype, int root,
                     nccl_comm *c, driver_stream *s);
} nccl;

/* The table of this machine. Error: unsupported (there is no library, or an old one). */
int nccl_open(const nccl **out, kv_err *e);
