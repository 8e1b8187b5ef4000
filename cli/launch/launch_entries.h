/* The entries of a prompt for a job, on their way to workers, and the answers (launch_prompt.h).
 *
 * Texts of entries stand in a file without a name, and a pipe for each worker says where its next
 * one is. Workers open both through /proc, so they are processes of this host; KVSTORE_ENTRIES has
 * the numbers. A worker that is done with an entry ends its stdout and its stderr for it with a
 * line that only launch sees; launch passes it on to the prompt, which waits for both.
 */
#ifndef LAUNCH_LAUNCH_ENTRIES_H
#define LAUNCH_LAUNCH_ENTRIES_H

#include <stdio.h>

#include "kv_err.h"

/* ---- The job's side ---- */

/* Finds an answer in a line of a rank: the bytes before it, or -1 when there is none. *code: the
 * exit code of the entry. */
long prompt_answer_find(const char *line, size_t n, int *code);

/* Tells the prompt that a rank is done with an entry on one of its streams. */
void prompt_answer(int answers, int rank, int code);
/* The rank has ended with an exit code, and takes no more entries. */
void prompt_answer_gone(int answers, int rank, int code);

/* ---- The worker's side ---- */

/* Where a worker's entries come from. */
typedef struct entry_source {
    int texts;
    FILE *next;
} entry_source;

/* Opens what KVSTORE_ENTRIES names for this rank. Error: io. */
int entry_source_open(entry_source *from, const char *named, kv_err *e);
/* Waits for the next entry. *text: mem_free it; NULL at the end, and with a signal pending. *line:
 * of its first one in the session. Errors: io, memory. */
int entry_source_next(const entry_source *from, char **text, size_t *n, int *line, kv_err *e);
/* The entry is done: says so on both streams. */
void entry_source_answer(int code);
void entry_source_close(entry_source *from);

#endif
