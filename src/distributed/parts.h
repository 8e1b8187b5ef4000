/* The parts that a server keeps of one store. */
#ifndef DISTRIBUTED_PARTS_H
#define DISTRIBUTED_PARTS_H

#include "distributed/server_state.h"

/* By its number, or NULL. */
part *parts_find(const server_state *s, int64_t id);

/* There is news of the part: settling looks at it. */
void parts_touch(server_state *s, part *p);

/* Makes those that a call of ASK_INIT carries. Errors: internal, memory. */
int parts_init(server_state *s, const link_rec *r, kv_err *e);

/* Forgets n parts from one on, whose key lives elsewhere now. Errors: those of the store. */
int parts_drop(server_state *s, int64_t first, int64_t n, kv_err *e);

void parts_free(part *p);

#endif
