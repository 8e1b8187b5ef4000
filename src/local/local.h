/* The types of one process: local, device, nccl and teststore. */
#ifndef LOCAL_LOCAL_H
#define LOCAL_LOCAL_H

#include "core/call.h"
#include "kvstore.h"

extern const kv_type_ops local_type_ops;
extern const kv_type_ops device_type_ops;
extern const kv_type_ops nccl_type_ops;
extern const kv_type_ops teststore_type_ops;

/* What local, device and nccl are, and their operations (kv_type_ops). */
typedef struct local {
    kv *store;
    bool moves;    /* keys follow their values to a GPU */
    bool together; /* GPUs sum and copy together: see core/call_together.h */
    int (*check)(const call *c, kv_err *e); /* NULL, or what a type asks of the groups of a push */
} local;

/* A store with these of its fields; it takes no options. Errors: usage, memory. */
int local_open(const local *as, const kv_opt *opts, int nopts, void **self, kv_err *e);
void local_close(void *self);

int local_init(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
               const kv_call *how, kv_err *e);
int local_push(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
               const kv_call *how, kv_err *e);
int local_pull(void *self, const kv_key *keys, int64_t n, kv_array *const *outs,
               const kv_call *how, kv_err *e);
int local_pushpull(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                   const kv_key *okeys, int64_t nouts, kv_array *const *outs, const kv_call *how,
                   kv_err *e);
int local_broadcast(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                    const kv_key *okeys, int64_t nouts, kv_array *const *outs, const kv_call *how,
                    kv_err *e);

#endif
