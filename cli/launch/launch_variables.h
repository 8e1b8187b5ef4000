/* Variables that ranks get, --env and its like. Command lines are everybody's to read on a machine:
 * so values travel in the environment, from launch to mpirun and to the watcher of a rank, which
 * sets them. On the way they have names of their own, so that mpirun does not take a $PATH of the
 * ranks for its own, and so that workers and servers may have different values.
 */
#ifndef LAUNCH_LAUNCH_VARIABLES_H
#define LAUNCH_LAUNCH_VARIABLES_H

#include "base/buf.h"
#include "launch/launch_command.h"
#include "launch/launch_options.h"

enum { VARIABLE_MOST = 200 }; /* letters of a name */

/* Adds NAME=VALUE of all of them, with the names of the way. */
void variables_carry(launch_command *set, const launch_options *o);

/* Adds -x and the name of each variable: every rank gets those of both roles, and keeps its own. */
void variables_name(launch_command *c, const launch_options *o);

/* Adds the options with which another launch takes them from its environment. */
void variables_inner(launch_command *c, const launch_options *o);

/* Appends NAME=VALUE as a shell reads them, each between `begin` and `end`. Unless the shell is
 * elsewhere, it knows the values of what was said by name alone: NAME="$NAME". */
void variables_text(buf *out, const launch_options *o, const char *begin, const char *end,
                    bool elsewhere);

/* Appends the lines `  NAME: "BASE64"` of the data of a Secret, each name once: the last value
 * holds. Returns the bytes of all values. */
size_t variables_secret(buf *out, const launch_options *o);

/* The value that a launch around this one has sent; NULL: none. */
const char *variables_carried(char role, const char *name);

/* In a rank of a role, 'w' or 's': sets them. */
void variables_take(char role);

#endif
