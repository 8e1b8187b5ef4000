/* The file of hosts, and what commands say of them. */
#include "launch/launch_hosts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "launch/launch_command.h"

/* ---- The file of hosts ---- */

enum { MOST_SLOTS = 4096, LAST_PORT = 65535 };

/* ---- The file ---- */

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
        return is_host(name) ? KV_OK : bad_line(e, path, line, "this is no host:", name);
    bad_line(e, path, line, "this is no name of a host:", word);
    return kv_err_hint(e, "users and IPv6 addresses belong into ~/.ssh/config, under a name"),
           e->code;
}

static int take_port(launch_hosts *h, const char *path, int line, const char *text, kv_err *e)
{
    int port = text ? read_number(text, LAST_PORT) : 0;
    if (text && port == 0)
        return bad_line(e, path, line, "this is no port:", text);
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
    if (check_host(path, number, word, name, e))
        return e->code;
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
    char *text, *rest;
    size_t n;
    int line = 0, rc = file_read_text(o->hostfile, &text, &n, e);
    if (rc)
        return kv_err_hint(e, "-H takes a file with a host in each line: HOST[:PORT] [slots=N]"),
               rc;
    rest = text;
    if (strlen(text) < n) {
        for (const char *at = text; at; at = strchr(at + 1, '\n'))
            line++;
        rc = kv_err_set(e, KV_E_FORMAT,
                        "%s:%d: there is a NUL byte; a line is HOST[:PORT] [slots=N]", o->hostfile,
                        line);
    }
    for (char *one; !rc && (one = strsep(&rest, "\n"));)
        rc = read_line(h, o->hostfile, ++line, one, e);
    if (!rc && h->n == 0)
        rc = kv_err_set(e, KV_E_FORMAT, "%s: there is no host in it", o->hostfile);
    mem_free(text);
    if (!rc && h->port && o->by == LAUNCH_MPI)
        rc = kv_err_set(e, KV_E_FORMAT, "%s: ports are for ssh, and the launcher is mpi",
                        o->hostfile);
    return rc ? rc : place(h, o, e);
}

void hosts_release(launch_hosts *h)
{
    mem_free(h->items);
}

/* ---- Commands ---- */

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

void hosts_sync_command(const launch_hosts *h, const launch_options *o, const char *host,
                        launch_command *out)
{
    buf ssh = {0};
    hosts_ssh(h, o, &ssh);
    launch_add_filled(out, "rsync -a -s -e {ssh} ./ {host}:{folder}/",
                      (launch_hole[]){{"ssh", buf_text(&ssh)},
                                      {"host", host},
                                      {"folder", o->sync_folder},
                                      {NULL, NULL}});
    buf_release(&ssh);
}

/* ---- The commands of Open MPI ---- */

/* All ranks are started by one part of the command, and launch-rank knows by its number whether it
 * works or serves: mpirun of Open MPI 5.0.7, the one of Debian 13, crashes on a command of several
 * parts. */

extern char **environ;

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
        buf agent = {0};
        if (self && !strchr(self, ' '))
            buf_printf(&agent, "%s launch-ssh ", self);
        hosts_ssh(h, o, &agent);
        /* Within a job of a queue too. What is left is called rsh in 4.1 and ssh in 5.0, which both
         * read the agent. */
        launch_add_filled(c, "--mca plm ^slurm,tm,lsf,alps,pals --mca plm_rsh_agent {agent}",
                          (launch_hole[]){{"agent", buf_text(&agent)}, {NULL, NULL}});
        buf_release(&agent);
    }
}

static void add_hosts(launch_command *c, const launch_hosts *h)
{
    buf list = {0};
    hosts_list(h, &list);
    if (h->n > 0)
        launch_add_filled(c, "--host {list}",
                          (launch_hole[]){{"list", buf_text(&list)}, {NULL, NULL}});
    buf_release(&list);
}

/* Variables of this process that other hosts must get too; on this one ranks have them anyway. */
static void add_variables(launch_command *c, const launch_options *o)
{
    static const char name[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    launch_command own = {0};
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
    launch_command_release(&own);
}

int mpirun_command(launch_command *c, const launch_options *o, const launch_hosts *h, kv_err *e)
{
    char self[4096], n[16];
    if (launch_self(self, e))
        return e->code;
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
                        int number, const char *why, bool gone, kv_err *e)
{
    char self[4096];
    if (launch_self(self, e))
        return e->code;
    add_mpirun(c, o, h, NULL);
    launch_add_filled(c, "--map-by ppr:1:node", NULL);
    add_hosts(c, h);
    launch_add_filled(c, "-x KVSTORE_RUN_DIR {self} launch-tell",
                      (launch_hole[]){{"self", self}, {NULL, NULL}});
    launch_add(c, "%d", number);
    if (why)
        launch_add(c, "%s", why);
    if (gone)
        launch_add(c, "gone");
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
