/* Runs two commands in turns, A B A B …, and compares them.
 *
 *     pairs COUNT A [WORD…] --- B [WORD…]
 *
 * prints one line of six numbers: the median of A's wall time over B's, the median wall time of A
 * and of B in ms, the largest memory of A and of B in KB, and how many percent of its wall time A
 * had a processor. The two of a pair share whatever else the machine does meanwhile, so that only
 * the ratios say something; each is the median over the pairs.
 *
 * The commands' output goes nowhere. A command that fails ends all with exit status 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "measure.h"

typedef struct cost {
    double wall_ms, cpu_ms;
    long memory_kb;
} cost;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double time_ms(struct timeval t)
{
    return (double)t.tv_sec * 1e3 + (double)t.tv_usec / 1e3;
}

static void become(char **words)
{
    int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    execvp(words[0], words);
    fprintf(stderr, "pairs: cannot run %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

static cost run(char **words)
{
    struct rusage used;
    int status;
    double began = now_ms();
    pid_t child = vfork();
    if (child == 0)
        become(words);
    if (child < 0 || wait4(child, &status, 0, &used) < 0) {
        perror("pairs");
        exit(1);
    }
    double wall = now_ms() - began;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "pairs: %s failed\n", words[0]);
        exit(1);
    }
    return (cost){wall, time_ms(used.ru_utime) + time_ms(used.ru_stime), used.ru_maxrss};
}

int main(int argc, char **argv)
{
    enum { MOST = 1000 };
    static double wall[MOST], a_ms[MOST], b_ms[MOST], busy[MOST];
    int n = argc > 1 ? atoi(argv[1]) : 0, split = 2;
    long a_kb = 0, b_kb = 0;
    while (split < argc && strcmp(argv[split], "---") != 0)
        split++;
    if (n < 1 || n > MOST || split < 3 || split + 1 >= argc) {
        fputs("usage: pairs COUNT A [WORD…] --- B [WORD…]\n", stderr);
        return 2;
    }
    argv[split] = NULL;
    for (int i = -1; i < n; i++) { /* the first pair only warms the caches */
        cost a = run(argv + 2), b = run(argv + split + 1);
        if (i < 0)
            continue;
        wall[i] = a.wall_ms / b.wall_ms;
        a_ms[i] = a.wall_ms;
        b_ms[i] = b.wall_ms;
        busy[i] = 100 * a.cpu_ms / a.wall_ms;
        a_kb = a.memory_kb > a_kb ? a.memory_kb : a_kb;
        b_kb = b.memory_kb > b_kb ? b.memory_kb : b_kb;
    }
    printf("%.4f %.4f %.4f %ld %ld %.0f\n", median(wall, n), median(a_ms, n), median(b_ms, n), a_kb,
           b_kb, median(busy, n));
    return 0;
}
