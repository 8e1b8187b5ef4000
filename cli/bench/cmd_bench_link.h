/* bench --link: the command of cli/bench/bench_link.h. */
#ifndef BENCH_CMD_BENCH_LINK_H
#define BENCH_CMD_BENCH_LINK_H

#include "cmd/commands.h"

/* A row for each link of rank 0; the other workers show nothing. Errors: usage (an option of
 * workloads), value, those of bench_link_run. */
int bench_link_show(session *s, const ast *call, int runs, bool csv, result *out, kv_err *e);

#endif
