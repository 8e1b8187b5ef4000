/* The folder of a job, $KVSTORE_RUN_DIR of its ranks. launch makes it on its own host, and the
 * watchers on each other one, with the same name:
 *
 *   events       a line for each thing that happens to a rank of that host, from its watcher:
 *                "RANK start PID WATCHER", "RANK exit CODE", "RANK signal NUMBER",
 *                "RANK stopped 9": because mpirun said that the job is over
 *   lost         "RANK sentence", once a rank is lost: from launch, or from a rank that has heard
 *                nothing of another one; all other ranks end then, with that sentence
 *   gone         "RANK sentence" for each worker that was lost and that the others go on without:
 *                from launch
 *   missed       the same of a worker that such a job may do without, and of which a rank has heard
 *                nothing: launch is asked to say that it is gone
 *   grow         "RANK -" for each spare that is to become a worker: from launch
 *   rounds.RANK  (with a checkpoint) how many rounds that worker has begun
 *   entries.RANK (of a job with a prompt) the pipe of its entries, launch_job.h
 *   launch       locked by launch, on its own host: there it removes the folder itself
 *   held         locked by the watchers of ranks that run
 *
 * Where nobody holds these locks and nobody was left to remove the folder, as on a host that died,
 * the watchers of the next job do so.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "kv_err.h"

/* ---- The folder ---- */

enum { FOLDER_PATH = 4096 + 256 }; /* of a folder, and of a name in it */

void folder_path(const char *folder, char path[FOLDER_PATH], const char *name);

/* Makes a new one in a folder, "" for that of the process, NULL for $TMPDIR or /tmp. Error: io. */
int folder_new(char folder[4096], const char *parent, kv_err *e);

/* Makes it unless it is there, and holds its lock "launch" or "held" until what is returned is
 * closed; -1: it cannot be made, or belongs to another user (errno). */
int folder_hold(const char *folder, const char *name);

/* Holds "held" if it is there and nobody is removing it; else -1. */
int folder_hold_existing(const char *folder);

/* Removes it with its files if it belongs to a job of this user and nobody holds it. last: at the
 * end of a watcher, which waits for watchers that still hold it or remove it just now, so that it
 * is gone then, but where launch holds it. What another process had to leave goes too. */
void folder_remove_free(const char *folder, bool last);

/* Does so, without `last`, for all folders of jobs beside it. */
void folder_sweep(const char *folder);

/* Reads the first line of the file `lost`, which counts. Returns whether there is one. */
bool folder_lost(const char *folder, int *number, char *why, size_t size);

/* Adds "RANK sentence" to a file, in one write, so that lines of several ranks do not mix. Returns
 * whether that went well. */
bool folder_add(const char *folder, const char *name, int number, const char *why);

/* Reads the line of such a file that begins at byte *at, which becomes that of the next. Returns
 * whether there was one. */
bool folder_next(const char *folder, const char *name, long *at, int *number, char *why,
                 size_t size);

/* Removes it with its files, even if it is locked. */
void folder_remove(const char *folder);

/* ---- Cells through mpirun ---- */

/* The protocol between the watchers of ranks and launch: watchers write to stderr, and mpirun
 * brings that to its own.
 *
 * mpirun passes on pieces of at most 4096 bytes, and those of other ranks may come in between. So
 * everything is told in cells of one size, of which 8 make such a piece: a cell is never parted.
 * Open MPI 5 keeps what is no whole line until its rest comes, so a cell is a line. A rank has a
 * pipe for stderr, where it may have a terminal for stdout.
 *
 *   offset  size  a cell
 *        0     8  WIRE_MARK
 *        8     4  the rank
 *       12     2  the kind
 *       14     2  how many bytes of the text are used
 *       16   494  the text
 *      510     1  the byte that stands for a newline in what is before it; 0: there is none
 *      511     1  a newline
 *
 * Bytes between cells are messages of mpirun itself. */

#define WIRE_MARK "\1\2kvrank"
enum { WIRE_TEXT = 494 };

typedef enum wire_kind {
    WIRE_OUT = 'o',    /* a piece of what the rank wrote to stdout */
    WIRE_ERR = 'e',    /* and to stderr */
    WIRE_EVENT = 'v',  /* a line as in the file `events`, and behind it the host of a start, or how
                          many rounds a worker has begun at its end */
    WIRE_LOST = 'l',   /* what the file `lost` of that host says */
    WIRE_MISSED = 'm', /* a line of the file `missed` of that host */
    WIRE_DONE = 'd',   /* the worker is done with an entry, and this is its exit code */
    WIRE_BEAT = 'b',   /* nothing but that the watcher is there; no text */
    WIRE_SSH = 's',    /* of no rank: an ssh of mpirun has ended, with this exit code */
} wire_kind;

typedef struct wire_cell {
    char mark[8];
    int32_t rank;
    int16_t kind, n;
    char text[WIRE_TEXT];
    char newline, end;
} wire_cell;

/* Writes a text in as many cells as it needs; to nobody if nobody reads. */
void wire_tell(int rank, wire_kind kind, const char *text, size_t n);

/* Takes the first cell out of the bytes that have come; what stands before it goes to log. With all
 * nothing more will come. Returns whether there was one. */
bool wire_take(buf *bytes, wire_cell *out, buf *log, bool all);
