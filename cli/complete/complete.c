/* Words for each place where the cursor can stand, by the kind of what is expected there: those of
 * the language, the session and the folder. Files are read for merges when they are small, and of a
 * checkpoint only the header. */
#include "complete/complete.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "checkpoint/checkpoint.h"
#include "cmd/commands.h"
#include "cmd/help.h"
#include "lang/lex.h"
#include "lang/parse.h"
#include "merge/merge_texts.h"
#include "run/run.h"
#include "session/result.h"
#include "syntax/command.h"
#include "syntax/file_kind.h"
#include "syntax/function.h"
#include "syntax/parse_statement.h"
#include "syntax/read_unit.h"
#include "syntax/rules.h"
#include "vm/element.h"

/* ---- Words ---- */

/* Words that the language, the session and the folder know, offered for the word at the cursor.
 * Each function adds those of its words that begin with what is typed. */

/* The text that is being completed. */
typedef struct complete_request {
    session *s;
    const char *text; /* up to the cursor */
    parse_cursor at;
    const command *command; /* of the statement, or NULL */
    const char *typed;      /* the part of the word that is there */
    line_words *out;
    arena nodes; /* with the names in `at` */
} complete_request;

/* Finds what is expected at the end of the text (n bytes). The caller releases r->nodes. */
static void complete_request_init(complete_request *r, session *s, const char *text, size_t n,
                                  line_words *out)
{
    *r = (complete_request){.s = s, .text = text, .out = out};
    unit_cursor(&r->at, &r->nodes, text, n);
    r->command = r->at.command;
    r->typed = r->at.met ? text + r->at.word : text + n;
}

/* Returns true if the file at the cursor is an argument of the command. */
static bool complete_at_file(const complete_request *r)
{
    const parse_cursor *at = &r->at;
    arg_kind kind = r->command && !at->in_option ? r->command->args[at->argument].kind : ARG_END;
    return kind == ARG_PATH || kind == ARG_PATHS || kind == ARG_MERGE ||
           (at->first && (kind == ARG_FILE || kind == ARG_SOURCE));
}

/* The word behind the one at text. */
static const char *next_word(const char *text)
{
    text += strcspn(text, " \t");
    return text + strspn(text, " \t");
}

static void offer_word(void *request, const char *word)
{
    const complete_request *r = request;
    line_offer(r->out, word, r->typed);
}

/* "table|csv": each of these words. */
static void offer_choices(complete_request *r, const char *choices)
{
    char word[64];
    for (size_t n; *choices; choices += n + (choices[n] == '|')) {
        n = strcspn(choices, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, choices);
        offer_word(r, word);
    }
}

/* A word that the language wants in quotes: with them, unless one is open already. */
static void offer_text(complete_request *r, const char *word)
{
    char quote = r->at.quote ? r->at.quote : '"';
    own_buf quoted = {0};
    buf_printf(&quoted, "%s%s%c", r->at.quote ? "" : "\"", word, quote);
    if (strncmp(word, r->typed, strlen(r->typed)) == 0 && !buf_check(&quoted, NULL))
        line_offer_instead(r->out, buf_text(&quoted));
}

/* ---- Rules ---- */

/* A file is read only when it is small: no rule has more bytes. */
#define FILE_MOST 100000

/* --warm-up for a parameter warm_up, warm_up= where no dash is typed. */
static void offer_parameter(complete_request *r, const char *name)
{
    own_buf word = {0};
    bool dashed = *r->typed == '-';
    buf_add(&word, dashed ? "--" : "");
    name_put(&word, name, strlen(name), dashed ? '-' : '_');
    buf_add(&word, dashed ? "" : "=");
    offer_word(r, buf_text(&word));
}

static void offer_parameters_of(complete_request *r, const char *text, bool merge)
{
    rule_ast *rule;
    own_arena nodes = {0};
    source src = {.name = "", .text = text, .len = (uint32_t)strlen(text), .line = 1, .col = 1};
    if ((merge ? parse_merge : parse_rule)(&rule, &src, &nodes, &(kv_err){0}) == KV_OK)
        for (int i = 0; i < rule->nparams; i++)
            offer_parameter(r, rule->params[i].name);
}

static void offer_merges(complete_request *r)
{
    for (const merge_text *t = merge_texts; t->name; t++)
        offer_word(r, t->name);
}

static void offer_merge_parameters(complete_request *r, const char *path)
{
    struct stat about;
    char *read;
    size_t bytes;
    const merge_text *t = merge_text_find(path);
    if (t)
        offer_parameters_of(r, t->text, true);
    else if (stat(path, &about) == 0 && S_ISREG(about.st_mode) && about.st_size <= FILE_MOST &&
             !file_read_text(path, &read, &bytes, &(kv_err){0})) {
        offer_parameters_of(r, read, true);
        mem_free(read);
    }
}

/* ---- Tensors ---- */

#define TENSORS_MOST 10000

/* The characters of a tensor's name that needs no quotes. */
#define TENSOR_PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:+-"

/* The name of a tensor: in quotes, unless it is one word as it stands. */
static void offer_tensor(complete_request *r, const char *name)
{
    bool plain = *name && *name != '-' && !name[strspn(name, TENSOR_PLAIN)];
    if (plain && !r->at.quote)
        offer_word(r, name);
    else if (!strpbrk(name, "\"'\\\n"))
        offer_text(r, name);
}

/* The word behind the command, without its quotes; false when it is not a plain word. */
static bool first_word(buf *out, const char *statement)
{
    const char *from = next_word(statement);
    char quote = *from == '"' || *from == '\'' ? *from : 0;
    size_t n = quote ? strcspn(from + 1, quote == '"' ? "\"\n" : "'\n") : strcspn(from, " \t\n;|>");
    if (n == 0 || (!quote && strchr("-$(", *from)) || (quote && from[n + 1] != quote))
        return false;
    buf_put(out, from + (quote != 0), n);
    return !buf_check(out, NULL);
}

/* ---- Names of the session ---- */

static void offer_keys(complete_request *r)
{
    session *s = r->s;
    kv *store = s->current >= 0 ? s->stores[s->current].store : NULL;
    for (int64_t i = 0; store && i < kv_num_keys(store); i++) {
        kv_info info;
        own_buf word = {0};
        if (kv_info_at(store, i, &info, NULL))
            continue;
        if (r->at.quote && info.key.name) {
            show_quoted(&word, info.key.name, r->at.quote);
            offer_text(r, buf_text(&word));
            continue;
        }
        show_key(&word, info.key);
        const char *plain = info.key.name ? info.key.name : buf_text(&word);
        if (!r->at.quote && strncmp(plain, r->typed, strlen(r->typed)) == 0)
            line_offer_instead(r->out, buf_text(&word));
    }
}

static void offer_variables(complete_request *r)
{
    for (int64_t i = 0; i < r->s->globals.n; i++)
        offer_word(r, r->s->globals.items[i].name);
}

/* Returns true if `name=`, a parameter of the call at the cursor, is offered already: a function of
 * the same name is left out then. */
static bool is_parameter(const complete_request *r, const char *name)
{
    size_t n = strlen(name);
    for (int64_t i = 0; i < r->out->n; i++)
        if (strncmp(r->out->words[i], name, n) == 0 && r->out->words[i][n] == '=')
            return true;
    return false;
}

/* With its `(`. */
static void offer_call(complete_request *r, const char *name)
{
    own_buf word = {0};
    buf_printf(&word, "%s(", name);
    if (!is_parameter(r, name))
        offer_word(r, buf_text(&word));
}

static void offer_functions(complete_request *r)
{
    for (int i = 0; function_at(i); i++)
        offer_call(r, function_at(i)->name);
    for (int64_t i = 0; i < r->s->ndefs; i++)
        if (r->s->defs[i].node && !function_find(r->s->defs[i].name))
            offer_call(r, r->s->defs[i].name);
}

static void offer_commands(complete_request *r)
{
    for (const command *c = registry.commands; c->name; c++)
        offer_word(r, c->name);
}

/* ---- Words of the language ---- */

static void offer_contexts(complete_request *r)
{
    char name[32];
    int n = r->s->virtual_gpus < 8 ? r->s->virtual_gpus : 8;
    offer_word(r, "cpu(0)");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "gpu(%d)", i);
        offer_word(r, name);
    }
    for (int64_t i = 0; i < r->s->globals.n; i++)
        if (r->s->globals.items[i].v.kind == VALUE_CTX)
            offer_word(r, r->s->globals.items[i].name);
    r->out->joined = true;
}

/* What an expression may begin with. */
static void offer_operands(complete_request *r)
{
    offer_variables(r);
    offer_functions(r);
    if (*r->typed) /* not on an empty word: they would only lengthen the list */
        offer_choices(r, "true|false|none|not|inf|nan|pi");
    for (int64_t i = 0; i < r->s->nstores && *r->typed; i++)
        offer_word(r, r->s->stores[i].name);
}

/* ---- Files ---- */

typedef enum wanted_files { FILES_ALL, FILES_ARRAYS, FILES_SCRIPTS, FILES_RULES } wanted_files;

/* Returns true if a file is of the wanted kind; a folder always is. */
static bool is_wanted(const char *name, bool folder, wanted_files wanted)
{
    return folder || wanted == FILES_ALL ||
           (wanted == FILES_ARRAYS    ? file_kind_of(name) != FILE_UNKNOWN
            : wanted == FILES_SCRIPTS ? utf8_ends_in(name, ".kv")
                                      : utf8_ends_in(name, ".kvu"));
}

static void offer_path(complete_request *r, const char *path, bool folder)
{
    const char *c = path; /* of a plain one up to its end */
    while (*c && (lex_is_word_char(*c) || strchr("./~+{}-", *c)))
        c++;
    char quote = r->at.quote ? r->at.quote : *c ? '"' : 0;
    own_buf word = {0};
    if (quote && !r->at.quote)
        buf_char(&word, quote);
    buf_add(&word, path);
    if (folder)
        buf_char(&word, '/');
    else if (quote)
        buf_char(&word, quote);
    line_offer_instead(r->out, buf_text(&word));
}

/* The files of the folder that is typed, in quotes where they need them, and its folders. */
static void offer_files(complete_request *r, wanted_files wanted)
{
    const char *slash = strrchr(r->typed, '/'), *last = slash ? slash + 1 : r->typed;
    own_buf path = {0};
    buf_put(&path, r->typed, (size_t)(last - r->typed));
    size_t folder_length = path.len;
    DIR *folder = opendir(folder_length ? buf_text(&path) : ".");
    r->out->files = true;
    for (struct dirent *one; folder && (one = readdir(folder));) {
        struct stat about;
        if (strncmp(one->d_name, last, strlen(last)) != 0 ||
            (one->d_name[0] == '.' &&
             (*last != '.' || strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0)))
            continue;
        buf_clear(&path);
        buf_put(&path, r->typed, folder_length);
        buf_add(&path, one->d_name);
        bool is_folder = stat(buf_text(&path), &about) == 0 && S_ISDIR(about.st_mode);
        if (is_wanted(one->d_name, is_folder, wanted))
            offer_path(r, buf_text(&path), is_folder);
    }
    if (folder)
        closedir(folder);
}

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

/* The arguments from number `from` on, and the options that were not given. */
static void command_hint(const parse_cursor *at, const command *c, int from, buf *out)
{
    own_buf rest = {0};
    command_usage_rest(&rest, c, from, at->options);
    buf_add(out, buf_text(&rest) + (rest.len > 0));
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
        if (def && strcmp(r->s->defs[i].name, at->call) == 0)
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
    own_buf rest = {0};
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
    arena_release(&r.nodes);
}

/* ---- Rules ---- */

static bool is_optimizer(const complete_request *r)
{
    return strcmp(r->command->name, "set-optimizer") == 0;
}

static void offer_optimizers(complete_request *r)
{
    const char *name;
    for (int i = 0; kv_optimizer_text(i, &name); i++)
        offer_word(r, name);
}

static void offer_rules(complete_request *r)
{
    if (is_optimizer(r))
        offer_optimizers(r);
    else
        offer_word(r, "assign");
    for (int64_t i = 0; i < r->s->ndefs; i++) {
        const ast *def = r->s->defs[i].node;
        if (!def || def_may_update(def->kid, def->n))
            offer_word(r, r->s->defs[i].name);
    }
}

/* ---- Checkpoints ---- */

static bool is_pattern(const char *name)
{
    return strncmp(name, "GLOB", 4) == 0;
}

static bool is_merge(const complete_request *r)
{
    return r->command && r->command->args[0].kind == ARG_MERGE;
}

/* The names in the checkpoint behind the command, or behind the rule of a merge: `ls m/ `. None
 * where there is none, for stdin and pipes, nor from one of so many tensors that nobody would look
 * at them. */
static void offer_tensors(complete_request *r)
{
    const char *from = r->text + r->at.statement;
    checkpoint_options weights = {.weights = true};
    own_checkpoint *c = NULL;
    struct stat about;
    own_buf path = {0};
    if (first_word(&path, is_merge(r) ? next_word(from) : from) &&
        stat(buf_text(&path), &about) == 0 && (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)) &&
        checkpoint_open(&c, buf_text(&path), &weights, &(kv_err){0}) == KV_OK &&
        checkpoint_count(c) <= TENSORS_MOST)
        for (int64_t i = 0; i < checkpoint_count(c); i++)
            offer_tensor(r, checkpoint_at(c, i)->name);
}

/* ---- Calls ---- */

/* Offers values of parameters that mean the same in every function. Returns false for others. */
static bool offer_argument(complete_request *r, const char *name)
{
    if (strcmp(name, "dtype") == 0) {
#define DTYPE_NAME(constant, number, name, bytes) offer_text(r, name);
        KV_DTYPE_MAP(DTYPE_NAME)
#undef DTYPE_NAME
    } else if (strcmp(name, "ctx") == 0 && !r->at.quote) {
        offer_contexts(r);
    } else if (strcmp(name, "stype") == 0) {
        offer_text(r, "default");
        offer_text(r, "row_sparse");
    } else if (strcmp(name, "format") == 0) {
        for (int i = 0; file_kind_format(i); i++)
            offer_text(r, file_kind_format(i));
    } else if (strcmp(name, "header") == 0 && !r->at.quote) {
        offer_choices(r, "true|false");
    } else if (strcmp(name, "file") == 0 && r->at.quote) {
        offer_files(r, FILES_ARRAYS);
    } else {
        return false;
    }
    r->out->joined = true;
    return true;
}

/* set print.format VALUE */
static bool is_format_value(const complete_request *r)
{
    static const char setting[] = "set print.format ";
    return r->at.first && r->command && r->at.argument == 1 &&
           strncmp(r->text + r->at.statement, setting, sizeof setting - 1) == 0;
}

static void complete_operand(complete_request *r)
{
    const parse_cursor *at = &r->at;
    const command *c = at->method ? command_find(at->call, strlen(at->call)) : NULL;
    const function *f = at->call ? function_find(at->call) : NULL;
    const char *parameter = at->call && !c ? at->keyword : NULL;
    bool has = at->call && strcmp(at->call, "has") == 0;
    if (is_format_value(r)) {
        for (int i = SHOW_NUMPY; i <= SHOW_JSON; i++)
            offer_text(r, show_format_name((show_format)i));
        return;
    }
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
        own_buf method = {0};
        name_put(&method, c->name, strlen(c->name), '_');
        if (command_can_be_called(c))
            offer_call(r, buf_text(&method));
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
    sscanf(r->text + r->at.statement, "help %15[a-z] ", group);
    if (strcmp(group, "merge") == 0 && r->at.argument == 1) {
        offer_merges(r);
    } else if (strcmp(group, "optimizer") == 0 && r->at.argument == 1) {
        offer_optimizers(r);
    } else if (strcmp(group, "language") == 0 && r->at.argument == 1) {
        language_words(offer_word, r);
    } else {
        for (int i = 0; help_topic(i); i++)
            offer_word(r, help_topic(i));
        offer_types(r);
        offer_commands(r);
        for (int i = 0; function_at(i); i++)
            offer_word(r, function_at(i)->name);
    }
}

/* Words that only the command of an argument explains. */
static void offer_own_words(complete_request *r)
{
    const char *name = r->command->name;
    if (strcmp(name, "create") == 0)
        offer_types(r);
    else if (strcmp(name, "help") == 0)
        offer_help(r);
    else if (strcmp(name, "set-gradient-compression") == 0)
        offer_choices(r, "2bit|1bit|none");
    for (int64_t i = 0; strcmp(name, "use") == 0 && i < r->s->nstores; i++)
        offer_word(r, r->s->stores[i].name);
    for (int i = 0; strcmp(name, "set") == 0 && setting_name(i); i++)
        offer_word(r, setting_name(i));
    for (int i = 0; strcmp(name, "is-capable") == 0 && kv_capability(i); i++)
        offer_word(r, kv_capability(i));
}

/* A word that the command alone explains, or a file. */
static void complete_argument(complete_request *r)
{
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
        /* behind the first of `ls CKPT... GLOB...` the word may still be a file */
        if (!is_pattern(arg->name) ||
            (r->at.argument > 0 && arg[-1].kind == ARG_PATH && strstr(arg[-1].name, "...")))
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
        for (int rc = KV_OK + 1; rc < KV_NCODES; rc++)
            offer_word(r, kv_code_name(rc));
        break;
    case ARG_SWITCH:
        offer_choices(r, "on|off");
        break;
    case ARG_EXPLAINED:
        offer_choices(r, "on|off");
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
    const char *from = next_word(r->text + r->at.statement), *text;
    own_buf word = {0};
    buf_put(&word, from, strcspn(from, " \t"));
    const definition *d = is_merge(r) ? NULL : session_defined(r->s, buf_text(&word));
    for (int i = 0; d && d->rule && i < d->rule->nparams; i++)
        offer_parameter(r, d->rule->params[i].name);
    if (is_optimizer(r) && (text = optimizer_text(buf_text(&word))))
        offer_parameters_of(r, text, false);
    for (const optimizer_param *p = optimizer_params; is_optimizer(r) && p->name; p++)
        offer_parameter(r, p->name);
    if (is_merge(r))
        offer_merge_parameters(r, buf_text(&word));
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

static void complete_option_value(complete_request *r)
{
    static const char scheduler[] = "--lr-scheduler ";
    const command_option *o = r->at.option;
    size_t n = sizeof scheduler - 1;
    if (!o && r->at.word >= n && strncmp(r->text + r->at.word - n, scheduler, n) == 0) {
        offer_choices(r, "cosine(|factor(|multifactor(|poly(");
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
        offer_choices(r, "true|false");
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

/* The names that a rule is given, its functions, and those that stand in it before the cursor. */
static void complete_rule(complete_request *r)
{
    offer_choices(r, "if|else|fail|not|true|false|none|key");
    offer_choices(r, is_merge(r) ? "models|weights|base|merged|lora_A|lora_B|lora_scale|for|in|"
                                   "zip(|enumerate(|range(|trimmed_mean(|median("
                                 : "input|stored|state|name|t|lr|wd|base_lr|rescale_grad|print|"
                                   "rows present|skip|clip_gradient");
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
        snprintf(name, sizeof name, "%.*s", (int)n, c);
        if (n > 1)
            offer_word(r, name);
        c += n > 0 ? n : 1;
    }
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

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

static void complete_operator(complete_request *r)
{
    if (*r->typed)
        offer_choices(r, "and|or|in|by|for");
}

/* By what is expected; NULL: nothing. */
static void (*const expected[EXPECT_KINDS])(complete_request *r) = {
    [EXPECT_STATEMENT] = complete_statement,
    [EXPECT_OPERAND] = complete_operand,
    [EXPECT_OPERATOR] = complete_operator,
    [EXPECT_MEMBER] = complete_member,
    [EXPECT_CONTEXT] = offer_contexts,
    [EXPECT_VARIABLE] = offer_variables,
    [EXPECT_KEY] = offer_keys,
    [EXPECT_FILE] = complete_file,
    [EXPECT_WORD] = complete_argument,
    [EXPECT_OPTION] = complete_option,
    [EXPECT_RULE] = complete_rule,
};

void complete_words(session *s, const char *text, size_t n, line_words *out)
{
    complete_request r;
    int64_t kept = 0;
    complete_request_init(&r, s, text, n, out);
    out->start = (size_t)(r.typed - text);
    kv_assert(out->start <= n, "a word begins at byte %zu of %zu", out->start, n);
    if (r.at.met && r.at.in_option && r.at.first)
        complete_option_value(&r);
    else if (r.at.met && expected[r.at.expected])
        expected[r.at.expected](&r);
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
