/* What the self-test says of GPUs: whether there is a plugin, each GPU, and which reaches which. */
#ifndef TOOLS_DOCTOR_GPU_H
#define TOOLS_DOCTOR_GPU_H

#include "base/buf.h"

/* Out: *first, the first GPU that can be used, or -1 where there is none. */
void doctor_gpus(buf *out, int *first, kv_err *e);

#endif
