/* The parts that a server keeps of one store. */
#pragma once

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

/* ---- Changes ----
 *
 * When each element of a part got its bits, so that a pull can bring those alone that a worker
 * lacks (LINK_CHANGES).
 *
 * Nothing is kept until a worker asks for the changes of the part. From then on each round compares
 * the elements before and after it, and leaves a mark, one byte an element (cpu/changes.h). So the
 * changes take as many bytes as the part has elements, which is no more than the part itself, and
 * they reach back CHANGES_MARKS rounds at most, at least half as many: whoever holds an older round
 * gets the whole part. Where nobody asked for so long, nothing is kept any more. The copies of the
 * elements from before a round live until it is applied, a few megabytes of parts at a time; of a
 * key that its rule needs whole, which is one part, all of it at a time.
 *
 * Memory that is missing makes a part forget its changes, which costs bytes on the way but no
 * correctness.
 */

/* Bytes of copies from which on the rounds that wait in a batch are applied. */
enum { PART_CHANGES_TOGETHER = 4 << 20 };

/* A worker asks for the changes of a part: each round leaves marks from now on. */
void part_changes_ask(server_state *s, part *p);

/* Returns true if there are marks of all rounds behind `since`. */
bool part_changes_reach(const part *p, int64_t since);

/* Before a round is applied to a part: keeps a copy of its elements. After that: finds those that
 * changed; `applied` does not count the round yet. Copies are given back in any order, all at once,
 * by part_changes_forget_copies. */
void part_changes_begin_round(server_state *s, part *p);
void part_changes_end_round(server_state *s, part *p);
void part_changes_forget_copies(server_state *s);

/* Writes the elements that changed behind round `since`, from element *at on, which moves behind
 * the blocks that fit in `room` bytes. Returns the bytes. */
int64_t part_changes_put(const part *p, const void *elements, int64_t since, int64_t *at, void *to,
                         int64_t room);

/* Bytes of the records from element `at` on, at most. */
int64_t part_changes_bound(const part *p, int64_t at);
