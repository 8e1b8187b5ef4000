/* Sessions for targets that run texts of the language: see scripts.h. */
#include "scripts.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stop.h"
#include "fuzz.h"
#include "language.h"
#include "run/run.h"
#include "session/unit.h"
#include "syntax/read_unit.h"

static int64_t ends_at; /* in nanoseconds of clock_ns */

/* As if a SIGALRM had come. libFuzzer has the timers of the process for itself. */
static int time_is_up(void)
{
    return clock_ns() > ends_at ? SIGALRM : 0;
}

/* ---- The folder ------------------------------------------------------------------------------ */

/* A number for the names, sizes and times of all files. */
static uint64_t folder_sum(void)
{
    uint64_t sum = 0;
    struct dirent *d;
    DIR *all = opendir(".");
    HOLDS(all != NULL, "the folder is there");
    while ((d = readdir(all))) {
        struct stat st;
        if (strcmp(d->d_name, "..") == 0 || stat(d->d_name, &st) != 0)
            continue;
        uint64_t one = (uint64_t)st.st_size * 31 + (uint64_t)st.st_mtim.tv_nsec;
        for (const char *p = d->d_name; *p; p++)
            one = one * 1099511628211u + (unsigned char)*p;
        sum += strcmp(d->d_name, ".") == 0 ? 0 : one;
    }
    closedir(all);
    return sum;
}

static uint64_t files;

static void make_files(void)
{
    static const char text[] = "init 3 ones(2, 3); init 5 7; set-optimizer adam\n"
                               "push 3 ones(2, 3); save s.kvs; save-states t.safetensors\n"
                               "write [[1, 2], [3, 4]] a.csv; write range(4) a.npy\n"
                               "write ones(2) a.json\n";
    char folder[256];
    session s;
    kv_err e = {0};
    snprintf(folder, sizeof folder, "%s", fuzz_path(""));
    HOLDS(chdir(folder) == 0, folder);
    ends_at = INT64_MAX;
    session_init(&s);
    s.out.quiet = true;
    HOLDS(scripts_run(&s, text, strlen(text), &e) == KV_OK, e.text);
    session_release(&s);
    files = folder_sum();
}

/* ---- Sessions -------------------------------------------------------------------------------- */

void scripts_begin(session *s, int ms)
{
    if (!files) {
        language_init();
        stop_ask(time_is_up);
        make_files();
    }
    ends_at = clock_ns() + (int64_t)ms * 1000000;
    session_init(s);
    s->safe = true;
    s->out.quiet = true;
    s->interrupted = time_is_up;
    s->timeout = ms / 1000.0;
    s->seed = 1;
}

void scripts_end(session *s)
{
    session_release(s);
    fflush(stdout);
    HOLDS(folder_sum() == files, "--safe changes no file");
}

int scripts_run(session *s, const char *text, size_t n, kv_err *e)
{
    unit *u = NULL;
    char *copy = mem_text(text, n, e);
    int code = copy ? unit_read(s, &u, "<fuzz>", copy, n, 1, NULL, e) : KV_E_MEMORY;
    return code ? code : unit_run(s, u, e);
}
