/* The types of one process: local, device, nccl and teststore. */
#pragma once

#include "kvstore.h"

extern const kv_type_ops local_type_ops;
extern const kv_type_ops device_type_ops;
extern const kv_type_ops nccl_type_ops;
extern const kv_type_ops teststore_type_ops;

/* Refuses options: usage, and e->option says which. */
int local_no_options(const kv *store, const kv_opt *opts, int nopts, kv_err *e);

/* The operations of local, device and nccl (kv_type_ops), whose self is the store. They take no
 * options. */
int local_open(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e);
int local_init(void *self, const kv_pairs *values, const kv_call *how, kv_err *e);
int local_push(void *self, const kv_pairs *values, const kv_call *how, kv_err *e);
int local_pull(void *self, const kv_pairs *outs, const kv_call *how, kv_err *e);
int local_pushpull(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                   kv_err *e);
int local_broadcast(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                    kv_err *e);
