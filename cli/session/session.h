/* A session: everything that the statements of one kvctl invocation share. */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include <stdio.h>

#include "base/buf.h"
#include "base/map.h"
#include "io/print.h"
#include "kvstore.h"
#include "lang/source.h"
#include "session/value.h"

/* How arrays are shown and written to stdout. */
typedef enum show_format {
    SHOW_NUMPY,
    SHOW_REPR,
    SHOW_LEGACY,
    SHOW_MXNET,
    SHOW_CSV,
    SHOW_RAW,
    SHOW_JSON
} show_format;

/* How statements ended: what goes on behind them. */
typedef enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE, FLOW_RETURN, FLOW_QUIT } flow;

/* For commands with COMMAND_RUNS: how the statements that they run end goes to whoever runs the
 * command. */
typedef struct run_flow {
    flow *how;
    value *returned;
} run_flow;

/* Variables by name. */
typedef struct variable {
    const char *name; /* owned */
    value v;
} variable;

typedef struct scope {
    map names;
    variable *items;
    int64_t n, cap;
} scope;

/* A store by name. */
typedef struct store_entry {
    char *name;
    kv *store;
    uint64_t serial; /* which store of the session this is, counted from 1 */
    bool on_demand;  /* made because a command needed one, not by `create` */
} store_entry;

/* What --json has written so far; see script/record.h. */
typedef struct recorder {
    bool on;
    bool failed;  /* the error that is on its way up has its record */
    int depth;    /* of commands that run inside each other */
    int64_t seq;  /* records so far */
    buf *base;    /* what `captured` was outside all commands: records go there */
    const struct unit *unit; /* the line of a place in it, from where the next is counted */
    uint32_t pos;
    int line;
} recorder;

typedef struct session {
    scope globals;
    scope *locals;          /* of the function that runs, or NULL */
    struct unit *unit;      /* the text whose statements run */
    struct unit *units;     /* every text read so far: functions and rules refer to them */
    int depth;              /* of calls of functions */
    int source_depth;       /* of files that source files, while they are read */
    int sourced_depth;      /* of files with computed names that run inside each other */

    store_entry *stores;
    int64_t nstores, stores_cap;
    uint64_t stores_made;   /* so far */
    int64_t current;        /* index of the store in use, -1 before the first */
    bool create_failed;     /* what comes next was meant for a store that was not made */
    const char *default_type;
    int64_t store_wait_ms;  /* how long to wait for the lock of a state file */
    bool dry_run;           /* nothing is written, no shell runs: what would happen is said */

    map functions;          /* def: name to index in defs */
    struct definition *defs;
    int64_t ndefs, defs_cap;
    map rules;              /* updater: name to index in rule_defs */
    struct rule_definition *rule_defs;
    int64_t nrules, rules_cap;

    show_format format;
    print_style style;
    bool quiet, verbose;
    recorder recorder;
    struct check_errors *check;   /* (optional) collects errors: --check */
    uint64_t seed;          /* of the random functions */
    uint64_t draws;         /* calls of random functions without seed= so far */
    int virtual_gpus;       /* gpu(i) that a machine without GPUs gets */
    bool gpus_wanted;       /* --gpus has asked for them: where there are GPUs, too */
    bool gpus_announced;    /* they are in use */

    buf detail;             /* lines that the report of the last error adds, such as a diff */
    buf *captured;          /* where output goes instead of stdout: a redirect */
    bool stdout_closed;     /* its reader went away: later output is dropped */
    value last;             /* the last value shown: _ */
    buf *hearing;           /* (optional) gets a copy of what goes out and is not redirected */
    bool catches_shell;     /* with it: what shell commands print, too */
    bool unheard;           /* a shell command printed, and it was not caught */
    buf previous;           /* what the statement before put out, when `expect` may ask for it */
    bool has_previous;
    bool remembers; /* keep what the last statement of a text puts out: another may follow */
    run_flow *flow;  /* of the command that runs, when it runs statements */
    bool profiles;          /* `profile FILE` runs */
    bool explains;          /* say on stderr what the store does: explain on */
    buf *explanation;       /* in `explain COMMAND`: where that is said; nothing is changed */
    bool trace;             /* print each command to stderr before it runs */
    bool writes_unsynced;   /* files of `write` and > do not wait for the disk: write.sync */
    bool safe;              /* no shell, and no writes except to the state file */
    double timeout;         /* seconds after which the invocation gives up; 0: never */
    const char *history;    /* what --history said, or NULL */
    void (*list_options)(buf *out); /* (optional) for `help options` */
    struct transcript *transcript; /* (optional) --record */

    bool leaving;           /* quit was run */
    int exit_code;
    int (*interrupted)(void); /* (optional) SIGINT, SIGTERM, SIGALRM (time is up), or 0 */
    bool keep_going;        /* after an error in a script: report it and run the next statement */
    int failure;            /* the exit code of the first error that was reported, or 0 */
    value args;             /* what stands behind the script's name: a list of texts */
} session;

/* An empty session with the defaults of the command line. */
void session_init(session *s);
void session_release(session *s);

/* The variable in the innermost scope that has it, or NULL. `args` is always there. */
value *session_find(session *s, const char *name);
/* The variable in the scope that session_set writes to, or NULL. */
value *session_find_here(session *s, const char *name);
/* Sets a variable of the running function, else a global. Takes v, also on failure. */
int session_set(session *s, const char *name, value v, kv_err *e);
/* Removes it from there, if it is there. */
void session_unset(session *s, const char *name);
void scope_release(scope *s);

/* The store in use; makes one of the default type, called kv, when there is none. Error: value (the
 * last `create` failed), those of kv_create. */
int session_store(session *s, kv **store, kv_err *e);
/* Makes a store under a name; one that has the name already is replaced. It becomes the one in
 * use. Errors: those of kv_create, value (a transaction is open in the one to be replaced). */
int session_create(session *s, const char *type, const kv_opt *opts, int nopts, const char *name,
                   kv_err *e);
/* The same with a store that is there already; takes it, also on failure. */
int session_adopt(session *s, kv *store, const char *name, kv_err *e);
/* The index of a store by its name, or -1. */
int64_t session_find_store(const session *s, const char *name);
/* Whether a name is that of a store; kv is one before the first is made. Such a name is no
 * variable: session_set refuses it (name). */
bool session_names_store(const session *s, const char *name);

/* Makes gpu(i) available before it is used: virtual GPUs come on demand, announced once. */
int session_ctx(session *s, kv_ctx ctx, kv_err *e);

/* KV_E_INTERRUPTED when Ctrl-C was pressed, KV_E_TIMEOUT when the time of --timeout is up, else
 * KV_OK. Asked between the store's calls. */
int session_interrupted(session *s, kv_err *e);

/* An interrupt that something else noticed gets its reason: KV_E_TIMEOUT when that was it. Returns
 * e's code. */
int session_reason(session *s, kv_err *e);

/* Where results go: stdout, or the redirect that is active. */
int session_out(session *s, const char *text, size_t n, kv_err *e);
/* Writes out what stdout still holds. A reader that went away is no error: later output is dropped.
 * Error: io. */
int session_flush(session *s, kv_err *e);
/* With -v a line on stderr that says what changed: `init 3: float32 (2, 3) cpu(0)`. */
void session_change(session *s, const char *text);
/* In a dry run: says on stderr what would happen, and gives true. */
bool session_would(session *s, const char *what, const char *name);
/* A warning on stderr, also with -q: one line that begins with the place of node in the text that
 * runs, `s.kv:4: warning: `. */
void session_warn(session *s, const struct ast *node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A note on stderr, unless -q: one line, "note: " before it. */
void session_note(session *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
