/* Sums of the types that keep nothing: a part is added up when every worker that takes part has
 * contributed to its round, by rank, and the sum goes back to all of them. In a round of broadcasts
 * the data of the first worker take the place of the sum.
 *
 * What other ranks sent is read where it lies in the link's memory, if its round ends before that
 * is given back, else copied; what this rank contributes is read where it is. A sum is made in the
 * array that receives it, if this rank has one.
 */
#ifndef DISTRIBUTED_SUMS_H
#define DISTRIBUTED_SUMS_H

#include "distributed/server_state.h"

typedef struct sums sums;

sums *sums_new(int workers, kv_err *e);
void sums_free(sums *s);

/* Takes a contribution: a push of a whole part, an ADD. */
int sums_take(server_state *s, int rank, const link_rec *r, kv_err *e);

/* The same from this rank. data stays until the end of the chunk is told (reduce_ended). out: NULL,
 * or receives the sum; it may be data. */
int sums_own(server_state *s, const link_rec *r, const char *data, char *out, kv_err *e);

/* Copies what lies in the link's memory. */
void sums_keep(server_state *s);

/* A worker takes part no more, or has ended: rounds that wait for one that has are given up. */
void sums_look(server_state *s);

/* What has waited longest, like coordinator_waits. */
int64_t sums_waits(server_state *s, int64_t before, buf *out);

/* Like missed_list, behind the n that are in the list. */
int64_t sums_missed(const server_state *s, int rank, ask_missed *list, int64_t n);

/* Says to a request of this rank how its chunk went: data is the sum, unless it lies in out. */
void reduce_ended(uint64_t token, int64_t chunk, const char *data, const kv_err *why);

#endif
