/* The net of a fuzz target: the product's net.c and alive.c over a link whose other end is the
 * target, in one thread and with a clock that moves when it is read. */
#pragma once

#include "distributed/link.h"

/* The rank and the size of the job, before the net is opened; the rank may change later. */
void stub_ranks(int rank, int size);

/* Called for each record that the net sends, which must be well formed. */
extern void (*stub_sees)(int rank, const link_rec *r);

/* Called when the net has polled for long and nothing has come: a record must come now. */
extern void (*stub_idle)(void);

/* A record of that head from a rank comes with the next poll; its payload lies in memory of its own
 * size. Records of a rank keep their order. */
void stub_deliver(int rank, const link_rec *head, const void *payload);

/* Takes what has come and sends what is due, until there is nothing more to do. */
void stub_run(void);

/* Lets time pass. */
void stub_pass(int64_t us);

/* As if the job had just begun: nothing is on its way, no rank is lost or has left, and no store
 * was made. The target's stores are gone. */
void stub_reset(void);
