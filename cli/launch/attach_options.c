/* One table says which options there are. */
#include "launch/attach_options.h"

#include <string.h>

#include "base/mem.h"

static int take_rank(const shell_given *g, kv_err *e)
{
    int64_t rank = 0;
    int code = shell_take_count(g->spelled, g->text, 0, 1 << 20, &rank, e);
    ((attach_options *)g->to)->rank = (int)rank + 1;
    return code;
}

static const shell_option options[] = {
    {'c', NULL, "ENTRY", "run an entry, and leave; repeatable", .kind = SHELL_TEXTS,
     .field = offsetof(attach_options, entries)},
    {0, "rank", "R", "look at worker R, not at the first one of this host", .kind = SHELL_OTHER,
     .take = take_rank},
    {'q', "quiet", NULL, "no notes", .kind = SHELL_FLAG, .field = offsetof(attach_options, quiet)},
    {'h', "help", NULL, NULL, .kind = SHELL_FLAG, .field = offsetof(attach_options, help)},
};

static const shell_option of_jobs[] = {
    {0, "json", NULL, "one JSON object, {\"jobs\": [...]}", .kind = SHELL_FLAG,
     .field = offsetof(jobs_options, json)},
    {'q', "quiet", NULL, "say nothing when there is no job", .kind = SHELL_FLAG,
     .field = offsetof(jobs_options, quiet)},
    {'h', "help", NULL, NULL, .kind = SHELL_FLAG, .field = offsetof(jobs_options, help)},
};

const shell_table attach_table = {options, sizeof options / sizeof *options, "attach: "};
const shell_table jobs_table = {of_jobs, sizeof of_jobs / sizeof *of_jobs, "jobs: "};

/* The column in which the help of an option begins. */
#define COLUMN 18

void attach_help(buf *out)
{
    buf_add(out,
            "usage: kvctl attach [OPTIONS] [JOB]\n\n"
            "Opens a prompt on a job of yours that `kvctl launch` runs on this host, or that has\n"
            "workers here. JOB is its name, as `kvctl jobs` lists it; one that runs alone needs\n"
            "none. The prompt reads and changes nothing:\n\n"
            "  rounds                     how often each key was pushed, and whom a round lacks\n"
            "  info, info --cluster       the store and its keys; a row for each rank\n"
            "  info --metrics             the same as Prometheus reads it\n"
            "  list, pull KEYS            the keys, and what they hold between two rounds\n"
            "  stat [GLOB...]             least, largest, mean, ... of each key\n"
            "  plot EXPR, print EXPR      variables of the script, drawn or shown; so is an EXPR\n"
            "  explain push 3 ones(2)     what a call of this worker would do\n"
            "  profile FILE, profile off  what its store does, for https://ui.perfetto.dev\n\n");
    for (int i = 0; i < attach_table.n; i++)
        if (options[i].help)
            shell_option_line(out, &options[i], COLUMN);
    buf_add(
        out,
        "\nEntries run beside the script, which goes on. A value comes as the servers hold it,\n"
        "without a pull: no round waits, and no bit of a result changes. Variables are read\n"
        "between two statements. While the script waits in a call of its store, rounds,\n"
        "info --cluster, pull and stat still answer. Ctrl-C ends an entry, Ctrl-D leaves, and\n"
        "neither reaches the job. An entry has 256 MB of memory, and ends with its client and\n"
        "with the script. Entries also come from stdin, one a line:\n\n"
        "  (echo profile p.json; sleep 5; echo profile off) | kvctl attach\n"
        "  kvctl attach -c 'info --metrics' > job.prom\n\n"
        "The socket of a job is open to its user alone. A job that plain mpirun has started has\n"
        "none.\n");
}

void jobs_help(buf *out)
{
    buf_add(out,
            "usage: kvctl jobs [--json] [-q]\n\n"
            "Lists the jobs of yours that `kvctl launch` runs on this host, or that have workers\n"
            "here, a line each: the name for `kvctl attach`, when it began, its workers and\n"
            "servers, its state, the rounds of its store, its hosts, its script. The state is\n"
            "begins, runs, ends, or silent: then its launcher does not answer. A job of plain\n"
            "mpirun is not among them. Their sockets are in $KVCTL_JOBS, else in\n"
            "/tmp/kvctl.UID.\n\n");
    for (int i = 0; i < jobs_table.n; i++)
        if (of_jobs[i].help)
            shell_option_line(out, &of_jobs[i], COLUMN);
    buf_add(out, "\n  kvctl jobs --json | jq -r '.jobs[] | [.name, .rounds] | @tsv'\n");
}

int attach_options_parse(attach_options *o, int argc, char **argv, kv_err *e)
{
    *o = (attach_options){0};
    o->entries.items = mem_zalloc(argc + 1, sizeof *o->entries.items, e);
    for (int i = 0; i < argc && !e->code;) {
        int n = argv[i][0] == '-' && argv[i][1] ? shell_option_read(&attach_table, o, argc - i,
                                                                    argv + i, e)
                                                : 0;
        if (!n && !e->code && argv[i][0] == '-')
            kv_err_set(e, KV_E_USAGE, "attach: there is no option %s", argv[i]);
        else if (!n && !e->code && o->job)
            kv_err_set(e, KV_E_USAGE, "attach: one job, and here are %s and %s", o->job, argv[i]);
        else if (!n)
            o->job = argv[i];
        i += n ? n : 1;
    }
    if (e->code)
        kv_err_hint(e, "kvctl attach --help");
    return (int)e->code;
}

void attach_options_release(attach_options *o)
{
    mem_free(o->entries.items);
}

int jobs_options_parse(jobs_options *o, int argc, char **argv, kv_err *e)
{
    *o = (jobs_options){0};
    for (int i = 0; i < argc && !e->code; i++) {
        if (argv[i][0] != '-' || !argv[i][1])
            kv_err_set(e, KV_E_USAGE, "jobs takes no words, and here is \"%s\"", argv[i]);
        else if (!shell_option_read(&jobs_table, o, argc - i, argv + i, e) && !e->code)
            kv_err_set(e, KV_E_USAGE, "jobs: there is no option %s", argv[i]);
    }
    if (e->code)
        kv_err_hint(e, "kvctl jobs --help");
    return (int)e->code;
}
