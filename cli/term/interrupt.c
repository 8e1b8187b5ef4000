/* The handlers behind interrupt.h. They only set flags and look at the clock, which POSIX allows in
 * a handler. */
#include "term/interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define TWICE_SECONDS 2 /* two Ctrl-C this close end the process */

/* Atomic, since threads of the pool ask too; without locks, as handlers need it. */
static atomic_int interrupted, terminated, timed_out;
static volatile sig_atomic_t prompting;
/* Only the handler reads and writes it, and SIGINT is blocked while it runs. */
static struct timespec last;
static volatile sig_atomic_t has_last; /* of the statement that runs */

static bool soon_after_the_last(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds =
        (double)(now.tv_sec - last.tv_sec) + (double)(now.tv_nsec - last.tv_nsec) / 1e9;
    bool soon = has_last && seconds < TWICE_SECONDS;
    last = now;
    has_last = 1;
    return soon;
}

static void on_interrupt(int sig)
{
    if (prompting)
        has_last = 0;
    else if (soon_after_the_last())
        _exit(128 + sig);
    interrupted = 1;
}

static void on_terminate(int sig)
{
    (void)sig;
    terminated = 1;
}

static void on_alarm(int sig)
{
    (void)sig;
    timed_out = 1;
}

static void handle(int sig, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(sig, &action, NULL);
}

void interrupt_install(void)
{
    handle(SIGINT, on_interrupt);
    handle(SIGTERM, on_terminate);
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
    handle(SIGALRM, on_alarm);
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
