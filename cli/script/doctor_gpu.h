/* What the self-test says of GPUs: whether there is a plugin, each GPU, and which reaches which. */
#ifndef SCRIPT_DOCTOR_GPU_H
#define SCRIPT_DOCTOR_GPU_H

#include "base/buf.h"

void doctor_gpus(buf *out, kv_err *e);

#endif
