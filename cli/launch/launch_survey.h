/* Checks that the hosts of a job can be used. */
#ifndef LAUNCH_LAUNCH_SURVEY_H
#define LAUNCH_LAUNCH_SURVEY_H

#include "launch/launch_attempt.h"
#include "launch/launch_hosts.h"

/* Checks each host before a job begins over ssh: it answers, has Open MPI, this program
 * and this folder. With --sync-dst-dir the folder is copied there first. All hosts are asked at the
 * same time, and those that cannot be reached again and again for queue_timeout seconds, if that is
 * not 0. A signal that launch watches for ends all that: *signal is its number then, else 0.
 * Errors: peer (a host cannot be reached), unsupported (something is missing there), io (the
 * copy). */
int survey_hosts(const launch_hosts *h, const launch_options *o, const signal_masks *m, int *signal,
                 kv_err *e);

#endif
