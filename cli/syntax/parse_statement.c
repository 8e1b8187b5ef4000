/* The parser of statements: assignments, the choice of commands, and the first lines of pages in
 * other languages. Of a class it takes the name, and its body is `pass`: what a type does is
 * written in C. */
#include "syntax/parse_statement.h"

#include <string.h>

#include "base/buf.h"
#include "base/suggest.h"
#include "session/session.h"
#include "syntax/file_kind.h"
#include "syntax/function.h"
#include "syntax/hints.h"
#include "syntax/parse_command.h"

/* ---- Pages in Python and Perl ---- */

static const char decorator[] = "KVStoreBase.register";

/* The end of the dotted name at pos. */
static uint32_t dotted_end(const parser *p, uint32_t pos)
{
    while (lex_is_word_char(parse_char(p, pos)) || parse_char(p, pos) == '.')
        pos++;
    return pos;
}

/* Returns true if `@mx.kvstore.KVStoreBase.register` stands at the `@` that is next. */
static bool parse_at_class(parser *p)
{
    uint32_t pos = parse_peek(p)->pos + 1, end = dotted_end(p, pos), n = sizeof decorator - 1;
    return end - pos >= n && memcmp(p->lx.src->text + end - n, decorator, n) == 0;
}

/* A statement of the body: pass, or a text that says what the class is. */
static bool body_line(parser *p, ast_list *list)
{
    token t = *parse_peek(p);
    (void)list;
    if (parse_accept_word(p, "pass"))
        return true;
    if (t.kind == TOK_STRING)
        return parse_operand(p) != NULL;
    parse_fail(p, t.pos, t.end, KV_E_USAGE,
               "the class of a store type has no body but `pass` here");
    return parse_hint(p, "a type with functions of its own is a table in C, kv_type_ops, as in "
                         "examples/average.c; register NAME --plugin FILE.so brings it");
}

/* (mx.kvstore.KVStoreBase), whose `(` is next. */
static bool base_class(parser *p)
{
    bracket b;
    token t = {0};
    if (!parse_is_sign(p, SIGN1('(')))
        return parse_unexpected(p, "the base class `(KVStoreBase)`");
    if (!parse_open(p, &b))
        return false;
    while (parse_peek(p)->kind == TOK_NAME) {
        t = parse_take(p);
        parse_accept(p, SIGN1('.'));
    }
    const char *name = t.end ? parse_token_text(p, &t) : "";
    if (!name || !parse_close(p, &b))
        return false;
    if (strncmp(name, "KVStore", 7) == 0)
        return true;
    parse_fail(p, b.pos, p->last, KV_E_USAGE, "a store type has the base class KVStoreBase");
    return parse_hint(p, "register NAME --base TYPE gives another type a second name");
}

/* That line and `class NAME(KVStoreBase): pass` below it: the command `register NAME`. */
static ast *parse_class(parser *p)
{
    uint32_t pos = parse_take(p).pos;
    parse_seek(p, dotted_end(p, pos + 1));
    parse_skip_newlines(p);
    token t = *parse_peek(p);
    p->lx.incomplete = p->lx.incomplete || t.kind == TOK_END; /* the class is the next line */
    if (!parse_is_word(p, "class"))
        return parse_unexpected(p, "the `class` that is registered");
    parse_take(p);
    token name = *parse_peek(p);
    binding b;
    bind_begin(&b, command_find("register", strlen("register")));
    if (name.kind != TOK_NAME)
        return parse_unexpected(p, "the name of a store type");
    b.parts[0] = parse_text(p, name.pos, name.end);
    if (!b.parts[0] || !base_class(p))
        return NULL;
    if (!parse_is_sign(p, SIGN1(':')))
        return parse_unexpected(p, "`:`");
    return parse_indented(p, t.pos, body_line) ? bind_node(&b, p, pos) : NULL;
}

/* ---- Perl ---- */

static bool starts(const char *text, const char *end, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(end - text) >= n && memcmp(text, word, n) == 0;
}

/* Returns true if the line holds what only Perl has: `my $x`, `$x = `, `$x->f(`, `mx->nd`, `=>`. */
static bool is_perl(const char *line, const char *end)
{
    if (starts(line, end, "my ") || starts(line, end, "use AI::"))
        return true;
    for (const char *at = line; at < end; at++) {
        bool arrow = starts(at, end, "->") && at > line && at[-1] != ' ' && end - at > 2;
        if (starts(at, end, "=>") || (arrow && (lex_is_letter(at[2]) || strchr("[{", at[2]))))
            return true;
    }
    while (line < end && (*line == '$' || lex_is_word_char(*line)))
        line++;
    line += line < end && *line == ' ';
    return starts(line, end, "=") && !starts(line, end, "==");
}

/* The line with the signs of Python in the place of Perl's. */
static void put_python(buf *out, const char *at, const char *end)
{
    at += starts(at, end, "my ") ? 3 : 0;
    while (end > at && (end[-1] == ';' || end[-1] == ' '))
        end--;
    while (at < end) {
        if (starts(at, end, "->aspdl")) {
            buf_add(out, ".asnumpy()");
            at += starts(at, end, "->aspdl()") ? 9 : 7;
        } else if (starts(at, end, "->")) {
            at += 2;
            if (at < end && *at != '[')
                buf_char(out, '.');
        } else if (starts(at, end, "=>")) {
            buf_char(out, '=');
            at += 2;
        } else if (*at == '$') {
            at++;
        } else {
            buf_char(out, *at++);
        }
    }
}

/* Hints how a statement that could not be read is written here, when it looks like Perl. pos: where
 * it begins. */
static void parse_hint_perl(parser *p, uint32_t pos)
{
    const char *line = p->lx.src->text + pos, *end = line;
    while (end < p->lx.src->text + p->lx.limit && *end != '\n')
        end++;
    bool sigil = memchr(line, '$', (size_t)(end - line)) || starts(line, end, "use AI::");
    if (!sigil || !is_perl(line, end))
        return;
    own_buf text = {0};
    put_python(&text, line, end);
    bool plain = !strstr(buf_text(&text), "map {") && !strstr(buf_text(&text), "sub {") &&
                 !starts(line, end, "use ") && !strchr(buf_text(&text), '@');
    p->e->hint[0] = '\0';
    if (plain && text.len < 100)
        kv_err_hint(p->e, "this is Perl; here: %s", buf_text(&text));
    else
        kv_err_hint(p->e, "this is Perl; here `$x->f(a => 1)` is x.f(a=1), `my $x = [2,3]` is "
                          "x = [2,3], `map { … } 0..3` is [… for i in 0..3]");
}

/* ---- Statements ---- */

static ast *unknown_command(parser *p, uint32_t pos, uint32_t end)
{
    const char *name = p->lx.src->text + pos;
    if (process_word_page(name, end - pos)) {
        parse_fail(p, pos, end, KV_E_USAGE,
                   "`%.*s` is not a command here, but a word of the shell's command line",
                   (int)(end - pos), name);
        hint_shell(name, end - pos, p->e);
        return NULL;
    }
    const command *found = command_find(name, end - pos);
    parse_fail(p, pos, end, KV_E_USAGE, "there is no %s `%.*s`", found ? "function" : "command",
               parse_shown(p, pos, end), name);
    if (found) /* set-optimizer("sgd") */
        return command_hint_called(found, p->e), NULL;
    if (hint_word("command", name, end - pos, p->e) || hint_shell(name, end - pos, p->e))
        return NULL;
    suggest near = {.word = parse_intern(p, name, end - pos)};
    const function *f = near.word ? function_find(near.word) : NULL;
    if (f)
        kv_err_hint(p->e, "`%s` is a function: %s%s", near.word, near.word, FUNCTION_BRACKETS(f));
    if (end - pos == 1)
        return NULL; /* too short for a mistyped word */
    for (const command *c = registry.commands; near.word && c->name; c++)
        suggest_add(&near, c->name);
    const char *keyword, *rest;
    for (int i = 0; near.word && (keyword = statement_keyword(i, &rest)); i++)
        suggest_add(&near, keyword);
    suggest_done(&near, p->e);
    return parse_hint(p, "`help` lists the commands");
}

/* ---- Assignments ---- */

/* `a = pull 3`: a command gives a value in its call form alone. */
static ast *command_as_value(parser *p, const ast *node)
{
    const char *name = node->u.text, *statement = p->lx.src->text + node->pos;
    const command *c = command_find(name, strlen(name));
    parse_fail(p, node->pos, node->end, KV_E_SYNTAX, "`%s` is a command, and begins a statement",
               name);
    if (c->flags & COMMAND_GIVES)
        kv_err_hint(p->e, "%.*s -> x keeps what it gives; in an expression it is kv.%s(…)",
                    (int)strcspn(statement, "\n;#}"), statement, name);
    else if (c->method || command_can_be_called(c))
        kv_err_hint(p->e, "a store's method gives a value: kv.%s(…)", name);
    return NULL;
}

/* NAME = …, NAME += …, NAME[…] = …, a, b = …; NULL and no error when it is something else. */
static ast *assignment(parser *p)
{
    token t = *parse_peek(p);
    bool name = t.kind == TOK_NAME;
    /* most statements are commands, whose words are not read twice */
    char behind = name && !p->lx.in_brackets ? parse_char(p, parse_past_blanks(p, t.end)) : '=';
    if (!behind || !strchr("=+-*/%[,\\", behind))
        return NULL;
    parse_take(p);
    bool plain = name && parse_assign_op(p) != PARSE_NO_ASSIGN;
    bool item = parse_is_sign(p, SIGN1('[')) && !parse_peek(p)->blank_before;
    bool more = parse_is_sign(p, SIGN1(','));
    parse_seek(p, t.pos);
    if (!plain && ((name && !item && !more) || !parse_begins_assignment(p)))
        return NULL;
    ast *target = parse_targets(p);
    if (!target)
        return NULL;
    int op = parse_assign_op(p); /* the value stands behind the sign that is next */
    parse_take(p);
    ast *pair[2] = {target, parse_exprs(p, false)};
    t = *parse_peek(p);
    if (pair[1] && parse_is_sign(p, SIGN1('='))) {
        parse_fail(p, t.pos, t.end, KV_E_UNSUPPORTED, "an assignment has one `=`");
        return parse_hint(p, "y = 1; x = y");
    }
    /* a word or a number goes on no expression */
    bool operand =
        t.kind == TOK_INT || t.kind == TOK_FLOAT || t.kind == TOK_NAME || t.kind == TOK_STRING;
    if (pair[1] && pair[1]->kind == AST_NAME && operand &&
        command_find(pair[1]->u.text, strlen(pair[1]->u.text)))
        return command_as_value(p, pair[1]);
    ast *node = pair[1] ? parse_node_of(p, STMT_ASSIGN, target->pos, pair, 2) : NULL;
    if (!node)
        return NULL;
    node->op = op == PARSE_PLAIN ? STMT_PLAIN : (uint8_t)op;
    if (op == PARSE_PLAIN)
        return parse_store_made(p, node);
    ast *both = parse_node_of(p, AST_BINARY, target->pos, pair, 2);
    if (both)
        both->op = node->op;
    node->u.other = both;
    return both ? node : NULL;
}

/* Returns true if the next name is a word that goes on an expression: `x in l`, `x not in l`. */
static bool joins_values(parser *p)
{
    if (!parse_is_word(p, "not"))
        return parse_is_word(p, "and") || parse_is_word(p, "or") || parse_is_word(p, "in") ||
               parse_is_word(p, "is") || parse_is_word(p, "if");
    parser before = *p;
    parse_take(p);
    bool in = parse_is_word(p, "in");
    parse_back(p, &before);
    return in;
}

/* Returns true if a value begins here that cannot continue an expression: `foo 3`. */
static bool begins_value(parser *p)
{
    const token *t = parse_peek(p);
    if (!t->blank_before)
        return false;
    if (t->kind == TOK_NAME)
        return !joins_values(p);
    return t->kind == TOK_INT || t->kind == TOK_FLOAT || t->kind == TOK_STRING ||
           t->kind == TOK_FSTRING || t->kind == TOK_OPTION ||
           (t->kind == TOK_SIGN && (t->sign == SIGN1('$') || t->sign == SIGN1('{')));
}

/* Returns true if `a-b` at pos looks like the name of a command: it begins with one or is close to
 * one. */
static bool is_mistyped(parser *p, uint32_t pos, uint32_t name_end, uint32_t end)
{
    if (end == name_end)
        return false;
    suggest near = {.word = parse_intern(p, p->lx.src->text + pos, end - pos)};
    for (const command *c = registry.commands; near.word && c->name; c++)
        suggest_add(&near, c->name);
    return !near.word || near.n > 0;
}

static ast *show(parser *p)
{
    ast *part[2] = {parse_exprs(p, true), NULL};
    if (part[0] && part[0]->kind == AST_CALL && (part[0]->flags & AST_METHOD) &&
        parse_assign_op(p) != PARSE_NO_ASSIGN) {
        parse_fail(p, part[0]->pos, part[0]->end, KV_E_USAGE,
                   "an attribute cannot be given a value");
        return parse_hint(p, "of the optimizer in use: kv.set_optimizer(update=True, "
                             "learning_rate=0.01); else make a new value");
    }
    if (!part[0] || (parse_at_redirect(p) && !(part[1] = parse_redirect(p, NULL))))
        return NULL;
    return parse_node_of(p, STMT_SHOW, part[0]->pos, part, 2);
}

/* help(), help(kv), help(kv.push), help("gradient"): help, of the last name. */
static ast *help_call(parser *p)
{
    token t = parse_take(p), name = {0};
    ast *word = NULL;
    bracket b;
    int names = 0;
    if (!parse_open(p, &b))
        return NULL;
    if (parse_peek(p)->kind == TOK_STRING && !(word = parse_operand(p)))
        return NULL;
    while (!word && parse_peek(p)->kind == TOK_NAME &&
           (names == 0 || parse_char(p, name.end) == '.')) {
        name = parse_take(p);
        names++;
        parse_accept(p, SIGN1('.'));
    }
    if (!parse_close(p, &b))
        return NULL;
    const char *text = names > 0 ? parse_token_text(p, &name) : NULL;
    const command *method = text && names > 1 ? command_find_method(text) : NULL;
    if (text && (word = parse_node(p, AST_TEXT, name.pos, name.end, 0)))
        word->u.text = method ? method->name : text;
    return parse_help_on(p, t.pos, word);
}

/* help -> and other signs at the end of a line: what is written with them. NULL and no error for
 * anything else, such as `help > file.txt`. at: behind the word. */
static ast *help_on_sign(parser *p, uint32_t pos, uint32_t at)
{
    at = parse_past_blanks(p, at);
    uint32_t end = at, behind;
    while (parse_char(p, end) && strchr("@$<>|!-.[]{}+*/%=:&?", parse_char(p, end)))
        end++;
    for (behind = end; lex_is_blank(parse_char(p, behind));)
        behind++;
    char c = parse_char(p, behind);
    bool last = c == '\0' || c == '\n' || c == ';' || c == '#';
    ast *sign = end > at && last && !p->cursor ? parse_text(p, at, end) : NULL;
    return sign ? parse_help_on(p, pos, sign) : NULL;
}

/* Returns true if what stands behind a word goes on as an expression does, not as the words of a
 * command: `diff * 2`, not `diff *norm*`. */
static bool goes_on_as_value(parser *p)
{
    const token *t = parse_peek(p);
    if (parse_at_end(p) || parse_at_redirect(p))
        return true;
    if (t->kind == TOK_NAME)
        return joins_values(p);
    return t->kind == TOK_SIGN && t->blank_after && !strchr("$({", (char)t->sign);
}

/* Returns true if the name of a command on paths, which ends at `end`, is that of a variable. */
static bool is_variable(parser *p, const command *c, uint32_t end)
{
    char next = parse_char(p, end);
    if (!command_takes_paths(c))
        return false;
    if (next && !lex_is_blank(next) && !strchr(";}|>#?\r\n", next)) /* stat[0], stat*2 */
        return !(next == '-' && parse_char(p, end + 1) == '>');
    if (!(p->hidden >> command_hidden(c->name) & 1))
        return false;
    parser before = *p;
    parse_take(p);
    bool goes_on = goes_on_as_value(p);
    parse_back(p, &before);
    return goes_on;
}

static ast *word_statement(parser *p)
{
    /* of these NAME(...) is the command with its arguments, not a function */
    static const char *const with_brackets[] = {"print", "assert", "quit", "exit"};
    bool known;
    token t = *parse_peek(p);
    uint32_t end = parse_dashed_end(p, t.pos);
    const char *text = p->lx.src->text + t.pos;
    bool help = end - t.pos == 4 && memcmp(text, "help", 4) == 0;
    ast *node = help ? help_on_sign(p, t.pos, end) : NULL;
    if (!node && !p->e->code)
        node = assignment(p);
    if (node || p->e->code)
        return node;
    node = parse_control(p, &known);
    if (known)
        return node;
    const command *c = command_find(text, end - t.pos);
    char next = parse_char(p, end);
    bool called = next == '(' && c && NAME_AMONG(c->name, with_brackets) >= 0;
    if (next == '?') { /* word? is help word */
        ast *name = parse_text(p, t.pos, end);
        parse_seek(p, end + 1);
        return name ? parse_help_on(p, t.pos, name) : NULL;
    }
    if (help && next == '(')
        return help_call(p);
    if (c && !p->cursor && is_variable(p, c, end))
        return show(p);
    if (parse_at_import(p))
        return parse_import(p);
    if (!c && refuse_statement(p))
        return NULL;
    if (c && ((next != '(' && next != '.') || called)) {
        parse_seek(p, end);
        return parse_command(p, c, t.pos);
    }
    parse_take(p);
    const char *word = parse_token_text(p, &t);
    if (!word)
        return NULL;
    const token *behind = parse_peek(p);
    /* launch -n 2, jobs --json; a variable may well be called jobs, and `jobs -n` subtracts */
    bool option = process_word_page(text, end - t.pos) && behind->blank_before &&
                  !behind->blank_after && parse_is_sign(p, SIGN1('-')) &&
                  (strcmp(word, "launch") == 0 || p->lx.src->text[behind->pos + 1] == '-');
    bool value_follows = !parse_is_reserved(word) && begins_value(p);
    parse_seek(p, t.pos);
    int hidden = command_hidden(word);
    bool named = hidden >= 0 && (p->hidden >> hidden & 1); /* ls-lr subtracts where ls is one */
    if (value_follows || option || (!named && is_mistyped(p, t.pos, t.end, end)))
        return unknown_command(p, t.pos, end);
    return show(p);
}

/* The statement of a command such as `time`, which nests the tree. */
ast *parse_one_statement(parser *p)
{
    if (!parse_deeper(p, parse_here(p)))
        return NULL;
    ast *node = parse_statement(p);
    p->depth--;
    return node;
}

/* ?word is help word. */
static ast *question(parser *p)
{
    token t = parse_take(p);
    ast *sign = help_on_sign(p, t.pos, t.end);
    if (sign)
        return sign;
    ast *name = parse_at_end(p) ? NULL : parse_word(p, ".-", "a word to look up");
    if (!name && p->e->code) {
        binding b;
        bind_begin(&b, command_find("help", 4));
        bind_cursor(&b, p->cursor, p->lx.src->len);
        return NULL;
    }
    return parse_help_on(p, t.pos, name);
}

/* Returns true if the cursor is in the first word of a statement. The word may end at `a-`. */
static bool cursor_in_first_word(parser *p)
{
    token t = *parse_peek(p);
    uint32_t end = parse_dashed_end(p, t.pos);
    bool quoted = t.kind == TOK_CURSOR && t.sign;
    return (t.kind == TOK_NAME || t.kind == TOK_CURSOR) && !quoted &&
           parse_expects(p, EXPECT_STATEMENT, end + (parse_char(p, end) == '-'));
}

static ast *any_statement(parser *p)
{
    token t = *parse_peek(p);
    if (p->cursor && cursor_in_first_word(p))
        return NULL;
    if (t.kind == TOK_NAME)
        return word_statement(p);
    if (t.kind == TOK_SIGN && t.sign == SIGN1('!')) {
        parse_take(p);
        return parse_shell_text(p, STMT_SHELL, t.pos, "a shell command");
    }
    if (t.kind == TOK_SIGN && t.sign == SIGN1('?'))
        return question(p);
    if (t.kind == TOK_SIGN && t.sign == SIGN1('@') && parse_at_class(p))
        return parse_class(p);
    bool brackets = parse_is_sign(p, SIGN1('(')) || parse_is_sign(p, SIGN1('['));
    ast *node = brackets ? assignment(p) : NULL;
    return node || p->e->code ? node : show(p);
}

ast *parse_statement(parser *p)
{
    uint32_t pos = parse_peek(p)->pos;
    ast *node = any_statement(p);
    parse_cursor *at = p->cursor;
    if (!node && at && at->met && !at->in_statement) {
        at->in_statement = true;
        at->statement = pos;
        at->in_brackets = at->in_brackets && at->open >= pos;
    }
    return node;
}

/* Refuses what stands behind a statement on its line, which may begin a command or an assignment.
 */
static bool refuse_rest(parser *p)
{
    token t = *parse_peek(p);
    const char *text = p->lx.src->text + t.pos, *behind = text + (t.end - t.pos);
    bool another = t.kind == TOK_NAME &&
                   (command_find(text, t.end - t.pos) || behind[strspn(behind, " ")] == '=');
    parse_unexpected(p, "the end of the statement");
    if (another && !p->cursor && !p->lx.incomplete)
        kv_err_hint(p->e, "`;` or a new line stands between two statements");
    return false;
}

ast *statement_parse_all(parser *p)
{
    ast_list list = {0};
    uint32_t pos = p->lx.pos;
    p->method = parse_method;
    p->is_file = file_is_meant;
    if (parse_char(p, pos) == '#' && parse_char(p, pos + 1) == '!') {
        while (pos < p->lx.limit && parse_char(p, pos) != '\n')
            pos++;
        parse_seek(p, pos);
    }
    for (parse_skip_newlines(p); parse_peek(p)->kind != TOK_END; parse_skip_newlines(p)) {
        parser before = *p;
        uint32_t begin = parse_peek(p)->pos;
        bool read = parse_append(p, &list, parse_statement(p)), ok = read;
        if (ok && (parse_is_sign(p, SIGN1('}')) || !parse_at_end(p)))
            ok = refuse_rest(p);
        if (!ok && p->e->code && !p->cursor &&
            !hint_shell_path(p->lx.src->text + begin, p->lx.limit - begin, p->e))
            parse_hint_perl(p, begin);
        bool on = ok || parse_recovered(p, &before);
        list.n -= p->broken && read; /* what can be read of a broken statement does not run */
        if (p->broken && !parse_append(p, &list, p->broken))
            return NULL;
        p->broken = NULL;
        if (on && !ok && parse_peek(p)->pos >= p->lx.limit)
            break; /* also at a NUL byte, which is said once */
        if (on)
            continue;
        if (p->e->code || !p->recover)
            return NULL;
        break;
    }
    return parse_node_of(p, AST_BLOCK, 0, list.items, list.n);
}
