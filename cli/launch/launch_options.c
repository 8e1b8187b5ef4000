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
#include "base/num.h"
#include "launch/launch_variables.h"

enum { MOST_RANKS = 4096 };

#define BY(id)   (1u << (id))
#define BY_ANY   (~0u)
#define BY_QUEUE (BY(LAUNCH_SGE) | BY(LAUNCH_SLURM) | BY(LAUNCH_YARN))

typedef enum option_id {
    OPT_WORKERS,
    OPT_SERVERS,
    OPT_LAUNCHER,
    OPT_HOSTFILE,
    OPT_SYNC,
    OPT_ENV,
    OPT_ENV_WORKER,
    OPT_ENV_SERVER,
    OPT_DEADLINE,
    OPT_TIMEOUT,
    OPT_CHECKPOINT,
    OPT_EVERY,
    OPT_RESTARTS,
    OPT_QUEUE,
    OPT_QUEUE_TIMEOUT,
    OPT_PE,
    OPT_MEMORY,
    OPT_DRY_RUN,
    OPT_HELP,
    OPT_P3
} option_id;

typedef struct spec {
    const char *name;
    option_id id;
    bool value;  /* one follows */
    unsigned by; /* launchers for which it means something */
} spec;

static const spec specs[] = {
    {"-n", OPT_WORKERS, true, BY_ANY},
    {"--num-workers", OPT_WORKERS, true, BY_ANY},
    {"-s", OPT_SERVERS, true, BY_ANY},
    {"--num-servers", OPT_SERVERS, true, BY_ANY},
    {"--launcher", OPT_LAUNCHER, true, BY_ANY},
    {"--cluster", OPT_LAUNCHER, true, BY_ANY},
    {"-H", OPT_HOSTFILE, true, BY(LAUNCH_MPI) | BY(LAUNCH_SSH)},
    {"--hostfile", OPT_HOSTFILE, true, BY(LAUNCH_MPI) | BY(LAUNCH_SSH)},
    {"--host-file", OPT_HOSTFILE, true, BY(LAUNCH_MPI) | BY(LAUNCH_SSH)},
    {"--sync-dst-dir", OPT_SYNC, true, BY(LAUNCH_SSH)},
    {"--env", OPT_ENV, true, BY_ANY},
    {"--env-worker", OPT_ENV_WORKER, true, BY_ANY},
    {"--env-server", OPT_ENV_SERVER, true, BY_ANY},
    {"--deadline", OPT_DEADLINE, true, BY_ANY},
    {"--timeout", OPT_TIMEOUT, true, BY_ANY},
    {"--checkpoint", OPT_CHECKPOINT, true, BY_ANY},
    {"--checkpoint-every", OPT_EVERY, true, BY_ANY},
    {"--max-restarts", OPT_RESTARTS, true, BY_ANY},
    {"--queue", OPT_QUEUE, true, BY_QUEUE},
    {"--queue-timeout", OPT_QUEUE_TIMEOUT, true, BY_QUEUE},
    {"--pe", OPT_PE, true, BY(LAUNCH_SGE)},
    {"--memory", OPT_MEMORY, true, BY(LAUNCH_YARN)},
    {"--dry-run", OPT_DRY_RUN, false, BY_ANY},
    {"--help", OPT_HELP, false, BY_ANY},
    {"-h", OPT_HELP, false, BY_ANY},
    {"--p3", OPT_P3, false, BY_ANY},
};
enum { NSPECS = sizeof specs / sizeof *specs };

static const char *const launcher_names[] = {
#define LAUNCHER_NAME(id, name) name,
    LAUNCHERS(LAUNCHER_NAME)
#undef LAUNCHER_NAME
};

const char *launcher_name(launcher by)
{
    return launcher_names[by];
}

static int take_count(const char *name, const char *text, int least, int most, int *x, kv_err *e)
{
    bool over = false;
    int64_t n;
    size_t len = strlen(text);
    if (len == 0 || num_parse_int(text, len, &n, &over) != len || over || n < least || n > most)
        return kv_err_set(e, KV_E_USAGE,
                          "launch: %s needs a whole number from %d to %d, not \"%s\"", name, least,
                          most, text);
    *x = (int)n;
    return KV_OK;
}

static int take_seconds(const char *name, const char *text, double *seconds, kv_err *e)
{
    bool over = false;
    size_t n = strlen(text);
    if (n == 0 || num_parse(text, n, NUM_BINARY64, seconds, &over) != n || over ||
        !(*seconds > 0 && *seconds <= 31536000))
        return kv_err_set(e, KV_E_USAGE, "launch: %s needs seconds, more than 0, not \"%s\"", name,
                          text);
    return KV_OK;
}

static int take_text(const char *name, const char *text, const char **out, kv_err *e)
{
    *out = text;
    return *text && *text != '-'
               ? KV_OK
               : kv_err_set(e, KV_E_USAGE, "launch: %s needs a name, not \"%s\"", name, text);
}

/* Names of queues stand in lines of scripts that others read. */
static int take_name(const char *name, const char *text, const char **out, kv_err *e)
{
    for (const char *at = text; *at; at++)
        if (isspace((unsigned char)*at) || iscntrl((unsigned char)*at))
            return kv_err_set(e, KV_E_USAGE, "launch: %s needs a name without blanks, not \"%s\"",
                              name, text);
    return take_text(name, text, out, e);
}

/* mpirun and the hosts would begin at different ends of another path. */
static int take_folder(const char *name, const char *text, const char **out, kv_err *e)
{
    *out = text;
    return *text == '/' ? KV_OK
                        : kv_err_set(e, KV_E_USAGE, "launch: %s needs a path from /, not \"%s\"",
                                     name, text);
}

static int take_launcher(const char *text, launcher *by, kv_err *e)
{
    for (int i = 0; i < LAUNCHER_NONE; i++) {
        if (strcmp(text, launcher_names[i]) == 0) {
            *by = (launcher)i;
            return KV_OK;
        }
    }
    return kv_err_set(e, KV_E_USAGE,
                      "launch: there is no launcher \"%s\"; there are local, mpi, ssh, sge, slurm "
                      "and yarn",
                      text);
}

/* NAME=VALUE, NAME:VALUE, or NAME with the value that it has here. */
static int take_variable(launch_options *o, const char *name, const char *text, char role,
                         kv_err *e)
{
    size_t n = 0;
    buf b = {0};
    while (isalnum((unsigned char)text[n]) || text[n] == '_')
        n++;
    if (n == 0 || isdigit((unsigned char)text[0]) || (text[n] && !strchr("=:", text[n])))
        return kv_err_set(e, KV_E_USAGE, "launch: %s needs NAME or NAME=VALUE, not \"%s\"", name,
                          text);
    const char *value = text[n] ? text + n + 1 : variables_carried(role, text);
    value = value ? value : getenv(text);
    if (!value)
        return kv_err_set(e, KV_E_USAGE, "launch: %s %s: it is not set here", name, text);
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
    buf_release(&b);
    return e->code;
}

static int take(launch_options *o, const spec *s, const char *text, kv_err *e)
{
    switch (s->id) {
    case OPT_WORKERS:
        return take_count(s->name, text, 1, MOST_RANKS, &o->workers, e);
    case OPT_SERVERS:
        return take_count(s->name, text, 0, MOST_RANKS, &o->servers, e);
    case OPT_LAUNCHER:
        return take_launcher(text, &o->by, e);
    case OPT_HOSTFILE:
        return take_text(s->name, text, &o->hostfile, e);
    case OPT_SYNC:
        return take_folder(s->name, text, &o->sync_folder, e);
    case OPT_ENV:
        return take_variable(o, s->name, text, 'a', e);
    case OPT_ENV_WORKER:
        return take_variable(o, s->name, text, 'w', e);
    case OPT_ENV_SERVER:
        return take_variable(o, s->name, text, 's', e);
    case OPT_DEADLINE:
        return take_seconds(s->name, text, &o->deadline, e);
    case OPT_TIMEOUT:
        return take_seconds(s->name, text, &o->timeout, e);
    case OPT_CHECKPOINT:
        return take_text(s->name, text, &o->checkpoint, e);
    case OPT_EVERY:
        return take_count(s->name, text, 1, INT_MAX, &o->every, e);
    case OPT_RESTARTS:
        return take_count(s->name, text, 0, INT_MAX, &o->restarts, e);
    case OPT_QUEUE:
        return take_name(s->name, text, &o->queue, e);
    case OPT_QUEUE_TIMEOUT:
        return take_seconds(s->name, text, &o->queue_timeout, e);
    case OPT_PE:
        return take_name(s->name, text, &o->pe, e);
    case OPT_MEMORY:
        return take_count(s->name, text, 1, INT_MAX / MOST_RANKS / 2, &o->memory, e);
    case OPT_DRY_RUN:
        o->dry_run = true;
        return KV_OK;
    case OPT_HELP:
        o->help = true;
        return KV_OK;
    case OPT_P3:
        return kv_err_set(e, KV_E_USAGE,
                          "launch: --p3 has no meaning here: what is pushed and "
                          "pulled always goes in parts, by priority");
    }
    return KV_E_INTERNAL;
}

/* Reads one option, --name VALUE, --name=VALUE or -nVALUE. Returns how many words it has; 0: the
 * words of the workers begin here. */
static int take_option(launch_options *o, char **argv, int argc, unsigned *given, kv_err *e)
{
    char name[32];
    const char *word = argv[0], *value = NULL;
    size_t n = strncmp(word, "--", 2) == 0 ? strcspn(word, "=") : 2;
    snprintf(name, sizeof name, "%.*s", (int)n, word);
    if (word[0] == '-' && strlen(word) > n)
        value = word + n + (word[n] == '=');
    for (int i = 0; i < NSPECS; i++) {
        if (word[0] != '-' || strcmp(name, specs[i].name))
            continue;
        *given |= 1u << i;
        if (!specs[i].value && value)
            kv_err_set(e, KV_E_USAGE, "launch: %s takes no value, and here is \"%s\"", name, value);
        else if (!specs[i].value)
            take(o, &specs[i], "", e);
        else if (value || argc > 1)
            take(o, &specs[i], value ? value : argv[1], e);
        else
            kv_err_set(e, KV_E_USAGE, "launch: %s needs a value", name);
        return specs[i].value && !value ? 2 : 1;
    }
    return 0;
}

/* "ssh and mpi" */
static void list_launchers(char text[64], unsigned by)
{
    int left = __builtin_popcount(by), n = 0;
    text[0] = '\0';
    for (int i = 0; i < LAUNCHER_NONE; i++) {
        if (!(by & BY(i)))
            continue;
        n += snprintf(text + n, 64 - (size_t)n, "%s%s", launcher_names[i],
                      --left == 0 ? ""
                      : left == 1 ? " and "
                                  : ", ");
    }
}

static int check_meaning(const launch_options *o, unsigned given, kv_err *e)
{
    char text[64];
    for (int i = 0; i < NSPECS; i++) {
        if (!(given & (1u << i)) || (specs[i].by & BY(o->by)))
            continue;
        list_launchers(text, specs[i].by);
        return kv_err_set(e, KV_E_USAGE, "launch: %s is for the launcher%s %s, and this is %s",
                          specs[i].name, strchr(text, ' ') ? "s" : "", text, launcher_names[o->by]);
    }
    for (int64_t i = 0; i < o->nvariables && o->servers == 0; i++)
        if (o->variables[i].role == 's')
            return kv_err_set(e, KV_E_USAGE, "launch: --env-server needs servers: -s SERVERS");
    if (o->by == LAUNCH_SSH && !o->hostfile)
        return kv_err_set(e, KV_E_USAGE, "launch: --launcher ssh needs the hosts: -H HOSTFILE");
    return KV_OK;
}

/* $KVSTORE_DEADLINE, as ranks without a launch read it, unless an option says it; 0 is none. */
static int read_deadline(launch_options *o, unsigned given, kv_err *e)
{
    enum { YEAR = 31536000 };
    const char *text = getenv("KVSTORE_DEADLINE");
    for (int i = 0; i < NSPECS; i++)
        if (specs[i].id == OPT_DEADLINE && given & (1u << i))
            return KV_OK;
    if (!text || !*text)
        return KV_OK;
    if (strcmp(text, "0") == 0) {
        o->deadline = YEAR;
        return KV_OK;
    }
    return take_seconds("KVSTORE_DEADLINE", text, &o->deadline, e);
}

int launch_options_parse(launch_options *o, int argc, char **argv, kv_err *e)
{
    int i = 0, n;
    unsigned given = 0;
    *o = (launch_options){.deadline = 10, .by = LAUNCHER_NONE};
    while (i < argc && (n = take_option(o, argv + i, argc - i, &given, e)) > 0 && !e->code)
        i += n;
    if (!e->code)
        read_deadline(o, given, e);
    o->words = argv + i;
    o->nwords = argc - i;
    if (o->by == LAUNCHER_NONE)
        o->by = o->hostfile ? LAUNCH_SSH : LAUNCH_LOCAL;
    return e->code || o->help ? e->code : check_meaning(o, given, e);
}

void launch_options_release(launch_options *o)
{
    for (int64_t i = 0; i < o->nvariables; i++)
        mem_free(o->variables[i].text);
    mem_free(o->variables);
}
