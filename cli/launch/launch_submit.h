/* What a queue is asked: the client of the platform with its words, and the file of the job. */
#ifndef LAUNCH_LAUNCH_SUBMIT_H
#define LAUNCH_LAUNCH_SUBMIT_H

#include "launch/launch_command.h"
#include "launch/launch_options.h"

/* Appends the command that submits the file `job` of a folder and waits for the job's end, and the
 * text of that file. When the job starts it makes the file `started` in the folder; yarn has no
 * folder in common with its hosts, and says itself that it runs. Errors: io, memory, unsupported
 * (a part of Hadoop that is not found). */
int submit_command(launch_command *c, buf *file, const launch_options *o, const char *folder,
                   kv_err *e);

/* What a job of yarn writes last, and its exit code behind it. */
#define SUBMIT_EXIT "kvctl: the job ended with exit code "

#endif
