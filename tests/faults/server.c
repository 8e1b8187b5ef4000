/* A program that is started once and runs many times: main is not called, but a fork of the process
 * calls it for each plan that comes, so that a run costs no loading. A plan that the environment
 * names is for the one process.
 *
 *     FAULT_SERVER="IN OUT PAGE"   descriptors: plans come from IN, answers go to OUT, PAGE is the
 *                                  memory that holds a fault_page
 *
 * A run has its stdout and stderr cut to nothing first, and is killed after LIMIT seconds with all
 * that it started.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faults.h"

#define LIMIT 20

typedef int program(int, char **, char **);

static program *real_main;
static fault_page *page;
static uint64_t open_before; /* descriptors, a bit each */

static uint64_t open_now(void)
{
    uint64_t bits = 0;
    for (int fd = 0; fd < 64; fd++)
        bits |= (uint64_t)(fcntl(fd, F_GETFD) >= 0) << fd;
    return bits;
}

/* Behind all other handlers, because it was set first. */
static void look_at_the_end(void)
{
    char link[64];
    faults_end();
    if (!page)
        return;
    uint64_t left = open_now() & ~open_before;
    for (int fd = 0; fd < 64; fd++) {
        if (!(left >> fd & 1))
            continue;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, page->descriptor, sizeof page->descriptor - 1);
        page->descriptor[n > 0 ? n : 0] = '\0';
        page->descriptors++;
    }
    blocks_find_leaks(page);
}

static void stop(const char *why)
{
    fprintf(stderr, "faults: %s\n", why);
    _exit(127);
}

static int kind_named(const char *name)
{
    static const char *const names[] = {FAULT_NAMES};
    for (int i = 0; i < FAULT_KINDS; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    stop("FAULT: there is no such kind");
    return 0;
}

static int run_alone(int argc, char **argv, char **environment, const char *what)
{
    char kind[32], ever[8] = "";
    long long at;
    const char *error = getenv("FAULT_ERRNO");
    if (sscanf(what, "%31s %lld %7s", kind, &at, ever) < 2)
        stop("FAULT is not \"KIND N\" or \"KIND N ever\"");
    fault_plan plan = {.kind = kind_named(kind),
                       .ever = strcmp(ever, "ever") == 0,
                       .more = strcmp(ever, "twice") == 0,
                       .error = !error ? 0 : strcmp(error, "0") == 0 ? -1 : atoi(error),
                       .at = at};
    faults_begin(&plan, getenv("FAULT_PATH"), NULL);
    return real_main(argc, argv, environment);
}

/* Waits for a run, and kills it when it takes too long. */
static fault_answer wait_for(pid_t pid)
{
    fault_answer answer = {0, 0};
    sigset_t ended;
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    while (waitpid(pid, &answer.status, WNOHANG) == 0) {
        if (sigtimedwait(&ended, NULL, &(struct timespec){.tv_sec = LIMIT}) < 0 &&
            errno == EAGAIN) {
            answer.hung = 1;
            kill(-pid, SIGKILL);
            waitpid(pid, &answer.status, 0);
            break;
        }
    }
    kill(-pid, SIGKILL); /* what it left running */
    return answer;
}

static int serve(int argc, char **argv, char **environment, const char *words)
{
    int in, out, memory;
    fault_plan plan;
    sigset_t ended, before;
    if (sscanf(words, "%d %d %d", &in, &out, &memory) != 3)
        stop("FAULT_SERVER");
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (page == MAP_FAILED)
        stop("no memory");
    unsetenv("FAULT_SERVER");
    sigemptyset(&ended);
    sigaddset(&ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &ended, &before);
    while (read(in, &plan, sizeof plan) == sizeof plan) {
        memset(page, 0, sizeof *page);
        for (int fd = 0; fd < 3; fd++) {
            if (fd > 0 && ftruncate(fd, 0) != 0)
                stop("stdout and stderr must be files");
            lseek(fd, 0, SEEK_SET);
        }
        pid_t pid = fork();
        if (pid == 0) {
            setpgid(0, 0);
            close(in);
            close(out);
            close(memory);
            sigprocmask(SIG_SETMASK, &before, NULL);
            open_before = open_now();
            faults_begin(&plan, NULL, page);
            return real_main(argc, argv, environment);
        }
        fault_answer answer = wait_for(pid);
        if (write(out, &answer, sizeof answer) != sizeof answer)
            break;
    }
    _exit(0);
}

static int main_instead(int argc, char **argv, char **environment)
{
    const char *words = getenv("FAULT_SERVER"), *what = getenv("FAULT");
    atexit(look_at_the_end);
    if (words || what || getenv("CALLS_FOLDER"))
        unsetenv("LD_PRELOAD"); /* not for the programs that it starts */
    return words  ? serve(argc, argv, environment, words)
           : what ? run_alone(argc, argv, environment, what)
                  : real_main(argc, argv, environment);
}

int __libc_start_main(program *of, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld)(void), void *stack);

int __libc_start_main(program *of, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld)(void), void *stack)
{
    int (*next)(program *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *) =
        dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = of;
    return next(main_instead, argc, argv, init, fini, rtld, stack);
}
