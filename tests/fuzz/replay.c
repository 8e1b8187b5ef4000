/* Runs every fuzz target over the files of its corpus, compiled as the tests are: inputs that once
 * found a fault are regression tests everywhere, without clang. Then come N inputs (1000) made of
 * these files by the lies of lies.c and the mutator of the target.
 *
 *     build/fuzz_replay [-n N] [-s SEED] [NAME…]
 *     build/fuzz_replay -s SEED -f I NAME >FILE     writes input I of a seed, and runs nothing
 *
 * Each target runs in a process of its own, with a time limit for each input, and may neither keep
 * files open nor memory. What its sessions say is shown when targets are named. */
#include <dirent.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "lies.h"

typedef int target_run(const uint8_t *data, size_t n);
typedef size_t target_mutate(uint8_t *data, size_t n, size_t max, unsigned seed);

#define FUZZ_TARGET(name)                                                                          \
    target_run fuzz_##name;                                                                        \
    target_mutate mutate_##name __attribute__((weak));
#include "fuzz_list.h"
#undef FUZZ_TARGET

static const struct target {
    const char *name;
    target_run *run;
    target_mutate *mutate; /* or NULL */
} targets[] = {
#define FUZZ_TARGET(name) {#name, fuzz_##name, mutate_##name},
#include "fuzz_list.h"
};
enum { NTARGETS = sizeof targets / sizeof *targets };
enum { SECONDS = 60, MOST_FILES = 200, INPUT = 1 << 16, MOST_KEPT = 100000 };

static int64_t inputs = 1000, only = -1; /* inputs: ten times as many of targets that are quick */
static uint64_t seed = 1;

/* What runs: a file of the corpus, or an input. The process that judges a target sees it. */
static struct running {
    char file[256];
    int64_t input;
} * running;

static struct {
    char name[256];
    char *text;
    size_t n;
} files[MOST_FILES];
static int nfiles;

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void read_files(const char *corpus)
{
    struct dirent *d;
    DIR *all = opendir(corpus);
    HOLDS(all != NULL, corpus);
    while ((d = readdir(all))) {
        kv_err e = {0};
        char path[600];
        if (d->d_name[0] == '.')
            continue;
        HOLDS(nfiles < MOST_FILES, corpus);
        snprintf(path, sizeof path, "%s/%s", corpus, d->d_name);
        snprintf(files[nfiles].name, sizeof files->name, "%s", d->d_name);
        HOLDS(file_read(path, &files[nfiles].text, &files[nfiles].n, &e) == KV_OK, e.text);
        nfiles++;
    }
    closedir(all);
    HOLDS(nfiles > 0, corpus);
    qsort(files, (size_t)nfiles, sizeof *files, by_name);
}

/* Input i, which depends on the seed and the corpus alone; gives its bytes. */
static size_t make_input(const struct target *t, int64_t i, uint8_t data[INPUT])
{
    lies_begin(seed << 32 ^ (uint64_t)i);
    int k = (int)lies_draw((uint64_t)nfiles);
    size_t n = files[k].n < INPUT ? files[k].n : INPUT;
    memcpy(data, files[k].text, n);
    bool by_target = t->mutate && lies_draw(4);
    return by_target ? t->mutate(data, n, INPUT, (unsigned)lies_draw(1u << 31))
                     : LLVMFuzzerMutate(data, n, INPUT);
}

/* Runs what lies in memory of its own size. */
static void run_input(const struct target *t, const void *data, size_t n)
{
    int fd = dup(1);
    close(fd);
    uint8_t *copy = malloc(n);
    HOLDS(copy || n == 0, "memory");
    memcpy(copy, data, n);
    alarm(SECONDS);
    t->run(copy, n);
    alarm(0);
    free(copy);
    int after = dup(1);
    close(after);
    HOLDS(fd == after, "files are closed");
}

static int64_t inputs_of(const struct target *t)
{
    static const char *const quick[] = {"csv", "json", "merge", "parse", "rule"};
    for (size_t i = 0; i < sizeof quick / sizeof *quick; i++)
        if (strcmp(quick[i], t->name) == 0)
            return 10 * inputs;
    return inputs;
}

/* Without the blocks that mem_alloc_data keeps for the next: one that is larger than all of them
 * gives them back. */
static size_t in_use(void)
{
    mem_free_data(mem_alloc_data((int64_t)257 << 20, NULL));
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

static void run_all(const struct target *t)
{
    static uint8_t data[INPUT];
    size_t before = 0;
    fuzz_small = true;
    for (int i = 0; i < nfiles; i++) {
        strcpy(running->file, files[i].name);
        run_input(t, files[i].text, files[i].n);
    }
    running->file[0] = '\0';
    for (int64_t i = 0, n = inputs_of(t); i < n; i++) {
        running->input = i;
        run_input(t, data, make_input(t, i, data));
        if (i == n / 2)
            before = in_use();
    }
    if (inputs >= 100)
        HOLDS(in_use() < before + MOST_KEPT + 16 * (size_t)inputs, "memory is released");
    /* Lies that are all seen at once say little. */
    if (fuzz_opened >= 1000)
        HOLDS(fuzz_readable > fuzz_opened / 200 && fuzz_findings > fuzz_opened / 20, "good lies");
}

/* Other targets that read texts of the same kind: whose words and whose files they share. */
static const struct relation {
    const char *name, *words, *files;
} relations[] = {
    {"complete", "script", "parse"}, {"parse", "script", "script"}, {"states", "store", NULL}};
enum { NRELATIONS = sizeof relations / sizeof *relations };

static const char *path_of(const char *format, const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, format, name);
    return path;
}

static void begin_target(const struct target *t)
{
    static const char dictionary[] = "tests/fuzz/%s.dict", corpus[] = "tests/fuzz/corpus/%s";
    lies_dictionary(path_of(dictionary, t->name));
    read_files(path_of(corpus, t->name));
    for (int i = 0; i < NRELATIONS; i++) {
        const struct relation *r = &relations[i];
        if (strcmp(r->name, t->name) != 0)
            continue;
        lies_dictionary(path_of(dictionary, r->words));
        if (r->files)
            read_files(path_of(corpus, r->files));
    }
}

/* Returns the exit status of the target's process. */
static int run_target(const struct target *t, bool quiet)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        begin_target(t);
        HOLDS(!quiet || (freopen("/dev/null", "w", stdout) && freopen("/dev/null", "w", stderr)),
              "/dev/null");
        run_all(t);
        exit(0);
    }
    HOLDS(child > 0 && waitpid(child, &status, 0) == child, "a process for the target");
    return status;
}

static void report(int number, const struct target *t, int status)
{
    printf("%s %d - fuzz %s: its corpus and %lld lies\n", status ? "not ok" : "ok", number, t->name,
           (long long)inputs_of(t));
    if (status == 0)
        return;
    printf("# it ended with %s %d in ", WIFSIGNALED(status) ? "signal" : "exit status",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (running->file[0])
        printf("corpus/%s/%s\n", t->name, running->file);
    else
        printf("input %lld of seed %llu: -s %llu -f %lld %s\n", (long long)running->input,
               (unsigned long long)seed, (unsigned long long)seed, (long long)running->input,
               t->name);
}

static void write_input(const struct target *t)
{
    static uint8_t data[INPUT];
    begin_target(t);
    size_t n = make_input(t, only, data);
    fwrite(data, 1, n, stdout);
}

static bool is_wanted(const char *name, char **names)
{
    for (char **n = names; *n; n++)
        if (strcmp(*n, name) == 0)
            return true;
    return !*names;
}

int main(int argc, char **argv)
{
    int n = 0, failed = 0;
    for (int option; (option = getopt(argc, argv, "n:s:f:")) != -1;)
        switch (option) {
        case 'n':
            inputs = atoll(optarg);
            break;
        case 's':
            seed = strtoull(optarg, NULL, 10);
            break;
        case 'f':
            only = atoll(optarg);
            break;
        default:
            return 2;
        }
    running =
        mmap(NULL, sizeof *running, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    HOLDS(running != MAP_FAILED, "memory");
    for (int i = 0; i < NTARGETS; i++) {
        if (!is_wanted(targets[i].name, argv + optind))
            continue;
        if (only >= 0) {
            write_input(&targets[i]);
            return 0;
        }
        int status = run_target(&targets[i], optind == argc);
        failed += status != 0;
        report(++n, &targets[i], status);
    }
    printf("1..%d\n", n);
    return failed > 0;
}
