/* The signals of a session, and what they must not break: programs that kvctl starts, and
 * its stdout.
 *
 * The handlers only set flags and look at the clock, which POSIX allows in a handler. */
#include "term/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

/* ---- Ctrl-C and SIGTERM ---- */

#define TWICE_MS 2000 /* two Ctrl-C this close end the process */

/* Atomic, since threads of the pool ask too; without locks, as handlers need it. */
static atomic_int interrupted, terminated, timed_out;
static volatile sig_atomic_t prompting;
/* Only the handler reads and writes it, and SIGINT is blocked while it runs. */
static int64_t last_ms;
static volatile sig_atomic_t has_last; /* of the statement that runs */

static bool soon_after_the_last(void)
{
    int64_t now = clock_ms();
    bool soon = has_last && now - last_ms < TWICE_MS;
    last_ms = now;
    has_last = 1;
    return soon;
}

static void on_signal(int sig)
{
    if (sig == SIGINT && prompting)
        has_last = 0;
    else if (sig == SIGINT && soon_after_the_last())
        _exit(128 + sig);
    *(sig == SIGTERM ? &terminated : sig == SIGALRM ? &timed_out : &interrupted) = 1;
}

static void handle(int sig, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(sig, &action, NULL);
}

void interrupt_install(void)
{
    handle(SIGINT, on_signal);
    handle(SIGTERM, on_signal);
    handle(SIGPIPE, SIG_IGN);
    handle(SIGXFSZ, SIG_IGN);
}

/* Set before the handler is there. */
static bool (*mend_fault)(const void *address);

static void on_fault(int sig, siginfo_t *about, void *context)
{
    (void)context;
    bool of_kernel = about->si_code > 0; /* else another process sent it, without an address */
    if (of_kernel && mend_fault(about->si_addr))
        return;
    signal(sig, SIG_DFL);
    raise(sig); /* delivered when this handler returns */
}

void interrupt_on_fault(bool (*mend)(const void *address))
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    mend_fault = mend;
    sigaction(SIGBUS, &action, NULL);
}

void interrupt_after(double seconds)
{
    /* The first could come between a look at the flag and the wait behind it; the next
     * ones end it. */
    struct itimerval timer = {.it_interval = {.tv_usec = 100000}};
    timer.it_value.tv_sec = (time_t)seconds;
    timer.it_value.tv_usec = (suseconds_t)((seconds - (double)timer.it_value.tv_sec) * 1e6);
    if (timer.it_value.tv_sec == 0 && timer.it_value.tv_usec == 0)
        timer.it_value.tv_usec = 1;
    handle(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &timer, NULL);
}

int interrupt_pending(void)
{
    return terminated ? SIGTERM : timed_out ? SIGALRM : interrupted ? SIGINT : 0;
}

void interrupt_clear(void)
{
    interrupted = 0;
}

void interrupt_at_prompt(bool at_prompt)
{
    prompting = at_prompt;
    if (at_prompt)
        has_last = 0; /* what was interrupted has ended */
}

/* ---- Programs that kvctl starts ---- */

static int start_shell(pid_t *pid, const char *line, int in, int out)
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

int child_shell(pid_t *pid, const char *line, const char *text, size_t n, int out,
                bool (*goes_on)(void *arg), void *arg, int *unwritten)
{
    int ends[2] = {-1, -1};
    *unwritten = 0;
    if (text && pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    int failed = start_shell(pid, line, ends[0], out);
    if (!text)
        return failed;
    close(ends[0]);
    while (n > 0 && !failed) {
        ssize_t done = write(ends[1], text, n);
        if (done < 0 && errno == EINTR && goes_on(arg))
            continue;
        if (done <= 0) {
            *unwritten = done == 0 ? EIO : errno == EPIPE || errno == EINTR ? 0 : errno;
            break;
        }
        text += done;
        n -= (size_t)done;
    }
    close(ends[1]);
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
    own_stream *f = fopen(path, "re");
    while (f && fscanf(f, "%ld", &child) == 1)
        if (child > 1)
            child_tell((pid_t)child, signal);
    kill(pid, signal);
}

/* ---- stdout ---- */

static int reason; /* of the last write that failed */

/* Output that Ctrl-C cuts off counts as written: an error here would stay with the stream, and end
 * all later output. */
static ssize_t write_to_end(void *cookie, const char *text, size_t n)
{
    size_t done = 0;
    (void)cookie;
    while (done < n) {
        ssize_t got = write(STDOUT_FILENO, text + done, n - done);
        if (got > 0)
            done += (size_t)got;
        else if (got == 0 || errno != EINTR) {
            reason = got ? errno : EIO;
            break;
        } else if (interrupt_pending())
            return (ssize_t)n;
    }
    return (ssize_t)done;
}

int output_reason(void)
{
    return reason;
}

void output_install(void)
{
    FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_to_end});
    if (!f)
        return;
    setvbuf(f, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = f;
}
