/* A job of Kubernetes through the program kubectl, with the configuration that it has here. */
#ifndef LAUNCH_LAUNCH_KUBECTL_H
#define LAUNCH_LAUNCH_KUBECTL_H

#include "base/buf.h"
#include "launch/launch_options.h"

/* Creates the objects of a text of YAML, of which `name` is the MPIJob, passes on the log of its
 * launcher, and deletes them: at the end, on an error and on a signal that launch watches for.
 * *code becomes the exit code of the launcher. Waits for all that. Errors: peer (kubectl fails, or
 * the launcher is lost), timeout (it did not start in time), io, memory, unsupported. */
int kubectl_run(const launch_options *o, const char *name, const buf *yaml, int *code, kv_err *e);

#endif
