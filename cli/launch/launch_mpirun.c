/* All ranks are started by one part of the command, and launch-rank knows by its number whether it
 * works or serves: mpirun of Open MPI 5.0.7, the one of Debian 13, crashes on a command of several
 * parts. */
#include "launch/launch_mpirun.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launch/launch_variables.h"

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
