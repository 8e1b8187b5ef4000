/* libkvstore: a key-value store of arrays.
 *
 * Devices and machines push arrays in; the store sums what is pushed to a key and hands the sum to
 * an updater; everybody pulls the result. It is the parameter store of distributed training, with
 * the behaviour and the numbers of MXNet's KVStore 1.9.1.
 *
 *     kv *store = NULL;
 *     kv_err err = {0};
 *     kv_create("local", NULL, 0, &store, &err);
 *     kv_init(store, &key, 1, &weight, NULL, &err);       // once a key
 *     kv_push(store, &key, 1, &gradient, NULL, &err);     // sum, then updater
 *     kv_pull(store, &key, 1, &weight, NULL, &err);       // newest value
 *
 * Errors.    Functions that can fail return a kv_code and fill the caller's kv_err (kv_err.h); the
 *            first failure wins, so one look behind several calls finds it. A call checks
 *            everything and allocates everything before its first write: a failed call has changed
 *            nothing, unless its declaration says so: an updater in C, or a GPU, may fail in the
 *            middle. The library never prints, exits, aborts, installs signal handlers or calls
 *            setlocale.
 * NULL.      A function that returns a kv_code refuses a NULL that it needs (usage; the text names
 *            the argument), so calls may follow one that could not make its store or array. A
 *            function that cannot fail, such as kv_type or kv_array_shape, needs what it asks
 *            about: a NULL there is the caller's bug. kv_free, kv_array_unref and their kin take
 *            NULL, and so does every kv_err.
 * Ownership. Arrays are counted (kv_array.h). A call borrows the arrays passed to it and takes
 *            references where it needs them longer. Keys, names and options are copied. What a
 *            function returns as a plain pointer is borrowed until the next change of its owner.
 * Blocking.  push and pull return after scheduling: their element work is an operation, which
 *            threads of the library run. A small one with nothing in its way runs at once, on the
 *            caller's thread; so does a call of very many small arrays, which threads of the
 *            library may share. At most 256 operations of a store are pending; the next call waits
 *            until there is room. Operations on one array or key keep program order, others run at
 *            the same time. Reading or writing an array waits for what uses it; kv_wait and kv_free
 *            wait for everything, and so do kv_save, kv_save_states and kv_load_states, begin,
 *            commit and rollback, kv_delete and kv_rename, and changing the updater. init copies
 *            before it returns. Do not change a pushed array except through kv_array_write, which
 *            waits for the store to have read it; the handle may be released at once.
 * Threads.   Any thread may call; one lock of the store covers check and schedule, so program order
 *            is the order of entry. Freeing a store while another thread is in it is the caller's
 *            bug. Several stores in one process do not disturb each other. One pool of threads runs
 *            the operations of all: as many as there are processors that the process may use, or as
 *            $KVSTORE_THREADS says. They sleep when there is nothing to do.
 * Numbers.   A sum is taken left to right in the order of the list; every value is converted to the
 *            stored dtype first. float16 and bfloat16 sums accumulate in float32 and round once.
 *            Integers wrap, bool sums are OR. Float to integer truncates and saturates (nan gives
 *            0). The same inputs give the same bits, whatever the number of threads.
 *
 * "Seed 000" to "seed 004" in comments name the five public documents that describe MXNet's store:
 * the KVStore tutorial (000), notes on the Python API (001), the Python help with a notebook (002),
 * the Perl manual page (003) and the 2.0 base class (004).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kv_array.h"
#include "kv_err.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KV_VERSION "0.2.0"

/* The version of the library in use, which may differ from KV_VERSION of the header. */
const char *kv_version(void);

typedef struct kv kv; /* a store */

/* An option or parameter by name; its value as text ("0.1", "true", "none"). */
typedef struct kv_opt {
    const char *name;
    const char *value;
} kv_opt;

/* Options of one call; NULL stands for all zero. */
typedef struct kv_call {
    int32_t priority; /* larger is sooner among the operations that are ready; only a hint */
    uint32_t flags;   /* of those below */
    int64_t *ignored; /* NULL, or receives the number of outs that kv_pull left as they were */
} kv_call;

#define KV_FILL_SPARSE 1u /* kv_pull: row_sparse arrays among outs are filled, not ignored */

/* ---- Stores ---------------------------------------------------------------------------------- */

/* Makes a store. type: "local" (also local_update_cpu, local_allreduce_cpu), "device" (also
 * local_allreduce_device), "nccl" where GPUs and NCCL are, or a registered one, in any case; NULL
 * means "local". opts: options of the type, none for these.
 * Out: *store, to be released with kv_free.
 * Errors: usage (unknown option; kv_err.option says which), unsupported (a type that is unknown, or
 * known but not available here; the text says why and the hint names the types that are), memory.
 * (Seeds 000 to 004, "create". Unlike MXNet an unknown name is refused.) */
int kv_create(const char *type, const kv_opt *opts, int nopts, kv **store, kv_err *e);

/* Waits for everything scheduled, then releases the store. NULL is allowed. */
void kv_free(kv *store);

/* The name given to kv_create in lower case, a registered one as it was registered. The text lives
 * as long as the process. Never blocks, and may be called from updaters and printers. store is not
 * NULL. (Seed 004) */
const char *kv_type(const kv *store);

/* The rank of this worker, 0 to kv_num_workers - 1; 0 of 1 for stores of one process. They do not
 * block either, and store is not NULL. */
int kv_rank(const kv *store);
int kv_num_workers(const kv *store);

/* The same of the job that this process is a rank of, as its launcher says it, before there is a
 * store: of mpirun, kvctl launch, and srun with PMIx; 0 of 1 where there is no job. Returns true if
 * a store of several workers has been made in this process. */
bool kv_job(int *rank, int *num_workers);

/* ---- Keys and values ------------------------------------------------------------------------- */

/* The calls of this section take n pairs (keys[i], arrays[i]). A store holds integer keys or text
 * keys, fixed by its first key. n = 0 does nothing. call may be NULL. */

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
 * values[i] has the shape of the stored array, or both have one element; any dtype, any context. It
 * is never changed.
 * row_sparse values make a row_sparse sum, which holds the rows that any of them holds; one default
 * value among them makes a default sum, as if all were default arrays. Without an updater the key
 * becomes row_sparse with it, and one that is row_sparse stays so. With an updater a key keeps its
 * storage, and a row_sparse one comes to hold all its rows.
 * Errors: key (never initialised while an updater is set; of the other kind), shape, dtype (a rule
 * that cannot run on the stored dtype), value (a rule's `fail`), unsupported (a rule that reduces
 * rows and whole arrays), memory. All these come from this call. Only a C callback can fail later,
 * and a GPU (io; memory, where a launch lacks it): that error comes from this call where it runs
 * the work, else from the next kv_wait. A callback that fails keeps the old value; what a GPU did
 * not write can be neither pulled nor updated (io) until a push without an updater, a rollback or
 * kv_load replaces it. Before push
 * returns, values of row_sparse sums are waited for and summed, and what a rule prints is printed;
 * a rule that prints arrays runs before that. (Seeds 000 to 003, "push") */
int kv_push(kv *store, const kv_key *keys, int64_t n, kv_array *const *values, const kv_call *call,
            kv_err *e);

/* Writes the newest value of keys[i] into outs[i], converted to its dtype, across contexts. A key
 * may stand in several pairs, and so may an out, which then holds the last of them. The holders of
 * other references to outs[i] see the change. kv_array_read of outs[i] waits until it is there.
 * A default out takes all rows of a row_sparse key. A row_sparse out is left as it is, whatever the
 * key holds: call->ignored says how many were; where it is NULL the first of each key is told to
 * kv_set_log. With KV_FILL_SPARSE it comes to hold the rows that the key holds, or of a default one
 * those with an element that is not zero; the call then waits for what was scheduled on the key.
 * Errors: key (never initialised, other kind), shape, memory. (Seeds 000 to 003, "pull") */
int kv_pull(kv *store, const kv_key *keys, int64_t n, kv_array *const *outs, const kv_call *call,
            kv_err *e);

/* As kv_pull, for outs that hold what a pull brought before: of several machines only the elements
 * come whose bits have changed since. rounds[i] says which round of keys[i] outs[i] holds, the
 * number that this function gave at that time; KV_NO_ROUND: none, all elements come. It becomes the
 * round that outs[i] holds now; of several machines KV_NO_ROUND where a later pair has written the
 * array with another key. A round of a key is one of its updates: its first value is round 0, and
 * in a store of one process or with rounds (dist_sync) the number of its pushes follows (see
 * kv_info); with dist_async it is that of the pushes of all workers, as far as all servers that
 * have a part of the key have come.
 *
 * outs[i] has the bits that kv_pull would give it, if it holds that round, converted to its dtype
 * as kv_pull does, and nobody has written it since. Servers know changes from the first such pull
 * of a key on, in one byte an element, at least 127 rounds back, and forget them when nobody asks
 * for as long. Who holds an older round gets all elements, and so does a key that has moved to
 * another server, that came from a checkpoint, or that is row_sparse, and an out on a GPU.
 * In stores of one process all elements are copied; these are the local types, and those that
 * a copy of their table makes.
 * Of several machines the call returns when the outs are there, else when they are scheduled. The
 * topic "store" of kv_describe counts the bytes.
 * Errors: those of kv_pull, value (a round that the key has not reached, unless this worker is done
 * or the type is dist_async: then all elements come), unsupported (an out is row_sparse; a type
 * that counts no rounds). */
#define KV_NO_ROUND (-1)
int kv_pull_since(kv *store, const kv_key *keys, int64_t n, kv_array *const *outs, int64_t *rounds,
                  const kv_call *call, kv_err *e);

/* Writes some rows of the row_sparse key keys[i] into the row_sparse array outs[i], converted to
 * its dtype, across contexts. What outs[i] held is gone: it holds the rows that ids[i] names,
 * ascending and each once, those that the key lacks as zeros; from a key that holds no row at all,
 * none. A key may stand in several triples, and so may ids; of an array that stands several times
 * in outs the last triple counts.
 * ids[i]: a default array of any shape; ids in any order, also several times, from 0 to rows - 1.
 * int8, uint8, int32, int64, or a float dtype with whole numbers no larger than it holds exactly.
 * The call waits until they are there, then returns after scheduling.
 * Errors: key (never initialised, other kind), shape, value (the key, or outs[i], is not
 * row_sparse; ids[i] is), dtype (of ids), index (an id out of range), unsupported (a store without
 * this operation), memory. (Seeds 002 to 004, "row_sparse_pull") */
int kv_row_sparse_pull(kv *store, const kv_key *keys, int64_t n, kv_array *const *ids,
                       kv_array *const *outs, const kv_call *call, kv_err *e);

/* push of the n values, then pull into the nouts outs, as one call that is checked as a whole
 * before anything changes. Without an updater outs receive the sums, with one the updated stored
 * values. The two lists are grouped apart: one key may have four values and two outs. With nouts =
 * 0 (okeys and outs are not looked at) the call works in place: every value receives the result of
 * its key. A key that a C function refuses to update keeps its value, and outs receive that.
 * A type that has no pushpull of its own pushes and then pulls: what is wrong with the outs is then
 * found when the push has happened.
 * Errors: those of kv_push and kv_pull. (Seeds 002 to 004, "pushpull") */
int kv_pushpull(kv *store, const kv_key *keys, int64_t n, kv_array *const *values,
                const kv_key *okeys, int64_t nouts, kv_array *const *outs, const kv_call *call,
                kv_err *e);

/* init of the n values, then pull into the nouts outs, in the same way: on several machines every
 * out receives the value of rank 0. A key can be broadcast once. nouts = 0 pulls nothing.
 * Errors: those of kv_init and kv_pull. (Seed 004, "broadcast") */
int kv_broadcast(kv *store, const kv_key *keys, int64_t n, kv_array *const *values,
                 const kv_key *okeys, int64_t nouts, kv_array *const *outs, const kv_call *call,
                 kv_err *e);

/* Looks at a key from beside the program that uses the store: *out becomes a new array on cpu(0),
 * default storage, with what the key holds between two rounds. On several machines it does not
 * count as a pull: servers answer at once, whatever rounds are open; nobody waits for it, it waits
 * for no push, not even those of this worker, and no count, no later pull and no bit of a result
 * depends on it. Any thread may call, also while another one is in a call that waits for other
 * ranks. In a store of one process it is a pull of that key, which waits for the pushes before it.
 * Out: rounds[0] and rounds[1], the rounds (see "rounds" of kv_describe) of the oldest and of the
 * newest part of the value: they differ where a key of several parts was pushed to so fast that
 * several attempts found no moment between two rounds.
 * Errors: key (never initialised, of the other kind), unsupported (a type that keeps nothing),
 * peer, timeout, memory. */
int kv_peek(kv *store, const kv_key *key, kv_array **out, int64_t rounds[2], kv_err *e);

/* Deletes keys, with all that the store keeps for them: values, counts, states of the optimizer,
 * residuals of compression. What the optimizer counts over all keys stays, and so do its names and
 * multipliers, which are given by key: they hold for a key of that name again. The other keys keep
 * their order. A key may be made anew afterwards, with any shape and dtype; a store without keys
 * takes keys of either kind again. Waits for what is pending, so a pull that was scheduled before
 * gives the value of that time. A rollback brings the keys back. n = 0 does nothing. keys may be
 * those of kv_info.
 * Errors: key (not there, twice in the call, of the other kind), unsupported (a type of several
 * machines, and every other that has not the capability delete), memory. */
int kv_delete(kv *store, const kv_key *keys, int64_t n, kv_err *e);

/* Gives the key `from` the name `to`: everything that is kept for it, its multipliers and its name
 * in the optimizer's parameters (lr_mult, wd_mult, names), and for a text key its place in the
 * order. Those that `to` had there are dropped. Random numbers of rules are those of `to`. Waits
 * for what is pending; a rollback takes it back.
 * Errors: key (from is not there; to is there, also when it is from, is of the other kind, no
 * UTF-8, longer than KV_KEY_MAX, or has a comma or = where a multiplier or a name is to be kept),
 * unsupported as above, memory. */
int kv_rename(kv *store, const kv_key *from, const kv_key *to, kv_err *e);

/* Blocks until everything scheduled on the store has ended. Returns the first error of a C callback
 * that ran in the background since the last wait, with its key, and forgets it; errors that a call
 * has returned itself do not come again. Other threads may go on using the store meanwhile.
 * Errors: that of the callback; usage (store is NULL; called from an updater or printer). */
int kv_wait(kv *store, kv_err *e);

/* The same, for some `ms` milliseconds: *idle is false if something is under way then; its error is
 * left for the next wait. So a caller can look at its own signals between two waits. Errors also:
 * value (ms is negative). */
int kv_wait_for(kv *store, int ms, bool *idle, kv_err *e);

/* The same without waiting: the first error of the operations that have ended by now. */
int kv_check(kv *store, kv_err *e);

/* Blocks until every worker has called it. A store of one process has one worker, so it returns at
 * once; it does not wait for scheduled operations. (Seed 003, "_barrier") */
int kv_barrier(kv *store, kv_err *e);

/* Says that this worker pushes no more: rounds are complete without it from now on, and so are
 * barriers, at which it does not wait either. Waits for what is pending. In a store of one process
 * nobody waits for it, and nothing happens. A worker that ends without it leaves rounds that cannot
 * be completed: there the calls of the others fail (peer). Errors: peer. */
int kv_done(kv *store, kv_err *e);

/* Hands a command to every server and returns when all have carried it out. A store without servers
 * takes any command and does nothing. body is a text; NULL means "". (Seed 003,
 * "_send_command_to_servers") */
int kv_send_command(kv *store, int head, const char *body, kv_err *e);

/* Receives on this process, where it serves, what kv_send_command brings, one at a time and on a
 * thread of the library, which it must not keep; it may not use stores. Process-wide; NULL, the
 * default: commands do nothing. */
void kv_set_controller(void (*control)(void *arg, int head, const char *body), void *arg);

/* Receives the lines that rules print where this process serves, as kv_set_print does for a store
 * of one process; called and set like the above. */
void kv_set_server_print(void (*print)(void *arg, const char *line), void *arg);

/* Makes this process one that only serves the stores of others, as the launch environment says;
 * returns when all workers have left. type: of several machines. Errors: unsupported (a type
 * without servers; not started as a rank of a job), peer. (Seed 003, "server") */
int kv_serve(const char *type, kv_err *e);

/* In a job with spares (kvctl launch --spares) joins the others. *works: true at once on a worker;
 * a spare waits, outside of all rounds, until it is let in as one, and *works is false when the job
 * has ended, or failed, without it. type: of several machines. Errors: unsupported (a type whose
 * jobs have no spares; not started as a rank of a job), peer. */
int kv_await_turn(const char *type, bool *works, kv_err *e);

/* Asks if stores of this type have a capability: the operations init, push, pull, pushpull,
 * broadcast; updater (a rule or a C function), optimizer, states, row_sparse (also sparse,
 * sparsity), gradient_compression (also compression), transactions, files, delete (also rename).
 * Case does not matter, - and a blank are _. store NULL asks only whether the word is one, and says
 * no. Error: usage (no such capability, with a hint). (Seed 004, "is_capable") */
int kv_is_capable(const kv *store, const char *capability, bool *yes, kv_err *e);

/* The i-th capability that kv_is_capable knows, NULL behind the last. */
const char *kv_capability(int i);

/* The description of a key. Pointers are borrowed until the next call that changes the store. */
typedef struct kv_info {
    kv_key key;
    kv_dtype dtype;
    int ndim;
    const int64_t *shape;
    kv_ctx ctx;
    int64_t bytes;   /* of the stored array */
    int64_t pushes;  /* so far */
    int64_t pending; /* operations that use the stored array and have not ended */
    kv_storage storage;
    int64_t unread;        /* 0, or the byte of a file from which the value is yet to be read, */
    uint64_t unread_inode; /* and the file's inode: see kv_load_later */
    bool loaded; /* kv_load brought the key; it may have got another name since */
    int64_t updates; /* its count t of the updater in use */
    int states;      /* arrays and numbers that the updater keeps for it */
} kv_info;

/* Error: key (not there, or of the other kind). */
int kv_find(kv *store, const kv_key *key, kv_info *info, kv_err *e);

/* The same of a key that another rank may have made and that this one has not used yet: waits, as a
 * pull of it would, until rank 0 has made it or cannot any more. Errors: key, peer, timeout. */
int kv_await_key(kv *store, const kv_key *key, kv_info *info, kv_err *e);

/* The number of keys. Waits for a call that another thread has in the store. From inside an updater
 * or printer of the store, and for NULL, it gives 0 and the log (kv_set_log) says why. */
int64_t kv_num_keys(const kv *store);

/* The i-th key in the order of updates (see kv_push). Errors: index; usage, inside an updater. */
int kv_info_at(kv *store, int64_t i, kv_info *info, kv_err *e);

/* Gives `visit` the description of one key, or with key NULL of each in the order of updates, while
 * no other thread can change the store: for stores that threads share, since what kv_info points to
 * stays there until visit returns. visit must not call the store; a result other than KV_OK ends
 * the visit and is returned, and e then says why. Errors: key (not there, or of the other kind),
 * usage (inside an updater), memory, those of visit. */
int kv_visit_keys(kv *store, const kv_key *key,
                  int (*visit)(void *arg, const kv_info *info, kv_err *e), void *arg, kv_err *e);

/* ---- Updaters -------------------------------------------------------------------------------- */

/* Combines `input`, the sum pushed to `key`, with `stored` and writes the result into `stored` with
 * kv_array_read and kv_array_write, or where they are row_sparse with those of rows; `stored` then
 * holds all its rows, `input` those that were pushed. `input` must not be written. The callbacks of
 * a store run one at a time, in program order and within a push in key order, on a thread of the
 * library; those of a small push that has nothing in its way on the caller's. One may ask its store
 * only for type and rank: anything else is an error (usage). It may use other stores, but not one
 * whose updater has used this one, or led to it by others: each could wait for the other, so the
 * first such call is an error (usage). A result other than KV_OK keeps the
 * old value of this key, and e then says why; the other keys of the call are updated all the same.
 */
typedef int (*kv_updater)(void *arg, const kv_key *key, kv_array *input, kv_array *stored,
                          kv_err *e);

/* Sets a C callback as the updater of all later pushes; update NULL goes back to ASSIGN, and arg
 * and done are ignored then. Counts and states of the updater before are dropped. Waits for what is
 * pending, as all functions do that change the updater.
 * Ownership: arg is the store's until done(arg), which is called once, without the store's lock,
 * when the updater is no longer used: after another one was set, after the transaction in which
 * that happened has ended, or in kv_free. done may be NULL: arg then must outlive the store. After
 * an error done is not called and arg stays the caller's.
 * Errors: usage (store is NULL; called from an updater or printer of the store). (Seeds 000, 001,
 * 003) */
int kv_set_updater(kv *store, kv_updater update, void *arg, void (*done)(void *arg), kv_err *e);

/* A rule: an updater written in the rule language, `{ stored += input * 2 }` or
 * `updater scale(factor = 2.0) { stored += input * factor }`; or as Python has it, `def update(key,
 * input, stored):` with an indented block, under any three names. A name that it reads and does not
 * define, such as `rate` in `{ stored -= rate * input }`, is a parameter without a default. In a
 * def `lr` and its kin (see kvctl's `help rules`) are such parameters, too: as long as they are not
 * given, they are what every rule has. */
typedef struct kv_rule kv_rule;

/* Reads and checks a rule. file, line and col (from 1) say where text stands, for error messages;
 * NULL, 0, 0 when nowhere. Out: *rule, released with kv_rule_free.
 * Errors: syntax, usage (with their place), memory. */
int kv_rule_new(kv_rule **rule, const char *text, const char *file, int line, int col, kv_err *e);
void kv_rule_free(kv_rule *rule); /* NULL is allowed; a store keeps what it uses */

/* Sets a rule as the updater of all later pushes, with these parameters, the others at their
 * defaults. A parameter without a default takes a number, true, false, none or a text, in "" where
 * the text would be read as one of these. Errors: usage (unknown parameter; with its place, one
 * without a default that is not given), value (out of its range), dtype (not of its kind),
 * memory. Of a wrong value kv_err.option says which of params it is. */
int kv_set_rule(kv *store, const kv_rule *rule, const kv_opt *params, int nparams, kv_err *e);

/* Sets one of the optimizers of the library by name, in any case: sgd, adam, lamb, …
 * (MXNet 1.9.1's, and adamw, adabelief, lans). Parameters as for kv_set_rule, with the constructor
 * names of MXNet 1.9.1, and for every optimizer: learning_rate, wd, rescale_grad, clip_gradient,
 * begin_num_update, multi_precision, decay_names; lr_scheduler ("factor(step=2, factor=0.5)"),
 * lr_mult and wd_mult ("0=1.7,fc_bias=0"), names ("0=fc_weight,1=fc_bias"; in all three each key
 * once), seed. Of a parameter that stands twice in params the last value holds. States and counts
 * start anew, but see kv_keep_states.
 * So has every optimizer and rule clip_global_norm (none, or c > 0): the gradients of one push or
 * pushpull are scaled by min(1, c / norm) before any key is updated. norm is the L2 norm over all
 * keys of the call, after the sum over devices and times rescale_grad, in double precision; the
 * rows of row_sparse gradients count like others. A norm that is infinite scales by 0, one that is
 * nan by nan, as torch.nn.utils.clip_grad_norm_ does. Such a push waits for its values. It is
 * refused (unsupported) with several workers, whose servers each have the sums of some keys only,
 * and with gradient compression; integer keys cannot be scaled (dtype).
 * Errors: usage (unknown optimizer or parameter), value, dtype, memory; of a wrong value
 * kv_err.option says which of params it is. (Seeds 001 to 004, "set_optimizer") */
int kv_set_optimizer(kv *store, const char *name, const kv_opt *params, int nparams, kv_err *e);

/* The first updater that is set on a store of kv_load keeps the states and counts that the file
 * brought, and takes the new parameters, if it is the same: an optimizer of the same name, or a
 * rule whose text differs in comments and blanks at most, with the same states. Its schedule stays
 * where it stood if it is the same one, too. Whatever is set later begins anew. This function
 * decides otherwise for the next updater that is set, and returns what held before: false lets it
 * begin anew, true keeps states if they fit. */
bool kv_keep_states(kv *store, bool keep);

/* How many keys lost states when the updater was set last. A note in the log has told so: "drops
 * the states of 3 keys: adam before, sgd now". */
int64_t kv_states_dropped(const kv *store);

/* Changes parameters of the optimizer or rule in use; states, counts and the progress of a schedule
 * that is not given stay. lr_mult, wd_mult and names take the place of the table before. Errors:
 * value (there is none; out of range), usage (unknown parameter; decay_names, which are set with
 * the optimizer), dtype, memory; nothing changed then. */
int kv_update_optimizer(kv *store, const kv_opt *params, int nparams, kv_err *e);

/* Compresses the gradients of all later pushes: every value of a push, also a single one, is
 * quantised together with a residual of its key and its position in the list, and what its codes
 * stand for is summed in its place. init is never compressed. Parameters:
 *   type       "2bit": +threshold, 0 or -threshold, whichever the gradient and the residual reach;
 *              "1bit": +1 above the threshold, else -1; "none": no compression again. Required.
 *   threshold  0.5 when it is not given; a float32, for 2bit greater than 0.
 *   pull       "true": the servers of dist_sync and dist_device_sync code what they store as well,
 *              the sum of a round and a residual of their own; a pull gives every worker what the
 *              codes stand for. Without an updater only. "false" when it is not given: a pull is
 *              never compressed.
 * The store holds float32 keys of default storage from now on; values of other dtypes are converted
 * first. Residuals begin at zero, and do so again when type, threshold or pull change (unlike in
 * MXNet). They are part of a transaction, of kv_save and of kv_save_states.
 * Errors: unsupported (a type that does not compress; pull, see there), usage (no type, unknown
 * parameter), value (unknown type, threshold not in its range, a row_sparse key), dtype (a
 * threshold that is not a number, a key that is not float32); nothing changes then, and of a wrong
 * parameter kv_err.option says which of params it is. Afterwards init and push refuse other keys
 * and row_sparse values with the same codes. (Seeds 002 and 003, "set_gradient_compression") */
int kv_set_gradient_compression(kv *store, const kv_opt *params, int nparams, kv_err *e);

/* The text of the i-th optimizer of the library, which says in its comment what it is; *name is its
 * first name, and name may be NULL. NULL behind the last. */
const char *kv_optimizer_text(int i, const char **name);

/* Receives the lines that rules print, one call a line without its newline, in key order, on the
 * thread of the push and before it returns; line is borrowed for the call. An array of several rows
 * takes several lines. What is said above of updaters and their store holds for it too. print NULL
 * (the default): lines are dropped. arg is borrowed until another printer is set or the store is
 * freed, without a notice. From inside an updater or printer of the store, and for NULL, it does
 * nothing and the log (kv_set_log) says why. */
void kv_set_print(kv *store, void (*print)(void *arg, const char *line), void *arg);

/* Sets the form of arrays in those lines: show gives add the text of a, in pieces, without a last
 * newline; a is a default array, and borrowed. show may be NULL: as numpy prints them. An error is
 * the push's, whose updates have happened; the lines of that key are lost. */
typedef int (*kv_show)(void *arg, kv_array *a,
                       void (*add)(void *to, const char *text, size_t n), void *to, kv_err *e);
void kv_set_print_arrays(kv *store, kv_show show, void *arg);

/* ---- Transactions ---------------------------------------------------------------------------- */

/* Opens a transaction of the store: rollback will put back its keys, their values and counts, and
 * its updater and compression, as they are now; commit keeps what has happened since. begin copies
 * nothing: a key is copied at its first change. A rule's printed lines and the arrays of the caller
 * are no part of it, and neither are outs that were pulled into. kv_free rolls nothing back and
 * needs no commit.
 * Errors: value (begin: one is open already, they do not nest; commit, rollback: none is open),
 * unsupported (a store that is not only in this process), memory (begin). */
int kv_begin(kv *store, kv_err *e);
int kv_commit(kv *store, kv_err *e);
int kv_rollback(kv *store, kv_err *e);

/* Returns true if a transaction is open. */
bool kv_in_transaction(const kv *store);

/* The number of changes of the store: larger after each init, push and change of the updater, and
 * after rollback again the number at begin. Two equal numbers mean that nothing changed. */
uint64_t kv_changes(const kv *store);

/* ---- Files ----------------------------------------------------------------------------------- */

/* Writes the whole store to a safetensors file: one tensor a key under the key's text, and as
 * metadata the type, counts, order and updater (with the text of a rule, its parameters and its
 * states), so that other tools read the weights and kv_load the store, whose training then goes on
 * as if nothing had happened. core/store_file.h has the table. The old file is replaced at once or
 * not at all, whatever happens meanwhile; the new one is synced to the disk when the call returns.
 * The file holds the store at the time of the call, with the changes of an open transaction; other
 * threads may use the store while the file is written.
 * Errors: unsupported (the updater is a C function; a store that is not only in this process), io,
 * memory. */
int kv_save(kv *store, const char *path, kv_err *e);

/* Writes the keys and the metadata of other tools alone, as another tool's file: no type, counts or
 * updater, so that kv_load takes it for one. Text keys that the tool named keep their names.
 * Errors: those of kv_save; unsupported (a key is row_sparse). */
int kv_save_arrays(kv *store, const char *path, kv_err *e);

/* Sets a text that belongs to other tools, such as "format" to "pt": kv_save writes it into the
 * metadata of its files, kv_load brings those of its file along, and the topic "metadata" of
 * kv_describe lists them. Errors: value (a name that begins with "kvstore."; no UTF-8), memory. */
int kv_set_metadata(kv *store, const char *name, const char *text, kv_err *e);

/* Returns true if kv_load made the store of another tool's file. */
bool kv_is_foreign(const kv *store);

/* Makes a store of a file that kv_save wrote, or of any other safetensors file: the tensors of
 * another tool become text keys of a store of type local, in the order of the file, also when their
 * names are numbers. Arrays begin on cpu(0), like those of kv_init, whatever device held them. The
 * file is checked as a whole before the store is there.
 * Out: *store, released with kv_free.
 * Errors: io, format (malformed, cut, of a later format, a rule that cannot be read; the text
 * begins with the path), unsupported (a dtype or type that is not available here), memory. */
int kv_load(kv **store, const char *path, kv_err *e);

/* Writes arrays to a file as MXNet's nd.save does, row_sparse ones as they are. Keys that are 0, 1
 * to n - 1 make a list, whose arrays have no names. The old file is replaced at once or not at all.
 * Errors: value (an array without axes), io, memory, an array's own. */
int kv_save_list(const char *path, const kv_key *keys, int64_t n, kv_array *const *arrays,
                 kv_err *e);

/* Reads such a file, or one that MXNet wrote: visit gets each array, on cpu(0), borrowed for its
 * call, in the order of the file, and its name, which is NULL in a list. array is NULL where the
 * file has a place without an array. csr becomes default, int16 and uint16 become int32, uint32 and
 * uint64 int64. An error that visit returns ends the reading.
 * Errors: io, format (MXNet did not write it; malformed), value (2^63 and more), memory. */
int kv_load_list(const char *path,
                 int (*visit)(void *arg, const char *name, kv_array *array, kv_err *e), void *arg,
                 kv_err *e);

/* Makes the same store, but the values of keys, and what an optimizer keeps for them, stay in the
 * file until a push, or another call that works with them, needs their elements. A pull reads them
 * into its array, and kv_save copies them from file to file. So memory holds the keys in use. Small
 * arrays, row_sparse keys and the residuals of gradient compression are read at once. The file
 * stays open: a new one may take its name, but if it is changed where it stands, each call that
 * needs a value from it, and kv_save, returns an error (io), and the store is as it was. Checksums
 * of the file are compared at once, and once more when a value is read. Errors: those of kv_load.
 */
int kv_load_later(kv **store, const char *path, kv_err *e);

/* Writes what the optimizer or rule in use keeps to a safetensors file: its states as tensors named
 * KEY/STATE, float32 masters and the residuals of gradient compression, and in the metadata the
 * count of each key, the optimizer's numbers and where its schedule stands. With the flag also the
 * rule and its parameters, multipliers and names among them. core/state_file.h has the table. The
 * weights are not part of it. The file is replaced as by kv_save.
 * Errors: value (no optimizer is in use; a flag that is none), unsupported (the updater is a C
 * function), io, memory. (Seeds 002 to 004, "save_optimizer_states") */
#define KV_DUMP_OPTIMIZER 1u
int kv_save_states(kv *store, const char *path, uint32_t flags, kv_err *e);

/* Puts states that kv_save_states wrote in the place of those of the optimizer in use, so that with
 * the same weights training goes on, to the last bit, as it would have. The store has the keys,
 * shapes and dtypes of that time; an optimizer of the same name is set, with whatever parameters.
 * A file that holds the optimizer too replaces the one in use, whichever it is. Unlike in MXNet
 * counts and schedule are restored also from a file without the optimizer.
 * The file is checked as a whole first; after an error everything goes on as before.
 * Errors: value, unsupported (as above), io, format (malformed, cut), value (states of another
 * optimizer or gradient compression), key (keys missing, or too many), shape, dtype, memory. (Seeds
 * 002 to 004, "load_optimizer_states") */
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
 *   "gpus"   one row: built (0 or 1: there is a plugin for GPUs), usable (0 or 1), reason (why
 *            not), software (that the plugin works with, and its versions), nccl (its version, or
 *            why it is not available); then a row for each GPU of this machine: device, name,
 *            bytes, free (bytes; -1: it cannot be used), major, minor (of what it can do), reaches
 *            (the GPUs whose memory it reads directly, "1 2 3"), reason (why it cannot be used). To
 *            find out what is free takes a moment for each; store may be NULL
 *   "mpi"    one row: file and version of the library of MPI that stores of several machines use,
 *            reason (why there is none); store may be NULL
 *   "cluster"  a row for each rank, where the type has several: rank, role (worker, server, both),
 *            host, heard_ms (since its last heartbeat; -1: the two exchange no records, as
 *            workers where some ranks only serve), link (self, memory, messages); and of a server,
 *            else -1: keys (whose first part it has), bytes, rounds (applied to its parts),
 *            open (rounds that lack a worker), missing (which, "1 3"), stalest (dist_async: by how
 *            many pushes a pull was ahead of the slowest worker, at most), contributors (workers of
 *            the last round)
 *   "rounds"  a row for each key, of several machines also for those that this rank has not used:
 *            key (a number, or the text of a text key), round (pushes applied, to the part of it
 *            that is behind the others), newest (to the foremost part), ahead (rounds behind
 *            `round` to which some worker has pushed already; dist_async: pushes of the fastest
 *            worker more than those of the slowest), pushed and missing (the workers, "1 3", that
 *            the round which comes next has and lacks; both "" where none is open; dist_async: the
 *            fastest and the slowest ones; of the first 64)
 *   "store"  type, rank, num_workers, updater, compression ("none", "2bit 0.5", "2bit 0.5 pull"),
 *            keys, bytes; since_bytes, whole_bytes (only where kv_pull_since was called: the bytes
 *            that its calls brought, and those of whole arrays); reads (only where the rule has
 *            parameters without defaults: "rate 0.5, note 'x'"); clip_global_norm (only where it is
 *            set); then what a type works with. Of several machines: servers; partition_bytes, the
 *            size of a part of a key, and row_partition_bytes, of one that is cut by whole rows;
 *            spread_elements, from which on a key is spread over all servers; ahead_bytes, how much
 *            a worker may push ahead of the others; deadline_ms, after which a silent rank is lost,
 *            and timeout_ms, after which a wait is given up (0: never); link, to the other ranks
 *            (memory, messages, both, none); staleness (dist_async alone: the bound, or unbounded)
 *   "metadata"  a row for each text of other tools that its files hold: name, text
 *   "rule"   the rule in use, an optimizer's too, one row: rule (its name), text, uses_lr, uses_wd
 *            (1: it reads them), reads (as above), schedule (where there is one)
 *   "optimizer"  the optimizer or rule in use, one row: optimizer (its name), num_update (the
 *            largest count of a key), learning_rate (of the last update, before multipliers),
 *            schedule (only where there is one: as a call with all parameters), reads (as above),
 *            then its numbers that all keys share, each under its own name. The servers of
 *            dist_async each count the keys they have, and their schedule follows these counts:
 *            num_update is the largest of all, as exact as that of one process, and the rest is
 *            that of the first server that has it
 *   "states"  what the optimizer or rule keeps, a row for each state in the order of updates: key
 *            (a number, or the text of a text key), state (its name; "stored" is a float32 master;
 *            "" in the one row of a key that keeps nothing), dtype, shape ("(2, 3)", "" for a
 *            number), value (of a number, else ""; its dtype is int, float, bool or none), bytes
 *            (of an array), t (the count of the key)
 * Numbers are the shortest text that reads back equal. The rows describe the store at the time of
 * the call; the visitor may use the store.
 * Errors: usage (unknown topic), value (no optimizer is in use), unsupported (the updater is a C
 * function, so it has no states), memory, and the visitor's own. */
int kv_describe(kv *store, const char *topic, kv_visitor visit, void *arg, kv_err *e);

/* How long, in milliseconds, calls of this thread wait for a store while another thread is in one
 * of its calls, such as a barrier: then they fail (busy). Below 0, as at first: for ever. For
 * threads that look at a store which another one uses. */
void kv_set_patience(int ms);

/* ---- The process ----------------------------------------------------------------------------- */

/* Virtual GPUs: from now on gpu(0) to gpu(n-1) are contexts in host memory, so that programs for
 * several GPUs run on a machine without one, and alike on one that has some: these are out of reach
 * meanwhile. 0 switches them off. Error: value (n outside 0 to KV_CTX_MAX + 1). */
int kv_set_virtual_gpus(int n, kv_err *e);

/* Receives warnings, one call each; NULL (the default) drops them. What is not a fault, such as a
 * worker that joined, begins with KV_LOG_NOTE. Process-wide. */
#define KV_LOG_NOTE "note: "
void kv_set_log(void (*log)(void *arg, const char *text), void *arg);

/* For jobs of several machines. If the ranks of a job wait for each other, so that none can ever go
 * on, the job ends with an error (peer) that says so, and the place at which each rank waits. That
 * needs programs that tell when their one thread waits: this thread runs the script of the program
 * from now on, or with NULL it does no more. `place` writes where the script is, such as "barrier,
 * train.kv:3", at most `room` bytes with the NUL; it runs on another thread while this one stays in
 * its wait, and returns false if the program may still do something, such as another thread of its
 * own. slices: false, or the thread waits with kv_array_await and kv_wait_for, and does nothing but
 * look for signals between such calls. A fork forgets it. */
typedef bool (*kv_place)(void *arg, char *out, size_t room);
void kv_set_script(kv_place place, void *arg, bool slices);

/* Begins a profile: from now on every operation of every store in the process is recorded, and
 * kv_profile_stop writes it to path in Chrome's trace event format (a JSON array of objects, times
 * in microseconds), which https://ui.perfetto.dev shows. By their "cat":
 *   enqueue  a call of push or pull, up to the return of its scheduling, on the caller's thread
 *   wait     from there to the moment when nothing is in the operation's way; a pair "b" and "e"
 *   queue    from there to the moment when a thread takes it; a pair too
 *   travel   of several machines, from there until the servers have answered; a pair too
 *   run      the operation, on the thread that ran it; init, delete and rename are ones of their
 *            caller's thread. A key is free for the next operation when its parts have ended,
 *            perhaps before the run has
 *   part     a piece of its work for one key: "sum", "update" (with a rule also the sum), "copy",
 *            "compress"; args: key, from, elements, bytes
 *   gpu      a list of keys on a GPU: "sum", "update", "copy", "quantise", of nccl "sum together",
 *            "copy together"; args: keys, device, elements, bytes. The thread waits for the end of
 *            it while a profile is taken
 * args.op numbers the operations, args.keys are the first 16 keys of args.nkeys. pid is the rank;
 * in a job of several each writes a file of its own, for "p.json" p.rank0.json and so on, and
 * `jq -s add p.rank*.json` makes one of them.
 * An operation that began before is not in it, and one that has not ended at the stop is there
 * without its end: kv_wait before it. A call of very many small arrays, which otherwise runs in
 * batches, is one operation while a profile is taken. Recording takes memory, about 200 bytes an
 * event, for the first 2^20 events; a warning tells how many came behind them and are left out.
 * Errors: value (one is being taken already), io (path cannot be written), memory. */
int kv_profile_start(const char *path, kv_err *e);

/* Ends the profile and writes the file, which appears whole or not at all. Errors: value (none is
 * being taken), io, memory (it ran out while recording); the profile has ended after these, too. */
int kv_profile_stop(kv_err *e);

/* ---- Types as plugins ------------------------------------------------------------------------ */

/* The operations of a store type. local, device and teststore are made of the same table. Each one
 * gets a call whose arguments were checked for form (keys of one kind, arrays not NULL, n >= 1); it
 * keeps the promises of the function of the same name above, except that call->ignored and the log
 * are not its business. The store's lock is held, so an operation must not call functions that take
 * the store; kv_type is allowed. */
#define KV_TYPE_VERSION 2

/* Capabilities of a type beyond the operations of its table. The three before the last belong to
 * stores that keep everything in slots of the library, which a type gets by copying the table of
 * local or device. */
#define KV_CAN_UPDATER 0x1u              /* C functions and rules */
#define KV_CAN_OPTIMIZER 0x2u            /* kv_set_optimizer, kv_update_optimizer; rules */
#define KV_CAN_STATES 0x4u               /* kv_save_states, kv_load_states */
#define KV_CAN_ROW_SPARSE 0x8u           /* row_sparse values */
#define KV_CAN_GRADIENT_COMPRESSION 0x10u
#define KV_CAN_TRANSACTIONS 0x20u        /* kv_begin */
#define KV_CAN_FILES 0x40u               /* kv_save, kv_load */
#define KV_CAN_DELETE 0x80u              /* kv_delete, kv_rename */
#define KV_CAN_LOSE_WORKERS 0x100u       /* jobs go on without one: kvctl launch --elastic */

/* The description of one rank in a store of several machines. */
typedef struct kv_rank_info {
    int64_t rank, heard_ms;
    const char *host, *role, *link; /* of the type; they live as long as the process */
    int64_t keys, bytes, rounds, open, stalest, contributors; /* -1: the rank does not serve */
    char missing[64];
} kv_rank_info;

enum { KV_MOST_SETTINGS = 16 };

/* Why states are visited: to be described, on this worker alone; or by all workers, of which rank 0
 * writes or reads a file. */
typedef enum kv_states_visit { KV_STATES_LOOK, KV_STATES_SAVE, KV_STATES_LOAD } kv_states_visit;

/* The keys and arrays of a call: keys[i] goes with arrays[i], and n is at least 1. The lists are
 * the caller's, and an operation keeps neither of them. */
typedef struct kv_pairs {
    const kv_key *keys;
    kv_array *const *arrays;
    int64_t n;
} kv_pairs;

typedef struct kv_type_ops {
    uint32_t size;            /* sizeof (kv_type_ops) where the table was made */
    uint32_t version;         /* KV_TYPE_VERSION */
    const char *const *names; /* the name and its aliases, at most 8, NULL behind the last; matched
                                 in any case */
    uint32_t capabilities;    /* of the above */

    /* required: *self is the type's own part of the store. Options that it does not know: usage. */
    int (*open)(kv *store, const kv_opt *opts, int nopts, void **self, kv_err *e);
    /* (optional, NULL means nothing to release) */
    void (*close)(void *self);

    /* required: all three of these, or both of the next two. (optional otherwise, NULL means that
     * the call is refused: unsupported) */
    int (*init)(void *self, const kv_pairs *values, const kv_call *call, kv_err *e);
    int (*push)(void *self, const kv_pairs *values, const kv_call *call, kv_err *e);
    int (*pull)(void *self, const kv_pairs *outs, const kv_call *call, kv_err *e);

    /* (optional, NULL means push, then pull) outs == values where the values receive the results,
     * here and in broadcast. */
    int (*pushpull)(void *self, const kv_pairs *values, const kv_pairs *outs, const kv_call *call,
                    kv_err *e);
    /* (optional, NULL means init, then pull) outs->n may be 0. */
    int (*broadcast)(void *self, const kv_pairs *values, const kv_pairs *outs,
                     const kv_call *call, kv_err *e);

    /* (optional, NULL means 0 and 1) */
    int (*rank)(void *self);
    int (*num_workers)(void *self);

    /* (optional, NULL means unsupported) */
    int (*row_sparse_pull)(void *self, kv_array *const *ids, const kv_pairs *outs,
                           const kv_call *call, kv_err *e);

    /* (optional, NULL means that other ranks make no keys) see kv_await_key */
    int (*await_key)(void *self, const kv_key *key, kv_err *e);

    /* (optional, NULL means there is no rank to wait for, and no server) body is not NULL */
    int (*barrier)(void *self, kv_err *e);
    int (*send_command)(void *self, int head, const char *body, kv_err *e);

    /* (optional, NULL means that no rank waits for this worker) see kv_done */
    int (*done)(void *self, kv_err *e);

    /* (optional, NULL means unsupported) Out: *rows, a row for each rank, *n of them, in memory of
     * the library. Called without the store's lock. See kv_describe */
    int (*cluster)(void *self, kv_rank_info **rows, int64_t *n, kv_err *e);

    /* (optional, NULL means nothing to tell) Out: fields, at most KV_MOST_SETTINGS, of the topic
     * "store" of kv_describe; their texts live as long as the store. Returns how many. */
    int (*settings)(void *self, kv_field *fields);

    /* (optional, NULL means that the store's own updater is all) Told of an optimizer or rule
     * before it is set. kind: "optimizer" with its name as text, "rule" with the rule's text,
     * "update" of the one in use with "", "assign" with "". */
    int (*set_optimizer)(void *self, const char *kind, const char *text, const kv_opt *params,
                         int nparams, kv_err *e);

    /* (optional, NULL means that the type has no servers) see kv_serve */
    int (*serve)(kv_err *e);

    /* (optional, NULL means that the states are in the store's slots) Calls use where the file is,
     * while the slots hold all states; its result is that of every worker. */
    int (*visit_states)(void *self, kv_states_visit why, int (*use)(void *arg, kv_err *e),
                        void *arg, kv_err *e);

    /* (optional, NULL means pull, of types that keep everything in slots of the library; of others
     * unsupported) See kv_pull_since. outs are default arrays; *moved grows by the bytes
     * that came. */
    int (*pull_since)(void *self, const kv_pairs *outs, int64_t *rounds, int64_t *moved,
                      const kv_call *call, kv_err *e);

    /* These two are called without the store's lock, at any time between open and close, because
     * another thread may hold it while it waits for other ranks; so is `cluster`.
     * (optional, NULL means that the slots of the library know the rounds) A row of the topic
     * "rounds" of kv_describe for each key, in the order in which they were made. */
    int (*rounds)(void *self, kv_visitor visit, void *arg, kv_err *e);
    /* (optional, NULL means a pull, of types that keep everything in slots of the library; of
     * others unsupported) See kv_peek. */
    int (*peek)(void *self, const kv_key *key, kv_array **out, int64_t rounds[2], kv_err *e);

    /* (optional, NULL means that jobs of the type have no spares) see kv_await_turn */
    int (*await_turn)(bool *works, kv_err *e);
} kv_type_ops;

/* Adds a store type, so that kv_create knows its names in any case. ops stays valid for ever.
 * Errors: value (size or version of another build; an operation is missing), name (a name is
 * taken), memory. (Seed 004, "register") */
int kv_register_type(const kv_type_ops *ops, kv_err *e);

/* The table of a type that can be made, by one of its names in any case. It stays valid for ever,
 * and a copy with another name and other operations makes a type of one's own: examples/average.c.
 * Errors: unsupported, as for kv_create. */
int kv_find_type(const char *name, const kv_type_ops **ops, kv_err *e);

/* Adds a name for the type base (NULL: local): kv_create knows it in any case, and kv_type says it
 * as it is written here. 1 to 64 letters, digits, `_`, `-` and `.`.
 * Errors: value (other characters), name (taken, also by a type that is not available here),
 * unsupported (the base), memory. */
int kv_register_name(const char *name, const char *base, kv_err *e);

/* A plugin is a shared object that exports one function, kv_plugin_init. It is called once after
 * loading, on the thread that loads, and registers types; what it registers is taken back when it
 * fails. kv_create looks for the plugin of a type that it knows but does not have in the
 * directories of $KVSTORE_PLUGINS (separated by colons), then beside the library (kvctl: in its own
 * directory and ../lib); a plugin that cannot load makes its types unavailable, with the reason.
 * Plugins are never unloaded. */
typedef struct kv_host {
    uint32_t size;       /* sizeof (kv_host) of the library: what is beyond it is not there */
    uint32_t version;    /* KV_TYPE_VERSION of the library */
    const char *library; /* KV_VERSION of the library */
    int (*register_type)(const kv_type_ops *ops, kv_err *e);                    /* as above */
    int (*find_type)(const char *name, const kv_type_ops **ops, kv_err *e);     /* as above */
    void (*log)(const char *text); /* sends a warning to the receiver of kv_set_log */
} kv_host;

typedef int (*kv_plugin_init_fn)(const kv_host *host, kv_err *e); /* exported as kv_plugin_init */

/* Loads a plugin from a file; one that is loaded already stays as it is.
 * Errors: io (there is no such file, or it cannot be read), format (it is not a plugin), value (a
 * plugin for another version of the library), unsupported (this is the static library, which loads
 * none), those of the plugin; the text begins with the path. Nothing is registered then. */
int kv_load_plugin(const char *path, kv_err *e);

#ifdef __cplusplus
}
#endif
