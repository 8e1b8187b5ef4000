/* The states of an optimizer in a safetensors file, and back, so that training goes on as if it had
 * never stopped.
 *
 * Tensors are the arrays that the optimizer keeps, KEY/STATE; state_parts.h has the table of them
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
 *   kvstore.compression  (with gradient compression) see value_parts.h
 *
 * A file fits a store with the same keys, dtypes and shapes. One without the optimizer fits a store
 * in which an optimizer of the same name is set, with whatever parameters; of its schedule, where
 * it stands is taken over if it is the same schedule, and another one begins at the counts. One
 * with the optimizer replaces the one in use. One with compression fits a store with the same; one
 * without leaves nothing owed to any key, whether the store compresses or not.
 */
#pragma once

#include "core/image.h"
#include "core/store.h"

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
