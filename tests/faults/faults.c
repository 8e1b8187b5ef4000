/* Which call fails: see faults.h. */
#include "faults.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int errors[FAULT_KINDS] = {ENOMEM, EMFILE, EIO,    ENOSPC, EIO,
                                        EACCES, ENOMEM, ENOSPC, EIO};

static fault_plan plan;
static char wanted[256]; /* the name of a file; "": any */
static fault_page own, *page = &own;
static atomic_bool begun;

void faults_begin(const fault_plan *of, const char *path, fault_page *to)
{
    plan = *of;
    snprintf(wanted, sizeof wanted, "%s", path ? path : "");
    page = to ? to : &own;
    begun = true;
}

void faults_end(void)
{
    begun = false;
}

static _Thread_local int pauses;

void faults_pause(void)
{
    pauses++;
}

void faults_go_on(void)
{
    pauses--;
}

static bool is_wanted(const char *path, int fd)
{
    char link[64], real[4096];
    if (!*wanted)
        return true;
    if (!path && fd >= 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, real, sizeof real - 1);
        real[n > 0 ? n : 0] = '\0';
        path = real;
    }
    const char *slash = path ? strrchr(path, '/') : NULL;
    return path && strcmp(slash ? slash + 1 : path, wanted) == 0;
}

/* A place for a debugger: `break fault_hit`. */
__attribute__((noinline)) void fault_hit(void);
void fault_hit(void)
{
    __asm__ volatile("");
}

bool faults_hits(fault_kind kind, const char *path, int fd)
{
    if (!begun || pauses > 0 || !is_wanted(path, fd))
        return false;
    int64_t mine = atomic_fetch_add(&page->made[kind], 1) + 1;
    bool hit = (int)kind == plan.kind && plan.at > 0 && mine >= plan.at &&
               (plan.ever || mine <= plan.at + plan.more);
    if (!hit)
        return false;
    fault_hit();
    atomic_fetch_add(&page->hits, 1);
    errno = plan.error < 0 ? 0 : plan.error ? plan.error : errors[kind];
    return true;
}
