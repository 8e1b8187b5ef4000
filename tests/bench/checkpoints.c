/* The commands on checkpoints beside plain loops over the same bytes, in turn, so that the ratio
 * holds on a busy machine.
 *
 *     checkpoints KVCTL FOLDER [MB [ROUNDS [JOB]]]
 *     checkpoints KVCTL FOLDER large [GB]
 *
 * The first: files of MB (1024) in FOLDER, best in memory; only jobs whose names hold JOB. The
 * second: what a checkpoint of GB (20), full of holes, needs.
 *
 * A loop reads, or reads and writes, with as many threads as kvctl uses, through buffers that stay
 * in a processor's cache. What is measured of kvctl is the whole process, from its start on. What
 * both write is synced, and both begin without the file. The page cache is warm.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "engine/pool.h"

enum { MAX_ROUNDS = 99, BUFFER = 512 << 10, KEYS = 64 };

extern char **environ;
static const char *kvctl;
static int rounds = 5;

static void fail(const char *what)
{
    fprintf(stderr, "checkpoints: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Writes the header of a file of n tensors of one shape and type; the data are a hole. */
static void make_header(const char *name, int64_t n, int64_t elements, tensor_type type,
                        int64_t first, int64_t *data, int64_t *size)
{
    kv_err e = {0};
    buf header = {0};
    safetensors_entry *entries = calloc((size_t)n, sizeof *entries);
    char (*names)[64] = calloc((size_t)n, sizeof *names);
    for (int64_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "model.layers.%lld.mlp.up_proj.weight",
                 (long long)(first + i));
        entries[i] = (safetensors_entry){.name = names[i], .type = type, .ndim = 1};
        entries[i].shape = &elements;
    }
    if (safetensors_header(&header, size, entries, n, NULL, 0, name, &e))
        fail(e.text);
    *data = (int64_t)header.len;
    int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd < 0 || write(fd, header.data, header.len) != (ssize_t)header.len ||
        ftruncate(fd, *size) != 0)
        fail("a file of the benchmark");
    close(fd);
    buf_release(&header);
    free(entries);
    free(names);
}

/* Finite numbers of about a normal distribution's size; changed: one in a hundred differs. */
static void fill(const char *name, int64_t data, int64_t size, tensor_type type, bool changed)
{
    static uint16_t block[1 << 20];
    uint64_t state = 1;
    int fd = open(name, O_WRONLY);
    for (int64_t at = data; at < size; at += (int64_t)sizeof block) {
        for (size_t i = 0; i < sizeof block / sizeof *block; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            uint16_t low = (uint16_t)(state >> 33);
            bool high = type == TENSOR_BF16 || i % 2;
            block[i] = high ? (uint16_t)((low & 0x81ff) | 0x3c00) : low;
            if (changed && high && (state >> 49) % 100 == 0)
                block[i] ^= 1;
        }
        int64_t n = size - at < (int64_t)sizeof block ? size - at : (int64_t)sizeof block;
        if (pwrite(fd, block, (size_t)n, at) != n)
            fail("a file of the benchmark");
    }
    close(fd);
}

static void make_file(const char *name, int64_t bytes, tensor_type type, bool changed)
{
    int64_t data, size;
    make_header(name, KEYS, bytes / KEYS / tensor_type_run_bytes(type), type, 0, &data, &size);
    fill(name, data, size, type, changed);
}

/* ---- Loops ----------------------------------------------------------------------------------- */

/* What a loop does: reads every file, and writes `factor` bytes for each byte of the first. */
typedef struct loop {
    const char *read[2];
    const char *write; /* NULL: nothing */
    double factor;
} loop;

typedef struct part {
    const loop *l;
    int number, of, in[2], out;
    int64_t size;
} part;

static void *run_part(void *arg)
{
    const part *p = arg;
    char *buffer = malloc(2 * BUFFER);
    memset(buffer, 1, 2 * BUFFER);
    int64_t from = p->size / p->of * p->number / BUFFER * BUFFER,
            to = p->number + 1 == p->of ? p->size
                                        : p->size / p->of * (p->number + 1) / BUFFER * BUFFER;
    for (int64_t at = from; at < to; at += BUFFER) {
        int64_t n = to - at < BUFFER ? to - at : BUFFER, m = (int64_t)((double)n * p->l->factor);
        for (int i = 0; i < 2; i++)
            if (p->l->read[i] && pread(p->in[i], buffer, (size_t)n, at) < 0)
                fail(p->l->read[i]);
        if (p->l->write &&
            pwrite(p->out, buffer, (size_t)m, (int64_t)((double)at * p->l->factor)) != m)
            fail(p->l->write);
    }
    free(buffer);
    return NULL;
}

static double run_loop(const loop *l)
{
    struct stat about;
    part p[POOL_MAX_WORKERS];
    pthread_t threads[POOL_MAX_WORKERS];
    int of = pool_workers(), in[2] = {-1, -1}, out = -1;
    if (l->write)
        unlink(l->write);
    double begin = now();
    for (int i = 0; i < 2; i++)
        if (l->read[i] && (in[i] = open(l->read[i], O_RDONLY)) < 0)
            fail("a file of the benchmark");
    if (l->write && (out = open(l->write, O_CREAT | O_WRONLY, 0644)) < 0)
        fail("a file of the benchmark");
    fstat(in[0], &about);
    for (int i = 0; i < of; i++) {
        p[i] = (part){l, i, of, {in[0], in[1]}, out, about.st_size};
        pthread_create(&threads[i], NULL, run_part, &p[i]);
    }
    for (int i = 0; i < of; i++)
        pthread_join(threads[i], NULL);
    if (l->write)
        fsync(out);
    double seconds = now() - begin;
    for (int i = 0; i < 2; i++)
        if (in[i] >= 0)
            close(in[i]);
    if (out >= 0)
        close(out);
    return seconds;
}

/* ---- kvctl ----------------------------------------------------------------------------------- */

/* Runs words in the folder; *kilobytes: the most that was resident. want: the exit status. */
static double run_kvctl(const char *const *words, int want, long *kilobytes)
{
    const char *argv[16] = {kvctl};
    int n = 1, status;
    struct rusage used;
    posix_spawn_file_actions_t files;
    pid_t pid;
    while (words[n - 1] && n < 15) {
        argv[n] = words[n - 1];
        n++;
    }
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    double begin = now();
    if (posix_spawn(&pid, kvctl, &files, NULL, (char *const *)argv, environ) ||
        wait4(pid, &status, 0, &used) != pid)
        fail(kvctl);
    double seconds = now() - begin;
    posix_spawn_file_actions_destroy(&files);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != want) {
        fprintf(stderr, "checkpoints: kvctl %s: exit status %d, not %d\n", words[0],
                WIFEXITED(status) ? WEXITSTATUS(status) : -1, want);
        exit(1);
    }
    *kilobytes = used.ru_maxrss;
    return seconds;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, ascending);
    return x[n / 2];
}

typedef struct job {
    const char *name, *words[12];
    int status; /* that kvctl ends with */
    loop beside;
    double bar;
} job;

static void run_job(const job *j)
{
    double ours[MAX_ROUNDS], theirs[MAX_ROUNDS], ratios[MAX_ROUNDS];
    long kilobytes = 0;
    for (int i = -1; i < rounds; i++) { /* the first round warms up */
        int k = i < 0 ? 0 : i;
        if (j->beside.write)
            unlink("out.safetensors");
        ours[k] = run_kvctl(j->words, j->status, &kilobytes);
        if (j->beside.write)
            unlink("out.safetensors");
        theirs[k] = run_loop(&j->beside);
        ratios[k] = theirs[k] / ours[k];
    }
    printf("%-28s %8.0f ms %8.0f ms %8.2f %6.2f %8.0f MB\n", j->name, median(ours, rounds) * 1e3,
           median(theirs, rounds) * 1e3, median(ratios, rounds), j->bar, (double)kilobytes / 1024);
    fflush(stdout);
}

static void compare(int64_t bytes, const char *only)
{
    static const job jobs[] = {
        {"hash", {"hash", "a.safetensors"}, 0, {{"a.safetensors"}, NULL, 0}, 0.9},
        {"hash --sha256",
         {"hash", "a.safetensors", "--sha256"},
         0,
         {{"a.safetensors"}, NULL, 0},
         0},
        {"diff, equal",
         {"diff", "a.safetensors", "b.safetensors"},
         0,
         {{"a.safetensors", "b.safetensors"}, NULL, 0},
         0.9},
        {"diff, 1 % differs",
         {"diff", "a.safetensors", "c.safetensors"},
         1,
         {{"a.safetensors", "c.safetensors"}, NULL, 0},
         0.9},
        {"stat bf16", {"stat", "a.safetensors"}, 0, {{"a.safetensors"}, NULL, 0}, 0.8},
        {"stat f32", {"stat", "f.safetensors"}, 0, {{"f.safetensors"}, NULL, 0}, 0.8},
        {"check", {"check", "a.safetensors"}, 0, {{"a.safetensors"}, NULL, 0}, 0},
        {"convert bf16 to f32",
         {"convert", "a.safetensors", "out.safetensors", "--dtype", "f32"},
         0,
         {{"a.safetensors"}, "out.loop", 2},
         0.9},
        {"convert f32 to bf16",
         {"convert", "f.safetensors", "out.safetensors", "--dtype", "bf16"},
         0,
         {{"f.safetensors"}, "out.loop", 0.5},
         0.9},
        {"convert, a copy",
         {"convert", "a.safetensors", "out.safetensors"},
         0,
         {{"a.safetensors"}, "out.loop", 1},
         0},
        {"patch, 1 % differs",
         {"patch", "a.safetensors", "c.safetensors", "--out", "ac.patch"},
         0,
         {{"a.safetensors", "c.safetensors"}, NULL, 0},
         0.8},
        {"patch, equal",
         {"patch", "a.safetensors", "b.safetensors", "--out", "ab.patch"},
         0,
         {{"a.safetensors", "b.safetensors"}, NULL, 0},
         0.8},
        {"apply, beside reading A and B",
         {"apply", "ac.patch", "a.safetensors", "--out", "out.safetensors"},
         0,
         {{"a.safetensors", "c.safetensors"}, NULL, 0},
         0},
        {"apply, beside A into B",
         {"apply", "ac.patch", "a.safetensors", "--out", "out.safetensors"},
         0,
         {{"a.safetensors"}, "out.loop", 1},
         0.8},
        {"apply --in-place and back",
         {"-c", "apply ac.patch a.safetensors --in-place; apply ca.patch a.safetensors --in-place"},
         0,
         {{"a.safetensors", "c.safetensors"}, NULL, 0},
         0},
    };
    char path[4096];
    long kilobytes;
    int64_t data, size;
    make_file("a.safetensors", bytes, TENSOR_BF16, false);
    make_file("b.safetensors", bytes, TENSOR_BF16, false);
    make_file("c.safetensors", bytes, TENSOR_BF16, true);
    make_file("f.safetensors", bytes, TENSOR_F32, false);
    const char *patches[][8] = {
        {"patch", "a.safetensors", "c.safetensors", "--out", "ac.patch"},
        {"patch", "c.safetensors", "a.safetensors", "--out", "ca.patch"}};
    for (int i = 0; i < 2; i++)
        run_kvctl(patches[i], 0, &kilobytes);
    printf("%-28s %11s %11s %8s %6s %11s\n", "", "kvctl", "loop", "ratio", "bar", "resident");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        if (strstr(jobs[i].name, only))
            run_job(&jobs[i]);
    make_header("many.safetensors", 10000, 4, TENSOR_F32, 0, &data, &size);
    const char *ls[] = {"ls", "many.safetensors", NULL};
    double times[MAX_ROUNDS];
    for (int i = 0; i < rounds; i++)
        times[i] = run_kvctl(ls, 0, &kilobytes);
    printf("%-28s %8.1f ms, at most 20\n", "ls of 10,000 keys", median(times, rounds) * 1e3);
    static const char *const made[] = {"a", "b", "c", "f", "many", "out"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        snprintf(path, sizeof path, "%s.safetensors", made[i]);
        unlink(path);
    }
    static const char *const others[] = {"out.loop", "ac.patch", "ab.patch", "ca.patch"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        unlink(others[i]);
}

/* ---- Large ----------------------------------------------------------------------------------- */

static void large(int64_t gigabytes)
{
    enum { SHARDS = 40, EACH = 8 };
    static const char *const jobs[][12] = {
        {"ls", "large/"},
        {"ls", "large/", "--fold"},
        {"hash", "large/"},
        {"stat", "large/"},
        {"check", "large/"},
        {"diff", "large/", "other/"},
        {"convert", "large/", "out.safetensors", "--dtype", "F8_E4M3"},
    };
    char name[4096];
    for (int k = 0; k < 2; k++) {
        const char *of = k ? "other" : "large";
        mkdir(of, 0755);
        for (int i = 0; i < SHARDS; i++) {
            int64_t data, size;
            snprintf(name, sizeof name, "%s/model-%05d-of-%05d.safetensors", of, i + 1, SHARDS);
            make_header(name, EACH, gigabytes * 1000000000 / SHARDS / EACH / 2, TENSOR_BF16,
                        i * EACH, &data, &size);
        }
    }
    printf("%lld GB in %d shards\n", (long long)gigabytes, SHARDS);
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        long kilobytes;
        int status = strcmp(jobs[i][0], "check") == 0; /* all keys are zero */
        double seconds = run_kvctl(jobs[i], status, &kilobytes);
        printf("%-28s %8.0f ms %8.0f MB, at most 256\n", jobs[i][0], seconds * 1e3,
               (double)kilobytes / 1024);
        fflush(stdout);
    }
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < SHARDS; i++) {
            snprintf(name, sizeof name, "%s/model-%05d-of-%05d.safetensors", k ? "other" : "large",
                     i + 1, SHARDS);
            unlink(name);
        }
        rmdir(k ? "other" : "large");
    }
    unlink("out.safetensors");
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: checkpoints KVCTL FOLDER [MB [ROUNDS [JOB]] | large [GB]]\n");
        return 2;
    }
    kvctl = realpath(argv[1], NULL);
    if (!kvctl || chdir(argv[2]) != 0)
        fail(argv[2]);
    if (argc > 3 && strcmp(argv[3], "large") == 0) {
        large(argc > 4 ? atoll(argv[4]) : 20);
        return 0;
    }
    if (argc > 4)
        rounds = atoi(argv[4]);
    rounds = rounds < 1 ? 1 : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
    compare((argc > 3 ? atoll(argv[3]) : 1024) << 20, argc > 5 ? argv[5] : "");
    return 0;
}
