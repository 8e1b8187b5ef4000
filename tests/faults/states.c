/* What a disk may hold after the power fails while files are written: every state that the recorded
 * calls of a writer allow is built (disk.h), and each file, and each folder with all that is in it,
 * must be as before or as afterwards.
 *
 *     states [-p PAGE] [-m MOST] [-n NESTED] [-s SEED] [-e NAME] LOG BEFORE AFTER
 *
 * LOG was recorded by calls.c in a folder that held what the folder BEFORE holds, and then what
 * AFTER holds. Names that begin with a dot are temporary, and .part ends one that is kept on
 * purpose; NAME may also be empty. Where a change in place left its journal, our reader opens the
 * file first: then it must be old or new and the journal gone.
 *
 * All states of a call are tried where there are at most MOST (10000), else that many: those where
 * one thing alone happened or did not, and others at random. The reader's own calls, when it ends a
 * change, are crashed in the same way, with NESTED states (200) at most for each of its calls.
 *
 * The last line gives the numbers; a state that reads as anything else is left in a folder, and the
 * exit status is 1.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../memory.h"
#include "base/xxh64.h"
#include "checkpoint/checkpoint.h"
#include "disk.h"

static struct {
    int64_t page, most, nested;
    uint64_t seed;
    const char *empty;
    tree before, after;
    char scratch[64];
    char logs[2][96];
    int64_t points, sampled, states, nested_states, found_a, found_b;
} test = {.page = 4096, .most = 10000, .nested = 200, .seed = 1, .empty = ""};

/* ---- States that were seen ------------------------------------------------------------------- */

static struct {
    uint64_t *sums;
    int64_t n, cap;
} seen;

static uint64_t sum_of(const tree *t)
{
    uint64_t sum = 0;
    for (int i = 0; i < t->n; i++)
        sum = sum * 31 + xxh64(t->files[i].data ? t->files[i].data : "", t->files[i].n) *
                             (xxh64(t->files[i].path, strlen(t->files[i].path)) | 1);
    return sum ? sum : 1;
}

static bool is_new(uint64_t sum)
{
    if (2 * seen.n >= seen.cap) {
        uint64_t *old = seen.sums;
        int64_t cap = seen.cap;
        seen.cap = cap ? 2 * cap : 1 << 16;
        seen.sums = calloc((size_t)seen.cap, sizeof *seen.sums);
        if (!seen.sums)
            disk_stop("no memory");
        seen.n = 0;
        for (int64_t i = 0; i < cap; i++)
            if (old[i])
                is_new(old[i]);
        free(old);
    }
    int64_t i = (int64_t)(sum % (uint64_t)seen.cap);
    for (; seen.sums[i]; i = (i + 1) % seen.cap)
        if (seen.sums[i] == sum)
            return false;
    seen.sums[i] = sum;
    seen.n++;
    return true;
}

/* ---- Checking a state ------------------------------------------------------------------------ */

static void put_state(const tree *t)
{
    tree now = tree_read(test.scratch);
    tree_write(test.scratch, &now, t);
    tree_release(&now);
}

static void fail(const tree *t, const char *why, const char *name)
{
    put_state(t);
    printf("%s: %s, in the state that is left in %s\n", name, why, test.scratch);
    exit(1);
}

/* The first name of a journal, NULL: there is none. */
static const char *journal(const tree *t)
{
    for (int i = 0; i < t->n; i++)
        if (strstr(t->files[i].path, ".kv-journal"))
            return t->files[i].path;
    return NULL;
}

/* The tree without temporary files. Files are borrowed. */
static tree settled(const tree *t)
{
    tree s = {malloc((size_t)(t->n + 1) * sizeof *s.files), 0};
    for (int i = 0; i < t->n; i++) {
        const char *path = t->files[i].path, *part = strstr(path, ".part");
        bool emptied = t->files[i].n == 0 && strcmp(path, test.empty) == 0;
        if (path[0] != '.' && !(part && !part[5]) && !emptied)
            s.files[s.n++] = t->files[i];
    }
    return s;
}

static void check_files(const tree *state, const tree *t)
{
    tree s = settled(t);
    const char *odd = tree_odd(&s, &test.before, &test.after, test.empty);
    if (odd)
        fail(state, "neither old nor new", odd);
    test.found_a += tree_same(&s, &test.before);
    test.found_b += tree_same(&s, &test.after);
    free(s.files);
}

/* Our reader, whose calls are recorded, opens the file of a journal. */
static void check_read(const tree *t, const char *name, const char *log)
{
    char path[400], why[700];
    kv_err e = {0};
    checkpoint *c = NULL;
    put_state(t);
    snprintf(path, sizeof path, "%s/%.*s", test.scratch,
             (int)(strstr(name, ".kv-journal") - name - 1), name + 1);
    calls_record(test.scratch, log);
    int code = checkpoint_open(&c, path, NULL, &e);
    calls_record(NULL, NULL);
    checkpoint_close(c);
    if (code) {
        snprintf(why, sizeof why, "an error: %s", e.text);
        fail(t, why, name);
    }
    tree got = tree_read(test.scratch);
    if (journal(&got))
        fail(t, "it stays", name);
    check_files(t, &got);
    tree_release(&got);
}

static void explore(const tree *start, const char *log, int depth);

static void try_state(const disk *d, const choice *list, int n, int depth)
{
    tree t = disk_state(d, list, n);
    if (is_new(sum_of(&t))) {
        const char *name = journal(&t);
        test.states++;
        test.nested_states += depth;
        if (!name)
            check_files(&t, &t);
        else
            check_read(&t, name, test.logs[depth]);
        if (name && depth == 0)
            explore(&t, test.logs[0], 1);
    }
    tree_release(&t);
}

/* ---- All states ------------------------------------------------------------------------------ */

static uint64_t draw(void)
{
    uint64_t x = test.seed += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static void try_all(const disk *d, choice *list, int n, int depth)
{
    for (int i = 0; i < n;) {
        if (i == 0)
            try_state(d, list, n, depth);
        /* the next number of n digits */
        if (++list[i].way < list[i].ways)
            i = 0;
        else
            list[i++].way = 0;
    }
    if (n == 0)
        try_state(d, list, n, depth);
}

/* Everything happened, or nothing, but for one thing. */
static void try_but_one(const disk *d, choice *list, int n, bool all, int depth)
{
    for (int one = -1; one < n; one++) {
        for (int i = 0; i < n; i++)
            list[i].way = (i == one) != all ? list[i].ways - 1 : 0;
        try_state(d, list, n, depth);
    }
}

static void try_some(const disk *d, choice *list, int n, int64_t most, int depth)
{
    try_but_one(d, list, n, false, depth);
    try_but_one(d, list, n, true, depth);
    for (int64_t k = 2 * n + 2; k < most; k++) {
        for (int i = 0; i < n; i++)
            list[i].way = (int)(draw() % (uint64_t)list[i].ways);
        try_state(d, list, n, depth);
    }
}

/* The power fails here. */
static void crash(const disk *d, int depth)
{
    choice list[CHOICES];
    int n = disk_choices(d, list);
    int64_t all = 1, most = depth ? test.nested : test.most;
    for (int i = 0; i < n && all <= most; i++)
        all *= list[i].ways;
    test.points += depth == 0;
    test.sampled += depth == 0 && all > most;
    if (all <= most)
        try_all(d, list, n, depth);
    else
        try_some(d, list, n, most, depth);
}

static void take(const tree_file *log, size_t *at, void *to, size_t n)
{
    if (*at + n > log->n)
        disk_stop("a log is cut");
    memcpy(to, log->data + *at, n);
    *at += n;
}

/* Leaves out what no call of the log is about, so that it is not built again for every state. */
static tree touched(const tree *t, const char *names)
{
    tree s = {malloc((size_t)(t->n + 1) * sizeof *s.files), 0};
    char word[300];
    for (int i = 0; i < t->n; i++) {
        const char *path = t->files[i].path;
        snprintf(word, sizeof word, "\n%.*s\n", (int)strcspn(path, "/"), path);
        if (strstr(names, word))
            s.files[s.n++] = t->files[i];
    }
    return s;
}

/* The names of a log directly below the folder, each on a line. */
static char *names_of(const char *path)
{
    tree_file log = {.data = NULL};
    tree_read_file(&log, path);
    char *names = calloc(1, log.n + 2);
    names[0] = '\n';
    for (size_t at = 0; at < log.n;) {
        calls_head h;
        take(&log, &at, &h, sizeof h);
        for (int i = 0; i < 2; i++) {
            char name[200] = "";
            if ((i ? h.other : h.name) >= sizeof name)
                disk_stop("a name is too long");
            take(&log, &at, name, i ? h.other : h.name);
            name[strcspn(name, "/")] = '\0';
            strcat(strcat(names, name), "\n");
        }
        at += h.data;
    }
    free(log.data);
    return names;
}

/* Runs the calls of a log on a disk that holds this state, and lets the power fail behind each. */
static void explore(const tree *start, const char *path, int depth)
{
    static disk disks[2];
    disk *d = &disks[depth];
    tree_file log = {.data = NULL};
    if (access(path, R_OK) != 0)
        return;
    tree_read_file(&log, path);
    disk_from(d, start, test.page);
    for (size_t at = 0; at < log.n;) {
        calls_head h;
        char name[200] = "", other[200] = "";
        take(&log, &at, &h, sizeof h);
        if (h.name >= sizeof name || h.other >= sizeof other)
            disk_stop("a name is too long");
        take(&log, &at, name, h.name);
        take(&log, &at, other, h.other);
        char *data = malloc(h.data + 1);
        take(&log, &at, data, h.data);
        disk_apply(d, &h, name, other, data);
        free(data);
        crash(d, depth);
    }
    disk_release(d);
    free(log.data);
}

int main(int argc, char **argv)
{
    for (int c; (c = getopt(argc, argv, "p:m:n:s:e:")) > 0;) {
        if (c == 'e') {
            test.empty = optarg;
            continue;
        }
        int64_t value = atoll(optarg);
        *(c == 'p'   ? &test.page
          : c == 'm' ? &test.most
          : c == 'n' ? &test.nested
                     : (int64_t *)&test.seed) = value;
    }
    if (argc - optind != 3)
        disk_stop("usage: states [-p PAGE] [-m MOST] [-n NESTED] [-s SEED] [-e NAME] LOG BEFORE "
                  "AFTER");
    char **arg = argv + optind;
    mallopt(M_TRIM_THRESHOLD, 1 << 28); /* states come and go */
    mallopt(M_MMAP_THRESHOLD, 1 << 28);
    if (!mkdtemp(memory_path(test.scratch, sizeof test.scratch, "kv-states")))
        disk_stop("cannot make a folder");
    for (int i = 0; i < 2; i++)
        snprintf(test.logs[i], sizeof test.logs[i], "%s.log%d", test.scratch, i);
    test.before = tree_read(arg[1]);
    test.after = tree_read(arg[2]);
    char *names = names_of(arg[0]);
    int untouched = test.before.n, still = test.after.n;
    test.before = touched(&test.before, names);
    test.after = touched(&test.after, names);
    if (tree_same(&test.before, &test.after))
        disk_stop("BEFORE and AFTER are the same");
    if (untouched - test.before.n != still - test.after.n)
        disk_stop("a file came or went without a call");
    explore(&test.before, arg[0], 0);
    put_state(&(tree){NULL, 0});
    rmdir(test.scratch);
    unlink(test.logs[0]);
    unlink(test.logs[1]);
    printf("%lld states behind %lld calls (%lld of them sampled), %lld of them while a reader ends "
           "the change: A in %lld, B in %lld\n",
           (long long)test.states, (long long)test.points, (long long)test.sampled,
           (long long)test.nested_states, (long long)test.found_a, (long long)test.found_b);
    return test.found_a > 0 && test.found_b > 0 ? 0 : 1;
}
