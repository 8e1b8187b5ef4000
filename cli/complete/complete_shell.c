/* What may stand on kvctl's command line. See complete_shell.h.
 *
 * Which options there are, which take a value and of what kind is read from the texts that -h and
 * `launch --help` show, so that nothing about an option is written down twice.
 */
#include "complete/complete_shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "complete/complete.h"
#include "io/safetensors.h"
#include "options/completion_script.h"
#include "options/options.h"
#include "syntax/function.h"
#include "out/report.h"
#include "run/setting.h"
#include "session/show.h"
#include "term/exit_code.h"
#include "session/registry.h"
#include "launch/launch_job.h"

/* ---- Options, from their help ---- */

/* One line of it: `  -s, --store FILE     keep the store in FILE`. Parts of a text, not ended by a
 * NUL; n is 0 for what is not there. */
typedef struct part {
    const char *at;
    size_t n;
} part;

typedef struct option_line {
    part letter, name; /* with their dashes */
    part value, help;
} option_line;

static part word_at(const char *text)
{
    return (part){text, strcspn(text, " ,\n")};
}

static bool has_small(part p)
{
    return strcspn(p.at, "abcdefghijklmnopqrstuvwxyz") < p.n;
}

/* Reads a line of help; false when it is about no option. */
static bool read_option(option_line *out, const char *line)
{
    *out = (option_line){0};
    if (strncmp(line, "  -", 3) != 0)
        return false;
    const char *c = line + 2;
    if (c[1] != '-') {
        out->letter = word_at(c);
        c += out->letter.n;
        c += strncmp(c, ", --", 4) == 0 ? 2 : 0;
    }
    if (strncmp(c, "--", 2) == 0) {
        out->name = word_at(c);
        c += out->name.n;
    }
    if (c[0] == ' ' && c[1] != ' ') {
        out->value = word_at(c + 1);
        /* what has small letters is the help, unless it is a choice: then that has a column */
        const char *behind = out->value.at + out->value.n;
        bool is_value = !has_small(out->value) || strncmp(behind, "  ", 2) == 0 ||
                        memchr(out->value.at, '|', out->value.n);
        if (is_value)
            c += 1 + out->value.n;
        else
            out->value.n = 0;
    }
    c += strspn(c, " ");
    out->help = (part){c, strcspn(c, "\n")};
    return true;
}

static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return *line ? line + 1 : line;
}

static bool is_part(part p, const char *word, size_t n)
{
    return p.n > 0 && p.n == n && memcmp(p.at, word, n) == 0;
}

/* The option that a word names, and whether its value is in the word too: --store=FILE, -sFILE. */
static bool find_option(option_line *out, const char *help, const char *word, bool *has_value)
{
    const char *equals = strchr(word, '=');
    bool is_long = word[0] == '-' && word[1] == '-';
    size_t n = is_long && equals ? (size_t)(equals - word) : strlen(word);
    for (const char *c = word + 1; !is_long && *c; c++) { /* -qc: the last one counts */
        char letter[2] = {'-', *c};
        bool found = false;
        for (const char *line = help; *line && !found; line = next_line(line))
            found = read_option(out, line) && is_part(out->letter, letter, 2);
        *has_value = found && c[1] && out->value.n > 0;
        if (!found || *has_value || !c[1])
            return found;
    }
    *has_value = is_long && equals;
    for (const char *line = help; is_long && *line; line = next_line(line))
        if (read_option(out, line) && is_part(out->name, word, n))
            return true;
    return false;
}

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
    bool files;
    buf out;
} request;

/* Offers a candidate if it begins as the last word does, and if the shell takes it as it is. */
static void offer(request *r, const char *prefix, const char *word, size_t n, part about)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+./:,=@%";
    const char *typed = r->words[r->n - 1], *special = r->quote == '\'' ? "'" : "\"$`\\";
    buf all = {0};
    buf_add(&all, prefix);
    buf_put(&all, word, n);
    const char *text = buf_text(&all);
    bool fits = r->quote ? strcspn(text, special) == all.len : strspn(text, plain) == all.len;
    if (fits && !strpbrk(text, "\t\n") && strncmp(text, typed, strlen(typed)) == 0) {
        buf_add(&r->out, text);
        buf_add(&r->out, about.n > 0 ? "\t" : "");
        buf_put(&r->out, about.at, about.n);
        buf_char(&r->out, '\n');
    }
    buf_release(&all);
}

static void offer_word(request *r, const char *prefix, const char *word)
{
    offer(r, prefix, word, strlen(word), (part){0});
}

/* An option with a line for each of its values is offered once, without the help of one of them. */
static void offer_options(request *r, const char *help)
{
    option_line o, next;
    part last = {0};
    for (const char *line = help; *line; line = next_line(line)) {
        if (!read_option(&o, line))
            continue;
        part name = o.name.n > 0 ? o.name : o.letter;
        bool more = read_option(&next, next_line(line)) && is_part(next.name, name.at, name.n);
        if (!is_part(last, name.at, name.n))
            offer(r, "", name.at, name.n, more ? (part){0} : o.help);
        last = name;
    }
}

/* ---- The language ---- */

static void add_key(kv *store, const char *name, bool integers)
{
    kv_key key = {.name = integers ? NULL : name};
    kv_array *none = NULL;
    int64_t no_elements = 0;
    kv_err e = {0};
    if (integers && num_parse_int(name, strlen(name), &key.id, NULL) != strlen(name))
        return;
    if (kv_array_new(&none, KV_FLOAT32, 1, &no_elements, (kv_ctx){0}, &e) == KV_OK)
        kv_init(store, &key, 1, &none, NULL, &e);
    kv_array_unref(none);
}

/* The keys of a state file, from its header alone: whatever its size, and without waiting for who
 * has locked it. */
static void add_keys(session *s, const char *path)
{
    static const char sparse[] = "kvstore.rows.", own[] = "__key__/";
    safetensors *file = NULL;
    kv *store = NULL;
    kv_err e = {0};
    if (!path || safetensors_open(&file, path, &e) || session_store(s, &store, &e)) {
        safetensors_close(file);
        return;
    }
    const char *type = safetensors_metadata(file, "kvstore.key_type");
    bool integers = type && strcmp(type, "integer") == 0;
    for (int64_t i = 0; i < safetensors_count(file); i++) {
        const char *name = safetensors_at(file, i)->name;
        if (strncmp(name, own, sizeof own - 1) == 0)
            add_key(store, name + sizeof own - 1, integers);
        else if (strncmp(name, "__", 2) != 0)
            add_key(store, name, integers);
    }
    for (int64_t i = 0; i < safetensors_metadata_count(file); i++) {
        const char *name = safetensors_metadata_at(file, i)->name;
        if (strncmp(name, sparse, sizeof sparse - 1) == 0)
            add_key(store, name + sizeof sparse - 1, integers);
    }
    safetensors_close(file);
}

/* What a command at the begin of a statement takes, and what a function does. */
static void add_about(buf *about, const char *word, const buf *before)
{
    size_t n = before->len, length = strlen(word);
    const command *c = command_find(word, length);
    buf text = {0};
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
    buf_release(&text);
}

/* Candidates of the prompt for a text, of which the last `typed` bytes are the word
 * of the shell. */
static void offer_language(request *r, const char *store, const char *text, size_t typed)
{
    session s;
    line_words got = {0};
    size_t n = strlen(text);
    session_init(&s);
    s.quiet = true;
    add_keys(&s, store);
    complete_words(&s, text, n, &got);
    size_t begin = n - typed;
    for (int64_t i = 0; i < got.n && got.start >= begin; i++) {
        buf before = {0}, about = {0};
        buf_put(&before, text + begin, got.start - begin);
        add_about(&about, got.words[i], &before);
        offer(r, buf_text(&before), got.words[i], strlen(got.words[i]),
              (part){buf_text(&about), about.len});
        buf_release(&before);
        buf_release(&about);
    }
    line_words_release(&got);
    session_release(&s);
}

/* ---- Values of options ---- */

static void offer_formats(request *r, const char *prefix)
{
    for (int f = 0; f <= SHOW_JSON; f++)
        offer_word(r, prefix, show_format_name((show_format)f));
}

static void offer_settings(request *r, const char *prefix)
{
    for (int i = 0; setting_name(i); i++) {
        buf name = {0};
        buf_printf(&name, "%s=", setting_name(i));
        offer_word(r, prefix, buf_text(&name));
        buf_release(&name);
    }
}

typedef struct type_offer {
    request *r;
    const char *prefix;
} type_offer;

static int offer_type(void *arg, const kv_field *fields, int n, kv_err *e)
{
    type_offer *to = arg;
    (void)e;
    for (int i = 0; i < n; i++)
        if (strcmp(fields[i].name, "name") == 0)
            offer_word(to->r, to->prefix, fields[i].text);
    return KV_OK;
}

static void offer_types(request *r, const char *prefix)
{
    type_offer to = {r, prefix};
    kv_describe(NULL, "types", offer_type, &to, NULL);
}

static void offer_whens(request *r, const char *prefix)
{
    for (int when = TERMINAL_AUTO; when <= TERMINAL_NEVER; when++)
        offer_word(r, prefix, terminal_when_name((terminal_when)when));
}

static void offer_shells(request *r, const char *prefix)
{
    for (const completion_script *c = completion_scripts; c->shell; c++)
        offer_word(r, prefix, c->shell);
}

/* sge and slurm of sge|slurm */
static void offer_choices(request *r, const char *prefix, part choices)
{
    const char *c = choices.at, *end = choices.at + choices.n;
    while (c < end) {
        size_t n = strcspn(c, "|");
        n = n < (size_t)(end - c) ? n : (size_t)(end - c);
        offer(r, prefix, c, n, (part){0});
        c += n + 1;
    }
}

/* prefix: --name= when the value stands in the same word. */
static void offer_value(request *r, part kind, const char *prefix, const char *store)
{
    const char *typed = r->words[r->n - 1];
    if (is_part(kind, "FILE", 4))
        r->files = true;
    else if (is_part(kind, "CMDS", 4))
        offer_language(r, store, typed, strlen(typed));
    else if (is_part(kind, "TYPE", 4))
        offer_types(r, prefix);
    else if (is_part(kind, "F", 1))
        offer_formats(r, prefix);
    else if (is_part(kind, "NAME=VALUE", 10))
        offer_settings(r, prefix);
    else if (is_part(kind, "WHEN", 4))
        offer_whens(r, prefix);
    else if (is_part(kind, "SHELL", 5))
        offer_shells(r, prefix);
    else if (is_part(kind, "DIR", 3))
        r->files = true;
    else if (has_small(kind))
        offer_choices(r, prefix, kind);
}

/* What an option takes, of which there may be a line for each. */
static void offer_values(request *r, const char *help, option_line o, const char *prefix,
                         const char *store)
{
    option_line one;
    if (o.name.n == 0) {
        offer_value(r, o.value, prefix, store);
        return;
    }
    for (const char *line = help; *line; line = next_line(line))
        if (read_option(&one, line) && is_part(one.name, o.name.at, o.name.n))
            offer_value(r, one.value, prefix, store);
}

/* ---- The command line ---- */

/* What the words before the last one are. */
typedef struct line_state {
    option_line open;  /* an option whose value comes next */
    const char *store;
    bool words_only;   /* -- was there */
    int plain;         /* words that are no options, nor their values */
    bool runs; /* -c, -f or --verify was there: what is plain is no script, and no command */
    int ended;         /* index of the first plain word */
} line_state;

static bool runs_something(const option_line *o)
{
    return is_part(o->letter, "-c", 2) || is_part(o->letter, "-f", 2) ||
           is_part(o->name, "--verify", 8);
}

static bool is_option(const line_state *l, const char *word)
{
    return !l->words_only && word[0] == '-' && word[1];
}

/* Reads words up to the last, or to the first plain one that is a script or a command. of_launch:
 * an option that help does not have begins the words of the ranks. */
static void read_line(line_state *l, const request *r, int from, const char *help, bool of_launch)
{
    option_line o = {0};
    bool has_value;
    *l = (line_state){.ended = r->n - 1};
    for (int i = from; i < r->n - 1; i++) {
        const char *word = r->words[i];
        if (l->open.value.n > 0) {
            if (is_part(l->open.name, "--store", 7))
                l->store = word;
            l->runs |= runs_something(&l->open);
            l->open = (option_line){0};
        } else if (strcmp(word, "--") == 0 && !l->words_only) {
            l->words_only = true;
        } else if (!is_option(l, word)) {
            l->ended = l->plain++ == 0 ? i : l->ended;
            if (!l->runs)
                return;
        } else if (find_option(&o, help, word, &has_value)) {
            if (!has_value && o.value.n > 0)
                l->open = o;
            else if (is_part(o.name, "--store", 7))
                l->store = word + (word[1] == '-' ? 8 : 2);
            l->runs |= has_value && runs_something(&o);
        } else if (of_launch) { /* an option of the ranks */
            l->ended = i;
            l->plain++;
            return;
        }
    }
}

/* The words from the first on are a script's, or those of a command of the language. */
static void complete_words_of(request *r, int first, const char *store)
{
    buf text = {0};
    if (!command_find(r->words[first], strlen(r->words[first])) ||
        access(r->words[first], F_OK) == 0) {
        r->files = true;
        return;
    }
    for (int i = first; i < r->n; i++)
        buf_printf(&text, i > first ? " %s" : "%s", r->words[i]);
    offer_language(r, store, buf_text(&text), strlen(r->words[r->n - 1]));
    r->files = r->out.len == 0;
    buf_release(&text);
}

/* The first word of a line: a script, or a command. */
static void offer_commands(request *r)
{
    for (const command *c = registry.commands; c->name; c++)
        offer(r, "", c->name, strlen(c->name), (part){c->summary, strlen(c->summary)});
    r->files = true;
}

static void complete_line(request *r, int from, const char *help)
{
    line_state l;
    option_line o;
    bool has_value = false;
    const char *typed = r->words[r->n - 1], *equals = strchr(typed, '=');
    read_line(&l, r, from, help, false);
    const char *store = l.store ? l.store : getenv("KVCTL_STORE");
    if (l.plain > 0 && !l.runs) {
        complete_words_of(r, l.ended, store);
    } else if (l.open.value.n > 0) {
        offer_values(r, help, l.open, "", store);
    } else if (is_option(&l, typed) && equals && find_option(&o, help, typed, &has_value)) {
        buf prefix = {0};
        buf_put(&prefix, typed, (size_t)(equals - typed) + 1);
        offer_values(r, help, o, buf_text(&prefix), store);
        buf_release(&prefix);
    } else if (is_option(&l, typed) || (typed[0] == '-' && !l.words_only)) {
        offer_options(r, help);
    } else if (l.runs) {
        r->files = true;
    } else {
        offer_commands(r);
    }
}

/* The options of launch, then those of kvctl in each rank. */
static void complete_launch(request *r, const char *help)
{
    buf own = {0};
    line_state l;
    launch_help(&own);
    read_line(&l, r, 1, buf_text(&own), true);
    if (l.plain > 0)
        complete_line(r, l.ended, help);
    else
        complete_line(r, 1, buf_text(&own));
    buf_release(&own);
}

static void complete(request *r)
{
    buf help = {0};
    options_list(&help);
    if (r->n > 1 && strcmp(r->words[0], "launch") == 0) {
        complete_launch(r, buf_text(&help));
    } else {
        if (r->n == 1)
            offer_word(r, "", "launch");
        complete_line(r, 0, buf_text(&help));
    }
    buf_release(&help);
}

/* ---- What the shells call ---- */

static int print_words(int n, char **words, kv_err *e)
{
    static char empty[] = "";
    request r = {0};
    buf *texts = mem_zalloc(n + 1, sizeof *texts, e);
    r.words = mem_zalloc(n + 1, sizeof *r.words, e);
    r.n = n > 0 ? n : 1;
    for (int i = 0; i < n && !e->code; i++) {
        unquote(&texts[i], words[i], &r.quote);
        buf_check(&texts[i], e);
    }
    for (int i = 0; i < r.n && !e->code; i++)
        r.words[i] = texts[i].data ? texts[i].data : empty;
    if (!e->code) {
        complete(&r);
        buf_check(&r.out, e);
    }
    if (!e->code)
        printf("%s\n%s", r.files ? "files" : "words", buf_text(&r.out));
    for (int i = 0; texts && i < n; i++)
        buf_release(&texts[i]);
    mem_free(texts);
    mem_free(r.words);
    buf_release(&r.out);
    return e->code;
}

int complete_shell_words(int n, char **words)
{
    kv_err e = {0};
    return print_words(n, words, &e) ? EXIT_FAILED : EXIT_DONE;
}
