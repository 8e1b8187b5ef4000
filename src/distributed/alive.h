/* Whether the other ranks live. Each sends every other one a sign of life now and then; who has
 * sent nothing for the deadline is lost. Under a launcher that watches its processes a rank that
 * has ended is known sooner: the launcher writes the sentence into the file `lost` of its folder.
 * So does a rank that has heard nothing of another one.
 *
 * Environment: KVSTORE_DEADLINE, seconds of silence, 10; 0 switches all of it off.
 * KVSTORE_RUN_DIR: the launcher's folder. */
#ifndef DISTRIBUTED_ALIVE_H
#define DISTRIBUTED_ALIVE_H

#include <stdint.h>

#include "kv_err.h"

int alive_open(kv_err *e);

/* 0: it is switched off. */
int64_t alive_deadline_ms(void);

/* Called by the net: a record came; it is time to look. */
void alive_heard(int rank);
void alive_look(int64_t now_us);

/* What the file says; also before the ranks have joined. */
void alive_read(void);

/* Before the ranks have joined: whether one has ended that never will. */
void alive_read_ends(void);

/* Ranks that have left by agreement are not missed. */
void alive_left(int rank);

#endif
