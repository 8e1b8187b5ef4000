/* Starting programs. */
#include "term/child.h"

#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int child_shell(pid_t *pid, const char *line, int in, int out)
{
    char *argv[] = {"sh", "-c", (char *)(uintptr_t)line, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t usual;
    extern char **environ;
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGXFSZ);
    int failed = posix_spawn_file_actions_init(&files);
    if (failed)
        return failed;
    if ((failed = posix_spawnattr_init(&how)) == 0) {
        posix_spawnattr_setsigdefault(&how, &usual);
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF);
        if (in >= 0)
            failed = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
        if (out >= 0 && !failed)
            failed = posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
        if (!failed)
            failed = posix_spawn(pid, "/bin/sh", &files, &how, argv, environ);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

bool child_finds(const char *program)
{
    const char *at = getenv("PATH");
    bool found = false;
    for (size_t n; at && *at && !found; at += n + (at[n] == ':')) {
        char path[PATH_MAX]; /* without memory it would be said not to be installed */
        n = strcspn(at, ":");
        found = n < sizeof path &&
                snprintf(path, sizeof path, "%.*s/%s", (int)n, at, program) < (int)sizeof path &&
                access(path, X_OK) == 0;
    }
    return found;
}

void child_tell(pid_t pid, int signal)
{
    char path[64];
    long child;
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)pid, (long)pid);
    FILE *f = fopen(path, "re");
    while (f && fscanf(f, "%ld", &child) == 1)
        if (child > 1)
            child_tell((pid_t)child, signal);
    if (f)
        fclose(f);
    kill(pid, signal);
}
