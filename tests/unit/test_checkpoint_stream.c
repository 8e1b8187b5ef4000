/* Files that come through a pipe. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "base/stop.h"
#include "checkpoint/checkpoint_build.h"
#include "checkpoint/input.h"
#include "test_checkpoint.h"

/* A process that writes a file of `bytes` bytes to a pipe, or as much of it as `sent`; its last
 * tensor is "end", one byte, 7. Opens the pipe's end as `path`. */
typedef struct stream {
    pid_t writer;
    int fd;
    char path[32];
} stream;

static void write_file(int fd, int64_t bytes, int64_t sent)
{
    static char piece[100000];
    char header[256] = {0};
    int64_t data = bytes - 8 - 200;
    uint64_t n = 200;
    memcpy(header, &n, 8);
    memset(header + 8, ' ', 200);
    int used =
        snprintf(header + 8, 200,
                 "{\"a\":{\"dtype\":\"U8\",\"shape\":[%lld],\"data_offsets\":[0,%lld]},"
                 "\"end\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[%lld,%lld]}}",
                 (long long)data - 1, (long long)data - 1, (long long)data - 1, (long long)data);
    header[8 + used] = ' ';
    for (int64_t at = 0; at < sent;) {
        int64_t size = sent - at < (int64_t)sizeof piece ? sent - at : (int64_t)sizeof piece;
        memset(piece, 0, sizeof piece);
        if (at == 0)
            memcpy(piece, header, 208);
        if (at + size == bytes)
            piece[size - 1] = 7;
        ssize_t put = write(fd, piece, (size_t)size);
        if (put != size)
            _exit(0);
        at += put;
    }
}

static stream stream_of(int64_t bytes, int64_t sent)
{
    stream s;
    int ends[2];
    CHECK(pipe(ends) == 0);
    s.fd = ends[0];
    snprintf(s.path, sizeof s.path, "/dev/fd/%d", s.fd);
    s.writer = fork();
    CHECK(s.writer >= 0);
    if (s.writer == 0) {
        signal(SIGPIPE, SIG_DFL);
        close(ends[0]);
        write_file(ends[1], bytes, sent);
        _exit(0);
    }
    close(ends[1]);
    return s;
}

static void stream_end(stream *s)
{
    close(s->fd);
    CHECK(waitpid(s->writer, NULL, 0) == s->writer);
}

/* Sizes around the limit of what is kept in memory; nothing is left of the file. */
TEST(checkpoint_stream_sizes)
{
    static const int64_t sizes[] = {300, INPUT_MEMORY - 1, INPUT_MEMORY, INPUT_MEMORY + 1,
                                    INPUT_MEMORY + 3000000};
    test_folder d = folder_new();
    setenv("TMPDIR", d.path, 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        stream s = stream_of(sizes[i], sizes[i]);
        checkpoint *c = MADE(checkpoint, checkpoint_open, s.path, NULL);
        CHECK_INT(c->files[0].size, sizes[i]);
        own_array *a = MADE(kv_array, checkpoint_load_name, c, "end");
        CHECK_INT(*(const char *)array_elements(a), 7);
        checkpoint_close(c);
        stream_end(&s);
    }
    CHECK(rmdir(d.path) == 0);
}

TEST(checkpoint_stream_cut)
{
    static const int64_t sent[] = {INPUT_MEMORY, 20000000};
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        checkpoint *c = NULL;
        char want[128];
        stream s = stream_of(40000208, sent[i]);
        snprintf(want, sizeof want, "%s: cut within its data: %lld of 40000000 bytes are missing",
                 s.path, (long long)(40000208 - sent[i]));
        CHECK_ERR(checkpoint_open(&c, s.path, NULL, &e), KV_E_FORMAT, want);
        stream_end(&s);
    }
}

TEST(checkpoint_stream_full)
{
    test_folder d = folder_new();
    checkpoint *c = NULL;
    char want[160];
    struct rlimit limit = {18000000, 18000000};
    signal(SIGXFSZ, SIG_IGN);
    setenv("TMPDIR", d.path, 1);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    stream s = stream_of(30000000, 30000000);
    snprintf(want, sizeof want, "cannot write a temporary file in \"%s\": File too large", d.path);
    CHECK_INT(checkpoint_open(&c, s.path, NULL, &e), KV_E_IO);
    CHECK_TEXT(e.text, want);
    CHECK_TEXT(e.hint, "a stream is kept there while it is read: TMPDIR names another folder");
    stream_end(&s);
    CHECK(rmdir(d.path) == 0);
    s = stream_of(30000000, 30000000);
    snprintf(want, sizeof want, "cannot make a temporary file in \"%s\": No such file or directory",
             d.path);
    CHECK_ERR(checkpoint_open(&c, s.path, NULL, &e), KV_E_IO, want);
    stream_end(&s);
}

static volatile sig_atomic_t asked;

static int pending(void)
{
    return asked;
}

static void on_alarm(int sig)
{
    asked = sig;
}

/* Whether nothing comes, or it does not end. */
TEST(checkpoint_stream_interrupted)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval soon = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    stop_ask(pending);
    for (int endless = 0; endless < 2; endless++) {
        e = (kv_err){0};
        checkpoint *c = NULL;
        char path[32];
        int ends[2];
        CHECK(pipe(ends) == 0);
        stream s = {.fd = ends[0], .writer = -1};
        if (endless)
            s = stream_of(INT64_C(1) << 50, INT64_C(1) << 50);
        snprintf(path, sizeof path, "/dev/fd/%d", s.fd);
        asked = 0;
        setitimer(ITIMER_REAL, &soon, NULL);
        CHECK_INT(checkpoint_open(&c, path, NULL, &e), KV_E_INTERRUPTED);
        setitimer(ITIMER_REAL, &never, NULL);
        CHECK(!c);
        if (endless)
            stream_end(&s);
        close(ends[0]);
        close(ends[1]);
    }
    stop_ask(NULL);
}

TEST(checkpoint_stream_no_memory)
{
    int lowest = free_fd();
    for (int n = 1, rc = KV_E_MEMORY; rc; n++) {
        checkpoint *c = NULL;
        stream s = stream_of(INPUT_MEMORY + 100000, INPUT_MEMORY + 100000);
        rc = WITHOUT_MEMORY(n, checkpoint_open(&c, s.path, NULL, &e));
        checkpoint_close(c);
        stream_end(&s);
        CHECK_INT(free_fd(), lowest);
        CHECK(n < 100);
    }
}
