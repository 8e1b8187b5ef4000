/* The commands that launch runs: their words, the same as a shell reads them, the variables and the
 * hosts of the ranks. */
#pragma once

#include "base/buf.h"
#include "launch/launch_options.h"

/* ---- Words ---- */

/* All zero is an empty one. Adding cannot fail at the place of the call: launch_command_check says
 * whether a word was lost. */
typedef struct launch_command {
    char **words; /* n of them, owned, and NULL behind them */
    int64_t n, cap;
    bool failed;
} launch_command;

void launch_add(launch_command *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A template is a text with holes: {name} is the value of the hole, {'name} the value in quotes
 * where a shell needs them, and [ ... {name} ... ] is left out when its first hole is NULL. */
typedef struct launch_hole {
    const char *name, *value;
} launch_hole;

/* Appends a template; holes end with one that has no name. */
void launch_fill(buf *out, const char *text, const launch_hole *holes);
/* Adds the words of a template, which its blanks part; values with blanks stay whole. */
void launch_add_filled(launch_command *c, const char *text, const launch_hole *holes);

int launch_command_check(const launch_command *c, kv_err *e);
void launch_command_release(launch_command *c);
#define own_command OWN(launch_command_release) launch_command

/* Appends a word in quotes where a shell needs them. */
void launch_command_text(buf *out, const launch_command *c);

/* The same for a terminal, from which it may be pasted into bash, ksh or zsh: a word with what must
 * not be shown as it is (see buf.h) is written $'\033[31m'. */
void launch_show_word(buf *out, const char *word);
void launch_show_command(buf *out, const launch_command *c);

/* Appends what stands between the items of a list of n, as in "1, 2 and 3", before item `at`, the
 * first being 0; before the first that is not named, " and 9 more". Returns whether the item is
 * named: `most` are. */
bool launch_list(buf *out, int at, int n, int most);

/* "2.500"; text. */
const char *launch_seconds(char text[32], double seconds);

/* The path of this program. Error: io. */
int launch_self(char path[4096], kv_err *e);

/* ---- Variables ---- */

/* Variables that ranks get, --env and its like. Command lines are everybody's to read on a machine:
 * so values travel in the environment, from launch to mpirun and to the watcher of a rank, which
 * sets them. On the way they have names of their own, so that mpirun does not take a $PATH of the
 * ranks for its own, and so that workers and servers may have different values.
 */

enum { VARIABLE_MOST = 200 }; /* letters of a name */

/* Adds NAME=VALUE of all of them, with the names of the way. */
void variables_carry(launch_command *set, const launch_options *o);

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

/* ---- The hosts of a job ---- */

/* Which there are, and how many ranks each gets. A line of the file of hosts is HOST[:PORT]
 * [slots=N]; # begins a comment. A host without slots takes any number of ranks. Ranks go round the
 * hosts in the order of the file. */

typedef struct launch_host {
    char name[256];
    int slots; /* 0: any number */
    int ranks;
} launch_host;

typedef struct launch_hosts {
    launch_host *items;
    int64_t n, cap;
    int port; /* of ssh, the same for all; 0: what ssh takes */
} launch_hosts;

/* Reads the file and gives the ranks to the hosts. Errors: io, format (the line is named), value
 * (not enough slots), memory. On failure too h is to be released. */
int hosts_read(launch_hosts *h, const launch_options *o, kv_err *e);
void hosts_release(launch_hosts *h);

/* Appends "a:2,b:1", as mpirun reads it: the hosts with a rank. */
void hosts_list(const launch_hosts *h, buf *out);

/* Appends ssh with its options: no question is asked, and nobody is waited for beyond the deadline.
 */
void hosts_ssh(const launch_hosts *h, const launch_options *o, buf *out);

/* ---- The commands of Open MPI ---- */

/* Appends mpirun with the ranks of a job. h may be empty: mpirun knows the hosts. */
int mpirun_command(launch_command *c, const launch_options *o, const launch_hosts *h, kv_err *e);

/* The same hosts, and on each one process that adds "RANK WHY" to a file in the folder of the job
 * (launch_folder.h). */
int mpirun_tell_command(launch_command *c, const launch_options *o, const launch_hosts *h,
                        const char *file, int number, const char *why, kv_err *e);

/* Adds the environment of the command: NAME=VALUE for each variable that ranks read. round: that of
 * the checkpoint, or 0. folder NULL: only what matters to somebody who runs the command by hand. */
void mpirun_environment(launch_command *set, const launch_options *o, const char *folder,
                        int64_t round);

/* ---- The launch of a queue or of Kubernetes ---- */

/* The launch inside of a job that a queue or Kubernetes starts. */

/* Adds the options of this launch that the one in the job gets too, and the words of the ranks;
 * before them stand `kvctl launch` and the launcher. Error: memory. */
int inner_options(launch_command *c, const launch_options *o, kv_err *e);
