/* The table over libnccl, which is opened when a store needs it. */
#include "cuda/nccl_table.h"

#include <pthread.h>

#include "cuda/library.h"

/* If the header of NCCL is installed, its numbers must be those of nccl_table.h. */
#if __has_include(<nccl.h>)
#include <nccl.h>
_Static_assert((int)NCCL_SUM == ncclSum && (int)NCCL_INT8 == ncclInt8 &&
                   (int)NCCL_UINT8 == ncclUint8 && (int)NCCL_INT32 == ncclInt32 &&
                   (int)NCCL_INT64 == ncclInt64 && (int)NCCL_FLOAT16 == ncclFloat16 &&
                   (int)NCCL_FLOAT32 == ncclFloat32 && (int)NCCL_FLOAT64 == ncclFloat64 &&
                   (int)NCCL_BFLOAT16 == ncclBfloat16,
               "NCCL's numbers");
#endif

enum { OLDEST = 21000 }; /* the first that knows bfloat16 */

static struct {
    pthread_mutex_t lock;
    bool open;
    nccl table;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int fill_table(nccl *t, kv_err *e)
{
    /* packages and wheels install it under its major version */
    static const char *const names[] = {"libnccl.so.2", "libnccl.so",
                                        "/usr/local/cuda/lib64/libnccl.so.2",
                                        "/usr/local/cuda/lib/libnccl.so.2"};
    int version = 0;
    void *from = library_open(names, sizeof names / sizeof *names);
    if (!from) {
        kv_err_set(e, KV_E_UNSUPPORTED, "NCCL (libnccl.so.2) cannot be loaded");
        return kv_err_hint(e, "NVIDIA's packages have it as libnccl2"), KV_E_UNSUPPORTED;
    }
    bool all = library_find(from, "ncclGetErrorString", (void *)&t->text) &&
               library_find(from, "ncclGetVersion", (void *)&t->version) &&
               library_find(from, "ncclCommInitAll", (void *)&t->connect) &&
               library_find(from, "ncclCommAbort", (void *)&t->stop) &&
               library_find(from, "ncclGroupStart", (void *)&t->begin) &&
               library_find(from, "ncclGroupEnd", (void *)&t->end) &&
               library_find(from, "ncclReduce", (void *)&t->reduce) &&
               library_find(from, "ncclBroadcast", (void *)&t->broadcast);
    int rc = all ? t->version(&version) : 0;
    if (rc)
        return kv_err_set(e, KV_E_UNSUPPORTED, "NCCL does not start: %s", t->text(rc));
    if (!all || version < OLDEST)
        return kv_err_set(e, KV_E_UNSUPPORTED, "NCCL (libnccl.so.2) is older than 2.10");
    return KV_OK;
}

int nccl_open(const nccl **out, kv_err *e)
{
    pthread_mutex_lock(&library.lock);
    int rc = library.open ? KV_OK : fill_table(&library.table, e);
    library.open = !rc;
    pthread_mutex_unlock(&library.lock);
    *out = &library.table;
    return rc;
}
