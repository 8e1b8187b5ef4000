/* A recorded run and a store beside it. data/optimizers/README.md says what the records hold. */
#pragma once

#include <cjson/cJSON.h>

#include "array/device.h"
#include "kvstore.h"

/* What came out for the runs of one list. */
typedef struct verdict {
    int equal, close, wrong, skipped;
    double worst[KV_DTYPE_END]; /* by dtype, in representable numbers */
    char first[512];            /* what went wrong first */
} verdict;

/* A run: its store and where it stands. */
typedef struct replay {
    const cJSON *run;
    kv *store;
    const kv_rule *rule; /* in the place of the run's optimizer, or NULL */
    int seed;            /* of the optimizer's noise */
    kv_err e;
    double ulp, abs; /* the tolerance of the run */
    bool exact;      /* so far */
    bool failed;
    double worst[KV_DTYPE_END];
    char why[400];
} replay;

/* Remembers the first failure. */
void replay_fail(replay *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void replay_check(replay *r, int rc, const char *what);

/* The lists of runs of a folder by name, from its records.json.gz; NULL, and a line that says why,
 * where it cannot be read. */
cJSON *records_read(const char *folder);

const cJSON *replay_get(const cJSON *o, const char *name);
double replay_number(const cJSON *x); /* "nan", "inf" and "-inf" too */
kv_key replay_key(const cJSON *x);

/* What the run says of a key: shape, dtype, first weight. */
const cJSON *replay_entry(const replay *r, const cJSON *key);

/* A flat list of numbers as an array of a key's shape and dtype. */
kv_array *replay_array(replay *r, const cJSON *entry, const cJSON *data);
/* Where arrays of a record are that it puts on cpu(id): there, or with REPLAY_GPUS=N on one of N
 * GPUs; and the type that keeps what the record keeps in local. */
kv_ctx replay_ctx(int id);
const char *replay_type(void);

kv_array *replay_sparse_array(replay *r, const cJSON *entry, const cJSON *rows, const cJSON *data);

/* How many numbers of a floating dtype lie from a to b: 0 and -0 are two numbers, all NaN are one.
 * The difference of whole numbers. */
double replay_distance(double a, double b, kv_dtype dtype);

/* The value of a parameter as the text of a kv_opt. */
void replay_value_text(char *out, size_t size, const cJSON *v);

/* Makes the store, its keys, and sets the optimizer. */
void replay_open(replay *r);
void replay_set_optimizer(replay *r);
int replay_try_optimizer(replay *r); /* an error is the caller's */

/* The arrays of one push: those of the step and of the steps after it that belong to the same
 * call. Returns how many steps, and their keys and gradients. */
#define REPLAY_MAX_KEYS 64
int replay_call(replay *r, const cJSON *first, kv_key *keys, kv_array **grads);

/* Does what the record says happened before a step. False when the library has no such thing. */
bool replay_before(replay *r, const cJSON *before);

/* False for a run that cannot be replayed, or that has nothing to compare. */
bool replay_supported(const replay *r);

/* Adds what came out of a run. */
void replay_count(verdict *v, const replay *r);

/* A whole run. */
void replay_run(const cJSON *one, verdict *v);

/* A sequence of calls of a store. data/kvstore/README.md describes it. */
void trace_run(const cJSON *one, verdict *v);

/* Other files of records: what must be refused, a rule with noise, and the quantiser. Each returns
 * whether all was well and prints, or puts into the verdict, what was not. */
bool refused_run(const cJSON *runs, const cJSON *better, verdict *v);
bool noise_run(const cJSON *runs, verdict *v);
bool quantise_run(const cJSON *runs, verdict *v);
