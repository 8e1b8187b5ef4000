/* A session: everything that the statements of one kvctl invocation share. */
#pragma once

#include <stdio.h>

#include "base/buf.h"
#include "base/map.h"
#include "io/print.h"
#include "kvstore.h"
#include "lang/ast.h"
#include "session/value.h"

/* The forms in which arrays are shown and written to stdout. */
typedef enum show_format {
    SHOW_NUMPY,
    SHOW_REPR,
    SHOW_LEGACY,
    SHOW_MXNET,
    SHOW_CSV,
    SHOW_RAW,
    SHOW_JSON
} show_format;

/* The ways in which statements end. */
typedef enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE, FLOW_RETURN } flow;

/* The end of a block: the way in which its last statement ended, and the value of a FLOW_RETURN. */
typedef struct run_flow {
    flow how;
    value returned;
} run_flow;

/* Output passes a stack of sinks, from the newest to the oldest, and what is left of it goes to
 * stdout. */
typedef enum sink_kind {
    SINK_HEARS,   /* gets a copy: for an `expect`, for a transcript */
    SINK_RECORDS, /* takes it, and lets the sinks below hear it: the record of a command */
    SINK_TAKES    /* takes it, and nothing below hears of it: a redirect */
} sink_kind;

typedef struct sink {
    sink_kind kind;
    bool sees_shell;    /* SINK_HEARS: shell commands must not print past it to a terminal */
    buf text;           /* the text received; the owner of the sink releases it */
    struct sink *below;
} sink;

/* Output of the last statement, where an `expect` may follow it. */
typedef struct heard_output {
    buf text;
    bool present;
    bool missed; /* a shell command printed past it */
} heard_output;

/* Variables by name. */
typedef struct variable {
    const char *name; /* owned */
    value v;
    uint32_t follow; /* its number when rules follow it, see below; 0: none ever did */
} variable;

typedef struct scope {
    map names;
    variable *items;
    int64_t n, cap;
    struct scope *outer; /* of a comprehension: the scope around it; else NULL */
    const map *assigned; /* of a function: the names that it sets, which mean no globals; or NULL */
    bool quiet;          /* its expressions are not shown */
} scope;

/* The names that the rule of a store reads, see below. All zero: none. */
typedef struct followed_names {
    struct followed *items;
    int64_t n, cap;
    char *rule; /* its name, or NULL */
} followed_names;

/* A store by name. */
typedef struct store_entry {
    char *name;
    kv *store;
    uint64_t serial; /* which store of the session this is, counted from 1 */
    bool on_demand;  /* made because a command needed one, not by `create` */
    followed_names follows;
    bool replaced;   /* the rule was, in the transaction that is open; its names are in `before` */
    followed_names before;
} store_entry;

/* The records of --json so far; see out/record.h. */
typedef struct recorder {
    bool on;
    bool failed;  /* the error that is on its way up has its record */
    int64_t seq;  /* records so far */
    const struct unit *unit; /* the line of a place in it, from where the next is counted */
    uint32_t pos;
    int line;
} recorder;

/* The receivers of output, and the form of values in it. */
typedef struct output {
    sink *sinks;            /* the newest first */
    bool closed;            /* the reader of stdout went away: later output is dropped */
    recorder recorder;
    struct transcript *transcript; /* (optional) --record */
    heard_output previous;
    bool remembers;         /* keep the output of a text's last statement: another may follow */
    show_format format;
    print_style style;
    bool quiet, verbose;
} output;

struct session;
struct ast;
struct plot;

/* Functions that a guest replaces in the session of a script: see attach/attach.h. arg is
 * the guest's. */
typedef struct guest_ops {
    void *arg;
    /* Returns an error, at the node, for what would change something or read a file; of calls,
     * those of FUNCTION_CHANGES are asked for. */
    int (*check)(const struct session *s, const struct ast *node, kv_err *e);
    /* Takes words out of an error that are not true for the user, before it is reported. */
    void (*amend)(void *arg, kv_err *e);
    /* A note or a warning for the user. */
    void (*note)(void *arg, const char *text);
    /* Draws a picture where the user is. */
    int (*draw)(void *arg, const struct plot *p, kv_err *e);
    /* `profile FILE`; path NULL: off. */
    int (*profile)(void *arg, const char *path, kv_err *e);
} guest_ops;

typedef struct session {
    /* the world: variables, functions, stores */
    scope globals;
    scope *locals;          /* of the comprehension or function that runs, or NULL */
    value last;             /* the last value shown: _ */
    value args;             /* the words behind the script's name: a list of texts */
    map defined;            /* functions and updaters: name to index in defs */
    map prelude;            /* the same of the language's own, which a def of the script hides */
    struct definition *defs;
    int64_t ndefs, defs_cap;
    store_entry *stores;
    int64_t nstores, stores_cap;
    uint64_t stores_made;   /* so far */
    int64_t current;        /* index of the store in use, -1 before the first */
    uint32_t follow_numbers; /* of variables that rules follow, so far */
    bool awaits;            /* some rule reads a name that is no variable yet */
    bool create_failed;     /* commands that follow were meant for a store that was not made */
    uint64_t draws;         /* calls of random functions without seed= so far */
    scope told;             /* the texts of warnings that come once, as names */
    bool gpus_announced;    /* virtual GPUs are in use */
    bool profiles;          /* `profile FILE` runs */
    struct visit *visit;    /* (optional) another thread may look at this session: visit.h */
    const struct guest_ops *guest; /* (optional) this session looks at that of a script, whose
                                      stores it borrows, and changes nothing */

    output out;
    /* (optional) the file of -s: save writes the store kv to it while the session goes on (errors:
     * those of state_save, value, busy), go_back makes the store kv what the file holds (errors:
     * those of kv_load), changed asks whether it differs. path NULL: there is none */
    struct {
        const char *path;
        bool (*changed)(const void *arg, const struct session *s);
        bool same;      /* before the last statement the store was what the file holds */
        uint64_t first; /* which store it was behind the first statement that changed it */
        int (*save)(void *arg, struct session *s, kv_err *e);
        int (*go_back)(void *arg, struct session *s, kv_err *e);
        void *arg;
    } state;

    /* the run: texts, errors, recursion, the end */
    struct unit *unit;      /* the text whose statements run */
    const struct ast *at;   /* the statement or command of it that runs; NULL: none */
    struct unit *asked_in;  /* the text of asked; NULL: there was none, or the text is gone */
    const struct ast *asked; /* the last command on values that ran: some go on in the background */
    struct unit *units;     /* every text read so far: functions and rules refer to them */
    int depth;              /* of calls of functions */
    int source_depth;       /* of files that source files, while they are read */
    int sourced_depth;      /* of files with computed names that run inside each other */
    run_flow *flow;         /* of the block that runs the command: for those with COMMAND_RUNS */
    struct check_errors *check; /* (optional) collects errors: --check */
    buf detail;             /* lines that the report of the last error adds, such as a diff */
    buf *explanation;       /* in `explain COMMAND`: where that is said; nothing is changed */
    int (*interrupted)(void); /* (optional) SIGINT, SIGTERM, SIGALRM (time is up), or 0 */
    int failure;            /* the exit code of the first error that was reported, or 0 */
    bool leaving;           /* quit was run */
    bool discards;          /* with --discard: the file of -s stays as it was */
    int exit_code;

    /* settings, and choices of the command line */
    const char *default_type;
    int64_t store_wait_ms;  /* how long to wait for the lock of a state file */
    uint64_t seed;          /* of the random functions */
    int virtual_gpus;       /* gpu(i) that a machine without GPUs gets */
    bool gpus_wanted;       /* --gpus has asked for them: where there are GPUs, too */
    bool dry_run;           /* nothing is written, no shell runs: notes say what would happen */
    bool keep_going;        /* after an error in a script: report it and run the next statement */
    bool prompted;          /* entries are typed: Ctrl-C ends the wait for an array */
    bool pasted;            /* a text of several entries: what cannot be read fails in its turn */
    void (*begins)(const struct unit *u, uint32_t i); /* (optional) before statement i of a text */
    bool explains;          /* say on stderr what the store does: explain on */
    bool trace;             /* print each command to stderr before it runs */
    bool writes_unsynced;   /* files of `write` and > do not wait for the disk: write.sync */
    bool safe;              /* no shell, and no writes except to the state file */
    double timeout;         /* seconds after which the invocation gives up; 0: never */
    const char *history;    /* what --history said, or NULL */
    void (*list_options)(buf *out); /* (optional) for `help options` */
} session;

/* An empty session with the defaults of the command line. */
void session_init(session *s);
void session_release(session *s);

/* The variable in the innermost scope that has it, or NULL. `args` is always there. */
value *session_find(session *s, const char *name);
/* The same with all that belongs to it; `args` is none. globals: in no other scope. */
variable *session_variable(session *s, const char *name, bool globals);
/* Sets a variable of the running function, else a global. Takes v, also on failure. Errors: name,
 * memory, those of follow_assign. */
int session_set(session *s, const char *name, value v, kv_err *e);
/* Returns true if a function runs that sets the name, but has not set it yet. */
bool session_awaits_name(const session *s, const char *name);
/* Returns true if expressions that stand alone are not shown. */
bool session_is_quiet(const session *s);
/* Sets one of this scope: that of a comprehension. Takes v, also on failure. */
int scope_set(scope *s, const char *name, value v, kv_err *e);
variable *scope_variable(const scope *s, const char *name); /* of this scope only, or NULL */
/* Removes the variables behind the first n. */
void scope_cut(scope *s, int64_t n);
void scope_release(scope *s);
#define own_scope OWN(scope_release) scope

/* The store in use; makes one of the default type, called kv, when there is none. Error: value (the
 * last `create` failed), those of kv_create. */
int session_store(session *s, kv **store, kv_err *e);
/* One that a block makes for itself. */
static inline void store_release(kv **store)
{
    kv_free(*store);
}
#define own_store OWN(store_release) kv
/* Makes a store under a name; one that has the name already is replaced. It becomes the one in
 * use. Errors: those of kv_create, value (a transaction is open in the one to be replaced). */
int session_create(session *s, const char *type, const kv_opt *opts, int nopts, const char *name,
                   kv_err *e);
/* The same with a store that is there already; takes it, also on failure. */
int session_adopt(session *s, kv *store, const char *name, kv_err *e);
/* The index of a store by its name, or -1. */
int64_t session_find_store(const session *s, const char *name);
/* Makes the store of that index the one in use. */
void session_use(session *s, int64_t at);
/* Returns true if the name is a store's; kv is one before the first is made. Such a name is no
 * variable: session_set refuses it (name). */
bool session_names_store(const session *s, const char *name);

/* Makes gpu(i) available before it is used: virtual GPUs come on demand, announced once. */
int session_ctx(session *s, kv_ctx ctx, kv_err *e);

/* KV_E_INTERRUPTED when Ctrl-C was pressed, KV_E_TIMEOUT when the time of --timeout is up, else
 * KV_OK. Asked between the store's calls. */
int session_interrupted(session *s, kv_err *e);

/* Returns true if the path leads to the file of -s, which only the session itself writes. */
bool session_is_state(const session *s, const char *path);

/* An interrupt that something else noticed gets its reason: KV_E_TIMEOUT when that was it. Returns
 * e's code. */
int session_reason(session *s, kv_err *e);

/* Before each statement of a text: notes how much the store of -s has changed, for undo. */
void session_mark_undo(session *s);
/* The change is the only one since the opening of -s. */
bool session_can_undo(session *s);

/* A sink is pushed and popped by the same function, so that they always nest. */
void sink_push(session *s, sink *k);
void sink_pop(session *s, sink *k);
/* Return true if a sink hears output, and if one takes it. */
bool sink_hears(const session *s);
bool sink_takes(const session *s);

/* Writes results to the sinks and to stdout. */
int session_out(session *s, const char *text, size_t n, kv_err *e);
/* The same, but sinks that hear get another text than the one that is shown; NULL: nothing. */
int session_out_twice(session *s, const buf *shown, const buf *heard, kv_err *e);
/* A finished record goes around the commands that run now. */
int session_out_record(session *s, const buf *line, kv_err *e);
/* Writes out what stdout still holds. A reader that went away is no error: later output is dropped.
 * Error: io. */
int session_flush(session *s, kv_err *e);
/* With -v a line on stderr for a change: `init 3: float32 (2, 3) cpu(0)`. */
void session_change(session *s, const char *text);
/* In a dry run: says on stderr what would happen, and gives true. */
bool session_would(session *s, const char *what, const char *name);
/* A warning on stderr, also with -q: one line that begins with the place of node in the text that
 * runs, `s.kv:4: warning: `. */
void session_warn(session *s, const struct ast *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a text that the session has not warned of yet. */
void session_warn_once(session *s, const struct ast *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A note on stderr, unless -q: one line, "note: " before it. */
void session_note(session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* What the script has defined by this name last, or NULL. */
const struct definition *session_defined(const session *s, const char *name);
/* The number of the def that a name means where the session runs, -1: none. Functions of the
 * prelude see none of the script's, whatever it calls its own. */
int64_t session_def(const session *s, const char *name);

/* ---- The tables of the language ---- */

/* Tables and functions of rooms above that rooms below reach only through here, so that neither
 * names the other in a circle. language_init fills it, once, before anything is read. */

struct command;
struct function;

extern struct registry {
    const struct command *commands;   /* as help lists them; an entry without a name ends them */
    const struct function *functions; /* sorted by name; an entry without a name ends them */
    int first[129]; /* of them by their first letter: those of c are first[c] up to first[c + 1] */
    /* Reading defines functions of the prelude (define). Evaluation runs the bodies of functions
     * (run_block) and methods of stores (run_method_call), and loads files (load_eval). */
    int (*run_block)(session *s, const ast *block, run_flow *f, kv_err *e);
    int (*define)(session *s, const ast *def, kv_err *e);
    int (*run_method_call)(session *s, const ast *node, value *out, kv_err *e);
    int (*load)(session *s, const ast *node, value *out, kv_err *e);
} registry;

/* ---- Variables that rules of stores follow ---- */

/* A rule that reads variables has them as parameters, which an assignment to
 * the variable changes, as set-optimizer --update does.
 *
 * A variable that is followed carries a number, so that assigning another one costs nothing. A
 * name that every rule has, such as lr, may be read by a def before the script has a variable of
 * that name: the name is awaited, and followed from its first assignment on.
 */

/* One name that the rule of a store reads. */
typedef struct followed {
    char *name;
    uint32_t number; /* of the variable; 0: it is awaited */
} followed;

/* A scalar as the value of a parameter. quoted: a text stands in "", so that "5" is not one of the
 * numbers. */
int follow_text(value *out, value v, bool quoted, kv_err *e);

/* Adds a name to those that the next rule reads. here: the variable, or NULL for one to await. */
int follow_add(session *s, followed_names *f, const char *name, variable *here, kv_err *e);

/* The rule of the store in use reads these names from now on. Takes them; rule is its name. */
void follow_use(session *s, followed_names *f, const char *rule);
void follow_release(followed_names *f);

/* Behind rollback: the rule of the store in use is that of the begin, with the values that
 * variables have now. Behind commit it stays. */
int follow_rollback(session *s, kv_err *e);
void follow_commit(session *s);
