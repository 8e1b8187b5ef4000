/* Rules: from a checked rule to the plan for one key.
 *
 * Host lines run here, in order. Element lines become operations of a program as they are met: a
 * name that holds an element stands for a value of the program, so reading what an earlier line
 * wrote costs nothing, and `stored` is written to memory once, at the end. Two walks over
 * expressions do it: rule_host for host values, rule_element for elements.
 */
#include "vm/rule.h"

#include <string.h>

#include "vm/rule_case.h"

/* ---- Statements ------------------------------------------------------------------------------ */

static void run_block(rule_run *r, const ast *block);
static void run_statement(rule_run *r, const ast *node);

/* A host number where elements stand: itself, and as a value of the program. */
static prog_value host_value(rule_run *r, const ast *node, host *x)
{
    *x = rule_host(r, node);
    rule_operand v = rule_from_host(r, node, *x, r->type);
    rule_need_number(r, node, v);
    return v.v;
}

static bool calls_matmul(const ast *node)
{
    const element_function *f = node->kind == AST_CALL ? element_called(node) : NULL;
    bool calls = f && f->kind == FN_MATMUL;
    for (uint32_t i = 0; i < node->n && !calls; i++)
        calls = node->kid[i] && calls_matmul(node->kid[i]);
    return calls;
}

/* What is kept from update to update fits the array that keeps it. */
static void need_fit(rule_run *r, const ast *node, const rule_name *n, prog_value x)
{
    if (r->rc || (n->kind != RULE_NAME_STATE && n->kind != RULE_NAME_STORED))
        return;
    prog_extent want = rule_env_name_extent(n), got = plan_extent(r->b, x), both = want;
    if (plan_join(&both, got) && both.rows == want.rows && both.columns == want.columns)
        return;
    own_buf text = {0};
    plan_extent_text(&text, got);
    r->rc = buf_check(&text, r->e);
    if (!r->rc && want.rows && want.columns)
        REFUSE(r, node, KV_E_SHAPE, "%s is (rows, columns), and this is %s", n->text,
               buf_text(&text));
    else if (!r->rc)
        REFUSE(r, node, KV_E_USAGE, "state %s is one number a %s, and this is %s", n->text,
               want.rows ? "row" : "column", both.rows && both.columns ? "an array" : "not");
    if (r->rc == KV_E_SHAPE && calls_matmul(node))
        kv_err_hint(r->e, "for example: matmul(matmul(x, T(y)), x)");
    if (r->rc == KV_E_USAGE)
        kv_err_hint(r->e, want.rows ? "for example: rowmean(x)" : "for example: colmean(x)");
}

static void run_set(rule_run *r, const ast *node)
{
    rule_name *n = rule_env_find(&r->env, node->u.text);
    host x;
    if (!n->element) {
        n->number = rule_host(r, node->kid[0]);
    } else if (!rule_env_is_element(&r->env, node->kid[0])) {
        /* a host expression is computed as one even where its name holds elements elsewhere */
        n->at = host_value(r, node->kid[0], &x);
        n->extent = (prog_extent){PROG_ONE, PROG_ONE};
    } else {
        n->at = rule_number(r, node->kid[0], r->type);
        need_fit(r, node, n, n->at);
        /* less may be left of the value: an array times 0 is 0 */
        prog_extent left = plan_extent(r->b, n->at);
        n->extent = left.rows && left.columns ? left : rule_env_extent(&r->env, node->kid[0]);
    }
}

/* ---- States ---------------------------------------------------------------------------------- */

/* offset: added to the slot of an array; PLAN_PRESENT reads only the present rows. */
static int state_slot(const rule_name *n, int offset)
{
    return n->state + (n->how == STATE_ROW      ? PLAN_ROW_STATE
                       : n->how == STATE_COLUMN ? PLAN_COLUMN_STATE
                                                : PLAN_STATE + offset);
}

static prog_value load_state(rule_run *r, const rule_name *n)
{
    return plan_load_state(r->b, state_slot(n, r->offset), r->type);
}

static bool is_zero(const ast *initial)
{
    return !initial || (initial->kind == AST_INT && initial->u.integer == 0) ||
           (initial->kind == AST_FLOAT && initial->u.number == 0);
}

/* The rows that are absent in its first update have a state's first value too. From here on those
 * that are present are read and written by themselves. Nothing has loaded them before, so that the
 * load stands behind the store. */
static void begin_absent(rule_run *r, rule_name *n)
{
    prog_value whole = plan_whole(r->b, n->begin);
    if (n->how == STATE_ROW) {
        prog_store(r->b, PLAN_ROW_BEGIN + n->state, prog_dtype(r->type), whole);
        return;
    }
    prog_store(r->b, PLAN_STATE + n->state, prog_dtype(r->type), whole);
    n->at = load_state(r, n);
}

/* A new array of a state comes filled with a number, or the first update computes its elements. */
static void begin_state(rule_run *r, rule_name *n, const ast *initial)
{
    if (!rule_env_is_element(&r->env, initial)) {
        host_value(r, initial, &r->u->numbers[n->state]);
        r->u->fills |= 1u << n->state;
        n->at = load_state(r, n);
        return;
    }
    n->begin = n->at = rule_number(r, initial, r->type);
    need_fit(r, initial, n, n->begin);
    if (!r->rc && r->offset)
        begin_absent(r, n);
}

/* A state exists from the first update that declares it. */
static void run_state(rule_run *r, const ast *node)
{
    rule_name *n = rule_env_find(&r->env, node->u.text);
    const ast *initial = node->n > 0 ? node->kid[0] : NULL;
    bool have = r->given->have >> n->state & 1;
    r->u->states |= 1u << n->state;
    if (!n->element) {
        n->number = have ? rule_case_input(r, CASE_STATE + n->state)
                    : initial ? rule_host(r, initial)
                              : host_int(0);
        return;
    }
    r->by_rows |= n->how == STATE_ROW;
    r->steps |= n->how == STATE_COLUMN;
    if (!have && !is_zero(initial))
        begin_state(r, n, initial);
    else
        n->at = load_state(r, n);
}

/* Makes a name stand for its elements in the present rows. */
static void enter_rows(rule_run *r, const ast *node, rule_name *n)
{
    bool stored = n->kind == RULE_NAME_STORED, state = n->kind == RULE_NAME_STATE;
    prog_value before = n->begin;
    prog_extent extent = plan_extent(r->b, n->at);
    if (stored)
        before = prog_load(r->b, PLAN_STORED, r->stored_dtype, r->type);
    else if (state && n->begin < 0)
        before = plan_load_state(r->b, state_slot(n, 0), r->type);
    if ((stored || state) && n->at != before)
        REFUSE(r, node, KV_E_USAGE, "`%s` was written before `rows present`", n->text);
    else if (stored)
        n->at = prog_load(r->b, PLAN_STORED + PLAN_PRESENT, r->stored_dtype, r->type);
    else if (state && n->begin >= 0)
        begin_absent(r, n);
    else if (state)
        n->at = load_state(r, n);
    else if (n->kind == RULE_NAME_GIVEN)
        n->at = prog_load(r->b, PLAN_INPUT + PLAN_PRESENT, r->dtype, r->type);
    else if (extent.rows && extent.columns)
        n->at = STALE;
}

/* From here on only the rows that a row_sparse input holds are read and written. */
static void run_rows(rule_run *r, const ast *node)
{
    if (!r->given->sparse_input || r->offset)
        return;
    r->offset = PLAN_PRESENT;
    r->u->rows_present = true;
    for (int i = 0; i < r->env.n && !r->rc; i++)
        if (r->env.names[i].element && r->env.names[i].at >= 0)
            enter_rows(r, node, &r->env.names[i]);
}

/* ---- Other statements ------------------------------------------------------------------------ */

/* Has the plan keep x, as it is now, for the line that is being printed. */
static void print_elements(rule_run *r, const ast *node, prog_value x)
{
    rule_update *u = r->u;
    int slot = (int)u->nprints;
    int64_t integer = 0;
    double fraction = 0;
    prog_extent extent = rule_env_extent(&r->env, node);
    if (slot == PLAN_MAX_PRINTS)
        REFUSE(r, node, KV_E_VALUE, "a rule prints at most %d arrays", PLAN_MAX_PRINTS);
    else
        r->rc = mem_grow(&u->prints, &u->prints_cap, slot + 1, sizeof *u->prints, r->e);
    if (r->rc)
        return;
    rule_print *p = &u->prints[u->nprints++];
    *p = (rule_print){
        .at = u->printed.len, .dtype = prog_dtype(r->type), .extent = RULE_EACH_ELEMENT};
    if (extent.rows && extent.columns) {
        need_fit(r, node, rule_env_find(&r->env, "stored"), x);
        /* halves that nothing was done to are halves, integers are of the key's dtype */
        p->dtype = r->type == PROG_I64 ? r->dtype : prog_value_dtype(r->b, x);
        p->present = r->offset != 0;
        prog_store(r->b, PLAN_PRINT + slot + r->offset, p->dtype, x);
    } else if (prog_value_known(r->b, x, &fraction, &integer)) {
        p->extent = RULE_ONE;
        p->known = true;
        p->value = r->type == PROG_I64 ? host_int(integer) : host_float(fraction);
    } else {
        if (extent.columns)
            REFUSE(r, node, KV_E_UNSUPPORTED, "a rule prints no number for each column");
        p->extent = extent.rows ? RULE_EACH_ROW : RULE_ONE;
        p->present = extent.rows && r->offset;
        prog_store(r->b, (p->present ? PLAN_ROW_PRINT_PRESENT : PLAN_ROW_PRINT) + slot, p->dtype,
                   plan_spread(r->b, x, extent));
    }
}

static void run_print(rule_run *r, const ast *node)
{
    for (uint32_t i = 0; i < node->n && !r->rc; i++) {
        if (i > 0)
            buf_char(&r->u->printed, ' ');
        rule_operand x = {.other = true};
        if (rule_env_is_element(&r->env, node->kid[i]))
            x = rule_element(r, node->kid[i], r->type);
        else
            x.host = rule_host(r, node->kid[i]);
        if (!r->rc && x.other)
            host_print(&r->u->printed, x.host, false);
        else if (!r->rc)
            print_elements(r, node->kid[i], x.v);
    }
    buf_char(&r->u->printed, '\n');
    if (!r->rc)
        r->rc = buf_check(&r->u->printed, r->e);
}

/* The text of `fail` is the error; its place is the statement that caused the update. */
static void run_fail(rule_run *r, const ast *node)
{
    own_buf text = {0};
    host x = rule_host(r, node->kid[0]);
    if (r->rc)
        return;
    host_print(&text, x, false);
    r->rc = kv_err_set(r->e, KV_E_VALUE, "%s", buf_text(&text));
}

/* ---- Branches that are chosen late ---- */

/* Runs one block of an `if` on a number that is known only after the arrays are read; taken: its
 * condition and that of the blocks around it. Returns whether it ends in `skip`. */
static bool run_late(rule_run *r, const ast *block, prog_value taken)
{
    prog_value path = r->path;
    r->path = taken;
    if (block->kind == RULE_IF)
        run_statement(r, block);
    else
        run_block(r, block);
    bool skips = r->ended;
    r->path = path;
    r->ended = false;
    return skips;
}

/* Both blocks are computed; behind one that skips only the other's values are of use. */
static void run_late_if(rule_run *r, const ast *node)
{
    size_t bytes = (size_t)r->env.n * sizeof *r->env.names;
    rule_name *before = arena_alloc(&r->memory, 2 * bytes, r->e), *then;
    if (!before) {
        r->rc = KV_E_MEMORY;
        return;
    }
    then = before + r->env.n;
    r->node = node->kid[0];
    prog_value condition = rule_number(r, node->kid[0], r->type);
    prog_value not = rule_apply(r, PROG_NOT, condition, -1, -1), path = r->path;
    memcpy(before, r->env.names, bytes);
    bool skips = run_late(r, node->kid[1],
                          path < 0 ? condition : rule_apply(r, PROG_AND, path, condition, -1));
    memcpy(then, r->env.names, bytes);
    memcpy(r->env.names, before, bytes);
    bool other = node->n > 2 &&
                 run_late(r, node->kid[2], path < 0 ? not : rule_apply(r, PROG_AND, path, not, -1));
    if (other && !r->rc)
        memcpy(r->env.names, then, bytes);
    for (int i = 0; i < r->env.n && !skips && !other && !r->rc; i++) {
        /* behind both blocks a name is chosen between, where they differ */
        rule_name *n = &r->env.names[i];
        if (n->element && then[i].at != n->at)
            n->at = then[i].at < 0 ? -1 : rule_apply(r, PROG_WHERE, condition, then[i].at, n->at);
        (void)plan_join(&n->extent, then[i].extent); /* else it was refused */
    }
    r->ended = skips && other;
}

static void run_if(rule_run *r, const ast *node)
{
    if (rule_env_is_late_if(&r->env, node)) {
        run_late_if(r, node);
        return;
    }
    host x = rule_host(r, node->kid[0]);
    rule_case_branch(r, x);
    const ast *taken = host_truth(x) ? node->kid[1] : node->n > 2 ? node->kid[2] : NULL;
    if (r->rc || !taken)
        return;
    if (taken->kind == RULE_IF)
        run_if(r, taken);
    else
        run_block(r, taken);
}

static void run_statement(rule_run *r, const ast *node)
{
    switch (node->kind) {
    case RULE_SET:
        run_set(r, node);
        break;
    case RULE_STATE:
        run_state(r, node);
        break;
    case RULE_ROWS:
        run_rows(r, node);
        break;
    case RULE_IF:
        run_if(r, node);
        break;
    case RULE_PRINT:
        run_print(r, node);
        break;
    case RULE_FAIL:
        run_fail(r, node);
        break;
    default: /* RULE_SKIP */
        r->ended = true;
        if (r->path < 0)
            r->u->skipped = true;
        else
            r->skip = r->skip < 0 ? r->path : rule_apply(r, PROG_OR, r->skip, r->path, -1);
    }
}

static void run_block(rule_run *r, const ast *block)
{
    for (uint32_t i = 0; i < block->n && !r->rc && !r->ended; i++)
        run_statement(r, block->kid[i]);
}

void rule_run_body(rule_run *r)
{
    run_block(r, r->binding->rule->body);
}

/* ---- The whole rule -------------------------------------------------------------------------- */

static void give(rule_run *r, const char *name, host x)
{
    rule_env_find(&r->env, name)->number = x;
}

static void give_params(rule_run *r)
{
    const rule_binding *b = r->binding;
    for (int i = 0; i < b->rule->nparams; i++)
        if (rule_is_given(b, i))
            give(r, b->rule->params[i].name, rule_case_param(r, i));
}

/* The numbers that every rule has win over parameters, but in a def, as in Python. */
static void set_given(rule_run *r)
{
    static const char *const inputs[] = {
        [CASE_KEY] = "key", [CASE_NAME] = "name", [CASE_T] = "t",
        [CASE_LR] = "lr",   [CASE_WD] = "wd",     [CASE_BASE_LR] = "base_lr"};
    const rule_binding *b = r->binding;
    if (!b->rule->is_def)
        give_params(r);
    for (int i = CASE_KEY; i <= CASE_BASE_LR; i++)
        give(r, inputs[i], rule_case_input(r, i));
    give(r, "rescale_grad", rule_case_param(r, b->rule->nparams + RULE_RESCALE_GRAD));
    give(r, "clip_gradient", rule_case_param(r, b->rule->nparams + RULE_CLIP_GRADIENT));
    if (b->rule->is_def)
        give_params(r);
    rule_env_find(&r->env, "stored")->at = prog_load(r->b, PLAN_STORED, r->stored_dtype, r->type);
    rule_env_find(&r->env, "input")->at = prog_load(r->b, PLAN_INPUT, r->dtype, r->type);
}

/* x, or behind a `skip` that is known late what the array held. */
static prog_value unless_skipped(rule_run *r, prog_value x, prog_value before)
{
    return r->skip < 0 ? x : rule_apply(r, PROG_WHERE, r->skip, before, x);
}

/* Writes the last values of stored and the states back to their arrays. */
static void store_results(rule_run *r)
{
    prog_value stored =
        unless_skipped(r, rule_env_find(&r->env, "stored")->at,
                       prog_load(r->b, PLAN_STORED + r->offset, r->stored_dtype, r->type));
    for (int i = 0; i < r->env.n; i++) {
        const rule_name *n = &r->env.names[i];
        if (n->kind != RULE_NAME_STATE || !(r->u->states >> n->state & 1))
            continue;
        if (!n->element) {
            r->u->numbers[n->state] = n->number;
            continue;
        }
        prog_value at = r->skip < 0 ? n->at : unless_skipped(r, n->at, load_state(r, n));
        prog_store(r->b, state_slot(n, r->offset), prog_dtype(r->type), at);
    }
    prog_store(r->b, PLAN_STORED + r->offset, r->stored_dtype, stored);
    if (r->given->master)
        prog_store(r->b, PLAN_WEIGHT + r->offset, r->dtype, stored);
}

/* A text would have to outlive the lines that made it. */
static int check_numbers(rule_run *r)
{
    const rule_ast *rule = r->binding->rule;
    for (int i = 0; i < r->env.n; i++) {
        const rule_name *n = &r->env.names[i];
        if (n->kind == RULE_NAME_STATE && r->u->states >> n->state & 1 && !n->element &&
            n->number.kind == HOST_TEXT)
            return source_err(r->binding->src, rule->pos, rule->end, r->e, KV_E_DTYPE,
                              "the state `%s` holds a number, not a text", n->text);
    }
    return KV_OK;
}

static int run_rule(rule_run *r)
{
    const rule_ast *rule = r->binding->rule;
    set_given(r);
    rule_run_body(r);
    bool prints = r->u->nprints > 0;
    int rc = r->rc;
    if (rc || (r->u->skipped && !prints) || (rc = check_numbers(r)))
        return rc;
    if (!r->u->skipped)
        store_results(r);
    if (r->rc)
        return r->rc;
    r->steps |= r->by_rows && r->whole;
    if (r->steps && r->offset) {
        source_err(r->binding->src, rule->pos, rule->end, r->e, KV_E_UNSUPPORTED,
                   "a rule that reduces in several ways, by columns or to a largest number, or "
                   "multiplies matrices, reads every row, so `rows present` has no meaning");
        return kv_err_hint(r->e, "leave it out: rows that are absent count as zeros"),
               KV_E_UNSUPPORTED;
    }
    plan_way way = {r->type, r->by_rows && !r->steps, r->steps, 1, 1};
    if (r->steps) {
        way.rows = rule_length(r, PROG_ROWS).u.integer;
        way.columns = rule_length(r, PROG_COLUMNS).u.integer;
    }
    return plan_make(r->plans ? &r->u->plan : NULL, r->b, way, r->e);
}

int rule_case_make(const rule_binding *b, const rule_given *given, bool plans, rule_update *u,
                   rule_case **out, kv_err *e)
{
    kv_err unused = {0};
    rule_run r = {.binding = b,
                  .given = given,
                  .dtype = given->dtype,
                  .stored_dtype = given->master ? KV_FLOAT32 : given->dtype,
                  .type = prog_type_of(given->dtype),
                  .path = -1,
                  .skip = -1,
                  .plans = plans,
                  .u = u,
                  .e = e ? e : &unused};
    *u = (rule_update){0};
    int rc = rule_env_init(&r.env, b->rule, &r.memory, r.e);
    if (!rc && !(r.b = prog_builder_new(r.e)))
        rc = KV_E_MEMORY;
    if (!rc && out)
        r.note = rule_case_begin(&r); /* without memory the next push compiles again */
    if (!rc)
        rc = run_rule(&r);
    if (out)
        *out = rule_case_end(&r, rc);
    prog_builder_free(r.b);
    arena_release(&r.memory);
    if (rc)
        rule_update_release(u);
    return rc;
}

void rule_update_release(rule_update *u)
{
    buf_release(&u->printed);
    mem_free(u->prints);
    plan_free(u->plan);
    *u = (rule_update){0};
}
