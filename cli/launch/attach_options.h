/* The command lines of `kvctl attach` and `kvctl jobs`, and their pages. */
#ifndef LAUNCH_ATTACH_OPTIONS_H
#define LAUNCH_ATTACH_OPTIONS_H

#include "options/shell_option.h"

typedef struct attach_options {
    shell_texts entries;
    int rank; /* one more than it; 0: not said */
    bool help;
    bool quiet; /* no notes */
    const char *job; /* NULL: not said */
} attach_options;

typedef struct jobs_options {
    bool help, json;
    bool quiet; /* no line when there is no job */
} jobs_options;

extern const shell_table attach_table, jobs_table;

/* The texts of `help attach` and `help jobs`, also shown by --help. */
void attach_help(buf *out);
void jobs_help(buf *out);

/* Reads the words of attach. Errors: usage, memory; the options are to be released then, too. */
int attach_options_parse(attach_options *o, int argc, char **argv, kv_err *e);
void attach_options_release(attach_options *o);

/* Reads the words of jobs. Error: usage. */
int jobs_options_parse(jobs_options *o, int argc, char **argv, kv_err *e);

#endif
