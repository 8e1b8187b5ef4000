/* A pass over the text, token by token, with a stack of what is open. Each bracket has a frame; the
 * frame of a block of statements, and the one around all, also knows how far its statement is. What
 * may stand at the cursor is what the state before the last word says.
 */
#include "complete/cursor.h"

#include <string.h>

#include "lang/lex.h"

#define DEPTH_MAX 64

typedef enum phase {
    PHASE_START,   /* nothing of the statement yet */
    PHASE_EXPR,    /* expression mode */
    PHASE_COMMAND, /* arguments */
    PHASE_SHELL    /* shell text up to the end of the line */
} phase;

/* What the next word is, where a sign or word before it decides that. */
typedef enum next_word {
    NEXT_ANY,
    NEXT_FILE,
    NEXT_VARIABLE,
    NEXT_NEW,
    NEXT_CONTEXT,
    NEXT_MEMBER
} next_word;

typedef struct frame {
    size_t open;        /* where its bracket is */
    char sign;          /* ( [ { or 0 for the text as a whole */
    bool block, rule;   /* { } of statements; of an updater */
    bool keys, names;   /* a list of keys; of names to be made */
    bool value;         /* the last token ended a value */
    bool after_name;    /* and it was the name `last` */
    cursor_part last;   /* the last token */
    next_word next;
    cursor_part object; /* NEXT_MEMBER: the name in front of the dot */
    bool member;        /* `last` stood behind a dot */
    /* of a call */
    cursor_part call, keyword;
    int argument;
    /* of a block: its statement */
    phase phase;
    size_t start;
    const command *command;
    int arg;               /* the argument that has begun last, -1 for none */
    uint32_t options;
    bool in_option, option_begun;
    const command_option *option;
    bool redirects;        /* > begins a redirect */
    bool control;          /* { begins a block */
    bool rule_next;        /* { begins a rule */
    bool count;            /* the count of a repeat: a statement follows it */
} frame;

typedef struct scan {
    const char *text;
    size_t n, at;
    bool blank; /* a blank stands before `at` */
    bool found; /* out is filled */
    cursor *out;
    int depth;
    frame stack[DEPTH_MAX];
} scan;

static frame *top(scan *s)
{
    return &s->stack[s->depth];
}

static char char_at(const scan *s, size_t i)
{
    return i < s->n ? s->text[i] : '\0';
}

static bool is_name_char(char c)
{
    return lex_is_letter(c) || lex_is_digit(c);
}

static bool is_word(const scan *s, cursor_part part, const char *word)
{
    return strlen(word) == part.n && memcmp(s->text + part.at, word, part.n) == 0;
}

static bool is_one_of(const scan *s, cursor_part part, const char *const *words)
{
    while (*words && !is_word(s, part, *words))
        words++;
    return *words != NULL;
}

/* ---- Arguments ---- */

/* The argument that a token beginning here belongs to; the number of arguments when
 * none is left. */
static int argument_here(const scan *s, const frame *f)
{
    if (f->arg < 0)
        return 0;
    arg_kind kind = f->command->args[f->arg].kind;
    bool more = kind == ARG_VALUES || kind == ARG_WORDS || kind == ARG_EXPRS;
    bool apart = s->blank && f->value && !more;
    return f->arg + (apart && kind != ARG_END ? 1 : 0);
}

static bool in_option(const scan *s, const frame *f)
{
    return f->in_option && (!f->option_begun || !(s->blank && f->value));
}

/* A token begins here: goes on to its argument. */
static void begin_token(scan *s)
{
    frame *f = top(s);
    if (!f->block || f->phase != PHASE_COMMAND || f->next != NEXT_ANY)
        return;
    if (in_option(s, f)) {
        f->option_begun = true;
        return;
    }
    if (f->in_option) { /* its value is complete */
        f->in_option = false;
        if (f->arg < 0 || f->command->args[f->arg].kind == ARG_END)
            f->arg++;
        else
            f->arg = argument_here(s, f);
        return;
    }
    f->arg = argument_here(s, f);
}

/* How a word that begins here is read. */
static arg_kind kind_here(const scan *s, const frame *f)
{
    if (f->keys)
        return ARG_KEYS;
    if (!f->block || f->phase != PHASE_COMMAND || in_option(s, f))
        return ARG_EXPRS;
    return f->command->args[argument_here(s, f)].kind;
}

/* ---- The answer ---- */

static cursor_place place_in_command(scan *s, const frame *f)
{
    s->out->argument = argument_here(s, f);
    const command_arg *arg = &f->command->args[s->out->argument];
    bool begins = f->arg < 0 || s->out->argument != f->arg || arg->kind == ARG_VALUES ||
                  arg->kind == ARG_WORDS;
    if (in_option(s, f)) {
        s->out->option = f->option;
        return !f->option_begun ? CURSOR_OPTION_VALUE
               : !f->value      ? CURSOR_OPERAND
                                : CURSOR_NOTHING;
    }
    if (f->arg >= 0 && !f->value && arg->kind != ARG_KEYS)
        return CURSOR_OPERAND; /* behind an operator */
    if (f->value && !s->blank)
        return CURSOR_NOTHING;
    if (arg->kind == ARG_EXPRS)
        return f->value ? CURSOR_OPERATOR : CURSOR_OPERAND;
    if (arg->kind == ARG_END)
        return CURSOR_NOTHING;
    return begins || arg->kind == ARG_KEYS ? CURSOR_ARGUMENT : CURSOR_OPERATOR;
}

static cursor_place place_here(scan *s, const frame *f)
{
    switch (f->next) {
    case NEXT_FILE:
        return CURSOR_FILE;
    case NEXT_VARIABLE:
        return CURSOR_VARIABLE;
    case NEXT_NEW:
        return CURSOR_NOTHING;
    case NEXT_CONTEXT:
        return CURSOR_CONTEXT;
    case NEXT_MEMBER:
        s->out->object = f->object;
        return CURSOR_MEMBER;
    case NEXT_ANY:
        break;
    }
    if (f->names)
        return CURSOR_NOTHING;
    if (f->rule)
        return f->value ? CURSOR_NOTHING : CURSOR_RULE;
    if (f->block && f->phase == PHASE_START)
        return CURSOR_STATEMENT;
    if (f->block && f->phase == PHASE_SHELL)
        return CURSOR_NOTHING;
    if (f->block && f->phase == PHASE_COMMAND)
        return place_in_command(s, f);
    if (f->keys) {
        s->out->argument = 0;
        return f->value ? CURSOR_NOTHING : CURSOR_ARGUMENT;
    }
    if (f->block && f->count && f->value && s->blank)
        return CURSOR_STATEMENT;
    return !f->value ? CURSOR_OPERAND : s->blank ? CURSOR_OPERATOR : CURSOR_NOTHING;
}

/* The cursor's word begins at `word`, behind the quote if that is not 0. */
static void answer(scan *s, size_t word, char quote)
{
    cursor *out = s->out;
    frame *f = top(s);
    if (s->found)
        return;
    s->found = true;
    int b = s->depth;
    while (!s->stack[b].block)
        b--;
    const frame *block = &s->stack[b];
    out->word = word;
    out->quote = quote;
    out->statement = block->phase == PHASE_START ? word : block->start;
    out->command = block->phase == PHASE_COMMAND ? block->command : NULL;
    out->begun = block->arg + 1;
    if (f == block && out->command && (word < s->n || quote) && !in_option(s, f)) {
        int here = argument_here(s, f);
        out->begun = here + (f->command->args[here].kind != ARG_END);
    }
    out->options = block->options;
    out->depth = s->depth - b;
    out->call = f->call;
    out->keyword = f->keyword;
    out->call_argument = f->argument;
    for (int i = s->depth; i > 0 && !out->block; i--)
        if (s->stack[i].rule && s->stack[i].block)
            out->block = s->stack[i].open;
    out->place = place_here(s, f);
    if (quote && (out->place == CURSOR_STATEMENT || out->place == CURSOR_OPERATOR ||
                  out->place == CURSOR_RULE || out->place == CURSOR_VARIABLE))
        out->place = CURSOR_NOTHING;
}

static void give_up(scan *s)
{
    s->out->word = s->n;
    s->found = true;
}

/* ---- Brackets ---- */

static void start_statement(frame *f)
{
    frame fresh = {.open = f->open, .sign = f->sign, .block = f->block, .rule = f->rule, .arg = -1};
    *f = fresh;
}

static frame *push(scan *s, char sign)
{
    if (s->depth + 1 == DEPTH_MAX) {
        give_up(s);
        return NULL;
    }
    frame *f = &s->stack[++s->depth];
    *f = (frame){.open = s->at, .sign = sign, .arg = -1};
    return f;
}

static void open_bracket(scan *s, char sign)
{
    begin_token(s);
    frame *f = top(s);
    bool arguments = f->block && f->phase == PHASE_COMMAND;
    arg_kind kind =
        arguments && f->arg >= 0 && !f->in_option ? f->command->args[f->arg].kind : ARG_END;
    bool called = sign == '(' && f->after_name && !(arguments && s->blank);
    bool block = sign == '{' && f->block &&
                 (f->control || f->rule || kind == ARG_RULE || kind == ARG_BLOCK ||
                  kind == ARG_STATEMENT);
    frame *inner = push(s, sign);
    if (!inner)
        return;
    inner->block = block;
    inner->rule = f->rule || (block && (f->rule_next || kind == ARG_RULE));
    inner->keys = kind == ARG_KEYS && sign == '[' && !f->value;
    inner->names = called && f->next == NEXT_NEW;
    if (called) {
        inner->call = f->last;
        inner->argument = f->member;
    }
    f->next = NEXT_ANY;
    f->value = f->after_name = false;
    s->at++;
}

static void close_bracket(scan *s, char sign)
{
    const frame *inner = top(s);
    char opens = sign == ')' ? '(' : sign == ']' ? '[' : '{';
    if (s->depth == 0 || inner->sign != opens) {
        give_up(s);
        return;
    }
    bool block = inner->block;
    s->depth--;
    frame *f = top(s);
    s->at++;
    if (block)
        start_statement(f); /* else and elif are first words too */
    else
        f->value = true;
    f->after_name = false;
}

/* ---- Words ---- */

static void take_token(scan *s, size_t end, bool name)
{
    frame *f = top(s);
    f->last = (cursor_part){s->at, end - s->at};
    f->member = f->next == NEXT_MEMBER;
    f->next = NEXT_ANY;
    f->value = true;
    f->after_name = name;
    s->at = end;
}

/* A text in quotes that begin at `quote`; s->at may be at an f before it. */
static void take_text(scan *s, size_t quote)
{
    char sign = s->text[quote];
    size_t end = quote + 1;
    while (end < s->n && s->text[end] != sign && s->text[end] != '\n')
        end += s->text[end] == '\\' && sign == '"' && end + 1 < s->n ? 2 : 1;
    if (end < s->n && s->text[end] == '\n') {
        give_up(s);
    } else if (end >= s->n) {
        answer(s, quote + 1, sign);
    } else {
        begin_token(s);
        take_token(s, end + 1, false);
    }
}

static size_t name_end(const scan *s, size_t at)
{
    while (at < s->n && is_name_char(s->text[at]))
        at++;
    return at;
}

static size_t dashed_end(const scan *s, size_t at)
{
    size_t end = at;
    while (is_name_char(char_at(s, end)) ||
           (char_at(s, end) == '-' && end > at && lex_is_letter(char_at(s, end + 1))))
        end++;
    return end;
}

static size_t number_end(const scan *s, size_t at)
{
    for (; at < s->n; at++) {
        char c = s->text[at];
        bool sign = (c == '-' || c == '+') && (s->text[at - 1] | 32) == 'e';
        bool point = c == '.' && char_at(s, at + 1) != '.';
        if (!is_name_char(c) && !point && !sign)
            break;
    }
    return at;
}

/* The end of a word of an argument that is no expression; `at` when none begins here. */
static size_t plain_end(const scan *s, size_t at, const char *stops)
{
    int open = 0;
    for (; at < s->n && (open > 0 || !strchr(stops, s->text[at])); at++) {
        if (s->text[at] == '-' && char_at(s, at + 1) == '>')
            break;
        if (strchr(" \t\n", s->text[at]))
            break;
        open += (s->text[at] == '{') - (s->text[at] == '}');
        if (open < 0)
            break;
    }
    return at;
}

static void take_plain(scan *s, size_t end, bool file)
{
    if (end == s->n) {
        answer(s, s->at, 0);
        return;
    }
    if (!file)
        begin_token(s);
    take_token(s, end, false);
}

/* The signs and words behind the first word of a statement that make it an assignment. */
static bool is_assignment(const scan *s, size_t end)
{
    while (char_at(s, end) == ' ' || char_at(s, end) == '\t')
        end++;
    char c = char_at(s, end), next = char_at(s, end + 1);
    return (c == '=' && next != '=') || (c && strchr("+-*/", c) && next == '=');
}

static void control_word(scan *s, frame *f, cursor_part word)
{
    static const char *const tests[] = {"if", "elif", "while", "return", NULL};
    f->phase = PHASE_EXPR;
    f->control = true;
    f->value = is_word(s, word, "break") || is_word(s, word, "continue");
    if (is_word(s, word, "else"))
        f->phase = PHASE_START;
    else if (is_word(s, word, "repeat"))
        f->count = true;
    else if (!f->value && !is_one_of(s, word, tests))
        f->next = NEXT_NEW;
    f->rule_next = is_word(s, word, "updater");
}

/* The first word of a statement. */
static void first_word(scan *s)
{
    static const char *const control[] = {"if",     "elif", "else",   "while", "return",   "for",
                                          "repeat", "def",  "updater", "break", "continue", NULL};
    frame *f = top(s);
    size_t plain = name_end(s, s->at), dashed = dashed_end(s, s->at);
    const command *c = command_find(s->text + s->at, dashed - s->at);
    cursor_part word = {s->at, plain - s->at};
    char next = char_at(s, dashed);
    if (next == '-' && dashed + 1 == s->n)
        dashed++;
    if (dashed == s->n) {
        answer(s, s->at, 0);
        return;
    }
    bool prints = c && (strcmp(c->name, "print") == 0 || strcmp(c->name, "assert") == 0);
    f->start = s->at;
    f->redirects = true;
    f->control = false;
    if (is_assignment(s, plain)) {
        f->phase = PHASE_EXPR;
        take_token(s, plain, true);
    } else if (is_one_of(s, word, control) && !(next == '(' && is_word(s, word, "repeat"))) {
        take_token(s, plain, false);
        f->redirects = false;
        control_word(s, f, word);
    } else if (c && ((next != '(' && next != '.') || prints)) {
        take_token(s, dashed, false);
        f->phase = PHASE_COMMAND;
        f->command = c;
        f->value = false;
        f->redirects = strcmp(c->name, "assert") != 0;
    } else {
        f->phase = PHASE_EXPR;
        take_token(s, plain, true);
    }
}

static void take_name(scan *s)
{
    static const char *const between[] = {"and", "or", "not", "in", "by", "if", "else", NULL};
    frame *f = top(s);
    size_t end = name_end(s, s->at);
    cursor_part word = {s->at, end - s->at};
    char quote = char_at(s, end);
    if (word.n == 1 && s->text[s->at] == 'f' && (quote == '"' || quote == '\'')) {
        take_text(s, end);
        return;
    }
    if (end == s->n) {
        answer(s, s->at, 0);
        return;
    }
    begin_token(s);
    bool fresh = f->next == NEXT_NEW, to_make = is_word(s, word, "for") && !f->block;
    bool infix = f->next == NEXT_ANY && is_one_of(s, word, between);
    take_token(s, end, true);
    if (fresh && char_at(s, end) == '(')
        f->next = NEXT_NEW; /* its parameters are new names too */
    if (infix || to_make)
        f->value = f->after_name = false;
    if (to_make)
        f->next = NEXT_NEW;
}

/* --name, or the beginnings of one */
static void take_option(scan *s)
{
    frame *f = top(s);
    size_t end = s->at;
    while (char_at(s, end) == '-' || is_name_char(char_at(s, end)))
        end++;
    if (end == s->n) {
        answer(s, s->at, 0);
        if (f->phase == PHASE_COMMAND)
            s->out->place = CURSOR_OPTION;
        return;
    }
    f->in_option = true;
    f->option_begun = f->value = false;
    f->option = NULL;
    for (int i = 0; f->command->options[i].name; i++) {
        const char *name = f->command->options[i].name;
        if (strlen(name) != end - s->at - 2)
            continue;
        size_t k = 0;
        while (name[k] && (name[k] == s->text[s->at + 2 + k] ||
                           (name[k] == '-' && s->text[s->at + 2 + k] == '_')))
            k++;
        if (!name[k]) {
            f->option = &f->command->options[i];
            f->options |= 1u << i;
        }
    }
    if (f->option && f->option->kind == OPTION_FLAG) {
        f->in_option = false;
        f->value = f->arg >= 0; /* it stands between two arguments */
    }
    s->at = end;
    if (char_at(s, end) == '=')
        s->at++;
}

/* ---- Signs ---- */

static void comma(scan *s)
{
    frame *f = top(s);
    f->argument++;
    f->keyword = (cursor_part){0};
    f->value = f->after_name = false;
    f->next = f->rule_next && f->block ? NEXT_NEW : NEXT_ANY;
    s->at++;
}

static void equals(scan *s)
{
    frame *f = top(s);
    if (char_at(s, s->at + 1) == '=') {
        s->at += 2;
    } else {
        if (f->call.n > 0 && f->after_name)
            f->keyword = f->last;
        f->redirects = false;
        s->at++;
    }
    f->value = f->after_name = false;
    f->next = NEXT_ANY;
}

static void at_sign(scan *s)
{
    frame *f = top(s);
    bool arguments = f->block && f->phase == PHASE_COMMAND;
    bool context = f->value && !(arguments && s->blank);
    if (!context)
        begin_token(s);
    f->next = context ? NEXT_CONTEXT : NEXT_FILE;
    f->value = f->after_name = false;
    s->at++;
}

/* >, >>, ->, | and << outside brackets. Returns whether it was one that ends the arguments. */
static bool redirect(scan *s)
{
    frame *f = top(s);
    char c = s->text[s->at], next = char_at(s, s->at + 1);
    if (!f->block || f->phase == PHASE_START || f->rule)
        return false;
    if (c == '-' && next == '>') {
        f->next = NEXT_VARIABLE;
        s->at += 2;
    } else if (c == '<' && next == '<') {
        give_up(s);
    } else if (c == '|') {
        f->phase = PHASE_SHELL;
        s->at++;
    } else if (c == '>' && next != '=' && f->redirects) {
        f->next = NEXT_FILE;
        s->at += next == '>' ? 2 : 1;
    } else {
        return false;
    }
    f->value = f->after_name = false;
    return true;
}

static void operator_sign(scan *s)
{
    frame *f = top(s);
    char c = s->text[s->at], next = char_at(s, s->at + 1);
    bool begins = (c == '-' || c == '+') && s->blank && next && !strchr(" \t", next);
    if (begins)
        begin_token(s);
    f->value = f->after_name = false;
    f->next = NEXT_ANY;
    s->at++;
}

static void dot(scan *s)
{
    frame *f = top(s);
    bool member = f->value && char_at(s, s->at + 1) != '.';
    if (member) {
        f->object = f->after_name && !f->member ? f->last : (cursor_part){0};
        f->next = NEXT_MEMBER;
    }
    f->value = f->after_name = false;
    s->at += member || char_at(s, s->at + 1) != '.' ? 1 : 2;
}

static void sign(scan *s)
{
    char c = s->text[s->at];
    if (redirect(s))
        return;
    if (strchr("([{", c)) {
        open_bracket(s, c);
    } else if (strchr(")]}", c)) {
        close_bracket(s, c);
    } else if (c == ',') {
        comma(s);
    } else if (c == '=') {
        equals(s);
    } else if (c == '@') {
        at_sign(s);
    } else if (c == '.') {
        dot(s);
    } else if (c == '$') {
        begin_token(s);
        top(s)->next = NEXT_VARIABLE;
        s->at++;
    } else {
        operator_sign(s);
    }
}

/* ---- The pass ----
 *
 * Each step takes at least one byte, or finds the answer: it takes a blank, or it decides what
 * begins here, which takes nothing, and then takes that. */

static void skip_line(scan *s)
{
    while (s->at < s->n && s->text[s->at] != '\n')
        s->at++;
    if (s->at == s->n)
        give_up(s);
}

/* Takes blanks, ends of statements, comments and shell text, which is not read. Returns whether
 * there was one. */
static bool take_blank(scan *s)
{
    frame *f = top(s);
    char c = s->text[s->at];
    bool shell = f->block && f->phase == PHASE_SHELL;
    if ((shell && c != '\n') || (c == '#' && s->blank)) {
        skip_line(s);
        return true;
    }
    if (!strchr(" \t\r\n;\\", c))
        return false;
    if (c == '\\' && char_at(s, s->at + 1) == '\n')
        s->at++; /* the newline is a blank then */
    else if (f->block && (c == '\n' || c == ';'))
        start_statement(f);
    s->at++;
    s->blank = true;
    return true;
}

static bool is_option(const scan *s, const frame *f)
{
    char second = char_at(s, s->at + 1), third = char_at(s, s->at + 2);
    return f->block && f->phase == PHASE_COMMAND && s->blank && s->text[s->at] == '-' &&
           (s->at + 1 == s->n || (second == '-' && (s->at + 2 == s->n || lex_is_letter(third))));
}

/* A word whose reading the command decides. Returns whether there was one. */
static bool special_word(scan *s, frame *f)
{
    static const char path_stops[] = " \t\r\n;\"'$(),|>)]";
    static const char key_stops[] = " \t\r\n;,\"'$()[]=<>|+@!";
    arg_kind kind = kind_here(s, f);
    char c = s->text[s->at];
    bool file = f->next == NEXT_FILE || kind == ARG_FILE || kind == ARG_SOURCE;
    bool plain = kind == ARG_WORD || kind == ARG_WORDS || kind == ARG_GLOB || kind == ARG_NAME ||
                 kind == ARG_RULE || kind == ARG_CODE || kind == ARG_SWITCH || file;
    if (c == '"' || c == '\'' || (f->next != NEXT_ANY && f->next != NEXT_FILE))
        return false;
    if (kind != ARG_KEYS && !plain)
        return false;
    if (kind == ARG_KEYS && c == '-' && !lex_is_digit(char_at(s, s->at + 1)))
        return false;
    size_t end = plain_end(s, s->at, kind == ARG_KEYS ? key_stops : path_stops);
    if (end == s->at || (c == '{' && !file))
        return false;
    take_plain(s, end, f->next == NEXT_FILE);
    return true;
}

/* Whether a statement begins here within another one: the body of a repeat, of `time`, of
 * `explain`. */
static bool begins_statement(const scan *s, const frame *f)
{
    char c = s->text[s->at];
    if (!f->block)
        return false;
    if (f->count)
        return f->value && s->blank;
    if (f->phase != PHASE_COMMAND || f->next != NEXT_ANY || is_option(s, f) || strchr("{\"'", c))
        return false;
    arg_kind kind = kind_here(s, f);
    return kind == ARG_STATEMENT || kind == ARG_EXPLAINED;
}

/* ! and ? in front of a statement. */
static void take_shell_or_help(scan *s)
{
    frame *f = top(s);
    f->phase = s->text[s->at] == '!' ? PHASE_SHELL : PHASE_COMMAND;
    f->command = command_find("help", 4);
    f->start = s->at++;
    s->blank = true;
}

static void take_number(scan *s)
{
    size_t end = number_end(s, s->at);
    if (end == s->n) {
        answer(s, s->at, 0);
        s->out->place = CURSOR_NOTHING;
    } else {
        begin_token(s);
        take_token(s, end, false);
    }
}

static void take_word(scan *s)
{
    char c = s->text[s->at];
    if (is_option(s, top(s)))
        take_option(s);
    else if (special_word(s, top(s)))
        ;
    else if (c == '"' || c == '\'')
        take_text(s, s->at);
    else if (lex_is_letter(c))
        take_name(s);
    else if (lex_is_digit(c))
        take_number(s);
    else
        sign(s);
    s->blank = false;
}

static void step(scan *s)
{
    frame *f = top(s);
    char c = s->text[s->at];
    if (take_blank(s))
        return;
    if (begins_statement(s, f)) {
        f->phase = PHASE_START;
        f->count = false;
    }
    if (f->block && f->phase == PHASE_START && strchr("!?", c)) {
        take_shell_or_help(s);
        return;
    }
    if (f->block && f->phase == PHASE_START && !f->rule && lex_is_letter(c)) {
        first_word(s);
        s->blank = false;
        return;
    }
    if (f->block && f->phase == PHASE_START && !f->rule && c != '}') {
        f->phase = PHASE_EXPR;
        f->start = s->at;
        f->redirects = true;
    }
    take_word(s);
}

void cursor_find(cursor *out, const char *text, size_t n)
{
    scan s = {.text = text, .n = n, .blank = true, .out = out};
    *out = (cursor){0};
    s.stack[0] = (frame){.block = true, .arg = -1};
    while (s.at < s.n && !s.found) {
        size_t from = s.at;
        step(&s);
        if (s.at == from && !s.found)
            give_up(&s);
    }
    answer(&s, n, 0);
}
