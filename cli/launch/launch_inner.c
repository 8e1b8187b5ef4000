/* Queues and Kubernetes give the same options; each has its own words before them. */
#include "launch/launch_inner.h"

#include <stdio.h>

#include "launch/launch_variables.h"

int inner_options(launch_command *c, const launch_options *o, kv_err *e)
{
    char deadline[32], timeout[32], workers[16], servers[16], restarts[16];
    snprintf(workers, sizeof workers, "%d", o->workers);
    snprintf(servers, sizeof servers, "%d", o->servers);
    snprintf(restarts, sizeof restarts, "%d", o->restarts);
    const launch_hole holes[] = {
        {"workers", workers},
        {"servers", o->servers > 0 ? servers : NULL},
        {"deadline", o->deadline > 0 ? launch_seconds(deadline, o->deadline) : NULL},
        {"timeout", o->timeout > 0 ? launch_seconds(timeout, o->timeout) : NULL},
        {"checkpoint", o->checkpoint},
        {"every", o->every},
        {"restarts", o->restarts > 0 ? restarts : NULL},
        {"elastic", o->elastic ? "--elastic" : NULL},
        {NULL, NULL}};
    launch_add_filled(c,
                      "-n {workers}[ -s {servers}][ --deadline {deadline}][ --timeout {timeout}]"
                      "[ --checkpoint {checkpoint}][ --checkpoint-every {every}]"
                      "[ --max-restarts {restarts}][ {elastic}]",
                      holes);
    variables_inner(c, o);
    launch_add_words(c, o->words, o->nwords);
    return launch_command_check(c, e);
}
