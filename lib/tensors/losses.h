/* What an output lost: numbers of its keys that its types could not hold (tensor_loss of
 * checkpoint/tensor_codec.h), counted while it is written; and how messages name such numbers. */
#pragma once

#include <stdatomic.h>

#include "base/buf.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/tensor_codec.h"

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
