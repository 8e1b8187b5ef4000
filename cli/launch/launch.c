/* kvctl launch: its words, and what is refused before anything starts. */
#include "launch/launch_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "kvstore.h"
#include "launch/launch_command.h"
#include "launch/launch_folder.h"
#include "options/options.h"
#include "syntax/hints.h"
#include "term/signals.h"
#include "term/terminal.h"

#define MPI_PACKAGE "Open MPI: apt-get install openmpi-bin"

/* -i, or a script on stdin: launch reads it, since only one process can. */
static int check_entries(launch_options *o, const options *each, kv_err *e)
{
    for (int i = 0; i < each->ninputs; i++) {
        bool from_stdin = each->inputs[i].kind == INPUT_STDIN;
        if (from_stdin && i + 1 < each->ninputs)
            return kv_err_set(e, KV_E_USAGE, "launch: - stands behind the other scripts");
        o->prompt |= from_stdin;
    }
    o->prompt |= each->interactive;
    o->stops = !each->interactive && !each->keep_going;
    if (o->prompt && o->by != LAUNCH_LOCAL)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "launch: -i and - are for ranks of this machine, --launcher local");
    if (o->prompt && o->spares > 0)
        return kv_err_set(e, KV_E_USAGE,
                          "launch: --spares needs a FILE, which a new worker runs from its first "
                          "line");
    if (o->prompt && o->restarts > 0)
        return kv_err_set(e, KV_E_USAGE,
                          "launch: --max-restarts runs a FILE again, and cannot type again");
    return KV_OK;
}

/* Hints at the option that was meant: by words of other launchers and of those that say --server,
 * which is spelled more like --env-server than like --num-servers, else by the spelling. */
static int hint_option(const char *word, kv_err *e)
{
    static const char *const meant[][2] = {
        {"--server", "--num-servers"}, {"--worker", "--num-workers"}, {"--np", "--num-workers"},
        {"--nproc", "--num-workers"},  {"--ranks", "--num-workers"},  {"--host", "--hostfile"},
        {"--hosts", "--hostfile"}};
    size_t n = strcspn(word, "=");
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        if (strlen(meant[i][0]) == n && memcmp(word, meant[i][0], n) == 0)
            return kv_err_hint(e, "did you mean %s?", meant[i][1]);
    shell_option_suggest(&launch_table, word, e);
    return kv_err_hint(e, "options of launch stand before FILE; kvctl launch --help lists them");
}

static int check_readable(const char *file, kv_err *e)
{
    return access(file, R_OK) == 0 ? KV_OK : file_error(e, "read", file, errno);
}

/* Other launchers take a program and its words; here the program is known. */
static int check_program(const launch_options *o, kv_err *e)
{
    const char *slash = strrchr(o->words[0], '/'), *name = slash ? slash + 1 : o->words[0];
    bool python = strncmp(name, "python", 6) == 0 && !name[6 + strspn(name + 6, "0123456789.")];
    if (strcmp(name, "kvctl") != 0 && !python)
        return KV_OK;
    kv_err_set(e, KV_E_USAGE, "launch: `%s` is a program, and kvctl runs in every rank",
               o->words[0]);
    if (python && slash)
        kv_err_hint(e, "KVCTL_PYTHON=%s kvctl launch -n WORKERS --python FILE", o->words[0]);
    return kv_err_hint(e, python ? "kvctl launch -n WORKERS --python FILE runs one of Python"
                                 : "leave it out: kvctl launch -n WORKERS FILE");
}

/* Notes a script that pushes in a loop and never asks how far the job is: when it begins again, it
 * makes all rounds anew, on top of those that are done. A `source` may ask for it. */
static void note_rounds(launch_options *o, const input *inputs, int n, bool quiet)
{
    static const char *const words[] = {"rounds", "source", "push",   "pushpull",
                                        "for",    "while",  "repeat", NULL};
    unsigned seen = 0;
    for (const input *in = inputs; in < inputs + n; in++) {
        own_mem char *text = NULL;
        size_t size;
        struct stat about; /* a pipe can be read only once */
        if (in->kind == INPUT_FILE && stat(in->text, &about) == 0 && S_ISREG(about.st_mode))
            file_read_text(in->text, &text, &size, &(kv_err){0});
        if (text || in->kind == INPUT_TEXT)
            seen |= name_words_in(text ? text : in->text, words);
    }
    o->forgets = !(seen & 0x03) && (seen & 0x0c) && (seen & 0x70);
    if (o->forgets && !quiet && (o->restarts > 0 || o->spares > 0))
        terminal_say("kvctl: note: the script never asks for rounds(): when it begins again, its "
                     "loop does, too; `for i in range(%srounds(), N)` makes the rounds left",
                     o->python ? "kv." : "");
}

static int no_script(kv_err *e)
{
    kv_err_set(e, KV_E_USAGE, "launch: which script? kvctl launch -n WORKERS FILE");
    return kv_err_hint(e, "kvctl launch -n WORKERS -i is a prompt");
}

/* A file that a process keeps for itself: the workers of one machine would wait for each other. */
static int check_own_files(const launch_options *o, const options *each, kv_err *e)
{
    const bool keeps = each->store && !each->read_only && !each->dry_run;
    if (o->workers < 2 || o->by != LAUNCH_LOCAL || !(keeps || each->record))
        return KV_OK;
    kv_err_set(e, KV_E_USAGE, "launch: %s %s is a file of one process, and here are %d workers",
               keeps ? "the store" : "--record", keeps ? each->store : each->record, o->workers);
    return kv_err_hint(e, keeps ? "--checkpoint FILE keeps the store of a job"
                                : "a job of one worker can be recorded");
}

/* Refuses words and scripts that every worker would refuse, before any has started. *code: the exit
 * code for a mistake that was reported. */
static int check_words(launch_options *o, int *code, kv_err *e)
{
    if (o->nwords == 0)
        return no_script(e);
    if (o->python) {
        const char *file = o->words[0];
        if (*file == '-')
            return kv_err_set(e, KV_E_USAGE, "launch: --python needs a FILE, not \"%s\"", file);
        if (check_readable(file, e) == KV_OK)
            note_rounds(o, &(input){.kind = INPUT_FILE, .text = file}, 1, false);
        return e->code;
    }
    TRY(check_program(o, e));
    OWN(options_release) options each = {0};
    int rc = options_parse(&each, o->nwords + 1, o->words - 1, e);
    if (rc && strncmp(e->hint, "kvctl -h", 8) == 0) { /* which lists other options */
        e->hint[0] = '\0';
        hint_option(o->words[0], e);
    }
    TRY(rc);
    if (each.ninputs == 0 && !each.interactive && !each.help && !each.version)
        return no_script(e);
    TRY(check_own_files(o, &each, e));
    TRY(check_entries(o, &each, e));
    for (int i = 0; i < each.ninputs; i++) {
        const char *text = each.inputs[i].text;
        if (each.inputs[i].kind == INPUT_FILE && process_word_page(text, strlen(text))) {
            kv_err_set(e, KV_E_USAGE, "launch: \"%s\" is a word of kvctl", text);
            return kv_err_hint(e, "./%s is the file", text);
        }
        if (each.inputs[i].kind == INPUT_FILE)
            TRY(check_readable(text, e));
    }
    if (!each.interactive && !each.keep_going && !each.check && !each.help && !each.version)
        *code = o->foresee(&each);
    if (!*code)
        note_rounds(o, each.inputs, each.ninputs, each.quiet);
    return KV_OK;
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
        return kv_err_set(e, KV_E_USAGE,
                          "launch: --checkpoint needs --checkpoint-every: rounds, "
                          "50, or seconds, 30s");
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - o->checkpoint) + 1, o->checkpoint);
    if (o->by == LAUNCH_K8S) /* it lies in the pods */
        return KV_OK;
    return access(folder, W_OK) ? file_error(e, "write into", folder, errno) : KV_OK;
}

/* Checks that $PATH has the program. Error: unsupported, with the package that has it. */
static int find_program(const char *program, const char *package, kv_err *e)
{
    if (child_finds(program))
        return KV_OK;
    kv_err_set(e, KV_E_UNSUPPORTED, "launch: %s is not in $PATH", program);
    return kv_err_hint(e, "it belongs to %s", package);
}

static int check_programs(const launch_options *o, kv_err *e)
{
    static const struct {
        launcher by;
        const char *program, *package;
    } table[] = {{LAUNCH_LOCAL, "mpirun", MPI_PACKAGE},
                 {LAUNCH_MPI, "mpirun", MPI_PACKAGE},
                 {LAUNCH_SSH, "mpirun", MPI_PACKAGE},
                 {LAUNCH_SSH, "ssh", "OpenSSH: apt-get install openssh-client"},
                 {LAUNCH_SGE, "qsub", "Grid Engine: apt-get install gridengine-client"},
                 {LAUNCH_SLURM, "salloc", "Slurm: apt-get install slurm-client"},
                 {LAUNCH_YARN, "yarn", "Hadoop; put its bin folder into $PATH"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        TRY(table[i].by == o->by ? find_program(table[i].program, table[i].package, e) : KV_OK);
    return o->sync_folder ? find_program("rsync", "the package rsync: apt-get install rsync", e)
                          : KV_OK;
}

/* With ULFM, Open MPI lives on when a rank is lost. Ranks of one machine are started with it
 * whenever servers keep the values. Between machines it leaves out some networks, so there one asks
 * for it. */
static int check_losses(launch_options *o, const kv_type_ops *ops, kv_err *e)
{
    bool can = ops->capabilities & KV_CAN_LOSE_WORKERS;
    if (o->elastic && !can) {
        kv_err_set(e, KV_E_UNSUPPORTED,
                   "launch: --elastic needs an Open MPI with ULFM, and this one has none");
        return kv_err_hint(e, "Open MPI has it from 5.0 on; with --checkpoint and --max-restarts "
                              "a job begins again instead");
    }
    if (o->elastic)
        o->losses = LOSSES_GO_ON;
    else if (can && o->by == LAUNCH_LOCAL && o->servers > 0)
        o->losses = LOSSES_ASYNC;
    return KV_OK;
}

static int check(launch_options *o, int *code, kv_err *e)
{
    const kv_type_ops *ops;
    bool is_option = o->nwords > 0 && o->words[0][0] == '-';
    if (o->workers == 0 && is_option && check_words(o, code, e))
        return e->code; /* an option that is none hides -n behind it */
    if (o->workers == 0)
        return kv_err_set(e, KV_E_USAGE, "launch: how many workers? kvctl launch -n WORKERS FILE");
    if (check_words(o, code, e) || check_checkpoint(o, e))
        return e->code;
    o->workers += o->spares;
    if (o->by == LAUNCH_K8S) /* nothing runs here */
        return KV_OK;
    if (kv_find_type("dist_sync", &ops, e) || check_losses(o, ops, e))
        return e->code;
    return o->dry_run ? KV_OK : check_programs(o, e);
}

/* Puts the folder of this program in front of $PATH if it has an mpirun or a python3: those of a
 * virtual environment that is not active fit what is installed there. */
static void prefer_own(void)
{
    char folder[4096], program[4096 + 16];
    const char *before = getenv("PATH");
    own_buf path = {0};
    if (launch_self(folder, &(kv_err){0}))
        return;
    *strrchr(folder, '/') = '\0';
    snprintf(program, sizeof program, "%s/mpirun", folder);
    bool has_mpi = access(program, X_OK) == 0;
    snprintf(program, sizeof program, "%s/python3", folder);
    if (!has_mpi && access(program, X_OK))
        return;
    buf_printf(&path, "%s%s%s", folder, before ? ":" : "", before ? before : "");
    if (!path.failed)
        setenv("PATH", buf_text(&path), 1);
}

static int run(launch_options *o, int *code, kv_err *e)
{
    char number[16];
    prefer_own();
    if (check(o, code, e) || *code)
        return e->code;
    if (o->by < LAUNCH_SGE && !o->dry_run) { /* the command of mpirun lists this variable */
        snprintf(number, sizeof number, "%d", (int)getpid());
        o->name = o->name ? o->name : number;
        setenv("KVSTORE_JOB", o->name, 1);
    }
    if (o->prompt && !o->dry_run)
        return launch_prompt(o, code, e);
    if (o->by == LAUNCH_K8S)
        return launch_k8s(o, e);
    return o->by < LAUNCH_SGE ? launch_job(o, code, e) : launch_queue(o, code, e);
}

int launch_main(int argc, char **argv, int given, int (*foresee)(const options *worker))
{
    OWN(launch_options_release) launch_options o;
    kv_err e = {0};
    int code = EXIT_DONE, rc = launch_options_parse(&o, argc, argv, given, &e);
    o.foresee = foresee;
    if (rc == KV_OK && o.help)
        code = terminal_show(launch_help);
    else if (rc || run(&o, &code, &e))
        code = terminal_fail(&e);
    return code;
}

/* launch says it once, however many servers there are. */
static bool is_said_by_launch(const kv_err *e)
{
    const char *folder = getenv("KVSTORE_RUN_DIR");
    char why[512];
    int number;
    return e->code == KV_E_PEER && folder && folder_lost(folder, &number, why, sizeof why) &&
           strcmp(why, e->text) == 0;
}

int launch_serve(int argc, char **argv)
{
    kv_err e = {0};
    if (argc > 0)
        kv_err_set(&e, KV_E_USAGE, "serve takes no words, and here is \"%s\"", argv[0]);
    if (!e.code && kv_serve("dist_sync", &e) && is_said_by_launch(&e))
        return EXIT_PEER;
    return e.code ? terminal_fail(&e) : EXIT_DONE;
}
