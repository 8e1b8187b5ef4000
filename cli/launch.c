/* kvctl launch: its words, and what is refused before anything starts. */
#include "launch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "kvstore.h"
#include "options.h"
#include "script/report.h"
#include "tools/launch_job.h"

/* ---- Options ---- */

enum { MOST_RANKS = 4096 };

static int take_count(const char *name, const char *text, int least, int most, int *x, kv_err *e)
{
    bool over = false;
    int64_t n;
    size_t len = strlen(text);
    if (len == 0 || num_parse_int(text, len, &n, &over) != len || over || n < least || n > most)
        return kv_err_set(e, KV_E_USAGE,
                          "launch: %s needs a whole number from %d to %d, not \"%s\"", name,
                          least, most, text);
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

static int take_launcher(const char *text, kv_err *e)
{
    if (strcmp(text, "local") == 0)
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED,
               "launch: this version starts ranks on this machine only, not by \"%s\"", text);
    return kv_err_hint(e, "with an Open MPI that knows the hosts: mpirun -n WORKERS kvctl FILE");
}

static int take(launch_options *o, const char *name, const char *text, kv_err *e)
{
    if (strcmp(name, "-n") == 0 || strcmp(name, "--num-workers") == 0)
        return take_count(name, text, 1, MOST_RANKS, &o->workers, e);
    if (strcmp(name, "-s") == 0 || strcmp(name, "--num-servers") == 0)
        return take_count(name, text, 0, MOST_RANKS, &o->servers, e);
    if (strcmp(name, "--deadline") == 0)
        return take_seconds(name, text, &o->deadline, e);
    if (strcmp(name, "--timeout") == 0)
        return take_seconds(name, text, &o->timeout, e);
    if (strcmp(name, "--max-restarts") == 0)
        return take_count(name, text, 0, INT_MAX, &o->restarts, e);
    if (strcmp(name, "--checkpoint-every") == 0)
        return take_count(name, text, 1, INT_MAX, &o->every, e);
    if (strcmp(name, "--checkpoint") == 0) {
        o->checkpoint = text;
        return *text ? KV_OK : kv_err_set(e, KV_E_USAGE, "launch: --checkpoint needs a file");
    }
    return take_launcher(text, e);
}

/* Known by others, or planned: refused by name. */
static bool is_later(const char *name)
{
    static const char *const later[] = {"-H",
                                        "--host",
                                        "--hostfile",
                                        "--host-file",
                                        "--sync-dst-dir",
                                        "--env",
                                        "--env-server",
                                        "--env-worker",
                                        "--cluster",
                                        "--queue"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strcmp(name, later[i]) == 0)
            return true;
    return false;
}

static bool takes_value(const char *name)
{
    static const char *const own[] = {"-n", "--num-workers", "-s", "--num-servers", "--deadline",
                                      "--timeout", "--launcher", "--max-restarts", "--checkpoint",
                                      "--checkpoint-every"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0)
            return true;
    return false;
}

/* Reads one option, --name VALUE, --name=VALUE or -nVALUE. Returns how many words it has; 0: the
 * words of the workers begin here. */
static int take_option(launch_options *o, char **argv, int argc, kv_err *e)
{
    char name[32];
    const char *word = argv[0], *given = NULL;
    size_t n = strncmp(word, "--", 2) == 0 ? strcspn(word, "=") : 2;
    snprintf(name, sizeof name, "%.*s", (int)n, word);
    if (word[0] == '-' && strlen(word) > n)
        given = word + n + (word[n] == '=');
    if (strcmp(name, "--dry-run") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        *(name[2] == 'd' ? &o->dry_run : &o->help) = true;
        return 1;
    }
    if (is_later(name)) {
        kv_err_set(e, KV_E_UNSUPPORTED, "launch: %s is not in this version of kvctl", name);
        return 0;
    }
    if (word[0] != '-' || !takes_value(name))
        return 0;
    if (!given && argc < 2) {
        kv_err_set(e, KV_E_USAGE, "launch: %s needs a value", name);
        return 0;
    }
    take(o, name, given ? given : argv[1], e);
    return given ? 1 : 2;
}

static int parse(launch_options *o, int argc, char **argv, kv_err *e)
{
    int i = 0, n;
    *o = (launch_options){.deadline = 10};
    while (i < argc && (n = take_option(o, argv + i, argc - i, e)) > 0 && !e->code)
        i += n;
    o->words = argv + i;
    o->nwords = argc - i;
    return e->code;
}

/* ---- Checks ---- */

/* What every worker would refuse. */
static int check_words(const launch_options *o, kv_err *e)
{
    options each;
    if (o->nwords == 0)
        return kv_err_set(e, KV_E_USAGE, "launch: which script? kvctl launch -n WORKERS FILE");
    int rc = options_parse(&each, o->nwords + 1, o->words - 1, e);
    if (!rc && (each.interactive || (each.ninputs == 0 && !each.help && !each.version)))
        rc = kv_err_set(e, KV_E_USAGE, "launch: the ranks of a job have no prompt");
    for (int i = 0; !rc && i < each.ninputs; i++) {
        const input *in = &each.inputs[i];
        if (in->kind == INPUT_STDIN)
            rc = kv_err_set(e, KV_E_USAGE, "launch: a script on stdin reaches rank 0 only");
        else if (in->kind == INPUT_FILE && access(in->text, R_OK))
            rc = kv_err_set(e, KV_E_IO, "launch: cannot read \"%s\"", in->text);
    }
    options_release(&each);
    return rc;
}

static bool on_path(const char *program)
{
    char path[4200];
    const char *at = getenv("PATH");
    for (size_t n; at && *at; at += n + (at[n] == ':')) {
        n = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)n, at, program);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

/* The options of checkpoints belong together; what every attempt to write would find wrong. */
static int check_checkpoint(const launch_options *o, kv_err *e)
{
    const char *slash = o->checkpoint ? strrchr(o->checkpoint, '/') : NULL;
    char folder[4200] = ".";
    if (!o->checkpoint && (o->every || o->restarts))
        return kv_err_set(e, KV_E_USAGE, "launch: %s needs --checkpoint FILE",
                          o->every ? "--checkpoint-every" : "--max-restarts");
    if (!o->checkpoint)
        return KV_OK;
    if (!o->every)
        return kv_err_set(e, KV_E_USAGE, "launch: --checkpoint needs --checkpoint-every ROUNDS");
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - o->checkpoint) + 1, o->checkpoint);
    return access(folder, W_OK) ? kv_err_set(e, KV_E_IO, "launch: cannot write into \"%s\"", folder)
                                : KV_OK;
}

static int check(const launch_options *o, kv_err *e)
{
    const kv_type_ops *ops;
    if (o->workers == 0)
        return kv_err_set(e, KV_E_USAGE, "launch: how many workers? kvctl launch -n WORKERS FILE");
    if (check_words(o, e) || check_checkpoint(o, e) || kv_find_type("dist_sync", &ops, e))
        return e->code;
    if (!on_path("mpirun")) {
        kv_err_set(e, KV_E_UNSUPPORTED, "launch: there is no mpirun in $PATH");
        return kv_err_hint(e, "it belongs to Open MPI: apt-get install openmpi-bin");
    }
    return KV_OK;
}

static int fail(const kv_err *e)
{
    fprintf(stderr, "kvctl: %s\n", e->text);
    if (e->hint[0])
        fprintf(stderr, " hint: %s\n", e->hint);
    return (int)report_exit_code(e->code);
}

static int show_help(void)
{
    buf text = {0};
    launch_help(&text);
    fputs(buf_text(&text), stdout);
    buf_release(&text);
    return fflush(stdout) ? EXIT_IO : EXIT_DONE;
}

int launch_main(int argc, char **argv)
{
    launch_options o;
    kv_err e = {0};
    int code = EXIT_DONE;
    if (parse(&o, argc, argv, &e) == KV_OK && o.help)
        return show_help();
    if (e.code || check(&o, &e) || launch_job(&o, &code, &e))
        return fail(&e);
    return code;
}

int launch_serve(int argc, char **argv)
{
    kv_err e = {0};
    if (argc > 0)
        kv_err_set(&e, KV_E_USAGE, "serve takes no words, and here is \"%s\"", argv[0]);
    return e.code || kv_serve("dist_sync", &e) ? fail(&e) : EXIT_DONE;
}
