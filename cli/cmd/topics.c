/* The topics of help beside commands and functions: sections of the page on the language, merges
 * and optimizers, whose rules are shown whole, and store types. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/suggest.h"
#include "cmd/help.h"
#include "kvstore.h"
#include "lang/lex.h"
#include "lang/parse.h"
#include "merge/merge_texts.h"
#include "session/result.h"
#include "syntax/rules.h"
#include "vm/rule.h"

/* ---- Lines of lists and usages ---- */

enum { WIDTH = 80 /* of a terminal */ };

/* Words from a column on; at: the column that the line has reached. */
static void lines_from(buf *out, const char *text, int column, int at)
{
    while (*text) {
        size_t n = strcspn(text, " ");
        if (at > column && at + 1 + (int)n > WIDTH) {
            buf_char(out, '\n');
            at = 0;
        }
        int blanks = at < column ? column - at : 1;
        buf_printf(out, "%*s%.*s", blanks, "", (int)n, text);
        at += blanks + (int)n;
        text += n;
        text += strspn(text, " ");
    }
    if (at > 0)
        buf_char(out, '\n');
}

void help_lines(buf *out, const char *text, int at)
{
    lines_from(out, text, HELP_COLUMN, at);
}

void help_usage(buf *out, const char *usage)
{
    size_t at = 0;
    while (*usage) {
        /* The length of an argument, of an option with its value, or of what brackets enclose. */
        size_t n = 0;
        for (int depth = 0; usage[n]; n++) {
            depth += (usage[n] == '[') - (usage[n] == ']');
            if (usage[n] == ' ' && depth == 0 &&
                (usage[n + 1] == '[' || strncmp(usage + n + 1, "--", 2) == 0))
                break;
        }
        if (at > 0 && at + 1 + n > WIDTH) {
            buf_add(out, "\n   ");
            at = 3;
        }
        buf_printf(out, at > 0 ? " %.*s" : "%.*s", (int)n, usage);
        at += (at > 0) + n;
        usage += n;
        usage += strspn(usage, " ");
    }
    buf_char(out, '\n');
}

/* ---- The language ---- */

/* Words and signs joined by blanks, and the heading of their section. */
static const struct section {
    const char *words, *heading;
} sections[] = {
    {"$ literal computed words blanks", "Literal and computed"},
    {"values numbers", "Values"},
    {".. ranges", "Ranges"},
    {"lists arrays tuples names", "Lists and arrays"},
    {"slices index [] [ ] : ...", "Slices"},
    {"dicts {}", "Dicts"},
    {"texts strings fstrings", "Texts"},
    {"files @ # csv npy safetensors npz gguf shards", "Files"},
    {"redirects -> --out > >> | ! -", "Where results go"},
    {"statements if elif else for in while repeat break continue loops blocks { }", "Statements"},
    {"functions def return", "Functions"},
    {"stores", "Stores and types"},
    {"key patterns", "Keys"},
    {"updater updaters", "Rules"},
    {"python class try with lambda", "What Python has and this has not"},
    {"idioms", "Ten idioms"},
};

/* Returns true if the word, or its plural, is among the words. */
static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (; *words; words += strcspn(words, " "), words += *words == ' ') {
        size_t length = strcspn(words, " ");
        if (n > 0 && strncasecmp(words, word, n) == 0 &&
            (length == n || (length == n + 1 && words[n] == 's')))
            return true;
    }
    return false;
}

static const struct section *find_section(const char *word)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (has_word(sections[i].words, word))
            return &sections[i];
    return NULL;
}

bool language_section(buf *out, const char *word)
{
    const struct section *section = find_section(word);
    buf heading = {0};
    if (!section)
        return false;
    buf_printf(&heading, "\n## %s\n", section->heading);
    const char *at = heading.failed ? NULL : strstr(language_text, buf_text(&heading));
    const char *end = at ? strstr(at + heading.len, "\n## ") : NULL;
    out->failed |= heading.failed;
    buf_release(&heading);
    if (at) {
        at += strlen("\n## ");
        buf_put(out, at, end ? (size_t)(end - at) : strlen(at));
        buf_add(out, end ? "\nhelp language: the whole page.\n" : "");
    }
    return true;
}

void language_words(void (*offer)(void *arg, const char *word), void *arg)
{
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        char words[100], *rest = words, *word;
        snprintf(words, sizeof words, "%s", sections[i].words);
        while ((word = strsep(&rest, " ")))
            if (lex_is_letter(*word))
                offer(arg, word);
    }
}

int language_check(const char *word, kv_err *e)
{
    if (find_section(word))
        return KV_OK;
    kv_err_set(e, KV_E_NAME, "the page on the language has no section `%.64s`", word);
    return kv_err_hint(e, "`help language` shows all of it"), KV_E_NAME;
}

/* ---- Merges ---- */

/* The first sentence of the comment at the top, in one line: a point before a blank and a letter
 * ends it, so that "et al. 2022" does not. */
static void put_title(buf *out, const char *text)
{
    char before = '\0';
    while (*text == '#') {
        text += strspn(text, "# ");
        if (before == '.' && !lex_is_digit(*text))
            return;
        for (; *text && *text != '\n'; before = *text++) {
            if (before == '.' && *text == ' ' && !lex_is_digit(text[1]))
                return;
            buf_char(out, *text);
        }
        text += *text == '\n';
        buf_char(out, ' ');
    }
}

/* --base CKPT, --density 0.2 in 0 .. 1, --scale 1.0 */
static void put_parameters(buf *out, const char *text)
{
    rule_ast *rule;
    own_arena nodes = {0};
    source src = {.name = "", .text = text, .len = (uint32_t)strlen(text), .line = 1, .col = 1};
    bool read = parse_merge(&rule, &src, &nodes, &(kv_err){0}) == KV_OK;
    out->failed |= !read; /* for want of memory: these texts are merges */
    if (read && rule_reader(rule, "base"))
        buf_add(out, "--base CKPT");
    for (int i = 0; read && i < rule->nparams; i++) {
        const rule_param *p = &rule->params[i];
        size_t n = strlen(p->name);
        const char *from = text + p->pos + n;
        from += strspn(from, " =");
        buf_add(out, out->len > 0 ? ", --" : "--");
        name_put(out, p->name, n, '-');
        buf_char(out, ' ');
        buf_put(out, from, p->end - (size_t)(from - text));
    }
}

void merges_list(buf *out)
{
    for (const merge_text *t = merge_texts; t->name; t++) {
        own_buf names = {0}, title = {0}, parameters = {0};
        buf_printf(&names, "  %s", t->name);
        put_title(&title, t->text);
        put_parameters(&parameters, t->text);
        for (; t[1].name && strcmp(t[1].text, t->text) == 0; t++)
            buf_printf(&names, ", %s", t[1].name);
        buf_add(out, buf_text(&names));
        help_lines(out, buf_text(&title), (int)names.len);
        help_lines(out, buf_text(&parameters), 0);
        out->failed |= names.failed || title.failed || parameters.failed;
    }
}

int merges_check(const char *word, kv_err *e)
{
    if (merge_text_find(word))
        return KV_OK;
    kv_err_set(e, KV_E_NAME, "there is no merge `%.64s`", word);
    merge_text_suggest(word, e);
    return kv_err_hint(e, "`help merge` lists them"), KV_E_NAME;
}

bool merges_show(buf *out, const char *name)
{
    const merge_text *t = merge_text_find(name);
    own_buf parameters = {0};
    if (!t)
        return false;
    put_parameters(&parameters, t->text);
    buf_printf(out, "# merge %s CKPT... --out OUT", name); /* a comment: the text stays a rule */
    buf_printf(out, parameters.len ? "; %s\n" : "\n", buf_text(&parameters));
    buf_add(out, t->text);
    out->failed |= parameters.failed;
    return true;
}

/* ---- Optimizers ---- */

static const char schedules[] =
    "Schedules (--lr-scheduler), with their defaults; n is the largest count of a key:\n"
    "  factor(step=N, factor=1, stop_factor_lr=1e-8)  times factor behind every N updates\n"
    "  multifactor(step=[N, M], factor=1)             times factor behind each of these\n"
    "  poly(max_update=N, pwr=2, final_lr=0)          falls as a power until n = N\n"
    "  cosine(max_update=N, final_lr=0)               falls as a half cosine until n = N\n"
    "  each also: base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode=\"linear\"\n";

void optimizer_list(buf *out)
{
    const char *name, *text, *other, *next;
    own_buf names = {0};
    for (int i = 0; (text = kv_optimizer_text(i, &name)); i++) {
        buf_clear(&names);
        buf_add(&names, name);
        /* an alias has the same text, and stands behind the first name */
        while ((next = kv_optimizer_text(i + 1, &other)) && strcmp(next, text) == 0) {
            buf_printf(&names, ", %s", other);
            i++;
        }
        buf_printf(out, "  %-14s ", buf_text(&names));
        text += strspn(text, "# ");
        buf_put(out, text, strcspn(text, "\n"));
        buf_char(out, '\n');
    }
    out->failed |= names.failed;
}

int optimizer_check(const char *word, kv_err *e)
{
    const char *name;
    suggest near = {.word = word, .by_first_letters = true};
    if (optimizer_text(word))
        return KV_OK;
    for (int i = 0; kv_optimizer_text(i, &name); i++)
        suggest_add(&near, name);
    kv_err_set(e, KV_E_NAME, "there is no optimizer `%.64s`", word);
    suggest_done(&near, e);
    return kv_err_hint(e, "`help optimizer` lists them"), KV_E_NAME;
}

bool optimizer_show(buf *out, const char *name)
{
    const char *text = optimizer_text(name);
    if (!text)
        return false;
    buf_add(out, text);
    buf_add(out,
            "Every optimizer takes these too; where the rule lists one, its default counts:\n");
    for (const optimizer_param *p = optimizer_params; p->name; p++) {
        own_buf option = {0};
        buf_add(&option, "--");
        name_put(&option, p->name, strlen(p->name), '-');
        buf_printf(out, "  %-20s %-15s %s\n", buf_text(&option), p->value, p->about);
        out->failed |= option.failed;
    }
    buf_add(out, schedules);
    return true;
}

/* ---- Store types ---- */

/* Help on store types. The library says which there are, and whether they work here; the table says
 * what those of the library do. */

#define SERVERS "on the servers: the workers themselves, or the ranks that launch -s N adds"
#define JOB "a job: kvctl launch -n WORKERS, or mpirun; the MPI plugin"

/* Legend: name, what it is for, where keys live, what a push and a pull do, what it does not have
 * or has beside others, what it needs. */
static const struct type_text {
    const char *name, *summary, *keys, *push, *pull, *has, *needs;
} texts[] = {
    {"local", "one process; sums and updates on the CPU", "in memory of the CPU",
     "adds up its values and hands the sum to the updater; without one the sum is the new value",
     "the newest value, behind all earlier pushes",
     "everything but gradient compression: rules, optimizers, states, row_sparse, transactions, "
     "files",
     "nothing"},
    {"device", "one process; sums and updates on GPUs", "on a device of the values",
     "as in local; values of several GPUs are added up on one of them", "as in local",
     "what local has, and gradient compression between its devices",
     "nothing; virtual GPUs stand for those that are not there"},
    {"nccl", "device with the sums of NCCL", "on the GPUs", "as in device", "as in device",
     "rules, optimizers, states, transactions; no row_sparse arrays, no compression",
     "GPUs, NCCL and the plugin for GPUs"},
    {"teststore", "the smallest type: pushpull and broadcast in one process", "nowhere",
     "there is none; pushpull adds up its values and puts the sum into its outs",
     "there is none; broadcast copies a value into its outs", "nothing else", "nothing"},
    {"dist_sync", "several machines in rounds; as local with the batches of all workers", SERVERS,
     "adds its sum to the round; when every worker has pushed, the updater gets the sum of all",
     "waits for the round of the own last push",
     "rules, optimizers, states, row_sparse, gradient compression; no transactions", JOB},
    {"dist_async", "several machines without rounds: every push is an update", SERVERS,
     "goes to the updater by itself, one at a time for each key; it needs an optimizer or a rule",
     "the value of the moment; nobody waits for others, unless --staleness N bounds how far ahead "
     "a worker gets",
     "what dist_sync has", JOB},
    {"dist_device_sync", "dist_sync with the values of a machine added up on its GPUs", SERVERS,
     "as in dist_sync", "as in dist_sync", "what dist_sync has", JOB},
    {"dist_device_async", "dist_async with the values of a machine added up on its GPUs", SERVERS,
     "as in dist_async", "as in dist_async", "what dist_sync has", JOB},
    {"horovod", "sums over all workers that nobody keeps", "nowhere",
     "there is none; pushpull puts the sum over all workers into its outs",
     "there is none; broadcast gives every worker the value of rank 0",
     "nothing else: the optimizer is the script's", JOB},
    {"byteps", "the same as horovod, by the name that scripts of BytePS use", "nowhere",
     "there is none; pushpull puts the sum over all workers into its outs",
     "there is none; broadcast gives every worker the value of rank 0",
     "nothing else: the optimizer is the script's; arrays on CPUs work too", JOB},
};

static const struct type_text *find_text(const char *name)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i].name, name) == 0)
            return &texts[i];
    return NULL;
}

static int list_type(void *arg, const kv_field *fields, int n, kv_err *e)
{
    const char *name = field_text(fields, n, "name"), *reason = field_text(fields, n, "reason");
    const struct type_text *t = find_text(name);
    (void)e;
    buf_printf(arg, "  %-17s %s\n", name,
               t ? t->summary : "a type of a plugin, or another name for one: register");
    if (*reason)
        buf_printf(arg, "  %-17s not available: %s\n", "", reason);
    return KV_OK;
}

void type_list(buf *out)
{
    buf_add(out, "Types of stores (create TYPE; help TYPE says more):\n");
    if (kv_describe(NULL, "types", list_type, out, &(kv_err){0}))
        out->failed = true;
}

typedef struct wanted {
    buf *out;
    const char *name;
    bool found;
} wanted;

static void put_line(buf *out, const char *head, const char *text)
{
    buf_printf(out, "  %s", head);
    lines_from(out, text, 12, 2 + (int)strlen(head));
}

static int show_type(void *arg, const kv_field *fields, int n, kv_err *e)
{
    wanted *w = arg;
    const char *name = field_text(fields, n, "name"), *reason = field_text(fields, n, "reason"),
               *aliases = field_text(fields, n, "aliases");
    const struct type_text *t = find_text(name);
    (void)e;
    if (w->found || (strcasecmp(name, w->name) != 0 && !has_word(aliases, w->name)))
        return KV_OK;
    w->found = true;
    buf_printf(w->out, "create %s", name);
    buf_add(w->out, *aliases ? "   (also " : "");
    for (const char *c = aliases; *c; c++)
        buf_add(w->out, *c == ' ' ? ", " : (char[]){*c, '\0'});
    buf_add(w->out, *aliases ? ")\n\n" : "\n\n");
    if (t) {
        buf_printf(w->out, "  %s\n", t->summary);
        put_line(w->out, "keys", t->keys);
        put_line(w->out, "push", t->push);
        put_line(w->out, "pull", t->pull);
        put_line(w->out, "has", t->has);
        put_line(w->out, "needs", t->needs);
    } else {
        buf_add(w->out, "  a type of a plugin, or another name for one: register\n");
    }
    put_line(w->out, "here", *reason ? reason : "available");
    return KV_OK;
}

bool type_show(buf *out, const char *name)
{
    wanted w = {.out = out, .name = name};
    if (kv_describe(NULL, "types", show_type, &w, &(kv_err){0}))
        out->failed = true;
    return w.found;
}
