/* The commands on checkpoints beside plain loops over the same bytes, in turn, so that the ratio
 * holds on a busy machine.
 *
 *     checkpoints KVCTL FOLDER [MB [ROUNDS [JOB]]]
 *     checkpoints KVCTL FOLDER large [GB [JOB]]
 *
 * The first: files of MB (1024) in FOLDER, best in memory; only jobs whose names hold JOB. The
 * second: what checkpoints of GB (20), full of holes, need.
 *
 * A loop reads, or reads and writes, with as many threads as kvctl uses, through buffers that stay
 * in a processor's cache. What is measured of kvctl is the whole process, from its start on. What
 * both write is synced, and both begin without the file. The page cache is warm. Where a rule needs
 * several passes, the loop reads all of its files as often.
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
#include "measure.h"

enum { MAX_ROUNDS = 99, BUFFER = 512 << 10, KEYS = 64, MOST_READ = 5 };

extern char **environ;
static const char *kvctl;
static int rounds = 5;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "checkpoints: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Writes the header of a file of n tensors of one shape and type; the data are a hole. */
static void make_header(const char *name, int64_t n, int64_t elements, tensor_type type,
                        int64_t first, int64_t *data, int64_t *size)
{
    kv_err e = {0};
    buf header = {0};
    safetensors_entry *entries = calloc((size_t)n, sizeof *entries);
    char(*names)[64] = calloc((size_t)n, sizeof *names);
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

/* Finite numbers of about a normal distribution's size, by seed; changed: one in a hundred of those
 * of the seed differs. */
static void fill(const char *name, int64_t data, int64_t size, tensor_type type, uint64_t seed,
                 bool changed)
{
    static uint16_t block[1 << 20];
    uint64_t state = seed;
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

typedef struct model {
    const char *name;
    tensor_type type;
    uint64_t seed;
    bool changed;
} model;

static const model models[] = {
    {"a.safetensors", TENSOR_BF16, 1, false}, {"b.safetensors", TENSOR_BF16, 1, false},
    {"c.safetensors", TENSOR_BF16, 1, true},  {"d.safetensors", TENSOR_BF16, 2, false},
    {"e.safetensors", TENSOR_BF16, 3, false}, {"f.safetensors", TENSOR_F32, 1, false},
    {"g.safetensors", TENSOR_F32, 2, false},  {"h.safetensors", TENSOR_F32, 3, false},
    {"i.safetensors", TENSOR_F32, 4, false},
};
enum { MODELS = sizeof models / sizeof *models };

static void make_file(const model *m, int64_t bytes)
{
    int64_t data, size;
    make_header(m->name, KEYS, bytes / KEYS / tensor_type_run_bytes(m->type), m->type, 0, &data,
                &size);
    fill(m->name, data, size, m->type, m->seed, m->changed);
}

/* ---- Loops ----------------------------------------------------------------------------------- */

/* What a loop does: reads every file, and writes `factor` bytes for each byte of the first. Before
 * that it reads all of them `more` times. */
typedef struct loop {
    const char *read[MOST_READ];
    const char *write; /* NULL: nothing */
    double factor;
    int more;
} loop;

typedef struct part {
    const loop *l;
    int number, of, in[MOST_READ], out;
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
    for (int pass = p->l->more; pass >= 0; pass--)
        for (int64_t at = from; at < to; at += BUFFER) {
            int64_t n = to - at < BUFFER ? to - at : BUFFER,
                    m = (int64_t)((double)n * p->l->factor);
            for (int i = 0; i < MOST_READ; i++)
                if (p->l->read[i] && pread(p->in[i], buffer, (size_t)n, at) < 0)
                    fail(p->l->read[i]);
            if (pass == 0 && p->l->write &&
                pwrite(p->out, buffer, (size_t)m, (int64_t)((double)at * p->l->factor)) != m)
                fail(p->l->write);
        }
    free(buffer);
    return NULL;
}

static double run_loop(const loop *l)
{
    struct stat about;
    part whole = {.l = l, .of = pool_workers(), .out = -1}, p[POOL_MAX_WORKERS];
    pthread_t threads[POOL_MAX_WORKERS];
    if (l->write)
        unlink(l->write);
    double begin = now();
    for (int i = 0; i < MOST_READ; i++)
        if (l->read[i] && (whole.in[i] = open(l->read[i], O_RDONLY)) < 0)
            fail("a file of the benchmark");
    if (l->write && (whole.out = open(l->write, O_CREAT | O_WRONLY, 0644)) < 0)
        fail("a file of the benchmark");
    fstat(whole.in[0], &about);
    whole.size = about.st_size;
    for (int i = 0; i < whole.of; i++) {
        p[i] = whole;
        p[i].number = i;
        pthread_create(&threads[i], NULL, run_part, &p[i]);
    }
    for (int i = 0; i < whole.of; i++)
        pthread_join(threads[i], NULL);
    if (l->write)
        fsync(whole.out);
    double seconds = now() - begin;
    for (int i = 0; i < MOST_READ; i++)
        if (l->read[i])
            close(whole.in[i]);
    if (l->write)
        close(whole.out);
    return seconds;
}

/* ---- kvctl ----------------------------------------------------------------------------------- */

/* Runs words in the folder; *kilobytes: the most that was resident. want: the exit status. */
static double run_kvctl(const char *const *words, int want, long *kilobytes)
{
    const char *argv[20] = {kvctl};
    int n = 1, status;
    struct rusage used;
    posix_spawn_file_actions_t files;
    pid_t pid;
    while (words[n - 1] && n < 19) {
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

typedef struct job {
    const char *name, *words[16];
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

/* The passes of ties over its inputs before the last one: one finds the least that is kept of every
 * model, when the sample that merge_select.h tells of serves. */
enum { TIES_MORE = 1 };

static const job jobs[] = {
    {"hash", {"hash", "a.safetensors"}, 0, {.read = {"a.safetensors"}}, 0.9},
    {"hash --sha256", {"hash", "a.safetensors", "--sha256"}, 0, {.read = {"a.safetensors"}}, 0},
    {"diff, equal",
     {"diff", "a.safetensors", "b.safetensors"},
     0,
     {.read = {"a.safetensors", "b.safetensors"}},
     0.9},
    {"diff, 1 % differs",
     {"diff", "a.safetensors", "c.safetensors"},
     1,
     {.read = {"a.safetensors", "c.safetensors"}},
     0.9},
    {"stat bf16", {"stat", "a.safetensors"}, 0, {.read = {"a.safetensors"}}, 0.8},
    {"stat f32", {"stat", "f.safetensors"}, 0, {.read = {"f.safetensors"}}, 0.8},
    {"check", {"check", "a.safetensors"}, 0, {.read = {"a.safetensors"}}, 0},
    {"convert bf16 to f32",
     {"convert", "a.safetensors", "out.safetensors", "--dtype", "f32"},
     0,
     {.read = {"a.safetensors"}, .write = "out.loop", .factor = 2},
     0.9},
    {"convert f32 to bf16",
     {"convert", "f.safetensors", "out.safetensors", "--dtype", "bf16"},
     0,
     {.read = {"f.safetensors"}, .write = "out.loop", .factor = 0.5},
     0.9},
    {"convert, a copy",
     {"convert", "a.safetensors", "out.safetensors"},
     0,
     {.read = {"a.safetensors"}, .write = "out.loop", .factor = 1},
     0},
    {"patch, 1 % differs",
     {"patch", "a.safetensors", "c.safetensors", "--out", "out.patch"},
     0,
     {.read = {"a.safetensors", "c.safetensors"}},
     0.8},
    {"patch, equal",
     {"patch", "a.safetensors", "b.safetensors", "--out", "out.patch"},
     0,
     {.read = {"a.safetensors", "b.safetensors"}},
     0.8},
    {"apply, beside reading A and B",
     {"apply", "ac.patch", "a.safetensors", "--out", "out.safetensors"},
     0,
     {.read = {"a.safetensors", "c.safetensors"}},
     0},
    {"apply, beside A into B",
     {"apply", "ac.patch", "a.safetensors", "--out", "out.safetensors"},
     0,
     {.read = {"a.safetensors"}, .write = "out.loop", .factor = 1},
     0.8},
    {"apply --in-place and back",
     {"-c", "apply ac.patch a.safetensors --in-place; apply ca.patch a.safetensors --in-place"},
     0,
     {.read = {"a.safetensors", "c.safetensors"}},
     0},
    {"merge average bf16",
     {"merge", "average", "a.safetensors", "c.safetensors", "d.safetensors", "e.safetensors",
      "--out", "out.safetensors"},
     0,
     {.read = {"a.safetensors", "c.safetensors", "d.safetensors", "e.safetensors"},
      .write = "out.loop",
      .factor = 1},
     0.9},
    {"merge slerp bf16",
     {"merge", "slerp", "a.safetensors", "d.safetensors", "--t", "0.3", "--out", "out.safetensors"},
     0,
     {.read = {"a.safetensors", "d.safetensors"}, .write = "out.loop", .factor = 1, .more = 1},
     0.75},
    {"merge ties bf16",
     {"merge", "ties", "c.safetensors", "d.safetensors", "e.safetensors", "--base", "a.safetensors",
      "--density", "0.2", "--out", "out.safetensors"},
     0,
     {.read = {"a.safetensors", "c.safetensors", "d.safetensors", "e.safetensors"},
      .write = "out.loop",
      .factor = 1,
      .more = TIES_MORE},
     0.8},
    {"merge average f32",
     {"merge", "average", "f.safetensors", "g.safetensors", "h.safetensors", "i.safetensors",
      "--out", "out.safetensors"},
     0,
     {.read = {"f.safetensors", "g.safetensors", "h.safetensors", "i.safetensors"},
      .write = "out.loop",
      .factor = 1},
     0.9},
    {"merge slerp f32",
     {"merge", "slerp", "f.safetensors", "g.safetensors", "--t", "0.3", "--out", "out.safetensors"},
     0,
     {.read = {"f.safetensors", "g.safetensors"}, .write = "out.loop", .factor = 1, .more = 1},
     0.75},
    {"merge ties f32",
     {"merge", "ties", "g.safetensors", "h.safetensors", "i.safetensors", "--base", "f.safetensors",
      "--density", "0.2", "--out", "out.safetensors"},
     0,
     {.read = {"f.safetensors", "g.safetensors", "h.safetensors", "i.safetensors"},
      .write = "out.loop",
      .factor = 1,
      .more = TIES_MORE},
     0.8},
};
enum { JOBS = sizeof jobs / sizeof *jobs };

static bool is_apply(const job *j)
{
    return strncmp(j->name, "apply", 5) == 0;
}

/* Patches are made of a.safetensors and c.safetensors. */
static bool reads(const job *j, const char *file)
{
    bool found = is_apply(j) && (*file == 'a' || *file == 'c');
    for (int i = 0; i < MOST_READ && !found; i++)
        found = j->beside.read[i] && strcmp(j->beside.read[i], file) == 0;
    return found;
}

static void make_patches(void)
{
    static const char *const words[][8] = {
        {"patch", "a.safetensors", "c.safetensors", "--out", "ac.patch"},
        {"patch", "c.safetensors", "a.safetensors", "--out", "ca.patch"}};
    long kilobytes;
    for (int i = 0; i < 2 && access("ca.patch", F_OK) != 0; i++)
        run_kvctl(words[i], 0, &kilobytes);
}

/* Makes the files that a job reads; those that no chosen job from it on reads go. */
static void prepare(const job *j, int64_t bytes, const char *only)
{
    for (int k = 0; k < MODELS; k++) {
        bool is_there = access(models[k].name, F_OK) == 0, needed = false;
        for (const job *later = j; later < jobs + JOBS; later++)
            needed = needed || (strstr(later->name, only) && reads(later, models[k].name));
        if (is_there && !needed)
            unlink(models[k].name);
        if (!is_there && reads(j, models[k].name))
            make_file(&models[k], bytes);
    }
    if (is_apply(j))
        make_patches();
}

static void compare(int64_t bytes, const char *only)
{
    static const char *const others[] = {"out.safetensors", "out.loop", "out.patch", "ac.patch",
                                         "ca.patch"};
    printf("%-28s %11s %11s %8s %6s %11s\n", "", "kvctl", "loop", "ratio", "bar", "resident");
    for (const job *j = jobs; j < jobs + JOBS; j++)
        if (strstr(j->name, only)) {
            prepare(j, bytes, only);
            run_job(j);
        }
    for (int k = 0; k < MODELS; k++)
        unlink(models[k].name);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        unlink(others[i]);
}

static void list_many(void)
{
    const char *ls[] = {"ls", "many.safetensors", NULL};
    double times[MAX_ROUNDS];
    long kilobytes;
    int64_t data, size;
    make_header("many.safetensors", 10000, 4, TENSOR_F32, 0, &data, &size);
    for (int i = 0; i < rounds; i++)
        times[i] = run_kvctl(ls, 0, &kilobytes);
    printf("%-28s %8.1f ms, at most 20\n", "ls of 10,000 keys", median(times, rounds) * 1e3);
    unlink("many.safetensors");
}

/* ---- Large ----------------------------------------------------------------------------------- */

enum { SHARDS = 40, EACH = 8 };

/* A folder of so many GB of holes in shards, or without them again. */
static void make_large(const char *folder, int64_t gigabytes)
{
    char name[4096];
    int64_t data, size;
    mkdir(folder, 0755);
    for (int i = 0; i < SHARDS; i++) {
        snprintf(name, sizeof name, "%s/model-%05d-of-%05d.safetensors", folder, i + 1, SHARDS);
        make_header(name, EACH, gigabytes * 1000000000 / SHARDS / EACH / 2, TENSOR_BF16, i * EACH,
                    &data, &size);
    }
}

static void remove_large(const char *folder)
{
    char name[4096];
    for (int i = 0; i < SHARDS; i++) {
        snprintf(name, sizeof name, "%s/model-%05d-of-%05d.safetensors", folder, i + 1, SHARDS);
        unlink(name);
    }
    rmdir(folder);
}

static void large(int64_t gigabytes, const char *only)
{
    static const char *const folders[] = {"large", "other", "m3", "m4", "m5", "m6", "m7", "m8"};
    static const char *const work[][16] = {
        {"ls", "large/"},
        {"ls", "large/", "--fold"},
        {"hash", "large/"},
        {"stat", "large/"},
        {"check", "large/"},
        {"diff", "large/", "other/"},
        {"convert", "large/", "out.safetensors", "--dtype", "F8_E4M3"},
        {"merge", "average", "large/", "other/", "m3/", "m4/", "m5/", "m6/", "m7/", "m8/", "--out",
         "out.safetensors"},
    };
    for (int i = 0; i < 8; i++)
        make_large(folders[i], gigabytes);
    printf("%lld GB in %d shards\n", (long long)gigabytes, SHARDS);
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        long kilobytes;
        int status = strcmp(work[i][0], "check") == 0; /* all keys are zero */
        if (!strstr(work[i][0], only))
            continue;
        double seconds = run_kvctl(work[i], status, &kilobytes);
        printf("%-28s %8.0f ms %8.0f MB, at most 256\n", work[i][0], seconds * 1e3,
               (double)kilobytes / 1024);
        fflush(stdout);
        unlink("out.safetensors");
    }
    for (int i = 0; i < 8; i++)
        remove_large(folders[i]);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: checkpoints KVCTL FOLDER [MB [ROUNDS [JOB]] | large [GB [JOB]]]\n");
        return 2;
    }
    kvctl = realpath(argv[1], NULL);
    if (!kvctl || chdir(argv[2]) != 0)
        fail(argv[2]);
    if (argc > 3 && strcmp(argv[3], "large") == 0) {
        large(argc > 4 ? atoll(argv[4]) : 20, argc > 5 ? argv[5] : "");
        return 0;
    }
    if (argc > 4)
        rounds = atoi(argv[4]);
    rounds = rounds < 1 ? 1 : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
    compare((argc > 3 ? atoll(argv[3]) : 1024) << 20, argc > 5 ? argv[5] : "");
    list_many();
    return 0;
}
