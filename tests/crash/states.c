/* What a disk may hold after the power fails while a file is changed in place: every state that the
 * recorded calls of a writer allow is built, and our reader must find A or B in it, and nothing
 * else in the folder afterwards.
 *
 *     states [-p PAGE] [-m MOST] [-n NESTED] [-s SEED] LOG NAME A B
 *
 * LOG was recorded by calls.c in a folder that held the file NAME alone, which was as A.
 *
 * The model of the disk. The power fails behind any call. What was synced is there. Of what was
 * not, each PAGE bytes (4096) of a file are as they were at the last sync or after any write since,
 * independently of all others; the size of a file is one of those that it had since; every change
 * of a name (a file made, renamed, removed) happened or did not, independently of data and of each
 * other. A rename happens whole. A sync of a file is for its data alone, that of the folder for
 * names alone: file systems promise more, and nothing here relies on it.
 *
 * All states of a call are tried where there are at most MOST (10000), else that many: those where
 * one thing alone happened or did not, and others at random. The reader's own calls, when it ends a
 * change, are crashed in the same way, with NESTED states (200) at most for each of its calls.
 *
 * The last line gives the numbers; a state that reads as anything else is left in a folder, and the
 * exit status is 1.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xxh64.h"
#include "calls.h"
#include "checkpoint/checkpoint.h"

#define NAMES  8   /* in the folder at once, and files that the calls of a log have */
#define CHOICE 512 /* things that may have happened at one time */

/* ---- Files and folders ----------------------------------------------------------------------- */

typedef struct bytes {
    char *data;
    int64_t n;
} bytes;

typedef struct page_version {
    int64_t page; /* its number */
    char *data;
} page_version;

typedef struct file {
    bytes now, synced;
    page_version *versions; /* of pages since the last sync, oldest first */
    int64_t nversions;
    int64_t sizes[64];
    int nsizes;
} file;

/* Names and the files that they name; a file of -1 is a name that is gone. */
typedef struct entry {
    char name[64];
    int file;
} entry;

typedef struct name_change {
    entry set[2];
    int n;
} name_change;

typedef struct disk {
    file files[NAMES];
    int nfiles;
    entry now[NAMES], synced[NAMES];
    int nnow, nsynced;
    name_change pending[64];
    int npending;
} disk;

/* What a folder holds, with nothing pending: a state. */
typedef struct folder_state {
    char names[NAMES][64];
    bytes files[NAMES];
    int n;
} folder_state;

static struct {
    int64_t page, most, nested;
    uint64_t seed;
    const char *name;
    bytes a, b;
    char scratch[64];
    char logs[2][96];
    int64_t points, sampled, states, nested_states, found_a, found_b;
} test = {.page = 4096, .most = 10000, .nested = 200, .seed = 1};

static void stop(const char *why)
{
    fprintf(stderr, "states: %s\n", why);
    exit(2);
}

static void *get(size_t n)
{
    void *p = calloc(1, n ? n : 1);
    if (!p)
        stop("no memory");
    return p;
}

static bytes bytes_copy(bytes b)
{
    bytes c = {get((size_t)b.n), b.n};
    if (b.n)
        memcpy(c.data, b.data, (size_t)b.n);
    return c;
}

static void bytes_resize(bytes *b, int64_t n)
{
    bytes c = {get((size_t)n), n};
    if (b->n)
        memcpy(c.data, b->data, (size_t)(n < b->n ? n : b->n));
    free(b->data);
    *b = c;
}

static bytes bytes_read(const char *path)
{
    struct stat about;
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &about) != 0)
        return (bytes){NULL, -1};
    bytes b = {get((size_t)about.st_size), about.st_size};
    if (fread(b.data, 1, (size_t)b.n, f) != (size_t)b.n)
        stop("cannot read a file");
    fclose(f);
    return b;
}

static bool same(bytes a, bytes b)
{
    return a.n == b.n && memcmp(a.data, b.data, (size_t)a.n) == 0;
}

/* ---- The disk -------------------------------------------------------------------------------- */

static int find(const entry *list, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(list[i].name, name) == 0)
            return i;
    return -1;
}

static void set(entry *list, int *n, const entry *to)
{
    int i = find(list, *n, to->name);
    if (i < 0) {
        if ((i = (*n)++) == NAMES)
            stop("too many names");
        list[i] = *to;
    }
    list[i].file = to->file;
}

static file *named(disk *d, const char *name)
{
    int i = find(d->now, d->nnow, name);
    if (i < 0 || d->now[i].file < 0)
        stop("a call is about a file that is not there");
    return &d->files[d->now[i].file];
}

static void change_names(disk *d, name_change c)
{
    for (int i = 0; i < c.n; i++)
        set(d->now, &d->nnow, &c.set[i]);
    if (d->npending == 64)
        stop("too many changes of names");
    d->pending[d->npending++] = c;
}

static void note_size(file *f, int64_t size)
{
    if (f->nsizes == 64)
        stop("too many sizes");
    f->sizes[f->nsizes++] = size;
}

static void resize(file *f, int64_t size)
{
    for (int64_t at = f->now.n / test.page * test.page + test.page; at < size && f->nsizes < 60;
         at += test.page)
        note_size(f, at); /* a file may have become larger by parts */
    bytes_resize(&f->now, size);
    note_size(f, size);
}

/* Pages are kept whole: what is behind the end of the file is zero. */
static char *page_copy(bytes b, int64_t page)
{
    char *data = get((size_t)test.page);
    int64_t at = page * test.page, n = b.n - at;
    if (n > 0)
        memcpy(data, b.data + at, (size_t)(n < test.page ? n : test.page));
    return data;
}

static void keep_page(file *f, int64_t page)
{
    f->versions = realloc(f->versions, (size_t)(f->nversions + 1) * sizeof *f->versions);
    f->versions[f->nversions++] = (page_version){page, page_copy(f->now, page)};
}

static void write_bytes(file *f, int64_t at, const char *data, int64_t n)
{
    if (at + n > f->now.n)
        resize(f, at + n);
    memcpy(f->now.data + at, data, (size_t)n);
    for (int64_t p = at / test.page; p * test.page < at + n; p++)
        keep_page(f, p);
}

static void forget_pending(file *f)
{
    for (int64_t i = 0; i < f->nversions; i++)
        free(f->versions[i].data);
    free(f->versions);
    f->versions = NULL;
    f->nversions = f->nsizes = 0;
}

static void sync_file(file *f)
{
    forget_pending(f);
    free(f->synced.data);
    f->synced = bytes_copy(f->now);
}

static void sync_names(disk *d)
{
    memcpy(d->synced, d->now, sizeof d->now);
    d->nsynced = d->nnow;
    d->npending = 0;
}

static entry entry_of(const char *name, int f)
{
    entry x = {.file = f};
    snprintf(x.name, sizeof x.name, "%s", name);
    return x;
}

static void create(disk *d, const char *name)
{
    if (d->nfiles == NAMES)
        stop("too many files");
    change_names(d, (name_change){{entry_of(name, d->nfiles++)}, 1});
}

static void apply(disk *d, const calls_head *h, const char *name, const char *other,
                  const char *data)
{
    int i = find(d->now, d->nnow, name);
    int f = i < 0 ? -1 : d->now[i].file;
    if (h->kind == CALL_CREATE)
        create(d, name);
    else if (h->kind == CALL_WRITE)
        write_bytes(named(d, name), h->place, data, h->data);
    else if (h->kind == CALL_SIZE && named(d, name)->now.n != h->place)
        resize(named(d, name), h->place);
    else if (h->kind == CALL_SYNC && *name)
        sync_file(named(d, name));
    else if (h->kind == CALL_SYNC)
        sync_names(d);
    else if (h->kind == CALL_RENAME)
        change_names(d, (name_change){{entry_of(name, -1), entry_of(other, f)}, 2});
    else if (h->kind == CALL_UNLINK)
        change_names(d, (name_change){{entry_of(name, -1)}, 1});
}

static void disk_from(disk *d, const folder_state *s)
{
    *d = (disk){0};
    for (int i = 0; i < s->n; i++) {
        d->files[i] = (file){.now = bytes_copy(s->files[i]), .synced = bytes_copy(s->files[i])};
        d->now[i] = entry_of(s->names[i], i);
    }
    d->nfiles = d->nnow = s->n;
    sync_names(d);
}

static void disk_release(disk *d)
{
    for (int i = 0; i < d->nfiles; i++) {
        forget_pending(&d->files[i]);
        free(d->files[i].now.data);
        free(d->files[i].synced.data);
    }
}

/* ---- States of a disk ------------------------------------------------------------------------ */

/* Something that may have happened in several ways: 0 is that it did not. */
typedef struct choice {
    enum { OF_PAGE, OF_SIZE, OF_NAME } what;
    int file;
    int64_t page; /* or the number of the change of names */
    int ways, way;
} choice;

static void add_choice(choice *list, int *n, choice c)
{
    if (*n == CHOICE)
        stop("too many pages are not synced at one time");
    list[(*n)++] = c;
}

static int choices_of(const disk *d, choice *list)
{
    int n = 0;
    for (int i = 0; i < d->npending; i++)
        add_choice(list, &n, (choice){OF_NAME, 0, i, 2, 0});
    for (int f = 0; f < d->nfiles; f++) {
        const file *x = &d->files[f];
        int before = n;
        for (int64_t v = 0; v < x->nversions; v++) {
            int i = before;
            while (i < n && list[i].page != x->versions[v].page)
                i++;
            if (i == n)
                add_choice(list, &n, (choice){OF_PAGE, f, x->versions[v].page, 1, 0});
            list[i].ways++;
        }
        if (x->nsizes)
            add_choice(list, &n, (choice){OF_SIZE, f, 0, x->nsizes + 1, 0});
    }
    return n;
}

/* The version of a page that was chosen, from 1. */
static const char *version_of(const file *f, const choice *c)
{
    int way = 0;
    for (int64_t v = 0; v < f->nversions; v++)
        if (f->versions[v].page == c->page && ++way == c->way)
            return f->versions[v].data;
    return NULL;
}

static bytes content(const disk *d, int f, const choice *list, int n)
{
    const file *x = &d->files[f];
    int64_t size = x->synced.n, most = x->now.n > size ? x->now.n : size;
    bytes b = bytes_copy(x->synced);
    for (int i = 0; i < n; i++)
        if (list[i].what == OF_SIZE && list[i].file == f && list[i].way)
            size = x->sizes[list[i].way - 1];
    bytes_resize(&b, (most + test.page) / test.page * test.page + test.page);
    for (int i = 0; i < n; i++)
        if (list[i].what == OF_PAGE && list[i].file == f && list[i].way)
            memcpy(b.data + list[i].page * test.page, version_of(x, &list[i]), (size_t)test.page);
    bytes_resize(&b, size);
    return b;
}

static void state_of(folder_state *s, const disk *d, const choice *list, int n)
{
    entry names[NAMES];
    int nnames = d->nsynced;
    memcpy(names, d->synced, sizeof names);
    for (int i = 0; i < n; i++) {
        const name_change *c = &d->pending[list[i].page];
        for (int k = 0; list[i].what == OF_NAME && list[i].way && k < c->n; k++)
            set(names, &nnames, &c->set[k]);
    }
    s->n = 0;
    for (int i = 0; i < nnames; i++) {
        if (names[i].file < 0)
            continue;
        memcpy(s->names[s->n], names[i].name, sizeof s->names[0]);
        s->files[s->n++] = content(d, names[i].file, list, n);
    }
}

static void state_release(folder_state *s)
{
    for (int i = 0; i < s->n; i++)
        free(s->files[i].data);
    s->n = 0;
}

/* ---- States that were seen ------------------------------------------------------------------- */

static struct {
    uint64_t *sums;
    int64_t n, cap;
} seen;

static uint64_t sum_of(const folder_state *s)
{
    uint64_t sum = 0;
    for (int i = 0; i < s->n; i++) /* in any order of names */
        sum += xxh64(s->files[i].data, (size_t)s->files[i].n) *
               (xxh64(s->names[i], strlen(s->names[i])) | 1);
    return sum ? sum : 1;
}

static bool is_new(uint64_t sum)
{
    if (2 * seen.n >= seen.cap) {
        uint64_t *old = seen.sums;
        int64_t cap = seen.cap;
        seen.cap = cap ? 2 * cap : 1 << 16;
        seen.sums = get((size_t)seen.cap * sizeof *seen.sums);
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

static const char *in_scratch(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%.64s", test.scratch, name);
    return path;
}

static void empty_scratch(void)
{
    DIR *d = opendir(test.scratch);
    for (struct dirent *x; (x = readdir(d));)
        unlink(in_scratch(x->d_name));
    closedir(d);
}

static void put_state(const folder_state *s)
{
    empty_scratch();
    for (int i = 0; i < s->n; i++) {
        FILE *f = fopen(in_scratch(s->names[i]), "wb");
        if (!f || fwrite(s->files[i].data, 1, (size_t)s->files[i].n, f) != (size_t)s->files[i].n ||
            fclose(f) != 0)
            stop("cannot write a state");
    }
}

static int files_in_scratch(void)
{
    int n = -2;
    DIR *d = opendir(test.scratch);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void fail(const folder_state *s, const char *why)
{
    put_state(s);
    printf("%s, in the state that is left in %s\n", why, test.scratch);
    exit(1);
}

/* The reader, whose calls are recorded. */
static void check(const folder_state *s, const char *log)
{
    kv_err e = {0};
    checkpoint *c = NULL;
    char why[700];
    put_state(s);
    calls_record(test.scratch, log);
    int code = checkpoint_open(&c, in_scratch(test.name), NULL, &e);
    calls_record(NULL, NULL);
    checkpoint_close(c);
    if (code) {
        snprintf(why, sizeof why, "an error: %s", e.text);
        fail(s, why);
    }
    bytes got = bytes_read(in_scratch(test.name));
    bool is_a = same(got, test.a), is_b = same(got, test.b);
    free(got.data);
    if (!is_a && !is_b)
        fail(s, "a mixture");
    if (files_in_scratch() != 1)
        fail(s, "a journal stays");
    test.found_a += is_a;
    test.found_b += is_b;
}

static void explore(const folder_state *start, const char *log, int depth);

static void try_state(const disk *d, const choice *list, int n, int depth)
{
    folder_state s = {.n = 0};
    state_of(&s, d, list, n);
    if (is_new(sum_of(&s))) {
        check(&s, test.logs[depth]);
        test.states++;
        test.nested_states += depth;
        if (depth == 0)
            explore(&s, test.logs[0], 1);
    }
    state_release(&s);
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
    choice list[CHOICE];
    int n = choices_of(d, list);
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

static void take(const bytes *log, int64_t *at, void *to, size_t n)
{
    if (*at + (int64_t)n > log->n)
        stop("a log is cut");
    memcpy(to, log->data + *at, n);
    *at += (int64_t)n;
}

/* Runs the calls of a log on a disk that holds this state, and lets the power fail behind each. */
static void explore(const folder_state *start, const char *path, int depth)
{
    static disk disks[2];
    disk *d = &disks[depth];
    bytes log = bytes_read(path);
    if (log.n < 0)
        return;
    disk_from(d, start);
    for (int64_t at = 0; at < log.n;) {
        calls_head h;
        char name[64] = "", other[64] = "";
        take(&log, &at, &h, sizeof h);
        if (h.name >= sizeof name || h.other >= sizeof other)
            stop("a name is too long");
        take(&log, &at, name, h.name);
        take(&log, &at, other, h.other);
        char *data = get(h.data);
        take(&log, &at, data, h.data);
        apply(d, &h, name, other, data);
        free(data);
        crash(d, depth);
    }
    disk_release(d);
    free(log.data);
}

int main(int argc, char **argv)
{
    for (int c; (c = getopt(argc, argv, "p:m:n:s:")) > 0;) {
        int64_t value = atoll(optarg);
        *(c == 'p'   ? &test.page
          : c == 'm' ? &test.most
          : c == 'n' ? &test.nested
                     : (int64_t *)&test.seed) = value;
    }
    if (argc - optind != 4)
        stop("usage: states [-p PAGE] [-m MOST] [-n NESTED] [-s SEED] LOG NAME A B");
    char **arg = argv + optind;
    snprintf(test.scratch, sizeof test.scratch, "/dev/shm/kv-states-XXXXXX");
    if (!mkdtemp(test.scratch)) {
        snprintf(test.scratch, sizeof test.scratch, "/tmp/kv-states-XXXXXX");
        if (!mkdtemp(test.scratch))
            stop("cannot make a folder");
    }
    for (int i = 0; i < 2; i++)
        snprintf(test.logs[i], sizeof test.logs[i], "%s.log%d", test.scratch, i);
    test.name = arg[1];
    test.a = bytes_read(arg[2]);
    test.b = bytes_read(arg[3]);
    if (test.a.n < 0 || test.b.n < 0 || same(test.a, test.b))
        stop("A and B must be two files that differ");
    folder_state start = {.n = 1, .files = {test.a}};
    snprintf(start.names[0], sizeof start.names[0], "%s", test.name);
    explore(&start, arg[0], 0);
    empty_scratch();
    rmdir(test.scratch);
    unlink(test.logs[0]);
    unlink(test.logs[1]);
    printf("%lld states behind %lld calls (%lld of them sampled), %lld of them while a reader ends "
           "the change: A in %lld, B in %lld\n",
           (long long)test.states, (long long)test.points, (long long)test.sampled,
           (long long)test.nested_states, (long long)test.found_a, (long long)test.found_b);
    return test.found_a > 0 && test.found_b > 0 ? 0 : 1;
}
