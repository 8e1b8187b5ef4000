/* What the tests of changes in place share: a file before and after a change, its journal, its
 * states, and processes that hold locks. */
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/xxh64.h"
#include "checkpoint/in_place.h"
#include "checkpoint/in_place_journal.h"
#include "store_help.h"
#include "test_checkpoint.h"

#define HEADER  80 /* bytes before the data */
#define NAME    "m.safetensors"
#define JOURNAL ".m.safetensors.kv-journal"

/* A file with one tensor, before and after a change. */
typedef struct model {
    int64_t bytes, n; /* of the file; changes */
    char *a, *b;
    struct {
        int64_t at, n;
    } change[4096];
} model;

static inline unsigned char noise(uint64_t i)
{
    return (unsigned char)((i + 1) * UINT64_C(0x9E3779B97F4A7C15) >> 56);
}

static inline model *model_new(int64_t data)
{
    kv_err e = {0};
    model *m = mem_zalloc(1, sizeof *m, &e);
    uint64_t length = HEADER - 8;
    char header[HEADER];
    m->bytes = HEADER + data;
    m->a = mem_alloc(m->bytes, 1, &e);
    m->b = mem_alloc(m->bytes, 1, &e);
    memset(header, ' ', sizeof header);
    memcpy(header, &length, 8);
    int n = snprintf(header + 8, HEADER - 8,
                     "{\"w\":{\"dtype\":\"U8\",\"shape\":[%lld],\"data_offsets\":[0,%lld]}}",
                     (long long)data, (long long)data);
    header[8 + n] = ' ';
    memcpy(m->a, header, HEADER);
    for (int64_t i = 0; i < data; i++)
        m->a[HEADER + i] = (char)noise((uint64_t)i);
    memcpy(m->b, m->a, (size_t)m->bytes);
    return m;
}

static inline void model_free(model *m)
{
    mem_free(m->a);
    mem_free(m->b);
    mem_free(m);
}

static inline void free_own_model(model **m)
{
    model_free(*m);
}

#define own_model OWN(free_own_model) model

/* Changes n bytes from `at` on in B. */
static inline void model_change(model *m, int64_t at, int64_t n)
{
    m->change[m->n].at = at;
    m->change[m->n++].n = n;
    for (int64_t i = at; i < at + n; i++)
        m->b[i] ^= (char)(1 + i % 200);
}

/* Changes of 1 to 9 bytes at random places in ascending order. */
static inline void model_change_some(model *m, int n)
{
    int64_t room = (m->bytes - HEADER) / n;
    for (int i = 0; i < n; i++)
        model_change(m, HEADER + i * room + noise((uint64_t)i) % (room - 9),
                     1 + noise((uint64_t)i * 7) % 9);
}

static inline model *model_small(void)
{
    model *m = model_new(20000);
    model_change_some(m, 40);
    return m;
}

static inline void put_file(const char *path, const void *data, int64_t n)
{
    file_fill(path, data, (size_t)n);
}

static inline bool holds(const char *path, const void *want, int64_t n)
{
    own_text *got = mem_alloc(n + 1, 1, NULL);
    FILE *f = fopen(path, "rb");
    bool same =
        f && fread(got, 1, (size_t)n + 1, f) == (size_t)n && memcmp(got, want, (size_t)n) == 0;
    if (f)
        fclose(f);
    return same;
}

/* Only the file is in the folder. */
static inline void check_alone(void)
{
    int n = 0;
    DIR *d = opendir(".");
    while (readdir(d))
        n++;
    closedir(d);
    CHECK_INT(n, 3);
}

/* The file holds this, and nothing else is in the folder. */
static inline void check_holds(const void *want, int64_t n)
{
    CHECK(holds(NAME, want, n));
    check_alone();
}

static inline int put_all(in_place *j, const model *m, kv_err *e)
{
    int code = KV_OK;
    for (int64_t i = 0; i < m->n && !code; i++) {
        int64_t at = m->change[i].at;
        code = in_place_put(j, at, m->b + at, m->change[i].n, e);
    }
    return code;
}

static inline int change(const model *m, const char *path, kv_err *e)
{
    in_place *j;
    int code = in_place_open(&j, path, e);
    if (code)
        return code;
    if ((code = put_all(j, m, e))) {
        in_place_abandon(j);
        return code;
    }
    return in_place_commit(j, e);
}

static inline int read_it(const char *path, kv_err *e)
{
    checkpoint *c = NULL;
    int code = checkpoint_open(&c, path, NULL, e);
    if (!code)
        checkpoint_close(c);
    return code;
}

/* A reader leaves the file with these bytes. */
static inline void check_read(const void *want, int64_t n)
{
    CHECK_OK(read_it(NAME, &e));
    CHECK(holds(NAME, want, n));
}

static inline uint64_t sum_of(const model *m)
{
    return xxh64(m->b + HEADER, (size_t)(m->bytes - HEADER));
}

/* The journal of a change, as a file of its own, that process pid has written. */
static inline void put_journal_of(const model *m, const char *path, int pid)
{
    journal_writer w;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK_OK(journal_begin(&w, fd, path, &e));
    for (int64_t i = 0; i < m->n; i++) {
        int64_t at = m->change[i].at;
        journal_record r = {.offset = at, .n = m->change[i].n, .now = m->b + at};
        CHECK_OK(journal_add(&w, &r, &e));
    }
    CHECK_OK(journal_add(
        &w,
        &(journal_record){
            .offset = HEADER, .n = m->bytes - HEADER, .key = "w", .key_bytes = 1, .sum = sum_of(m)},
        &e));
    w.about.target_bytes = m->bytes;
    w.about.pid = pid;
    memcpy(w.about.first, m->a, 8);
    CHECK_OK(journal_end(&w, &e));
    journal_release(&w);
    close(fd);
}

static inline void put_journal(const model *m, const char *path)
{
    put_journal_of(m, path, 0);
}

/* The file when a change was cut short: every second page is changed. */
static inline char *half_of(const model *m)
{
    char *state = mem_alloc(m->bytes, 1, NULL);
    for (int64_t i = 0; i < m->bytes; i++)
        state[i] = i / 4096 % 2 ? m->b[i] : m->a[i];
    memcpy(state, IN_PLACE_MARK, 8);
    return state;
}

/* What most tests begin with: a small change, what it leaves when it is cut short, and a folder. */
#define SMALL_CHANGE()                                                                             \
    own_model *m = model_small();                                                                  \
    own_text *half = half_of(m);                                                                   \
    IN_FOLDER(NAME, JOURNAL)

/* A file in this state, of the size of m, with the journal of m beside it. */
static inline void put_state(const model *m, const char *state)
{
    put_file(NAME, state, m->bytes);
    put_journal(m, JOURNAL);
}

static inline void check_refused(kv_code code, const char *text, const char *hint)
{
    kv_err e = {0};
    int got = read_it(NAME, &e);
    CHECK_TEXT(e.hint, hint);
    CHECK_FAILED(got, code, text);
}

/* Another process: holds locks on these files (NULL: none) until it is killed. */
static inline pid_t hold(const char *file, int how, const char *other)
{
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing running */
        int ok = flock(open(file, O_RDONLY), how) == 0 &&
                 (!other || flock(open(other, O_RDONLY), LOCK_EX) == 0);
        if (ok && write(ready[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static inline void let_go(pid_t pid)
{
    CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}
