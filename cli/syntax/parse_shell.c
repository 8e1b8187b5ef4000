/* The readers of parse_command.c see one word at a time: the lexer ends where the word does. */
#include "syntax/parse_shell.h"

#include <string.h>

#include "base/mem.h"
#include "syntax/parse_command.h"

/* A parameter of a rule, which no table has: its value may follow. */
static const command_option param = {"", OPTION_WORD, "V"};

static const command_option *option_of(const shell_words *w, const char *word, size_t n)
{
    const command_option *o = command_option_find(w->c, word + 2, n - 2);
    return o || !(w->c->flags & COMMAND_PARAMS) ? o : &param;
}

/* ---- Collecting ---- */

bool shell_words_begin(shell_words *w, const char *name)
{
    w->c = command_find(name, strlen(name));
    return w->c != NULL;
}

bool shell_words_has(const shell_words *w, const char *word)
{
    size_t n = strcspn(word, "=");
    bool is_seed = n == 6 && memcmp(word, "--seed", n) == 0;
    return (n == 6 && memcmp(word, "--help", n) == 0) ||
           (is_seed && (w->c->flags & COMMAND_PARAMS)) ||
           command_option_find(w->c, word + 2, n - 2);
}

bool shell_words_asks(const shell_words *w, const char *word)
{
    return strcmp(w->c->name, "help") == 0 && w->n == 0 && !shell_words_has(w, word);
}

int shell_words_add(shell_words *w, const char *word, bool literal, kv_err *e)
{
    bool dashed = !literal && word[0] == '-' && word[1] == '-' && word[2] &&
                  !shell_words_asks(w, word);
    bool option = dashed && (!w->open || w->open == &param);
    bool open = w->open != NULL;
    size_t n = strcspn(word, "=");
    if (mem_grow(&w->items, &w->cap, w->n + 1, sizeof *w->items, e))
        return KV_E_MEMORY;
    const command_option *o = option && !word[n] ? option_of(w, word, n) : NULL;
    w->open = o && o->kind != OPTION_FLAG ? o : NULL;
    w->items[w->n++] = (shell_word){word, option, !literal && !open, 0};
    return KV_OK;
}

void shell_words_release(shell_words *w)
{
    mem_free(w->items);
    *w = (shell_words){0};
}

void shell_words_text(shell_words *w, buf *out)
{
    buf_add(out, w->c->name);
    for (int64_t i = 0; i < w->n; i++) {
        buf_char(out, ' ');
        w->items[i].pos = (uint32_t)out->len;
        buf_add(out, w->items[i].text);
    }
}

/* ---- One word ---- */

static ast *value_word(parser *p, const char *word)
{
    p->lx.in_brackets = true; /* a newline is a blank */
    ast *node = parse_expr(p, false);
    node = parse_word_ended(p) ? node : NULL;
    if (!node && !strpbrk(word, "\"'()[]{}")) { /* the shell has taken its quotes */
        size_t n = strcspn(word, "#");
        if (*word == '@' && strpbrk(word, " \t")) /* of a file whose name has blanks */
            kv_err_hint(p->e, "'@\"%.*s\"%.64s'", (int)n - 1, word + 1, word + n);
        else if (word[n] && memchr(word, '.', n))
            kv_err_hint(p->e, "'@%.64s' is a key of a file", word);
        else if (*word == '>' || *word == '|')
            kv_err_hint(p->e, "kvctl -c 'COMMAND %.2s …' has redirects of its own", word);
        else
            kv_err_hint(p->e, "for the text write '\"%.64s\"'", word);
    }
    return node;
}

/* Keys as a script has them, or a text that is one key: what has other signs, and 0.bias. */
static ast *key_word(parser *p, const char *word, uint32_t pos)
{
    size_t n = 0;
    bool letters = false, dashed = word[0] == '-' && word[1] && !lex_is_digit(word[1]);
    for (; lex_is_word_char(word[n]) || (word[n] && strchr("-+.,*?/:{}", word[n])); n++)
        letters |= lex_is_letter(word[n]);
    bool name = lex_is_digit(word[0]) && letters && !strpbrk(word, ",*?{");
    bool as_in_script = n > 0 && !word[n] && !dashed && !name;
    ast *key = as_in_script ? NULL : parse_text(p, pos, p->lx.limit);
    ast *node = as_in_script ? parse_keys(p) : parse_node_of(p, AST_KEYS, pos, &key, 1);
    if (as_in_script || !key || !node)
        return parse_word_ended(p) ? node : NULL;
    key->kind = AST_KEY;
    key->op = 1;
    node->flags |= AST_SINGLE;
    return node;
}

/* A rule in braces, and nothing behind it, also no comment: the shell may have cut it there. */
static ast *rule_word(parser *p, const command *c)
{
    ast *rule = parse_rule_node(p);
    uint32_t end = p->last;
    while (lex_is_blank(parse_char(p, end)) || parse_char(p, end) == '\n')
        end++;
    if (rule && end < p->lx.limit)
        parse_fail(p, end, p->lx.limit, KV_E_SYNTAX, "nothing stands behind the `}` of a rule");
    parse_seek(p, p->lx.limit);
    if (p->e->code)
        kv_err_hint(p->e, "kvctl %s '{ … }': quotes keep the shell from cutting it", c->name);
    return p->e->code ? NULL : rule;
}

static ast *argument_word(parser *p, const command *c, arg_kind kind, const shell_word *w)
{
    if (kind == ARG_KEYS)
        return key_word(p, w->text, w->pos);
    if (kind == ARG_VALUE || kind == ARG_VALUES || kind == ARG_EXPRS)
        return value_word(p, w->text);
    if (kind == ARG_RULE && w->text[0] == '{')
        return rule_word(p, c);
    if (kind < ARG_HEREDOC) /* also a merge in braces, which the command reads */
        return parse_text(p, w->pos, p->lx.limit);
    parse_fail(p, w->pos, p->lx.limit, KV_E_USAGE,
               "`%s` takes statements of the language, no words of the shell", c->name);
    return parse_hint(p, "kvctl -c '%s …'", c->name);
}

/* ---- The command ---- */

/* The parser sees the words from `from` to `to`. */
static void see(parser *p, const shell_word *from, const shell_word *to)
{
    p->lx.limit = to->pos + (uint32_t)strlen(to->text);
    parse_seek(p, from->pos);
}

/* more: what the last argument of the command holds, if it takes all words that follow. */
static bool read_argument(parser *p, binding *b, ast_list *more, const shell_word *w)
{
    int at = b->given - (more->n > 0);
    bool wanted = at == b->nargs && bind_wants_value(b);
    if (at == b->nargs && !wanted)
        return parse_too_many(p, b->c);
    arg_kind kind = wanted ? ARG_VALUE : b->c->args[at].kind;
    ast *one = argument_word(p, b->c, kind, w);
    if (wanted)
        return one && bind_value(b, p, one);
    bool several = kind == ARG_VALUES || kind == ARG_EXPRS || kind == ARG_PATHS;
    b->parts[at] = one;
    b->given = at + 1;
    return one && (!several || parse_append(p, more, one));
}

/* The option at *i, and the word behind it if that is its value. */
static bool read_option(parser *p, binding *b, const shell_words *all, int64_t *i)
{
    const shell_word *w = &all->items[*i], *next = *i + 1 < all->n ? w + 1 : NULL;
    size_t n = strcspn(w->text, "="), dashes = w->option ? 2 : 0, name = dashes;
    const command_option *o = w->text[n] ? NULL : option_of(all, w->text, n);
    while (lex_is_letter(w->text[dashes]) &&
           (lex_is_word_char(w->text[name]) || w->text[name] == '-'))
        name++;
    if (name < n || name == dashes)
        return parse_fail(p, w->pos, w->pos + (uint32_t)strlen(w->text), KV_E_USAGE,
                          "\"%.64s\" is not an option", w->text);
    bool more = next && !next->option && o && o->kind != OPTION_FLAG;
    uint32_t begin = w->text[n] ? w->pos + (uint32_t)n + 1 : more ? next->pos : NOWHERE;
    if (more)
        see(p, w, &all->items[++*i]);
    ast *one = parse_option(p, b, &begin);
    return one && parse_add_once(p, b, one);
}

ast *parse_shell_words(parser *p, const shell_words *w)
{
    binding b;
    ast_list more = {0};
    ast *node = NULL;
    bool ok = true;
    bind_begin(&b, w->c);
    parse_seek(p, (uint32_t)strlen(w->c->name));
    int64_t first = w->n > 1 && strcmp(w->c->name, "help") == 0 && /* help kvctl merge ties */
                    strcmp(w->items[0].text, "kvctl") == 0;
    for (int64_t i = first; i < w->n && ok && !node; i++) {
        shell_word *one = &w->items[i];
        see(p, one, one);
        const command_arg *at = &w->c->args[b.given - (more.n > 0)];
        named_kind named = one->plain ? parse_named(p, w->c, at, one->pos) : NAMED_NOT;
        if (named == NAMED_ARGUMENT) {
            one->pos += (uint32_t)strcspn(one->text, "=") + 1;
            one->text += strcspn(one->text, "=") + 1;
            see(p, one, one);
        }
        if (one->option && strcmp(one->text, "--help") == 0)
            ok = (node = parse_help_option(p, w->c, 0)) != NULL;
        else if (one->option || named == NAMED_OPTION)
            ok = read_option(p, &b, w, &i);
        else
            ok = read_argument(p, &b, &more, one);
    }
    if (ok && !node && more.n > 0) {
        ast *all = parse_node_of(p, AST_LIST, more.items[0]->pos, more.items, more.n);
        b.parts[b.nargs - 1] = all;
        ok = all && (b.nargs < 2 || parse_one_each(p, w->c, b.parts[b.nargs - 2], all));
    }
    if (ok && !node)
        node = parse_bound(p, &b, 0);
    return node ? parse_node_of(p, AST_BLOCK, 0, &node, 1) : NULL;
}
