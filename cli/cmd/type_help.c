/* Help on store types. The library says which there are, and whether they work here; the table says
 * what those of the library do. */
#include "cmd/help.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "kvstore.h"
#include "session/result.h"

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
    kv_err e = {0};
    buf_add(out, "Types of stores (create TYPE; help TYPE says more):\n");
    if (kv_describe(NULL, "types", list_type, out, &e))
        out->failed = true;
}

typedef struct wanted {
    buf *out;
    const char *name;
    bool found;
} wanted;

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (; *words; words += strcspn(words, " "), words += *words == ' ')
        if (strncasecmp(words, word, n) == 0 && (words[n] == ' ' || !words[n]))
            return true;
    return false;
}

/* Lines of at most 78 columns, all but the first indented. */
static void put_line(buf *out, const char *head, const char *text)
{
    size_t column = 12;
    buf_printf(out, "  %-10s", head);
    while (*text) {
        size_t n = strcspn(text, " ");
        if (column > 12 && column + 1 + n > 78) {
            buf_printf(out, "\n%-12s", "");
            column = 12;
        }
        if (column > 12) {
            buf_char(out, ' ');
            column++;
        }
        buf_put(out, text, n);
        column += n;
        text += n + (text[n] == ' ');
    }
    buf_char(out, '\n');
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
    kv_err e = {0};
    if (kv_describe(NULL, "types", show_type, &w, &e))
        out->failed = true;
    return w.found;
}
