/* Calls of a program that change files in one folder: counted, recorded, and cut off. As a library
 * it is loaded in front of any program (LD_PRELOAD) and told what to do by the environment:
 *
 *     CALLS_FOLDER=PATH   the folder, as realpath gives it; nothing happens without it
 *     CALLS_LOG=FILE      the calls are added to this file
 *     CALLS_KILL=N        the process kills itself behind call N, 1 is the first
 *     CALLS_FAIL=N        call N is not done: the disk is full
 *     CALLS_DROP=N        sync N of a file or of the folder is neither done nor recorded, but
 *                         succeeds: the fault that the checks of states must find
 *
 * Linked into a program, calls_record does the same as CALLS_FOLDER and CALLS_LOG.
 *
 * A record of the log is a calls_head, then name, other and data without gaps. Names are those in
 * the folder, "" is the folder itself.
 */
#ifndef CRASH_CALLS_H
#define CRASH_CALLS_H

#include <stdint.h>

enum call_kind {
    CALL_CREATE = 1, /* name is a new, empty file */
    CALL_WRITE,      /* data at place */
    CALL_SIZE,       /* place is the new size */
    CALL_SYNC,
    CALL_RENAME, /* to other */
    CALL_UNLINK
};

typedef struct calls_head {
    uint32_t kind, name, other, data; /* bytes of each */
    int64_t place;
} calls_head;

/* From now on calls in folder are recorded in the new file log; NULL: no longer. */
void calls_record(const char *folder, const char *log);

#endif
