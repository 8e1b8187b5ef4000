/* The words of kvctl's command line, from the tables of options by which it is read. See
 * complete.h. */
#include "complete/complete.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/attach.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "checkpoint/checkpoint.h"
#include "cmd/help.h"
#include "launch/launch_options.h"
#include "options/options.h"
#include "options/shell_option.h"
#include "run/run.h"
#include "session/result.h"
#include "syntax/hints.h"
#include "term/terminal.h"

/* ---- Words ---- */

/* A word as the shell has it, without its quotes. quote: the one that is open at its end. */
static void unquote(buf *out, const char *word, char *quote)
{
    *quote = 0;
    for (; *word; word++) {
        if (*quote ? *word == *quote : *word == '\'' || *word == '"')
            *quote = *quote ? 0 : *word;
        else if (*word == '\\' && *quote != '\'' && word[1])
            buf_char(out, *++word);
        else
            buf_char(out, *word);
    }
}

/* The command line, and what is being completed. */
typedef struct request {
    char **words; /* unquoted */
    int n;        /* the last one is at the cursor */
    char quote;   /* that is open in it */
    const char *prefix; /* of the last word: --name= where the value stands in the same word */
    const char *store;  /* the state file, or NULL */
    bool files;
    buf out;
} request;

/* Offers a candidate if it begins as the last word does, and if the shell takes it as it is. */
static void offer(request *r, const char *word, size_t n, const char *about)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+./:,=@%";
    const char *typed = r->words[r->n - 1], *special = r->quote == '\'' ? "'" : "\"$`\\";
    own_buf all = {0};
    buf_add(&all, r->prefix);
    buf_put(&all, word, n);
    const char *text = buf_text(&all);
    bool fits = r->quote ? strcspn(text, special) == all.len : strspn(text, plain) == all.len;
    if (fits && visible_is_plain(text, all.len) && strncmp(text, typed, strlen(typed)) == 0) {
        buf_add(&r->out, text);
        buf_add(&r->out, about && *about ? "\t" : "");
        visible_line(&r->out, about, about ? strcspn(about, "\n") : 0);
        buf_char(&r->out, '\n');
    }
}

static void put_word(request *r, const char *word)
{
    offer(r, word, strlen(word), NULL);
}

static bool is_named(const shell_option *o, const char *name)
{
    return o && o->name && strcmp(o->name, name) == 0;
}

/* An option with a row for each of its values is offered once, without the help of one of them. */
static void offer_options(request *r, const shell_table *t)
{
    for (int i = 0; i < t->n; i++) {
        const shell_option *o = &t->rows[i];
        char letter[3] = {'-', o->letter}, name[64];
        bool again = o->name && i > 0 && is_named(&o[-1], o->name);
        bool more = o->name && i + 1 < t->n && is_named(&o[1], o->name);
        snprintf(name, sizeof name, "--%s", o->name ? o->name : "");
        const char *word = o->name ? name : letter;
        if (o->help && !again)
            offer(r, word, strlen(word), more ? NULL : o->help);
    }
}

/* ---- The language ---- */

static void add_key(kv *store, const char *name, bool integers)
{
    kv_key key = {.name = integers ? NULL : name};
    own_array *none = NULL;
    int64_t no_elements = 0;
    kv_err e = {0};
    if (integers && num_parse_int(name, strlen(name), &key.id, NULL) != strlen(name))
        return;
    if (kv_array_new(&none, KV_FLOAT32, 1, &no_elements, (kv_ctx){0}, &e) == KV_OK)
        kv_init(store, &key, 1, &none, NULL, &e);
}

/* The keys of a state file, from its header alone: whatever its size, and without waiting for who
 * has locked it. */
static void add_keys(session *s, const char *path)
{
    static const char sparse[] = "kvstore.rows.", own[] = "__key__/";
    own_checkpoint *file = NULL;
    kv *store = NULL;
    kv_err e = {0};
    if (!path || checkpoint_open(&file, path, NULL, &e) || session_store(s, &store, &e)) {
        return;
    }
    const char *type = checkpoint_metadata(file, "kvstore.key_type");
    bool integers = type && strcmp(type, "integer") == 0;
    for (int64_t i = 0; i < checkpoint_count(file); i++) {
        const char *name = checkpoint_at(file, i)->name;
        if (strncmp(name, own, sizeof own - 1) == 0)
            add_key(store, name + sizeof own - 1, integers);
        else if (strncmp(name, "__", 2) != 0)
            add_key(store, name, integers);
    }
    for (int64_t i = 0; i < checkpoint_metadata_count(file); i++) {
        const char *name = checkpoint_metadata_at(file, i)->name;
        if (strncmp(name, sparse, sizeof sparse - 1) == 0)
            add_key(store, name + sizeof sparse - 1, integers);
    }
}

/* Adds the arguments of a command at the begin of a statement, or the summary of a function. */
static void add_about(buf *about, const char *word, const buf *before)
{
    size_t n = before->len, length = strlen(word);
    const command *c = command_find(word, length);
    own_buf text = {0};
    while (n > 0 && strchr(" \t", before->data[n - 1]))
        n--;
    if (c && (n == 0 || strchr(";{\n", before->data[n - 1]))) {
        command_usage(&text, c);
        buf_add(about, buf_text(&text) + length + (text.len > length));
    } else if (length > 0 && word[length - 1] == '(') {
        buf_put(&text, word, length - 1);
        const function *f = function_find(buf_text(&text));
        buf_add(about, f ? f->help : "");
    }
}

/* Candidates of the prompt for a text, of which the last `typed` bytes are the word
 * of the shell. */
static void offer_language(request *r, const char *text, size_t typed)
{
    session s;
    line_words got = {0};
    size_t n = strlen(text), begin = n - typed;
    session_init(&s);
    s.out.quiet = true;
    add_keys(&s, r->store);
    complete_words(&s, text, n, &got);
    for (int64_t i = 0; i < got.n && got.start >= begin; i++) {
        own_buf before = {0}, about = {0};
        buf_put(&before, text + begin, got.start - begin);
        add_about(&about, got.words[i], &before);
        r->prefix = buf_text(&before);
        offer(r, got.words[i], strlen(got.words[i]), buf_text(&about));
    }
    line_words_release(&got);
    session_release(&s);
}

/* ---- Values of options ---- */

static int offer_type(void *arg, const kv_field *fields, int n, kv_err *e)
{
    (void)e;
    put_word(arg, field_text(fields, n, "name"));
    return KV_OK;
}

static void offer_value(request *r, const char *kind)
{
    const char *typed = r->words[r->n - 1];
    if (strcmp(kind, "FILE") == 0 || strcmp(kind, "DIR") == 0)
        r->files = true;
    else if (strcmp(kind, "CMDS") == 0)
        offer_language(r, typed, strlen(typed));
    else if (strcmp(kind, "TYPE") == 0)
        kv_describe(NULL, "types", offer_type, r, NULL);
    else if (strcmp(kind, "F") == 0)
        for (int f = 0; f <= SHOW_JSON; f++)
            put_word(r, show_format_name((show_format)f));
    else if (strcmp(kind, "NAME=VALUE") == 0)
        for (int i = 0; setting_name(i); i++) {
            own_buf name = {0};
            buf_printf(&name, "%s=", setting_name(i));
            put_word(r, buf_text(&name));
        }
    else if (strcmp(kind, "WHEN") == 0)
        for (int when = TERMINAL_AUTO; when <= TERMINAL_NEVER; when++)
            put_word(r, terminal_when_name((terminal_when)when));
    else if (strcmp(kind, "SHELL") == 0)
        for (const completion_script *c = completion_scripts; c->shell; c++)
            put_word(r, c->shell);
    else if (kind[0] >= 'a' && kind[0] <= 'z')
        for (size_t n; *kind; kind += n + (kind[n] == '|')) { /* sge and slurm of sge|slurm */
            n = strcspn(kind, "|");
            offer(r, kind, n, NULL);
        }
}

/* Offers the values of an option, each of which may have a row. */
static void offer_values(request *r, const shell_table *t, const shell_option *o)
{
    const shell_option *end = t->rows + t->n, *next = o;
    do {
        offer_value(r, next->value);
        next++;
    } while (o->name && next < end && is_named(next, o->name));
}

/* ---- The command line ---- */

/* The meaning of the words before the last one. */
typedef struct line_state {
    const shell_option *open; /* an option whose value comes next, or NULL */
    const char *store;
    bool words_only;   /* -- was there */
    int plain;         /* words that are no options, nor their values */
    bool runs; /* -c, -f or --verify was there: what is plain is no script, and no command */
    int ended;         /* index of the first plain word */
} line_state;

/* The option that a word names, and whether its value is in the word too: --store=FILE, -sFILE. */
static const shell_option *option_of(const shell_table *t, const char *word, bool *has_value)
{
    size_t n = strcspn(word, "=");
    const shell_option *o = NULL;
    *has_value = word[1] == '-' && word[n] == '=';
    if (word[1] == '-')
        return shell_option_find(t, word, n);
    for (const char *c = word + 1; *c && !*has_value; c++) { /* -qc: the last one counts */
        char letter[3] = {'-', *c};
        if (!(o = shell_option_find(t, letter, 2)))
            break;
        *has_value = o->value && c[1];
    }
    return o;
}

static bool is_option(const line_state *l, const char *word)
{
    return !l->words_only && word[0] == '-' && word[1];
}

/* Notes an option whose value is known. */
static void see_value(line_state *l, const shell_option *o, const char *text)
{
    if (is_named(o, "store"))
        l->store = text;
    l->runs |= o->letter == 'c' || o->letter == 'f' || is_named(o, "verify");
}

/* Reads words up to the last, or to the first plain one that is a script or a command. of_launch:
 * an option that its table lacks begins the words of the ranks. */
static void read_line(line_state *l, const request *r, int from, const shell_table *t,
                      bool of_launch)
{
    *l = (line_state){.ended = r->n - 1};
    for (int i = from; i < r->n - 1; i++) {
        const char *word = r->words[i];
        bool has_value = false;
        if (l->open) {
            see_value(l, l->open, word);
            l->open = NULL;
            continue;
        }
        if (strcmp(word, "--") == 0 && !l->words_only) {
            l->words_only = true;
            continue;
        }
        bool is_one = is_option(l, word);
        const shell_option *o = is_one ? option_of(t, word, &has_value) : NULL;
        if (o && has_value)
            see_value(l, o, word[1] == '-' ? strchr(word, '=') + 1 : word + 2);
        else if (o && o->value)
            l->open = o;
        if (is_one && (o || !of_launch))
            continue;
        l->ended = l->plain++ == 0 ? i : l->ended;
        if (is_one || !l->runs)
            return;
    }
}

/* The words from the first on are a script's, or those of a command of the language. */
static void complete_words_of(request *r, int first)
{
    own_buf text = {0};
    if (!command_find(r->words[first], strlen(r->words[first])) ||
        access(r->words[first], F_OK) == 0) {
        r->files = true;
        return;
    }
    for (int i = first; i < r->n; i++)
        buf_printf(&text, i > first ? " %s" : "%s", r->words[i]);
    offer_language(r, buf_text(&text), strlen(r->words[r->n - 1]));
    r->files = r->out.len == 0;
}

static void complete_line(request *r, int from, const shell_table *t)
{
    line_state l;
    bool has_value = false;
    const char *typed = r->words[r->n - 1], *equals = strchr(typed, '=');
    read_line(&l, r, from, t, false);
    r->store = l.store ? l.store : getenv("KVCTL_STORE");
    bool is_one = is_option(&l, typed);
    const shell_option *o = is_one && equals ? option_of(t, typed, &has_value) : NULL;
    if (l.plain > 0 && !l.runs) {
        complete_words_of(r, l.ended);
    } else if (l.open) {
        offer_values(r, t, l.open);
    } else if (o && o->value) {
        own_buf prefix = {0};
        buf_put(&prefix, typed, (size_t)(equals - typed) + 1);
        r->prefix = buf_text(&prefix);
        offer_values(r, t, o);
    } else if (is_one || (typed[0] == '-' && !l.words_only)) {
        offer_options(r, t);
    } else if (l.runs) {
        r->files = true;
    } else {
        for (const command *c = registry.commands; c->name; c++) {
            own_buf about = {0};
            command_summary(&about, c);
            offer(r, c->name, strlen(c->name), buf_text(&about));
        }
        r->files = true;
    }
}

/* The options of attach or jobs, and the jobs that run here. */
static void complete_job(request *r, const shell_table *table)
{
    line_state l;
    read_line(&l, r, 1, table, true);
    if (l.plain > 0 || r->words[r->n - 1][0] == '-' || l.open) {
        complete_line(r, 1, table);
        return;
    }
    own_jobs list = {.dir = -1};
    if (attach_jobs(&list, &(kv_err){0}) == KV_OK)
        for (int64_t i = 0; i < list.n; i++)
            put_word(r, list.items[i].name);
}

static void complete(request *r)
{
    line_state l;
    if (r->n > 1 && strcmp(r->words[0], "launch") == 0) {
        /* the options of launch, then those of kvctl in each rank */
        read_line(&l, r, 1, &launch_table, true);
        complete_line(r, l.plain > 0 ? l.ended : 1, l.plain > 0 ? &options_table : &launch_table);
        return;
    }
    if (r->n > 1 && strcmp(r->words[0], "attach") == 0) {
        complete_job(r, &attach_table);
        return;
    }
    if (r->n > 1 && strcmp(r->words[0], "jobs") == 0) {
        complete_job(r, &jobs_table);
        return;
    }
    for (int i = 0; r->n == 1 && i < PROCESS_WORDS_OF_USERS; i++)
        put_word(r, process_words[i]);
    complete_line(r, 0, &options_table);
}

/* ---- The calls of the shells ---- */

int complete_shell_words(int n, char **words)
{
    request r = {.prefix = "", .n = n > 0 ? n : 1};
    kv_err e = {0};
    own_arena texts = {0};
    r.words = arena_alloc(&texts, (size_t)r.n * sizeof *r.words, &e);
    for (int i = 0; i < r.n && !e.code; i++) {
        own_buf word = {0};
        unquote(&word, i < n ? words[i] : "", &r.quote);
        if (buf_check(&word, &e) == KV_OK)
            r.words[i] = arena_text(&texts, buf_text(&word), word.len, &e);
    }
    if (!e.code) {
        complete(&r);
        buf_check(&r.out, &e);
    }
    if (!e.code)
        printf("%s\n%s", r.files ? "files" : "words", buf_text(&r.out));
    buf_release(&r.out);
    return e.code ? EXIT_FAILED : EXIT_DONE;
}
