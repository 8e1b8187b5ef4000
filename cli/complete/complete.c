/* Words for each place where the cursor can stand, by the kind of what is expected there. */
#include "complete/complete.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/name.h"
#include "lang/ast.h"
#include "lang/lex.h"
#include "cmd/commands.h"
#include "cmd/explain.h"
#include "complete/complete_merges.h"
#include "complete/complete_tensors.h"
#include "syntax/command.h"
#include "syntax/file_kind.h"
#include "syntax/function.h"
#include "cmd/help.h"
#include "syntax/optimizer_param.h"
#include "syntax/read_unit.h"
#include "run/setting.h"
#include "session/rows.h"
#include "session/show.h"
#include "session/unit.h"
#include "session/registry.h"
#include "vm/element.h"
#include "bench/bench_workload.h"

/* The characters of a tensor's name that needs no quotes. */
#define TENSOR_PLAIN                                                                               \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:+-"

/* The text that is being completed. */
typedef struct request {
    session *s;
    const char *text; /* up to the cursor */
    parse_cursor at;
    const command *command; /* of the statement, or NULL */
    const char *typed; /* the part of the word that is there */
    line_words *out;
    arena nodes; /* with the names in `at` */
} request;

static void request_init(request *r, session *s, const char *text, size_t n, line_words *out)
{
    *r = (request){.s = s, .text = text, .out = out};
    unit_cursor(&r->at, &r->nodes, text, n);
    r->command = r->at.command;
    r->typed = r->at.met ? text + r->at.word : text + n;
}

static void offer(request *r, const char *word)
{
    line_offer(r->out, word, r->typed);
}

static void offer_all(request *r, const char *const *words)
{
    for (; *words; words++)
        offer(r, *words);
}

/* A word that the language wants in quotes: with them, unless one is open already. */
static void offer_text(request *r, const char *word)
{
    char quote = r->at.quote ? r->at.quote : '"';
    buf quoted = {0};
    buf_printf(&quoted, "%s%s%c", r->at.quote ? "" : "\"", word, quote);
    if (strncmp(word, r->typed, strlen(r->typed)) == 0 && !buf_check(&quoted, NULL))
        line_offer_instead(r->out, buf_text(&quoted));
    buf_release(&quoted);
}

/* ---- Names of the session ---- */

static void offer_keys(request *r)
{
    session *s = r->s;
    kv *store = s->current >= 0 ? s->stores[s->current].store : NULL;
    for (int64_t i = 0; store && i < kv_num_keys(store); i++) {
        kv_info info;
        buf word = {0};
        if (kv_info_at(store, i, &info, NULL))
            continue;
        if (r->at.quote && info.key.name) {
            show_quoted(&word, info.key.name, r->at.quote);
            offer_text(r, buf_text(&word));
            buf_release(&word);
            continue;
        }
        show_key(&word, info.key);
        const char *plain = info.key.name ? info.key.name : buf_text(&word);
        if (!r->at.quote && strncmp(plain, r->typed, strlen(r->typed)) == 0)
            line_offer_instead(r->out, buf_text(&word));
        buf_release(&word);
    }
}

static void offer_variables(request *r)
{
    for (int64_t i = 0; i < r->s->globals.n; i++)
        offer(r, r->s->globals.items[i].name);
}

static void offer_stores(request *r)
{
    for (int64_t i = 0; i < r->s->nstores; i++)
        offer(r, r->s->stores[i].name);
}

static bool is_optimizer(const request *r)
{
    return strcmp(r->command->name, "set-optimizer") == 0;
}

static void offer_rules(request *r)
{
    const char *name;
    if (!is_optimizer(r))
        offer(r, "assign");
    for (int i = 0; is_optimizer(r) && kv_optimizer_text(i, &name); i++)
        offer(r, name);
    for (int64_t i = 0; i < r->s->nrules; i++)
        offer(r, r->s->rule_defs[i].name);
    for (int64_t i = 0; i < r->s->ndefs; i++)
        if (r->s->defs[i].node->n == 4)
            offer(r, r->s->defs[i].name);
}

static int offer_type(void *arg, const kv_field *fields, int nfields, kv_err *e)
{
    (void)e;
    offer(arg, field_text(fields, nfields, "name"));
    return KV_OK;
}

/* Returns true if name= is offered: the parameter is meant there, not a function of that name. */
static bool is_parameter(const request *r, const char *name)
{
    size_t n = strlen(name);
    for (int64_t i = 0; i < r->out->n; i++)
        if (strncmp(r->out->words[i], name, n) == 0 && r->out->words[i][n] == '=')
            return true;
    return false;
}

static void offer_call(request *r, const char *name)
{
    buf word = {0};
    buf_printf(&word, "%s(", name);
    if (!is_parameter(r, name))
        offer(r, buf_text(&word));
    buf_release(&word);
}

static void offer_functions(request *r)
{
    for (const function *f = registry.functions; f->name; f++)
        offer_call(r, f->name);
    for (int64_t i = 0; i < r->s->ndefs; i++)
        offer_call(r, r->s->defs[i].name);
}

static void offer_commands(request *r)
{
    for (const command *c = registry.commands; c->name; c++)
        offer(r, c->name);
}

/* ---- Words of the language ---- */

static void offer_dtypes(request *r)
{
#define DTYPE_NAME(constant, number, name, bytes) offer_text(r, name);
    KV_DTYPE_MAP(DTYPE_NAME)
#undef DTYPE_NAME
}

static void offer_formats(request *r)
{
    for (int f = SHOW_NUMPY; f <= SHOW_JSON; f++)
        offer_text(r, show_format_name((show_format)f));
}

static void offer_codes(request *r)
{
    for (int code = KV_OK + 1; code < KV_NCODES; code++)
        offer(r, kv_code_name(code));
}

static void offer_contexts(request *r)
{
    char name[32];
    int n = r->s->virtual_gpus < 8 ? r->s->virtual_gpus : 8;
    offer(r, "cpu(0)");
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "gpu(%d)", i);
        offer(r, name);
    }
    for (int64_t i = 0; i < r->s->globals.n; i++)
        if (r->s->globals.items[i].v.kind == VALUE_CTX)
            offer(r, r->s->globals.items[i].name);
    r->out->joined = true;
}

static void offer_operands(request *r)
{
    static const char *const words[] = {"true", "false", "none", "not", "inf", "nan", "pi", NULL};
    offer_variables(r);
    offer_functions(r);
    if (*r->typed) /* too much of what everybody knows */
        offer_all(r, words);
    for (int64_t i = 0; i < r->s->nstores && *r->typed; i++)
        offer(r, r->s->stores[i].name);
}

/* ---- Files ---- */

typedef enum wanted_files { FILES_ALL, FILES_ARRAYS, FILES_SCRIPTS, FILES_RULES } wanted_files;

static bool is_plain_path(const char *path)
{
    while (*path && (lex_is_letter(*path) || lex_is_digit(*path) || strchr("./~+{}-", *path)))
        path++;
    return !*path;
}

/* Returns true if a file is of the wanted kind; a folder always is. */
static bool is_wanted(const char *name, bool folder, wanted_files wanted)
{
    size_t n = strlen(name);
    switch (wanted) {
    case FILES_ALL:
        return true;
    case FILES_ARRAYS:
        return folder || file_kind_of(name) != FILE_UNKNOWN;
    case FILES_SCRIPTS:
        return folder || (n > 3 && strcmp(name + n - 3, ".kv") == 0);
    case FILES_RULES:
        return folder || (n > 4 && strcmp(name + n - 4, ".kvu") == 0);
    }
    return true;
}

static void offer_path(request *r, const char *path, bool folder)
{
    char quote = r->at.quote ? r->at.quote : is_plain_path(path) ? 0 : '"';
    buf word = {0};
    if (quote && !r->at.quote)
        buf_char(&word, quote);
    buf_add(&word, path);
    if (folder)
        buf_char(&word, '/');
    else if (quote)
        buf_char(&word, quote);
    line_offer_instead(r->out, buf_text(&word));
    buf_release(&word);
}

static void offer_files(request *r, wanted_files wanted)
{
    const char *slash = strrchr(r->typed, '/'), *last = slash ? slash + 1 : r->typed;
    buf path = {0};
    buf_put(&path, r->typed, (size_t)(last - r->typed));
    size_t folder_length = path.len;
    DIR *folder = opendir(folder_length ? buf_text(&path) : ".");
    r->out->files = true;
    for (struct dirent *one; folder && (one = readdir(folder));) {
        struct stat about;
        if (strncmp(one->d_name, last, strlen(last)) != 0 ||
            (one->d_name[0] == '.' && (*last != '.' || strcmp(one->d_name, ".") == 0 ||
                                       strcmp(one->d_name, "..") == 0)))
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
    buf_release(&path);
}

/* ---- Checkpoints ---- */

/* The name of a tensor: in quotes, unless it is one word as it stands. */
static void offer_tensor(void *arg, const char *name)
{
    request *r = arg;
    bool plain = *name && *name != '-' && !name[strspn(name, TENSOR_PLAIN)];
    if (plain && !r->at.quote)
        offer(r, name);
    else if (!strpbrk(name, "\"'\\\n"))
        offer_text(r, name);
}

static void offer_tensor_type(void *arg, const char *name)
{
    offer(arg, name);
}

static bool is_pattern(const char *name)
{
    return strncmp(name, "GLOB", 4) == 0;
}

static bool is_merge(const request *r)
{
    return r->command && r->command->args[0].kind == ARG_MERGE;
}

/* The names in the checkpoint behind the command, or behind the rule of a merge. */
static void offer_tensors(request *r)
{
    const char *from = r->text + r->at.statement;
    if (is_merge(r)) {
        from += strcspn(from, " \t");
        from += strspn(from, " \t");
    }
    complete_tensors(from, offer_tensor, r);
}

static void offer_merge(void *arg, const char *name)
{
    offer(arg, name);
}

/* ---- Calls ---- */

/* The name of the parameter that the cursor gives, NULL when it is not known. */
static const char *parameter_here(const parse_cursor *at)
{
    const function *f = function_find(at->call);
    if (at->keyword)
        return at->keyword;
    /* Parameters that may be left out are nearly always given by name. */
    for (uint32_t i = 0; f && f->params[i] && !strchr(f->params[i], '='); i++)
        if (i == at->call_argument)
            return f->params[i];
    return NULL;
}

/* The formats that load() takes. */
static const char *const file_formats[] = {"csv", "tsv", "json", "ndjson", "npy", "safetensors"};

/* Values of parameters that mean the same in every function. Returns false when the parameter is
 * none of them. */
static bool offer_parameter(request *r, const char *name)
{
    static const char *const truths[] = {"true", "false", NULL};
    if (strcmp(name, "dtype") == 0) {
        offer_dtypes(r);
    } else if (strcmp(name, "ctx") == 0 && !r->at.quote) {
        offer_contexts(r);
    } else if (strcmp(name, "stype") == 0) {
        offer_text(r, "default");
        offer_text(r, "row_sparse");
    } else if (strcmp(name, "format") == 0) {
        for (size_t i = 0; i < sizeof file_formats / sizeof *file_formats; i++)
            offer_text(r, file_formats[i]);
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

/* dtype= and the like: parameters that can be given by name. */
static void offer_keywords(request *r)
{
    const function *f = function_find(r->at.call);
    for (int i = 0; f && f->params[i]; i++)
        if (strchr(f->params[i], '='))
            offer(r, f->params[i]);
}

static void complete_operand(request *r)
{
    const parse_cursor *at = &r->at;
    const command *c = at->method ? command_find(at->call, strlen(at->call)) : NULL;
    const char *parameter = at->call && !c ? parameter_here(at) : NULL;
    bool has = at->call && strcmp(at->call, "has") == 0;
    if (parameter && offer_parameter(r, parameter))
        return;
    if ((c && c->args[0].kind == ARG_KEYS && at->call_argument == 1) || has)
        offer_keys(r);
    if (at->quote)
        return;
    if (at->call && !at->keyword)
        offer_keywords(r);
    offer_operands(r);
}

/* Behind a dot: commands of a store, or functions of a value. */
static void complete_member(request *r)
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

static void offer_settings(request *r)
{
    for (int i = 0; setting_name(i); i++)
        offer(r, setting_name(i));
}

static void offer_types(request *r)
{
    kv_describe(NULL, "types", offer_type, r, NULL);
}

static void offer_compressions(request *r)
{
    static const char *const types[] = {"2bit", "1bit", "none"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        offer(r, types[i]);
}

static void offer_capabilities(request *r)
{
    for (int i = 0; kv_capability(i); i++)
        offer(r, kv_capability(i));
}

static void offer_workloads(request *r)
{
    for (const bench_workload *w = bench_workloads; w->name; w++)
        offer(r, w->name);
    offer(r, "all");
}

static void offer_help(request *r)
{
    static const char merge[] = "help merge ", optimizer[] = "help optimizer ";
    const char *from = r->text + r->at.statement, *name;
    if (strncmp(from, merge, sizeof merge - 1) == 0) {
        complete_merges(offer_merge, r);
        return;
    }
    if (strncmp(from, optimizer, sizeof optimizer - 1) == 0) {
        for (int i = 0; kv_optimizer_text(i, &name); i++)
            offer(r, name);
        return;
    }
    for (int i = 0; help_topic(i); i++)
        offer(r, help_topic(i));
    offer_types(r);
    offer_commands(r);
    for (const function *f = registry.functions; f->name; f++)
        offer(r, f->name);
}

/* Words that only the command of an argument explains. */
static const struct {
    const char *command;
    void (*offer)(request *r);
} own_words[] = {{"create", offer_types}, {"set", offer_settings}, {"help", offer_help},
                 {"use", offer_stores}, {"set-gradient-compression", offer_compressions},
                 {"is-capable", offer_capabilities}, {"bench", offer_workloads}};

static void offer_own_words(request *r)
{
    for (size_t i = 0; i < sizeof own_words / sizeof *own_words; i++)
        if (strcmp(own_words[i].command, r->command->name) == 0 && !r->at.quote)
            own_words[i].offer(r);
}

/* set print.format VALUE */
static bool is_format_value(const request *r)
{
    static const char setting[] = "set print.format ";
    return r->at.first && r->command && r->at.argument == 1 &&
           strncmp(r->text + r->at.statement, setting, sizeof setting - 1) == 0;
}

/* A word that the command alone explains, or a file. */
static void complete_argument(request *r)
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
    case ARG_WORDS:
    case ARG_NAME:
        offer_own_words(r);
        break;
    case ARG_PATH:
    case ARG_PATHS:
        if (is_pattern(arg->name))
            offer_tensors(r);
        else
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
        complete_merges(offer_merge, r);
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
                offer(r, c->name);
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

/* Returns true if the word behind > may be an operand, as in `x > y`. */
static bool may_compare(const request *r)
{
    size_t at = r->at.word;
    while (at > 0 && lex_is_blank(r->text[at - 1]))
        at--;
    const command *c = r->command;
    return !r->at.quote && at > 1 && r->text[at - 1] == '>' && r->text[at - 2] != '>' &&
           (!c || c->args[0].kind == ARG_EXPRS);
}

/* Returns true if the file at the cursor is an argument of the command. */
static bool is_file_argument(const request *r)
{
    const parse_cursor *at = &r->at;
    arg_kind kind = r->command && !at->in_option ? r->command->args[at->argument].kind : ARG_END;
    return kind == ARG_PATH || kind == ARG_PATHS || kind == ARG_MERGE ||
           (at->first && (kind == ARG_FILE || kind == ARG_SOURCE));
}

static void complete_file(request *r)
{
    if (is_file_argument(r))
        complete_argument(r);
    else
        offer_files(r, FILES_ARRAYS);
    if (may_compare(r))
        offer_variables(r);
}

/* --warm-up for a parameter warm_up, n bytes. */
static void offer_parameter_option(request *r, const char *name, size_t n)
{
    buf word = {0};
    buf_add(&word, "--");
    name_put(&word, name, n, '-');
    offer(r, buf_text(&word));
    buf_release(&word);
}

static bool is_name_char(char c)
{
    return lex_is_letter(c) || lex_is_digit(c);
}

/* The parameters in the head of an optimizer's text: updater NAME, NAME(PARAM = …, …). */
static void offer_parameters_of(request *r, const char *text)
{
    const char *head = strstr(text, "updater "), *at = head ? strchr(head, '(') : NULL;
    const char *body = head ? strchr(head, '{') : NULL;
    while (at && body && at < body) {
        size_t blanks = strspn(at + 1, " \n"), n = 0;
        const char *name = at + 1 + blanks;
        while (is_name_char(name[n]))
            n++;
        if (n > 0)
            offer_parameter_option(r, name, n);
        at = strchr(name, ',');
    }
}

/* The parameters that every optimizer takes: see kv_set_optimizer. */
static void offer_common_parameters(request *r)
{
    for (const optimizer_param *p = optimizer_params; p->name; p++)
        offer_parameter_option(r, p->name, strlen(p->name));
}

static void offer_merge_parameter(void *arg, const char *name)
{
    offer_parameter_option(arg, name, strlen(name));
}

/* The parameters of the updater, optimizer or merge that the statement names. */
static void offer_rule_options(request *r)
{
    const char *from = r->text + r->at.statement, *text, *name;
    from += strcspn(from, " \t");
    from += strspn(from, " \t");
    size_t n = strcspn(from, " \t");
    if (is_merge(r)) {
        complete_merge_parameters(from, n, offer_merge_parameter, r);
        return;
    }
    for (int64_t i = 0; i < r->s->nrules; i++) {
        const rule_definition *d = &r->s->rule_defs[i];
        if (strlen(d->name) == n && strncmp(d->name, from, n) == 0)
            for (int p = 0; p < d->rule->nparams; p++)
                offer_parameter_option(r, d->rule->params[p].name, strlen(d->rule->params[p].name));
    }
    if (!is_optimizer(r))
        return;
    for (int i = 0; (text = kv_optimizer_text(i, &name)); i++)
        if (strlen(name) == n && strncasecmp(name, from, n) == 0)
            offer_parameters_of(r, text);
    offer_common_parameters(r);
}

static void complete_option(request *r)
{
    const command *c = r->command;
    if (!kv_assert(c, "an option is looked for, and no command has any"))
        return;
    for (int i = 0; c->options[i].name; i++) {
        char word[64];
        snprintf(word, sizeof word, "--%s", c->options[i].name);
        if (!(r->at.options >> i & 1) || c->options[i].kind == OPTION_RAWS)
            offer(r, word);
    }
    if (c->flags & COMMAND_PARAMS)
        offer_rule_options(r);
}

/* "table|csv": one of these words. */
static void offer_choices(request *r, const char *choices)
{
    char word[64];
    for (size_t n; *choices; choices += n + (choices[n] == '|')) {
        n = strcspn(choices, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, choices);
        offer(r, word);
    }
}

static void complete_option_value(request *r)
{
    static const char *const truths[] = {"true", "false", NULL};
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
            complete_tensor_types(offer_tensor_type, r);
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

static const char *const control_words[] = {"if",     "for",     "while",    "repeat",
                                            "def",    "updater", "else",     "elif",
                                            "return", "break",   "continue", NULL};

static void complete_statement(request *r)
{
    offer_commands(r);
    if (*r->typed) {
        offer_all(r, control_words);
        offer_operands(r);
    }
}

/* The names that a rule is given, its functions, and those that stand in it before the cursor. */
static void complete_rule(request *r)
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
            offer(r, word);
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
            offer(r, name);
        c += n > 0 ? n : 1;
    }
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts, and leaves out what is offered twice. */
static void tidy(line_words *out)
{
    int64_t n = 0;
    if (out->n > 1)
        qsort(out->words, (size_t)out->n, sizeof *out->words, compare_words);
    for (int64_t i = 0; i < out->n; i++) {
        if (n > 0 && strcmp(out->words[n - 1], out->words[i]) == 0)
            mem_free(out->words[i]);
        else
            out->words[n++] = out->words[i];
    }
    out->n = n;
}

static void complete_expected(request *r)
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
    request r;
    request_init(&r, s, text, n, out);
    out->start = (size_t)(r.typed - text);
    kv_assert(out->start <= n, "a word begins at byte %zu of %zu", out->start, n);
    if (r.at.met && r.at.in_option && r.at.first)
        complete_option_value(&r);
    else if (r.at.met)
        complete_expected(&r);
    tidy(out);
    arena_release(&r.nodes);
}

/* ---- Hints ---- */

/* A control word and what follows it. */
static const struct {
    const char *word, *rest;
} control_hints[] = {
    {"if", "EXPR { ... } [else { ... }]"}, {"for", "NAME in EXPR { ... }"},
    {"while", "EXPR { ... }"},             {"repeat", "N STATEMENT | { ... }"},
    {"def", "NAME(A, B) { ... }"},         {"updater", "NAME(PARAM = 0.1) { stored += input }"},
};

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

static void statement_hint(const request *r, buf *out)
{
    const command *c = command_find(r->typed, strlen(r->typed));
    for (size_t i = 0; i < sizeof control_hints / sizeof *control_hints; i++)
        if (strcmp(r->typed, control_hints[i].word) == 0)
            buf_add(out, control_hints[i].rest);
    if (c)
        command_hint(&r->at, c, 0, out);
}

static void add_parameter(buf *out, const char *name)
{
    buf_printf(out, out->len > 0 ? ", %s" : "%s", name);
}

/* The parameters that a call still lacks: those behind the argument at the cursor. A function that
 * takes a shape may get it as several numbers, so only what has a name is missing behind it. */
static void call_hint(const request *r, buf *out)
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

/* Adds the hint of a control word, if there is only one in the statement. */
static void control_hint(const request *r, buf *out)
{
    const char *from = r->text + r->at.statement;
    size_t n = strcspn(from, " \t");
    if (from[n + strspn(from + n, " \t")] != '\0')
        return;
    for (size_t i = 0; i < sizeof control_hints / sizeof *control_hints; i++)
        if (strncmp(from, control_hints[i].word, n) == 0 && !control_hints[i].word[n])
            buf_add(out, control_hints[i].rest);
}

/* Adds the words that are missing behind the cursor. */
static void add_hint(const request *r, buf *out)
{
    const parse_cursor *at = &r->at;
    if (at->call && !at->quote)
        call_hint(r, out);
    else if (at->in_brackets)
        return;
    else if (at->expected == EXPECT_STATEMENT && *r->typed)
        statement_hint(r, out);
    else if (r->command && at->expected != EXPECT_OPTION && !at->quote)
        command_hint(at, r->command, at->begun, out);
    else if (!r->command && at->expected != EXPECT_STATEMENT)
        control_hint(r, out);
}

void complete_hint(session *s, const char *text, size_t n, buf *out)
{
    request r;
    buf rest = {0};
    request_init(&r, s, text, n, NULL);
    const parse_cursor *at = &r.at;
    bool other = at->expected == EXPECT_VARIABLE || at->expected == EXPECT_CONTEXT ||
                 at->expected == EXPECT_MEMBER ||
                 (at->expected == EXPECT_FILE && !at->in_option && !is_file_argument(&r));
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
