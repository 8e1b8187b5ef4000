/* launch -i: a prompt for a job. Each entry goes to all workers, `@0 ENTRY` to one.
 *
 * An entry that takes longer than a second goes on in the background. While somebody types, the job
 * goes on as well: it runs in this process, between keys.
 *
 * launch writes entries into a named pipe for each worker in the folder of the job, so workers are
 * processes of this host: a line with the bytes of an entry and the number of its first line, then
 * the entry. Whenever a worker can take an entry, it writes a line, with the exit code of the one
 * before, into a pipe to its watcher, whose number is in KVSTORE_ENTRIES. The watcher sends that on
 * behind all that the worker has printed. */
#ifndef LAUNCH_LAUNCH_PROMPT_H
#define LAUNCH_LAUNCH_PROMPT_H

#include <stdio.h>

#include "launch/launch_options.h"

/* Runs the job and the prompt. *code: the exit code of the job; without a terminal, of the first
 * entry that failed in a job that ended well. Errors: io, memory, unsupported, when it could not
 * begin. */
int launch_prompt(const launch_options *o, int *code, kv_err *e);

/* ---- The worker's side ---- */

/* Where a worker's entries come from, and where their answers go. */
typedef struct entry_source {
    FILE *next;
    int done;
} entry_source;

/* named: the value of KVSTORE_ENTRIES. Error: io. */
int entry_source_open(entry_source *from, const char *named, kv_err *e);
/* Waits for the next entry. *text: mem_free it; NULL at the end, and with a signal pending. *line:
 * of its first one in the session. Errors: io, memory. */
int entry_source_next(const entry_source *from, char **text, size_t *n, int *line, kv_err *e);
/* The entry is done. */
void entry_source_answer(const entry_source *from, int code);
void entry_source_close(entry_source *from);

#endif
