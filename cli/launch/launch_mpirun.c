/* mpirun gets one part for the workers and one for the servers, so that each has variables of its
 * own; the ranks of the second go on from those of the first. */
#include "launch/launch_mpirun.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "launch/launch_variables.h"

extern char **environ;

static int read_self(char self[4096], kv_err *e)
{
    ssize_t len = readlink("/proc/self/exe", self, 4095);
    if (len < 0)
        return file_error(e, "read", "/proc/self/exe", errno);
    self[len] = '\0';
    return KV_OK;
}

/* Ranks of one machine share memory: they listen at no port. mpirun still does, Open MPI has no
 * option for that. */
static void add_local(launch_command *c)
{
    static const char *const words[] = {"--oversubscribe", "--mca", "pml", "ob1",
                                        "--mca",           "btl",   "^tcp,ofi"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        launch_add(c, "%s", words[i]);
}

/* Up to where parts of several roles begin. self: who tells launch when an ssh fails; NULL: nobody.
 * mpirun parts these words at blanks. */
static void add_mpirun(launch_command *c, const launch_options *o, const launch_hosts *h,
                       const char *self)
{
    buf agent = {0};
    launch_add(c, "mpirun");
    if (geteuid() == 0)
        launch_add(c, "--allow-run-as-root"); /* mpirun refuses root without it */
    if (o->by == LAUNCH_LOCAL)
        add_local(c);
    launch_add(c, "--bind-to");
    launch_add(c, "none");
    if (o->by == LAUNCH_SSH) {
        if (self && !strchr(self, ' '))
            buf_printf(&agent, "%s launch-ssh ", self);
        hosts_ssh(h, o, &agent);
        launch_add(c, "--mca");
        launch_add(c, "plm");
        launch_add(c, "rsh");
        launch_add(c, "--mca");
        launch_add(c, "plm_rsh_agent");
        launch_add(c, "%s", buf_text(&agent));
    }
    buf_release(&agent);
}

static void add_hosts(launch_command *c, const launch_hosts *h)
{
    buf list = {0};
    hosts_list(h, &list);
    if (h->n > 0) {
        launch_add(c, "--host");
        launch_add(c, "%s", buf_text(&list));
    }
    buf_release(&list);
}

/* Variables of this process that other hosts must get too; on this one ranks have them anyway. */
static void add_variables(launch_command *c, const launch_options *o, char role)
{
    launch_command own = {0};
    mpirun_environment(&own, o, o->dry_run ? NULL : "", 0);
    for (int64_t i = 0; i < own.n && o->by != LAUNCH_LOCAL; i++) {
        launch_add(c, "-x");
        launch_add(c, "%.*s", (int)strcspn(own.words[i], "="), own.words[i]);
    }
    for (char **at = environ; *at && o->by != LAUNCH_LOCAL; at++) {
        size_t n = strcspn(*at, "=");
        bool known = strncmp(*at, "KVSTORE_", 8) != 0;
        for (int64_t i = 0; i < own.n && !known; i++)
            known = strncmp(*at, own.words[i], n + 1) == 0;
        if (!known) {
            launch_add(c, "-x");
            launch_add(c, "%.*s", (int)n, *at);
        }
    }
    if (o->by != LAUNCH_LOCAL)
        variables_name(c, o, role);
    launch_command_release(&own);
}

static void add_part(launch_command *c, const launch_options *o, const launch_hosts *h, char role)
{
    add_hosts(c, h);
    if (o->sync_folder) {
        launch_add(c, "--wdir");
        launch_add(c, "%s", o->sync_folder);
    }
    add_variables(c, o, role);
    launch_add(c, "-n");
    launch_add(c, "%d", role == 'w' ? o->workers : o->servers);
}

int mpirun_command(launch_command *c, const launch_options *o, const launch_hosts *h, kv_err *e)
{
    char self[4096];
    if (read_self(self, e))
        return e->code;
    add_mpirun(c, o, h, self);
    launch_add(c, "--enable-recovery");
    if (h->n > 0) {
        launch_add(c, "--map-by");
        launch_add(c, "node");
    }
    add_part(c, o, h, 'w');
    launch_add(c, "%s", self);
    launch_add(c, "launch-rank");
    launch_add_words(c, o->words, o->nwords);
    if (o->servers > 0) {
        launch_add(c, ":");
        add_part(c, o, h, 's');
        launch_add(c, "%s", self);
        launch_add(c, "launch-rank");
        launch_add(c, "serve");
    }
    return launch_command_check(c, e);
}

int mpirun_tell_command(launch_command *c, const launch_options *o, const launch_hosts *h,
                        int number, const char *why, kv_err *e)
{
    char self[4096];
    if (read_self(self, e))
        return e->code;
    add_mpirun(c, o, h, NULL);
    launch_add(c, "--map-by");
    launch_add(c, "ppr:1:node");
    add_hosts(c, h);
    launch_add(c, "-x");
    launch_add(c, "KVSTORE_RUN_DIR");
    launch_add(c, "%s", self);
    launch_add(c, "launch-tell");
    launch_add(c, "%d", number);
    if (why)
        launch_add(c, "%s", why);
    return launch_command_check(c, e);
}

void mpirun_environment(launch_command *set, const launch_options *o, const char *folder,
                        int64_t round)
{
    if (folder) {
        launch_add(set, "KVSTORE_RUN_DIR=%s", folder);
        launch_add(set, "KVSTORE_DEADLINE=%lld.%03d", (long long)o->deadline,
                   (int)((o->deadline - (double)(int64_t)o->deadline) * 1000));
    }
    if (folder || o->servers > 0)
        launch_add(set, "KVSTORE_SERVERS=%d", o->servers);
    if (o->checkpoint) {
        launch_add(set, "KVSTORE_CHECKPOINT_EVERY=%d", o->every);
        launch_add(set, "KVSTORE_CHECKPOINT=%s", o->checkpoint);
    }
    if (o->checkpoint && folder)
        launch_add(set, "KVSTORE_CHECKPOINT_ROUND=%lld", (long long)round);
}
