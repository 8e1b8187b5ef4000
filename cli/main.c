/* kvctl: a shell, an interpreter of scripts and a filter over libkvstore.
 *
 * main reads the command line, parses every text that it names, runs them in order in one session,
 * and goes on at the prompt when it is asked to. Everything else is in the rooms of the language
 * (cli/syntax, cli/eval, cli/functions, cli/run, cli/cmd), in cli/term (the terminal) and in the
 * library.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "attach/attach.h"
#include "base/mem.h"
#include "base/stop.h"
#include "base/suggest.h"
#include "checkpoint/file_window.h"
#include "cmd/commands.h"
#include "complete/complete.h"
#include "configure.h"
#include "eval/eval.h"
#include "kvstore.h"
#include "language.h"
#include "launch/launch_job.h"
#include "options/options.h"
#include "out/record.h"
#include "out/transcript.h"
#include "pages.h"
#include "run/run.h"
#include "session/session.h"
#include "session/unit.h"
#include "session/visit.h"
#include "state.h"
#include "syntax/check.h"
#include "syntax/effect.h"
#include "syntax/hints.h"
#include "term/signals.h"
#include "term/terminal.h"

/* ---- Scripts ---- */

/* Locks and loads the state file. Everything that will run has been read, so that it is known
 * whether it only reads, and nobody waits for a script that is still being typed. */
static int open_state(session *s, const options *o, state *st, unit *const *units, int n,
                      bool prompt, kv_err *e)
{
    *st = (state){.path = o->store,
                  .lock = -1,
                  .reads = o->dry_run || !prompt,
                  .prompt = prompt,
                  .force = o->force,
                  .read_only = o->read_only};
    for (int i = 0; i < n && st->reads && !o->dry_run; i++)
        st->reads = !units[i] || !effect_changes_store(units[i]->body);
    return state_open(st, s, e);
}

/* Parses all inputs, then runs them in order. Errors are reported. */
static void run_inputs(session *s, const options *o, state *st, const input *inputs, int n,
                       bool prompt)
{
    kv_err e = {0};
    effect_keys script = {.any = o->force || o->dry_run || o->read_only};
    own_mem unit **units = mem_zalloc(n, sizeof *units, &e);
    for (int i = 0; i < n && e.code == KV_OK; i++) {
        if (configure_read(s, &inputs[i], &units[i], &e) && s->keep_going) {
            report_error(s, &e);
            units[i] = NULL;
            e = (kv_err){0};
        }
    }
    if (e.code == KV_OK)
        open_state(s, o, st, units, n, prompt, &e);
    /* scripts that would surely lose keys of the state file are refused */
    bool foresees = !prompt && !s->keep_going;
    for (int i = 0; i < n && e.code == KV_OK && foresees && st->loaded; i++)
        effect_add(&script, units[i], &e);
    if (e.code == KV_OK && foresees)
        state_guard_foresee(&st->guard, &script, o->store, &e);
    map_release(&script.keys);
    for (int i = 0; i < n && e.code == KV_OK && !s->leaving; i++)
        if (units[i])
            unit_run(s, units[i], &e);
    for (int64_t i = 0; i < s->nstores && e.code == KV_OK; i++)
        kv_wait(s->stores[i].store, &e); /* scheduled operations may fail */
    if (session_reason(s, &e))
        report_error(s, &e);
}

/* Reads all inputs and reports every error in them. Nothing runs. */
static void check_inputs(session *s, const input *inputs, int n)
{
    check_errors found = {0};
    /* cppcheck-suppress autoVariables ; it is forgotten below */
    s->check = &found;
    for (int i = 0; i < n; i++) {
        kv_err e = {0};
        unit *u;
        if (configure_read(s, &inputs[i], &u, &e) && !check_take(s, &e))
            report_error(s, &e);
    }
    kv_err e = {0};
    if (check_unset(s, &e))
        report_error(s, &e);
    check_report(s);
    s->check = NULL;
}

/* ---- Leaving ---- */

/* Returns true if this process was started as a rank of a job. A process that a rank started has
 * its environment, and is not one, unless it is a rank of another job. */
static bool is_rank(void)
{
    if (!getenv("KVSTORE_RUN_DIR") && !getenv("OMPI_COMM_WORLD_SIZE"))
        return false;
    const char *said = getenv("KVSTORE_RANK_PID"), *job = getenv("PMIX_NAMESPACE");
    const char *of = said ? strchr(said, ' ') : NULL;
    return !of || atoi(said) == getpid() || strcmp(of + 1, job ? job : "") != 0;
}

/* Returns true if the last value shown is true, or has at least one element and all of them are
 * true. */
static bool last_says_yes(const session *s)
{
    bool truth = false;
    if (s->last.kind == VALUE_NONE ||
        (s->last.kind == VALUE_ARRAY && kv_array_size(s->last.u.box->array) == 0))
        return false;
    return eval_truth_of_all(s->last, &truth, &(kv_err){0}) == KV_OK && truth;
}

static int exit_code_of(session *s, const options *o)
{
    static int (*const ends[])(session *, kv_err *) = {transcript_close, cmd_profile_end,
                                                       session_flush};
    /* requests to other machines: their errors belong to the script */
    for (int64_t i = 0; i < s->nstores && !s->failure; i++) {
        kv_err e = {0};
        if (kv_num_workers(s->stores[i].store) > 1 && kv_wait(s->stores[i].store, &e))
            report_error(s, &e);
    }
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        kv_err e = {0};
        if (ends[i](s, &e))
            report_error(s, &e);
    }
    if (s->leaving && s->exit_code)
        return s->exit_code;
    if (s->failure)
        return s->failure;
    return o->check_last && !o->check && !last_says_yes(s) ? EXIT_NO : EXIT_DONE;
}

/* Notes that the command of the command line, such as `kvctl push w 3`, changed a store which ends
 * with the process. Those that also give a value are of use without a file. */
static void note_lost(session *s, const options *o)
{
    const command *c = o->command.c;
    if (c && (c->flags & COMMAND_CHANGES) && !(c->flags & (COMMAND_GIVES | COMMAND_SOURCES)) &&
        s->nstores > 0 && !o->store && !o->interactive && !o->dry_run && !is_rank())
        session_note(s, "this store ends here; kvctl -s FILE %s … keeps it in a file", c->name);
}

/* Returns true if quit said that nothing is to be saved. */
static bool discards(const session *s)
{
    return s->leaving && (s->discards || s->exit_code);
}

/* Saves what the session did, or says what it would save, unless it failed. prompted: somebody saw
 * the errors and went on, at a terminal or not. Returns the exit code. */
static int leave(session *s, const options *o, state *st, bool prompted, bool terminal, int pending)
{
    kv_err e = {0};
    int rc = exit_code_of(s, o);
    if (pending)
        return pending == SIGALRM ? EXIT_PEER : 128 + pending;
    if (s->failure && !s->keep_going && !prompted)
        return rc;
    if (discards(s)) {
        state_discard(st, s, terminal);
        return rc;
    }
    if (o->dry_run ? state_preview(st, s, &e) : state_leave(st, s, terminal, &e)) {
        report_error(s, &e);
        rc = rc ? rc : s->failure;
    }
    int rank, workers;
    if (!rc)
        note_lost(s, o);
    /* without a store of several machines each rank does all the work */
    if (!rc && !prompted && !kv_job(&rank, &workers) && rank == 0 && workers > 1 && is_rank())
        session_note(s, "%d ranks ran alone: create dist_sync joins them", workers);
    return rc;
}

/* Returns true if the prompt must go on once more, because the store cannot be saved. */
static bool stays(session *s, const state *st)
{
    kv_err e = {0};
    if (discards(s) || !state_check(st, s, &e))
        return false;
    report_error(s, &e);
    fputs("note: leave once more to drop what was done here\n", stderr);
    s->leaving = false;
    return true;
}

/* Each page in a session of its own. */
static int verify_pages(const options *o)
{
    int failure = 0;
    for (int i = 0; i < o->verify.n && !interrupt_pending(); i++) {
        session s;
        kv_err e = {0};
        session_init(&s);
        s.interrupted = interrupt_pending;
        if (configure(&s, o, false, &e) || verify_file(&s, o->verify.items[i], o->update, &e))
            report_error(&s, &e);
        int rc = exit_code_of(&s, o);
        failure = failure ? failure : rc;
        session_release(&s);
    }
    return failure;
}

/* In a worker of a job that has a prompt, entries from there take the place of - and -i. stops: the
 * first that fails ends the worker. */
static bool take_entries(options *o, entry_source *from, bool *stops, kv_err *e)
{
    const char *named = getenv("KVSTORE_ENTRIES");
    bool from_stdin = o->ninputs > 0 && o->inputs[o->ninputs - 1].kind == INPUT_STDIN;
    if (!named || !(from_stdin || o->interactive))
        return false;
    entry_source_open(from, named, e);
    setvbuf(stdout, NULL, _IOLBF, 0); /* somebody looks at it */
    unsetenv("KVSTORE_ENTRIES"); /* it is not for commands that the worker runs */
    *stops = !o->interactive && !o->keep_going;
    o->ninputs -= from_stdin;
    o->interactive = true;
    return true;
}

/* A spare of a job (kvctl launch --spares) runs its script when it is let in as a worker. Returns
 * false if that does not come to be. */
static bool await_turn(session *s, kv_err *e)
{
    bool works = true;
    if (!getenv("KVSTORE_SPARES") || !is_rank())
        return true;
    if (kv_await_turn("dist_sync", &works, e) && works)
        report_error(s, e);
    else if (e->code) /* the workers and launch say it */
        s->failure = (int)exit_code_of_error(e->code);
    return works && !e->code;
}

static int run(session *s, options *o)
{
    kv_err e = {0};
    input from_stdin = {.kind = INPUT_STDIN, .text = "-"};
    entry_source entries;
    bool stops = false, served = take_entries(o, &entries, &stops, &e);
    bool terminal = isatty(STDIN_FILENO);
    bool prompt = !o->check && (o->interactive || (o->ninputs == 0 && terminal));
    int ended = 0;
    state st = {.lock = -1};
    if (o->verify.n > 0)
        return verify_pages(o);
    if (e.code || configure(s, o, prompt && (terminal || o->rc), &e) ||
        (o->record && !session_would(s, "write", o->record) &&
         transcript_open(s, o->record, &e))) {
        report_error(s, &e);
        return exit_code_of(s, o);
    }
    s->out.remembers = o->ninputs > 1 || prompt;
    s->prompted = prompt;
    if (o->check) {
        check_inputs(s, o->ninputs > 0 ? o->inputs : &from_stdin, o->ninputs > 0 ? o->ninputs : 1);
        return exit_code_of(s, o);
    }
    if (!await_turn(s, &e))
        return exit_code_of(s, o);
    attach_server *visitors = attach_begin(s);
    if (!prompt) /* a prompt can always be typed at */
        kv_set_script(run_place, s, false);
    if (o->ninputs > 0)
        run_inputs(s, o, &st, o->inputs, o->ninputs, prompt);
    else if (!prompt)
        run_inputs(s, o, &st, &from_stdin, 1, false);
    bool go_on = prompt && !s->leaving && (s->failure == 0 || o->interactive);
    if (go_on && !st.tried && open_state(s, o, &st, NULL, 0, true, &e))
        report_error(s, &e);
    go_on = go_on && st.is_open;
    for (bool again = false; go_on; again = true) {
        s->failure = 0;
        ended = served ? prompt_serve(s, &entries, stops)
                       : prompt_run(s, again || s->out.quiet);
        if (terminal)
            s->failure = 0; /* errors at a prompt are part of the talk */
        if (again || ended || !terminal || !stays(s, &st))
            break;
    }
    int pending = ended ? ended : interrupt_pending();
    if (pending == SIGALRM && s->failure == 0 && session_interrupted(s, &e))
        report_error(s, &e);
    visit_park(s, true);
    if (s->visit)
        visit_begin(s, NULL);
    s->at = NULL;
    int rc = leave(s, o, &st, go_on, go_on && terminal && !served, pending);
    kv_set_script(NULL, NULL, false);
    attach_end(visitors);
    state_close(&st);
    return rc;
}

/* Shows what one of these options asks for. */
static int show_text(session *s, const options *o)
{
    kv_err e = {0};
    own_buf text = {0};
    if (o->help)
        options_help(&text);
    else if (o->version)
        version_text(&text);
    else
        buf_add(&text, o->completion);
    if (buf_check(&text, &e) || session_out(s, buf_text(&text), text.len, &e) ||
        session_flush(s, &e))
        report_error(s, &e);
    return s->failure;
}

/* Prints a warning or a note of the library, which may come on any thread. arg: the session, whose
 * -q silences notes; or NULL. */
static void warn(void *arg, const char *text)
{
    const session *s = arg;
    bool is_note = strncmp(text, KV_LOG_NOTE, strlen(KV_LOG_NOTE)) == 0;
    if (is_note && s && s->out.quiet)
        return;
    fflush(stdout);
    terminal_say(is_note ? "%s" : "warning: %s", text);
}

/* Options in front of a word for users, such as `launch`, move behind it. Returns how many words
 * they have. */
static int move_options(int argc, char **argv)
{
    int n = argc > 2 && argv[1][0] == '-' ? options_in_front(argc, argv) : 0;
    char *word = argv[n + 1];
    if (n == 0 || n + 1 >= argc || name_among(word, process_words, PROCESS_WORDS_OF_USERS) < 0)
        return 0;
    memmove(argv + 2, argv + 1, (size_t)n * sizeof *argv);
    argv[1] = word;
    return n;
}

/* Runs what one of process_words asks for. */
static bool run_subcommand(int argc, char **argv, int *code)
{
    int moved = move_options(argc, argv);
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } table[] = {{"attach", attach_main},
                 {"jobs", jobs_main},
                 {"launch-rank", launch_rank},
                 {"launch-ssh", launch_ssh},
                 {"launch-tell", launch_tell},
                 {"serve", launch_serve}};
    bool found = argc > 1 && strcmp(argv[1], "launch") == 0;
    bool grows = found && argc > moved + 2 && strcmp(argv[moved + 2], "--grow") == 0;
    if (grows) /* which takes no option */
        *code = moved ? grow_main(argc - 2, argv + 2) : grow_main(argc - 3, argv + 3);
    else if (found)
        *code = launch_main(argc - 2, argv + 2, moved, configure_foresee);
    for (size_t i = 0; argc > 1 && !found && i < sizeof table / sizeof *table; i++) {
        if ((found = strcmp(argv[1], table[i].name) == 0))
            *code = table[i].run(argc - 2, argv + 2);
    }
    if (found && *code)
        _exit(*code); /* a rank that failed leaves the job as it is */
    return found;
}

/* On a server: prints a command that send-command brought. */
static void print_command(void *arg, int head, const char *body)
{
    (void)arg;
    printf("command %d: %s\n", head, body);
    fflush(stdout);
}

/* On a server: prints a line of a rule. */
static void print_line(void *arg, const char *line)
{
    (void)arg;
    printf("%s\n", line);
    fflush(stdout);
}

/* Texts may be nested deeply. The stack of this thread grows up to the limit of now, and that of
 * others is made with it. */
static void raise_stack(void)
{
    struct rlimit limit;
    const rlim_t wanted = (rlim_t)8 << 20;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    (void)setrlimit(RLIMIT_STACK, &limit);
}

int main(int argc, char **argv)
{
    static session s; /* notes come until the process has ended, and ask whether they are wanted */
    options o;
    kv_err e = {0};
    int rc;
    bool rank = is_rank(); /* later MPI may still be starting, which sets variables */
    if (rank)              /* launch has marked it; mpirun by itself has not */
        launch_mark_rank();
    raise_stack();
    bug_ends_process();
    output_install();
    language_init();
    kv_set_log(warn, NULL);
    kv_set_controller(print_command, NULL);
    kv_set_server_print(print_line, NULL);
    if (run_subcommand(argc, argv, &rc))
        return rc;
    if (argc > 2 && strcmp(argv[1], "--completion") == 0 && strcmp(argv[2], "words") == 0)
        return complete_shell_words(argc - 3, argv + 3);
    interrupt_install();
    interrupt_on_fault(file_window_fault);
    file_window_handled();
    stop_ask(interrupt_pending);
    session_init(&s);
    kv_set_log(warn, &s);
    s.interrupted = interrupt_pending;
    options_parse(&o, argc, argv, &e);
    s.out.recorder.on = o.json;
    if (e.code) {
        s.out.quiet = o.quiet;
        report_error(&s, &e);
        rc = s.failure;
    } else if (o.help || o.version || o.completion) {
        rc = show_text(&s, &o);
    } else {
        rc = run(&s, &o);
    }
    if (rc != EXIT_DONE && rank) {
        fflush(NULL);
        _exit(rc); /* leaving a job in order waits for the other ranks, which wait for this one */
    }
    session_release(&s);
    options_release(&o);
    return rc;
}
