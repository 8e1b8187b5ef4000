/* Running statements, one after another. */
#include "run/run.h"

#include <string.h>
#include <unistd.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/stop.h"
#include "eval/eval.h"
#include "files/files.h"
#include "out/record.h"
#include "out/transcript.h"
#include "session/result.h"
#include "session/visit.h"
#include "syntax/hints.h"
#include "syntax/parse_statement.h"
#include "term/terminal.h"

static int run_statement(session *s, const ast *node, run_flow *f, kv_err *e);

/* ---- Assignments ---- */

static bool is_store_name(session *s, const ast *node)
{
    return node->kind == AST_NAME && !session_find(s, node->u.text) &&
           session_names_store(s, node->u.text);
}

static int run_assign(session *s, const ast *node, kv_err *e)
{
    const ast *target = node->kid[0];
    value v;
    const ast *given = node->kid[1];
    if (is_store_name(s, given)) {
        unit_err(s, given, e, KV_E_UNSUPPORTED, "a store has one name");
        return kv_err_hint(e, "make another store: %s = kv.create('local')",
                           target->kind == AST_NAME ? target->u.text : "b");
    }
    if (node->op != STMT_PLAIN)
        return eval_update(s, node->u.other, e);
    TRY(eval(s, given, &v, e));
    if (target->kind == AST_TUPLE && v.kind == VALUE_ARRAY)
        TRY(eval_rows(s, given, &v, e));
    return eval_give(s, target, v, NULL, e);
}

/* ---- Output ---- */

/* Runs the line of the shell that node has, for n bytes of text, or with NULL for kvctl's stdin. */
static int run_shell(session *s, const ast *node, const char *text, size_t n, kv_err *e)
{
    bool failed = session_flush(s, e) || shell_run(s, node->u.text, text, n, e);
    return failed ? unit_at(s, node, e) : KV_OK;
}

/* Shows the result of a statement, or stores, writes or pipes it. */
static int deliver(session *s, const ast *node, result *r, bool repr, kv_err *e)
{
    const ast *into = command_redirect_of(node, true), *to = command_redirect_of(node, false);
    int rc = KV_OK;
    TRY(into ? session_set(s, into->u.text, value_ref(r->v), e) : KV_OK);
    if (into && !to)
        return KV_OK;
    value_release(&s->last);
    s->last = value_ref(r->v);
    if (to && to->op != REDIRECT_PIPE) {
        const char *path = eval_word(s, to->kid[0], "a file name", r, e);
        if (!path && e->code == KV_E_DTYPE && to->op == REDIRECT_FILE)
            kv_err_hint(e, "`>` before $ or ( writes a file; (a > b) in brackets compares");
        if (!path)
            return e->code;
        return save_result(s, path, r, to->op == REDIRECT_APPEND, e) ? unit_at(s, to, e) : KV_OK;
    }
    r->shown = !to;
    bool recorded = s->out.recorder.on && !to; /* its record shows it */
    if (recorded && !sink_hears(s))
        return KV_OK;
    own_buf text = {0};
    if (repr) {
        if ((rc = show_value(s, &text, r->v, true, e)) == KV_OK)
            buf_char(&text, '\n');
    } else {
        rc = show_result(s, &text, r, e);
    }
    if (rc == KV_OK && recorded)
        rc = session_out_twice(s, NULL, &text, e);
    else if (rc == KV_OK && (rc = buf_check(&text, e)) == KV_OK)
        rc = to ? run_shell(s, to, buf_text(&text), text.len, e)
                : session_out(s, buf_text(&text), text.len, e);
    return rc ? unit_at(s, node, e) : KV_OK;
}

/* A command that answered no fails, but not before its result is where it belongs. Where it is all
 * that was typed, one line says so: a place would say nothing more. */
static int refuse(session *s, const ast *node, const result *r, kv_err *e)
{
    const ast *all = s->unit->body;
    bool typed = s->unit->src.name[0] == '<' && all->n == 1 && all->kid[0] == node;
    if (!r->refusal)
        return KV_OK;
    if (r->failure) {
        *e = *r->failure;
        return e->code;
    }
    kv_err_set(e, KV_E_ASSERT, "%s", r->refusal);
    return typed ? e->code : unit_at(s, node, e);
}

/* Returns true if the value of a STMT_SHOW goes somewhere else than to the reader. */
static bool has_redirect(const ast *node)
{
    return node->n > 1 && node->kid[1];
}

/* `explain` runs no statement that cannot be taken back. */
static int refuse_explained(session *s, const ast *node, kv_err *e)
{
    const unsigned kept = COMMAND_CHANGES | COMMAND_WRITES | COMMAND_SETS | COMMAND_CHOOSES;
    if (!s->explanation)
        return KV_OK;
    const command *c = node->kind == STMT_COMMAND ? node->u.other : NULL;
    const ast *to = c ? command_redirect_of(node, false) : NULL;
    bool for_good = node->kind == STMT_SHELL || (to && to->op != REDIRECT_VARIABLE) ||
                    (node->kind == STMT_SHOW && has_redirect(node)) ||
                    (c && (c->flags & kept) && !(c->flags & COMMAND_EXPLAINED));
    return for_good ? unit_err(s, node, e, KV_E_UNSUPPORTED,
                               "explain changes nothing, and this could not be taken back")
                    : KV_OK;
}

/* ---- Commands ---- */

/* print EXPR > FILE saves the value, as EXPR > FILE does. */
static bool saves_value(const ast *node, const command *c)
{
    const ast *to = command_redirect_of(node, false);
    return (c->flags & COMMAND_SAVES) && node->kid[0]->n == 1 && to && to->op != REDIRECT_PIPE;
}

/* Returns true if the lines that the command prints must be caught: they go to a file or a shell
 * command. */
static bool catches_lines(const ast *node, const command *c)
{
    const ast *to = command_redirect_of(node, false);
    bool draws_into_file = (c->flags & COMMAND_DRAWS) && to && to->op != REDIRECT_PIPE;
    return to && (c->flags & COMMAND_PRINTS) && !draws_into_file;
}

/* "pull w, train.kv:7": a command with its first key. */
bool run_place(void *arg, char *out, size_t room)
{
    const session *s = arg;
    const ast *node = s->at;
    int line, col;
    if (s->visit && atomic_load(&s->visit->clients) > 0)
        return false; /* somebody looks at the job */
    if (!s->unit || !node) {
        snprintf(out, room, "the end of the script");
        return true;
    }
    const ast *keys = node->kind == STMT_COMMAND && node->n > 0 ? node->kid[0] : NULL;
    const ast *key = keys && keys->kind == AST_KEYS && keys->n > 0 ? keys->kid[0] : NULL;
    const char *name = node->kind == STMT_COMMAND ? ((const command *)node->u.other)->name
                                                  : "a value",
               *file = strrchr(s->unit->src.name, '/');
    source_locate(&s->unit->src, node->pos, &line, &col);
    size_t n = (size_t)snprintf(out, room, "%s", name);
    if (key && key->kind == AST_KEY && n < room)
        n += key->op == 0 ? (size_t)snprintf(out + n, room - n, " %lld", (long long)key->u.integer)
                          : (size_t)snprintf(out + n, room - n, " %.24s", key->u.text);
    if (n < room)
        snprintf(out + n, room - n, ", %.40s:%d", file ? file + 1 : s->unit->src.name, line);
    return true;
}

int run_argument(session *s, const ast *node, kv_err *e)
{
    run_flow *outer = s->flow;
    int rc = run_statement(s, node, outer, e);
    s->flow = outer;
    return rc;
}

static bool is_variable(void *s, const char *name)
{
    return session_find(s, name) != NULL;
}

/* Notes which command runs, for run_place and hint_asked. */
static void note_command(session *s, const ast *node)
{
    s->at = node;
    if (command_is(node, COMMAND_EXPLAINED)) {
        s->asked = node;
        s->asked_in = s->unit;
    }
}

static int run_command(session *s, const ast *node, result *r, kv_err *e)
{
    const command *c = node->u.other;
    sink lines = {.kind = SINK_TAKES};
    if (s->guest && s->guest->check(s, node, e))
        return e->code;
    note_command(s, node);
    int rc;
    if (saves_value(node, c))
        return (rc = eval(s, node->kid[0]->kid[0], &r->v, e)) ? rc : deliver(s, node, r, false, e);
    bool caught = catches_lines(node, c);
    if (caught)
        sink_push(s, &lines);
    rc = c->run(s, node, r, e);
    if (caught)
        sink_pop(s, &lines);
    if (rc == KV_OK && caught) {
        own_result text = {.as_text = true};
        if ((rc = value_text_take(&text.v, &lines.text, rc, e)) == KV_OK)
            rc = deliver(s, node, &text, false, e);
    } else if (rc == KV_OK && (c->flags & COMMAND_GIVES)) {
        rc = deliver(s, node, r, false, e);
    }
    buf_release(&lines.text);
    if (rc == KV_OK)
        return refuse(s, node, r, e);
    hint_variable(&s->unit->src, node, is_variable, s, e);
    return unit_at(s, node, e);
}

static int run_source(session *s, const ast *node, kv_err *e)
{
    int rc = unit_run(s, node->u.other, e);
    if (rc)
        session_caller(s, node);
    return rc;
}

/* A late error at a statement that asked the store for nothing. The operation is not known, and
 * only commands up to the one that is named can have begun it. */
static void hint_asked(const session *s, const ast *node, kv_err *e)
{
    char text[UNIT_TEXT];
    int line, col;
    const unit *u = s->asked_in;
    if (!u || (u == s->unit && s->asked->pos >= node->pos && s->asked->end <= node->end))
        return;
    source_locate(&u->src, s->asked->pos, &line, &col);
    kv_err_hint(e, "a command before this failed in the background; the last was `%s`, %s:%d",
                unit_text(text, u, s->asked), u->src.name, line);
}

/* A failure in the background, on another machine, becomes the error of the next statement. If that
 * statement failed itself, the earlier failure is the cause and replaces its error. */
static void take_late_error(session *s, const ast *node, kv_err *e)
{
    if (s->guest)
        s->guest->amend(s->guest->arg, e);
    for (int64_t i = 0; i < s->nstores && !s->guest; i++) { /* a guest has no part in them */
        if (kv_num_workers(s->stores[i].store) < 2)
            continue;
        kv_err late = {0};
        if (kv_check(s->stores[i].store, &late) == KV_OK)
            continue;
        *e = late;
        hint_asked(s, node, e);
        unit_at(s, node, e);
        return;
    }
}

/* ---- Methods of stores ---- */

/* Makes the store of an AST_STORE the one in use. *before: which one was, for leave_store. A store
 * is made, or chosen, whatever name stands before the point. */
static int enter_store(session *s, const ast *node, int64_t *before, kv_err *e)
{
    const command *c = node->kid[0]->u.other;
    const char *name = node->u.text;
    *before = -1;
    if (c->flags & COMMAND_CHOOSES)
        return KV_OK;
    if (session_find(s, name) || !session_names_store(s, name)) {
        const value *held = session_find(s, name);
        unit_err(s, node, e, KV_E_NAME, "`%s` is not a store", name);
        if (held && held->kind == VALUE_LIST && strcmp(c->name, "push") == 0)
            return kv_err_hint(e, "%s.append(x) adds to the list", name);
        if (held)
            return kv_err_hint(e, "it holds %s; a store is asked by its name: kv.%s(…)",
                               value_kind_name(*held), c->name);
        if (hint_word("module", name, strlen(name), e))
            return e->code;
        return kv_err_hint(e, "make one: %s = kv.create('local')", name);
    }
    int64_t at = session_find_store(s, name);
    if (at < 0 && s->nstores > 0)
        return unit_err(s, node, e, KV_E_NAME, "there is no store `%s`", name);
    if (at >= 0) {
        *before = s->current;
        session_use(s, at);
    }
    return KV_OK;
}

static void leave_store(session *s, int64_t before)
{
    kv_assert(before < s->nstores, "store %lld of %lld was in use", (long long)before,
              (long long)s->nstores);
    if (before >= 0)
        session_use(s, before);
}

static int run_method(session *s, const ast *node, result *r, kv_err *e)
{
    const ast *call = node->kid[0];
    if (s->guest && s->guest->check(s, call, e))
        return e->code;
    TRY(refuse_explained(s, call, e));
    note_command(s, call);
    int rc = ((const command *)call->u.other)->run(s, call, r, e);
    return rc ? unit_at(s, call, e) : KV_OK;
}

int run_method_call(session *s, const ast *node, value *out, kv_err *e)
{
    own_result r = {0};
    record rec = {0};
    int64_t before;
    record_begin(s, &rec);
    if (enter_store(s, node, &before, e) == KV_OK)
        if (run_method(s, node, &r, e) == KV_OK)
            refuse(s, node->kid[0], &r, e);
    int rc = record_end(s, &rec, node->kid[0], &r, e);
    leave_store(s, before);
    if (rc == KV_OK)
        *out = value_ref(r.v);
    return rc;
}

/* Shows an expression, or the value of a method that nobody uses. */
static int run_show(session *s, const ast *node, result *r, kv_err *e)
{
    const ast *x = node->kid[0];
    bool store = is_store_name(s, x), method = x->kind == AST_STORE, call = x->kind == AST_CALL;
    TRY(method ? run_method(s, x, r, e) : eval(s, x, &r->v, e));
    /* a function that gives nothing shows nothing; a.copyto(b) gives b, which has a name */
    bool silent = ((call || method) && r->v.kind == VALUE_NONE) ||
                  (call && strcmp(x->u.text, "copyto") == 0) ||
                  (session_is_quiet(s) && !has_redirect(node));
    TRY(silent ? KV_OK : deliver(s, node, r, !store && !r->as_text, e));
    return method ? refuse(s, x->kid[0], r, e) : KV_OK;
}

/* `pull 3 > w` would be a file without an ending, but `a > w` compares: what to write when there is
 * no variable w. */
static void hint_ending(const session *s, const ast *node, kv_err *e)
{
    const ast *x = NULL;
    int line, col;
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i] && node->kid[i]->kind < AST_SCRIPT)
            x = node->kid[i];
    while (x && x->kind == AST_LIST && x->n > 0)
        x = x->kid[x->n - 1];
    if (e->code != KV_E_NAME || !x || x->kind != AST_BINARY || x->op != OP_GT ||
        (x->flags & AST_PARENS) || x->kid[1]->kind != AST_NAME)
        return;
    source_locate(&s->unit->src, x->kid[1]->pos, &line, &col);
    if (e->line == line && e->col == col)
        kv_err_hint(e, "a file name has an ending: > %s.csv", x->kid[1]->u.text);
}

/* ---- Control ---- */

/* Behind quit no statement begins, except in the prelude, which is part of an expression. */
static bool leaves(const session *s)
{
    return s->leaving && !s->unit->prelude;
}

static int run_if(session *s, const ast *node, run_flow *f, kv_err *e)
{
    bool truth;
    TRY(eval_condition(s, node->kid[0], &truth, e));
    const ast *next = truth ? node->kid[1] : node->n > 2 ? node->kid[2] : NULL;
    return next && !leaves(s) ? run_statement(s, next, f, e) : KV_OK;
}

/* After the body of a loop ran: whether it goes on. */
static bool loops(const session *s, run_flow *f)
{
    bool on = !leaves(s) && (f->how == FLOW_ON || f->how == FLOW_CONTINUE);
    if (f->how == FLOW_CONTINUE || f->how == FLOW_BREAK)
        f->how = FLOW_ON;
    return on;
}

static int run_while(session *s, const ast *node, run_flow *f, kv_err *e)
{
    for (;;) {
        bool truth;
        int rc = eval_condition(s, node->kid[0], &truth, e);
        if (rc || !truth || leaves(s) || (rc = session_interrupted(s, e)) ||
            (rc = run_statement(s, node->kid[1], f, e)) || !loops(s, f))
            return rc;
    }
}

typedef struct for_body {
    const ast *block;
    run_flow *f;
} for_body;

static int run_for_item(session *s, void *arg, bool *on, kv_err *e)
{
    for_body *body = arg;
    int rc = leaves(s) ? KV_OK : run_statement(s, body->block, body->f, e);
    *on = loops(s, body->f);
    return rc;
}

static int run_for(session *s, const ast *node, run_flow *f, kv_err *e)
{
    for_body body = {node->kid[2], f};
    return eval_each(s, node->kid[1], node->kid[0], NULL, run_for_item, &body, e);
}

static int run_repeat(session *s, const ast *node, run_flow *f, kv_err *e)
{
    int64_t n = 0;
    bool on = true;
    TRY(eval_int(s, node->kid[0], "a count", &n, e));
    if (n < 0)
        return unit_err(s, node->kid[0], e, KV_E_VALUE, "a count is at least 0, not %lld",
                        (long long)n);
    progress_begin("repeat", n, PROGRESS_TIMES);
    int rc = KV_OK;
    for (int64_t i = 0; i < n && on && rc == KV_OK; i++) {
        progress_step(i);
        if ((rc = session_interrupted(s, e)) == KV_OK)
            rc = run_statement(s, node->kid[1], f, e);
        on = loops(s, f);
    }
    progress_end();
    return rc;
}

/* Takes the values of d, also on failure. */
static int define(session *s, const definition *d, kv_err *e)
{
    map *names = s->unit->prelude ? &s->prelude : &s->defined;
    int64_t at = map_get(names, (kv_key){0, d->name});
    if (at < 0) {
        if (mem_grow(&s->defs, &s->defs_cap, s->ndefs + 1, sizeof *s->defs, e) ||
            map_put(names, (kv_key){0, d->name}, s->ndefs, e)) {
            def_values_unref(d->values);
            return KV_E_MEMORY;
        }
        at = s->ndefs++;
        s->defs[at].values = NULL;
    }
    def_values_unref(s->defs[at].values);
    s->defs[at] = *d;
    s->unit->kept = true;
    return KV_OK;
}

int run_def(session *s, const ast *node, kv_err *e)
{
    const definition *before = session_defined(s, node->u.text);
    definition d = {node->u.text, s->unit, node, NULL, s->locals != NULL, NULL};
    if (d.nested && before && before->node && before->node != node) {
        unit_err(s, node, e, KV_E_UNSUPPORTED,
                 "there is a function `%s` already, which this one inside another would replace",
                 node->u.text);
        return kv_err_hint(e, "give it another name");
    }
    TRY(eval_def(s, node, &d.values, e));
    return define(s, &d, e);
}

static int run_rule(session *s, const ast *node, kv_err *e)
{
    const rule_ast *rule = node->u.other;
    for (int i = 0; i < rule->nnames; i++)
        TRY(define(s, &(definition){rule->names[i], s->unit, NULL, rule, s->locals != NULL, NULL},
                   e));
    return KV_OK;
}

static int run_return(session *s, const ast *node, run_flow *f, kv_err *e)
{
    value v = value_none();
    TRY(node->n > 0 ? eval(s, node->kid[0], &v, e) : KV_OK);
    value_release(&f->returned);
    f->returned = v;
    f->how = FLOW_RETURN;
    return KV_OK;
}

static int run_control(session *s, const ast *node, run_flow *f, kv_err *e)
{
    switch (node->kind) {
    case AST_BLOCK:
        return run_block(s, node, f, e);
    case STMT_ASSIGN:
        return run_assign(s, node, e);
    case STMT_IF:
        return run_if(s, node, f, e);
    case STMT_FOR:
        return run_for(s, node, f, e);
    case STMT_WHILE:
        return run_while(s, node, f, e);
    case STMT_REPEAT:
        return run_repeat(s, node, f, e);
    case STMT_DEF:
        return run_def(s, node, e);
    case STMT_RETURN:
        return run_return(s, node, f, e);
    case STMT_BREAK:
        f->how = FLOW_BREAK;
        return KV_OK;
    case STMT_CONTINUE:
        f->how = FLOW_CONTINUE;
        return KV_OK;
    case STMT_RULE:
        return run_rule(s, node, e);
    case STMT_BROKEN:
        *e = *(const kv_err *)node->u.other;
        return e->code;
    }
    kv_assert(false, "a statement of kind %d cannot run", node->kind);
    return kv_assert_report(e);
}

/* Each command on stderr before it runs: `+ push 3 a`. What only holds statements is not shown,
 * they are. */
static void trace(session *s, const ast *node)
{
    bool holds = node->kind == AST_BLOCK || node->kind == STMT_IF || node->kind == STMT_FOR ||
                 node->kind == STMT_WHILE || node->kind == STMT_REPEAT;
    own_buf shown = {0};
    if (holds)
        return;
    prompt_lines(&shown, "+ ", "+ ", s->unit->src.text + node->pos, node->end - node->pos, true);
    fflush(stdout);
    progress_hide(STDERR_FILENO);
    fputs(buf_text(&shown), stderr);
}

/* A statement without a record. Its error gets one, unless a command inside it has failed and has
 * one already. */
static int run_unrecorded(session *s, const ast *node, run_flow *f, kv_err *e)
{
    int rc = run_control(s, node, f, e);
    if (rc == KV_OK || node->kind == AST_BLOCK)
        return rc;
    take_late_error(s, node, e);
    unit_at(s, node, e);
    record_error(s, node, e);
    return e->code;
}

/* A statement of a function that is written in the language belongs to the call of it: nothing
 * shows or records it, and a guest may run it. */
static int run_of_prelude(session *s, const ast *node, run_flow *f, kv_err *e)
{
    own_result r = {0};
    return node->kind == STMT_COMMAND ? ((const command *)node->u.other)->run(s, node, &r, e)
                                      : run_control(s, node, f, e);
}

static int run_statement(session *s, const ast *node, run_flow *f, kv_err *e)
{
    if (stack_runs_low())
        return unit_too_deep(s, node, e);
    if (s->unit->prelude)
        return run_of_prelude(s, node, f, e);
    TRY(refuse_explained(s, node, e));
    if (s->trace)
        trace(s, node);
    s->at = node;
    if (s->guest && node->kind != STMT_COMMAND && s->guest->check(s, node, e))
        return e->code;
    if (node->kind != STMT_COMMAND && node->kind != STMT_SHOW && node->kind != STMT_SHELL &&
        node->kind != STMT_SOURCE)
        return run_unrecorded(s, node, f, e);
    own_result r = {0};
    record rec = {0};
    const ast *method = node->kind == STMT_SHOW && node->kid[0]->kind == AST_STORE ? node->kid[0]
                                                                                  : NULL;
    int64_t before = -1;
    s->flow = f;
    record_begin(s, &rec);
    if (node->kind == STMT_COMMAND)
        run_command(s, node, &r, e);
    else if (node->kind == STMT_SHELL)
        run_shell(s, node, NULL, 0, e);
    else if (node->kind == STMT_SOURCE)
        run_source(s, node, e);
    else if (!method || enter_store(s, method, &before, e) == KV_OK)
        run_show(s, node, &r, e);
    hint_ending(s, node, e);
    take_late_error(s, node, e);
    int rc = record_end(s, &rec, method ? method->kid[0] : node, &r, e);
    leave_store(s, before);
    return rc;
}

/* ---- Blocks ---- */

/* A statement of a text failed. Under -k the error is reported, and the next statement runs. */
static int stop_or_report(session *s, unit *u, kv_err *e)
{
    unit_failed(s, u);
    if (!s->keep_going || session_interrupted(s, &(kv_err){0}))
        return session_reason(s, e);
    report_error(s, e);
    *e = (kv_err){0};
    return KV_OK;
}

/* text: the script, the -c or the entry whose statements these are; NULL for other blocks. */
static int run_all(session *s, const ast *block, unit *text, run_flow *f, kv_err *e)
{
    int rc = KV_OK;
    for (uint32_t i = 0; i < block->n && rc == KV_OK && f->how == FLOW_ON && (i == 0 || !leaves(s));
         i++) {
        const ast *node = block->kid[i];
        sink heard = {.kind = SINK_HEARS, .sees_shell = i + 1 < block->n};
        /* the `expect` after the last statement of a text may be in the next text */
        bool follows = i + 1 < block->n ? command_is(block->kid[i + 1], COMMAND_EXPECTS)
                                        : text && s->out.remembers;
        bool hears = follows && !command_is(block->kid[i], COMMAND_EXPECTS);
        const sink *sinks = s->out.sinks;
        if (!s->unit->prelude)
            visit_look(s);
        if (s->visit && !s->unit->prelude)
            visit_begin(s, node);
        if (session_interrupted(s, e))
            return unit_at(s, node, e);
        if (text) {
            text->begun = i + 1;
            transcript_statement(s, &text->src, node);
            session_mark_undo(s);
            if (s->begins)
                s->begins(text, i);
        }
        if (hears) {
            s->out.previous.missed = false;
            sink_push(s, &heard);
        }
        /* the last expression of a function in braces is its value, as that of a `return` is */
        if (s->locals && !session_is_quiet(s) && i + 1 == block->n &&
            block->kid[i]->kind == STMT_SHOW && !has_redirect(block->kid[i])) {
            value_release(&f->returned);
            rc = eval(s, node->kid[0], &f->returned, e);
        } else {
            rc = run_statement(s, node, f, e);
        }
        if (hears) {
            sink_pop(s, &heard);
            buf_release(&s->out.previous.text);
            s->out.previous.text = heard.text;
            s->out.previous.present = true;
        }
        kv_assert(s->out.sinks == sinks, "statement %u of %u leaves a sink behind", i + 1,
                  block->n);
        if (rc && text)
            rc = stop_or_report(s, text, e);
    }
    return rc;
}

int run_block(session *s, const ast *block, run_flow *f, kv_err *e)
{
    return run_all(s, block, NULL, f, e);
}

int unit_run(session *s, unit *u, kv_err *e)
{
    run_flow f = {FLOW_ON, value_none()};
    unit *outer = s->unit;
    const ast *at = s->at;
    s->unit = u;
    int rc = run_all(s, u->body, outer ? NULL : u, &f, e);
    value_release(&f.returned);
    s->unit = outer;
    s->at = at;
    return rc;
}
