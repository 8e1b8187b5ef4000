/* Liveness: the ranks that live, that have left, and that are lost. Each rank sends a heartbeat
 * now and then to the ranks with which it exchanges records (server_ranks.h). A rank that has sent
 * nothing for the deadline is lost, and the rank that misses it tells the others. Under a launcher
 * that watches its processes a rank that has ended is known sooner: the launcher writes the
 * sentence into the file `lost` of its folder. So does a rank that has heard nothing of another
 * one.
 *
 * When a rank is lost, everything that waits fails with its sentence, for good.
 *
 * In an elastic job a worker that is lost is only gone: the others go on without it. The launcher
 * decides that, and writes it into the file `gone`, a line for each; a rank that misses such a
 * worker asks for it in the file `missed`. Every worker but the first may go, where the servers are
 * ranks of their own: what the others hold of it ends with it.
 *
 * Environment: KVSTORE_DEADLINE, seconds of silence, 10; 0 switches the heartbeats off.
 * KVSTORE_RUN_DIR: the launcher's folder. KVSTORE_ELASTIC, from the launcher: "all", workers may
 * go; "async", as long as all stores are of a type whose rounds are each of one worker. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kv_err.h"

int alive_open(int64_t now_us, kv_err *e);

/* 0: it is switched off. */
int64_t alive_deadline_ms(void);

/* Called by the net: a record came; it is time to look. alive_look says whether this rank should
 * send the others a heartbeat. */
void alive_heard(int rank);
bool alive_look(int64_t now_us);

/* Reads the file `lost`; also before the ranks have joined. */
void alive_read(void);

/* Before this rank has joined: finds a rank that has ended and will never join. */
void alive_read_ends(int64_t now_us);

/* A rank has left by agreement: it is not missed. Any thread may ask, of ranks that this one
 * exchanges records with. */
void alive_left(int rank);
bool alive_has_left(int rank);
bool alive_any_left(void);

/* A rank is lost, or, with -1, not all have come. The first sentence stays. */
void alive_lost(int rank, const char *why);

/* Another rank says so: the other ranks and the watchers of this host learn it, too, from the
 * launcher's folder. */
void alive_told(int rank, const char *why);

/* ---- Workers that are gone ---- */

enum { ALIVE_WHY = 256 /* bytes of a sentence */ };

/* A store is made whose rounds need all workers: unless KVSTORE_ELASTIC is "all", none may go any
 * more, and one that is gone is lost. Any thread, once this rank has joined. */
void alive_need_all(void);

/* The next worker that is gone, with the launcher's sentence, or -1. For the net, when it looks. */
int alive_next_gone(char why[ALIVE_WHY]);

/* The line "RANK sentence" of a file of the launcher's folder that begins at byte *at, which
 * becomes that of the next one. Returns whether there was one. One that is not whole comes later.
 */
bool alive_next_line(const char *file, int64_t *at, int *rank, char why[ALIVE_WHY]);

/* Of workers that alive_next_gone has returned. Any thread. */
bool alive_is_gone(int rank);
bool alive_any_gone(void);

/* ---- Ranks that are lost ---- */

/* Returns true if a rank is lost, and fills an error that is empty. Any thread. */
bool alive_is_lost(kv_err *e);

/* Microseconds since the rank was last heard; 0 for this one and for ranks that have left; -1 for
 * those that this one exchanges no records with. */
int64_t alive_silence(int rank, int64_t now_us);
