/* --check and -k: the parser reports an error and goes on behind it. */
#include "syntax/check.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "session/unit.h"
#include "syntax/command.h"
#include "syntax/effect.h"
#include "syntax/function.h"
#include "syntax/hints.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"
#include "vm/rule.h"

/* ---- Errors that are collected ---- */

static bool ends_everything(const kv_err *e)
{
    return e->code == KV_E_MEMORY || e->code == KV_E_INTERRUPTED || e->code == KV_E_INTERNAL;
}

bool check_take(session *s, kv_err *e)
{
    check_errors *c = s ? s->check : NULL;
    if (!c || ends_everything(e))
        return false;
    if (e->code && c->n < CHECK_ERRORS_MAX) {
        if (mem_grow(&c->items, &c->cap, c->n + 1, sizeof *c->items, NULL))
            return false;
        c->items[c->n++] = *e;
    }
    c->names_missing = c->names_missing || e->code == KV_E_IO;
    *e = (kv_err){0};
    return true;
}

bool check_compares(const session *s)
{
    return !s->check || s->check->n < CHECK_ERRORS_COMPARED;
}

bool check_is_full(const session *s)
{
    return s->check && s->check->n >= CHECK_ERRORS_MAX;
}

/* ---- Going on after an error ---- */

/* Where the statement begins, which the parser was at before it. */
static uint32_t statement_of(const parser *before)
{
    return before->have ? before->tok.pos : before->lx.pos;
}

/* Returns true if the error is a `(` or `[` that is not closed: the text behind it goes on in a
 * line that is indented no more than the statement. *line: the begin of that line. */
static bool swallowed(parser *p, uint32_t statement, uint32_t *line)
{
    uint32_t here = parse_peek(p)->pos;
    for (*line = here; *line > p->lx.start && parse_char(p, *line - 1) != '\n';)
        --*line;
    return p->is_open && parse_char(p, p->open) != '{' && p->open >= statement && p->open < *line &&
           parse_peek(p)->kind != TOK_END &&
           lex_indent(&p->lx, here) <= lex_indent(&p->lx, statement);
}

/* Goes past words and balanced brackets up to the end of the statement, or with to_block to its
 * `{`. A `}` ends all open brackets in its block. False when the text ends inside a bracket. */
static bool skip(parser *p, bool in_block, bool to_block)
{
    int braces = 0, others = 0;
    for (;;) {
        const token *t = parse_peek(p);
        uint32_t sign = t->kind == TOK_SIGN ? t->sign : 0;
        bool outside = braces == 0 && others == 0;
        if (t->kind == TOK_END ||
            t->pos == p->lx.limit) /* a NUL byte, which is no token, ends too */
            return outside;
        if (braces == 0 && sign == SIGN1('}') && in_block)
            return true;
        if (outside && (t->kind == TOK_NEWLINE || (to_block && sign == SIGN1('{'))))
            return true;
        bool shell = outside && (sign == SIGN1('|') || sign == SIGN1('!'));
        if (t->kind == TOK_BAD || shell) {
            parse_seek(p, lex_line_end(&p->lx, t->pos));
            continue;
        }
        if (sign == SIGN1('(') || sign == SIGN1('['))
            others++;
        if ((sign == SIGN1(')') || sign == SIGN1(']')) && others > 0)
            others--;
        if (sign == SIGN1('{') || sign == SIGN1('}')) {
            braces += sign == SIGN1('{') ? 1 : braces > 0 ? -1 : 0;
            others = 0;
        }
        parse_take(p);
    }
}

/* take: takes the error over, and says whether parsing goes on. */
static bool recover(parser *p, const parser *before, bool to_block,
                    bool (*take)(parser *p, const parser *before))
{
    /* A block that is not closed was read to the end of the text, and those around it are not
     * closed either: one error. */
    bool open_block = parse_peek(p)->kind == TOK_END && p->is_open && parse_char(p, p->open) == '{';
    bool in_block = before->is_open && parse_char(before, before->open) == '{';
    uint32_t here = p->lx.pos, pos = statement_of(before), line;
    bool next_line = !to_block && p->e->code && swallowed(p, pos, &line);
    if (next_line || (open_block && before->lx.incomplete))
        *p->e = (kv_err){0};
    if (next_line)
        parse_fail(p, p->open, p->open + 1, KV_E_SYNTAX, "the `%c` that opens here is not closed",
                   parse_char(p, p->open));
    if (!take(p, before))
        return false;
    parse_back(p, before);
    if (open_block) {
        parse_seek(p, here);
        p->lx.incomplete = true;
        return !to_block;
    }
    /* the text that an open bracket swallowed is read again; where there is no better sign, from
     * the next line */
    if (next_line || !skip(p, in_block, to_block)) {
        parse_back(p, before);
        parse_seek(p, next_line ? line : lex_line_end(&p->lx, pos));
    }
    return !to_block || parse_is_sign(p, SIGN1('{'));
}

/* The line below pos begins here, or the text ends. */
static uint32_t next_line(const parser *p, uint32_t pos)
{
    pos = lex_line_end(&p->lx, pos);
    return pos + (pos < p->lx.limit);
}

static bool word_at(const parser *p, uint32_t pos, const char *word)
{
    size_t n = strlen(word);
    return p->lx.limit - pos >= n && memcmp(p->lx.src->text + pos, word, n) == 0 &&
           !lex_is_letter(parse_char(p, pos + (uint32_t)n)) &&
           !lex_is_digit(parse_char(p, pos + (uint32_t)n));
}

/* Passes over the lines that are left of a statement that failed: what stands in them would be
 * taken for statements of their own. These are indented more, close a block of it, or are the elif
 * or else of an `if`. */
static void pass_rest(parser *p, uint32_t statement)
{
    uint32_t end = parse_peek(p)->pos;
    while (end > statement && lex_is_blank(parse_char(p, end - 1)))
        end--;
    end = end > statement && parse_char(p, end - 1) == '\n' ? end - 1 : lex_line_end(&p->lx, end);
    for (uint32_t line = next_line(p, end); line < p->lx.limit; line = next_line(p, line)) {
        uint32_t text = parse_past_blanks(p, line);
        if (parse_char(p, text) == '\n')
            continue;
        int more = lex_indent(&p->lx, text) - lex_indent(&p->lx, statement);
        bool branch =
            word_at(p, statement, "if") && (word_at(p, text, "elif") || word_at(p, text, "else"));
        if (more < 0 || (more == 0 && !branch && parse_char(p, text) != '}'))
            break;
        end = lex_line_end(&p->lx, text);
    }
    parse_seek(p, end);
}

static bool collect(parser *p, const parser *before)
{
    session *s = p->user;
    (void)before;
    if (s->check)
        s->check->statements_lost = true;
    return check_take(s, p->e);
}

bool check_recover(parser *p, const parser *before, bool to_block)
{
    if (!recover(p, before, to_block, collect))
        return false;
    /* no block was found, so no branch has an `if`; between braces a `}` may be that of the block
     * around it */
    if (!to_block && !before->is_open && word_at(p, statement_of(before), "if"))
        pass_rest(p, statement_of(before));
    return true;
}

static bool forget(parser *p, const parser *before)
{
    (void)before;
    if (p->cursor->met || ends_everything(p->e))
        return false;
    *p->e = (kv_err){0};
    return true;
}

bool check_pass_over(parser *p, const parser *before, bool to_block)
{
    bool on = recover(p, before, to_block, forget);
    token t = *parse_peek(p);
    uint32_t pos = t.pos;
    while (pos > p->lx.start && lex_is_blank(parse_char(p, pos - 1)))
        pos--;
    if (t.kind == TOK_CURSOR && pos > p->lx.start && parse_char(p, pos - 1) != '\n')
        parse_take(p); /* it is in the statement that failed, of which nothing is known */
    return on;
}

/* ---- -k ---- */

bool check_break(arena *a, ast *node, kv_err *e)
{
    kv_err *kept = ends_everything(e) ? NULL : arena_alloc(a, sizeof *kept, NULL);
    if (!kept)
        return false;
    *kept = *e;
    *e = (kv_err){0};
    node->kind = STMT_BROKEN;
    node->n = 0;
    node->u.other = kept;
    return true;
}

/* Leaves a statement that fails when it is reached. */
static bool break_statement(parser *p, const parser *before)
{
    uint32_t pos = statement_of(before);
    kv_err unused = {0}, *e = p->e;
    p->e = &unused; /* a node is made of a parser without an error */
    p->broken = parse_node(p, STMT_BROKEN, pos, lex_line_end(&p->lx, pos), 0);
    p->e = e;
    return p->broken && check_break(p->a, p->broken, e);
}

bool check_keep_going(parser *p, const parser *before, bool to_block)
{
    if (to_block || before->is_open || before->depth > 0 ||
        !recover(p, before, false, break_statement))
        return false;
    pass_rest(p, statement_of(before));
    return true;
}

/* ---- Names that are read and never set ---- */

/* Two walks over the trees: the first collects all that gives names a value, the second asks for
 * each name that is read whether it is among them. The order of statements does not count, as
 * functions read what is set later. */

typedef struct names {
    session *s;
    map set;      /* to 0 */
    map functions; /* to 0 */
    map options;  /* of all commands, which may set parameters: to 0 */
    map told;     /* of the text that is walked: to 0 */
    bool unknown; /* a file whose name is computed may set any, a store with such a name is any */
    const rule_ast *merge; /* whose names are read */
    unit *unit;
    const source *src;
    kv_err *e;
} names;

/* ---- Names that are set ---- */

static int collect_set(names *n, const ast *node)
{
    if (!node)
        return KV_OK;
    bool sets = node->kind != STMT_ASSIGN || node->op == STMT_PLAIN;
    if (sets)
        TRY(effect_sets(node, effect_put_name, &n->set, n->e));
    if (node->kind == STMT_OPTION)
        TRY(effect_put_name(&n->options, node->u.text, n->e));
    if (node->kind == STMT_DEF)
        TRY(effect_put_name(&n->functions, node->u.text, n->e));
    const ast *store = command_is(node, COMMAND_CHOOSES) ? command_option_of(node, "name") : NULL;
    bool known = store && store->kind == AST_TEXT;
    if (known)
        TRY(effect_put_name(&n->set, store->u.text, n->e));
    n->unknown |= !known && (store || command_is(node, COMMAND_SOURCES));
    for (uint32_t i = 0; i < node->n; i++)
        TRY(collect_set(n, node->kid[i]));
    return KV_OK;
}

/* ---- Names that are read ---- */

static bool is_set(const names *n, const char *name)
{
    return map_get(&n->set, (kv_key){0, name}) >= 0 || session_find(n->s, name) ||
           session_names_store(n->s, name) || strcmp(name, "_") == 0 ||
           strcmp(name, "cpu") == 0 || strcmp(name, "gpu") == 0; /* devices without a number */
}

/* rule: that reads the name, or NULL. into: an array is pulled into it. */
static __attribute__((noinline)) int tell(names *n, const char *name, uint32_t pos, uint32_t end,
                                          const rule_ast *rule, bool into)
{
    kv_err found = {0};
    if (check_is_full(n->s) || map_get(&n->told, (kv_key){0, name}) >= 0)
        return KV_OK;
    source_err(n->src, pos, end, &found, KV_E_USAGE,
               into ? "no variable is called `%s`; -> makes one"
                    : "nothing sets the variable `%s`", name);
    hint_name(name, &found);
    const function *f = function_find(name);
    if (f || map_get(&n->functions, (kv_key){0, name}) >= 0)
        kv_err_hint(&found, "`%s` is a function: %s%s", name, name, FUNCTION_BRACKETS(f));
    if (rule)
        rule_hint_other_word(rule, name, &found);
    suggest near = {.word = name};
    for (int64_t i = 0; i < n->set.cap && check_compares(n->s); i++)
        if (n->set.entries[i].hash)
            suggest_add(&near, n->set.entries[i].key.name);
    if (rule && rule->is_merge)
        merge_names_suggest(rule, &near);
    else if (rule)
        rule_suggest(rule, &near);
    suggest_done(&near, &found);
    if (!into)
        kv_err_hint(&found, "one from outside: kvctl --set %s=…", name);
    return check_take(n->s, &found) ? effect_put_name(&n->told, name, n->e) : KV_E_MEMORY;
}

static bool hides(void *arg, const char *name, const char *option)
{
    const names *n = arg;
    return map_get(&n->set, (kv_key){0, name}) >= 0 &&
           !(option && map_get(&n->options, (kv_key){0, option}) >= 0);
}

/* A name that a merge does not define. */
static int read_merge_name(void *arg, const ast *at, kv_err *e)
{
    names *n = arg;
    (void)e;
    if (is_set(n, at->u.text) || map_get(&n->options, (kv_key){0, at->u.text}) >= 0)
        return KV_OK;
    return tell(n, at->u.text, at->pos, at->end, n->merge, false);
}

/* The names that a rule does not define. */
static int read_rule(names *n, const rule_ast *rule)
{
    int rc = KV_OK;
    for (int i = 0; i < rule->nparams && rc == KV_OK; i++) {
        const rule_param *p = &rule->params[i];
        if (!p->value && !rule_gives(p->name) && !is_set(n, p->name) &&
            map_get(&n->options, (kv_key){0, p->name}) < 0)
            rc = tell(n, p->name, p->pos, p->end, rule, false);
    }
    own_names_warn(n->s, n->unit, rule, hides, n);
    return rc;
}

/* Returns true if an option of a command gives a parameter a name that may be a word, not a
 * variable: --mode up. Of optimizers of the library it is known which parameters are texts. */
static bool is_word(const ast *call, const ast *option)
{
    const ast *rule = call->kid[0];
    return option && option->kind == STMT_OPTION && option->n > 1 &&
           option->kid[0]->kind == AST_NAME &&
           !(rule && rule->kind == AST_TEXT && optimizer_text(rule->u.text));
}

/* A function as an updater, which may read names that every rule has. *is: it can be one. Errors
 * are large, and stand in no frame of a recursion. */
static __attribute__((noinline)) int read_updater(names *n, const ast *def, bool *is)
{
    rule_ast *rule;
    *is = updater_of_def(&rule, n->src, def, &n->unit->nodes, &(kv_err){0}) == KV_OK;
    return *is ? read_rule(n, rule) : KV_OK;
}

static int read_names(names *n, const ast *node)
{
    int rc = KV_OK;
    if (!node || command_is(node, COMMAND_EXPECTS_ERROR)) /* which may wait for this very error */
        return KV_OK;
    bool into = node->kind == STMT_OPTION && strcmp(node->u.text, "out") == 0 && node->n == 1 &&
                node->kid[0]->kind == AST_NAME;
    const ast *name = into ? node->kid[0] : node;
    if (name->kind == AST_NAME && !is_set(n, name->u.text))
        return tell(n, name->u.text, name->pos, name->end, NULL, into);
    if (node->kind == STMT_RULE && ((const rule_ast *)node->u.other)->is_merge) {
        n->merge = node->u.other;
        return merge_names_each(n->merge, read_merge_name, n, n->e);
    }
    if (node->kind == STMT_RULE && node->op != STMT_RULE_BROKEN)
        return read_rule(n, node->u.other);
    if (node->kind == STMT_DEF && def_may_update(node->kid, node->n) && node->op == 0) {
        bool is;
        rc = read_updater(n, node, &is);
        if (is)
            return rc;
    }
    bool call = node->kind == AST_CALL || node->kind == AST_ARG;
    for (uint32_t i = 0; i < node->n && rc == KV_OK; i++) {
        /* parameters of a def and the word of a setting read no variable */
        bool word = (node->kind == STMT_DEF && i > 0) || (command_is(node, COMMAND_SETS) && i == 1);
        if (!word && !(call && function_is_dtype_word(node->kid[i])) &&
            !(node->kind == STMT_COMMAND && is_word(node, node->kid[i])))
            rc = read_names(n, node->kid[i]);
    }
    return rc;
}

int check_unset(session *s, kv_err *e)
{
    names n = {.s = s, .e = e};
    int rc = KV_OK;
    n.unknown = s->check->names_missing || s->check->statements_lost;
    for (const unit *u = s->units; u && !n.unknown && rc == KV_OK; u = u->next)
        rc = u->prelude ? KV_OK : collect_set(&n, u->body);
    for (unit *u = s->units; u && !n.unknown && rc == KV_OK; u = u->next) {
        if (u->prelude)
            continue;
        n.unit = u;
        n.src = &u->src;
        map_release(&n.told);
        rc = read_names(&n, u->body);
    }
    map_release(&n.set);
    map_release(&n.options);
    map_release(&n.functions);
    map_release(&n.told);
    return rc;
}
