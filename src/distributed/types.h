/* The store types of the plugin, and the operations they share. */
#pragma once

#include "distributed/worker.h"

typedef struct dist_type {
    kv_type_ops *ops;
    bool is_async;
    bool device; /* values of one rank are summed like those of `device` */
    bool sums;   /* nothing is stored: see request_sum.c */
    int (*begin)(kv_err *e); /* net_open calls it before records come */
} dist_type;

int worker_open(kv *store, const dist_type *type, const kv_opt *opts, int nopts, void **self,
                kv_err *e);
void worker_close(void *self);
int worker_rank(void *self);
int worker_count(void *self);
int worker_init(void *self, const kv_pairs *values, const kv_call *how, kv_err *e);
int worker_push(void *self, const kv_pairs *values, const kv_call *how, kv_err *e);
int worker_pull(void *self, const kv_pairs *outs, const kv_call *how, kv_err *e);
int worker_pull_since(void *self, const kv_pairs *outs, int64_t *rounds, int64_t *moved,
                      const kv_call *how, kv_err *e);
int worker_pull_rows(void *self, kv_array *const *ids, const kv_pairs *outs, const kv_call *how,
                     kv_err *e);
int worker_pushpull(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                    kv_err *e);
int worker_broadcast(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *how,
                     kv_err *e);
int worker_await_key(void *self, const kv_key *key, kv_err *e);
int worker_barrier(void *self, kv_err *e);
int worker_cluster(void *self, kv_rank_info **rows, int64_t *n, kv_err *e);
int worker_settings(void *self, kv_field *fields);
int worker_done(void *self, kv_err *e);
int worker_command(void *self, int head, const char *body, kv_err *e);
int worker_set_optimizer(void *self, const char *kind, const char *text, const kv_opt *params,
                         int nparams, kv_err *e);
