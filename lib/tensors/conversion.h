/* Checkpoints into another one: some of their keys, under other names and as other types, in one
 * pass. Nothing is held whole: a block is read, converted and written.
 *
 * A number is rounded once, to nearest even, whatever the two types are. A number that the new type
 * cannot hold is an error, not another number, where rounding does not say what it becomes: nan
 * and what is out of range into an integer, nan into F6 and F4, all but 0 and 1 into BOOL. A float
 * that is too large for a float becomes what tensor_codec.h says.
 */
#pragma once

#include <stdatomic.h>

#include "base/buf.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_write.h"
#include "checkpoint/tensor_codec.h"

/* ---- Losses ---------------------------------------------------------------------------------- */

/* What an output lost: numbers of its keys that its types could not hold (tensor_loss of
 * checkpoint/tensor_codec.h), counted while it is written; and how messages name such numbers. */

enum { LOSSES_INF, LOSSES_NAN, LOSSES_SATURATED, LOSSES_ROUNDED, LOSSES_FRACTION, LOSSES_KINDS };

typedef struct losses_key {
    _Atomic(int64_t) count[LOSSES_KINDS];
} losses_key;

typedef struct losses {
    bool strict;      /* the first loss is an error, not a count */
    losses_key *keys; /* of the output, in its order; zeroed to begin with */
} losses;

/* Adds to a key, from any thread. Counts are the same for any number of threads. */
void losses_add(losses *l, int64_t key, const tensor_loss *loss);

/* The hint of an error by strict. */
#define LOSSES_HINT "without --strict it is written, with a warning"

/* Appends element i of data, of a type with numbers. */
void tensor_words_number(buf *out, tensor_type type, const void *data, int64_t i);

/* Appends "[2, 5]", where an element of t is; "[]" of a scalar. */
void tensor_words_place(buf *out, const tensor_info *t, int64_t element);

/* ---- Conversion ------------------------------------------------------------------------------ */

/* A key of the output. */
typedef struct conversion_key {
    int input;        /* where it comes from */
    int64_t at;       /* its number there */
    const char *name; /* it gets */
    tensor_type type;
} conversion_key;

typedef struct conversion {
    checkpoint *const *inputs;
    int ninputs;
    const conversion_key *keys; /* in the order of the output; those of one input stand together */
    int64_t nkeys;
    const checkpoint_text *metadata;
    int64_t nmetadata;
    losses *lost; /* (optional) one a key */
    /* (optional) Told from time to time, by one thread at a time, how many bytes of the inputs
     * have been handled, of how many. */
    void (*progress)(void *arg, int64_t done, int64_t all);
    void *progress_arg;
} conversion;

/* Errors: key (two keys have one name; both are named, with where they come from); dtype (quantised
 * and C64 data are only copied); memory. */
int conversion_check(const conversion *c, kv_err *e);

/* Writes keys that were checked to path: see checkpoint_out_open, also for o. One of the inputs may
 * stand there. Errors: those of checkpoint_out_open and of walk_run; value (a number that does not
 * fit, with its key and place; by lost->strict one that is lost). After an error path is as it
 * was. */
int conversion_run(const conversion *c, const char *path, const checkpoint_out_options *o,
                   kv_err *e);

/* The texts of an output: those of the inputs, unless drop, of one name the first; then those of
 * set, each in the place of one of its name. The caller releases *out with mem_free; the texts are
 * those of the inputs and of set. */
int conversion_metadata(checkpoint_text **out, int64_t *n, checkpoint *const *inputs, int ninputs,
                     bool drop, const checkpoint_text *set, int64_t nset, kv_err *e);

/* ---- Names ----------------------------------------------------------------------------------- */

/* New names by substitution: s/RE/TO/, with the regular expressions of texts. */

typedef struct renaming renaming;

/* Reads `s/RE/TO/`: the first match of RE in a name becomes TO, with g behind it every match. RE is
 * a regular expression (base/regexp.h), and TO what regex_replace takes, \1, \g<1>, \g<name>, and &
 * or \g<0> for the whole match; \& is an ampersand. Any ASCII character but the backslash can stand
 * for /, and is written with a backslash before it within RE and TO. Errors: usage (with the reason
 * of the regular expression), memory, unsupported. */
int renaming_new(renaming **out, const char *text, kv_err *e);
void renaming_free(renaming *r); /* NULL is allowed */

/* Appends what becomes of a name, which may be the name itself. *matches (NULL is allowed): 0 where
 * it stays, else 1, or 2 where g would replace more. Errors: memory, value (a limit
 * of the search), interrupted. */
int renaming_apply(renaming *r, const char *name, buf *out, int *matches, kv_err *e);

/* ---- One tensor ------------------------------------------------------------------------------ */

/* Numbers that lie in memory, into an output: in pieces on all threads, each in the type that the
 * output has for the tensor. */

/* Puts the n elements of tensor i, which have type `to` there; data are of type `from`. *wrong: -1,
 * or the first element that `to` has no number for (checkpoint/tensor_codec.h), or by lost->strict
 * that is lost: then the tensor is not complete, and the output can only be abandoned. Errors: io,
 * memory, interrupted. */
int tensor_put(checkpoint_out *out, int64_t i, tensor_type to, const void *data, tensor_type from,
               int64_t n, losses *lost, int64_t *wrong, kv_err *e);
