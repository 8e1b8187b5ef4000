/* The parts that a server keeps of one store. */
#ifndef DISTRIBUTED_PARTS_H
#define DISTRIBUTED_PARTS_H

#include "distributed/server_state.h"

/* By its number, or NULL. */
part *parts_find(const server_state *s, int64_t id);

/* There is news of the part: settling looks at it. */
void parts_touch(server_state *s, part *p);

/* Makes the parts that a call of ASK_INIT carries. Errors: internal, memory. */
int parts_init(server_state *s, const link_rec *r, kv_err *e);

/* Forgets n parts from one on, whose key lives elsewhere now. Errors: those of the store. */
int parts_drop(server_state *s, int64_t first, int64_t n, kv_err *e);

/* The part holds no codes any more, and no residual. */
void parts_drop_codes(part *p);

void parts_free(server_state *s, part *p);

/* A part of a type that keeps nothing; it is made when its first contribution comes. NULL, with an
 * error: internal (malformed), memory. */
part *parts_of_sum(server_state *s, int64_t id, kv_err *e);

/* Takes a round that is over from its part, without its contributions; and forgets it. */
void parts_take_off(const server_state *s, part *p, round *x);
void parts_free_round(server_state *s, part *p, round *x);

#endif
