/* file: whole files in and out, and what stays when something fails. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/file.h"
#include "store_help.h"

static void write_file(const char *path, const char *text)
{
    file_out out;
    CHECK_OK(file_out_open(&out, path, &e));
    CHECK(fputs(text, out.f) >= 0);
    CHECK_OK(file_out_commit(&out, &e));
}

static void check_file(const char *path, const char *want)
{
    size_t n = 0;
    own_text *text = file_text(path, &n);
    CHECK_TEXT(text, want);
    CHECK_INT(n, strlen(want));
}

static mode_t mode_of(const char *path)
{
    struct stat about;
    CHECK(stat(path, &about) == 0);
    return about.st_mode & 07777;
}

static bool is_link(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISLNK(about.st_mode);
}

static int entries(void)
{
    DIR *d = opendir(".");
    int n = -2; /* "." and ".." */
    while (d && readdir(d))
        n++;
    closedir(d);
    return n;
}

TEST(file_round_trip)
{
    IN_FOLDER(NULL, NULL);
    write_file("a.txt", "one");
    check_file("a.txt", "one");
    write_file("a.txt", "");
    check_file("a.txt", "");
    CHECK_INT(entries(), 1);

    /* mode and link survive a replacement */
    CHECK(chmod("a.txt", 0640) == 0 && symlink("a.txt", "link") == 0);
    write_file("link", "two");
    check_file("a.txt", "two");
    CHECK(mode_of("a.txt") == 0640 && is_link("link"));

    /* the longest name that there is */
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    write_file(name, "three");
    check_file(name, "three");
    CHECK(unlink(name) == 0 && unlink("link") == 0 && unlink("a.txt") == 0);
}

/* The missing target of a link is made; another hard link keeps the old contents. */
TEST(file_links)
{
    char target[PATH_MAX];
    IN_FOLDER(NULL, NULL);
    CHECK(mkdir("sub", 0777) == 0 && symlink("sub/next", "first") == 0);
    CHECK(symlink("../made", "sub/next") == 0);
    CHECK_OK(file_follow("first", target, &e));
    CHECK_TEXT(target, "sub/../made");
    write_file("first", "one");
    check_file("made", "one");
    CHECK(is_link("first") && is_link("sub/next"));

    CHECK(link("made", "twin") == 0);
    write_file("made", "two");
    check_file("made", "two");
    check_file("twin", "one");

    CHECK(symlink("b", "a") == 0 && symlink("a", "b") == 0 && symlink("no/where", "c") == 0);
    file_out out;
    CHECK_ERR(file_out_open(&out, "a", &e), KV_E_IO,
              "cannot write \"a\": Too many levels of symbolic links");
    CHECK_ERR(file_out_open(&out, "c", &e), KV_E_IO,
              "cannot write \"c\": No such file or directory");
    static const char *const names[] = {"a", "b", "c", "first", "sub/next", "made", "twin"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(unlink(names[i]) == 0);
    CHECK(rmdir("sub") == 0);
}

/* The mode that the new file has when it gets that of the old one: fchmod of the whole program. */
static mode_t mode_before = 07777;

int fchmod(int fd, mode_t mode)
{
    int (*real)(int, mode_t);
    *(void **)&real = dlsym(RTLD_NEXT, "fchmod");
    struct stat about;
    if (fstat(fd, &about) == 0)
        mode_before = about.st_mode & 07777;
    return real(fd, mode);
}

/* Whoever opens a file reads on when its mode becomes narrower, so it begins narrow. */
TEST(file_is_private_from_the_start)
{
    static const mode_t modes[] = {0600, 0640, 0200, 0400, 0666};
    IN_FOLDER("a.txt", NULL);
    umask(0);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        write_file("a.txt", "old");
        CHECK(chmod("a.txt", modes[i]) == 0);
        if (access("a.txt", W_OK) == 0) {
            write_file("a.txt", "new");
            CHECK_INT(mode_before, modes[i] & 0600);
        }
        CHECK_INT(mode_of("a.txt"), modes[i]);
        CHECK(chmod("a.txt", 0600) == 0);
    }
    umask(027); /* a new file is what the mask says */
    CHECK(unlink("a.txt") == 0);
    write_file("a.txt", "new");
    CHECK_INT(mode_of("a.txt"), 0640);
}

/* Root gives the new file to the owner of the old one; somebody else is refused. */
TEST(file_keeps_its_owner)
{
    struct stat about;
    file_out out;
    if (geteuid() != 0)
        test_skip("only root makes files of others");
    IN_FOLDER("a.txt", NULL);
    CHECK(chmod(".", 0777) == 0);
    write_file("a.txt", "old");
    CHECK(chown("a.txt", 65534, 65533) == 0 && chmod("a.txt", 0666) == 0);
    write_file("a.txt", "new");
    CHECK(stat("a.txt", &about) == 0);
    CHECK(about.st_uid == 65534 && about.st_gid == 65533 && mode_of("a.txt") == 0666);
    CHECK(setegid(12345) == 0 && seteuid(12345) == 0);
    CHECK_ERR(file_out_open(&out, "a.txt", &e), KV_E_IO,
              "cannot write \"a.txt\": it belongs to user 65534 and group 65533, and a new file "
              "cannot be given to them: Operation not permitted");
    CHECK(seteuid(0) == 0 && setegid(0) == 0);
    check_file("a.txt", "new");
    CHECK_INT(entries(), 1);
}

enum { LARGE_LINES = 300000 };

static void check_large(const char *path)
{
    char *text = NULL, line[16];
    size_t n = 0;
    CHECK_OK(file_read(path, &text, &n, &e));
    CHECK_INT(n, 8 * LARGE_LINES);
    for (int i = 0; i < LARGE_LINES && n == 8 * LARGE_LINES; i++) {
        snprintf(line, sizeof line, "%07d\n", i);
        CHECK(memcmp(text + (size_t)8 * (size_t)i, line, 8) == 0);
    }
    mem_free(text);
    CHECK(unlink(path) == 0);
}

/* A file gives all it has at once; a pipe says no size and gives 64 KB at most. */
TEST(file_large)
{
    IN_FOLDER(NULL, NULL);
    file_out out;
    CHECK_OK(file_out_open(&out, "big", &e));
    for (int i = 0; i < LARGE_LINES; i++)
        fprintf(out.f, "%07d\n", i);
    CHECK_OK(file_out_commit(&out, &e));
    check_large("big");

    CHECK(mkfifo("pipe", 0600) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        FILE *f = fopen("pipe", "w");
        for (int i = 0; i < LARGE_LINES; i++)
            fprintf(f, "%07d\n", i);
        _exit(fclose(f) != 0);
    }
    int status = -1;
    check_large("pipe");
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void ignore_signal(int number)
{
    (void)number;
}

TEST(file_interrupted)
{
    IN_FOLDER("pipe", NULL);
    char *text = NULL;
    size_t n = 0;
    CHECK(mkfifo("pipe", 0600) == 0);
    int held = open("pipe", O_RDWR); /* so that there is a writer, which writes nothing */
    struct sigaction ignored = {.sa_handler = ignore_signal}, before;
    CHECK(held >= 0 && sigaction(SIGUSR1, &ignored, &before) == 0);
    pid_t reader = getpid(), pid = fork();
    while (pid == 0) { /* until the one that reads has ended it */
        kill(reader, SIGUSR1);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    CHECK_ERR(file_read("pipe", &text, &n, &e), KV_E_INTERRUPTED,
              "interrupted while reading \"pipe\"");
    CHECK(text == NULL && n == 0);
    CHECK(pid > 0 && kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
    sigaction(SIGUSR1, &before, NULL);
    close(held);
}

TEST(file_proc_has_size_zero)
{
    size_t n = 0;
    own_text *text = file_text("/proc/self/status", &n);
    CHECK(n > 100 && strstr(text, "Name:"));
}

TEST(file_abandon)
{
    IN_FOLDER("a.txt", NULL);
    write_file("a.txt", "old");
    file_out out;
    CHECK_OK(file_out_open(&out, "a.txt", &e));
    fputs("new", out.f);
    CHECK_INT(entries(), 2);
    file_out_abandon(&out);
    CHECK_INT(entries(), 1);
    check_file("a.txt", "old");
}

TEST(file_sync)
{
    file_out out, lost;
    IN_FOLDER("x", "y");
    write_file("x", "old");
    write_file("y", "old");
    CHECK_OK(file_out_open(&out, "x", &e));
    CHECK_OK(file_out_open(&lost, "y", &e));
    CHECK(fputs("new", out.f) >= 0 && fputs("new", lost.f) >= 0);
    CHECK_OK(file_out_sync(&out, &e));
    CHECK_OK(file_out_sync(&lost, &e));
    CHECK(!out.f);
    /* nothing appears before the commit */
    check_file("x", "old");
    CHECK_OK(file_out_commit(&out, &e));
    file_out_abandon(&lost);
    check_file("x", "new");
    check_file("y", "old");
}

static pid_t ended_process(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
    return pid;
}

/* Files as writers would have left them that were killed long ago, and others. */
TEST(file_clean)
{
    const struct {
        const char *name;
        pid_t pid;
        time_t age;
        bool stays;
    } left[] = {
        {".kv-7-.tmp", 0, 1000, true},       {".kv--7.tmp", 0, 1000, true},
        {".kv-7-8.tmp2", 0, 1000, true},     {"kv-7-8.tmp", 0, 1000, true},
        {".kv-7-8.tmp", 0, 90000, false},    {".kv-1234567-12.tmp", 0, 90000, false},
        {".kv-%d-8.tmp", getpid(), 90000, false},
        {".kv-%d-9.tmp", getpid(), 4000, true}, /* the clock was set forth by an hour meanwhile */
        {".kv-%d-9.tmp", ended_process(), 0, false},
        {".kv-%d-10.tmp", getpid(), -1, true}, /* a folder of a writer that lives, */
        {".kv-%d-10.tmp", ended_process(), -1, false}, /* and of one that does not */
    };
    enum { LEFT = sizeof left / sizeof *left };
    char names[LEFT][64], inside[80];
    file_out slow, out;
    IN_FOLDER("slow", NULL);
    for (int i = 0; i < LEFT; i++) {
        time_t then = time(NULL) - left[i].age;
        struct timespec times[2] = {{.tv_sec = then}, {.tv_sec = then}};
        if (left[i].pid)
            snprintf(names[i], sizeof *names, left[i].name, (int)left[i].pid);
        else
            strcpy(names[i], left[i].name);
        CHECK(left[i].age >= 0 || mkdir(names[i], 0777) == 0);
        if (left[i].age >= 0)
            file_fill(names[i], "", 0);
        CHECK(left[i].age < 0 || utimensat(AT_FDCWD, names[i], times, 0) == 0);
    }
    snprintf(inside, sizeof inside, "%s/x", names[LEFT - 1]);
    write_file(inside, "old");
    /* one that a slow writer holds */
    CHECK_OK(file_out_open(&slow, "slow", &e));
    CHECK(fputs("new", slow.f) >= 0 && fflush(slow.f) == 0);
    struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    CHECK(utimensat(AT_FDCWD, slow.temp, long_ago, 0) == 0);
    CHECK_OK(file_out_open(&out, "x", &e));
    file_out_clean(&out);
    for (int i = 0; i < LEFT; i++)
        CHECK_INT(remove(names[i]) == 0, left[i].stays);
    CHECK_INT(entries(), 2);
    CHECK_OK(file_out_commit(&slow, &e));
    check_file("slow", "new");
    file_out_abandon(&out);
}

TEST(file_errors)
{
    IN_FOLDER("a.txt", NULL);
    char *text = NULL;
    size_t n = 0;
    file_out out;
    static const char *const cases[][2] = {{"no.csv", "No such file or directory"},
                                           {".", "Is a directory"},
                                           {"", "No such file or directory"},
                                           {"no/x.csv", "No such file or directory"},
                                           {"a.txt/b", "Not a directory"}};
    write_file("a.txt", "old");
    for (int i = 0; i < 5; i++) {
        char want[80];
        snprintf(want, sizeof want, "cannot read \"%s\": %s", cases[i][0], cases[i][1]);
        CHECK_ERR(file_read(cases[i][0], &text, &n, &e), KV_E_IO, want);
        snprintf(want, sizeof want, "cannot write \"%s\": %s", cases[i][0], cases[i][1]);
        if (i > 0)
            CHECK_ERR(file_out_open(&out, cases[i][0], &e), KV_E_IO, want);
    }
    CHECK_ERR(file_read_text("/dev/zero", &text, &n, &e), KV_E_VALUE,
              "\"/dev/zero\" is larger than 256 MB, which is the most for a text");
    CHECK(!text);
    CHECK_INT(entries(), 1);
}

TEST(file_look)
{
    IN_FOLDER("a.txt", NULL);
    bool there = true;
    CHECK_OK(file_look("a.txt", &there, &e));
    CHECK(!there);
    write_file("a.txt", "some");
    CHECK_OK(file_look("a.txt", &there, &e));
    CHECK(there);
    CHECK_ERR(file_look(".", &there, &e), KV_E_IO, "cannot read \".\": Is a directory");
    CHECK_ERR(file_look("a.txt/b", &there, &e), KV_E_IO,
              "cannot read \"a.txt/b\": Not a directory");
    CHECK_ERR(file_look("/dev/zero", &there, &e), KV_E_IO,
              "cannot read \"/dev/zero\": it is not a regular file");
}

TEST(file_full_disk)
{
    file_out out;
    CHECK_OK(file_out_open(&out, "/dev/full", &e));
    CHECK(!out.temp);
    fputs("x", out.f);
    CHECK_CODE(file_out_commit(&out, &e), KV_E_IO);
    /* enough that the error comes while writing, long before the end */
    CHECK_OK(file_out_open(&out, "/dev/full", &e));
    for (int i = 0; i < 100000; i++)
        fputs("0123456789", out.f);
    CHECK_CODE(file_out_commit(&out, &e), KV_E_IO);
}

TEST(file_protected)
{
    if (geteuid() == 0)
        test_skip("root may write everything");
    IN_FOLDER("a.txt", NULL);
    write_file("a.txt", "old");
    CHECK(chmod("a.txt", 0400) == 0);
    file_out out;
    CHECK_ERR(file_out_open(&out, "a.txt", &e), KV_E_IO,
              "cannot write \"a.txt\": Permission denied");
}

TEST(file_no_memory)
{
    IN_FOLDER("a.txt", NULL);
    write_file("a.txt", "old");
    for (int n = 1; n < 10; n++) {
        e = (kv_err){0};
        char *text = NULL;
        size_t size = 0;
        file_out out;
        mem_fail_at(n);
        int rc = file_read("a.txt", &text, &size, &e);
        mem_free(text);
        if (!rc)
            rc = file_out_open(&out, "a.txt", &e);
        if (!rc)
            file_out_abandon(&out);
        mem_fail_at(0);
        CHECK_INT(entries(), 1);
        if (!rc) {
            CHECK(n > 2);
            break;
        }
        CHECK_INT(rc, KV_E_MEMORY);
    }
}

/* file_around: files of every length are what was written, whatever the file system can do. */

enum { MOST = (2 << 20) + 5000 };

static char text[MOST], again[MOST + 1];

/* Writes n bytes in pieces, and says whether the file of fd is these bytes then. fd is closed. */
static bool writes(int fd, size_t n, size_t piece)
{
    CHECK(fd >= 0);
    FILE *f = MADE(FILE, file_around_open, fd, "a");
    for (size_t at = 0; at < n; at += piece) {
        size_t some = n - at < piece ? n - at : piece;
        CHECK(fwrite(text + at, 1, some, f) == some);
    }
    CHECK_INT(fclose(f), 0);
    CHECK(fsync(fd) == 0);
    CHECK_INT(fcntl(fd, F_GETFL) & O_DIRECT, 0);
    CHECK_INT(lseek(fd, 0, SEEK_END), n);
    bool same = pread(fd, again, sizeof again, 0) == (ssize_t)n && memcmp(text, again, n) == 0;
    close(fd);
    return same;
}

TEST(file_around_lengths)
{
    static const size_t lengths[] = {0, 1, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1, MOST};
    static const size_t pieces[] = {1009, 70000, MOST};
    char name[] = "/var/tmp/kv-around-XXXXXX";
    for (size_t i = 0; i < MOST; i++)
        text[i] = (char)(i * 31 + i / 4096);
    int disk = mkstemp(name);
    CHECK(disk >= 0 && unlink(name) == 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (size_t j = 0; j < sizeof pieces / sizeof *pieces; j++) {
            CHECK(ftruncate(disk, 0) == 0 && lseek(disk, 0, SEEK_SET) == 0);
            CHECK(writes(dup(disk), lengths[i], pieces[j]));
            CHECK(writes(memfd_create("a", MFD_CLOEXEC), lengths[i], pieces[j]));
        }
    }
    close(disk);
}

TEST(file_around_full_disk)
{
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    FILE *f = MADE(FILE, file_around_open, fd, "a");
    CHECK(fwrite(text, 1, 10, f) == 10); /* into the buffer */
    errno = 0;
    CHECK(fwrite(text, 1, MOST, f) < MOST && errno == ENOSPC);
    CHECK(fclose(f) == EOF && errno == ENOSPC);
    close(fd);
}

TEST(file_around_no_memory)
{
    FILE *f;
    for (int n = 1; n <= 2; n++)
        CHECK_INT(WITHOUT_MEMORY(n, file_around_open(&f, STDOUT_FILENO, "a", &e)), KV_E_MEMORY);
}
