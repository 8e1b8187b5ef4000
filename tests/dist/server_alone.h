/* The net of one rank without others, for the tests of records.h and requests.h. Records are handed
 * to the takers by the test; what is sent is shown to it and dropped. */
#pragma once

#include "distributed/net.h"

extern net_taker alone_taker; /* what was added */

/* This rank, and how many there are. */
void alone_ranks(int rank, int size);

/* Sends the items that were posted, and releases them. */
void alone_send_all(void);

/* The same for those that can be sent; the others stay posted. */
void alone_send_some(void);

/* Sees every record that is sent. */
extern void (*alone_sees)(int rank, const link_rec *r);

/* Of the item that was posted last. */
extern int32_t alone_priority;

/* The items that were posted; atomic. Only one thread posts or sends at a time. */
extern int alone_posted;

/* The link has no room. */
extern bool alone_full;

/* Called where the rank would sleep for some time (usleep); NULL: it does not sleep. */
extern void (*alone_naps)(void);

/* Answers a call of this rank to another one: the reply, which mem_free releases, and its bytes; or
 * NULL. Without it calls fail. */
extern void *(*alone_answers)(const net_call *c, int64_t *bytes);

/* How often the rank said that it cannot serve any more. */
extern int alone_cannot_serve;
