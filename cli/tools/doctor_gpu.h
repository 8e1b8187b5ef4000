/* The self-test of GPUs: the plugin, each GPU, and the GPUs that reach each other. */
#ifndef TOOLS_DOCTOR_GPU_H
#define TOOLS_DOCTOR_GPU_H

#include "base/buf.h"

/* Out: *first, the first GPU that can be used, or -1 where there is none. */
void doctor_gpus(buf *out, int *first, kv_err *e);

#endif
