/* A server keeps the parts of keys, collects the pushes of a round and hands them to a store of
 * its own, of type local, in which every part is a key. So sums, rules, optimizers, their states
 * and row_sparse arrays are those of one machine.
 *
 * A round of a part is complete when every worker that takes part has contributed to it once; its
 * sum is taken by rank. A worker's next push of the key belongs to the next round. With dist_async
 * every push is a round of its own. A pull says how many pushes of its worker it must come behind,
 * a push how many pulls: so each worker's calls on a key take effect in its program order, even if
 * their records overtake each other on the way.
 */
#pragma once

#include "distributed/asks.h"
#include "distributed/net.h"
#include "distributed/server_ranks.h"

/* Begins to serve, if this rank does: for net_open. It cannot fail. */
int server_open(kv_err *e);

/* On a rank that only serves: returns when all workers have left. Errors: peer. */
int server_run(kv_err *e);

/* ---- The elements of a part in records (elements.c) ----
 *
 * How they leave and how they are read, for pushes, pulls and sums. They travel as they are, as
 * rows, or as codes; a part that is too long for one record comes in several. */

/* The header of the codes in a record, after the host side of the update. */
typedef struct push_codes {
    int16_t code;
    int16_t back; /* see push_back; of a pull 0 */
    float threshold;
} push_codes;

/* The form of the sum that a server sends back: numbers, codes, or codes with a new residual. */
enum push_back { BACK_NUMBERS, BACK_CODES, BACK_ANEW };

/* The elements of a part, and what stands before those of its first record. */
typedef struct elements_out {
    const char *data;
    int64_t all;            /* bytes of them; of codes, how many elements */
    const push_codes *code; /* NULL: no codes */
    const char *host;
    int64_t host_bytes;
} elements_out;

/* What the record from `from` on has of them: bytes; of codes, elements. */
static inline int64_t elements_next(const elements_out *x, int64_t from)
{
    enum { CODES = 1 << 19 /* elements whose codes are one record: of 2 bits half of it */ };
    int64_t left = x->all - from, most = x->code ? CODES : LINK_PAYLOAD;
    return left < most ? left : most;
}

/* Sends the next record of an item, from *from on, which moves behind it. head: the fields of the
 * record that say whose elements these are. */
net_step elements_send(const net_item *i, const link_rec *head, const elements_out *x,
                       int64_t *from);

/* Returns true if n elements, or bytes, from the record's `from` on are some of all that its part
 * has, and with the last record of a value the last ones. */
bool elements_fit(const link_rec *r, int64_t n, int64_t all);

/* Reads the header of a record's codes, which is at data; the part has so many elements of a dtype.
 * Returns the address of the codes; NULL: the record is malformed. */
const char *elements_codes(const link_rec *r, const char *data, kv_dtype dtype, int64_t count,
                           push_codes *how);
