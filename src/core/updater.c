/* ASSIGN, C callbacks and rules. */
#include "core/updater.h"

#include <string.h>

#include "base/mem.h"

/* ---- The updater itself ---- */

static void release_use(rule_use *use)
{
    if (!use)
        return;
    for (int i = 0; i < KV_DTYPE_END; i++) {
        if (use->made[i])
            rule_update_release(&use->updates[i]);
    }
    arena_release(&use->memory);
    kv_rule_free(use->rule);
    mem_free(use);
}

static int keep_params(rule_use *use, const kv_opt *params, int n, kv_err *e)
{
    kv_opt *kept = arena_alloc(&use->memory, (size_t)n * sizeof *kept, e);
    for (int i = 0; kept && i < n; i++) {
        kept[i].name = arena_text(&use->memory, params[i].name, strlen(params[i].name), e);
        kept[i].value = arena_text(&use->memory, params[i].value, strlen(params[i].value), e);
        if (!kept[i].name || !kept[i].value)
            return KV_E_MEMORY;
    }
    use->params = kept;
    use->nparams = n;
    return kept ? KV_OK : KV_E_MEMORY;
}

/* rule_bind wants names and texts apart. */
static int bind(rule_use *use, const kv_opt *params, int n, kv_err *e)
{
    const rule_ast *tree = use->rule->ast;
    size_t texts = (size_t)n * sizeof(char *);
    const char **names = arena_alloc(&use->memory, texts, e);
    const char **values = names ? arena_alloc(&use->memory, texts, e) : NULL;
    host *bound =
        values ? arena_alloc(&use->memory, (size_t)tree->nparams * sizeof *bound, e) : NULL;
    if (!bound || keep_params(use, params, n, e))
        return KV_E_MEMORY;
    for (int i = 0; i < n; i++) {
        names[i] = use->params[i].name;
        values[i] = use->params[i].value;
    }
    use->binding = (rule_binding){tree, &use->rule->src, bound};
    return rule_bind(tree, names, values, n, bound, &use->memory, e);
}

int updater_init_rule(updater *u, const kv_rule *rule, const kv_opt *params, int nparams, kv_err *e)
{
    rule_use *use = mem_zalloc(1, sizeof *use, e);
    if (!use)
        return KV_E_MEMORY;
    use->rule = kv_rule_ref((kv_rule *)rule); /* only the count changes */
    use->constant = rule_is_constant(rule->ast);
    int rc = bind(use, params, nparams, e);
    if (rc) {
        release_use(use);
        return rc;
    }
    *u = (updater){.kind = UPDATER_RULE, .use = use};
    return KV_OK;
}

void updater_release(updater *u)
{
    release_use(u->use);
    if (u->done)
        u->done(u->arg);
    *u = (updater){0};
}

const char *updater_name(const updater *u)
{
    switch (u->kind) {
    case UPDATER_ASSIGN:
        return "assign";
    case UPDATER_CALLBACK:
        return "callback";
    case UPDATER_RULE:
        return u->use->rule->ast->nnames ? u->use->rule->ast->names[0] : "rule";
    }
    return "";
}

/* ---- Before a push ---- */

static int make_update(const rule_use *use, const slot *s, rule_update *u, kv_err *e)
{
    rule_given given = {s->key, s->updates + 1};
    int rc = rule_update_make(&use->binding, &given, kv_array_dtype(s->stored), u, e);
    if (rc)
        kv_err_key(e, &s->key);
    return rc;
}

/* The update of one group: the one of its dtype when the rule is constant, else its own. */
static int group_update(updater_push *p, int64_t i, kv_err *e)
{
    rule_use *use = p->updater->use;
    call_group *g = &p->call->groups[i];
    const slot *s = call_slot(p->call, g);
    int rc = KV_OK;
    if (!use->constant) {
        rc = make_update(use, s, &p->updates[i], e);
        g->update = rc ? NULL : &p->updates[i];
        return rc;
    }
    kv_dtype dtype = kv_array_dtype(s->stored);
    if (!use->made[dtype]) {
        rc = make_update(use, s, &use->updates[dtype], e);
        use->made[dtype] = rc == KV_OK;
    }
    g->update = &use->updates[dtype];
    return rc;
}

static int prepare_rule(updater_push *p, int64_t *program_bytes, kv_err *e)
{
    call *c = p->call;
    if (!p->updater->use->constant && !(p->updates = mem_zalloc(c->ngroups, sizeof *p->updates, e)))
        return KV_E_MEMORY;
    const prog *last = NULL;
    for (int64_t i = 0; i < c->ngroups; i++) {
        int rc = group_update(p, i, e);
        if (rc)
            return rc;
        const prog *program = c->groups[i].update->program;
        if (!program || program == last)
            continue;
        last = program;
        int64_t bytes = prog_scratch_bytes(program);
        *program_bytes = bytes > *program_bytes ? bytes : *program_bytes;
    }
    return KV_OK;
}

/* An array of the shape and dtype of what a group stores, in the context where it will stand. */
static int make_like_stored(kv_array **out, const call *c, const call_group *g, kv_err *e)
{
    const kv_array *like = call_slot(c, g)->stored;
    return kv_array_new_raw(out, kv_array_dtype(like), kv_array_ndim(like), kv_array_shape(like),
                            kv_array_ctx(g->fresh ? g->fresh : like), e);
}

static int prepare_callback(call *c, kv_err *e)
{
    for (int64_t i = 0; i < c->ngroups; i++) {
        call_group *g = &c->groups[i];
        int rc = make_like_stored(&g->input, c, g, e);
        if (rc || (rc = make_like_stored(&g->result, c, g, e)))
            return rc;
    }
    return KV_OK;
}

int updater_prepare(updater_push *p, updater *u, call *c, apply_work *work, kv_err *e)
{
    *p = (updater_push){.updater = u, .call = c, .work = work};
    int64_t program_bytes = 0;
    int rc = KV_OK;
    switch (u->kind) {
    case UPDATER_ASSIGN:
        break;
    case UPDATER_CALLBACK:
        rc = prepare_callback(c, e);
        break;
    case UPDATER_RULE:
        rc = prepare_rule(p, &program_bytes, e);
        break;
    }
    return rc ? rc : apply_reserve(work, c->max_values, program_bytes, e);
}

/* ---- The element work ---- */

/* Keeps the result of a callback. An array that the callback holds on to cannot become the stored
 * one: its contents are copied then. */
static void keep_result(slot *s, call_group *g)
{
    if (kv_array_refs(g->result) > 1) {
        apply_copy(g->fresh ? g->fresh : s->stored, g->result);
        return;
    }
    kv_array_unref(g->fresh);
    g->fresh = g->result;
    g->result = NULL;
}

/* The rest of a group whose callback refused: the old array stays where it is. */
static int refused(const updater_push *p, call_group *g, int rc, kv_err *why, kv_err *e)
{
    char text[SLOT_KEY_TEXT];
    const kv_key *key = &call_slot(p->call, g)->key;
    kv_array_unref(g->fresh);
    g->fresh = NULL;
    if (!why->code)
        kv_err_set(why, rc > 0 && rc < KV_NCODES ? (kv_code)rc : KV_E_VALUE,
                   "the updater refused key %s (code %d)", slot_key_text(text, key), rc);
    kv_err_key(why, key);
    if (e && !e->code)
        *e = *why;
    return why->code;
}

static int run_callback(updater_push *p, call_group *g, const apply_values *v, kv_err *e)
{
    slot *s = call_slot(p->call, g);
    kv_err why = {0};
    apply_sum(g->input, v, p->work);
    apply_copy(g->result, s->stored);
    int rc = p->updater->call(p->updater->arg, &s->key, g->input, g->result, &why);
    if (rc)
        return refused(p, g, rc, &why, e);
    keep_result(s, g);
    return KV_OK;
}

static void run_rule(updater_push *p, call_group *g, const apply_values *v)
{
    kv_array *stored = call_slot(p->call, g)->stored;
    if (g->fresh)
        apply_copy(g->fresh, stored);
    if (!g->update->skipped)
        apply_program(g->update->program, g->fresh ? g->fresh : stored, v, p->work);
}

static int run_group(updater_push *p, call_group *g, kv_err *e)
{
    const call *c = p->call;
    apply_values v = {c->values + g->first, c->data + g->first, g->n, g->same_dtype};
    switch (p->updater->kind) {
    case UPDATER_ASSIGN:
        apply_sum(g->fresh ? g->fresh : call_slot(c, g)->stored, &v, p->work);
        return KV_OK;
    case UPDATER_CALLBACK:
        return run_callback(p, g, &v, e);
    case UPDATER_RULE:
        run_rule(p, g, &v);
        return KV_OK;
    }
    return KV_OK;
}

int updater_run(updater_push *p, kv_err *e)
{
    /* A callback's refusal concerns its own key: the others are updated all the same. */
    int first = KV_OK;
    for (int64_t i = 0; i < p->call->ngroups; i++) {
        int rc = run_group(p, &p->call->groups[i], e);
        if (first == KV_OK)
            first = rc;
    }
    return first;
}

/* ---- After a push ---- */

/* printed holds whole lines, each with its newline. */
static void print_lines(const buf *printed, void (*print)(void *arg, const char *line), void *arg)
{
    char *line = printed->data, *end;
    for (; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        print(arg, line);
    }
}

void updater_finish(updater_push *p, void (*print)(void *arg, const char *line), void *arg)
{
    for (int64_t i = 0; i < p->call->ngroups; i++) {
        slot *s = call_slot(p->call, &p->call->groups[i]);
        s->pushes++;
        s->updates++;
        if (p->updates && print)
            print_lines(&p->updates[i].printed, print, arg);
    }
    updater_cancel(p);
}

void updater_cancel(updater_push *p)
{
    for (int64_t i = 0; p->updates && i < p->call->ngroups; i++) {
        if (p->call->groups[i].update)
            rule_update_release(&p->updates[i]);
    }
    mem_free(p->updates);
    p->updates = NULL;
}
