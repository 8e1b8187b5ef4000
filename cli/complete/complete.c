/* Words for each place where the cursor can stand, by the kind of what is expected there. */
#include "complete/complete.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/kv_assert.h"
#include "checkpoint/checkpoint.h"
#include "cmd/commands.h"
#include "cmd/help.h"
#include "lang/lex.h"
#include "run/run.h"
#include "session/result.h"
#include "session/session.h"
#include "syntax/file_kind.h"
#include "syntax/function.h"
#include "syntax/parse_statement.h"
#include "syntax/rules.h"
#include "vm/element.h"

/* ---- Hints ---- */

/* What is still missing behind the cursor, for the hint in grey: arguments, options, parameters. */

/* Adds what follows the n bytes at word, if they are a keyword. */
static void keyword_hint(const char *word, size_t n, buf *out)
{
    const char *known, *rest;
    for (int i = 0; (known = statement_keyword(i, &rest)); i++)
        if (strncmp(word, known, n) == 0 && !known[n])
            buf_add(out, rest);
}

static void add_word(buf *out, const char *fmt, const char *word)
{
    if (out->len > 0)
        buf_char(out, ' ');
    buf_printf(out, fmt, word);
}

/* The arguments from number `from` on, and the options that were not given. */
static void command_hint(const parse_cursor *at, const command *c, int from, buf *out)
{
    int n = 0;
    while (c->args[n].kind != ARG_END)
        n++;
    for (int i = from; i < n; i++)
        add_word(out, c->args[i].optional ? "[%s]" : "%s", c->args[i].name);
    if (c->flags & COMMAND_PARAMS && at->options == 0)
        add_word(out, "%s", "[--PARAM V]...");
    for (int i = 0; c->options[i].name; i++) {
        buf option = {0};
        command_option_usage(&option, &c->options[i]);
        if (!(at->options >> i & 1))
            add_word(out, "%s", buf_text(&option));
        buf_release(&option);
    }
}

static void add_parameter(buf *out, const char *name)
{
    buf_printf(out, out->len > 0 ? ", %s" : "%s", name);
}

/* The parameters that a call still lacks: those behind the argument at the cursor. A function that
 * takes a shape may get it as several numbers, so only what has a name is missing behind it. */
static void call_hint(const complete_request *r, buf *out)
{
    const parse_cursor *at = &r->at;
    bool begun = at->expected != EXPECT_OPERAND || *r->typed;
    uint32_t from = at->call_argument + begun;
    const function *f = function_find(at->call);
    for (int64_t i = 0; i < r->s->ndefs && !f; i++) {
        const ast *def = r->s->defs[i].node;
        if (strcmp(r->s->defs[i].name, at->call) == 0)
            for (uint32_t k = from + 1; k < def->n; k++)
                add_parameter(out, def->kid[k]->u.text);
    }
    for (uint32_t i = 0; f && f->params[i]; i++) {
        bool by_name = strchr(f->params[i], '=') != NULL;
        bool shape = (f->flags & FUNCTION_SHAPE) && from > 0 && by_name;
        if (i >= from ? !at->keyword || by_name : shape)
            if (!strstr(r->text + at->open, f->params[i]))
                add_parameter(out, f->params[i]);
    }
    if (out->len > 0)
        buf_char(out, ')');
}

/* Adds the words that are missing behind the cursor. */
static void add_hint(const complete_request *r, buf *out)
{
    const parse_cursor *at = &r->at;
    const char *from = r->text + at->statement;
    size_t n = strcspn(from, " \t");
    if (at->call && !at->quote) {
        call_hint(r, out);
    } else if (at->in_brackets) {
        return;
    } else if (at->expected == EXPECT_STATEMENT && *r->typed) {
        const command *c = command_find(r->typed, strlen(r->typed));
        keyword_hint(r->typed, strlen(r->typed), out);
        if (c)
            command_hint(at, c, 0, out);
    } else if (r->command && at->expected != EXPECT_OPTION && !at->quote) {
        command_hint(at, r->command, at->begun, out);
    } else if (!r->command && at->expected != EXPECT_STATEMENT &&
               !from[n + strspn(from + n, " \t")]) {
        keyword_hint(from, n, out); /* the statement has no other word yet */
    }
}

void complete_hint(session *s, const char *text, size_t n, buf *out)
{
    complete_request r;
    buf rest = {0};
    complete_request_init(&r, s, text, n, NULL);
    const parse_cursor *at = &r.at;
    bool other = at->expected == EXPECT_VARIABLE || at->expected == EXPECT_CONTEXT ||
                 at->expected == EXPECT_MEMBER ||
                 (at->expected == EXPECT_FILE && !at->in_option && !complete_at_file(&r));
    if (at->met && !other)
        add_hint(&r, &rest);
    if (rest.len > 0) {
        bool inside = at->call && !at->quote, blank = strchr(" \t\n(", text[n - 1]);
        const char *gap = blank ? "" : inside && *r.typed == '\0' && text[n - 1] == ',' ? " "
                          : inside ? ", " : " ";
        buf_printf(out, "%s%s", gap, buf_text(&rest));
    }
    buf_release(&rest);
    arena_release(&r.nodes);
}

/* ---- Rules ---- */

static bool is_optimizer(const complete_request *r)
{
    return strcmp(r->command->name, "set-optimizer") == 0;
}

static void offer_rules(complete_request *r)
{
    const char *name;
    if (!is_optimizer(r))
        offer_word(r, "assign");
    for (int i = 0; is_optimizer(r) && kv_optimizer_text(i, &name); i++)
        offer_word(r, name);
    for (int64_t i = 0; i < r->s->nrules; i++)
        offer_word(r, r->s->rule_defs[i].name);
    for (int64_t i = 0; i < r->s->ndefs; i++)
        if (r->s->defs[i].node->n == 4)
            offer_word(r, r->s->defs[i].name);
}

/* ---- Checkpoints ---- */

static bool is_pattern(const char *name)
{
    return strncmp(name, "GLOB", 4) == 0;
}

/* Returns true if the word may still be a file, as behind the first of `ls CKPT... GLOB...`. */
static bool follows_files(const complete_request *r)
{
    const command_arg *args = r->command->args;
    uint32_t at = r->at.argument;
    return at > 0 && args[at - 1].kind == ARG_PATH && strstr(args[at - 1].name, "...");
}

static bool is_merge(const complete_request *r)
{
    return r->command && r->command->args[0].kind == ARG_MERGE;
}

/* The names in the checkpoint behind the command, or behind the rule of a merge. */
static void offer_tensors(complete_request *r)
{
    const char *from = r->text + r->at.statement;
    offer_tensors_of(r, is_merge(r) ? complete_next_word(from) : from);
}

static void offer_name(void *arg, const char *name)
{
    offer_word(arg, name);
}

/* ---- Calls ---- */

static const char *const truths[] = {"true", "false", NULL};

/* Offers values of parameters that mean the same in every function. Returns false for others. */
static bool offer_argument(complete_request *r, const char *name)
{
    if (strcmp(name, "dtype") == 0) {
        offer_dtypes(r);
    } else if (strcmp(name, "ctx") == 0 && !r->at.quote) {
        offer_contexts(r);
    } else if (strcmp(name, "stype") == 0) {
        offer_text(r, "default");
        offer_text(r, "row_sparse");
    } else if (strcmp(name, "format") == 0) {
        for (int i = 0; file_kind_format(i); i++)
            offer_text(r, file_kind_format(i));
    } else if (strcmp(name, "header") == 0 && !r->at.quote) {
        offer_all(r, truths);
    } else if (strcmp(name, "file") == 0 && r->at.quote) {
        offer_files(r, FILES_ARRAYS);
    } else {
        return false;
    }
    r->out->joined = true;
    return true;
}

static void complete_operand(complete_request *r)
{
    const parse_cursor *at = &r->at;
    const command *c = at->method ? command_find(at->call, strlen(at->call)) : NULL;
    const function *f = at->call ? function_find(at->call) : NULL;
    const char *parameter = at->call && !c ? at->keyword : NULL;
    bool has = at->call && strcmp(at->call, "has") == 0;
    /* by its place: parameters that may be left out are nearly always given by name */
    for (uint32_t i = 0; f && !c && !at->keyword && f->params[i] && !strchr(f->params[i], '='); i++)
        if (i == at->call_argument)
            parameter = f->params[i];
    if (parameter && offer_argument(r, parameter))
        return;
    if ((c && c->args[0].kind == ARG_KEYS && at->call_argument == 1) || has)
        offer_keys(r);
    if (at->quote)
        return;
    for (int i = 0; f && !at->keyword && f->params[i]; i++)
        if (strchr(f->params[i], '=')) /* dtype= and the like, which can be given by name */
            offer_word(r, f->params[i]);
    offer_operands(r);
}

/* Behind a dot: commands of a store, or functions of a value. */
static void complete_member(complete_request *r)
{
    const char *name = r->at.object;
    bool store = name && (session_find_store(r->s, name) >= 0 || strcmp(name, "kv") == 0);
    if (!store || session_find(r->s, name)) {
        offer_functions(r);
        return;
    }
    for (const command *c = registry.commands; c->name; c++) {
        buf method = {0};
        name_put(&method, c->name, strlen(c->name), '_');
        if (command_can_be_called(c))
            offer_call(r, buf_text(&method));
        buf_release(&method);
    }
}

/* ---- Arguments ---- */

static int offer_type(void *arg, const kv_field *fields, int nfields, kv_err *e)
{
    (void)e;
    offer_word(arg, field_text(fields, nfields, "name"));
    return KV_OK;
}

static void offer_types(complete_request *r)
{
    kv_describe(NULL, "types", offer_type, r, NULL);
}

static void offer_help(complete_request *r)
{
    char group[16] = "";
    const char *name;
    sscanf(r->text + r->at.statement, "help %15[a-z] ", group);
    if (strcmp(group, "merge") == 0 && r->at.argument == 1) {
        offer_merges(r);
    } else if (strcmp(group, "optimizer") == 0 && r->at.argument == 1) {
        for (int i = 0; kv_optimizer_text(i, &name); i++)
            offer_word(r, name);
    } else if (strcmp(group, "language") == 0 && r->at.argument == 1) {
        language_words(offer_name, r);
    } else {
        for (int i = 0; help_topic(i); i++)
            offer_word(r, help_topic(i));
        offer_types(r);
        offer_commands(r);
        for (const function *f = registry.functions; f->name; f++)
            offer_word(r, f->name);
    }
}

/* Words that only the command of an argument explains. */
static void offer_own_words(complete_request *r)
{
    static const char *const compressions[] = {"2bit", "1bit", "none", NULL};
    const char *name = r->command->name;
    if (strcmp(name, "create") == 0)
        offer_types(r);
    else if (strcmp(name, "help") == 0)
        offer_help(r);
    else if (strcmp(name, "use") == 0)
        offer_stores(r);
    else if (strcmp(name, "set-gradient-compression") == 0)
        offer_all(r, compressions);
    for (int i = 0; strcmp(name, "set") == 0 && setting_name(i); i++)
        offer_word(r, setting_name(i));
    for (int i = 0; strcmp(name, "is-capable") == 0 && kv_capability(i); i++)
        offer_word(r, kv_capability(i));
}

/* set print.format VALUE */
static bool is_format_value(const complete_request *r)
{
    static const char setting[] = "set print.format ";
    return r->at.first && r->command && r->at.argument == 1 &&
           strncmp(r->text + r->at.statement, setting, sizeof setting - 1) == 0;
}

/* A word that the command alone explains, or a file. */
static void complete_argument(complete_request *r)
{
    static const char *const switches[] = {"on", "off", NULL};
    if (!kv_assert(r->command, "a word is looked for, and no command wants one"))
        return;
    const command_arg *arg = &r->command->args[r->at.argument];
    switch (arg->kind) {
    case ARG_GLOB:
        offer_keys(r);
        break;
    case ARG_WORD:
    case ARG_NAME:
        if (!r->at.quote)
            offer_own_words(r);
        break;
    case ARG_PATH:
    case ARG_PATHS:
        if (is_pattern(arg->name))
            offer_tensors(r);
        if (!is_pattern(arg->name) || follows_files(r))
            offer_files(r, FILES_ALL);
        break;
    case ARG_FILE:
        offer_files(r, strcmp(r->command->name, "write") == 0 ? FILES_ARRAYS : FILES_ALL);
        break;
    case ARG_SOURCE:
        offer_files(r, FILES_SCRIPTS);
        break;
    case ARG_RULE:
        offer_rules(r);
        break;
    case ARG_MERGE:
        offer_merges(r);
        offer_files(r, FILES_RULES);
        break;
    case ARG_CODE:
        offer_codes(r);
        break;
    case ARG_SWITCH:
        offer_all(r, switches);
        break;
    case ARG_EXPLAINED:
        offer_all(r, switches);
        for (const command *c = registry.commands; c->name; c++)
            if (c->flags & COMMAND_EXPLAINED)
                offer_word(r, c->name);
        break;
    case ARG_KEYS:
    case ARG_VALUE:
    case ARG_VALUES:
    case ARG_EXPRS:
    case ARG_HEREDOC:
    case ARG_BLOCK:
    case ARG_STATEMENT:
    case ARG_END:
        break;
    }
}

static void complete_file(complete_request *r)
{
    if (complete_at_file(r))
        complete_argument(r);
    else
        offer_files(r, FILES_ARRAYS);
    /* @FILE#KEY: a blank behind FILE would make a comment of the key */
    r->out->joined |= r->out->n == 1 && file_is_checkpoint(r->out->words[0]);
    size_t at = r->at.word;
    while (at > 0 && lex_is_blank(r->text[at - 1]))
        at--;
    if (!r->at.quote && at > 1 && r->text[at - 1] == '>' && r->text[at - 2] != '>' &&
        (!r->command || r->command->args[0].kind == ARG_EXPRS))
        offer_variables(r); /* the word may be an operand, as in `x > y` */
}

/* The parameters of the updater, optimizer or merge that the statement names. */
static void offer_rule_options(complete_request *r)
{
    const char *from = complete_next_word(r->text + r->at.statement), *text, *name;
    buf word = {0};
    buf_put(&word, from, strcspn(from, " \t"));
    for (int64_t i = 0; i < r->s->nrules && !is_merge(r); i++)
        if (strcmp(r->s->rule_defs[i].name, buf_text(&word)) == 0)
            for (int p = 0; p < r->s->rule_defs[i].rule->nparams; p++)
                offer_parameter(r, r->s->rule_defs[i].rule->params[p].name);
    for (int i = 0; is_optimizer(r) && (text = kv_optimizer_text(i, &name)); i++)
        if (strcasecmp(name, buf_text(&word)) == 0)
            offer_parameters_of(r, text, false);
    for (const optimizer_param *p = optimizer_params; is_optimizer(r) && p->name; p++)
        offer_parameter(r, p->name);
    if (is_merge(r))
        offer_merge_parameters(r, buf_text(&word));
    buf_release(&word);
}

static void complete_option(complete_request *r)
{
    const command *c = r->command;
    if (!kv_assert(c, "an option is looked for, and no command has any"))
        return;
    for (int i = 0; c->options[i].name; i++) {
        char word[64];
        snprintf(word, sizeof word, "--%s", c->options[i].name);
        if (!(r->at.options >> i & 1) || c->options[i].kind == OPTION_RAWS)
            offer_word(r, word);
    }
    if (c->flags & COMMAND_PARAMS)
        offer_rule_options(r);
}

/* "table|csv": one of these words. */
static void offer_choices(complete_request *r, const char *choices)
{
    char word[64];
    for (size_t n; *choices; choices += n + (choices[n] == '|')) {
        n = strcspn(choices, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, choices);
        offer_word(r, word);
    }
}

static void complete_option_value(complete_request *r)
{
    static const char *const schedules[] = {"cosine(", "factor(", "multifactor(", "poly(", NULL};
    static const char scheduler[] = "--lr-scheduler ";
    const command_option *o = r->at.option;
    size_t n = sizeof scheduler - 1;
    if (!o && r->at.word >= n && strncmp(r->text + r->at.word - n, scheduler, n) == 0) {
        offer_all(r, schedules);
    } else if (!o) {
        offer_operands(r);
    } else if (o->kind == OPTION_PATH || o->kind == OPTION_OUTPUT) {
        offer_files(r, FILES_ALL);
    } else if (o->kind == OPTION_RAW || o->kind == OPTION_RAWS) {
        if (strcmp(o->name, "dtype") == 0)
            for (int t = 0; t < TENSOR_NSAFE; t++)
                offer_word(r, tensor_type_name((tensor_type)t));
        else if (is_pattern(o->value))
            offer_tensors(r);
    } else if (strcmp(o->value, "DEVS") == 0) {
        offer_contexts(r);
        r->out->joined = false;
    } else if (strcmp(o->value, "B") == 0) {
        offer_all(r, truths);
    } else if (strcmp(o->value, "V") == 0) {
        offer_variables(r);
    } else if (strcmp(o->value, "TYPE") == 0) {
        offer_types(r);
    } else if (o->kind == OPTION_WORD && strchr(o->value, '|')) {
        offer_choices(r, o->value);
    } else if (o->kind == OPTION_VALUE || o->kind == OPTION_NEEDED || o->kind == OPTION_VALUES) {
        offer_operands(r);
    }
}

/* ---- Statements ---- */

static void complete_statement(complete_request *r)
{
    const char *rest;
    offer_commands(r);
    if (!*r->typed)
        return;
    for (int i = 0; statement_keyword(i, &rest); i++)
        offer_word(r, statement_keyword(i, &rest));
    offer_operands(r);
}

/* The names that a rule is given, its functions, and those that stand in it before the cursor. */
static void complete_rule(complete_request *r)
{
    static const char *const words[] = {
        "input", "stored",  "state",         "key",   "name", "t",     "lr",
        "wd",    "base_lr", "rescale_grad",  "print", "if",   "else",  "rows present",
        "skip",  "fail",    "clip_gradient", "not",   "true", "false", "none",
        NULL};
    static const char *const of_merges[] = {"models", "weights", "base", "key", "merged", "lora_A",
                                            "lora_B", "lora_scale", "if", "else", "for", "in",
                                            "fail", "not", "true", "false", "none", "zip(",
                                            "enumerate(", "range(", "trimmed_mean(", "median(",
                                            NULL};
    offer_all(r, is_merge(r) ? of_merges : words);
    for (int i = 0; i < element_function_count; i++) {
        char word[32];
        snprintf(word, sizeof word, "%s(", element_functions[i].name);
        if (!(element_functions[i].traits & FN_MERGES))
            offer_word(r, word);
    }
    const char *end = r->text + r->at.word;
    for (const char *c = r->text + r->at.rule; *r->typed && c < end;) {
        size_t n = 0;
        while (c + n < end && (lex_is_letter(c[n]) || (n > 0 && lex_is_digit(c[n]))))
            n++;
        char name[64];
        bool seen = false;
        snprintf(name, sizeof name, "%.*s", (int)n, c);
        for (int64_t i = 0; i < r->out->n; i++)
            seen = seen || strcmp(r->out->words[i], name) == 0;
        if (n > 1 && !seen)
            offer_word(r, name);
        c += n > 0 ? n : 1;
    }
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void complete_expected(complete_request *r)
{
    static const char *const between[] = {"and", "or", "in", "by", "for", NULL};
    switch (r->at.expected) {
    case EXPECT_NOTHING:
        break;
    case EXPECT_STATEMENT:
        complete_statement(r);
        break;
    case EXPECT_OPERAND:
        if (is_format_value(r))
            offer_formats(r);
        else
            complete_operand(r);
        break;
    case EXPECT_OPERATOR:
        if (*r->typed)
            offer_all(r, between);
        break;
    case EXPECT_MEMBER:
        complete_member(r);
        break;
    case EXPECT_CONTEXT:
        offer_contexts(r);
        break;
    case EXPECT_VARIABLE:
        offer_variables(r);
        break;
    case EXPECT_KEY:
        offer_keys(r);
        break;
    case EXPECT_FILE:
        complete_file(r);
        break;
    case EXPECT_WORD:
        complete_argument(r);
        break;
    case EXPECT_OPTION:
        complete_option(r);
        break;
    case EXPECT_RULE:
        complete_rule(r);
        break;
    }
}

void complete_words(session *s, const char *text, size_t n, line_words *out)
{
    complete_request r;
    int64_t kept = 0;
    complete_request_init(&r, s, text, n, out);
    out->start = (size_t)(r.typed - text);
    kv_assert(out->start <= n, "a word begins at byte %zu of %zu", out->start, n);
    if (r.at.met && r.at.in_option && r.at.first)
        complete_option_value(&r);
    else if (r.at.met)
        complete_expected(&r);
    if (out->n > 1)
        qsort(out->words, (size_t)out->n, sizeof *out->words, compare_words);
    for (int64_t i = 0; i < out->n; i++) { /* what is offered twice is left out */
        if (kept > 0 && strcmp(out->words[kept - 1], out->words[i]) == 0)
            mem_free(out->words[i]);
        else
            out->words[kept++] = out->words[i];
    }
    out->n = kept;
    arena_release(&r.nodes);
}
