/* Words of the language, the session and the folder. Files are read for merges when they are
 * small, and of a checkpoint only the header. */
#include "complete/complete.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "checkpoint/checkpoint.h"
#include "lang/lex.h"
#include "lang/parse.h"
#include "merge/merge_texts.h"
#include "session/result.h"
#include "session/session.h"
#include "syntax/file_kind.h"
#include "syntax/function.h"

/* ---- Rules ---- */

/* A file is read only when it is small: no rule has more bytes. */
#define FILE_MOST 100000

void offer_parameter(complete_request *r, const char *name)
{
    buf word = {0};
    bool dashed = *r->typed == '-';
    buf_add(&word, dashed ? "--" : "");
    name_put(&word, name, strlen(name), dashed ? '-' : '_');
    buf_add(&word, dashed ? "" : "=");
    offer_word(r, buf_text(&word));
    buf_release(&word);
}

void offer_parameters_of(complete_request *r, const char *text, bool merge)
{
    rule_ast *rule;
    arena nodes = {0};
    source src = {.name = "", .text = text, .len = (uint32_t)strlen(text), .line = 1, .col = 1};
    if ((merge ? parse_merge : parse_rule)(&rule, &src, &nodes, &(kv_err){0}) == KV_OK)
        for (int i = 0; i < rule->nparams; i++)
            offer_parameter(r, rule->params[i].name);
    arena_release(&nodes);
}

void offer_merges(complete_request *r)
{
    for (const merge_text *t = merge_texts; t->name; t++)
        offer_word(r, t->name);
}

void offer_merge_parameters(complete_request *r, const char *path)
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
#define TENSOR_PLAIN                                                                               \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:+-"

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
    const char *from = complete_next_word(statement);
    char quote = *from == '"' || *from == '\'' ? *from : 0;
    size_t n = quote ? strcspn(from + 1, quote == '"' ? "\"\n" : "'\n") : strcspn(from, " \t\n;|>");
    if (n == 0 || (!quote && strchr("-$(", *from)) || (quote && from[n + 1] != quote))
        return false;
    buf_put(out, from + (quote != 0), n);
    return !buf_check(out, NULL);
}

void offer_tensors_of(complete_request *r, const char *statement)
{
    checkpoint_options weights = {.weights = true};
    checkpoint *c = NULL;
    struct stat about;
    buf path = {0};
    if (first_word(&path, statement) && stat(buf_text(&path), &about) == 0 &&
        (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)) &&
        checkpoint_open(&c, buf_text(&path), &weights, &(kv_err){0}) == KV_OK &&
        checkpoint_count(c) <= TENSORS_MOST)
        for (int64_t i = 0; i < checkpoint_count(c); i++)
            offer_tensor(r, checkpoint_at(c, i)->name);
    checkpoint_close(c);
    buf_release(&path);
}

/* ---- The place ---- */

void complete_request_init(complete_request *r, session *s, const char *text, size_t n,
                           line_words *out)
{
    *r = (complete_request){.s = s, .text = text, .out = out};
    unit_cursor(&r->at, &r->nodes, text, n);
    r->command = r->at.command;
    r->typed = r->at.met ? text + r->at.word : text + n;
}

bool complete_at_file(const complete_request *r)
{
    const parse_cursor *at = &r->at;
    arg_kind kind = r->command && !at->in_option ? r->command->args[at->argument].kind : ARG_END;
    return kind == ARG_PATH || kind == ARG_PATHS || kind == ARG_MERGE ||
           (at->first && (kind == ARG_FILE || kind == ARG_SOURCE));
}

/* ---- Words ---- */

void offer_word(complete_request *r, const char *word)
{
    line_offer(r->out, word, r->typed);
}

void offer_all(complete_request *r, const char *const *words)
{
    for (; *words; words++)
        offer_word(r, *words);
}

void offer_text(complete_request *r, const char *word)
{
    char quote = r->at.quote ? r->at.quote : '"';
    buf quoted = {0};
    buf_printf(&quoted, "%s%s%c", r->at.quote ? "" : "\"", word, quote);
    if (strncmp(word, r->typed, strlen(r->typed)) == 0 && !buf_check(&quoted, NULL))
        line_offer_instead(r->out, buf_text(&quoted));
    buf_release(&quoted);
}

/* ---- Names of the session ---- */

void offer_keys(complete_request *r)
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

void offer_variables(complete_request *r)
{
    for (int64_t i = 0; i < r->s->globals.n; i++)
        offer_word(r, r->s->globals.items[i].name);
}

void offer_stores(complete_request *r)
{
    for (int64_t i = 0; i < r->s->nstores; i++)
        offer_word(r, r->s->stores[i].name);
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

void offer_call(complete_request *r, const char *name)
{
    buf word = {0};
    buf_printf(&word, "%s(", name);
    if (!is_parameter(r, name))
        offer_word(r, buf_text(&word));
    buf_release(&word);
}

void offer_functions(complete_request *r)
{
    for (const function *f = registry.functions; f->name; f++)
        offer_call(r, f->name);
    for (int64_t i = 0; i < r->s->ndefs; i++)
        offer_call(r, r->s->defs[i].name);
}

void offer_commands(complete_request *r)
{
    for (const command *c = registry.commands; c->name; c++)
        offer_word(r, c->name);
}

/* ---- Words of the language ---- */

void offer_dtypes(complete_request *r)
{
#define DTYPE_NAME(constant, number, name, bytes) offer_text(r, name);
    KV_DTYPE_MAP(DTYPE_NAME)
#undef DTYPE_NAME
}

void offer_formats(complete_request *r)
{
    for (int f = SHOW_NUMPY; f <= SHOW_JSON; f++)
        offer_text(r, show_format_name((show_format)f));
}

void offer_codes(complete_request *r)
{
    for (int rc = KV_OK + 1; rc < KV_NCODES; rc++)
        offer_word(r, kv_code_name(rc));
}

void offer_contexts(complete_request *r)
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

void offer_operands(complete_request *r)
{
    static const char *const words[] = {"true", "false", "none", "not", "inf", "nan", "pi", NULL};
    offer_variables(r);
    offer_functions(r);
    if (*r->typed) /* not on an empty word: they would only lengthen the list */
        offer_all(r, words);
    for (int64_t i = 0; i < r->s->nstores && *r->typed; i++)
        offer_word(r, r->s->stores[i].name);
}

/* ---- Files ---- */

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

static void offer_path(complete_request *r, const char *path, bool folder)
{
    const char *c = path; /* of a plain one up to its end */
    while (*c && (lex_is_word_char(*c) || strchr("./~+{}-", *c)))
        c++;
    char quote = r->at.quote ? r->at.quote : *c ? '"' : 0;
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

void offer_files(complete_request *r, wanted_files wanted)
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
