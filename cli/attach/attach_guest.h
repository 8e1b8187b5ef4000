/* Runs what somebody types at `kvctl attach` beside the script of a worker.
 *
 * A guest is a session of its own, on a thread of its own, that borrows the stores of the script's
 * session (session/visit.h). So nothing of an entry can reach the variables, the random numbers or
 * the functions of the script; what could reach the stores, a file or a shell is refused before it
 * runs. Values come by kv_peek, which is no pull.
 */
#ifndef ATTACH_ATTACH_GUEST_H
#define ATTACH_ATTACH_GUEST_H

#include "session/session.h"

typedef struct guest guest;

/* folder: that of the job, where a profile is written; borrowed, as script is. Error: memory. */
int guest_new(guest **out, session *script, const char *folder, kv_err *e);

/* Runs an entry, and sends what it gives to a socket (jobs_wire.h): output, errors, JOBS_DONE. It
 * ends early when the client says so or is gone. Returns whether the client is still there. */
bool guest_run(guest *g, int fd, const char *text, size_t n);

/* Sends how far the job is, for `kvctl jobs`: `rounds N`, if it can be told now. */
void guest_tell(guest *g, int fd, const char *before);

/* The client is gone: a profile that it took is dropped. */
void guest_left(guest *g, int fd);

void guest_free(guest *g);

#endif
