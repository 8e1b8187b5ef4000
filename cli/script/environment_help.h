/* What `help environment` shows. */
#ifndef SCRIPT_ENVIRONMENT_HELP_H
#define SCRIPT_ENVIRONMENT_HELP_H

#include "base/buf.h"

/* Appends a line or more for each variable that kvctl and the library read, and for those of MXNet
 * what stands for them. */
void environment_help(buf *out);

#endif
