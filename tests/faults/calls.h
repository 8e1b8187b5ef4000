/* The library that stands in front of the C library (LD_PRELOAD): calls of a program are counted,
 * recorded, cut off, and made to fail. The environment says what it does; nothing without it.
 *
 * Calls that change files in one folder, and the folders in it:
 *
 *     CALLS_FOLDER=PATH   the folder, as realpath gives it
 *     CALLS_LOG=FILE      the calls are added to this file
 *     CALLS_KILL=N        the process kills itself behind call N, 1 is the first
 *     CALLS_FAIL=N        call N is not done: the disk is full
 *     CALLS_CLONE=HOW     FICLONE copies the file, for HOW "copy"; else it fails with this errno
 *     CALLS_DROP=N        sync N of a file or of the folder is neither done nor recorded, but
 *                         succeeds: the fault that the checks of states must find
 *
 * Calls of a kind, see faults.h:
 *
 *     FAULT="KIND N"      call N of the kind fails; "KIND N ever": and all behind it; "KIND N
 *                         twice": and the next
 *     FAULT_PATH=NAME     only calls about a file of this name count
 *     FAULT_ERRNO=NUMBER  another reason; 0: a write takes nothing, without an error
 *     FAULT_SERVER=…      see server.c
 *
 * Streams of stdio are made over these functions (fopencookie), so that what they read and write is
 * seen too. Linked into a program, calls_record does the same as CALLS_FOLDER and CALLS_LOG.
 *
 * A record of the log is a calls_head, then name, other and data without gaps. Names are paths
 * below the folder, "" is the folder itself.
 */
#pragma once

#include <stdint.h>

enum call_kind {
    CALL_CREATE = 1, /* name is a new, empty file */
    CALL_WRITE,      /* data at place */
    CALL_SIZE,       /* place is the new size */
    CALL_SYNC,
    CALL_RENAME,     /* to other; place 1: the two change places */
    CALL_LINK,       /* other is a second name */
    CALL_UNLINK,     /* also of an empty folder */
    CALL_FOLDER      /* name is a new, empty folder */
};

typedef struct calls_head {
    uint32_t kind, name, other, data; /* bytes of each */
    int64_t place;
} calls_head;

/* From now on calls in folder are recorded in the new file log; NULL: no longer. */
void calls_record(const char *folder, const char *log);
