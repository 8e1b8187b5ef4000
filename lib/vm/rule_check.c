/* The checks of a rule before it runs. Names have values on every path, host and
 * element values stand where they may, `stored` is written, functions exist. */
#include <string.h>

#include "base/suggest.h"
#include "vm/element.h"
#include "vm/rule.h"
#include "vm/rule_env.h"

typedef struct checker {
    const rule_ast *rule;
    const source *src;
    rule_env env;
    arena *memory;
    bool wrote_stored;
    bool rows;             /* behind `rows present`, on some path */
    bool late;             /* in a block of which it is known late whether it runs */
    const ast *late_skip;  /* a `skip` there, or NULL */
    const char *sets;      /* the name that the statement gives a value, or NULL */
    const ast *kept_early; /* what a state is given that such a `skip` could not undo, or NULL */
    kv_err *e;
} checker;

#define REFUSE(c, node, code, ...)                                                                 \
    source_err((c)->src, (node)->pos, (node)->end, (c)->e, code, __VA_ARGS__)

/* ---- Expressions ----------------------------------------------------------------------------- */

static int has_no_value(checker *c, const ast *node)
{
    const char *name = node->u.text;
    REFUSE(c, node, KV_E_USAGE, "`%s` has no value here", name);
    if (rule_hint_other_word(c->rule, name, c->e))
        return c->e->code;
    if (c->rule->is_def)
        kv_err_hint(c->e,
                    "give it one above; `state shared %s = 0` keeps a number from update to update",
                    name);
    if (!c->rule->is_merge && c->sets && strcmp(c->sets, name) == 0)
        kv_err_hint(c->e,
                    "`state %s` above makes it an array that stays from update to update, "
                    "of zeros at first",
                    name);
    return kv_err_hint(c->e, "give it one above, on every path that leads here"), KV_E_USAGE;
}

/* of_rule names what rules have; a def has names of its own, and a merge none of them: these get
 * what stands behind, where it is not NULL. */
static int hint(checker *c, const char *of_rule, const char *of_def, const char *of_merge)
{
    const char *text = c->rule->is_merge ? of_merge : c->rule->is_def ? of_def : of_rule;
    if (text)
        kv_err_hint(c->e, "%s", text);
    return KV_E_USAGE;
}

/* Functions that other languages have, and how a rule says them. */
static const char *const said_otherwise[][2] = {{"dot", "matmul(x, T(y))"},
                                                {"transpose", "T(x)"},
                                                {"any", "max(x > 0)"},
                                                {"all", "min(x > 0)"}};

/* Merges go over files, where whole rows and columns are not at hand. */
static bool is_there(const checker *c, const element_function *f)
{
    bool absent = f->traits & (FN_BY_ROW | FN_BY_COLUMN) || f->kind == FN_TURNED ||
                  f->kind == FN_NORMAL || f->kind == FN_SPARSE;
    return c->rule->is_merge ? !absent : !(f->traits & FN_MERGES);
}

static int unknown_function(checker *c, const ast *node)
{
    REFUSE(c, node, KV_E_USAGE, "a %s knows no function `%s`", c->rule->is_merge ? "merge" : "rule",
           node->u.text);
    for (size_t i = 0; !c->rule->is_merge && i < sizeof said_otherwise / sizeof *said_otherwise;
         i++)
        if (strcmp(node->u.text, said_otherwise[i][0]) == 0)
            return kv_err_hint(c->e, "for example: %s", said_otherwise[i][1]), KV_E_USAGE;
    suggest near = {.word = node->u.text};
    for (int i = 0; i < element_function_count; i++)
        if (element_find(element_functions[i].name) == &element_functions[i] &&
            is_there(c, &element_functions[i]))
            suggest_add(&near, element_functions[i].name);
    suggest_done(&near, c->e);
    return kv_err_hint(c->e, "help rules lists those that it knows"), KV_E_USAGE;
}

/* axis= is what people write who know NumPy. */
static int named_argument(checker *c, const ast *node)
{
    REFUSE(c, node, KV_E_USAGE, "functions of rules take no named arguments");
    if (strcmp(node->u.text, "axis") != 0)
        return KV_E_USAGE;
    if (c->rule->is_merge)
        return kv_err_hint(c->e, "mean(x) of a merge is one number for the whole array"),
               KV_E_USAGE;
    return kv_err_hint(c->e, "colmean(x) is mean(x, axis=0), and rowmean(x) is mean(x, axis=1)"),
           KV_E_USAGE;
}

static bool is_array_name(const checker *c, const ast *node)
{
    const rule_name *n = node->kind == AST_NAME ? rule_env_find(&c->env, node->u.text) : NULL;
    return n && n->element && (n->kind == RULE_NAME_GIVEN || n->kind == RULE_NAME_STORED);
}

/* What functions of merges take beside an array is known before the arrays are read. */
static int check_call_of_merge(checker *c, const ast *node, const element_function *f)
{
    bool of_arrays = f->kind == FN_COSINE || !(f->traits & FN_MERGES);
    for (uint32_t i = f->kind != FN_UNIFORM; i < node->n && !of_arrays; i++)
        if (rule_env_is_element(&c->env, node->kid[i]))
            return REFUSE(c, node->kid[i], KV_E_USAGE,
                          "%s takes a number here that is known before the arrays are read",
                          f->name);
    if (f->kind == FN_MATMUL) {
        bool low_rank = true;
        for (uint32_t i = 0; i < node->n; i++)
            low_rank &= node->kid[i]->kind == AST_NAME &&
                        strncmp(node->kid[i]->u.text, i ? "lora_A[" : "lora_B[", 7) == 0;
        if (!low_rank || strcmp(node->kid[0]->u.text + 6, node->kid[1]->u.text + 6) != 0)
            return REFUSE(c, node, KV_E_USAGE,
                          "matmul of a merge is of lora_B and lora_A of one model");
    }
    uint32_t arrays = f->kind == FN_COSINE ? 2
                      : f->kind == FN_LARGEST || f->kind == FN_QUANTILE || f->kind == FN_ROWRANK
                          ? 1
                          : 0;
    for (uint32_t i = 0; i < arrays; i++)
        if (!rule_env_is_element(&c->env, node->kid[i]))
            return REFUSE(c, node, KV_E_USAGE, "%s takes an array, and this holds none", f->name);
    return KV_OK;
}

/* Returns true if the rule reads the name and does not define it, as `math`. */
static bool is_outside(const rule_ast *r, const char *name)
{
    for (int i = 0; i < r->nparams; i++)
        if (strcmp(r->params[i].name, name) == 0)
            return !r->params[i].value;
    return false;
}

static int check_call(checker *c, const ast *node)
{
    const element_function *f = element_called(node);
    if (!f || !is_there(c, f))
        return unknown_function(c, node);
    if (f->kind == FN_ENDSWITH && rule_env_is_element(&c->env, node))
        return REFUSE(c, node, KV_E_USAGE, "endswith takes texts, not arrays");
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i]->kind == AST_ARG)
            return named_argument(c, node->kid[i]);
    int rc = element_check_count(f, (int)node->n, c->e);
    if (rc) {
        source_at(c->src, node->pos, node->end, c->e);
        const ast *of = node->flags & AST_METHOD ? node->kid[0] : NULL; /* math.sqrt(x) */
        if (of && of->kind == AST_NAME && is_outside(c->rule, of->u.text))
            kv_err_hint(c->e, "functions have no module here: %.*s", (int)(node->end - of->end - 1),
                        c->src->text + of->end + 1);
        return rc;
    }
    if (f->traits & FN_ASKS && !is_array_name(c, node->kid[0]))
        return REFUSE(c, node, KV_E_USAGE, "%s takes %s", f->name,
                      c->rule->is_merge ? "a model or `base`" : "`input` or `stored`");
    if (f->traits & FN_MERGES || (c->rule->is_merge && f->traits & FN_MATRIX))
        return check_call_of_merge(c, node, f);
    for (uint32_t i = 0; i < node->n && f->traits & (FN_REDUCES | FN_MATRIX); i++)
        if (!rule_env_is_element(&c->env, node->kid[i]))
            return REFUSE(c, node, KV_E_USAGE, "%s takes an array, and this holds none", f->name);
    return KV_OK;
}

static int check_expr(checker *c, const ast *node, bool element);

/* Tuples stand only behind the % of a text. */
static int no_tuple(checker *c, const ast *node)
{
    return REFUSE(c, node, KV_E_USAGE, "a rule has no tuples but behind a text and %%");
}

/* A text may stand among elements only to be compared: with another text. */
static int check_among_elements(checker *c, const ast *node, const ast *kid)
{
    bool compares = node->kind == AST_BINARY && node->op >= OP_EQ && node->op <= OP_GE;
    bool text = kid->kind == AST_TEXT || kid->kind == AST_FTEXT;
    const element_function *f = element_called(node);
    if (!text || compares || (f && f->kind == FN_ENDSWITH))
        return KV_OK;
    return REFUSE(c, kid, KV_E_USAGE, "a text cannot be computed with arrays");
}

static int check_kids(checker *c, const ast *node, bool element)
{
    for (uint32_t i = 0; i < node->n; i++) {
        bool values = node->kind == AST_BINARY && node->op == OP_MOD && i == 1;
        if (element)
            TRY(check_among_elements(c, node, node->kid[i]));
        TRY(check_expr(c, node->kid[i], element));
        if (node->kid[i]->kind == AST_TUPLE && !values)
            return no_tuple(c, node->kid[i]);
    }
    return KV_OK;
}

/* An expression; element: it is computed with arrays. */
static int check_expr(checker *c, const ast *node, bool element)
{
    switch (node->kind) {
    case AST_INT:
    case AST_FLOAT:
    case AST_TEXT:
    case AST_BOOL:
    case AST_NONE:
        return KV_OK;
    case AST_NAME: {
        const rule_name *n = rule_env_find(&c->env, node->u.text);
        return n && n->known ? KV_OK : has_no_value(c, node);
    }
    case AST_UNARY:
    case AST_BINARY:
        return check_kids(c, node, element);
    case AST_CALL:
        TRY(check_call(c, node));
        return check_kids(c, node, element);
    case AST_FTEXT:
    case AST_FIELD:
        if (rule_env_is_element(&c->env, node))
            return REFUSE(c, node, KV_E_USAGE,
                          "a text holds what is known before the arrays are read, and this is %s",
                          rule_env_is_one(&c->env, node)
                              ? "a number that is known only after the arrays are read"
                              : "an array"),
                   hint(c, "print(input, sum(input)) prints values as they are",
                        "print prints values as they are", NULL);
        return check_kids(c, node, false);
    case AST_TUPLE: /* behind % of a text */
        return check_kids(c, node, element);
    case AST_CHOICE:
        REFUSE(c, node, KV_E_USAGE, "a rule has no `a if c else b`");
        return kv_err_hint(c->e, "where(c, a, b) of elements; if c { … } else { … } of numbers"),
               KV_E_USAGE;
    case AST_INDEX:
        REFUSE(c, node, KV_E_USAGE, "a rule holds numbers, texts and arrays, but not this");
        if (node->kid[0]->kind == AST_NAME && node->kid[1]->kind == AST_NAME && !c->rule->is_merge)
            kv_err_hint(c->e, RULE_STATE_HINT, node->kid[0]->u.text, node->kid[0]->u.text,
                        node->kid[0]->u.text);
        return kv_err_hint(c->e, "where(c, a, b) chooses between a and b for each element"),
               KV_E_USAGE;
    default: /* the other kinds of expressions */
        REFUSE(c, node, KV_E_USAGE, "a rule holds numbers, texts and arrays, but not this");
        if (node->kind == AST_AT && node->op)
            return hint(c,
                        "matmul(x, T(y)) multiplies matrices; matmul(matmul(x, T(y)), x) fits "
                        "into stored",
                        "matmul(x, T(y)) multiplies matrices", NULL);
        if (node->kind == AST_AT)
            return kv_err_hint(c->e, "a rule runs where the arrays of its key are"), KV_E_USAGE;
        if (node->kind == AST_TEST)
            return hint(c, "== and != compare, `or` joins: key == 1 or key == 2",
                        "== and != compare, `or` joins", "== and != compare, `or` joins");
        return hint(c, "operators go over all elements: stored -= 0.1 * input",
                    "operators go over all elements", "operators go over all elements");
    }
}

static int check_whole(checker *c, const ast *node)
{
    TRY(check_expr(c, node, rule_env_is_element(&c->env, node)));
    return node->kind == AST_TUPLE ? no_tuple(c, node) : KV_OK;
}

/* ---- Statements ------------------------------------------------------------------------------ */

static int check_block(checker *c, const ast *block);

/* Returns true if an expression behind `rows present` has no value in absent rows: it reads a name
 * that only present rows were given, or the numbers of rows. */
static bool is_late(const checker *c, const ast *node)
{
    if (node->kind == AST_NAME) {
        const rule_name *n = rule_env_find(&c->env, node->u.text);
        return n->late || (n->kind == RULE_NAME_STATE && n->element);
    }
    const element_function *f = element_called(node);
    bool late = f && f->traits & FN_BY_ROW;
    for (uint32_t i = 0; i < node->n; i++)
        late |= node->kid[i] && is_late(c, node->kid[i]);
    return late;
}

/* A `state key` or `state shared` is set before the arrays are read. sum(x) and norm(x) are numbers
 * too, but known only afterwards. */
static int not_host_number(checker *c, const ast *node, const ast *value, const char *name)
{
    REFUSE(c, node, KV_E_USAGE, "state %s is set before the arrays are read, and this is %s", name,
           rule_env_is_one(&c->env, value) ? "a number that is known only after the arrays are read"
                                           : "an array");
    return kv_err_hint(c->e, "`state %s` keeps an array, also one that a sum or norm fills", name),
           KV_E_USAGE;
}

/* What can be undone by no choice between arrays does not stand in a block of which it is known
 * late whether it runs. */
static int check_late(checker *c, const ast *node, const char *what)
{
    if (!c->late)
        return KV_OK;
    REFUSE(c, node, KV_E_USAGE,
           "%s stands in an `if` on a number that is known only after the arrays are read", what);
    return kv_err_hint(c->e, "there names get values, or `skip` leaves the key as it is"),
           KV_E_USAGE;
}

static int check_set(checker *c, const ast *node)
{
    c->sets = node->u.text;
    int rc = check_whole(c, node->kid[0]);
    c->sets = NULL;
    TRY(rc);
    rule_name *n = rule_env_find(&c->env, node->u.text);
    if (n->kind == RULE_NAME_PARAM)
        return REFUSE(c, node, KV_E_USAGE, "`%s` is a parameter and keeps its value", n->text);
    if (n->kind == RULE_NAME_GIVEN) {
        REFUSE(c, node, KV_E_USAGE, "`%s` is given and keeps its value", n->text);
        if (!c->rule->is_merge && strcmp(n->text, "t") == 0)
            kv_err_hint(c->e, "it counts the updates of the key already, with this one");
        return KV_E_USAGE;
    }
    if (n->kind == RULE_NAME_STATE && !n->known)
        return has_no_value(c, node);
    bool number = n->kind == RULE_NAME_STATE && !n->element;
    if (number && rule_env_is_element(&c->env, node->kid[0]))
        return not_host_number(c, node, node->kid[0], n->text);
    if (number)
        TRY(check_late(c, node, "a state that is one number"));
    c->kept_early = number ? node : c->kept_early;
    if (n->kind == RULE_NAME_STORED)
        c->wrote_stored = true;
    n->known = true;
    n->extent = rule_env_extent(&c->env, node->kid[0]);
    /* once so on one path, it counts as so on all */
    n->late |= c->rows && (n->kind != RULE_NAME_SET || is_late(c, node->kid[0]));
    return KV_OK;
}

/* The names as they are at the end of a path, to compare it with another. */
static rule_name *save_names(checker *c)
{
    size_t bytes = (size_t)c->env.n * sizeof *c->env.names;
    rule_name *names = arena_alloc(c->memory, bytes, c->e);
    if (names)
        memcpy(names, c->env.names, bytes);
    return names;
}

static int check_if(checker *c, const ast *node)
{
    TRY(check_whole(c, node->kid[0]));
    if (!rule_env_is_one(&c->env, node->kid[0])) {
        REFUSE(c, node->kid[0], KV_E_USAGE, "`if` takes one number, and this is an array");
        return kv_err_hint(c->e, "choose element by element: where(condition, a, b)"), KV_E_USAGE;
    }
    rule_name *before = save_names(c);
    bool rows = c->rows, late = c->late;
    if (!before)
        return KV_E_MEMORY;
    c->late |= rule_env_is_late_if(&c->env, node);
    TRY(check_block(c, node->kid[1]));
    rule_name *then = save_names(c);
    if (!then)
        return KV_E_MEMORY;
    for (int i = 0; i < c->env.n; i++) {
        c->env.names[i].known = before[i].known;
        c->env.names[i].extent = before[i].extent;
    }
    bool then_rows = c->rows;
    c->rows = rows;
    const ast *other = node->n > 2 ? node->kid[2] : NULL;
    if (other)
        TRY(other->kind == RULE_IF ? check_if(c, other) : check_block(c, other));
    /* both paths joined: known if both know it, one number if both are */
    for (int i = 0; i < c->env.n; i++) {
        c->env.names[i].known &= then[i].known;
        (void)plan_join(&c->env.names[i].extent, then[i].extent); /* a use of it is refused */
    }
    c->rows |= then_rows;
    c->late = late;
    return KV_OK;
}

static int check_state(checker *c, const ast *node)
{
    if (node->n > 0)
        TRY(check_whole(c, node->kid[0]));
    rule_name *n = rule_env_find(&c->env, node->u.text);
    TRY(check_late(c, node, "a state that begins"));
    if (n->kind != RULE_NAME_STATE)
        return REFUSE(c, node, KV_E_USAGE, "`%s` is taken, so no state can be called so", n->text);
    if (n->known)
        return REFUSE(c, node, KV_E_USAGE, "state %s is declared twice", n->text);
    if (n->how != node->op)
        return REFUSE(c, node, KV_E_USAGE, "state %s is declared in two ways", n->text);
    if (n->state >= PLAN_MAX_STATES)
        return REFUSE(c, node, KV_E_USAGE, "a rule has at most %d states", PLAN_MAX_STATES);
    if (node->n > 0 && !n->element && rule_env_is_element(&c->env, node->kid[0]))
        return not_host_number(c, node, node->kid[0], n->text);
    if (node->n > 0 && rule_env_is_element(&c->env, node->kid[0]))
        c->kept_early = node;
    if (node->n > 0 && n->element && c->rows && is_late(c, node->kid[0])) {
        REFUSE(c, node, KV_E_USAGE,
               "state %s begins with what absent rows do not have behind `rows present`", n->text);
        return kv_err_hint(c->e, "declare it above `rows present`, or begin with a number"),
               KV_E_USAGE;
    }
    n->known = true;
    return KV_OK;
}

static int check_statement(checker *c, const ast *node)
{
    switch (node->kind) {
    case RULE_STATE:
        return check_state(c, node);
    case RULE_ROWS:
        c->rows = true;
        return check_late(c, node, "`rows present`");
    case RULE_SET:
        return check_set(c, node);
    case RULE_IF:
        return check_if(c, node);
    case RULE_FAIL:
        TRY(check_late(c, node, "`fail`"));
        TRY(check_whole(c, node->kid[0]));
        return rule_env_is_element(&c->env, node->kid[0])
                   ? REFUSE(c, node->kid[0], KV_E_USAGE, "`fail` takes a text, not an array")
                   : KV_OK;
    case RULE_PRINT:
        TRY(check_late(c, node, "`print`"));
        for (uint32_t i = 0; i < node->n; i++)
            TRY(check_whole(c, node->kid[i]));
        return KV_OK;
    default: /* RULE_SKIP */
        c->late_skip = c->late ? node : c->late_skip;
        return KV_OK;
    }
}

static int check_block(checker *c, const ast *block)
{
    for (uint32_t i = 0; i < block->n; i++)
        TRY(check_statement(c, block->kid[i]));
    return KV_OK;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static int check_param(checker *c, int which)
{
    const rule_param *p = &c->rule->params[which];
    if (!p->value)
        return KV_OK;
    const rule_name *n = rule_env_find(&c->env, p->name);
    if (n->kind != RULE_NAME_PARAM && rule_base_find(p->name) < 0) {
        REFUSE(c, p, KV_E_USAGE, "`%s` is given, so no parameter can be called so", p->name);
        if (strcmp(p->name, "base_lr") == 0)
            kv_err_hint(c->e, "call it learning_rate");
        return KV_E_USAGE;
    }
    for (int i = 0; i < which; i++)
        if (strcmp(c->rule->params[i].name, p->name) == 0)
            return REFUSE(c, p, KV_E_USAGE, "there are two parameters `%s`", p->name);
    if (!p->low)
        return KV_OK;
    host value = host_literal(p->value), low = host_literal(p->low), high = host_literal(p->high);
    bool numbers = host_is_number(low) && host_is_number(high) &&
                   (host_is_number(value) || value.kind == HOST_NONE);
    if (!numbers)
        return REFUSE(c, p, KV_E_USAGE, "a range is of numbers");
    return rule_param_allows(p, value)
               ? KV_OK
               : REFUSE(c, p, KV_E_USAGE, "the default of `%s` lies outside its range", p->name);
}

/* ---- Names from outside ---------------------------------------------------------------------- */

static bool is_param(const rule_ast *r, const char *name)
{
    for (int i = 0; i < r->nparams; i++)
        if (strcmp(r->params[i].name, name) == 0 ||
            (r->params[i].is_lr && strcmp(name, "lr") == 0))
            return true;
    return false;
}

/* Adds the names that the rule reads and does not define to its parameters. */
static int add_outside(const checker *c, rule_ast *r, const ast *node, arena *a)
{
    if (node->kind == AST_NAME) {
        const char *name = node->u.text;
        const rule_name *known = rule_env_find(&c->env, name);
        bool taken = r->is_def && known && known->kind == RULE_NAME_GIVEN && rule_gives(name) &&
                     strcmp(name, "key") != 0;
        rule_param one = {.name = name, .pos = node->pos, .end = node->end};
        if ((known && !taken) || is_param(r, name))
            return KV_OK;
        return rule_add_param(r, &one, a, c->e) ? KV_OK : KV_E_MEMORY;
    }
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i])
            TRY(add_outside(c, r, node->kid[i], a));
    return KV_OK;
}

int rule_check(rule_ast *r, const source *s, arena *a, kv_err *e)
{
    kv_err unused = {0};
    own_arena memory = {0};
    checker c = {.rule = r, .src = s, .memory = &memory, .e = e ? e : &unused};
    r->params_cap = 0; /* a copy of a rule has the list of the rule */
    TRY(rule_env_init(&c.env, r, &memory, c.e));
    for (int i = 0; i < r->nparams; i++)
        TRY(check_param(&c, i));
    TRY(add_outside(&c, r, r->body, a));
    TRY(rule_env_init(&c.env, r, &memory, c.e));
    TRY(check_block(&c, r->body));
    if (c.late_skip && c.kept_early) {
        REFUSE(&c, c.kept_early, KV_E_USAGE,
               "the `skip` of an `if` on a number that is known only after the arrays are read "
               "does not undo this");
        return kv_err_hint(c.e, "`state NAME`, an array that begins with a number, can be left as "
                                "it was"),
               KV_E_USAGE;
    }
    bool fails = r->is_merge && r->body->n > 0 && r->body->kid[r->body->n - 1]->kind == RULE_FAIL;
    if (c.wrote_stored || fails)
        return KV_OK;
    source_err(s, r->pos, r->end, c.e, KV_E_USAGE, "the rule never writes `%s`",
               r->is_merge ? "merged" : "stored");
    return kv_err_hint(c.e, r->is_merge ? "for example: merged = sum(models) / len(models)"
                                        : "for example: stored += input"),
           KV_E_USAGE;
}

/* ---- Facts about updates --------------------------------------------------------------------- */

/* What the text of a rule tells: the parts of a key that can be updated by themselves, and the
 * states that it keeps. */
typedef struct traits {
    uint32_t states; /* by rule_state: 1 << STATE_ROW, … */
    rule_cut cut;
} traits;

static void cut_no_finer(traits *t, rule_cut cut)
{
    t->cut = cut > t->cut ? cut : t->cut;
}

static void walk(traits *t, const ast *node)
{
    const element_function *f = element_called(node);
    if (f) {
        bool by_row = f->traits & FN_BY_ROW, measures = f->traits & FN_MEASURES;
        bool asks = f->traits & FN_ASKS && !measures;
        if (measures || f->traits & FN_STEPS)
            cut_no_finer(t, RULE_CUT_NOWHERE);
        else if (by_row || asks)
            cut_no_finer(t, RULE_CUT_BY_ROWS);
        else if (f->traits & (FN_REDUCES | FN_MATRIX | FN_DRAWS))
            cut_no_finer(t, RULE_CUT_NOWHERE);
    }
    if (node->kind == RULE_STATE)
        t->states |= 1u << node->op;
    if (node->kind == RULE_ROWS)
        cut_no_finer(t, RULE_CUT_BY_ROWS);
    if (node->kind == RULE_PRINT)
        cut_no_finer(t, RULE_CUT_NOWHERE);
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i])
            walk(t, node->kid[i]);
}

static traits traits_of(const rule_ast *r)
{
    traits t = {.cut = RULE_CUT_ANYWHERE};
    walk(&t, r->body);
    if (t.states & 1u << STATE_ROW)
        cut_no_finer(&t, RULE_CUT_BY_ROWS);
    if (t.states & 1u << STATE_COLUMN)
        cut_no_finer(&t, RULE_CUT_NOWHERE);
    return t;
}

static const ast *reader(const ast *node, const char *name)
{
    const ast *found = node->kind == AST_NAME && strcmp(node->u.text, name) == 0 ? node : NULL;
    for (uint32_t i = 0; i < node->n && !found; i++)
        found = node->kid[i] ? reader(node->kid[i], name) : NULL;
    return found;
}

const ast *rule_reader(const rule_ast *r, const char *name)
{
    return reader(r->body, name);
}

rule_cut rule_cuts(const rule_ast *r)
{
    return traits_of(r).cut;
}

bool rule_has_state(const rule_ast *r, rule_state how)
{
    return traits_of(r).states >> how & 1;
}

int rule_states(const rule_ast *r, rule_state_info out[PLAN_MAX_STATES], int *n, kv_err *e)
{
    rule_env env;
    own_arena memory = {0};
    int rc = rule_env_init(&env, r, &memory, e);
    for (int i = 0; !rc && i < env.n; i++)
        if (env.names[i].kind == RULE_NAME_STATE)
            out[env.names[i].state] =
                (rule_state_info){env.names[i].text, (rule_state)env.names[i].how};
    *n = rc ? 0 : env.nstates;
    return rc;
}
