/* The checkpoint file that was there when the job began: keys begin with its values and counts. */
#ifndef DISTRIBUTED_CHECKPOINT_KEPT_H
#define DISTRIBUTED_CHECKPOINT_KEPT_H

#include "distributed/job_checkpoint.h"

/* The value with which a key begins: the given one, or that of the file; borrowed. Errors: value
 * (one of another shape or dtype). */
int checkpoint_value(const struct worker *w, const kv_key *key, kv_array *given, kv_array **out,
                     kv_err *e);

/* The round of which that value is: 0 of a given one. */
int64_t checkpoint_round(const struct worker *w, const kv_key *key);

/* A key has become known to this rank: its slot gets the counts of the file. */
void checkpoint_know(struct worker *w, int64_t number);

/* Frees the values and states of the file, once all of them were taken. */
void checkpoint_drop_kept(job_checkpoint *c);

#endif
