/* The outs of a push: arrays that receive what it stores, in the same pass over memory. A push has
 * them where its outs come in the order of updates, are default arrays, and depend on nothing but
 * their own key; what remains is a pull of its own behind the push.
 */
#ifndef CORE_CALL_OUTS_H
#define CORE_CALL_OUTS_H

#include "core/call.h"

/* Before the pairs are grouped: there may be n outs. */
void call_expect_outs(call *c, int64_t n);

/* Gives the groups the outs of their keys, or drops the outs. Each okeys[i] is there. in_place: the
 * outs are the values of the call; then okeys and outs are not read. */
void call_take_outs(call *c, const kv_key *okeys, kv_array *const *outs, bool in_place);

/* From here on the push has no outs. */
void call_drop_outs(call *c);

#endif
