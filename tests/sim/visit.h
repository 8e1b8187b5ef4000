/* What programs call beside rounds of pushes and pulls, behind the last round of a simulated job:
 * rows of keys, another optimizer, its states, descriptions, and calls that are refused. */
#pragma once

#include "job.h"
#include "kvstore.h"

/* Whether the program of a job ends with a visit. */
bool visit_drawn(const job *j);

/* Every worker calls it when all rounds are over. folder: where it may write. What it sees that
 * cannot be goes to check_bad. Returns the first error of a call that must succeed. */
int visit_run(const job *j, kv *store, int rank, const char *folder, kv_err *e);
