/* The operation pull into default arrays. row_sparse ones stay as they are, and
 * row_pull.h fills them. */
#ifndef CORE_PULL_H
#define CORE_PULL_H

#include "core/call.h"

/* Errors: key, shape, memory. */
extern const call_ops pull_ops;

#endif
