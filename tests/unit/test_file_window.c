/* Windows on files that other processes change: what was lost is an error, never a signal that ends
 * the process, and never zeros that are believed. */
#include "checkpoint/file_window.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../memory.h"
#include "test.h"

#define MB ((int64_t)1 << 20)

static void on_fault(int sig, siginfo_t *about, void *context)
{
    (void)context;
    if (!file_window_fault(about->si_addr)) {
        signal(sig, SIG_DFL);
        raise(sig);
    }
}

static void handle_faults(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
    file_window_handled();
}

/* What tests of one thread use. */
static file_window w;
static const void *data;

/* A file of n bytes 'x', without a name. Faults are handled from now on. */
static int file_of(int64_t n)
{
    handle_faults();
    char path[64], block[4096];
    int fd = mkstemp(memory_path(path, sizeof path, "unit-window"));
    CHECK(fd >= 0 && unlink(path) == 0);
    memset(block, 'x', sizeof block);
    for (int64_t at = 0; at < n; at += (int64_t)sizeof block) {
        size_t some = n - at < (int64_t)sizeof block ? (size_t)(n - at) : sizeof block;
        CHECK(pwrite(fd, block, some, at) == (ssize_t)some);
    }
    return fd;
}

/* The sum of n bytes, each of which is read. */
static int64_t sum(const volatile char *bytes, int64_t n)
{
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++)
        total += bytes[i];
    return total;
}

static const char shorter[] = "f: the file became shorter while it was read";

/* A file of `size` bytes is cut to `left`, before or after it is mapped, and then read. */
static void cut(int64_t size, int64_t left, bool before)
{
    int fd = file_of(size);
    if (before)
        CHECK(ftruncate(fd, left) == 0);
    CHECK_OK(file_window_move(&w, &data, fd, "f", size, 0, size, size, &e));
    CHECK(w.slot > 0);
    if (!before) {
        CHECK_INT(sum(data, size), 'x' * size);
        CHECK_OK(file_window_check(&w, &e));
        CHECK(ftruncate(fd, left) == 0);
    }
    CHECK_INT(sum(data, size), 'x' * left);
    CHECK_ERR(file_window_check(&w, &e), KV_E_IO, shorter);
    /* and again where the next part is asked for, though another file is meant */
    CHECK_ERR(file_window_move(&w, &data, fd + 1, "g", size, 0, size, size, &e), KV_E_IO, shorter);
    file_window_close(&w);
    close(fd);
}

TEST(file_window_of_a_cut_file)
{
    static const int64_t left[] = {0, 1, 4095, 4096, 4097, 8192, 12000, 12287, 12288, 12299};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        cut(12300, left[i], false);
        cut(12300, left[i], true);
    }
    cut(2 * MB + 5000, 2 * MB, false);
    cut(2 * MB + 5000, 2 * MB + 4096, true);
}

/* A part that was left behind has been checked when the next one is there. */
TEST(file_window_checks_each_part)
{
    int64_t size = 8 * MB;
    int fd = file_of(size);
    CHECK_OK(file_window_move(&w, &data, fd, "f", size, 4 * MB, 4096, 2 * MB, &e));
    CHECK(ftruncate(fd, 4 * MB) == 0);
    CHECK_INT(sum(data, 4096), 0);
    CHECK_ERR(file_window_move(&w, &data, fd, "f", size, 0, 4096, 2 * MB, &e), KV_E_IO, shorter);
    file_window_close(&w);
    close(fd);
}

/* Cut and written again: the size is right, the bytes that were read are not. */
TEST(file_window_of_a_file_written_again)
{
    int fd = file_of(3 * 4096);
    CHECK_OK(file_window_move(&w, &data, fd, "f", 3 * 4096, 0, 3 * 4096, 2 * MB, &e));
    CHECK(ftruncate(fd, 0) == 0);
    CHECK_INT(sum(data, 4096), 0);
    CHECK(ftruncate(fd, 3 * 4096) == 0);
    CHECK_ERR(file_window_check(&w, &e), KV_E_IO,
              "f: the file was changed while it was read, or its disk failed");
    file_window_close(&w);
    close(fd);
}

/* Bytes that are mapped for all threads; a file with a hole is not. */
TEST(file_window_mapped_at_once)
{
    int64_t at = 2 * MB + 4099, n = 5000;
    int fd = file_of(at + n);
    const char *bytes = file_window_map(&w, fd, "f", at + n, at, n);
    CHECK(bytes);
    CHECK_INT(sum(bytes, n), 'x' * n);
    CHECK_OK(file_window_check(&w, &e));
    CHECK(ftruncate(fd, at) == 0);
    CHECK_INT(sum(bytes, n), 0);
    CHECK_ERR(file_window_check(&w, &e), KV_E_IO, shorter);
    file_window_close(&w);
    CHECK(ftruncate(fd, at + n) == 0 && !file_window_map(&w, fd, "f", at + n, at, n));
    file_window_close(&w);
    close(fd);
}

TEST(file_window_leaves_other_faults)
{
    char *mapped;
    int fd = file_of(10);
    CHECK(!file_window_fault(NULL) && !file_window_fault(&fd));
    mapped = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(mapped != MAP_FAILED && !file_window_fault(mapped + 4096));
    pid_t child = fork();
    if (child == 0)
        _exit(mapped[4096]);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    munmap(mapped, 8192);
    close(fd);
}

/* A process that is forked while a file is mapped reads its copy of the window. */
TEST(file_window_in_a_fork)
{
    int fd = file_of(8192);
    CHECK_OK(file_window_move(&w, &data, fd, "f", 8192, 0, 8192, 2 * MB, &e));
    pid_t child = fork();
    if (child == 0) {
        CHECK(ftruncate(fd, 4096) == 0);
        CHECK_INT(sum(data, 8192), 'x' * 4096);
        CHECK_ERR(file_window_check(&w, &e), KV_E_IO, shorter);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_INT(status, 0);
    CHECK_INT(sum(data, 8192), 'x' * 4096);
    CHECK_ERR(file_window_check(&w, &e), KV_E_IO, shorter);
    file_window_close(&w);
    close(fd);
}

/* More windows than can be mapped: the others are read, and room comes back. */
TEST(file_window_of_many)
{
    enum { MANY = 600 };
    static file_window windows[MANY];
    int fd = file_of(8192), mapped[2] = {0};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            CHECK_OK(file_window_move(&windows[i], &data, fd, "f", 8192, i, 4096, 2 * MB, &e));
            CHECK_INT(sum(data, 4096), 'x' * 4096);
            mapped[round] += windows[i].slot > 0;
        }
        for (int i = 0; i < MANY; i++) {
            CHECK_OK(file_window_check(&windows[i], &e));
            file_window_close(&windows[i]);
        }
    }
    CHECK(mapped[0] > 0 && mapped[0] < MANY);
    CHECK_INT(mapped[0], mapped[1]);
    close(fd);
}

enum { THREADS = 8, FILES = 4, ROUNDS = 400 };

/* What the threads share: files that one of them cuts and fills again. */
static int files[FILES];
static atomic_int lost, right;

/* Reads parts of all files. Each sum is that of the file, or an error tells that it need not be. */
static void *reads(void *arg)
{
    file_window mine = {0};
    unsigned seed = (unsigned)(intptr_t)arg;
    for (int i = 0; i < ROUNDS; i++) {
        kv_err e = {0};
        const void *bytes;
        seed = seed * 1103515245 + 12345;
        int fd = files[(seed >> 16) % FILES];
        int64_t pages = 1 + (seed >> 20) % 64, at = (seed >> 8) % 64 * 4096;
        CHECK_OK(
            file_window_move(&mine, &bytes, fd, "f", 128 * 4096, at, pages * 4096, 2 * MB, &e));
        int64_t got = sum(bytes, pages * 4096);
        if (file_window_check(&mine, &e)) {
            CHECK_INT(e.code, KV_E_IO);
            atomic_fetch_add(&lost, 1);
        } else {
            CHECK_INT(got, 'x' * pages * 4096);
            atomic_fetch_add(&right, 1);
        }
        file_window_close(&mine);
    }
    return NULL;
}

/* One of the files is always cut and never filled, so that no zeros can be right. */
static void *cuts(void *arg)
{
    (void)arg;
    for (int64_t left = 127; left >= 0; left--) {
        CHECK(ftruncate(files[0], left * 4096) == 0);
        CHECK(ftruncate(files[1], left * 4096 + 100) == 0);
        usleep(100);
    }
    return NULL;
}

TEST(file_window_of_cut_files_in_threads)
{
    pthread_t threads[THREADS + 1];
    for (int i = 0; i < FILES; i++)
        files[i] = file_of(128 * 4096);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, reads, (void *)(intptr_t)(i + 1)) == 0);
    CHECK(pthread_create(&threads[THREADS], NULL, cuts, NULL) == 0);
    for (int i = 0; i <= THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_INT(lost + right, THREADS * ROUNDS);
    CHECK(lost > 0 && right > 0);
    for (int i = 0; i < FILES; i++)
        close(files[i]);
}
