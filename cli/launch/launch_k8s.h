/* A job as objects of Kubernetes: an MPIJob for the MPI operator (kubeflow.org/v2beta1), a
 * ConfigMap with the scripts, and a Secret with the values of variables, if there are any. The
 * operator starts pods with sshd, and one with kvctl launch, which reaches them over ssh as the
 * hosts of a file that the operator writes. */
#ifndef LAUNCH_LAUNCH_K8S_H
#define LAUNCH_LAUNCH_K8S_H

#include "base/buf.h"
#include "launch/launch_options.h"

/* Names of objects obey RFC 1123, and end before what the operator appends. */
enum { K8S_NAME = 64 };

/* Prints the objects. Errors: usage, value (a name, file or text that the objects cannot have), io,
 * memory. */
int launch_k8s(const launch_options *o, kv_err *e);

#endif
