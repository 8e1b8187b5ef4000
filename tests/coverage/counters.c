/* Linked into each program and shared object of a build that counts what tests reach: their
 * processes add their counts also when they end by _exit, as a rank that fails does. gcc's runtime
 * does so only at exit, and has the counters of each object apart.
 * A file of counts is written at once. The runtime leaves out counts of zero, so that blocks of two
 * states do not fit together, as a process leaves them that is killed between them; then no other
 * could add to the file ("Merge mismatch").
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

void __gcov_dump(void); /* adds the counts of this object to its files */

typedef struct counters counters;

struct counters {
    void (*dump)(void);
    counters *next;
};

/* Of the process: the loader makes one of those in all objects. */
counters *counters_list;

static counters own = {.dump = __gcov_dump};

__attribute__((constructor)) static void enter(void)
{
    own.next = counters_list;
    counters_list = &own;
}

/* A plugin may be closed before the process ends. */
__attribute__((destructor)) static void leave(void)
{
    counters **at = &counters_list;
    while (*at && *at != &own)
        at = &(*at)->next;
    if (*at)
        *at = own.next;
}

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

/* Of the library that lets calls fail, where it is loaded: the runtime needs memory and files. */
void faults_pause(void) __attribute__((weak));

_Noreturn void __wrap__exit(int status)
{
    if (faults_pause)
        faults_pause();
    for (counters *c = counters_list; c; c = c->next)
        c->dump();
    __real__exit(status);
}

/* Larger than any file of counts; the runtime has one open at a time. */
static char whole_file[1 << 18];

FILE *__real_fdopen(int fd, const char *mode);
FILE *__wrap_fdopen(int fd, const char *mode);

FILE *__wrap_fdopen(int fd, const char *mode)
{
    FILE *f = __real_fdopen(fd, mode);
    if (f && strcmp(mode, "r+b") == 0) /* how the runtime opens them */
        setvbuf(f, whole_file, _IOFBF, sizeof whole_file);
    return f;
}
