/* The parts of a session that outlive a statement: variables, stores, and the way to stdout.
 *
 * Stdout is written through session_out alone. A closed pipe is no error: what comes after it goes
 * nowhere, and the session goes on.
 */
#include "session/session.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "session/containers.h"
#include "session/result.h"
#include "session/unit.h"
#include "session/visit.h"
#include "term/signals.h"
#include "term/terminal.h"

struct registry registry; /* the one variable of the tool that all its rooms share */

void session_init(session *s)
{
    *s = (session){.current = -1,
                   .default_type = "local",
                   .store_wait_ms = 10000,
                   .out.style = print_style_default(),
                   .virtual_gpus = 8};
}

void scope_release(scope *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        value_release(&s->items[i].v);
        mem_free((char *)s->items[i].name);
    }
    mem_free(s->items);
    map_release(&s->names);
    *s = (scope){0};
}

void session_release(session *s)
{
    kv_assert(!s->out.sinks && !s->locals, "a session ends while something hears its output");
    scope_release(&s->globals);
    scope_release(&s->told);
    value_release(&s->last);
    value_release(&s->args);
    for (int64_t i = 0; i < s->nstores; i++) {
        follow_release(&s->stores[i].follows);
        follow_release(&s->stores[i].before);
        kv_free(s->stores[i].store);
        mem_free(s->stores[i].name);
    }
    mem_free(s->stores);
    for (int64_t i = 0; i < s->ndefs; i++)
        def_values_unref(s->defs[i].values);
    mem_free(s->defs);
    map_release(&s->defined);
    map_release(&s->prelude);
    while (s->units) {
        s->units->kept = false;
        unit_drop(s, s->units);
    }
    buf_release(&s->detail);
    buf_release(&s->out.previous.text);
}

/* ---- Variables that rules follow ---- */

int follow_text(value *out, value v, bool quoted, kv_err *e)
{
    char number[NUM_TEXT_MAX];
    buf text = {0};
    if (v.kind == VALUE_FLOAT) {
        num_repr(number, v.u.number, NUM_BINARY64);
        return value_text(out, number, e);
    }
    if (v.kind == VALUE_BOOL || v.kind == VALUE_NONE)
        return value_text(out, v.kind == VALUE_NONE ? "none" : v.u.integer ? "true" : "false", e);
    quoted = quoted && v.kind == VALUE_TEXT;
    buf_add(&text, quoted ? "\"" : "");
    if (v.kind == VALUE_TEXT)
        buf_add(&text, v.u.text);
    else /* an integer */
        value_print(&text, v, false);
    buf_add(&text, quoted ? "\"" : "");
    return value_text_take(out, &text, KV_OK, e);
}

int follow_add(session *s, followed_names *f, const char *name, variable *here, kv_err *e)
{
    char *copy = mem_text(name, strlen(name), e);
    if (!copy || mem_grow(&f->items, &f->cap, f->n + 1, sizeof *f->items, e)) {
        mem_free(copy);
        return KV_E_MEMORY;
    }
    if (here && !here->follow)
        here->follow = ++s->follow_numbers;
    f->items[f->n++] = (followed){copy, here ? here->follow : 0};
    return KV_OK;
}

void follow_release(followed_names *f)
{
    for (int64_t i = 0; i < f->n; i++)
        mem_free(f->items[i].name);
    mem_free(f->items);
    mem_free(f->rule);
    *f = (followed_names){0};
}

/* Some rule awaits a name that is no variable yet. */
static void settle_awaited(session *s)
{
    s->awaits = false;
    for (int64_t i = 0; i < s->nstores; i++)
        for (int64_t j = 0; j < s->stores[i].follows.n; j++)
            s->awaits |= s->stores[i].follows.items[j].number == 0;
}

void follow_use(session *s, followed_names *f, const char *rule)
{
    store_entry *entry = &s->stores[s->current];
    if (s->explanation) { /* nothing changes */
        follow_release(f);
        return;
    }
    bool first = kv_in_transaction(entry->store) && !entry->replaced;
    if (first) {
        entry->before = entry->follows;
        entry->replaced = true;
    } else {
        follow_release(&entry->follows);
    }
    entry->follows = *f;
    entry->follows.rule = mem_text(rule, strlen(rule), NULL); /* for messages alone */
    *f = (followed_names){0};
    settle_awaited(s);
}

static int change(const store_entry *entry, const char *name, value v, kv_err *e)
{
    own_value text = value_none();
    if (!value_is_scalar(v)) {
        const char *rule = entry->follows.rule;
        kv_err_set(e, KV_E_DTYPE,
                   "the rule %s of the store %s reads `%s`, which can be a number, a text, true, "
                   "false or none there, not %s",
                   rule ? rule : "", entry->name, name, value_kind_name(v));
        return kv_err_hint(e, "give it another name, or set another updater first");
    }
    TRY(follow_text(&text, v, true, e));
    kv_opt param = {name, text.u.text};
    return kv_update_optimizer(entry->store, &param, 1, e);
}

/* Before a variable is assigned: changes the rules that follow it. number: the variable's; of a new
 * global 0, which becomes its number if a rule has awaited the name. Error: dtype (a rule holds no
 * such value), those of kv_update_optimizer; the variable is not assigned then. */
static int follow_assign(session *s, const char *name, value v, uint32_t *number, kv_err *e)
{
    uint32_t known = *number;
    int rc = KV_OK;
    for (int64_t i = 0; i < s->nstores && !s->explanation; i++) {
        const followed_names *f = &s->stores[i].follows;
        for (int64_t j = 0; j < f->n && rc == KV_OK; j++) {
            if (f->items[j].number != known || (!known && strcmp(f->items[j].name, name) != 0))
                continue;
            rc = change(&s->stores[i], name, v, e);
            *number = *number ? *number : ++s->follow_numbers;
            f->items[j].number = *number;
        }
    }
    if (*number && !known)
        settle_awaited(s);
    return rc;
}

static int restore(const store_entry *entry, const scope *of, kv_err *e)
{
    for (int64_t i = 0; of && i < of->n; i++)
        for (int64_t j = 0; j < entry->follows.n; j++)
            if (of->items[i].follow && of->items[i].follow == entry->follows.items[j].number)
                TRY(change(entry, entry->follows.items[j].name, of->items[i].v, e));
    return KV_OK;
}

int follow_rollback(session *s, kv_err *e)
{
    store_entry *entry = &s->stores[s->current];
    if (entry->replaced) {
        follow_release(&entry->follows);
        entry->follows = entry->before;
        entry->before = (followed_names){0};
        entry->replaced = false;
        settle_awaited(s);
    }
    TRY(restore(entry, &s->globals, e));
    return restore(entry, s->locals, e);
}

void follow_commit(session *s)
{
    store_entry *entry = &s->stores[s->current];
    follow_release(&entry->before);
    entry->replaced = false;
}

/* ---- Variables ---- */

/* Up to so many variables of a scope are looked at in turn, which is quicker than their map. */
#define SCOPE_FEW 8

variable *scope_variable(const scope *s, const char *name)
{
    if (s->n > SCOPE_FEW) {
        int64_t i = map_get(&s->names, (kv_key){0, name});
        return i < 0 ? NULL : &s->items[i];
    }
    for (int64_t i = 0; i < s->n; i++)
        if (s->items[i].name[0] == name[0] && strcmp(s->items[i].name, name) == 0)
            return &s->items[i];
    return NULL;
}

variable *session_variable(session *s, const char *name, bool globals)
{
    variable *found = NULL;
    for (const scope *here = globals ? NULL : s->locals; here && !found; here = here->outer) {
        found = scope_variable(here, name);
        if (!found && here->assigned && map_get(here->assigned, (kv_key){0, name}) >= 0)
            return NULL;
    }
    return found ? found : scope_variable(&s->globals, name);
}

static scope *function_scope(const session *s)
{
    scope *here = s->locals;
    while (here && here->outer)
        here = here->outer;
    return here;
}

bool session_awaits_name(const session *s, const char *name)
{
    const scope *here = function_scope(s);
    return here && here->assigned && map_get(here->assigned, (kv_key){0, name}) >= 0 &&
           !scope_variable(here, name);
}

bool session_is_quiet(const session *s)
{
    const scope *here = function_scope(s);
    return here && here->quiet;
}

value *session_find(session *s, const char *name)
{
    variable *found = session_variable(s, name, false);
    return found ? &found->v : strcmp(name, "args") == 0 ? &s->args : NULL;
}

const definition *session_defined(const session *s, const char *name)
{
    int64_t at = map_get(&s->defined, (kv_key){0, name});
    return at < 0 ? NULL : &s->defs[at];
}

int64_t session_def(const session *s, const char *name)
{
    bool inside = s->unit && s->unit->prelude;
    const definition *d = s->ndefs > 0 && !inside ? session_defined(s, name) : NULL;
    return d && d->node ? d - s->defs : s->ndefs ? map_get(&s->prelude, (kv_key){0, name}) : -1;
}

/* Gives a variable of the scope another value, or adds one where place is NULL. Takes v, also on
 * failure. */
static int scope_put(scope *s, variable *place, const char *name, value v, uint32_t follow,
                     kv_err *e)
{
    char *copy = NULL;
    if (place) {
        value_release(&place->v);
        place->v = v;
        return KV_OK;
    }
    int rc = mem_grow(&s->items, &s->cap, s->n + 1, sizeof *s->items, e);
    if (rc == KV_OK && !(copy = mem_text(name, strlen(name), e)))
        rc = KV_E_MEMORY;
    if (rc == KV_OK)
        s->items[s->n] = (variable){copy, v, follow};
    for (int64_t i = s->n == SCOPE_FEW ? 0 : s->n; s->n >= SCOPE_FEW && i <= s->n && !rc; i++)
        rc = map_put(&s->names, (kv_key){0, s->items[i].name}, i, e);
    if (rc == KV_OK)
        return s->n++, KV_OK;
    mem_free(copy);
    value_release(&v);
    return rc;
}

int scope_set(scope *s, const char *name, value v, kv_err *e)
{
    return scope_put(s, scope_variable(s, name), name, v, 0, e);
}

int session_set(session *s, const char *name, value v, kv_err *e)
{
    scope *here = function_scope(s); /* not that of a comprehension */
    here = here ? here : &s->globals;
    variable *place = scope_variable(here, name);
    uint32_t follow = place ? place->follow : 0;
    int rc = KV_OK;
    bool prelude = s->unit && s->unit->prelude; /* its names are of no script */
    if (!place && !prelude && session_names_store(s, name)) {
        rc = kv_err_set(e, KV_E_NAME, "`%s` is a store, so it cannot be a variable", name);
        kv_err_hint(e, "give the variable another name; create --name NAME chooses that of a "
                       "store");
    } else if (follow || (!place && s->awaits && here == &s->globals)) /* rules read it */
        rc = follow_assign(s, name, v, &follow, e);
    if (!rc)
        return scope_put(here, place, name, v, follow, e);
    value_release(&v);
    return rc;
}

void scope_cut(scope *s, int64_t n)
{
    while (s->n > n) {
        variable *last = &s->items[--s->n];
        map_remove(&s->names, (kv_key){0, last->name});
        value_release(&last->v);
        mem_free((char *)last->name);
    }
}

/* ---- Stores ---- */

int64_t session_find_store(const session *s, const char *name)
{
    for (int64_t i = 0; i < s->nstores; i++)
        if (strcmp(s->stores[i].name, name) == 0)
            return i;
    return -1;
}

bool session_names_store(const session *s, const char *name)
{
    return session_find_store(s, name) >= 0 || strcmp(name, "kv") == 0;
}

void session_use(session *s, int64_t at)
{
    visit_lock(s);
    s->current = at;
    visit_unlock(s);
}

static void print_line(void *arg, const char *line)
{
    session *s = arg;
    kv_err unused = {0};
    session_out(s, line, strlen(line), &unused);
    session_out(s, "\n", 1, &unused);
}

/* Prints an array as the command print does. */
static int print_array_text(void *arg, kv_array *a,
                            void (*add)(void *to, const char *text, size_t n), void *to, kv_err *e)
{
    own_buf text = {0};
    array_box box;
    TRY(show_value(arg, &text, value_borrowed(&box, a), false, e));
    return add(to, buf_text(&text), text.len), KV_OK;
}

/* The place of the store called name, made if need be. */
static int store_place(session *s, const char *name, int64_t *at, kv_err *e)
{
    *at = session_find_store(s, name);
    if (*at >= 0)
        return KV_OK;
    char *copy = mem_text(name, strlen(name), e);
    visit_lock(s);
    bool made = copy && mem_grow(&s->stores, &s->stores_cap, s->nstores + 1, sizeof *s->stores,
                                 e) == KV_OK;
    if (made) {
        *at = s->nstores++;
        s->stores[*at] = (store_entry){.name = copy};
    }
    visit_unlock(s);
    if (!made)
        mem_free(copy);
    return made ? KV_OK : KV_E_MEMORY;
}

int session_adopt(session *s, kv *store, const char *name, kv_err *e)
{
    int64_t at;
    int rc = store_place(s, name, &at, e);
    if (rc) {
        kv_free(store);
        return rc;
    }
    store_entry *entry = &s->stores[at];
    kv *before = entry->store;
    follow_release(&entry->follows);
    follow_release(&entry->before);
    visit_lock(s);
    *entry = (store_entry){.name = entry->name, .store = store, .serial = ++s->stores_made};
    s->current = at;
    visit_unlock(s);
    if (before) {
        visit_wait_unpinned(s);
        kv_free(before);
    }
    s->create_failed = false;
    kv_set_print(store, print_line, s);
    kv_set_print_arrays(store, print_array_text, s);
    return KV_OK;
}

int session_create(session *s, const char *type, const kv_opt *opts, int nopts, const char *name,
                   kv_err *e)
{
    kv *store = NULL;
    int64_t at = session_find_store(s, name);
    if (at >= 0 && kv_in_transaction(s->stores[at].store)) {
        kv_err_set(e, KV_E_VALUE, "a transaction is open in the store %s, which would be replaced",
                   name);
        return kv_err_hint(e, "commit or rollback ends it");
    }
    int rc = kv_create(type, opts, nopts, &store, e);
    s->create_failed = rc != KV_OK;
    return rc ? rc : session_adopt(s, store, name, e);
}

/* Which store -s would keep, and how often it changed, as one number. */
static uint64_t state_changes(const session *s)
{
    int64_t at = session_find_store(s, "kv");
    return at < 0 ? 0 : (s->stores[at].serial << 40) + kv_changes(s->stores[at].store);
}

void session_mark_undo(session *s)
{
    bool same = s->state.path && !s->state.changed(s->state.arg, s);
    if (s->state.same && !same)
        s->state.first = state_changes(s);
    s->state.same = same;
}

bool session_can_undo(session *s)
{
    session_mark_undo(s);
    return !s->state.same && s->state.first == state_changes(s);
}

bool session_is_state(const session *s, const char *path)
{
    return s->state.path && file_is_same(path, s->state.path);
}

int session_store(session *s, kv **store, kv_err *e)
{
    if (s->guest && s->current < 0)
        return kv_err_set(e, KV_E_VALUE, "the script has made no store yet");
    if (s->create_failed) {
        kv_err_set(e, KV_E_VALUE, "no store is in use, as the last `create` failed");
        if (s->current < 0)
            kv_err_hint(e, "make one: create local");
        else
            kv_err_hint(e, "make one: create local; use %s goes back to that",
                        s->stores[s->current].name);
        return KV_E_VALUE;
    }
    if (s->current < 0) {
        int rc = session_create(s, s->default_type, NULL, 0, "kv", e);
        s->create_failed = false; /* it was not typed, so the next command reports the error, too */
        if (rc)
            return rc;
        s->stores[s->current].on_demand = true;
    }
    *store = s->stores[s->current].store;
    return KV_OK;
}

/* Reads the field "usable" of GPUs. It ends the visit with an error, so that the rows of the GPUs
 * need not be made. */
static int note_usable(void *arg, const kv_field *fields, int n, kv_err *e)
{
    (void)e;
    *(bool *)arg = field_number(fields, n, "usable");
    return KV_E_INTERRUPTED;
}

int session_ctx(session *s, kv_ctx ctx, kv_err *e)
{
    if (s->guest && ctx.device == KV_GPU && !s->gpus_announced)
        return kv_err_set(e, KV_E_UNSUPPORTED, "a look at a job makes no GPUs");
    bool asked = s->gpus_wanted && s->virtual_gpus > 0;
    if (ctx.device != KV_GPU || s->gpus_announced)
        return KV_OK;
    if (!asked)
        kv_describe(NULL, "gpus", note_usable, &s->gpus_announced, &(kv_err){0});
    if (s->gpus_announced)
        return KV_OK;
    if (ctx.id >= s->virtual_gpus) {
        if (asked)
            kv_err_set(e, KV_E_UNSUPPORTED, "there is no gpu(%d): the virtual GPUs end at gpu(%d)",
                       ctx.id, s->virtual_gpus - 1);
        else
            kv_err_set(e, KV_E_UNSUPPORTED,
                       "there is no gpu(%d): this machine has no GPU, and %d virtual ones", ctx.id,
                       s->virtual_gpus);
        return kv_err_hint(e, "kvctl --gpus %d …", ctx.id + 1);
    }
    TRY(kv_set_virtual_gpus(s->virtual_gpus, e));
    s->gpus_announced = true;
    if (s->virtual_gpus == 1)
        session_note(s, "%sgpu(0) is virtual, in the memory of the CPU",
                     asked ? "" : "no GPU here: ");
    else
        session_note(s, "%sgpu(0) to gpu(%d) are virtual, in the memory of the CPU",
                     asked ? "" : "no GPU here: ", s->virtual_gpus - 1);
    return KV_OK;
}

int session_interrupted(session *s, kv_err *e)
{
    int sig = s->interrupted ? s->interrupted() : 0;
    char seconds[NUM_TEXT_MAX];
    if (sig == 0)
        return KV_OK;
    if (sig != SIGALRM)
        return kv_err_set(e, KV_E_INTERRUPTED, "interrupted");
    num_plain(seconds, s->timeout, NUM_BINARY64);
    return kv_err_set(e, KV_E_TIMEOUT, "gave up after %s s (--timeout)", seconds);
}

int session_reason(session *s, kv_err *e)
{
    kv_err now = {0};
    if (!e || e->code != KV_E_INTERRUPTED || session_interrupted(s, &now) != KV_E_TIMEOUT)
        return e ? e->code : KV_OK;
    kv_err_at(&now, e->file, e->line, e->col, e->end);
    *e = now;
    return e->code;
}

/* ---- Output ---- */

/* Bytes that go out between two looks for an interrupt. */
#define OUT_PIECE ((size_t)1 << 20)

void sink_push(session *s, sink *k)
{
    kv_assert(s->out.sinks != k, "a sink of kind %d is pushed onto itself", (int)k->kind);
    k->below = s->out.sinks;
    s->out.sinks = k;
}

void sink_pop(session *s, sink *k)
{
    if (kv_assert(s->out.sinks == k, "another sink than the newest one is popped"))
        s->out.sinks = k->below;
}

bool sink_hears(const session *s)
{
    const sink *k = s->out.sinks;
    while (k && k->kind == SINK_RECORDS)
        k = k->below;
    return k && k->kind == SINK_HEARS;
}

bool sink_takes(const session *s)
{
    const sink *k = s->out.sinks;
    while (k && k->kind == SINK_HEARS)
        k = k->below;
    return k != NULL;
}

/* Gives output to k and the sinks below it, and what none takes to stdout. Either text may be NULL.
 */
static int pass(session *s, sink *k, const char *shown, size_t nshown, const char *heard,
                size_t nheard, kv_err *e)
{
    bool taken = !shown;
    int rc = KV_OK;
    for (; k; k = k->below) {
        if (k->kind == SINK_HEARS) {
            buf_put(&k->text, heard, heard ? nheard : 0);
        } else if (!taken) {
            buf_put(&k->text, shown, nshown);
            rc = buf_check(&k->text, e);
            taken = true;
        }
        if (k->kind == SINK_TAKES)
            return rc;
    }
    if (taken || s->out.closed || nshown == 0 || pager_show(shown, nshown))
        return rc;
    progress_hide(STDOUT_FILENO);
    for (size_t put = 0, some; put < nshown; put += some) {
        some = nshown - put < OUT_PIECE ? nshown - put : OUT_PIECE;
        errno = 0;
        if (put > 0 && session_interrupted(s, e))
            return e ? e->code : KV_E_INTERRUPTED;
        if (fwrite(shown + put, 1, some, stdout) != some)
            return session_flush(s, e);
    }
    return session_interrupted(s, e); /* some of the text may be lost */
}

int session_out(session *s, const char *text, size_t n, kv_err *e)
{
    return pass(s, s->out.sinks, text, n, text, n, e);
}

int session_out_twice(session *s, const buf *shown, const buf *heard, kv_err *e)
{
    return pass(s, s->out.sinks, shown ? buf_text(shown) : NULL, shown ? shown->len : 0,
                heard ? buf_text(heard) : NULL, heard ? heard->len : 0, e);
}

int session_out_record(session *s, const buf *line, kv_err *e)
{
    sink *from = s->out.sinks;
    for (sink *k = s->out.sinks; k; k = k->below)
        if (k->kind == SINK_RECORDS)
            from = k->below;
    return pass(s, from, buf_text(line), line->len, NULL, 0, e);
}

int session_flush(session *s, kv_err *e)
{
    if (s->out.closed || (!ferror(stdout) && fflush(stdout) == 0))
        return KV_OK;
    s->out.closed = true; /* whatever comes now goes nowhere */
    int why = output_reason() ? output_reason() : EIO;
    return why == EPIPE ? KV_OK : file_error(e, "write", "stdout", why);
}

/* A line on stderr, behind what was put out before. */
static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fflush(stdout);
    progress_hide(STDERR_FILENO);
    terminal_vsay(fmt, ap);
    va_end(ap);
}

void session_change(session *s, const char *text)
{
    if (s->out.verbose)
        say("%s", text);
}

bool session_would(session *s, const char *what, const char *name)
{
    if (s->dry_run)
        say("dry run: would %s %s", what, name);
    return s->dry_run;
}

static void warn(session *s, const struct ast *node, bool once, const char *fmt, va_list ap)
{
    int line, col;
    own_buf text = {0};
    buf_vprintf(&text, fmt, ap);
    bool told = once && scope_variable(&s->told, buf_text(&text));
    if (s->guest && !told) {
        s->guest->note(s->guest->arg, buf_text(&text));
    } else if (!told) {
        source_locate(&s->unit->src, node->pos, &line, &col);
        say("%s:%d: warning: %s", s->unit->src.name, line, buf_text(&text));
    }
    if (once && !told)
        scope_set(&s->told, buf_text(&text), value_none(), &(kv_err){0});
}

void session_warn(session *s, const struct ast *node, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    warn(s, node, false, fmt, ap);
    va_end(ap);
}

void session_warn_once(session *s, const struct ast *node, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    warn(s, node, true, fmt, ap);
    va_end(ap);
}

void session_note(session *s, const char *fmt, ...)
{
    va_list ap;
    own_buf text = {0};
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    if (s->guest)
        s->guest->note(s->guest->arg, buf_text(&text));
    else if (!s->out.quiet)
        say("note: %s", buf_text(&text));
}
