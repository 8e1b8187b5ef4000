/* Reads the command line from one table of options, which -h prints too.
 *
 * The first word that is no option is a script when a file has that name, and everything behind it
 * is the script's; else it is a command, and the words behind it are its arguments. Behind -c and
 * -f words are arguments of the script, and options stand anywhere; -- ends them.
 */
#include "options/options.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "lang/lex.h"
#include "options/shell_option.h"
#include "session/session.h"
#include "syntax/command.h"
#include "syntax/file_kind.h"
#include "syntax/hints.h"
#include "term/terminal.h"

/* ---- Scripts of shells ---- */

const completion_script completion_scripts[] = {
    {"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}, {0}};

/* Refuses a file of arrays as a script: read as one, its first line gives a syntax error that
 * helps nobody. */
static int check_script(const char *path, kv_err *e)
{
    file_kind kind = file_kind_of(path);
    bool store = utf8_ends_in(path, ".kvs");
    if (!store && (kind == FILE_UNKNOWN || kind == FILE_TEXT))
        return KV_OK;
    kv_err_set(e, KV_E_USAGE, "\"%s\" is a file of arrays, not a script", path);
    if (strpbrk(path, " @'\"$#")) /* a name that needs quotes, of the shell or of the language */
        return kv_err_hint(e, "kvctl ls FILE lists its keys, kvctl stat FILE their numbers");
    if (store || kind == FILE_SAFETENSORS)
        return kv_err_hint(e, "kvctl -s %s -c info lists them", path);
    return kv_err_hint(e, "kvctl -c 'print @%s' shows it", path);
}

/* ---- Options that are no mere fields ---- */

static void add_input(options *o, input_kind kind, const char *text)
{
    o->inputs[o->ninputs++] = (input){kind, text, &o->command};
}

static int take_commands(const shell_given *g, kv_err *e)
{
    (void)e;
    add_input(g->to, INPUT_TEXT, g->text);
    return KV_OK;
}

static int take_file(const shell_given *g, kv_err *e)
{
    add_input(g->to, strcmp(g->text, "-") ? INPUT_FILE : INPUT_STDIN, g->text);
    return check_script(g->text, e);
}

static int take_store(const shell_given *g, kv_err *e)
{
    if (!*g->text || strcmp(g->text, "-") == 0)
        return kv_err_set(e, KV_E_USAGE, "a store cannot be kept in \"%s\"", g->text);
    ((options *)g->to)->store = g->text;
    return KV_OK;
}

static int take_set(const shell_given *g, kv_err *e)
{
    options *o = g->to;
    if (!strchr(g->text, '=') || *g->text == '=')
        return kv_err_set(e, KV_E_USAGE, "%s needs NAME=VALUE, not \"%s\"", g->spelled, g->text);
    o->sets.items[o->sets.n++] = g->text;
    return KV_OK;
}

static int take_seed(const shell_given *g, kv_err *e)
{
    options *o = g->to;
    int64_t seed = 0;
    if (strcmp(g->text, "random") == 0) {
        if (getentropy(&o->seed, sizeof o->seed) != 0)
            return kv_err_set(e, KV_E_UNSUPPORTED, "this system gives no random seed");
    } else if (shell_take_count(g->spelled, g->text, 0, INT64_MAX, &seed, e) == KV_OK) {
        o->seed = (uint64_t)seed;
    }
    return e->code;
}

/* --color, --progress, --pager: low is the terminal_use. --no-color has no value. */
static int take_when(const shell_given *g, kv_err *e)
{
    options *o = g->to;
    terminal_when when = TERMINAL_NEVER;
    if (g->o->value && terminal_when_parse(&when, g->text, g->spelled, e))
        return e->code;
    o->terminal[g->o->low] = when;
    o->terminal_given[g->o->low] = true;
    return KV_OK;
}

static int take_doctor(const shell_given *g, kv_err *e)
{
    (void)e;
    add_input(g->to, INPUT_TEXT, "doctor");
    return KV_OK;
}

static int take_completion(const shell_given *g, kv_err *e)
{
    options *o = g->to;
    const completion_script *c = completion_scripts;
    while (c->shell && strcmp(g->text, c->shell) != 0)
        c++;
    o->completion = c->text;
    return c->text ? KV_OK
                   : kv_err_set(e, KV_E_USAGE, "%s knows bash, zsh and fish, not \"%s\"",
                                g->spelled, g->text);
}

/* ---- The table ---- */

#define FLAG(to)             .kind = SHELL_FLAG, .field = offsetof(options, to)
/* Without a value the text is empty. */
#define TEXT(to)             .kind = SHELL_TEXT, .field = offsetof(options, to)
#define TEXTS(to)            .kind = SHELL_TEXTS, .field = offsetof(options, to)
#define SECONDS(to)          .kind = SHELL_SECONDS, .field = offsetof(options, to)
#define COUNT(to, from, most)                                                                      \
    .kind = SHELL_COUNT, .field = offsetof(options, to), .low = from, .high = most
#define TAKEN(by)            .kind = SHELL_OTHER, .take = by

/* Legend: letter or 0, name or NULL, what the value is called or NULL when there is none, help,
 * what becomes of the value. */
static const shell_option own_options[] = {
    {'c', NULL, "CMDS", "run commands; repeatable, also with -f and -", TAKEN(take_commands)},
    {'f', NULL, "FILE", "run a file; - is stdin", TAKEN(take_file)},
    {'i', NULL, NULL, "go on at the prompt afterwards", FLAG(interactive)},
    {'q', "quiet", NULL, "no banner and no notes", FLAG(quiet)},
    {'v', "verbose", NULL, "a note for each change", FLAG(verbose)},
    {'e', NULL, NULL, "exit 1 if the last value shown is false, empty or none", FLAG(check_last)},
    {'k', NULL, NULL, "keep going after an error", FLAG(keep_going)},
    {'n', "check", NULL, "read everything and run nothing; report every error", FLAG(check)},
    {0, "dry-run", NULL, "run, say what would change, and write no file", FLAG(dry_run)},
    {'s', "store", "FILE", "keep the store in FILE: read first, saved at the end",
     TAKEN(take_store)},
    {0, "read-only", NULL, "only read FILE of -s: commands work in memory, nothing is written",
     FLAG(read_only)},
    {0, "force", NULL, "let -s drop keys of FILE, and change files of other tools", FLAG(force)},
    {0, "plugin", "FILE", "load store types before anything is read; repeatable", TEXTS(plugins)},
    {0, "json", NULL, "one JSON object a command on stdout, and nothing else", FLAG(json)},
    {0, "set", "NAME=VALUE", "set a variable, or a setting such as print.precision=4",
     TAKEN(take_set)},
    {0, "seed", "N", "seed of the random functions (0), or random", TAKEN(take_seed)},
    {0, "gpus", "N", "use N virtual GPUs; without it: 8 where there is no GPU",
     COUNT(gpus, 0, 65536)},
    {0, "type", "TYPE", "type of a store that is used before create (local)", TEXT(type)},
    {0, "format", "F", "numpy, repr, legacy, mxnet, csv, raw or json", TEXT(format)},
    {0, "verify", "FILE", "run the `kv> ` or `>>> ` lines of a page, compare the rest",
     TEXTS(verify)},
    {0, "update", NULL, "with --verify: rewrite the page with what comes out", FLAG(update)},
    {0, "record", "FILE", "write a transcript that --verify accepts", TEXT(record)},
    {0, "trace", NULL, "print each command to stderr before it runs", FLAG(trace)},
    {0, "timeout", "SEC", "give up after SEC seconds, with exit code 6", SECONDS(timeout)},
    {0, "safe", NULL, "no shell, and no writes except to the state file", FLAG(safe)},
    {0, "rc", "FILE", "the prompt's start file ($KVCTL_RC, ~/.config/kvctl/rc)", TEXT(rc)},
    {0, "no-rc", NULL, "no start file", TEXT(rc)},
    {0, "history", "FILE", "where the prompt remembers what was typed, or off", TEXT(history)},
    {0, "color", "WHEN", "auto, always or never", TAKEN(take_when), .low = TERMINAL_COLOR},
    {0, "no-color", NULL, "the same as --color never, or a non-empty NO_COLOR", TAKEN(take_when),
     .low = TERMINAL_COLOR},
    {0, "progress", "WHEN", "auto, always or never: a bar for long work", TAKEN(take_when),
     .low = TERMINAL_PROGRESS},
    {0, "pager", "WHEN", "auto, always or never: $PAGER at the prompt", TAKEN(take_when),
     .low = TERMINAL_PAGER},
    {0, "doctor", NULL, "what this build has, and what it finds on this machine",
     TAKEN(take_doctor)},
    {0, "completion", "SHELL", "what bash, zsh or fish need to complete kvctl's words",
     TAKEN(take_completion)},
    {'h', "help", NULL, "help on one screen", FLAG(help)},
    {'V', "version", NULL, "version, what this build has, and licence", FLAG(version)},
};

const shell_table options_table = {own_options, sizeof own_options / sizeof *own_options, ""};

/* The options that -h shows; `help options` lists all. */
static const char *const common[] = {"-c",     "-f",       "--store", "-i",       "-k",       "-n",
                                     "--json", "--format", "--set",   "--verify", "--version"};

/* The column in which the help of an option begins. */
#define COLUMN 21

void options_help(buf *out)
{
    static const char mark[] = "{options}\n"; /* where they stand in the text */
    const char *at = strstr(text_usage, mark);
    buf_put(out, text_usage, (size_t)(at - text_usage));
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        shell_option_line(out, shell_option_find(&options_table, common[i], strlen(common[i])),
                          COLUMN);
    buf_add(out, at + strlen(mark));
}

void options_list(buf *out)
{
    for (int i = 0; i < options_table.n; i++)
        shell_option_line(out, &own_options[i], COLUMN);
    buf_add(out, text_options);
}

/* The error for a word with an option that the table lacks. */
static int unknown(const char *word, kv_err *e)
{
    if (word[1] != '-') {
        char spelled[3] = "-";
        while (*++word && (spelled[1] = *word, shell_option_find(&options_table, spelled, 2)))
            ;
        kv_err_set(e, KV_E_USAGE, "there is no option %s", spelled);
        hint_output(spelled, strlen(spelled), e);
        return kv_err_hint(e, "kvctl -h lists the options");
    }
    kv_err_set(e, KV_E_USAGE, "there is no option %.*s", (int)strcspn(word, "="), word);
    shell_option_suggest(&options_table, word, e);
    return kv_err_hint(e, "kvctl -h lists the options");
}

/* Decides the meaning of the words, and refuses options that exclude each other. */
static int settle(options *o, kv_err *e)
{
    const struct {
        bool given;
        const char *name;
    } not_verify[] = {{o->ninputs > 0, "commands to run"},
                      {o->interactive, "-i"},
                      {o->record, "--record"},
                      {o->store, "--store"},
                      {o->dry_run, "--dry-run"},
                      {o->check, "--check"},
                      {o->json, "--json"}};
    if (o->verify.n > 0) {
        for (int i = 0; i < o->args.n; i++)
            o->verify.items[o->verify.n++] = o->args.items[i];
        o->args.n = 0;
    }
    if (o->update && o->verify.n == 0)
        return kv_err_set(e, KV_E_USAGE, "--update needs --verify FILE");
    if (o->safe && (o->update || o->record))
        return kv_err_set(e, KV_E_UNSUPPORTED, "--safe writes no file, so %s is not possible",
                          o->update ? "--update" : "--record");
    for (size_t i = 0; o->verify.n > 0 && i < sizeof not_verify / sizeof *not_verify; i++)
        if (not_verify[i].given)
            return kv_err_set(e, KV_E_USAGE, "--verify and %s do not go together",
                              not_verify[i].name);
    if (!o->store && o->verify.n == 0)
        o->store = getenv("KVCTL_STORE");
    if (o->store && !*o->store)
        o->store = NULL;
    return KV_OK;
}

/* ---- Words ---- */

/* Returns true if a word names a script. A folder hides no command of its name, and neither does a
 * file that cannot be looked at, of which reading it says why. */
static bool is_script(const char *word)
{
    struct stat about;
    if (strcmp(word, "-") == 0)
        return true;
    if (stat(word, &about) == 0)
        return !S_ISDIR(about.st_mode) || !command_find(word, strlen(word));
    return (errno == EIO || errno == EACCES || errno == ELOOP) && !command_find(word, strlen(word));
}

static int neither(const char *word, kv_err *e)
{
    suggest near = {.word = word};
    glob_t scripts = {0}; /* in the folder of the missing script */
    char pattern[PATH_MAX];
    const char *slash = strrchr(word, '/');
    size_t first = strcspn(word, " ");
    kv_err_set(e, KV_E_USAGE, "there is no file \"%s\", and no command of that name", word);
    if (word[first] && command_find(word, first) && !strchr(word, '\''))
        return kv_err_hint(e, "kvctl -c '%s' runs a text", word);
    if (strstr(" cat dump inspect keys show ", word) && *word != ' ')
        return kv_err_hint(e, "kvctl ls FILE lists the keys, kvctl stat FILE their numbers");
    if (strcmp(word, "hist") == 0 || strcmp(word, "histogram") == 0)
        return kv_err_hint(e, "kvctl plot --hist @FILE draws how many of its values lie where");
    if (*word == '@' && !strpbrk(word + 1, " @'\"$#"))
        return kv_err_hint(e, "kvctl -c 'print %s' shows a file", word);
    if (hint_word("command", word, strlen(word), e))
        return KV_E_USAGE;
    const char *page = process_word_page(word, strlen(word));
    if (page)
        return kv_err_hint(e, "kvctl %s stands by itself: kvctl help %s", word, page);
    for (const command *c = registry.commands; c->name; c++)
        suggest_add(&near, c->name);
    for (int i = 0; i < PROCESS_WORDS_OF_USERS; i++) /* these are not commands of the language */
        suggest_add(&near, process_words[i]);
    for (int i = 0; i < options_table.n; i++)
        if (options_table.rows[i].name && strcmp(options_table.rows[i].name, word) == 0)
            return kv_err_hint(e, "did you mean --%s?", word);
    snprintf(pattern, sizeof pattern, "%.*s*.kv", slash ? (int)(slash - word) + 1 : 0, word);
    if (glob(pattern, GLOB_NOESCAPE, NULL, &scripts) == 0)
        for (size_t i = 0; i < scripts.gl_pathc; i++)
            suggest_add(&near, scripts.gl_pathv[i]);
    suggest_done(&near, e);
    globfree(&scripts);
    return kv_err_hint(e, "kvctl help lists the commands");
}

/* The first word that is no option, unless -c, -f or --verify came before it: a script, whose words
 * the rest are, or a command. Behind --help it is what help is asked for. */
static int take_first_word(options *o, const char *word, bool *script, kv_err *e)
{
    if (o->help && !is_script(word)) {
        o->help = false;
        shell_words_begin(&o->command, "help");
        return shell_words_add(&o->command, word, false, e);
    }
    if ((*script = is_script(word))) {
        add_input(o, strcmp(word, "-") ? INPUT_FILE : INPUT_STDIN, word);
        return check_script(word, e);
    }
    return shell_words_begin(&o->command, word) ? KV_OK : neither(word, e);
}

/* literal: -- was before it. */
static int take_word(options *o, const char *word, bool literal, bool *script, kv_err *e)
{
    if (o->command.c)
        return shell_words_add(&o->command, word, literal, e);
    if (o->ninputs == 0 && o->verify.n == 0)
        return take_first_word(o, word, script, e);
    if (!literal && strcmp(word, "-") == 0 && o->ninputs > 0)
        add_input(o, INPUT_STDIN, word);
    else
        o->args.items[o->args.n++] = word;
    return KV_OK;
}

/* Returns true if a word is no option of kvctl. Behind a command its own options belong to the
 * command, and so do numbers and unknown options. */
static bool is_word(const options *o, const char *word)
{
    if (word[0] != '-' || !word[1])
        return true;
    if (!o->command.c || strcmp(word, "--") == 0)
        return false;
    if (shell_words_asks(&o->command, word) ||
        (o->command.open && command_option_is_raw(o->command.open)))
        return true;
    if (word[1] == '-')
        return shell_words_has(&o->command, word) ||
               !shell_option_find(&options_table, word, strcspn(word, "="));
    return o->command.open || lex_is_digit(word[1]) || word[1] == '.';
}

/* Reads an option of kvctl. --check behind a command is refused: `hash m/ --check sums`, as with
 * sha256sum, would run nothing and succeed. */
static int read_option(options *o, int argc, char **argv, kv_err *e)
{
    bool before = o->check;
    int words = shell_option_read(&options_table, o, argc, argv, e);
    if (!words && !e->code)
        unknown(argv[0], e);
    if (o->command.c && o->check && !before && !e->code) {
        kv_err_set(e, KV_E_USAGE, "`%s` has no option %s", o->command.c->name, argv[0]);
        if (command_option_find(o->command.c, "verify", strlen("verify")))
            kv_err_hint(e, "%s … --verify FILE compares; kvctl --check %s … runs nothing",
                        o->command.c->name, o->command.c->name);
        kv_err_hint(e, "kvctl --check %s … reads the words and runs nothing", o->command.c->name);
    }
    return words ? words : 1;
}

/* Makes room for as many texts as there are words. */
static int make_room(options *o, int argc, kv_err *e)
{
    shell_texts *texts[] = {&o->args, &o->sets, &o->verify, &o->plugins};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        texts[i]->items = arena_alloc(&o->memory, (size_t)(argc + 1) * sizeof(char *), e);
    o->inputs = arena_alloc(&o->memory, (size_t)(argc + 1) * sizeof *o->inputs, e);
    return e->code;
}

int options_parse(options *o, int argc, char **argv, kv_err *e)
{
    *o = (options){.gpus = -1};
    bool words_only = false, script = false;
    int end = 1, words; /* behind the last word that may be kvctl's */
    TRY(make_room(o, argc, e));
    for (; end < argc && !e->code && !script; end += words) {
        const char *word = argv[end];
        if (o->command.c && !o->command.open && !words_only && strcmp(word, "-h") == 0)
            word = "--help"; /* behind a command it asks about that command */
        words = 1;
        if (words_only || is_word(o, word))
            take_word(o, word, words_only, &script, e);
        else if (strcmp(word, "--") == 0)
            words_only = true;
        else
            words = read_option(o, argc - end, argv + end, e);
    }
    for (int i = end; script && i < argc; i++)
        o->args.items[o->args.n++] = argv[i];
    o->gpus_said = o->gpus >= 0;
    o->gpus = o->gpus_said ? o->gpus : 8;
    if (!e->code && o->command.c)
        add_input(o, INPUT_WORDS, o->command.c->name);
    if (!e->code)
        settle(o, e);
    /* an error on the command line has its record too, also where --json stands behind it */
    for (int i = 1; i < (script ? end : argc) && e->code && strcmp(argv[i], "--") != 0; i++)
        o->json = o->json || strcmp(argv[i], "--json") == 0;
    return e->code;
}

int options_in_front(int argc, char **argv)
{
    options o = {0};
    kv_err e = {0};
    int end = 1;
    if (make_room(&o, argc, &e) == KV_OK)
        while (end < argc && !e.code && argv[end][0] == '-' && argv[end][1] &&
               strcmp(argv[end], "--") != 0)
            end += read_option(&o, argc - end, argv + end, &e);
    bool other = e.code || o.ninputs > 0 || o.verify.n > 0 || o.help || o.version || o.completion;
    options_release(&o);
    return other ? 0 : end - 1;
}

void options_release(options *o)
{
    arena_release(&o->memory);
    shell_words_release(&o->command);
}

/* ---- Tables of options ---- */

const shell_option *shell_option_find(const shell_table *t, const char *word, size_t n)
{
    bool is_long = n > 2 && word[1] == '-';
    for (int i = 0; i < t->n; i++) {
        const shell_option *o = &t->rows[i];
        if (is_long ? o->name && strlen(o->name) == n - 2 && !memcmp(o->name, word + 2, n - 2)
                    : n == 2 && o->letter == word[1])
            return o;
    }
    return NULL;
}

int shell_option_suggest(const shell_table *t, const char *word, kv_err *e)
{
    char name[66] = "", spelled[SUGGEST_MAX][66];
    suggest near = {.word = name};
    if (strncmp(word, "--", 2) != 0)
        return e->code;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "=") - 2, word + 2);
    for (int i = 0; i < t->n; i++)
        if (t->rows[i].name)
            suggest_add(&near, t->rows[i].name);
    for (int i = 0; i < near.n; i++) {
        snprintf(spelled[i], sizeof spelled[i], "--%s", near.names[i]);
        near.names[i] = spelled[i];
    }
    return suggest_done(&near, e), e->code;
}

/* ---- Values ---- */

int shell_take_count(const char *spelled, const char *text, int64_t low, int64_t high, int64_t *x,
                     kv_err *e)
{
    bool over = false;
    size_t n = strlen(text);
    if (n == 0 || num_parse_int(text, n, x, &over) != n || over || *x < low || *x > high)
        return kv_err_set(e, KV_E_USAGE, "%s needs a whole number from %lld to %lld, not \"%s\"",
                          spelled, (long long)low, (long long)high, text);
    return KV_OK;
}

int shell_take_seconds(const char *spelled, const char *text, double *seconds, kv_err *e)
{
    enum { YEAR = 31536000 }; /* a timer takes no more than some of them */
    bool over = false;
    size_t n = strlen(text);
    if (n == 0 || num_parse(text, n, NUM_BINARY64, seconds, &over) != n || over ||
        !(*seconds > 0 && *seconds <= YEAR))
        return kv_err_set(e, KV_E_USAGE, "%s needs seconds, more than 0, not \"%s\"", spelled,
                          text);
    return KV_OK;
}

static int store(const shell_given *g, kv_err *e)
{
    const shell_option *o = g->o;
    void *field = (char *)g->to + o->field;
    shell_texts *texts = field;
    int64_t count = 0;
    switch (o->kind) {
    case SHELL_FLAG:
        *(bool *)field = true;
        break;
    case SHELL_TEXT:
        *(const char **)field = g->text;
        break;
    case SHELL_TEXTS:
        texts->items[texts->n++] = g->text;
        break;
    case SHELL_COUNT:
        TRY(shell_take_count(g->spelled, g->text, o->low, o->high, &count, e));
        *(int *)field = (int)count;
        break;
    case SHELL_SECONDS:
        return shell_take_seconds(g->spelled, g->text, field, e);
    case SHELL_OTHER:
        return o->take(g, e);
    }
    return KV_OK;
}

/* ---- Words ---- */

/* here: what stands in the same word, or NULL; next: the word behind it, or NULL. */
static int take(const shell_table *t, void *to, const shell_option *o, const char *word, size_t n,
                const char *here, const char *next, kv_err *e)
{
    char name[64], spelled[80];
    const char *text = here ? here : o->value ? next : "";
    snprintf(name, sizeof name, "%.*s", (int)n, word);
    snprintf(spelled, sizeof spelled, "%s%s", t->who, name);
    if (!o->value && here)
        kv_err_set(e, KV_E_USAGE, "%s takes no value, and here is \"%s\"", spelled, here);
    else if (!text && *t->who)
        kv_err_set(e, KV_E_USAGE, "%s needs a value", spelled);
    else if (!text)
        kv_err_set(e, KV_E_USAGE, "%s needs a value: %s %s", name, name, o->value);
    else
        store(&(shell_given){o, spelled, text, to}, e);
    return e->code ? 0 : 1 + (o->value && !here);
}

int shell_option_read(const shell_table *t, void *to, int argc, char *const *argv, kv_err *e)
{
    const char *word = argv[0], *next = argc > 1 ? argv[1] : NULL;
    int words = 0;
    if (word[0] == '-' && word[1] == '-') {
        size_t n = strcspn(word, "=");
        const shell_option *o = shell_option_find(t, word, n);
        return o ? take(t, to, o, word, n, word[n] ? word + n + 1 : NULL, next, e) : 0;
    }
    for (const char *c = word + 1; word[0] == '-' && *c; c++) {
        char spelled[3] = {'-', *c};
        const shell_option *o = shell_option_find(t, spelled, 2);
        const char *here = o && o->value && c[1] ? c + 1 : NULL;
        if (here && *here == '=' && *t->who) /* launch takes -n=2, too */
            here++;
        words = o ? take(t, to, o, spelled, 2, here, next, e) : 0;
        if (words == 0 || o->value)
            break;
    }
    return words;
}

void shell_option_line(buf *out, const shell_option *o, int column)
{
    size_t from = out->len;
    buf_add(out, "  ");
    if (o->letter)
        buf_printf(out, "-%c", o->letter);
    if (o->name)
        buf_printf(out, "%s--%s", o->letter ? ", " : "", o->name);
    if (o->value)
        buf_printf(out, " %s", o->value);
    buf_repeat(out, ' ', column - 1 - (int64_t)(out->len - from));
    buf_char(out, ' ');
    for (const char *c = o->help; *c; c++) {
        buf_char(out, *c);
        if (*c == '\n')
            buf_repeat(out, ' ', column);
    }
    buf_char(out, '\n');
}
