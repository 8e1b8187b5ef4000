/* Starting programs. */
#include "term/child.h"

#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

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
        buf path = {0};
        n = strcspn(at, ":");
        buf_put(&path, at, n);
        buf_printf(&path, "/%s", program);
        found = access(buf_text(&path), X_OK) == 0;
        buf_release(&path);
    }
    return found;
}
