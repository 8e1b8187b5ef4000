/* The states of an optimizer in a safetensors file, and back, so that training goes on as if it had
 * never stopped.
 *
 * Tensors are the arrays that the optimizer keeps, KEY/STATE; below is the table of them
 * and of the texts that go with them. The other texts of the metadata:
 *
 *   name               text
 *   kvstore.states     "1", the format of such a file
 *   kvstore.optimizer  the name of the rule in use, "adam"; "rule" for one without a name
 *   kvstore.key_type   "integer", "text", or "none" when there is no key
 *   kvstore.key.KEY    for each key of the store its count t, dtype and shape: "5 float32 (2, 3)"
 *   kvstore.rule       (KV_DUMP_OPTIMIZER) the text of the rule
 *   kvstore.param.X    (KV_DUMP_OPTIMIZER) the parameter X as it was given, also lr_scheduler,
 *                      lr_mult, wd_mult, names and seed
 *   kvstore.xxh64, kvstore.xxh64.TENSOR  (may be missing) checksums, see image.h
 *   kvstore.compression  (with gradient compression) see image.h
 *
 * A file fits a store with the same keys, dtypes and shapes. One without the optimizer fits a store
 * in which an optimizer of the same name is set, with whatever parameters; of its schedule, where
 * it stands is taken over if it is the same schedule, and another one begins at the counts. One
 * with the optimizer replaces the one in use. One with compression fits a store with the same; one
 * without leaves nothing owed to any key, whether the store compresses or not.
 */
#pragma once

#include "base/buf.h"
#include "core/image.h"
#include "core/optimizer.h"
#include "core/store.h"
#include "core/updater.h"

/* Checks that the store has states. Errors: value (no optimizer),
 * unsupported (a C callback). */
int state_file_check(const kv *store, kv_err *e);

/* Takes the image of a store whose lock is held. dump: with rule and parameters. Errors: value (no
 * optimizer), unsupported (a C callback), memory. */
int state_file_take(image *im, const kv *store, bool dump, kv_err *e);

/* Puts the states of an open file into a store whose lock is held. path is for messages.
 * numbers_only: the arrays may be missing, since the servers of the store keep them. *gone becomes
 * the updater that the caller must release when the lock is free. Errors: as above, and format,
 * value (another optimizer or compression), key (missing, too many), shape, dtype, io; nothing
 * changed then. */
int state_file_load(kv *store, const checkpoint *f, const char *path, bool numbers_only,
                    updater *gone, kv_err *e);

/* ---- The parts of a file ----
 *
 * The same tensors and texts stand in a file of
 * states and in that of a whole store (store_file.h).
 *
 *   tensor                     holds
 *   KEY/STATE                  an array of the key: "3/mean". STATE is the name in the rule; a
 *                              `state row` has one axis
 *   KEY/stored                 the float32 master of a half-precision key
 *
 *   text                       holds
 *   kvstore.num_update         the largest count of a key, "12"
 *   kvstore.states.KEY         the names of all that the key keeps, "mean var", with a blank
 *                              between two; none for a key that keeps nothing
 *   kvstore.number.KEY/STATE   a `state key` of it, as below
 *   kvstore.shared.STATE       a `state shared`, as below
 *   kvstore.schedule           (with a schedule) the schedule as a call: factor(base_lr=0.1, …)
 *   kvstore.schedule_now       (with a schedule) where it stands: the base learning rate now, which
 *                              step comes next, and the update where this one began: "0.05 0 4"
 *
 *   kvstore.rule               the text of the rule, where the rule is in the file too
 *   kvstore.param.X            then, for each parameter that was given, its text
 *
 * KEY is the key's own text, also when it holds a slash: names of states hold none. Numbers say
 * their kind: "int 40", "float 0.1", "bool true", "none". A float has the shortest digits that read
 * back as the same number.
 *
 * All is read and compared with the store before anything of it changes. */

#define RULE_PART      "kvstore.rule"
#define PARAM_PART     "kvstore.param."
#define STATE_SCHEDULE "kvstore.schedule"
#define STATE_MASTER   "stored" /* a name that no state can have */

/* Adds the parts of an optimizer in use; tensors get prefix before their names. A state whose array
 * is elsewhere, as in the slots of a worker, is only listed. */
void state_parts_add(image *im, const optimizer *o, const slot_table *t, const char *prefix);

/* Adds the rule and its parameters. */
void state_parts_add_rule(image *im, const optimizer *o);

/* Makes *u run the rule of a file, with counts at their begin. path is for messages. Errors: format
 * (it has no rule, or one that cannot be read), memory; *u is not changed then. */
int state_parts_read_rule(updater *u, const checkpoint *f, const char *path, kv_err *e);

/* The names of all these texts: see image_lists. */
extern const char *const state_part_names[];

/* The parts of a file, read and not yet used. All zero is nothing. */
typedef struct state_parts {
    slot_state **states; /* by slot */
    int64_t n;
    optimizer_draft draft;
} state_parts;

/* Reads the parts of a file for these slots, whose counts are given by slot. A file with another
 * schedule leaves o's where it stands. numbers_only: the arrays may be missing, since the servers
 * of the store keep them. later: arrays stay in the file until slot_fetch. path is for messages.
 * Errors: format (malformed, parts that do not fit each other), value (it fits another use of the
 * rule), io, memory; *p needs no release then. */
int state_parts_read(state_parts *p, const checkpoint *f, const char *path, const char *prefix,
                     const optimizer *o, const slot_table *t, const int64_t *updates,
                     bool numbers_only, bool later, kv_err *e);

/* Gives the slots and the optimizer the states that were read. Cannot fail. */
void state_parts_commit(state_parts *p, optimizer *o, slot_table *t);

/* Appends a number as the table has it: "int 40". */
void state_parts_number(buf *out, host x);
