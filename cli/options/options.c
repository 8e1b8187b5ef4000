/* Reads the command line from one table of options, which -h prints too.
 *
 * The first word that is no option is a script when a file has that name, and everything behind it
 * is the script's; else it is a command, and the words behind it are its arguments. Behind -c and
 * -f words are arguments of the script, and options stand anywhere; -- ends them.
 */
#include "options/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/suggest.h"
#include "lang/lex.h"
#include "options/completion_script.h"
#include "syntax/command.h"
#include "syntax/file_kind.h"
#include "session/registry.h"
#include "term/terminal.h"

typedef enum option_id {
    OPT_COMMANDS, OPT_FILE, OPT_INTERACTIVE, OPT_QUIET, OPT_VERBOSE, OPT_CHECK_LAST, OPT_KEEP_GOING,
    OPT_CHECK, OPT_JSON, OPT_SET, OPT_SEED, OPT_GPUS, OPT_TYPE, OPT_FORMAT, OPT_VERIFY, OPT_UPDATE,
    OPT_RECORD, OPT_TRACE, OPT_TIMEOUT, OPT_SAFE, OPT_RC, OPT_NO_RC, OPT_HISTORY, OPT_COLOR,
    OPT_NO_COLOR, OPT_PROGRESS, OPT_PAGER, OPT_DOCTOR, OPT_STORE, OPT_PLUGIN, OPT_DRY_RUN,
    OPT_FORCE, OPT_COMPLETION, OPT_HELP, OPT_VERSION
} option_id;

/* Legend: letter or 0, name or NULL, what the value is called or NULL when there is none, help. */
static const struct option {
    option_id id;
    char letter;
    const char *name, *value, *help;
} table[] = {
    {OPT_COMMANDS, 'c', NULL, "CMDS", "run commands; repeatable, also with -f and -"},
    {OPT_FILE, 'f', NULL, "FILE", "run a file; - is stdin"},
    {OPT_INTERACTIVE, 'i', NULL, NULL, "go on at the prompt afterwards"},
    {OPT_QUIET, 'q', "quiet", NULL, "no banner and no notes"},
    {OPT_VERBOSE, 'v', "verbose", NULL, "a note for each change"},
    {OPT_CHECK_LAST, 'e', NULL, NULL, "exit 1 if the last value shown is false, empty or none"},
    {OPT_KEEP_GOING, 'k', NULL, NULL, "keep going after an error"},
    {OPT_CHECK, 'n', "check", NULL, "read everything and run nothing; report every error"},
    {OPT_DRY_RUN, 0, "dry-run", NULL, "run, say what would change, and write no file"},
    {OPT_STORE, 's', "store", "FILE", "keep the store in FILE: read first, saved at the end"},
    {OPT_FORCE, 0, "force", NULL, "let -s drop keys of FILE, and change files of other tools"},
    {OPT_PLUGIN, 0, "plugin", "FILE", "load store types before anything is read; repeatable"},
    {OPT_JSON, 0, "json", NULL, "one JSON object a command on stdout, and nothing else"},
    {OPT_SET, 0, "set", "NAME=VALUE", "set a variable, or a setting such as print.precision=4"},
    {OPT_SEED, 0, "seed", "N", "seed of the random functions (0), or random"},
    {OPT_GPUS, 0, "gpus", "N", "use N virtual GPUs; without it: 8 where there is no GPU"},
    {OPT_TYPE, 0, "type", "TYPE", "type of a store that is used before create (local)"},
    {OPT_FORMAT, 0, "format", "F", "numpy, repr, legacy, mxnet, csv, raw or json"},
    {OPT_VERIFY, 0, "verify", "FILE",
     "run the `kv> ` lines of a page, compare what follows"},
    {OPT_UPDATE, 0, "update", NULL, "with --verify: rewrite the page with what comes out"},
    {OPT_RECORD, 0, "record", "FILE", "write a transcript that --verify accepts"},
    {OPT_TRACE, 0, "trace", NULL, "print each command to stderr before it runs"},
    {OPT_TIMEOUT, 0, "timeout", "SEC", "give up after SEC seconds, with exit code 6"},
    {OPT_SAFE, 0, "safe", NULL, "no shell, and no writes except to the state file"},
    {OPT_RC, 0, "rc", "FILE", "the prompt's start file ($KVCTL_RC, ~/.config/kvctl/rc)"},
    {OPT_NO_RC, 0, "no-rc", NULL, "no start file"},
    {OPT_HISTORY, 0, "history", "FILE", "where the prompt remembers what was typed, or off"},
    {OPT_COLOR, 0, "color", "WHEN", "auto, always or never"},
    {OPT_NO_COLOR, 0, "no-color", NULL, "the same as --color never, or a non-empty NO_COLOR"},
    {OPT_PROGRESS, 0, "progress", "WHEN", "auto, always or never: a bar for long work"},
    {OPT_PAGER, 0, "pager", "WHEN", "auto, always or never: $PAGER at the prompt"},
    {OPT_DOCTOR, 0, "doctor", NULL, "test this build on this machine, exit 1 if something fails"},
    {OPT_COMPLETION, 0, "completion", "SHELL",
     "what bash, zsh or fish need to complete kvctl's words"},
    {OPT_HELP, 'h', "help", NULL, "help on one screen"},
    {OPT_VERSION, 'V', "version", NULL, "version, what this build has, and licence"},
};

#define NOPTIONS ((int)(sizeof table / sizeof *table))

/* What -h shows; `help options` lists the rest. */
static const option_id common[] = {OPT_COMMANDS, OPT_FILE, OPT_STORE, OPT_INTERACTIVE,
                                   OPT_KEEP_GOING, OPT_CHECK, OPT_JSON, OPT_FORMAT, OPT_SET,
                                   OPT_VERIFY, OPT_VERSION};

static void option_line(buf *out, const struct option *t)
{
    size_t from = out->len;
    buf_add(out, "  ");
    if (t->letter)
        buf_printf(out, "-%c", t->letter);
    if (t->name)
        buf_printf(out, "%s--%s", t->letter ? ", " : "", t->name);
    if (t->value)
        buf_printf(out, " %s", t->value);
    buf_repeat(out, ' ', 20 - (int64_t)(out->len - from));
    buf_printf(out, " %s\n", t->help);
}

void options_help(buf *out)
{
    buf_add(out, "usage: kvctl [OPTIONS] [FILE [ARG...] | COMMAND [WORD...]]\n\n"
                 "A key-value store of arrays: a prompt, an interpreter of scripts, a filter.\n\n"
                 "  kvctl                                     a prompt\n"
                 "  kvctl session.kv                          run a script\n"
                 "  kvctl -c 'init 3 ones(2,3); pull 3'       run commands\n"
                 "  kvctl help push                           run one command of the language\n"
                 "  kvctl launch -n 2 session.kv              run it as a job (launch --help)\n\n");
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        for (int j = 0; j < NOPTIONS; j++)
            if (table[j].id == common[i])
                option_line(out, &table[j]);
    buf_add(out, "\nAll options: kvctl help options. Commands and functions: kvctl help, and\n"
                 "`kvctl help push` says more about one.\n");
}

void options_list(buf *out)
{
    for (int i = 0; i < NOPTIONS; i++)
        option_line(out, &table[i]);
    buf_add(
        out,
        "Options stand before FILE: what is behind it, or behind -, is the script's. Behind -c, "
        "-f\n"
        "and a COMMAND they stand anywhere; -- ends them. In `kvctl COMMAND WORD...` each word is\n"
        "one argument. An option wins over the environment, that over the start file.\n");
}

static int take_integer(const char *name, const char *text, int64_t low, int64_t high, int64_t *x,
                        kv_err *e)
{
    bool over = false;
    size_t n = strlen(text);
    if (n == 0 || num_parse_int(text, n, x, &over) != n || over || *x < low || *x > high)
        return kv_err_set(e, KV_E_USAGE, "--%s needs a whole number from %lld to %lld, not \"%s\"",
                          name, (long long)low, (long long)high, text);
    return KV_OK;
}

static int random_seed(options *o, kv_err *e)
{
    if (getentropy(&o->seed, sizeof o->seed) != 0)
        return kv_err_set(e, KV_E_UNSUPPORTED, "this system gives no random seed");
    return KV_OK;
}

/* Up to a year; a timer takes no more than some. */
static int take_seconds(const char *text, double *seconds, kv_err *e)
{
    bool over = false;
    size_t n = strlen(text);
    if (n == 0 || num_parse(text, n, NUM_BINARY64, seconds, &over) != n || over ||
        !(*seconds > 0 && *seconds <= 31536000))
        return kv_err_set(e, KV_E_USAGE, "--timeout needs seconds, more than 0, not \"%s\"", text);
    return KV_OK;
}

/* --color, --progress, --pager */
static int choose(options *o, const struct option *t, const char *text, kv_err *e)
{
    char what[32];
    terminal_when when;
    snprintf(what, sizeof what, "--%s", t->name);
    if (terminal_when_parse(&when, text, what, e))
        return e->code;
    terminal_use use = t->id == OPT_COLOR      ? TERMINAL_COLOR
                       : t->id == OPT_PROGRESS ? TERMINAL_PROGRESS
                                               : TERMINAL_PAGER;
    o->terminal[use] = when;
    o->terminal_given[use] = true;
    return KV_OK;
}

/* Refuses a file of arrays as a script: read as one, its first line gives a syntax error that
 * helps nobody. */
static int check_script(const char *path, kv_err *e)
{
    file_kind kind = file_kind_of(path);
    size_t n = strlen(path);
    bool store = n > 4 && strcmp(path + n - 4, ".kvs") == 0;
    if (!store && (kind == FILE_UNKNOWN || kind == FILE_TEXT))
        return KV_OK;
    kv_err_set(e, KV_E_USAGE, "\"%s\" is a file of arrays, not a script", path);
    if (store || kind == FILE_SAFETENSORS)
        return kv_err_hint(e, "kvctl -s %s -c info lists them", path);
    return kv_err_hint(e, "kvctl -c 'print @%s' shows it", path);
}

static int apply(options *o, const struct option *t, const char *text, kv_err *e)
{
    int64_t x = 0;
    int code = KV_OK;
    switch (t->id) {
    case OPT_COMMANDS:
        o->inputs[o->ninputs++] = (input){INPUT_TEXT, text};
        break;
    case OPT_FILE:
        o->inputs[o->ninputs++] = (input){strcmp(text, "-") ? INPUT_FILE : INPUT_STDIN, text};
        code = check_script(text, e);
        break;
    case OPT_INTERACTIVE:
        o->interactive = true;
        break;
    case OPT_QUIET:
        o->quiet = true;
        break;
    case OPT_VERBOSE:
        o->verbose = true;
        break;
    case OPT_CHECK_LAST:
        o->check_last = true;
        break;
    case OPT_KEEP_GOING:
        o->keep_going = true;
        break;
    case OPT_CHECK:
        o->check = true;
        break;
    case OPT_DRY_RUN:
        o->dry_run = true;
        break;
    case OPT_FORCE:
        o->force = true;
        break;
    case OPT_STORE:
        if (!*text || strcmp(text, "-") == 0)
            return kv_err_set(e, KV_E_USAGE, "a store cannot be kept in \"%s\"", text);
        o->store = text;
        break;
    case OPT_PLUGIN:
        o->plugins[o->nplugins++] = text;
        break;
    case OPT_JSON:
        o->json = true;
        break;
    case OPT_SET:
        if (!strchr(text, '=') || *text == '=')
            return kv_err_set(e, KV_E_USAGE, "--set needs NAME=VALUE, not \"%s\"", text);
        o->sets[o->nsets++] = text;
        break;
    case OPT_SEED:
        if (strcmp(text, "random") == 0) {
            code = random_seed(o, e);
        } else if ((code = take_integer("seed", text, 0, INT64_MAX, &x, e)) == KV_OK) {
            o->seed = (uint64_t)x;
        }
        break;
    case OPT_GPUS:
        if ((code = take_integer("gpus", text, 0, 65536, &x, e)) == KV_OK)
            o->gpus = (int)x;
        o->gpus_said = true;
        break;
    case OPT_TYPE:
        o->type = text;
        break;
    case OPT_FORMAT:
        o->format = text;
        break;
    case OPT_VERIFY:
        o->verify[o->nverify++] = text;
        break;
    case OPT_UPDATE:
        o->update = true;
        break;
    case OPT_RECORD:
        o->record = text;
        break;
    case OPT_TRACE:
        o->trace = true;
        break;
    case OPT_TIMEOUT:
        return take_seconds(text, &o->timeout, e);
    case OPT_SAFE:
        o->safe = true;
        break;
    case OPT_RC:
        o->rc = text;
        break;
    case OPT_NO_RC:
        o->rc = "";
        break;
    case OPT_HISTORY:
        o->history = text;
        break;
    case OPT_COLOR:
    case OPT_PROGRESS:
    case OPT_PAGER:
        return choose(o, t, text, e);
    case OPT_NO_COLOR:
        o->terminal[TERMINAL_COLOR] = TERMINAL_NEVER;
        o->terminal_given[TERMINAL_COLOR] = true;
        break;
    case OPT_DOCTOR:
        o->inputs[o->ninputs++] = (input){INPUT_TEXT, "doctor"};
        break;
    case OPT_COMPLETION:
        o->completion = completion_script_of(text);
        if (!o->completion)
            return kv_err_set(e, KV_E_USAGE,
                              "--completion knows bash, zsh and fish, not \"%s\"", text);
        break;
    case OPT_HELP:
        o->help = true;
        break;
    case OPT_VERSION:
        o->version = true;
        break;
    }
    return code;
}

static int unknown(const char *word, size_t n, kv_err *e)
{
    char name[64] = "", near[SUGGEST_MAX][64];
    suggest close = {.word = name};
    memcpy(name, word + 2, n - 2 < 63 ? n - 2 : 63);
    for (int i = 0; i < NOPTIONS; i++)
        if (table[i].name)
            suggest_add(&close, table[i].name);
    for (int i = 0; i < close.n; i++) {
        snprintf(near[i], sizeof near[i], "--%s", close.names[i]);
        close.names[i] = near[i];
    }
    kv_err_set(e, KV_E_USAGE, "there is no option --%s", name);
    suggest_done(&close, e);
    return kv_err_hint(e, "kvctl -h lists the options");
}

/* --name, --name=value, --name value. *next is the argument behind it, or NULL; *used is set when
 * it was taken. */
static int long_option(options *o, const char *word, const char *next, bool *used, kv_err *e)
{
    const char *equals = strchr(word, '=');
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    for (int i = 0; i < NOPTIONS; i++) {
        const struct option *t = &table[i];
        if (!t->name || strlen(t->name) != n - 2 || memcmp(t->name, word + 2, n - 2) != 0)
            continue;
        if (!t->value && equals)
            return kv_err_set(e, KV_E_USAGE, "--%s takes no value", t->name);
        if (!t->value || equals)
            return apply(o, t, equals ? equals + 1 : NULL, e);
        if (!next)
            return kv_err_set(e, KV_E_USAGE, "--%s needs a value: --%s %s", t->name, t->name,
                              t->value);
        *used = true;
        return apply(o, t, next, e);
    }
    return unknown(word, n, e);
}

/* -abc, -cCMDS, -c CMDS */
static int short_options(options *o, const char *word, const char *next, bool *used, kv_err *e)
{
    for (const char *c = word + 1; *c; c++) {
        const struct option *t = NULL;
        for (int i = 0; i < NOPTIONS; i++)
            if (table[i].letter == *c)
                t = &table[i];
        if (!t) {
            kv_err_set(e, KV_E_USAGE, "there is no option -%c", *c);
            return kv_err_hint(e, "kvctl -h lists the options");
        }
        if (!t->value) {
            if (apply(o, t, NULL, e))
                return e->code;
            continue;
        }
        if (c[1])
            return apply(o, t, c + 1, e);
        if (!next)
            return kv_err_set(e, KV_E_USAGE, "-%c needs a value: -%c %s", *c, *c, t->value);
        *used = true;
        return apply(o, t, next, e);
    }
    return KV_OK;
}

/* Pages are run by themselves. */
static int check_verify(const options *o, kv_err *e)
{
    const struct {
        bool given;
        const char *name;
    } others[] = {{o->ninputs > 0, "commands to run"}, {o->interactive, "-i"},
                  {o->record, "--record"},             {o->store, "--store"},
                  {o->dry_run, "--dry-run"},           {o->check, "--check"},
                  {o->json, "--json"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (o->nverify > 0 && others[i].given)
            return kv_err_set(e, KV_E_USAGE, "--verify and %s do not go together",
                              others[i].name);
    return KV_OK;
}

/* What the words are, and what does not go together. */
static int settle(options *o, kv_err *e)
{
    if (o->nverify > 0) {
        for (int i = 0; i < o->nargs; i++)
            o->verify[o->nverify++] = o->args[i];
        o->nargs = 0;
    }
    if (o->update && o->nverify == 0)
        return kv_err_set(e, KV_E_USAGE, "--update needs --verify FILE");
    if (o->safe && (o->update || o->record))
        return kv_err_set(e, KV_E_UNSUPPORTED, "--safe writes no file, so %s is not possible",
                          o->update ? "--update" : "--record");
    if (check_verify(o, e))
        return e->code;
    if (!o->store && o->nverify == 0)
        o->store = getenv("KVCTL_STORE");
    if (o->store && !*o->store)
        o->store = NULL;
    return KV_OK;
}

/* ---- Words ---- */

/* Whether a word names a script. A folder hides no command of its name. */
static bool is_script(const char *word)
{
    struct stat about;
    return strcmp(word, "-") == 0 ||
           (stat(word, &about) == 0 &&
            (!S_ISDIR(about.st_mode) || !command_find(word, strlen(word))));
}

static int neither(const char *word, kv_err *e)
{
    suggest near = {.word = word};
    kv_err_set(e, KV_E_USAGE, "there is no file \"%s\", and no command of that name", word);
    for (const command *c = registry.commands; c->name; c++)
        suggest_add(&near, c->name);
    suggest_add(&near, "launch"); /* no command of the language */
    suggest_done(&near, e);
    return kv_err_hint(e, "kvctl help lists the commands");
}

/* The first word that is no option, unless -c, -f or --verify came before it: a script, whose words
 * the rest are, or a command. */
static int take_first_word(options *o, const char *word, bool *script, kv_err *e)
{
    if ((*script = is_script(word))) {
        o->inputs[o->ninputs++] = (input){strcmp(word, "-") ? INPUT_FILE : INPUT_STDIN, word};
        return check_script(word, e);
    }
    return word_command_begin(&o->command, word) ? KV_OK : neither(word, e);
}

/* literal: -- was before it. */
static int take_word(options *o, const char *word, bool literal, bool *script, kv_err *e)
{
    if (o->command.c)
        return word_command_add(&o->command, word, literal, e);
    if (o->ninputs == 0 && o->nverify == 0)
        return take_first_word(o, word, script, e);
    if (!literal && strcmp(word, "-") == 0 && o->ninputs > 0)
        o->inputs[o->ninputs++] = (input){INPUT_STDIN, word};
    else
        o->args[o->nargs++] = word;
    return KV_OK;
}

/* Whether a long option is kvctl's own. */
static bool is_own(const char *word)
{
    size_t n = strcspn(word, "=");
    for (int i = 0; i < NOPTIONS; i++)
        if (table[i].name && strlen(table[i].name) == n - 2 &&
            memcmp(table[i].name, word + 2, n - 2) == 0)
            return true;
    return false;
}

/* Whether a word is no option of kvctl. Behind a command the options that the command has are the
 * command's, as are numbers and those that nobody knows. */
static bool is_word(const options *o, const char *word)
{
    if (word[0] != '-' || !word[1])
        return true;
    if (!o->command.c || strcmp(word, "--") == 0)
        return false;
    if (word[1] == '-')
        return word_command_has(&o->command, word) || !is_own(word);
    return o->command.open || lex_is_digit(word[1]) || word[1] == '.';
}

int options_parse(options *o, int argc, char **argv, kv_err *e)
{
    *o = (options){.gpus = 8};
    int code = KV_OK;
    bool words_only = false;
    o->inputs = mem_zalloc(argc + 1, sizeof *o->inputs, e);
    o->args = mem_zalloc(argc + 1, sizeof *o->args, e);
    o->sets = mem_zalloc(argc + 1, sizeof *o->sets, e);
    o->verify = mem_zalloc(argc + 1, sizeof *o->verify, e);
    o->plugins = mem_zalloc(argc + 1, sizeof *o->plugins, e);
    if (!o->inputs || !o->args || !o->sets || !o->verify || !o->plugins)
        return KV_E_MEMORY;
    bool script = false;
    int end = 1; /* behind the last word that may be kvctl's */
    for (; end < argc && code == KV_OK && !script; end++) {
        const char *word = argv[end], *next = end + 1 < argc ? argv[end + 1] : NULL;
        bool used = false;
        if (words_only || is_word(o, word))
            code = take_word(o, word, words_only, &script, e);
        else if (strcmp(word, "--") == 0)
            words_only = true;
        else if (word[1] == '-')
            code = long_option(o, word, next, &used, e);
        else
            code = short_options(o, word, next, &used, e);
        end += used;
    }
    for (int i = end; script && i < argc; i++)
        o->args[o->nargs++] = argv[i];
    if (code == KV_OK && o->command.c)
        o->inputs[o->ninputs++] = (input){INPUT_TEXT, buf_text(&o->command.text)};
    if (code == KV_OK)
        code = settle(o, e);
    /* an error on the command line has its record too, also where --json stands behind it */
    for (int i = 1; i < (script ? end : argc) && code && strcmp(argv[i], "--") != 0; i++)
        o->json = o->json || strcmp(argv[i], "--json") == 0;
    return code;
}

void options_release(options *o)
{
    mem_free(o->inputs);
    mem_free(o->args);
    mem_free(o->sets);
    mem_free(o->verify);
    mem_free(o->plugins);
    buf_release(&o->command.text);
}
