/* The start of every process of a simulated job. */
#ifndef SIM_RANK_H
#define SIM_RANK_H

#include "kvstore.h"

/* Registers the store types of several machines, as the plugin does in a process. */
int rank_begin(kv_err *e);

#endif
