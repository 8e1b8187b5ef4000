/* bench: the command that kvbench has beside those of kvctl. */
#pragma once

#include "cmd/commands.h"

command_fn cmd_bench;

/* Checks its literal words: see `check` in syntax/command.h. */
int cmd_bench_check(const source *src, const ast *call, const map *types, kv_err *e);

/* bench --link. Out: a row for each link of rank 0; the other workers show nothing. Errors: usage
 * (an option of workloads), value, those of bench_link_run. */
int bench_link_show(session *s, const ast *call, int runs, bool csv, result *out, kv_err *e);
