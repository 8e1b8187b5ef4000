/* Gradient compression: what a push does to its values before they are summed.
 *
 * Every value of a push, also a single one, is quantised together with the residual of its key and
 * its position in the list, and what its codes stand for takes its place: 2 bits carry +threshold,
 * 0 or -threshold, 1 bit +1 or -1. What they did not carry stays in the residual for the next push.
 * init and pull are never compressed. (Seeds 002 and 003, "set_gradient_compression")
 *
 * A store with compression holds float32 keys of default storage and nothing else.
 */
#ifndef CORE_COMPRESS_H
#define CORE_COMPRESS_H

#include "core/call.h"

/* How a store compresses. All zero: it does not. */
typedef struct compression {
    int code; /* a dev_code, or 0 */
    float threshold;
} compression;

/* Reads `type` and `threshold`, as kv_set_gradient_compression takes them. Errors: usage, value,
 * dtype. */
int compression_read(compression *out, const kv_opt *params, int nparams, kv_err *e);

/* "none", "2bit 0.5". Returns out. */
#define COMPRESSION_TEXT 48
const char *compression_print(char out[COMPRESSION_TEXT], const compression *c);

/* Reads such a text. False when it is none. */
bool compression_parse(compression *out, const char *text);

bool compression_same(const compression *a, const compression *b);

/* Whether every key, and a first value of a new one, can be compressed. Errors: dtype, value. */
int compression_check_slots(const slot_table *t, kv_err *e);
int compression_check(const kv_key *key, const kv_array *a, kv_err *e);

/* Forgets what is owed to every key. */
void compression_forget(slot_table *t);

/* ---- A push ---- */

/* One value of a push. */
typedef struct compress_value {
    kv_array *value;    /* the caller's */
    kv_array *residual; /* written */
    kv_array *old;      /* NULL, or what it begins as: a residual that others hold, or elsewhere */
    bool made;          /* residual was made by this push */
} compress_value;

typedef struct compress_group {
    slot *slot;
    compress_value *values;
    int64_t n;
    kv_array *sum;
} compress_group;

typedef struct compress_push {
    compression how;
    compress_group *groups; /* NULL: nothing is compressed */
    int64_t ngroups;
    compress_value *values;
    kv_array **sums; /* one a group: the values of the call from now on */
} compress_push;

/* Checks the groups of a call, allocates, and gives each group a single value: the sum that
 * compress_run will make. The call's variables get those of the residuals. Errors: dtype (a key
 * that is not float32), value (a row_sparse key or value), memory; *p then needs no release, and
 * call_abort ends the call. */
int compress_prepare(compress_push *p, const compression *how, call *c, kv_err *e);

/* The element work: residuals and sums. */
void compress_run(const compress_push *p);

/* Hands the residuals to the slots: after a push that runs. */
void compress_commit(compress_push *p);

/* Releases what compress_prepare made, before or after compress_commit. */
void compress_release(compress_push *p);

#endif
