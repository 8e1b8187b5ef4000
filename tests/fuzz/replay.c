/* Runs every fuzz target once over each file of its corpus, compiled as the tests are: inputs that
 * once found a fault are regression tests everywhere, without clang.
 *
 *     build/fuzz_replay [NAME…]
 *
 * Each target runs in a process of its own with a time limit. What its sessions say is shown when
 * targets are named. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "fuzz.h"

typedef int target_run(const uint8_t *data, size_t n);

#define FUZZ_TARGET(name) target_run fuzz_##name;
#include "fuzz_list.h"
#undef FUZZ_TARGET

static const struct target {
    const char *name;
    target_run *run;
} targets[] = {
#define FUZZ_TARGET(name) {#name, fuzz_##name},
#include "fuzz_list.h"
};
enum { NTARGETS = sizeof targets / sizeof *targets, SECONDS = 120 };

static int says; /* stdout as it was at the start */

/* Runs the target over its corpus. */
static void run_files(const struct target *t, const char *corpus)
{
    int files = 0;
    struct dirent *d;
    char *folder = realpath(corpus, NULL); /* targets may change the folder of the process */
    DIR *all = folder ? opendir(folder) : NULL;
    HOLDS(all != NULL, corpus);
    while ((d = readdir(all))) {
        char path[4096], *text;
        size_t n;
        kv_err e = {0};
        if (d->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        HOLDS(file_read(path, &text, &n, &e) == KV_OK, e.text);
        dprintf(says, "# %s\n", path); /* of a target that fails the last one is the culprit */
        t->run((const uint8_t *)text, n);
        mem_free(text);
        files++;
    }
    closedir(all);
    HOLDS(files > 0, folder);
    free(folder);
}

/* Returns the exit status of the target's process. */
static int run_target(const struct target *t, bool quiet)
{
    char folder[256];
    int status = 0;
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", t->name);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        HOLDS(!quiet || (freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr)),
              "/dev/null");
        alarm(SECONDS);
        run_files(t, folder);
        exit(0);
    }
    HOLDS(child > 0 && waitpid(child, &status, 0) == child, "a process for the target");
    return status;
}

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    int n = 0, failed = 0;
    says = dup(STDOUT_FILENO);
    for (int i = 0; i < NTARGETS; i++) {
        if (!is_wanted(targets[i].name, argc, argv))
            continue;
        int status = run_target(&targets[i], argc < 2);
        failed += status != 0;
        printf("%s %d - fuzz %s: its corpus\n", status ? "not ok" : "ok", ++n, targets[i].name);
        if (status)
            printf("# it ended with %s %d\n", WIFSIGNALED(status) ? "signal" : "exit status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    printf("1..%d\n", n);
    return failed > 0;
}
