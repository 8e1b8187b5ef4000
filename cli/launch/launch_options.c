/* One table says which options there are, and for which launchers each means something; the names
 * are those of MXNet's tools/launch.py where it has the option. */
#include "launch/launch_options.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "launch/jobs_socket.h"
#include "launch/launch_command.h"

/* ---- launch ---- */

enum { MOST_RANKS = 4096 };

#define BY(id)   (1u << (id))
#define BY_QUEUE (BY(LAUNCH_SGE) | BY(LAUNCH_SLURM) | BY(LAUNCH_YARN))

static const char *const launcher_names[] = {
#define LAUNCHER_NAME(id, name) name,
    LAUNCHERS(LAUNCHER_NAME)
#undef LAUNCHER_NAME
};

const char *launcher_name(launcher by)
{
    return launcher_names[by];
}

/* ---- Values ---- */

static int take_text(const shell_given *g, kv_err *e)
{
    *(const char **)((char *)g->to + g->o->field) = g->text;
    return *g->text && *g->text != '-'
               ? KV_OK
               : kv_err_set(e, KV_E_USAGE, "%s needs a name, not \"%s\"", g->spelled, g->text);
}

/* Names of queues stand in lines of scripts that others read. */
static int take_name(const shell_given *g, kv_err *e)
{
    for (const char *at = g->text; *at; at++)
        if (isspace((unsigned char)*at) || iscntrl((unsigned char)*at))
            return kv_err_set(e, KV_E_USAGE, "%s needs a name without blanks, not \"%s\"",
                              g->spelled, g->text);
    return take_text(g, e);
}

/* mpirun and the hosts would begin at different ends of another path. */
static int take_folder(const shell_given *g, kv_err *e)
{
    ((launch_options *)g->to)->sync_folder = g->text;
    return *g->text == '/'
               ? KV_OK
               : kv_err_set(e, KV_E_USAGE, "%s needs a path from /, not \"%s\"", g->spelled,
                            g->text);
}

static int take_launcher(const shell_given *g, kv_err *e)
{
    int i = NAME_AMONG(g->text, launcher_names);
    ((launch_options *)g->to)->by = i < 0 ? LAUNCHER_NONE : (launcher)i;
    if (i >= 0)
        return KV_OK;
    return kv_err_set(e, KV_E_USAGE,
                      "launch: there is no launcher \"%s\"; there are local, mpi, ssh, sge, slurm, "
                      "yarn and k8s",
                      g->text);
}

/* Rounds, "50", or seconds, "30s". */
static int take_every(const shell_given *g, kv_err *e)
{
    char text[32];
    double seconds;
    int64_t rounds;
    kv_err why = {0};
    size_t n = strlen(g->text);
    bool timed = n > 0 && g->text[n - 1] == 's';
    ((launch_options *)g->to)->every = g->text;
    snprintf(text, sizeof text, "%.*s", n >= sizeof text ? 0 : (int)n - timed, g->text);
    int rc = timed ? shell_take_seconds(g->spelled, text, &seconds, &why)
                   : shell_take_count(g->spelled, text, 1, INT_MAX, &rounds, &why);
    return rc ? kv_err_set(e, KV_E_USAGE, "%s needs rounds, 50, or seconds, 30s, not \"%s\"",
                           g->spelled, g->text)
              : KV_OK;
}

/* NAME=VALUE, NAME:VALUE, or NAME with the value that it has here. low: the role. */
static int take_variable(const shell_given *g, kv_err *e)
{
    launch_options *o = g->to;
    const char *text = g->text;
    char role = (char)g->o->low;
    size_t n = 0;
    own_buf b = {0};
    while (isalnum((unsigned char)text[n]) || text[n] == '_')
        n++;
    if (n == 0 || isdigit((unsigned char)text[0]) || (text[n] && !strchr("=:", text[n])))
        return kv_err_set(e, KV_E_USAGE, "%s needs NAME or NAME=VALUE, not \"%s\"", g->spelled,
                          text);
    if (n > VARIABLE_MOST)
        return kv_err_set(e, KV_E_USAGE, "%s: a name has at most %d letters", g->spelled,
                          VARIABLE_MOST);
    const char *value = text[n] ? text + n + 1 : variables_carried(role, text);
    value = value ? value : getenv(text);
    if (!value)
        return kv_err_set(e, KV_E_USAGE, "%s %s: it is not set here", g->spelled, text);
    if (mem_grow(&o->variables, &o->cap, o->nvariables + 1, sizeof *o->variables, e))
        return KV_E_MEMORY;
    buf_printf(&b, "%.*s=", (int)n, text);
    buf_add(&b, value);
    if (!buf_check(&b, e)) {
        launch_variable *v = &o->variables[o->nvariables];
        v->role = role;
        v->by_name = !text[n];
        v->text = mem_text(buf_text(&b), b.len, e);
        o->nvariables += v->text != NULL;
    }
    return e->code;
}

/* A variable of all ranks. */
static int take_no_deadlock(const shell_given *g, kv_err *e)
{
    shell_given variable = *g;
    variable.text = "KVSTORE_DEADLOCK=0";
    return take_variable(&variable, e);
}

static int take_file(const shell_given *g, kv_err *e)
{
    launch_options *o = g->to;
    if (!*g->text)
        return kv_err_set(e, KV_E_USAGE, "%s needs a name, not \"\"", g->spelled);
    if (mem_grow(&o->files, &o->files_cap, o->nfiles + 1, sizeof *o->files, e))
        return KV_E_MEMORY;
    o->files[o->nfiles++] = g->text;
    return KV_OK;
}

/* CLAIM:PATH. A claim has a name as RFC 1123 allows for a host; Kubernetes takes no path with a
 * colon. */
static int take_volume(const shell_given *g, kv_err *e)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    launch_options *o = g->to;
    size_t n = strcspn(g->text, ":");
    const char *path = g->text[n] ? g->text + n + 1 : "";
    bool is_name = n > 0 && n < sizeof o->volumes->claim && strchr(letters, g->text[0]) &&
                   strchr(letters, g->text[n - 1]);
    for (size_t i = 0; i < n; i++)
        is_name = is_name && strchr("-.abcdefghijklmnopqrstuvwxyz0123456789", g->text[i]);
    if (!is_name || path[0] != '/' || !path[1] || strchr(path, ':'))
        return kv_err_set(e, KV_E_USAGE,
                          "%s needs CLAIM:PATH, a name and a path from / without \":\", not \"%s\"",
                          g->spelled, g->text);
    if (mem_grow(&o->volumes, &o->volumes_cap, o->nvolumes + 1, sizeof *o->volumes, e))
        return KV_E_MEMORY;
    launch_volume *v = &o->volumes[o->nvolumes++];
    snprintf(v->claim, sizeof v->claim, "%.*s", (int)n, g->text);
    v->path = path;
    return KV_OK;
}

static int refuse_p3(const shell_given *g, kv_err *e)
{
    return kv_err_set(e, KV_E_USAGE,
                      "%s has no meaning here: what is pushed and pulled always goes in parts, by "
                      "priority",
                      g->spelled);
}

static int refuse_grow(const shell_given *g, kv_err *e)
{
    return kv_err_set(e, KV_E_USAGE, "%s stands alone: kvctl launch --grow [JOB]", g->spelled);
}

/* ---- The table ---- */

#define FLAG(to)             .kind = SHELL_FLAG, .field = offsetof(launch_options, to)
#define SECONDS(to)          .kind = SHELL_SECONDS, .field = offsetof(launch_options, to)
#define COUNT(to, from, most)                                                                      \
    .kind = SHELL_COUNT, .field = offsetof(launch_options, to), .low = from, .high = most
#define NAMED(by, to)                                                                              \
    .kind = SHELL_OTHER, .take = by, .field = offsetof(launch_options, to)
#define TAKEN(by)            .kind = SHELL_OTHER, .take = by

/* Legend: letter or 0, name or NULL, what the value is called, help or NULL, what becomes of the
 * value; by: the launchers for which it means something, not said: all. */
static const shell_option job_options[] = {
    {'n', NULL, "WORKERS", "how many ranks run the script (--num-workers)",
     COUNT(workers, 1, MOST_RANKS)},
    {0, "num-workers", "WORKERS", NULL, COUNT(workers, 1, MOST_RANKS)},
    {0, "np", "WORKERS", NULL, COUNT(workers, 1, MOST_RANKS)}, /* also -np, as mpirun has it */
    {0, "nproc-per-node", "WORKERS", NULL, COUNT(workers, 1, MOST_RANKS)}, /* torchrun */
    {0, "nproc_per_node", "WORKERS", NULL, COUNT(workers, 1, MOST_RANKS)},
    {'s', NULL, "SERVERS",
     "ranks that only keep keys (kvctl serve); without it the workers\n"
     "keep them (--num-servers)",
     COUNT(servers, 0, MOST_RANKS)},
    {0, "num-servers", "SERVERS", NULL, COUNT(servers, 0, MOST_RANKS)},
    {0, "deadline", "SEC",
     "how long a rank may be silent, or be missing at the start\n"
     "($KVSTORE_DEADLINE, else 10)",
     SECONDS(deadline)},
    {0, "timeout", "SEC", "end the job after SEC seconds, with exit code 6", SECONDS(timeout)},
    {0, "no-deadlock", NULL, "only warn when all ranks wait for each other: else that ends the job",
     TAKEN(take_no_deadlock), .low = 'a'},
    {0, "env", "NAME[=VALUE]",
     "a variable for all ranks; with --env-worker and --env-server for\n"
     "those of one kind; without a VALUE the one that it has here",
     TAKEN(take_variable), .low = 'a'},
    {0, "env-worker", "NAME[=VALUE]", NULL, TAKEN(take_variable), .low = 'w'},
    {0, "env-server", "NAME[=VALUE]", NULL, TAKEN(take_variable), .low = 's'},
    {0, "checkpoint", "FILE",
     "keep the store in FILE, as often as --checkpoint-every says, and\n"
     "go on from there if it exists",
     NAMED(take_text, checkpoint)},
    {0, "checkpoint-every", "N|30s",
     "write it every N rounds, or, with an s, at the first round\n"
     "after so many seconds, and at the end of the job",
     TAKEN(take_every)},
    {0, "max-restarts", "N", "begin again from FILE when a rank was lost, at most N times (0)",
     COUNT(restarts, 0, INT_MAX)},
    {0, "elastic", NULL,
     "go on without a worker that was lost, and do not begin again:\n"
     "with -s, and Open MPI 5 with ULFM",
     FLAG(elastic)},
    {0, "spares", "N", "N more ranks, which wait until --grow: with -s (local)",
     COUNT(spares, 1, MOST_RANKS), .by = BY(LAUNCH_LOCAL)},
    {0, "grow", "[JOB]",
     "alone: a spare of a running job becomes a worker at the next\n"
     "round; JOB as for `kvctl attach`",
     TAKEN(refuse_grow)},
    {0, "name", "NAME", "of the job, for `kvctl jobs` and `attach` (the number of its process;\n"
                        "k8s: that of the script)",
     NAMED(take_text, name)},
    {0, "python", NULL, "FILE is a program of Python, which python3 runs, or $KVCTL_PYTHON",
     FLAG(python), .by = BY(LAUNCH_LOCAL) | BY(LAUNCH_MPI) | BY(LAUNCH_SSH)},
    {0, "dry-run", NULL, "print the command, or the job for a queue, and start nothing",
     FLAG(dry_run)},
    {'h', "help", NULL, NULL, FLAG(help)},
    {0, "p3", NULL, NULL, TAKEN(refuse_p3)},
    {0, "cluster", "LAUNCHER", NULL, TAKEN(take_launcher)},
    /* where ranks are started */
    {0, "launcher", "local", "on this machine; so without a launcher", TAKEN(take_launcher)},
    {0, "launcher", "ssh", "on the hosts of a file, over ssh; so with -H", TAKEN(take_launcher)},
    {0, "launcher", "mpi", "where Open MPI says, or on the hosts of a file", TAKEN(take_launcher)},
    {0, "launcher", "sge|slurm", "on hosts that Grid Engine or Slurm gives", TAKEN(take_launcher)},
    {0, "launcher", "yarn", "in one container of YARN", TAKEN(take_launcher)},
    {0, "launcher", "k8s", "in pods of Kubernetes: prints them for kubectl", TAKEN(take_launcher)},
    {'H', "hostfile", "FILE", "the hosts, a line each: HOST[:PORT] [slots=N] (ssh, mpi)",
     NAMED(take_text, hostfile), .by = BY(LAUNCH_MPI) | BY(LAUNCH_SSH)},
    {0, "host-file", "FILE", NULL, NAMED(take_text, hostfile),
     .by = BY(LAUNCH_MPI) | BY(LAUNCH_SSH)},
    {0, "sync-dst-dir", "DIR",
     "copy this folder to DIR, a path from /, on each host, and\n"
     "run there (ssh)",
     TAKEN(take_folder), .by = BY(LAUNCH_SSH)},
    {0, "queue", "NAME", "the queue, or partition (sge, slurm, yarn)", NAMED(take_name, queue),
     .by = BY_QUEUE},
    {0, "queue-timeout", "SEC",
     "give up when the job has not started by then (sge, slurm),\n"
     "or when some host does not answer by then (ssh: 0; k8s: 600)",
     SECONDS(queue_timeout),
     .by = BY(LAUNCH_SGE) | BY(LAUNCH_SLURM) | BY(LAUNCH_SSH) | BY(LAUNCH_K8S)},
    {0, "pe", "NAME", "the parallel environment (sge: orte)", NAMED(take_name, pe),
     .by = BY(LAUNCH_SGE)},
    {0, "memory", "MB", "for each rank (yarn: 1024; k8s)",
     COUNT(memory, 1, INT_MAX / MOST_RANKS / 2), .by = BY(LAUNCH_YARN) | BY(LAUNCH_K8S)},
    {0, "cpus", "N", "processors for each rank (k8s)", COUNT(cpus, 1, MOST_RANKS),
     .by = BY(LAUNCH_K8S)},
    {0, "rank-gpus", "N", "GPUs of NVIDIA for each rank (k8s)", COUNT(gpus, 1, MOST_RANKS),
     .by = BY(LAUNCH_K8S)},
    {0, "slots", "N", "ranks in a pod (k8s: 1)", COUNT(slots, 1, MOST_RANKS),
     .by = BY(LAUNCH_K8S)},
    {0, "image", "IMAGE", "what pods run, with kvctl, Open MPI and sshd (k8s)",
     NAMED(take_name, image), .by = BY(LAUNCH_K8S)},
    {0, "namespace", "NAME", "of Kubernetes, for the job (k8s)", NAMED(take_text, name_space),
     .by = BY(LAUNCH_K8S)},
    {0, "file", "FILE", "a file that the script reads, of this folder (k8s)", TAKEN(take_file),
     .by = BY(LAUNCH_K8S)},
    {0, "volume", "CLAIM:PATH",
     "a PersistentVolumeClaim, and where each pod has it (k8s)", TAKEN(take_volume),
     .by = BY(LAUNCH_K8S)},
};

const shell_table launch_table = {job_options, sizeof job_options / sizeof *job_options,
                                  "launch: "};

/* ---- Options that exclude each other ---- */

/* Kubernetes has rules of its own. */
static int check_name(const launch_options *o, kv_err *e)
{
    const char *name = o->name;
    if (name && o->by != LAUNCH_K8S && strlen(name) > JOBS_NAME)
        return kv_err_set(e, KV_E_USAGE, "--name has at most %d characters, not %zu", JOBS_NAME,
                          strlen(name));
    bool good = !name || o->by == LAUNCH_K8S ||
                (jobs_is_name(name) && name[strspn(name, "0123456789")]);
    if (!good)
        kv_err_set(e, KV_E_USAGE,
                   "--name needs letters, digits, -, _ and ., and not only digits, not \"%s\"",
                   name);
    return e->code;
}

/* given: the options of the command line, as they are spelled there. */
static int check_meaning(const launch_options *o, const shell_texts *given, kv_err *e)
{
    for (int i = 0; i < given->n; i++) {
        const char *word = given->items[i];
        size_t n = word[1] == '-' ? strcspn(word, "=") : 2;
        const shell_option *one = shell_option_find(&launch_table, word, n);
        if (!one->by || (one->by & BY(o->by)))
            continue;
        own_buf list = {0};
        int all = __builtin_popcount(one->by), named = 0;
        for (int k = 0; k < LAUNCHER_NONE; k++)
            if (one->by & BY(k) && launch_list(&list, named++, all, all))
                buf_printf(&list, " %s", launcher_names[k]);
        return kv_err_set(e, KV_E_USAGE, "launch: %.*s is for the launcher%s%s, and this is %s",
                          (int)n, word, all > 1 ? "s" : "", buf_text(&list), launcher_names[o->by]);
    }
    for (int64_t i = 0; i < o->nvariables && o->servers == 0; i++)
        if (o->variables[i].role == 's')
            return kv_err_set(e, KV_E_USAGE, "launch: --env-server needs servers: -s SERVERS");
    if (o->elastic && o->servers == 0)
        return kv_err_set(e, KV_E_USAGE,
                          "launch: --elastic needs servers that are not workers: -s SERVERS");
    if (o->spares > 0 && o->servers == 0)
        return kv_err_set(e, KV_E_USAGE,
                          "launch: --spares needs servers that are not workers: -s SERVERS");
    if (o->by == LAUNCH_SSH && !o->hostfile)
        return kv_err_set(e, KV_E_USAGE, "launch: --launcher ssh needs the hosts: -H HOSTFILE");
    if (o->by == LAUNCH_K8S && !o->image)
        return kv_err_set(e, KV_E_USAGE,
                          "launch: --launcher k8s needs what the pods run: --image IMAGE");
    TRY(check_name(o, e));
    for (int i = 0; i < o->nwords; i++)
        if (strcmp(o->words[i], ":") == 0)
            return kv_err_set(e, KV_E_USAGE,
                              "launch: no rank can get the word \":\": mpirun would run what "
                              "stands behind it as a program");
    return KV_OK;
}

/* $KVSTORE_DEADLINE, as ranks without a launch read it, where no option says it; 0 is none. */
static int read_deadline(launch_options *o, kv_err *e)
{
    enum { YEAR = 31536000, USUAL = 10 };
    const char *text = getenv("KVSTORE_DEADLINE");
    if (o->deadline > 0)
        return KV_OK;
    o->deadline = text && strcmp(text, "0") == 0 ? YEAR : USUAL;
    if (!text || !*text || strcmp(text, "0") == 0)
        return KV_OK;
    return shell_take_seconds("launch: KVSTORE_DEADLINE", text, &o->deadline, e);
}

int launch_options_parse(launch_options *o, int argc, char **argv, int front, kv_err *e)
{
    *o = (launch_options){.by = LAUNCHER_NONE};
    shell_texts given = {mem_zalloc(argc + 1, sizeof *given.items, e), 0};
    int i = front, n = 1;
    while (given.items && i < argc && n > 0) {
        argv[i] = strcmp(argv[i], "-np") == 0 ? "--np" : argv[i];
        n = shell_option_read(&launch_table, o, argc - i, argv + i, e);
        if (n > 0)
            given.items[given.n++] = argv[i];
        i += n;
    }
    if (!e->code)
        read_deadline(o, e);
    for (int k = 0; k < front; k++) { /* behind the options of launch */
        char *word = argv[0];
        memmove(argv, argv + 1, (size_t)(i - 1) * sizeof *argv);
        argv[i - 1] = word;
    }
    o->words = argv + i - front;
    o->nwords = argc - i + front;
    if (o->by == LAUNCHER_NONE)
        o->by = o->hostfile ? LAUNCH_SSH : LAUNCH_LOCAL;
    if (!e->code && !o->help)
        check_meaning(o, &given, e);
    mem_free(given.items);
    return e->code;
}

void launch_options_release(launch_options *o)
{
    for (int64_t i = 0; i < o->nvariables; i++)
        mem_free(o->variables[i].text);
    mem_free(o->variables);
    mem_free(o->files);
    mem_free(o->volumes);
}

/* ---- Help ---- */

/* The text of a help. The last line `{options}` stands for the rows of the table that are left, one
 * before it for those in front of the launchers. */
static void put_help(buf *out, const char *text, const shell_table *t, int column)
{
    static const char mark[] = "{options}\n";
    int i = 0;
    for (const char *at; (at = strstr(text, mark)); text = at + strlen(mark)) {
        bool last = !strstr(at + 1, mark);
        buf_put(out, text, (size_t)(at - text));
        for (; i < t->n && (last || t->rows[i].take != take_launcher); i++)
            if (t->rows[i].help)
                shell_option_line(out, &t->rows[i], column);
    }
    buf_add(out, text);
}

void launch_help(buf *out)
{
    put_help(out, text_launch_help, &launch_table, 23);
}

/* ---- attach and jobs ---- */

static const shell_option options[] = {
    {'c', NULL, "ENTRY", "run an entry, and leave; repeatable", .kind = SHELL_TEXTS,
     .field = offsetof(attach_options, entries)},
    {0, "rank", "R", "look at worker R, not at the first one of this host", .kind = SHELL_COUNT,
     .field = offsetof(attach_options, rank), .high = 1 << 20},
    {0, "json", NULL, "one JSON object a command, as of kvctl --json; -q: nothing else",
     .kind = SHELL_FLAG, .field = offsetof(attach_options, json)},
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

void attach_help(buf *out)
{
    put_help(out, text_attach_help, &attach_table, 18);
}

void jobs_help(buf *out)
{
    put_help(out, text_jobs_help, &jobs_table, 18);
}

int attach_options_parse(attach_options *o, int argc, char **argv, kv_err *e)
{
    *o = (attach_options){.rank = -1};
    o->entries.items = mem_zalloc(argc + 1, sizeof *o->entries.items, e);
    for (int i = 0; i < argc && !e->code;) {
        bool option = argv[i][0] == '-' && argv[i][1] && !o->words.len;
        int n = option ? shell_option_read(&attach_table, o, argc - i, argv + i, e) : 0;
        if (!n && !e->code && argv[i][0] == '-' && !o->words.len)
            kv_err_set(e, KV_E_USAGE, "attach: there is no option %s", argv[i]);
        else if (!n && !e->code && o->job)
            buf_printf(&o->words, o->words.len ? " %s" : "%s", argv[i]);
        else if (!n)
            o->job = argv[i];
        i += n ? n : 1;
    }
    buf_check(&o->words, e);
    if (o->words.len && o->entries.items)
        o->entries.items[o->entries.n++] = buf_text(&o->words);
    if (e->code)
        kv_err_hint(e, "kvctl attach %s--help", o->job ? "JOB -c rounds, or " : "");
    return (int)e->code;
}

void attach_options_release(attach_options *o)
{
    mem_free(o->entries.items);
    buf_release(&o->words);
}

int jobs_options_parse(jobs_options *o, int argc, char **argv, kv_err *e)
{
    *o = (jobs_options){0};
    for (int i = 0; i < argc && !e->code; i++) {
        if (argv[i][0] != '-' && !o->job)
            o->job = argv[i];
        else if (argv[i][0] != '-' || !argv[i][1])
            kv_err_set(e, KV_E_USAGE, "jobs takes one job, and here is \"%s\"", argv[i]);
        else if (!shell_option_read(&jobs_table, o, argc - i, argv + i, e) && !e->code)
            kv_err_set(e, KV_E_USAGE, "jobs: there is no option %s", argv[i]);
    }
    if (e->code)
        kv_err_hint(e, "kvctl jobs --help");
    return (int)e->code;
}
