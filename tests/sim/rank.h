/* The start of every process of a simulated job. */
#pragma once

#include "kvstore.h"

/* Registers the store types of several machines, as the plugin does in a process. */
int rank_begin(kv_err *e);
