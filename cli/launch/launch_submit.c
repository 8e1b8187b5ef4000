/* A job is `kvctl launch` again, on the hosts that the queue gave: as mpi, where Open MPI knows
 * them from the queue; as local in the one container of yarn. */
#include "launch/launch_submit.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "launch/launch_variables.h"

enum { YARN_MB = 1024 /* of a rank, unless --memory says it */, MOST_MS = 2147483647 };

static void add_seconds(launch_command *c, const char *name, double seconds)
{
    if (seconds > 0) {
        launch_add(c, "%s", name);
        launch_add(c, "%lld.%03d", (long long)seconds,
                   (int)((seconds - (double)(int64_t)seconds) * 1000));
    }
}

static void add_count(launch_command *c, const char *name, int count)
{
    if (count > 0) {
        launch_add(c, "%s", name);
        launch_add(c, "%d", count);
    }
}

/* The options of this launch that are for the inner one. */
static int add_inner(launch_command *c, const launch_options *o, launcher by, kv_err *e)
{
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0)
        return file_error(e, "read", "/proc/self/exe", errno);
    self[len] = '\0';
    launch_add(c, "%s", self);
    launch_add(c, "launch");
    launch_add(c, "--launcher");
    launch_add(c, "%s", launcher_name(by));
    add_count(c, "-n", o->workers);
    add_count(c, "-s", o->servers);
    add_seconds(c, "--deadline", o->deadline);
    add_seconds(c, "--timeout", o->timeout);
    if (o->checkpoint) {
        launch_add(c, "--checkpoint");
        launch_add(c, "%s", o->checkpoint);
    }
    add_count(c, "--checkpoint-every", o->every);
    add_count(c, "--max-restarts", o->restarts);
    variables_inner(c, o);
    launch_add_words(c, o->words, o->nwords);
    return launch_command_check(c, e);
}

/* ---- Grid Engine ---- */

static void ask_sge(launch_command *c, buf *file, const launch_options *o, const char *folder)
{
    buf_add(file, "#!/bin/sh\n#$ -S /bin/sh\n#$ -N kvctl\n#$ -cwd\n#$ -r n\n");
    buf_printf(file, "#$ -pe %s %d\n", o->pe ? o->pe : "orte", o->workers + o->servers);
    if (o->queue)
        buf_printf(file, "#$ -q %s\n", o->queue);
    buf_printf(file, "#$ -o %s/out\n#$ -e %s/err\n: >%s/started\n", folder, folder, folder);
    launch_add(c, "qsub");
    launch_add(c, "-sync");
    launch_add(c, "y");
    launch_add(c, "%s/job", folder);
}

/* ---- Slurm ---- */

/* The steps of a job share its processors: that which tells of a loss does not wait for the ranks.
 */
static void ask_slurm(launch_command *c, buf *file, const launch_options *o, const char *folder)
{
    buf_add(file, "#!/bin/sh\nexport SLURM_OVERLAP=1\n: >");
    launch_quote(file, folder);
    buf_add(file, "/started\n");
    launch_add(c, "salloc");
    launch_add(c, "-Q");
    launch_add(c, "-J");
    launch_add(c, "kvctl");
    add_count(c, "-n", o->workers + o->servers);
    if (o->queue) {
        launch_add(c, "-p");
        launch_add(c, "%s", o->queue);
    }
    launch_add(c, "sh");
    launch_add(c, "%s/job", folder);
}

/* ---- YARN ---- */

/* The jar of the distributed shell, which comes with Hadoop. */
static int add_jar(launch_command *c, const launch_options *o, kv_err *e)
{
    static const char name[] = "share/hadoop/yarn/hadoop-yarn-applications-distributedshell-*.jar";
    const char *home = getenv("HADOOP_HOME");
    char pattern[4200];
    glob_t found = {0};
    if ((!home || !*home) && o->dry_run)
        home = "$HADOOP_HOME";
    if (!home || !*home)
        return kv_err_set(e, KV_E_UNSUPPORTED,
                          "launch: --launcher yarn needs HADOOP_HOME, the folder of Hadoop");
    snprintf(pattern, sizeof pattern, "%s/%s", home, name);
    if (glob(pattern, 0, NULL, &found) == 0)
        launch_add(c, "%s", found.gl_pathv[0]);
    else if (o->dry_run)
        launch_add(c, "%s", pattern);
    else
        kv_err_set(e, KV_E_UNSUPPORTED, "launch: there is no %s", pattern);
    globfree(&found);
    return e->code;
}

/* The client gives up after ten minutes unless it is told otherwise; launch itself knows when. */
static int ask_yarn(launch_command *c, buf *file, const launch_options *o, const char *folder,
                    kv_err *e)
{
    char here[4096];
    int n = o->workers + o->servers;
    if (!getcwd(here, sizeof here))
        return file_error(e, "read", ".", errno);
    buf_add(file, "#!/bin/sh\ncd ");
    launch_quote(file, here);
    buf_add(file, " || exit\n");
    launch_add(c, "yarn");
    launch_add(c, "jar");
    if (add_jar(c, o, e))
        return e->code;
    launch_add(c, "-jar");
    if (add_jar(c, o, e))
        return e->code;
    launch_add(c, "-appname");
    launch_add(c, "kvctl");
    launch_add(c, "-shell_script");
    launch_add(c, "%s/job", folder);
    add_count(c, "-num_containers", 1);
    add_count(c, "-container_vcores", n);
    add_count(c, "-container_memory", n * (o->memory ? o->memory : YARN_MB));
    add_count(c, "-timeout", MOST_MS);
    if (o->queue) {
        launch_add(c, "-queue");
        launch_add(c, "%s", o->queue);
    }
    return KV_OK;
}

/* ---- All ---- */

int submit_command(launch_command *c, buf *file, const launch_options *o, const char *folder,
                   kv_err *e)
{
    launch_command inner = {0};
    bool is_yarn = o->by == LAUNCH_YARN;
    if (o->by == LAUNCH_SGE)
        ask_sge(c, file, o, folder);
    else if (o->by == LAUNCH_SLURM)
        ask_slurm(c, file, o, folder);
    else
        ask_yarn(c, file, o, folder, e);
    if (!e->code && !add_inner(&inner, o, is_yarn ? LAUNCH_LOCAL : LAUNCH_MPI, e)) {
        variables_text(file, o, "export ", "\n", true);
        buf_add(file, is_yarn ? "" : "exec ");
        launch_command_text(file, &inner);
        buf_add(file, is_yarn ? "\necho \"" SUBMIT_EXIT "$?\"\n" : "\n");
    }
    launch_command_release(&inner);
    return e->code || launch_command_check(c, e) ? e->code : buf_check(file, e);
}
