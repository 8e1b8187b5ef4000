/* libkvstore: a key-value store of arrays.
 *
 * Devices and machines push arrays in; the store sums what is pushed to a key and hands the sum to
 * an updater; everybody pulls the result. It is the parameter store of distributed training, with
 * the behaviour and the numbers of MXNet's KVStore 1.9.1.
 *
 *     kv *store = NULL;
 *     kv_err err = {0};
 *     kv_create("local", NULL, 0, &store, &err);          // no store after an error: look here
 *     kv_init(store, &key, 1, &weight, NULL, &err);       // once a key
 *     kv_push(store, &key, 1, &gradient, NULL, &err);     // sum, then updater
 *     kv_pull(store, &key, 1, &weight, NULL, &err);       // newest value
 *
 * Errors.    Functions that can fail return a kv_code and fill the caller's kv_err (kv_err.h); the
 *            first failure wins, so one look behind several calls finds it. The calls after it run
 *            all the same: a store or array that could not be made must not be passed to them. A
 *            call checks everything and allocates everything before its first write: a failed call
 *            has changed nothing. The library never prints, exits, aborts, installs signal handlers
 *            or calls setlocale.
 * Ownership. Arrays are counted (kv_array.h). A call borrows the arrays passed to it and takes
 *            references where it needs them longer. Keys, names and options are copied. What a
 *            function returns as a plain pointer is borrowed until the next change of its owner.
 * Blocking.  init, push and pull return after scheduling; reading or writing an array, kv_wait and
 *            kv_free wait for what was scheduled. Operations on one array or key keep program
 *            order. (This version runs every operation before it returns.) Do not change a pushed
 *            array except through kv_array_write, which waits for the store to have read it.
 * Threads.   Any thread may call; one lock of the store covers check and schedule, so program order
 *            is the order of entry. Freeing a store while another thread is in it is the caller's
 *            bug. Several stores in one process do not disturb each other.
 * Numbers.   A sum is taken left to right in the order of the list; every value is converted to the
 *            stored dtype first. float16 and bfloat16 sums accumulate in float32 and round once.
 *            Integers wrap, bool sums are OR. Float to integer truncates and saturates (nan gives
 *            0). The same inputs give the same bits, whatever the number of threads.
 *
 * "Seed 000" to "seed 004" in comments name the five public documents that describe MXNet's store:
 * the KVStore tutorial (000), notes on the Python API (001), the Python help with a notebook (002),
 * the Perl manual page (003) and the 2.0 base class (004).
 */
#ifndef KVSTORE_H
#define KVSTORE_H

#include <stddef.h>
#include <stdint.h>

#include "kv_array.h"
#include "kv_err.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KV_VERSION "0.1.0"

/* The version of the library in use, which may differ from KV_VERSION of the header. */
const char *kv_version(void);

typedef struct kv kv; /* a store */

/* An option or parameter by name; its value as text ("0.1", "true", "none"). */
typedef struct kv_opt {
    const char *name;
    const char *value;
} kv_opt;

/* What may be said about one call; NULL stands for all zero. */
typedef struct kv_call {
    int32_t priority; /* larger is sooner among the operations that are ready; only a hint */
    uint32_t flags;   /* none yet: 0 */
} kv_call;

/* ---- Stores ---------------------------------------------------------------------------------- */

/* Makes a store. type: "local" (also local_update_cpu, local_allreduce_cpu), "device" (also
 * local_allreduce_device), or a registered one, in any case; NULL means "local". opts: options of
 * the type, none for local and device.
 * Out: *store, to be released with kv_free.
 * Errors: usage (unknown option), unsupported (a type that is unknown, or known but not available
 * here; the text says why and the hint names those that are), memory.
 * (Seeds 000 to 004, "create". Unlike MXNet an unknown name is refused.) */
int kv_create(const char *type, const kv_opt *opts, int nopts, kv **store, kv_err *e);

/* Waits for everything scheduled, then releases the store. NULL is allowed. */
void kv_free(kv *store);

/* The name given to kv_create in lower case, a registered one as it was registered. (Seed 004) */
const char *kv_type(const kv *store);

/* The rank of this worker, 0 to kv_num_workers - 1; 0 of 1 for stores of one process. */
int kv_rank(const kv *store);
int kv_num_workers(const kv *store);

/* ---- Keys and values ------------------------------------------------------------------------- */

/* All three calls take n pairs (keys[i], arrays[i]). A store holds integer keys or text keys, fixed
 * by its first key. n = 0 does nothing. call may be NULL. */

/* Puts a copy of values[i] under the new key keys[i], keeping dtype, shape and storage. No updater
 * runs.
 * Errors: key (there already, twice in the call, or of the other kind; a text that is not UTF-8 or
 * longer than KV_KEY_MAX), memory. (Seed 002, "init") */
int kv_init(kv *store, const kv_key *keys, int64_t n, kv_array *const *values, const kv_call *call,
            kv_err *e);

/* Sums the values of each key (a key may stand in several pairs: its values are added in the order
 * given) and hands each sum, rounded to the stored dtype, to the updater: ascending integer keys,
 * text keys in the order of their first init. Without an updater the sum replaces the stored value
 * (ASSIGN), and a key that was never initialised is created with it (seed 001).
 * values[i] has the shape of the stored array; any dtype, any context. It is never changed.
 * row_sparse values make a row_sparse sum, which holds the rows that any of them holds. Without an
 * updater the key becomes row_sparse with it, and one that is row_sparse stays so. With an updater
 * a key keeps its storage, and a row_sparse one comes to hold all its rows.
 * Errors: key (never initialised while an updater is set; of the other kind), shape, dtype (a rule
 * that cannot run on the stored dtype), value (a rule's `fail`; one key with row_sparse and default
 * values), unsupported (a rule that reduces rows and whole arrays), memory. An error of a C
 * callback comes from this call or the next wait. (Seeds 000 to 003, "push") */
int kv_push(kv *store, const kv_key *keys, int64_t n, kv_array *const *values, const kv_call *call,
            kv_err *e);

/* Writes the newest value of keys[i] into outs[i], converted to its dtype, across contexts. A key
 * may stand in several pairs. The holders of other references to outs[i] see the change.
 * Errors: key (never initialised, other kind), shape, unsupported (a row_sparse array among outs),
 * memory. (Seeds 000 to 003, "pull") */
int kv_pull(kv *store, const kv_key *keys, int64_t n, kv_array *const *outs, const kv_call *call,
            kv_err *e);

/* Blocks until everything scheduled on the store has ended; returns the first error among it. */
int kv_wait(kv *store, kv_err *e);

/* What a store knows of a key. Pointers are borrowed until the next call that changes the store. */
typedef struct kv_info {
    kv_key key;
    kv_dtype dtype;
    int ndim;
    const int64_t *shape;
    kv_ctx ctx;
    int64_t bytes;   /* of the stored array */
    int64_t pushes;  /* so far */
    int64_t pending; /* operations scheduled and not ended */
    kv_storage storage;
} kv_info;

/* Error: key (not there, or of the other kind). */
int kv_find(kv *store, const kv_key *key, kv_info *info, kv_err *e);

/* The number of keys, and the i-th in the order of updates (see kv_push). Error: index. */
int64_t kv_num_keys(const kv *store);
int kv_info_at(kv *store, int64_t i, kv_info *info, kv_err *e);

/* ---- Updaters -------------------------------------------------------------------------------- */

/* Combines `input`, the sum pushed to `key`, with `stored` and writes the result into `stored` with
 * kv_array_read and kv_array_write, or where they are row_sparse with those of rows; `stored` then
 * holds all its rows, `input` those that were pushed. `input` must not be written. Runs one at a
 * time in key order, perhaps on another thread, and may ask its store only for type and rank:
 * anything else is an error (usage). A result other than KV_OK keeps the old value of this key, and
 * e then says why; the other keys of the call are updated all the same. */
typedef int (*kv_updater)(void *arg, const kv_key *key, kv_array *input, kv_array *stored,
                          kv_err *e);

/* Sets a C callback as the updater of all later pushes; update NULL goes back to ASSIGN.
 * done(arg) is called when the updater is no longer used; it may be NULL. (Seeds 000, 001, 003) */
int kv_set_updater(kv *store, kv_updater update, void *arg, void (*done)(void *arg), kv_err *e);

/* A rule: an updater written in the rule language, `{ stored += input * 2 }` or
 * `updater scale(factor = 2.0) { stored += input * factor }`. */
typedef struct kv_rule kv_rule;

/* Reads and checks a rule. file, line and col (from 1) say where text stands, for error messages;
 * NULL, 0, 0 when nowhere. Out: *rule, released with kv_rule_free.
 * Errors: syntax, usage (with their place), memory. */
int kv_rule_new(kv_rule **rule, const char *text, const char *file, int line, int col, kv_err *e);
void kv_rule_free(kv_rule *rule); /* NULL is allowed; a store keeps what it uses */

/* Sets a rule as the updater of all later pushes, with these parameters, the others at their
 * defaults. Errors: usage (unknown parameter), value (out of its range), dtype (not of its kind),
 * memory. */
int kv_set_rule(kv *store, const kv_rule *rule, const kv_opt *params, int nparams, kv_err *e);

/* Sets one of the optimizers of the library by name, in any case: sgd, adam, lamb, …
 * (MXNet 1.9.1's, and adamw, adabelief, lans). Parameters as for kv_set_rule, with the constructor
 * names of MXNet 1.9.1, and for every optimizer: learning_rate, wd, rescale_grad, clip_gradient,
 * begin_num_update, multi_precision, decay_names; lr_scheduler ("factor(step=2, factor=0.5)"),
 * lr_mult and wd_mult ("0=1.7,fc_bias=0"), names ("0=fc_weight,1=fc_bias"), seed. States and counts
 * start anew.
 * Errors: usage (unknown optimizer or parameter), value, dtype, memory. (Seeds 001 to 004,
 * "set_optimizer") */
int kv_set_optimizer(kv *store, const char *name, const kv_opt *params, int nparams, kv_err *e);

/* Changes parameters of the optimizer or rule in use; states, counts and schedule stay. Errors:
 * usage (there is none; unknown parameter), unsupported (lr_mult, wd_mult and names cannot be
 * changed), as above. */
int kv_update_optimizer(kv *store, const kv_opt *params, int nparams, kv_err *e);

/* The text of the i-th optimizer of the library, which says in its comment what it is; *name is its
 * first name. NULL behind the last. */
const char *kv_optimizer_text(int i, const char **name);

/* Receives the lines that rules print, one call a line, in key order, before the push returns; an
 * array of several rows takes several. The rules above for updaters hold for it too. print may be
 * NULL: dropped. */
void kv_set_print(kv *store, void (*print)(void *arg, const char *line), void *arg);

/* How arrays look in those lines: show gives add the text of a, in pieces, without a newline at the
 * end; a is a default array, and borrowed. show may be NULL: as numpy prints them. An error is the
 * push's, whose updates have happened; the lines of that key are lost. */
typedef int (*kv_show)(void *arg, kv_array *a,
                       void (*add)(void *to, const char *text, size_t n), void *to, kv_err *e);
void kv_set_print_arrays(kv *store, kv_show show, void *arg);

/* ---- Transactions ---------------------------------------------------------------------------- */

/* Opens a transaction of the store: rollback will put back its keys, their values and counts, and
 * its updater, as they are now; commit keeps what has happened since. begin copies nothing: a key
 * is copied at its first change. A rule's printed lines and the arrays of the caller are no part of
 * it, and neither are outs that were pulled into. kv_free rolls nothing back and needs no commit.
 * Errors: value (begin: one is open already, they do not nest; commit, rollback: none is open),
 * unsupported (a store that is not only in this process), memory (begin). */
int kv_begin(kv *store, kv_err *e);
int kv_commit(kv *store, kv_err *e);
int kv_rollback(kv *store, kv_err *e);

/* Whether a transaction is open. */
bool kv_in_transaction(const kv *store);

/* How often the store has changed: larger after each init, push and change of the updater, and
 * after rollback again what it was at begin. Two equal numbers mean that nothing changed. */
uint64_t kv_changes(const kv *store);

/* ---- Files ----------------------------------------------------------------------------------- */

/* Writes the whole store to a safetensors file: one tensor a key under the key's text, and as
 * metadata the type, counts, order and updater (with the text of a rule, its parameters and its
 * states), so that other tools read the weights and kv_load the store, whose training then goes on
 * as if nothing had happened. core/store_file.h has the table. The old
 * file is replaced at once or not at all, whatever happens meanwhile; the new one is synced to the
 * disk when the call returns. What is saved is the store at the time of the call, also what an open
 * transaction has changed; other threads may use the store while the file is written.
 * Errors: unsupported (the updater is a C function; a row_sparse key; a store that is not only in
 * this process), io, memory. */
int kv_save(kv *store, const char *path, kv_err *e);

/* Makes a store of a file that kv_save wrote, or of any other safetensors file: the tensors of
 * another tool become text keys of a store of type local, in the order of the file, also when their
 * names are numbers. Arrays begin on cpu(0), like those of kv_init, whatever device held them. The
 * file is checked as a whole before the store is there.
 * Out: *store, released with kv_free.
 * Errors: io, format (malformed, cut, of a later format, a rule that cannot be read; the text
 * begins with the path), unsupported (a dtype or type that is not available here), memory. */
int kv_load(kv **store, const char *path, kv_err *e);

/* Writes what the optimizer or rule in use keeps to a safetensors file: its states as tensors named
 * KEY/STATE, float32 masters, and in the metadata the count of each key, the optimizer's numbers
 * and where its schedule stands. With the flag also the rule and its parameters, multipliers and
 * names among them. core/state_file.h has the table. The weights are not part of it. The file is
 * replaced as by kv_save.
 * Errors: usage (no optimizer is in use), unsupported (the updater is a C function), value (a flag
 * that is none), io, memory. (Seeds 002 to 004, "save_optimizer_states") */
#define KV_DUMP_OPTIMIZER 1u
int kv_save_states(kv *store, const char *path, uint32_t flags, kv_err *e);

/* Puts states that kv_save_states wrote in the place of those of the optimizer in use, so that with
 * the same weights training goes on, to the last bit, as it would have. The store has the keys,
 * shapes and dtypes of that time; an optimizer of the same name is set, with whatever parameters.
 * A file that holds the optimizer too replaces the one in use, whichever it is. Unlike in MXNet
 * counts and schedule are restored also from a file without the optimizer.
 * The file is checked as a whole first; after an error everything goes on as before.
 * Errors: usage, unsupported (as above), io, format (malformed, cut), value (states of another
 * optimizer), key (keys missing, or too many), shape, dtype, memory. (Seeds 002 to 004,
 * "load_optimizer_states") */
int kv_load_states(kv *store, const char *path, kv_err *e);

/* ---- Descriptions ---------------------------------------------------------------------------- */

/* One column of a row of a description. number is meant when text is NULL. */
typedef struct kv_field {
    const char *name;
    const char *text;
    int64_t number;
} kv_field;

/* Receives one row; a result other than KV_OK ends the visit and is returned. */
typedef int (*kv_visitor)(void *arg, const kv_field *fields, int nfields, kv_err *e);

/* Describes a topic row by row:
 *   "types"  every store type: name, aliases, available (0 or 1), reason; store may be NULL
 *   "store"  type, rank, num_workers, updater, keys, bytes
 * Error: usage (unknown topic). */
int kv_describe(kv *store, const char *topic, kv_visitor visit, void *arg, kv_err *e);

/* ---- The process ----------------------------------------------------------------------------- */

/* Virtual GPUs: from now on gpu(0) to gpu(n-1) are contexts in host memory, so that programs for
 * several GPUs run on a machine without one. 0 switches them off. Error: value (n outside 0 to
 * KV_CTX_MAX + 1). */
int kv_set_virtual_gpus(int n, kv_err *e);

/* Receives warnings, one call each; NULL (the default) drops them. Process-wide. */
void kv_set_log(void (*log)(void *arg, const char *text), void *arg);

/* ---- Types as plugins ------------------------------------------------------------------------ */

/* What a store type does. local and device are made of the same table. Every operation gets a call
 * whose arguments were checked for form (keys of one kind, arrays not NULL); it keeps the promises
 * of the function of the same name above. */
#define KV_TYPE_VERSION 1

typedef struct kv_type_ops {
    uint32_t size;            /* sizeof (kv_type_ops) where the table was made */
    uint32_t version;         /* KV_TYPE_VERSION */
    const char *const *names; /* the name and its aliases, in lower case, NULL behind the last */

    /* required: *self is the type's own part of the store. Options that it does not know: usage. */
    int (*open)(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e);
    /* (optional, NULL means nothing to release) */
    void (*close)(void *self);

    /* required */
    int (*init)(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                const kv_call *call, kv_err *e);
    int (*push)(void *self, const kv_key *keys, int64_t n, kv_array *const *values,
                const kv_call *call, kv_err *e);
    int (*pull)(void *self, const kv_key *keys, int64_t n, kv_array *const *outs,
                const kv_call *call, kv_err *e);

    /* (optional, NULL means 0 and 1) */
    int (*rank)(void *self);
    int (*num_workers)(void *self);
} kv_type_ops;

/* Adds a store type, so that kv_create knows its names in any case. ops stays valid for ever.
 * Errors: value (size or version of another build), name (a name is taken), memory. (Seed 004,
 * "register") */
int kv_register_type(const kv_type_ops *ops, kv_err *e);

/* A plugin is a shared object with one function, called once after loading, on the thread of the
 * kv_create or first context that needs it; it registers its types and devices. Plugins are looked
 * for in $KVSTORE_PLUGINS, then beside the library, and never unloaded. A plugin that cannot load
 * makes its types unavailable, with the reason. (This version loads none.) */
typedef struct kv_host {
    uint32_t size;    /* sizeof (kv_host) of the library */
    uint32_t version; /* KV_TYPE_VERSION of the library */
} kv_host;

typedef int (*kv_plugin_init_fn)(const kv_host *host, kv_err *e); /* exported as kv_plugin_init */

#ifdef __cplusplus
}
#endif
#endif
