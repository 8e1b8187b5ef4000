/* The exit statuses of kvctl. */
#ifndef TERM_EXIT_CODE_H
#define TERM_EXIT_CODE_H

#include "base/kv_err.h"

/* Exit codes, by what a caller can do about it. */
typedef enum exit_code {
    EXIT_DONE = 0,
    EXIT_NO = 1,           /* the answer is no: assert, expect, --verify, -e */
    EXIT_NOT_UNDERSTOOD = 2,
    EXIT_FAILED = 3,       /* a command failed */
    EXIT_UNSUPPORTED = 4,  /* not in this build, on this machine or for this store type */
    EXIT_IO = 5,           /* reading or writing failed, or a file is malformed */
    EXIT_PEER = 6,         /* a lock was not free, time-out, another rank is lost */
    EXIT_BUG = 70,
    EXIT_SIGINT = 130,
    EXIT_SIGTERM = 143
} exit_code;

/* The exit code of a kv_code. */
exit_code exit_code_of_error(int code);

/* From now on a failed assertion (base/kv_assert.h) ends the process at once: its report goes to
 * stderr and the exit code is 70. Nothing is saved, because what is in memory may be wrong. */
void bug_ends_process(void);

#endif
