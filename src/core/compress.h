/* Gradient compression, which a push applies to its values before they are summed.
 *
 * Every value of a push, also a single one, is quantised together with the residual of its key and
 * its position in the list, and what its codes stand for takes its place: 2 bits carry +threshold,
 * 0 or -threshold, 1 bit +1 or -1. What they did not carry stays in the residual for the next push.
 * init is never compressed, nor is pull, unless a server codes what it stored. (Seeds 002 and 003,
 * "set_gradient_compression")
 *
 * A store with compression holds float32 keys of default storage and nothing else.
 */
#pragma once

#include "base/mem.h"
#include "core/call.h"

/* The compression of a store. All zero: none. */
typedef struct compression {
    int code; /* a quantise_code, or 0 */
    float threshold;
    bool pull; /* servers code the arrays that they send, too */
} compression;

/* Reads `type`, `threshold` and `pull`, as kv_set_gradient_compression takes them. Errors: usage,
 * value, dtype; e->option says which of params is wrong. */
int compression_read(compression *out, const kv_opt *params, int nparams, kv_err *e);

/* "none", "2bit 0.5", "2bit 0.5 pull". Returns out. */
#define COMPRESSION_TEXT 48
const char *compression_print(char out[COMPRESSION_TEXT], const compression *c);

/* Reads such a text, but none with pull: those do not stand in files. False when it is none. */
bool compression_parse(compression *out, const char *text);

bool compression_same(const compression *a, const compression *b);

/* Checks that every key, or the first value of a new one, can be compressed. Errors: dtype,
 * value. */
int compression_check_slots(const slot_table *t, kv_err *e);
int compression_check(const kv_key *key, const kv_array *a, kv_err *e);

/* Drops the residuals of every key. */
void compression_forget(slot_table *t);

/* ---- A push ---- */

/* Makes residuals and sums before the updater prepares: the call then has one value a
 * group, the sum that compress_whole and compress_part will make. direct: the updater is ASSIGN, so
 * this sum is the array that is stored. Errors: dtype (a key that is not float32), value (a
 * row_sparse key or value), memory. */
int compress_prepare(const compression *how, bool direct, call *c, kv_err *e);

/* Hands the residuals to the slots: before the call runs. */
void compress_commit(call *c);

/* The element work, residuals and sums, of the groups that are not cut into parts: it comes before
 * the updater's. */
void compress_whole(const call *c);

/* The same for the elements from … from + n - 1 of one of the others. */
void compress_part(const call *c, const call_group *g, int64_t from, int64_t n);

/* compress_gpu_can: true if a GPU can compress the values of a group: they are float32, and all
 * arrays of the group are there. compress_gpu_job then makes the job (GPU_QUANTISE_SUM); its lists
 * are of `memory`. Errors: memory, those of the device.
 */
bool compress_gpu_can(const call *c, const call_group *g);
int compress_gpu_job(const call *c, const call_group *g, gpu_job *job, arena *memory, kv_err *e);

/* Else makes host memory current for it. */
int compress_bring(const call *c, const call_group *g, kv_err *e);
