/* From options to a session. The start file runs first, so that everything else can overrule it. */
#include "configure.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/folder_out.h"
#include "base/mem.h"
#include "base/philox.h"
#include "checkpoint/in_place.h"
#include "out/record.h"
#include "run/run.h"
#include "session/result.h"
#include "session/unit.h"
#include "syntax/effect.h"
#include "syntax/read_unit.h"
#include "term/signals.h"
#include "term/terminal.h"

/* ---- --set ---- */

/* A literal as --set takes it: a number, true, false, none, else text. */
static int set_value(const char *text, value *out, kv_err *e)
{
    own_arena nodes = {0};
    source src = {.text = text, .len = (uint32_t)strlen(text), .line = 1, .col = 1};
    own_parser p;
    parse_init(&p, &src, &nodes, &(kv_err){0});
    const ast *literal = parse_literal(&p);
    if (!literal || parse_peek(&p)->kind != TOK_END)
        return value_text(out, text, e);
    return value_from_host(out, host_literal(literal), e);
}

/* NAME=VALUE; a dotted name is a setting. */
static int apply_set(session *s, const char *text, kv_err *e)
{
    own_value v = value_none();
    const char *equals = strchr(text, '=');
    own_mem char *name = mem_text(text, (size_t)(equals - text), e);
    TRY(name ? set_value(equals + 1, &v, e) : KV_E_MEMORY);
    if (strchr(name, '.'))
        return setting_set(s, name, v, e);
    if (!parse_is_new_name(name))
        return kv_err_set(e, KV_E_USAGE, "--set cannot make a variable called \"%s\"", name);
    return session_set(s, name, value_ref(v), e);
}

/* ---- The start file ---- */

/* The path of the start file; asked: the user named it. */
static void rc_path(buf *path, const char *option, bool *asked)
{
    const char *said = option ? option : getenv("KVCTL_RC");
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    *asked = said && *said;
    if (said)
        buf_add(path, said);
    else if (config && *config == '/')
        buf_printf(path, "%s/kvctl/rc", config);
    else if (home && *home)
        buf_printf(path, "%s/.config/kvctl/rc", home);
}

static int run_rc(session *s, const char *option, kv_err *e)
{
    own_buf path = {0};
    char *text = NULL;
    size_t n;
    unit *u = NULL;
    bool asked;
    rc_path(&path, option, &asked);
    TRY(buf_check(&path, e));
    if (path.len == 0 || (!asked && access(buf_text(&path), F_OK) != 0))
        return KV_OK;
    kv_err failed = {0};
    int rc = file_read_text(buf_text(&path), &text, &n, &failed);
    if (rc == KV_OK &&
        (rc = unit_read(s, &u, buf_text(&path), text, n, 1, NULL, &failed)) == KV_OK)
        rc = unit_run(s, u, &failed);
    if (!text && asked) {
        *e = failed;
        return rc;
    }
    if (rc)
        report_error(s, &failed);
    s->failure = 0;
    return KV_OK;
}

/* ---- Random numbers ---- */

/* Each rank of a job draws numbers of its own; rank 0 those of one process without a job. */
static uint64_t seed_of_rank(uint64_t seed)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    long long r = rank ? strtoll(rank, NULL, 10) : 0;
    if (r <= 0)
        return seed;
    philox p = philox_at(seed, PHILOX_RANKS, (uint64_t)r, 0);
    return (uint64_t)p.word[0] | (uint64_t)p.word[1] << 32;
}

/* ---- All of it ---- */

static void note_left(void *arg, const char *path, int why)
{
    session_note(arg, "the folder \"%s\" could not be removed and stays: %s", path,
                 strerrordesc_np(why));
}

int configure(session *s, const options *o, bool prompt, kv_err *e)
{
    s->out.quiet = o->quiet;
    s->out.verbose = o->verbose;
    s->keep_going = o->keep_going;
    s->trace = o->trace;
    s->safe = o->safe;
    s->dry_run = o->dry_run;
    s->seed = seed_of_rank(o->seed);
    s->virtual_gpus = o->gpus;
    s->gpus_wanted = o->gpus_said;
    s->list_options = options_list;
    s->history = o->safe || o->dry_run ? "off" : o->history;
    s->timeout = o->timeout;
    if (o->type)
        s->default_type = o->type;
    if (o->timeout > 0)
        interrupt_after(o->timeout);
    if (s->gpus_wanted && kv_set_virtual_gpus(o->gpus, e)) /* types may ask for GPUs first */
        return e->code;
    folder_out_tell(note_left, s);
    in_place_leave(o->safe, o->store); /* to end a change is to write */
    /* a script chooses by `create` when a plugin is loaded, so under --safe only those of this
       build are known */
    if (o->safe) {
        unsetenv("KVSTORE_PLUGINS");
        unsetenv("KVSTORE_MPI");
    }
    if (o->plugins.n > 0)
        TRY(safe_plugin(s, e));
    for (int i = 0; i < o->plugins.n; i++)
        TRY(kv_load_plugin(o->plugins.items[i], e));
    int rc = prompt ? run_rc(s, o->rc, e) : KV_OK; /* its error is shown as the options say */
    if (!prompt && o->rc && *o->rc)
        session_note(s, "--rc does nothing here: only the prompt reads a start file");
    for (int i = 0; i < TERMINAL_USES; i++)
        if (o->terminal_given[i])
            terminal_choose((terminal_use)i, o->terminal[i]);
    if (o->safe)
        terminal_choose(TERMINAL_PAGER, TERMINAL_NEVER); /* a pager can do what a shell can */
    TRY(rc);
    if (o->format)
        TRY(show_format_parse(&s->out.format, o->format, e));
    for (int i = 0; i < o->sets.n; i++)
        TRY(apply_set(s, o->sets.items[i], e));
    TRY(value_list_new(&s->args, VALUE_LIST, o->args.n, e));
    for (int i = 0; i < o->args.n; i++)
        TRY(value_text(&s->args.u.list->items[i], o->args.items[i], e));
    return KV_OK;
}

/* ---- Inputs ---- */

int configure_read(session *s, const input *in, unit **out, kv_err *e)
{
    char *text;
    size_t n;
    if (in->kind == INPUT_WORDS)
        return unit_read_words(s, out, in->words, e);
    if (in->kind == INPUT_TEXT) {
        n = strlen(in->text);
        text = mem_text(in->text, n, e);
        return text ? unit_read(s, out, "<cmd>", text, n, 1, NULL, e) : KV_E_MEMORY;
    }
    bool from_stdin = in->kind == INPUT_STDIN;
    TRY(file_read_text(from_stdin ? "-" : in->text, &text, &n, e));
    return unit_read(s, out, from_stdin ? "<stdin>" : in->text, text, n, 1, NULL, e);
}

int configure_foresee(const options *o)
{
    session s;
    unit *u;
    kv_err e = {0};
    struct stat about;
    options own = *o;
    own.plugins.n = own.gpus_said = 0; /* nothing runs that needs them */
    own.timeout = 0;
    session_init(&s);
    configure(&s, &own, false, &e);
    for (const input *in = o->inputs; in < o->inputs + o->ninputs && !e.code; in++)
        if (in->kind != INPUT_STDIN && /* a pipe can be read only once */
            (in->kind != INPUT_FILE || (stat(in->text, &about) == 0 && S_ISREG(about.st_mode))))
            configure_read(&s, in, &u, &e);
    if (e.code)
        report_error(&s, &e);
    int rc = s.failure;
    session_release(&s);
    return rc;
}
