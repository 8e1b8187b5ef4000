/* The arguments of commands that run or describe statements, such as expect and explain. */
#include <string.h>

#include "base/suggest.h"
#include "syntax/parse_command.h"
#include "syntax/statement.h"

/* ---- Error codes ---- */

/* Returns true for the codes that a block may be expected to fail with: an interrupt comes from
 * outside, and an internal error is never meant. */
static bool can_be_expected(int code)
{
    return code != KV_OK && code != KV_E_INTERRUPTED && code != KV_E_INTERNAL && code < KV_NCODES;
}

ast *parse_code(parser *p)
{
    uint32_t pos = parse_here(p);
    ast *word = parse_word(p, "-", "the code of an error");
    if (!word)
        return NULL;
    if (word->kind != AST_TEXT)
        return parse_fail(p, word->pos, word->end, KV_E_USAGE, "the code of an error is a word");
    suggest near = {.word = word->u.text};
    for (int i = 0; i < KV_NCODES; i++) {
        if (!can_be_expected(i))
            continue;
        if (strcmp(kv_code_name(i), word->u.text) == 0)
            return word;
        suggest_add(&near, kv_code_name(i));
    }
    parse_fail(p, pos, word->end, KV_E_USAGE, "there is no error code `%.*s`",
               parse_shown(p, pos, word->end), p->lx.src->text + pos);
    suggest_done(&near, p->e);
    kv_err_hint(p->e, "codes: name, key, shape, dtype, value, index, usage, syntax, io, format, …");
    return NULL;
}

/* ---- Blocks that shall fail ---- */

/* Goes behind the } of the block that begins at the next token. Where nothing can be parsed any
 * more only brackets are counted; quotes and comments the lexer knows. False when it is not there.
 */
static bool skip_block(parser *p)
{
    int open = 0;
    for (;;) {
        token t = *parse_peek(p);
        if (t.kind == TOK_END || t.pos >= p->lx.limit)
            return false;
        if (t.kind == TOK_BAD) {
            parse_seek(p, t.pos + 1);
            continue;
        }
        parse_take(p);
        open += t.kind == TOK_SIGN && t.sign == SIGN1('{');
        open -= t.kind == TOK_SIGN && t.sign == SIGN1('}');
        if (open == 0)
            return true;
    }
}

ast *parse_failing_block(parser *p, const ast *code)
{
    kv_err *outer = p->e, found = {0};
    if (!parse_is_sign(p, SIGN1('{')))
        return parse_block(p); /* which says what is missing */
    parser before = *p; /* of which the next token is the `{` */
    uint32_t pos = before.tok.pos;
    p->e = &found;
    p->recover = NULL; /* the first error is the one that is asked for */
    ast *block = parse_block(p);
    p->e = outer;
    p->recover = before.recover;
    if (block)
        return block;
    if (found.code == KV_E_MEMORY || p->lx.incomplete ||
        strcmp(kv_code_name(found.code), code->u.text) != 0) {
        if (outer && !outer->code)
            *outer = found;
        return NULL;
    }
    parse_back(p, &before);
    p->e = outer;
    if (!skip_block(p))
        return parse_fail(p, pos, pos + 1, KV_E_SYNTAX, "the `{` that opens here is not closed");
    return parse_node(p, AST_NONE, pos, parse_last_end(p), 0);
}

/* ---- Words ---- */

ast *parse_switch(parser *p)
{
    uint32_t pos = parse_here(p);
    if (parse_expects(p, EXPECT_WORD, 0))
        return NULL;
    if (!parse_is_word(p, "on") && !parse_is_word(p, "off")) {
        parse_unexpected(p, "on or off");
        kv_err_hint(p->e, "`print` shows a text: print \"done\"");
        return NULL;
    }
    return parse_text(p, pos, parse_peek(p)->end);
}

/* The command of a statement, NULL when it is none. */
static const ast *command_of(const ast *node)
{
    if (node->kind == STMT_SHOW && node->kid[0]->kind == AST_STORE)
        return node->kid[0]->kid[0];
    return node->kind == STMT_COMMAND ? node : NULL;
}

/* Finds a redirect to a file or to a shell command, since neither can be undone. */
static const ast *find_outward(const ast *node)
{
    for (uint32_t i = 0; i < node->n; i++)
        if (node->kid[i] && node->kid[i]->kind == STMT_REDIRECT &&
            node->kid[i]->op != REDIRECT_VARIABLE)
            return node->kid[i];
    return NULL;
}

ast *parse_explained(parser *p)
{
    const token *t = parse_peek(p);
    if (t->pos == t->end && parse_expects(p, EXPECT_WORD, 0))
        return NULL;
    if (parse_is_word(p, "on") || parse_is_word(p, "off"))
        return parse_switch(p);
    ast *node = parse_one_statement(p);
    const ast *call = node ? command_of(node) : NULL, *outward = node ? find_outward(node) : NULL;
    if (!node)
        return NULL;
    if (!call || !command_is(call, COMMAND_EXPLAINED)) {
        parse_fail(p, node->pos, node->end, KV_E_USAGE, "explain has nothing to say of this");
        kv_err_hint(p->e, "it explains init, push, pull, pushpull, broadcast and barrier");
        return NULL;
    }
    if (outward)
        return parse_fail(p, outward->pos, outward->end, KV_E_USAGE,
                          "explain changes nothing, so it writes no file");
    return node;
}
