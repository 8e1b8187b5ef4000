/* The words of a command that launch runs, the same as a shell reads them, the variables that go
 * with it, and the hosts on which it starts ranks. */
#include "launch/launch_command.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/yaml.h"

/* ---- Words ---- */

void launch_add(launch_command *c, const char *fmt, ...)
{
    va_list args;
    char *word = NULL;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n >= 0 && (word = mem_alloc(n + 1, 1, NULL))) {
        va_start(args, fmt);
        vsnprintf(word, (size_t)n + 1, fmt, args);
        va_end(args);
    }
    if (c->failed || !word || mem_grow(&c->words, &c->cap, c->n + 2, sizeof *c->words, NULL)) {
        mem_free(word);
        c->failed = true;
        return;
    }
    c->words[c->n++] = word;
    c->words[c->n] = NULL;
}

static void launch_add_words(launch_command *c, char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        launch_add(c, "%s", words[i]);
}

static void launch_quote(buf *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+.,=/:@";
    if (*word && word[strspn(word, plain)] == '\0') {
        buf_add(out, word);
        return;
    }
    buf_char(out, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            buf_add(out, "'\\''");
        else
            buf_char(out, *word);
    }
    buf_char(out, '\'');
}

/* ---- Templates ---- */

/* The value of the first hole of a text up to its end; *behind: the text behind the hole. */
static const char *value_of(const char *text, const launch_hole *holes, const char **behind)
{
    const char *name = strchr(text, '{') + 1;
    name += *name == '\'';
    size_t n = strcspn(name, "}");
    *behind = name + n + 1;
    while (holes->name && (strlen(holes->name) != n || memcmp(holes->name, name, n) != 0))
        holes++;
    bool known = kv_assert(holes->name, "a template has a hole that nobody fills: %s", text);
    return known ? holes->value : NULL;
}

/* blank: what stands for a blank of the template. */
static void fill(buf *out, const char *text, const launch_hole *holes, char blank)
{
    const char *behind;
    while (*text) {
        if (*text == '{') {
            const char *value = value_of(text, holes, &behind);
            if (text[1] == '\'')
                launch_quote(out, value);
            else
                buf_add(out, value);
            text = behind;
        } else if (*text == '[' && !value_of(text, holes, &behind)) {
            text = strchr(text, ']') + 1;
        } else {
            if (*text != '[' && *text != ']')
                buf_char(out, *text == ' ' ? blank : *text);
            text++;
        }
    }
}

void launch_fill(buf *out, const char *text, const launch_hole *holes)
{
    fill(out, text, holes, ' ');
}

void launch_add_filled(launch_command *c, const char *text, const launch_hole *holes)
{
    own_buf all = {0};
    fill(&all, text, holes, '\0');
    buf_char(&all, '\0');
    c->failed = c->failed || all.failed;
    for (size_t at = 0; at < all.len && !all.failed; at += strlen(all.data + at) + 1)
        if (all.data[at])
            launch_add(c, "%s", all.data + at);
}

/* ---- As a shell reads them ---- */

int launch_command_check(const launch_command *c, kv_err *e)
{
    return c->failed ? kv_err_set(e, KV_E_MEMORY, "launch: no memory for a command") : KV_OK;
}

void launch_command_release(launch_command *c)
{
    for (int64_t i = 0; i < c->n; i++)
        mem_free(c->words[i]);
    mem_free(c->words);
    *c = (launch_command){0};
}

static void put_words(buf *out, const launch_command *c, void (*put)(buf *out, const char *word))
{
    for (int64_t i = 0; i < c->n; i++) {
        if (i > 0)
            buf_char(out, ' ');
        put(out, c->words[i]);
    }
}

void launch_command_text(buf *out, const launch_command *c)
{
    put_words(out, c, launch_quote);
}

/* Octal numbers have three digits at most, so a digit may stand behind one. */
void launch_show_word(buf *out, const char *word)
{
    size_t n = strlen(word), size;
    char shown[VISIBLE_MAX];
    if (visible_is_plain(word, n)) {
        launch_quote(out, word);
        return;
    }
    buf_add(out, "$'");
    for (; n > 0; word += size, n -= size) {
        bool hidden = visible_escape(shown, word, n, &size);
        for (size_t i = 0; hidden && i < size; i++)
            buf_printf(out, "\\%03o", (unsigned char)word[i]);
        if (!hidden && strchr("'\\", *word))
            buf_char(out, '\\');
        if (!hidden)
            buf_put(out, word, size);
    }
    buf_char(out, '\'');
}

void launch_show_command(buf *out, const launch_command *c)
{
    put_words(out, c, launch_show_word);
}

bool launch_list(buf *out, int at, int n, int most)
{
    if (at == most)
        buf_printf(out, " and %d more", n - most);
    else if (at > 0 && at < most)
        buf_add(out, at == n - 1 ? " and" : ",");
    return at < most;
}

const char *launch_seconds(char text[32], double seconds)
{
    snprintf(text, 32, "%lld.%03d", (long long)seconds,
             (int)((seconds - (double)(int64_t)seconds) * 1000));
    return text;
}

int launch_self(char path[4096], kv_err *e)
{
    ssize_t len = readlink("/proc/self/exe", path, 4095);
    if (len < 0)
        return file_error(e, "read", "/proc/self/exe", errno);
    path[len] = '\0';
    return KV_OK;
}

/* ---- Variables ---- */

/* On their way they are KVCTL_ENV_r_NAME, where r is the role. */

#define WAY "KVCTL_ENV_"

extern char **environ;

static int name_length(const launch_variable *v)
{
    return (int)strcspn(v->text, "=");
}

void variables_carry(launch_command *set, const launch_options *o)
{
    for (int64_t i = 0; i < o->nvariables; i++)
        launch_add(set, WAY "%c_%s", o->variables[i].role, o->variables[i].text);
}

/* Adds -x and the name of each variable: every rank gets those of both roles, and keeps its own. */
static void variables_name(launch_command *c, const launch_options *o)
{
    for (int64_t i = 0; i < o->nvariables; i++) {
        const launch_variable *v = &o->variables[i];
        launch_add(c, "-x");
        launch_add(c, WAY "%c_%.*s", v->role, name_length(v), v->text);
    }
}

void variables_text(buf *out, const launch_options *o, const char *begin, const char *end,
                    bool elsewhere)
{
    for (int64_t i = 0; i < o->nvariables; i++) {
        const launch_variable *v = &o->variables[i];
        int n = name_length(v);
        buf_printf(out, "%s" WAY "%c_%.*s=", begin, v->role, n, v->text);
        if (elsewhere)
            launch_quote(out, v->text + n + 1);
        else if (v->by_name)
            buf_printf(out, "\"$%.*s\"", n, v->text);
        else
            launch_show_word(out, v->text + n + 1);
        buf_add(out, end);
    }
}

/* Returns whether a later variable of the same role has the same name. */
static bool is_said_again(const launch_options *o, int64_t i)
{
    const launch_variable *v = &o->variables[i];
    size_t n = (size_t)name_length(v) + 1; /* with the = */
    for (int64_t k = i + 1; k < o->nvariables; k++)
        if (o->variables[k].role == v->role && strncmp(o->variables[k].text, v->text, n) == 0)
            return true;
    return false;
}

size_t variables_secret(buf *out, const launch_options *o)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < o->nvariables; i++) {
        const launch_variable *v = &o->variables[i];
        int n = name_length(v);
        size_t size = strlen(v->text + n + 1);
        if (is_said_again(o, i))
            continue;
        buf_printf(out, "  " WAY "%c_%.*s: \"", v->role, n, v->text);
        yaml_base64(out, v->text + n + 1, size);
        buf_add(out, "\"\n");
        bytes += size;
    }
    return bytes;
}

const char *variables_carried(char role, const char *name)
{
    char way[sizeof WAY + 2 + VARIABLE_MOST];
    int n = snprintf(way, sizeof way, WAY "%c_%s", role, name);
    return n < (int)sizeof way ? getenv(way) : NULL;
}

/* holds: they are set, else only forgotten. */
static void take_role(char role, bool holds)
{
    char name[sizeof WAY + 2 + VARIABLE_MOST];
    for (int64_t i = 0; environ[i];) {
        const char *word = environ[i], *own = word + sizeof WAY + 1;
        bool found = strncmp(word, WAY, sizeof WAY - 1) == 0 && word[sizeof WAY - 1] == role &&
                     word[sizeof WAY] == '_';
        int n = found ? (int)strcspn(own, "=") : 0;
        if (!found || n > VARIABLE_MOST) {
            i++;
            continue;
        }
        snprintf(name, sizeof name, "%.*s", n, own);
        if (holds)
            setenv(name, own + n + 1, 1);
        snprintf(name, sizeof name, WAY "%c_%.*s", role, n, own);
        unsetenv(name);
        i = 0; /* the list has moved */
    }
}

/* A variable for one role holds over the same variable for all. */
void variables_take(char role)
{
    take_role('a', true);
    take_role(role, true);
    take_role(role == 'w' ? 's' : 'w', false);
}

/* ---- The file of hosts ---- */

enum { MOST_SLOTS = 4096, LAST_PORT = 65535 };

/* A whole number from 1 to most; 0: it is none. */
static int read_number(const char *text, int most)
{
    bool over = false;
    int64_t n;
    size_t len = strlen(text);
    return len > 0 && num_parse_int(text, len, &n, &over) == len && !over && n >= 1 && n <= most
               ? (int)n
               : 0;
}

static int bad_line(kv_err *e, const char *path, int line, const char *what, const char *word)
{
    return kv_err_set(e, KV_E_FORMAT, "%s:%d: %s \"%.80s\"; a line is HOST[:PORT] [slots=N]", path,
                      line, what, word);
}

static bool is_host(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
            return false;
    return n > 0 && n < sizeof((launch_host *)0)->name && name[0] != '-';
}

/* A line's first word, up to its port. Users and addresses with colons are for ssh to know: mpirun
 * takes neither in its list of hosts. */
static int check_host(const char *path, int line, const char *word, const char *name, kv_err *e)
{
    const char *colon = strchr(word, ':');
    if (!strchr(word, '@') && word[0] != '[' && (!colon || !strchr(colon + 1, ':')))
        return is_host(name) ? KV_OK : bad_line(e, path, line, "this is not a host:", name);
    bad_line(e, path, line, "this is not the name of a host:", word);
    return kv_err_hint(e, "users and IPv6 addresses belong into ~/.ssh/config, under a name");
}

static int take_port(launch_hosts *h, const char *path, int line, const char *text, kv_err *e)
{
    int port = text ? read_number(text, LAST_PORT) : 0;
    if (text && port == 0)
        return bad_line(e, path, line, "this is not a port:", text);
    if (h->n > 0 && port != h->port)
        return kv_err_set(e, KV_E_FORMAT,
                          "%s:%d: all hosts of a job have one port; others belong into the "
                          "configuration of ssh",
                          path, line);
    h->port = port;
    return KV_OK;
}

/* Adds a host; one that is there already gets the slots of both lines. */
static int add_host(launch_hosts *h, const char *name, int slots, kv_err *e)
{
    for (int64_t i = 0; i < h->n; i++) {
        launch_host *one = &h->items[i];
        if (strcmp(one->name, name) == 0) {
            one->slots = one->slots && slots ? one->slots + slots : 0;
            return KV_OK;
        }
    }
    if (mem_grow(&h->items, &h->cap, h->n + 1, sizeof *h->items, e))
        return KV_E_MEMORY;
    launch_host *one = &h->items[h->n++];
    *one = (launch_host){.slots = slots};
    snprintf(one->name, sizeof one->name, "%s", name);
    return KV_OK;
}

static int read_line(launch_hosts *h, const char *path, int number, char *line, kv_err *e)
{
    static const char blanks[] = " \t\r";
    char *rest = NULL;
    int slots = 0;
    line[strcspn(line, "#")] = '\0';
    char *name = strtok_r(line, blanks, &rest);
    if (!name)
        return KV_OK;
    for (char *word; (word = strtok_r(NULL, blanks, &rest));) {
        if (strncmp(word, "slots=", 6) != 0)
            return bad_line(e, path, number, "what is", word);
        if ((slots = read_number(word + 6, MOST_SLOTS)) == 0)
            return bad_line(e, path, number, "this is not a number of slots:", word + 6);
    }
    char word[80];
    snprintf(word, sizeof word, "%s", name);
    char *port = strchr(name, ':');
    if (port)
        *port++ = '\0';
    TRY(check_host(path, number, word, name, e));
    return take_port(h, path, number, port, e) ? e->code : add_host(h, name, slots, e);
}

/* One rank after the other, to the next host that has room. */
static int place(launch_hosts *h, const launch_options *o, kv_err *e)
{
    int n = o->workers + o->servers, slots = 0;
    bool any = false;
    for (int64_t i = 0; i < h->n; i++) {
        slots += h->items[i].slots;
        any |= h->items[i].slots == 0;
    }
    if (!any && slots < n)
        return kv_err_set(e, KV_E_VALUE,
                          "launch: %d workers + %d servers need %d slots, and "
                          "\"%s\" has %d",
                          o->workers, o->servers, n, o->hostfile, slots);
    for (int64_t at = 0; n > 0; at = (at + 1) % h->n) {
        launch_host *one = &h->items[at];
        if (one->slots == 0 || one->ranks < one->slots) {
            one->ranks++;
            n--;
        }
    }
    return KV_OK;
}

int hosts_read(launch_hosts *h, const launch_options *o, kv_err *e)
{
    own_mem char *text = NULL;
    size_t n;
    int line = 0;
    if (file_read_text(o->hostfile, &text, &n, e))
        return kv_err_hint(e, "-H takes a file with a host in each line: HOST[:PORT] [slots=N]");
    if (strlen(text) < n) {
        for (const char *at = text; at; at = strchr(at + 1, '\n'))
            line++;
        return kv_err_set(e, KV_E_FORMAT,
                          "%s:%d: there is a NUL byte; a line is HOST[:PORT] [slots=N]",
                          o->hostfile, line);
    }
    for (char *one, *rest = text; (one = strsep(&rest, "\n"));)
        TRY(read_line(h, o->hostfile, ++line, one, e));
    if (h->n == 0)
        return kv_err_set(e, KV_E_FORMAT, "%s names no host", o->hostfile);
    if (h->port && o->by == LAUNCH_MPI)
        return kv_err_set(e, KV_E_FORMAT, "%s: ports are for ssh, and the launcher is mpi",
                          o->hostfile);
    return place(h, o, e);
}

void hosts_release(launch_hosts *h)
{
    mem_free(h->items);
}

void hosts_list(const launch_hosts *h, buf *out)
{
    for (int64_t i = 0; i < h->n && h->items[i].ranks > 0; i++)
        buf_printf(out, "%s%s:%d", i ? "," : "", h->items[i].name, h->items[i].ranks);
}

void hosts_ssh(const launch_hosts *h, const launch_options *o, buf *out)
{
    buf_printf(out, "ssh -x -o BatchMode=yes -o ConnectTimeout=%d", (int)o->deadline + 1);
    if (h->port)
        buf_printf(out, " -p %d", h->port);
}

/* ---- The commands of Open MPI ---- */

/* All ranks are started by one part of the command, and launch-rank knows by its number whether it
 * works or serves: mpirun of Open MPI 5.0.7, the one of Debian 13, crashes on a command of several
 * parts. */

/* self: the program that tells launch when an ssh fails; NULL: none. mpirun parts the words of its
 * agent at blanks. */
static void add_mpirun(launch_command *c, const launch_options *o, const launch_hosts *h,
                       const char *self)
{
    launch_add(c, "mpirun");
    if (geteuid() == 0)
        launch_add(c, "--allow-run-as-root"); /* mpirun refuses root without it */
    /* Ranks of one machine share memory: they listen at no port. mpirun still does, Open MPI has
     * no option for that. */
    if (o->by == LAUNCH_LOCAL)
        launch_add_filled(c, "--oversubscribe --mca pml ob1 --mca btl ^tcp,ofi", NULL);
    /* Some builds of 5.0 with UCX write an error of osc/ucx at each start. Windows are of shared
     * memory alone, for which there is another component. */
    launch_add_filled(c, "--mca osc ^ucx --bind-to none", NULL);
    if (o->losses != LOSSES_END)
        launch_add_filled(c, "--with-ft ulfm", NULL);
    if (o->by == LAUNCH_SSH) {
        own_buf agent = {0};
        if (self && !strchr(self, ' '))
            buf_printf(&agent, "%s launch-ssh ", self);
        hosts_ssh(h, o, &agent);
        /* Within a job of a queue too. What is left is called rsh in 4.1 and ssh in 5.0, which both
         * read the agent. */
        launch_add_filled(c, "--mca plm ^slurm,tm,lsf,alps,pals --mca plm_rsh_agent {agent}",
                          (launch_hole[]){{"agent", buf_text(&agent)}, {NULL, NULL}});
    }
}

static void add_hosts(launch_command *c, const launch_hosts *h)
{
    own_buf list = {0};
    hosts_list(h, &list);
    if (h->n > 0)
        launch_add_filled(c, "--host {list}",
                          (launch_hole[]){{"list", buf_text(&list)}, {NULL, NULL}});
}

/* Variables of this process that other hosts must get too; on this one ranks have them anyway. */
static void add_variables(launch_command *c, const launch_options *o)
{
    static const char name[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    own_command own = {0};
    mpirun_environment(&own, o, o->dry_run ? NULL : "", 0);
    for (int64_t i = 0; i < own.n && o->by != LAUNCH_LOCAL; i++) {
        launch_add(c, "-x");
        launch_add(c, "%.*s", (int)strcspn(own.words[i], "="), own.words[i]);
    }
    for (char **at = environ; *at && o->by != LAUNCH_LOCAL; at++) {
        size_t n = strcspn(*at, "=");
        bool known = strncmp(*at, "KVSTORE_", 8) != 0 || strspn(*at, name) != n;
        for (int64_t i = 0; i < own.n && !known; i++)
            known = strncmp(*at, own.words[i], n + 1) == 0;
        if (!known) {
            launch_add(c, "-x");
            launch_add(c, "%.*s", (int)n, *at);
        }
    }
    if (o->by != LAUNCH_LOCAL)
        variables_name(c, o);
}

int mpirun_command(launch_command *c, const launch_options *o, const launch_hosts *h, kv_err *e)
{
    char self[4096], n[16];
    TRY(launch_self(self, e));
    snprintf(n, sizeof n, "%d", o->workers + o->servers);
    const launch_hole holes[] = {
        {"folder", o->sync_folder}, {"n", n}, {"self", self}, {NULL, NULL}};
    add_mpirun(c, o, h, self);
    launch_add(c, "--enable-recovery");
    if (h->n > 0)
        launch_add_filled(c, "--map-by node", NULL);
    add_hosts(c, h);
    launch_add_filled(c, "[--wdir {folder}]", holes);
    add_variables(c, o);
    launch_add_filled(c, "-n {n} {self} launch-rank", holes);
    if (o->python)
        launch_add(c, "--python");
    launch_add_words(c, o->words, o->nwords);
    return launch_command_check(c, e);
}

int mpirun_tell_command(launch_command *c, const launch_options *o, const launch_hosts *h,
                        const char *file, int number, const char *why, kv_err *e)
{
    char self[4096];
    TRY(launch_self(self, e));
    add_mpirun(c, o, h, NULL);
    launch_add_filled(c, "--map-by ppr:1:node", NULL);
    add_hosts(c, h);
    launch_add_filled(c, "-x KVSTORE_RUN_DIR {self} launch-tell {file}",
                      (launch_hole[]){{"self", self}, {"file", file}, {NULL, NULL}});
    launch_add(c, "%d", number);
    launch_add(c, "%s", why);
    return launch_command_check(c, e);
}

void mpirun_environment(launch_command *set, const launch_options *o, const char *folder,
                        int64_t round)
{
    char deadline[32];
    if (folder) {
        launch_add(set, "KVSTORE_RUN_DIR=%s", folder);
        launch_add(set, "KVSTORE_DEADLINE=%s", launch_seconds(deadline, o->deadline));
        if (o->losses != LOSSES_END)
            launch_add(set, "KVSTORE_ELASTIC=%s", o->losses == LOSSES_ASYNC ? "async" : "all");
    }
    if (folder || o->servers > 0)
        launch_add(set, "KVSTORE_SERVERS=%d", o->servers);
    if (o->spares > 0)
        launch_add(set, "KVSTORE_SPARES=%d", o->spares);
    if (o->checkpoint) {
        launch_add(set, "KVSTORE_CHECKPOINT_EVERY=%s", o->every);
        launch_add(set, "KVSTORE_CHECKPOINT=%s", o->checkpoint);
    }
    if (o->checkpoint && folder)
        launch_add(set, "KVSTORE_CHECKPOINT_ROUND=%lld", (long long)round);
}

/* ---- The launch of a queue or of Kubernetes ---- */

/* Queues and Kubernetes give the same options; each has its own words before them. */

int inner_options(launch_command *c, const launch_options *o, kv_err *e)
{
    char deadline[32], timeout[32], workers[16], servers[16], restarts[16];
    snprintf(workers, sizeof workers, "%d", o->workers);
    snprintf(servers, sizeof servers, "%d", o->servers);
    snprintf(restarts, sizeof restarts, "%d", o->restarts);
    const launch_hole holes[] = {
        {"workers", workers},
        {"servers", o->servers > 0 ? servers : NULL},
        {"deadline", o->deadline > 0 ? launch_seconds(deadline, o->deadline) : NULL},
        {"timeout", o->timeout > 0 ? launch_seconds(timeout, o->timeout) : NULL},
        {"checkpoint", o->checkpoint},
        {"every", o->every},
        {"restarts", o->restarts > 0 ? restarts : NULL},
        {"elastic", o->elastic ? "--elastic" : NULL},
        {NULL, NULL}};
    launch_add_filled(c,
                      "-n {workers}[ -s {servers}][ --deadline {deadline}][ --timeout {timeout}]"
                      "[ --checkpoint {checkpoint}][ --checkpoint-every {every}]"
                      "[ --max-restarts {restarts}][ {elastic}]",
                      holes);
    /* the other launch takes them from its environment */
    for (int64_t i = 0; i < o->nvariables; i++) {
        const launch_variable *v = &o->variables[i];
        launch_add(c, v->role == 'a' ? "--env" : v->role == 'w' ? "--env-worker" : "--env-server");
        launch_add(c, "%.*s", name_length(v), v->text);
    }
    launch_add_words(c, o->words, o->nwords);
    return launch_command_check(c, e);
}
