/* What mpirun reaches its hosts with. It takes an ssh that fails for a daemon that never began, and
 * ends the whole job in such a hurry that most of what the other hosts had to tell is lost: also
 * when a host dies hours later, unless it has noticed by then that the daemon is gone. So mpirun is
 * not told, and launch is. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "term/exit_code.h"
#include "launch/launch_job.h"
#include "launch/launch_wire.h"

static void become_ssh(char **words)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execvp(words[0], words);
    fprintf(stderr, "kvctl: %s cannot be started: %s\n", words[0], strerror(errno));
    _exit(EXIT_UNSUPPORTED);
}

int launch_ssh(int argc, char **argv)
{
    char text[16];
    int status = 0;
    if (argc < 1) {
        fprintf(stderr, "kvctl: launch-ssh is for kvctl launch\n");
        return EXIT_NOT_UNDERSTOOD;
    }
    pid_t pid = getenv("KVSTORE_RUN_DIR") ? fork() : 0; /* without it there is no launch */
    if (pid == 0)
        become_ssh(argv);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    int code = pid < 0             ? EXIT_FAILED
               : WIFEXITED(status) ? WEXITSTATUS(status)
                                   : 128 + WTERMSIG(status);
    snprintf(text, sizeof text, "%d", code);
    if (code)
        wire_tell(0, WIRE_SSH, text, strlen(text));
    return EXIT_DONE;
}
