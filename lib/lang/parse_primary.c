/* Primaries, which have no operator outside brackets: numbers, names, calls, $name, files;
 * displays, which write a list, a tuple or a dict in brackets, item by item or as a comprehension;
 * the postfixes behind primaries, [index], .method() and @device; and targets, the names and items
 * that are given values. */
#include <string.h>

#include "lang/parse.h"

/* ---- Targets ---- */

const char *parse_new_name(parser *p, const char *wanted)
{
    token t = *parse_peek(p);
    double number;
    if (t.kind != TOK_NAME)
        return (parse_unexpected(p, wanted), NULL);
    const char *name = parse_token_text(p, &t);
    if (!name)
        return NULL;
    bool reserved = parse_is_reserved(name);
    if (reserved || parse_is_constant(name, strlen(name), &number)) {
        parse_fail(p, t.pos, t.end, KV_E_SYNTAX, "`%s` is a %s", name,
                   reserved ? "word of the language" : "constant");
        kv_err_hint(p->e, "it has a meaning of its own, so it names nothing else: take %s_", name);
        return NULL;
    }
    parse_take(p);
    parse_made(p, name);
    return name;
}

ast *parse_starred(parser *p)
{
    token t = *parse_peek(p);
    parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "`*` unpacks nothing here");
    kv_err_hint(p->e, t.sign == SIGN2('*', '*')
                          ? "d.update(e) puts what the dict e holds into d"
                          : "name each item, or take a slice: first = l[0]; rest = l[1:]");
    return NULL;
}

static ast *targets(parser *p);

static ast *target(parser *p)
{
    token t = *parse_peek(p);
    bracket b;
    bool item = false;
    if (parse_is_sign(p, SIGN1('*')))
        return parse_starred(p);
    if (parse_is_sign(p, SIGN1('(')) || parse_is_sign(p, SIGN1('['))) {
        ast *inner = parse_open(p, &b) ? targets(p) : NULL;
        return inner && parse_close(p, &b) ? inner : NULL;
    }
    if (t.kind == TOK_NAME) {
        parse_take(p);
        item = parse_is_sign(p, SIGN1('[')) || parse_is_sign(p, SIGN1('.'));
        parse_seek(p, t.pos);
    }
    if (item)
        return parse_primary(p);
    return parse_node_named(p, AST_NAME, t.pos, parse_new_name(p, "the name of a variable"), NULL,
                            0);
}

/* target, target, … */
static ast *targets(parser *p)
{
    ast_list list = {0};
    bool comma = false, more = true;
    uint32_t pos = parse_peek(p)->pos;
    while (more) {
        if (!parse_append(p, &list, target(p)))
            return NULL;
        bool another = parse_accept(p, SIGN1(','));
        comma |= another;
        more = another && (parse_peek(p)->kind == TOK_NAME
                               ? !parse_is_word(p, "in")
                               : parse_is_sign(p, SIGN1('(')) || parse_is_sign(p, SIGN1('[')) ||
                                     parse_is_sign(p, SIGN1('*')));
    }
    return comma ? parse_node_of(p, AST_TUPLE, pos, list.items, list.n) : list.items[0];
}

/* Items are those of variables: what a call gives has no name to change it by. */
static bool check_targets(parser *p, const ast *node)
{
    const ast *base = node;
    bool ok = true;
    for (uint32_t i = 0; node->kind == AST_TUPLE && i < node->n && ok; i++)
        ok = check_targets(p, node->kid[i]);
    while (base->kind == AST_INDEX)
        base = base->kid[0];
    if (ok && base->kind != AST_NAME && node->kind != AST_TUPLE)
        return parse_fail(p, node->pos, node->end, KV_E_SYNTAX,
                          "only a name or an index of one can be given a value");
    return ok;
}

ast *parse_targets(parser *p)
{
    ast *node = targets(p);
    return node && check_targets(p, node) ? node : NULL;
}

bool parse_begins_assignment(parser *p)
{
    kv_err unused = {0};
    parser before = *p;
    /* cppcheck-suppress autoVariables ; parse_back brings the old one back */
    p->e = &unused; /* only a look ahead: an error shows again when it is parsed */
    const ast *node = targets(p);
    int op = node ? parse_assign_op(p) : PARSE_NO_ASSIGN;
    parse_back(p, &before);
    parse_looked(p, before.e, &unused);
    return op == PARSE_PLAIN || (op != PARSE_NO_ASSIGN && node->kind != AST_TUPLE);
}

/* ---- Comprehensions ---- */

/* for TARGETS in LIST, of which `for` was taken. */
static ast *for_clause(parser *p, uint32_t pos)
{
    ast *pair[2] = {parse_targets(p), NULL};
    if (!pair[0] || !parse_expect_word(p, "in") || !(pair[1] = parse_disjunction(p)))
        return NULL;
    return parse_node_of(p, AST_FOR, pos, pair, 2);
}

/* `for` clauses behind the body of a comprehension that began at pos. Gives AST_COMP or, of
 * `for 4 gpus`, AST_COPIES. */
static ast *comprehension(parser *p, ast *body, uint32_t pos)
{
    ast_list parts = {0};
    token t = parse_take(p);
    if (parse_peek(p)->kind == TOK_INT || parse_is_sign(p, SIGN1('$'))) {
        /* [E for COUNT gpus] */
        ast *pair[2] = {body, parse_operand(p)};
        bool gpus = parse_is_word(p, "gpus");
        if (!pair[1])
            return NULL;
        if (!gpus && !parse_is_word(p, "cpus"))
            return parse_unexpected(p, "`gpus` or `cpus`");
        parse_take(p);
        ast *node = parse_node_of(p, AST_COPIES, pos, pair, 2);
        if (node)
            node->op = gpus;
        return node;
    }
    bool ok = parse_append(p, &parts, body) && parse_append(p, &parts, for_clause(p, t.pos));
    while (ok) {
        t = *parse_peek(p);
        if (parse_accept_word(p, "for"))
            ok = parse_append(p, &parts, for_clause(p, t.pos));
        else if (parse_accept_word(p, "if")) {
            ast *condition = parse_disjunction(p);
            ok = parse_append(p, &parts,
                              condition ? parse_node_of(p, AST_ONLY, t.pos, &condition, 1) : NULL);
        } else {
            return parse_node_of(p, AST_COMP, pos, parts.items, parts.n);
        }
    }
    return NULL;
}

/* ---- Lists and tuples ---- */

static ast *list(parser *p)
{
    ast_list items = {0};
    bracket b;
    if (!parse_open(p, &b))
        return NULL;
    while (!parse_is_sign(p, SIGN1(']'))) {
        if (!parse_append(p, &items, parse_expression(p)))
            return NULL;
        if (items.n == 1 && parse_is_word(p, "for")) {
            ast *node = comprehension(p, items.items[0], b.pos);
            if (!node || !parse_close(p, &b))
                return NULL;
            node->end = p->last;
            return node;
        }
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    return parse_close(p, &b) ? parse_node_of(p, AST_LIST, b.pos, items.items, items.n) : NULL;
}

/* `for` clauses behind body, which is the only argument of a function: AST_COMP or, of
 * `for 4 gpus`, AST_COPIES. An error for a function that does not take in a whole list, since there
 * are no generators. */
static ast *generator(parser *p, const char *function, ast *body)
{
    static const char *const takers[] = {"sum", "any",  "all",   "max",    "min",  "list",
                                         "len", "dict", "tuple", "sorted", "join", "array"};
    token t = *parse_peek(p);
    for (size_t i = 0; i < sizeof takers / sizeof *takers; i++)
        if (strcmp(function, takers[i]) == 0)
            return comprehension(p, body, body->pos);
    parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "there are no generators");
    kv_err_hint(p->e, "a list: [x for x in l]");
    return NULL;
}

static ast *parens(parser *p)
{
    ast_list items = {0};
    bool comma = false;
    bracket b;
    if (!parse_open(p, &b))
        return NULL;
    while (!parse_is_sign(p, SIGN1(')'))) {
        if (!parse_append(p, &items, parse_expression(p)))
            return NULL;
        comma = parse_accept(p, SIGN1(','));
        if (!comma)
            break;
    }
    if (items.n == 1 && parse_is_word(p, "for"))
        return generator(p, "", items.items[0]);
    if (!parse_close(p, &b))
        return NULL;
    if (items.n != 1 || comma)
        return parse_node_of(p, AST_TUPLE, b.pos, items.items, items.n);
    ast *node = items.items[0];
    node->flags |= AST_PARENS;
    node->pos = b.pos;
    node->end = p->last;
    return node;
}

/* ---- Dicts ---- */

/* key: value, appended to parts. */
static bool pair(parser *p, const bracket *b, ast_list *parts)
{
    if (!parse_append(p, parts, parse_expression(p)))
        return false;
    if (parse_is_sign(p, SIGN1(',')) || parse_is_sign(p, SIGN1('}')) || parse_is_word(p, "for")) {
        parse_fail(p, b->pos, b->pos + 1, KV_E_UNSUPPORTED, "there are no sets");
        kv_err_hint(p->e, "a list: [1, 2]; a dict: {'a': 1, 'b': 2}");
        return false;
    }
    return parse_expect(p, SIGN1(':'), "`:` and the value of a key") &&
           parse_append(p, parts, parse_expression(p));
}

static ast *dict(parser *p)
{
    ast_list parts = {0};
    ast *node = NULL;
    bracket b;
    if (!parse_open(p, &b))
        return NULL;
    p->lx.in_brackets = true; /* here { } is a bracket, no block */
    while (!parse_is_sign(p, SIGN1('}'))) {
        if (parse_is_sign(p, SIGN2('*', '*')))
            return parse_starred(p);
        if (!pair(p, &b, &parts))
            return NULL;
        if (parts.n == 2 && parse_is_word(p, "for")) {
            /* {key: value for …}: the pair is the body */
            ast *body = parse_node_of(p, AST_TUPLE, parts.items[0]->pos, parts.items, 2);
            node = body ? comprehension(p, body, b.pos) : NULL;
            if (node && node->kind == AST_COMP)
                node->op = 1;
            break;
        }
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    if (!parse_close(p, &b))
        return NULL;
    if (!node)
        return parse_node_of(p, AST_DICT, b.pos, parts.items, parts.n);
    node->end = p->last;
    return node;
}

/* (…), […] or {…}, which is next: a tuple, a list, a dict, or what stands in brackets. Inlined it
 * would make the frame of its caller larger, which each level of brackets takes. */
static __attribute__((noinline)) ast *display(parser *p)
{
    return parse_is_sign(p, SIGN1('('))   ? parens(p)
           : parse_is_sign(p, SIGN1('[')) ? list(p)
                                          : dict(p);
}

/* ---- Numbers and constants ---- */

static ast *integer(parser *p, uint32_t pos, int64_t value)
{
    ast *node = parse_node(p, AST_INT, pos, p->last, 0);
    if (node)
        node->u.integer = value;
    return node;
}

static ast *too_large(parser *p, const token *t)
{
    return parse_fail(p, t->pos, t->end, KV_E_VALUE, "%.*s is too large for a 64-bit integer",
                      parse_shown(p, t->pos, t->end), p->lx.src->text + t->pos);
}

static ast *number(parser *p)
{
    token t = parse_take(p);
    if (t.kind == TOK_INT && parse_has_zeros(p, t.pos, t.end)) {
        parse_fail(p, t.pos, t.end, KV_E_SYNTAX, "`%.*s` is not a number",
                   parse_shown(p, t.pos, t.end), p->lx.src->text + t.pos);
        kv_err_hint(p->e, "a whole number begins with no 0, as in Python");
        return NULL;
    }
    if (t.kind == TOK_INT)
        return t.integer < 0 ? too_large(p, &t) : integer(p, t.pos, t.integer);
    ast *node = parse_node(p, AST_FLOAT, t.pos, t.end, 0);
    if (node)
        node->u.number = t.number;
    return node;
}

static ast *constant(parser *p)
{
    const token *t = parse_peek(p);
    bool yes = parse_is_word(p, "true") || parse_is_word(p, "True");
    double value;
    ast *node = NULL;
    if (yes || parse_is_word(p, "false") || parse_is_word(p, "False")) {
        if ((node = parse_node(p, AST_BOOL, t->pos, t->end, 0)))
            node->u.integer = yes;
    } else if (parse_is_word(p, "none") || parse_is_word(p, "None")) {
        node = parse_node(p, AST_NONE, t->pos, t->end, 0);
    } else if (parse_is_constant(p->lx.src->text + t->pos, t->end - t->pos, &value)) {
        if ((node = parse_node(p, AST_FLOAT, t->pos, t->end, 0)))
            node->u.number = value;
    }
    if (node)
        parse_take(p);
    return node;
}

ast *parse_smallest_integer(parser *p, uint32_t pos)
{
    token t = *parse_peek(p);
    if (t.kind != TOK_INT || t.integer >= 0 || parse_has_zeros(p, t.pos, t.end))
        return NULL;
    parse_take(p);
    if (parse_is_sign(p, SIGN2('*', '*')))
        return too_large(p, &t);
    return integer(p, pos, INT64_MIN);
}

ast *parse_literal(parser *p)
{
    token t = *parse_peek(p);
    if (t.kind == TOK_STRING)
        return parse_quoted(p);
    if (t.kind == TOK_INT || t.kind == TOK_FLOAT)
        return number(p);
    if (parse_accept(p, SIGN1('-'))) {
        tok_kind kind = parse_peek(p)->kind;
        ast *node = parse_smallest_integer(p, t.pos);
        if (node || p->e->code)
            return node;
        if (kind != TOK_INT && kind != TOK_FLOAT && !parse_is_word(p, "inf"))
            return parse_unexpected(p, "a number");
        if (!(node = kind == TOK_NAME ? constant(p) : number(p)))
            return NULL;
        node->pos = t.pos;
        if (node->kind == AST_INT)
            node->u.integer = -node->u.integer;
        else
            node->u.number = -node->u.number;
        return node;
    }
    ast *node = t.kind == TOK_NAME ? constant(p) : NULL;
    return node || p->e->code ? node : parse_unexpected(p, "a number, text, true, false or none");
}

/* ---- Names and calls ---- */

ast *parse_argument(parser *p)
{
    token name = *parse_peek(p);
    if (name.kind != TOK_NAME)
        return parse_expression(p);
    const char *text = parse_token_text(p, &name);
    if (!text)
        return NULL;
    parse_take(p);
    if (parse_is_reserved(text) || !parse_accept(p, SIGN1('='))) {
        parse_seek(p, name.pos);
        return parse_expression(p);
    }
    ast *value = parse_expression(p);
    if (!value && p->cursor && !p->cursor->call)
        p->cursor->keyword = text;
    return value ? parse_node_named(p, AST_ARG, name.pos, text, &value, 1) : NULL;
}

/* (args) behind a function's name; first, when there is one, becomes the first argument. */
static ast *call(parser *p, const char *name, uint32_t pos, ast *first)
{
    ast_list args = {0};
    ast *node = NULL;
    bracket b;
    if (!parse_open(p, &b) || (first && !parse_append(p, &args, first)))
        goto out;
    while (!parse_is_sign(p, SIGN1(')'))) {
        ast *one = parse_argument(p);
        if (one && parse_is_word(p, "for"))
            one = generator(p, args.n == (first != NULL) ? name : "", one);
        if (!parse_append(p, &args, one))
            goto out;
        if (!parse_accept(p, SIGN1(',')))
            break;
    }
    if (!parse_close(p, &b))
        goto out;
    node = parse_node_named(p, AST_CALL, pos, name, args.items, args.n);
out:
    if (!node)
        parse_cursor_in_call(p, &b, name, first != NULL, (uint32_t)args.n);
    return node;
}

/* Returns true if a postfix that begins with this sign belongs to the value on its left. */
static bool follows(parser *p, char sign)
{
    return parse_is_sign(p, SIGN1(sign)) && !(p->arguments && parse_peek(p)->blank_before);
}

/* np.float32 and others of its kind: a text, as dtype= takes it. NULL and no error for another
 * word. */
static ast *dtype_of_module(parser *p)
{
    static const char *const names[] = {"float16", "float32", "float64", "int8",
                                        "int32",   "int64",   "uint8",   "bfloat16"};
    token t = *parse_peek(p);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!parse_is_word(p, names[i]) || parse_char(p, t.end) == '(')
            continue;
        parse_take(p);
        return parse_node_named(p, AST_TEXT, t.pos, names[i], NULL, 0);
    }
    return NULL;
}

/* Functions of mx.nd that mean another thing than those of the same name here. */
static bool differs_in_nd(parser *p, const char *text, const token *t)
{
    static const struct {
        const char *name, *why, *hint;
    } functions[] = {
        {"concat", "goes along axis 1 where no axis is given, and concat along axis 0",
         "concat(a, b, axis=1); np.concatenate([a, b]) is there, too"},
        {"split", "goes along axis 1 where no axis is given, and split along axis 0",
         "split(a, 2, axis=1), and np.split(a, 2)"},
        {"take", "takes rows where no axis is given, and take of all elements in a row",
         "take(a, ids, axis=0), or a[ids]"},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(text, functions[i].name) != 0)
            continue;
        parse_fail(p, t->pos, t->end, KV_E_USAGE, "nd.%s %s", text, functions[i].why);
        kv_err_hint(p->e, "%s", functions[i].hint);
        return true;
    }
    return false;
}

/* np.max(a, 1) has an axis, and max(a, 1) two values of which the larger is asked for. */
static bool names_no_axis(parser *p, const ast *node)
{
    bool extreme = strcmp(node->u.text, "max") == 0 || strcmp(node->u.text, "min") == 0;
    if (!extreme || node->n < 2 || node->kid[1]->kind == AST_ARG)
        return false;
    parse_fail(p, node->pos, node->end, KV_E_USAGE, "the axis of %s() has its name here",
               node->u.text);
    kv_err_hint(p->e, "%s(a, axis=1); %simum(a, b) compares element by element", node->u.text,
                node->u.text);
    return true;
}

/* ---- Functions that have another name, or order of arguments, in MXNet and NumPy ---- */

/* The function that is meant by a name behind a module. */
static const char *name_of_module(const char *module, const char *text)
{
    static const struct {
        const char *module, *theirs, *ours; /* the module is any where it is "" */
    } names[] = {
        {"optimizer", "create", "create_optimizer"}, /* `create` makes a store */
        {"", "row_sparse_array", "row_sparse"},
        {"", "random_uniform", "uniform"},
        {"", "random_normal", "normal"},
        {"", "random_randint", "randint"},
        {"random", "rand", "uniform"},
        {"random", "random", "uniform"},
        {"random", "randn", "normal"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].theirs) == 0 &&
            (!*names[i].module || strcmp(module, names[i].module) == 0))
            return names[i].ours;
    return text;
}

/* row_sparse_array((data, ids), shape) has its first two arguments in a tuple. */
static ast *spread_rows(parser *p, ast *node)
{
    ast_list args = {0};
    const ast *pair = node->n ? node->kid[0] : NULL;
    if (!pair || pair->kind != AST_TUPLE || pair->n != 2)
        return node;
    bool ok = parse_append(p, &args, pair->kid[0]) && parse_append(p, &args, pair->kid[1]);
    for (uint32_t i = 1; i < node->n && ok; i++)
        ok = parse_append(p, &args, node->kid[i]);
    return ok ? parse_node_named(p, AST_CALL, node->pos, node->u.text, args.items, args.n) : NULL;
}

/* Random functions take the shape first here, and behind their two numbers there: arguments by
 * position get their names, unless the shape is first there, too. randint(9) of NumPy has only its
 * upper end. */
static ast *name_numbers(parser *p, ast *node, bool shape_first)
{
    bool normal = strcmp(node->u.text, "normal") == 0, ends = strcmp(node->u.text, "randint") == 0;
    const char *const names[] = {normal ? "loc" : "low", normal ? "scale" : "high", "shape",
                                 "dtype", "ctx"};
    if (!normal && !ends && strcmp(node->u.text, "uniform") != 0)
        return node;
    for (uint32_t i = 0, plain = 0; i < node->n; i++) {
        ast *kid = node->kid[i];
        if (kid->kind == AST_ARG) {
            if (strcmp(kid->u.text, "size") == 0)
                kid->u.text = "shape";
        } else if (!shape_first && i == plain && plain < 5) {
            ast *named = parse_node_named(p, AST_ARG, kid->pos, names[plain++], &kid, 1);
            if (!named)
                return NULL;
            named->end = kid->end;
            node->kid[i] = named;
        }
        ends = ends && (node->kid[i]->kind != AST_ARG || strcmp(node->kid[i]->u.text, "high") != 0);
    }
    if (ends && node->n > 0 && node->kid[0]->kind == AST_ARG &&
        strcmp(node->kid[0]->u.text, "low") == 0)
        node->kid[0]->u.text = "high";
    return node;
}

static ast *name(parser *p)
{
    const char *module = NULL, *one;
    while ((one = parse_skip_module(p)))
        module = one;
    if (parse_expects(p, EXPECT_MEMBER, 0) || parse_refuse_part(p, module && *module == 'm'))
        return NULL;
    ast *known = constant(p);
    if (!known && module && p->e->code == KV_OK)
        known = dtype_of_module(p);
    if (known || p->e->code != KV_OK)
        return known;
    token t = *parse_peek(p);
    const char *text = parse_token_text(p, &t);
    if (!text)
        return NULL;
    /* the statement `repeat` has a blank before its count, the function none before its bracket */
    bool repeats = strcmp(text, "repeat") == 0 && parse_char(p, t.end) == '(';
    if (parse_is_reserved(text) && !repeats)
        return parse_unexpected(p, "a value");
    parse_take(p);
    bool of_nd = module && strncmp(module, "nd", 2) == 0;
    if (of_nd && differs_in_nd(p, text, &t))
        return NULL;
    const char *theirs = text;
    if (module)
        text = name_of_module(module, theirs);
    if (strcmp(text, "lambda") == 0 &&
        (parse_peek(p)->kind == TOK_NAME || parse_is_sign(p, SIGN1(':')))) {
        parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "there is no lambda");
        kv_err_hint(p->e, "def f(x): return x + 1");
        return NULL;
    }
    if (follows(p, '(')) {
        ast *node = call(p, text, t.pos, NULL);
        if (!node || !module)
            return node;
        bool of_random = strcmp(module, "random") == 0;
        if (strcmp(theirs, "row_sparse_array") == 0)
            return spread_rows(p, node);
        if (of_random || strncmp(theirs, "random_", 7) == 0)
            return name_numbers(p, node, of_random && text != theirs);
        return names_no_axis(p, node) ? NULL : node;
    }
    if (parse_is_sign(p, SIGN1('(')) && p->is_function && p->is_function(text)) {
        parse_fail(p, t.pos, t.end, KV_E_USAGE,
                   "`%s` is a function and stands without its arguments", text);
        kv_err_hint(p->e, "write no blank before the bracket: %s(…)", text);
        return NULL;
    }
    return parse_node_named(p, AST_NAME, t.pos, text, NULL, 0);
}

/* $NAME: a variable, where a word would be something else. */
static ast *dollar(parser *p)
{
    token sign = parse_take(p), t = *parse_peek(p);
    if (t.pos == sign.end && parse_expects(p, EXPECT_VARIABLE, 0))
        return NULL;
    if (t.kind != TOK_NAME || t.pos != sign.end)
        return parse_fail(p, sign.pos, sign.end, KV_E_SYNTAX, "`$` needs the name of a variable");
    parse_take(p);
    return parse_node_named(p, AST_NAME, sign.pos, parse_token_text(p, &t), NULL, 0);
}

/* The name of a tensor at pos, behind `@path#` from `from` on; in quotes when it has other signs.
 */
static ast *tensor_name(parser *p, uint32_t from, uint32_t pos)
{
    uint32_t end = pos;
    char c;
    while ((c = parse_char(p, end)) && (lex_is_word_char(c) || strchr("./-:", c)))
        end++;
    if (end == pos && (c == '"' || c == '\'')) {
        parse_seek(p, pos);
        ast *quoted = parse_quoted(p);
        if (!quoted || quoted->kind == AST_TEXT)
            return quoted;
    }
    if (end == pos) {
        const char *path = p->lx.src->text + from + 1, *quote = strchr("\"'", *path) ? "" : "\"";
        parse_fail(p, pos - 1, pos, KV_E_SYNTAX, "`#` needs the name of a tensor");
        if (c == '$')
            kv_err_hint(p->e, "load(%s%.*s%s, name=%.*s)", quote, (int)(pos - from - 2), path,
                        quote, (int)strcspn(path + (pos - from), " \t\n.,;()[]{}"),
                        path + (pos - from));
        return NULL;
    }
    if (c == '#') {
        const char *text = p->lx.src->text + pos;
        parse_fail(p, end, end + 1, KV_E_SYNTAX, "the name of a tensor with `#` stands in quotes");
        return kv_err_hint(p->e, "%.*s\"%.*s\"", (int)(pos - from), p->lx.src->text + from,
                           (int)strcspn(text, " \t\n\"',;()[]{}"), text),
               NULL;
    }
    ast *node = parse_text_node(p, p->lx.src->text + pos, end - pos, pos, end);
    if (node)
        parse_seek(p, end);
    return node;
}

/* @path, with #name behind it for one tensor of a file that holds several. */
static ast *file(parser *p)
{
    token sign = parse_take(p);
    ast *kids[2] = {0};
    int n = 1;
    if (!(kids[0] = parse_path(p)))
        return NULL;
    if (parse_char(p, p->last) == '#') {
        if (!(kids[1] = tensor_name(p, sign.pos, p->last + 1)))
            return NULL;
        n = 2;
    }
    ast *node = parse_node_of(p, AST_FILE, sign.pos, kids, n);
    if (node)
        node->op = n == 2;
    return node;
}

/* Returns true if the `{` that ends at pos is that of the block that follows, whose condition was
 * left out, and not that of a dict: `{}` or {'a': 1}. */
static bool begins_block(const parser *p, uint32_t pos)
{
    if (!p->before_block || parse_char(p, pos) == '}')
        return false;
    pos = parse_past_blanks(p, pos);
    return parse_char(p, pos) != '"' && parse_char(p, pos) != '\'';
}

ast *parse_operand(parser *p)
{
    const token *t = parse_peek(p);
    if (parse_expects(p, EXPECT_OPERAND, 0))
        return NULL;
    switch (t->kind) {
    case TOK_INT:
    case TOK_FLOAT:
        return number(p);
    case TOK_STRING:
    case TOK_FSTRING:
        return parse_quoted(p);
    case TOK_NAME:
        return name(p);
    case TOK_SIGN:
        if (t->sign == SIGN1('(') || t->sign == SIGN1('[') ||
            (t->sign == SIGN1('{') && !begins_block(p, t->end)))
            return display(p);
        if (t->sign == SIGN1('$'))
            return dollar(p);
        if (t->sign == SIGN1('@'))
            return file(p);
        break;
    case TOK_END:
    case TOK_NEWLINE:
    case TOK_OPTION:
    case TOK_CURSOR:
    case TOK_BAD:
        break;
    }
    return parse_unexpected(p, "a value");
}

/* ---- Postfixes ---- */

/* expr, or [from] : [to] [: [step]], or ... */
static ast *slice(parser *p)
{
    uint32_t pos = parse_peek(p)->pos;
    ast *part[3] = {0};
    if (parse_accept(p, SIGN3('.', '.', '.')))
        return parse_node(p, AST_ELLIPSIS, pos, pos + 3, 0);
    if (!parse_is_sign(p, SIGN1(':'))) {
        if (!(part[0] = parse_expression(p)))
            return NULL;
        if (!parse_is_sign(p, SIGN1(':')))
            return part[0];
    }
    for (int i = 1; i < 3 && parse_accept(p, SIGN1(':')); i++) {
        bool empty = parse_is_sign(p, SIGN1(',')) || parse_is_sign(p, SIGN1(']')) ||
                     parse_is_sign(p, SIGN1(':'));
        if (!empty && !(part[i] = parse_expression(p)))
            return NULL;
    }
    return parse_node_of(p, AST_SLICE, pos, part, 3);
}

static ast *index_of(parser *p, ast *base)
{
    ast_list parts = {0};
    bracket b;
    if (!parse_open(p, &b) || !parse_append(p, &parts, base))
        return NULL;
    do {
        if (parse_is_sign(p, SIGN1(']')) && parts.n > 1)
            break;
        if (!parse_append(p, &parts, slice(p)))
            return NULL;
    } while (parse_accept(p, SIGN1(',')));
    return parse_close(p, &b) ? parse_node_of(p, AST_INDEX, base->pos, parts.items, parts.n) : NULL;
}

/* .NAME or .NAME(args): the function with the value before it as its first argument. */
static ast *method(parser *p, ast *value)
{
    parse_take(p);
    token t = *parse_peek(p);
    bool number = value->kind == AST_INT; /* `1.` becomes 1.5 */
    if (parse_expects(p, number ? EXPECT_NOTHING : EXPECT_MEMBER, 0)) {
        p->cursor->object = value->kind == AST_NAME ? value->u.text : NULL;
        return NULL;
    }
    if (t.kind != TOK_NAME)
        return parse_unexpected(p, "the name of a function");
    parse_take(p);
    if (p->method && value->kind == AST_NAME) {
        ast *of_store = p->method(p, value, &t);
        if (of_store || p->e->code)
            /* cppcheck-suppress returnDanglingLifetime ; a node of the arena, not the token */
            return of_store;
    }
    const char *text = parse_token_text(p, &t);
    if (text && strcmp(text, "asnumpy") == 0)
        text = "dense";
    ast *node = text && follows(p, '(')
                    ? call(p, text, value->pos, value)
                    : parse_node_named(p, AST_CALL, value->pos, text, &value, 1);
    if (node)
        node->flags |= AST_METHOD;
    return node;
}

/* Returns true at an @ before the name of a device. Only there it binds as closely as a bracket:
 * another right side may be a matrix, with Python's precedence (parse_expr.c). */
static bool at_device(parser *p)
{
    static const char *const words[] = {"mxnet.", "mx.", "context.", "gpu", "cpu"};
    if (!follows(p, '@'))
        return false;
    uint32_t at = parse_past_blanks(p, parse_peek(p)->end);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]), same = 0;
        while (same < n && parse_char(p, at + (uint32_t)same) == words[i][same])
            same++;
        at += same == n ? (uint32_t)n : 0;
        if (same == n && words[i][n - 1] != '.')
            return !lex_is_word_char(parse_char(p, at));
    }
    return false;
}

/* @NAME or @NAME(expr): a value on a device. */
static ast *device(parser *p, ast *value)
{
    parse_take(p);
    if (parse_expects(p, EXPECT_CONTEXT, 0))
        return NULL;
    ast *pair[2] = {value, name(p)};
    return pair[1] ? parse_node_of(p, AST_AT, value->pos, pair, 2) : NULL;
}

/* The signs of @f#a.b.astype( up to the bracket belong to the name of a tensor. */
static ast *only_names(parser *p, const ast *node)
{
    const char *text = p->lx.src->text + node->pos;
    uint32_t n = p->tok.pos - node->pos, dot = n;
    parse_fail(p, p->tok.pos, p->tok.end, KV_E_SYNTAX, "only a name can be called");
    while (dot > 0 && text[dot] != '.')
        dot--;
    if (node->kind == AST_FILE && lex_is_word_char(text[n - 1]) && dot > 0)
        kv_err_hint(p->e, "(%.*s)%.*s)", (int)dot, text, (int)strcspn(text + dot, ")\n"),
                    text + dot);
    return NULL;
}

ast *parse_primary(parser *p)
{
    ast *node = parse_operand(p);
    while (node) {
        if (follows(p, '['))
            node = index_of(p, node);
        else if (follows(p, '.'))
            node = method(p, node);
        else if (at_device(p))
            node = device(p, node);
        else if (follows(p, '('))
            return only_names(p, node);
        else
            break;
    }
    return node;
}
