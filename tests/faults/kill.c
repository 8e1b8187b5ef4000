/* Kills a writer at random moments, and looks what kvctl then finds.
 *
 *     kill [-n TIMES] [-s SEED] KVCTL FILE A B COMMAND…
 *
 * COMMAND changes FILE, a copy of A that is made anew each time, to B in place. It is killed at a
 * moment drawn from the time that it takes, TIMES times (60); every second time the first reader
 * afterwards is killed too. Then `kvctl hash FILE` must print what it prints for A or B, and
 * nothing may be in the folder that was not there before. The last line gives the numbers; the exit
 * status is 1 when anything else was found, and when no kill hit.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t seed = 1;

static double draw(void)
{
    uint64_t x = seed += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return (double)((x ^ x >> 31) >> 11) / 9007199254740992.0;
}

static void stop(const char *why)
{
    fprintf(stderr, "kill: %s\n", why);
    exit(2);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void copy(const char *from, const char *to)
{
    struct stat about;
    unlink(to);
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (in < 0 || out < 0 || fstat(in, &about) != 0)
        stop("cannot copy a file");
    for (ssize_t n; (n = sendfile(out, in, NULL, 1 << 24)) > 0;)
        ;
    close(in);
    close(out);
}

/* Starts a program whose output goes to the file `out`. */
static pid_t start(char *const *command, const char *out)
{
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        dup2(fd, 1);
        dup2(fd, 2);
        execvp(command[0], command);
        _exit(127);
    }
    return pid;
}

/* Returns true if it was killed before its end. */
static bool kill_after(pid_t pid, double seconds)
{
    int status;
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds,
                                 .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)},
              NULL);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        stop("the command failed: see the file out");
    return WIFSIGNALED(status);
}

static void run(char *const *command)
{
    int status;
    waitpid(start(command, "out"), &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        stop("a command failed: see the file out");
}

/* What `kvctl hash` prints about a file. */
static char *hash(char *kvctl, char *path)
{
    size_t n;
    int status;
    waitpid(start((char *[]){kvctl, "hash", path, NULL}, "hashes"), &status, 0);
    FILE *f = fopen("hashes", "rb");
    char *text = calloc(1, 1 << 20);
    n = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || n == 0) {
        fprintf(stderr, "%s", text);
        stop("kvctl hash failed");
    }
    return text;
}

static int files(void)
{
    int n = 0;
    DIR *d = opendir(".");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    long times = 60, hit = 0, readers = 0, is_a = 0, is_b = 0;
    for (int c; (c = getopt(argc, argv, "+n:s:")) > 0;)
        *(c == 'n' ? &times : (long *)&seed) = atol(optarg);
    if (argc - optind < 5)
        stop("usage: kill [-n TIMES] [-s SEED] KVCTL FILE A B COMMAND...");
    char **arg = argv + optind, *kvctl = arg[0], *file = arg[1];
    char *want_a = hash(kvctl, arg[2]), *want_b = hash(kvctl, arg[3]);
    double took = 0;
    for (int i = 0; i < 3; i++) { /* the longest of three */
        copy(arg[2], file);
        double begin = now();
        run(arg + 4);
        took = now() - begin > took ? now() - begin : took;
    }
    if (strcmp(hash(kvctl, file), want_b) != 0)
        stop("the command does not give B");
    int before = files();
    for (long i = 0; i < times; i++) {
        copy(arg[2], file);
        hit += kill_after(start(arg + 4, "out"), draw() * took);
        if (i % 2)
            readers += kill_after(start((char *[]){kvctl, "hash", file, NULL}, "hashes"),
                                  draw() * took / 2);
        char *got = hash(kvctl, file);
        is_a += strcmp(got, want_a) == 0;
        is_b += strcmp(got, want_b) == 0;
        if (is_a + is_b != i + 1)
            stop("a mixture");
        if (files() != before)
            stop("something stays in the folder");
        free(got);
    }
    printf("%ld kills, %ld of the writer and %ld of a reader hit: A in %ld, B in %ld\n", times, hit,
           readers, is_a, is_b);
    return hit > 0 ? 0 : 1;
}
