/* The checkpoint file from which a job goes on: keys begin with its values and counts. */
#pragma once

#include "distributed/job_checkpoint.h"

/* *out becomes the value with which a key begins, borrowed: that of the file, or else the given
 * one. Error: value (the file has another shape, dtype or storage). */
int checkpoint_value(const struct worker *w, const kv_key *key, kv_array *given, kv_array **out,
                     kv_err *e);

/* Returns how many pushes that value has had: 0 of a given one. */
int64_t checkpoint_round(const struct worker *w, const kv_key *key);

/* Called once a key, when this rank has made its slot: the slot gets the counts of the file. */
void checkpoint_know(struct worker *w, int64_t number);

/* Puts the states of the file into the slots of this rank. Errors: value (the file is of another
 * optimizer or compression, or has keys that this rank does not know), io, format, memory. */
int checkpoint_read_states(struct worker *w, kv_err *e);

/* The servers and this rank have the states of the file now. */
void checkpoint_drop_states(struct worker *w);
