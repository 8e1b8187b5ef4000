/* Runs random programs of the common subset of Python and kvctl, whose output Python gave (see
 * generate.py), and compares.
 *
 *     gzip -dc programs.gz | differential KVCTL [JOBS]
 *
 * TAP, one test a thousand programs. A program that differs is shown with both outputs. What Python
 * refuses must fail here too; it may fail earlier, since kvctl reads all of a program first. What
 * is not in the language must fail with a hint.
 *
 * Programs that end well share a process, each with a store of its own: a process of its own takes
 * ten times as long as the program. When the output of several differs, each is run by itself. */
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GROUP = 1000, SHOWN = 5 /* of a group */, TOGETHER = 100 };

extern char **environ;

typedef enum kind {
    RUNS,   /* prints what Python does */
    FAILS,  /* Python refuses it, perhaps after some output */
    REFUSED /* Python runs it, and kvctl says what to write instead */
} kind;

typedef struct program {
    const char *text, *output;
    size_t text_n, output_n;
    kind kind;
} program;

typedef struct answer {
    char *out, *err;
    size_t out_n;
    int code;
} answer;

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(2);
}

static kind read_kind(const char *line)
{
    return strncmp(line, "=== error", 9) == 0     ? FAILS
           : strncmp(line, "=== refused", 11) == 0 ? REFUSED
                                                   : RUNS;
}

/* All of stdin, with a NUL behind it. */
static char *read_all(void)
{
    size_t n = 0, cap = 1 << 20;
    char *all = malloc(cap);
    for (size_t got = 1; all && got; n += got) {
        if (cap - n < 65536)
            all = realloc(all, cap *= 2);
        got = all ? fread(all + n, 1, cap - n - 1, stdin) : 0;
    }
    if (!all || ferror(stdin))
        fail("stdin");
    all[n] = '\0';
    return all;
}

/* The line that begins with a mark at or behind text, or the end of all. */
static char *find_line(char *text, const char *mark)
{
    size_t n = strlen(mark);
    while (*text && strncmp(text, mark, n) != 0) {
        char *newline = strchr(text, '\n');
        text = newline ? newline + 1 : text + strlen(text);
    }
    return text;
}

static program *read_programs(char *all, int *n)
{
    int cap = 1 << 16;
    program *list = malloc((size_t)cap * sizeof *list);
    *n = 0;
    for (char *at = all; list && *at;) {
        char *text = strchr(at, '\n') + 1;
        char *dashes = find_line(text, "---\n");
        char *output = *dashes ? dashes + 4 : dashes, *next = find_line(output, "=== ");
        if (*n == cap)
            list = realloc(list, (size_t)(cap *= 2) * sizeof *list);
        if (!list)
            break;
        list[(*n)++] = (program){.text = text,
                                 .text_n = (size_t)(dashes - text),
                                 .output = output,
                                 .output_n = (size_t)(next - output),
                                 .kind = read_kind(at)};
        at = next;
    }
    if (!list)
        fail("memory");
    return list;
}

static int memory_file(void)
{
    int fd = memfd_create("program", MFD_CLOEXEC);
    if (fd < 0)
        fail("memfd_create");
    return fd;
}

static char *read_file(int fd, size_t *n)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = malloc((size_t)size + 1);
    if (size < 0 || !text || pread(fd, text, (size_t)size, 0) != size)
        fail("output");
    text[size] = '\0';
    *n = (size_t)size;
    close(fd);
    return text;
}

static answer run(const char *kvctl, const char *text, size_t n)
{
    int fds[3] = {memory_file(), memory_file(), memory_file()}, status;
    posix_spawn_file_actions_t actions;
    char *words[] = {(char *)(uintptr_t)kvctl, "--timeout", "60", "-", NULL};
    answer a = {0};
    size_t unused;
    pid_t pid;
    if (write(fds[0], text, n) != (ssize_t)n || lseek(fds[0], 0, SEEK_SET))
        fail("program");
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    if (posix_spawn(&pid, kvctl, &actions, NULL, words, environ) || waitpid(pid, &status, 0) < 0)
        fail(kvctl);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[0]);
    a.out = read_file(fds[1], &a.out_n);
    a.err = read_file(fds[2], &unused);
    a.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return a;
}

/* What the page on the language says that Python has and kvctl has not, and generate.py cannot see
 * coming. */
static bool is_beyond(const program *p, const answer *a)
{
    if (strstr(a->err, "error[dtype]: `+=` keeps the dtype") &&
        memmem(p->text, p->text_n, "+= [", 4))
        return true; /* a list becomes a float32 array */
    return strstr(a->err, "error[value]: a list cannot hold itself") ||
           strstr(a->err, "error[value]: a dict cannot hold itself") ||
           strstr(a->err, "error[dtype]: a slice of a list is given a list, not an array");
}

/* Which zero is the smaller one depends on the processor that NumPy runs on. */
static bool chooses_zeros(const program *p)
{
    static const char *const words[] = {"min", "max", "sort", "unique", "clip"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(p->text, p->text_n, words[i], strlen(words[i])))
            return true;
    return false;
}

/* Skips blanks and the sign of a zero. */
static const char *next_sign(const char *at, const char *end)
{
    while (at < end && *at == ' ')
        at++;
    if (end - at < 2 || at[0] != '-' || at[1] != '0')
        return at;
    const char *digit = at + 2;
    while (digit < end && (*digit == '.' || *digit == '0'))
        digit++;
    return digit < end && *digit >= '1' && *digit <= '9' ? at : at + 1;
}

/* all: b ends where a does. */
static bool same_but_for_zeros(const char *a, size_t a_n, const char *b, size_t b_n, bool all)
{
    const char *a_end = a + a_n, *b_end = b + b_n;
    for (;; a++, b++) {
        a = next_sign(a, a_end);
        b = next_sign(b, b_end);
        if (a == a_end || b == b_end)
            return a == a_end && (b == b_end || !all);
        if (*a != *b)
            return false;
    }
}

static bool agrees(const program *p, const answer *a)
{
    bool begins = a->out_n <= p->output_n && memcmp(a->out, p->output, a->out_n) == 0;
    bool ends = p->kind == RUNS && !is_beyond(p, a);
    if (!begins && chooses_zeros(p))
        begins = same_but_for_zeros(a->out, a->out_n, p->output, p->output_n, ends);
    else
        begins &= !ends || a->out_n == p->output_n;
    if (ends)
        return a->code == 0 && begins;
    return a->code > 0 && a->code < 70 && begins &&
           (p->kind != REFUSED || strstr(a->err, "\n hint: "));
}

static void show_text(const char *title, const char *text, size_t n)
{
    printf("# %s\n", title);
    for (size_t at = 0; at < n;) {
        const char *newline = memchr(text + at, '\n', n - at);
        size_t length = newline ? (size_t)(newline - text) - at : n - at;
        printf("#   %.*s\n", (int)length, text + at);
        at += length + 1;
    }
}

static void show(const program *p, const answer *a)
{
    show_text("program", p->text, p->text_n);
    show_text(p->kind == RUNS    ? "Python prints"
              : p->kind == FAILS ? "Python prints this and refuses the rest"
                                 : "to be refused with a hint; Python prints",
              p->output, p->output_n);
    printf("# kvctl ends with %d\n", a->code);
    show_text("out", a->out, a->out_n);
    show_text("err", a->err, strlen(a->err));
}

/* Prints a program that differs, if few did before. */
static bool agrees_alone(const char *kvctl, const program *p, int differ)
{
    answer a = run(kvctl, p->text, p->text_n);
    bool ok = agrees(p, &a);
    if (!ok && differ < SHOWN)
        show(p, &a);
    free(a.out);
    free(a.err);
    return ok;
}

/* Returns whether the program ends in another way than in Python, as the page says. */
static bool ends_otherwise(const program *p, const char *kvctl)
{
    answer a = run(kvctl, p->text, p->text_n);
    bool may = is_beyond(p, &a);
    free(a.out);
    free(a.err);
    return may;
}

/* Returns whether the programs, one behind the other in one process, print what each should. No
 * output of a program has a line like the one in front of it. */
static bool agree_together(const char *kvctl, const program *const *list, int n)
{
    char *text = NULL, *want = NULL;
    size_t text_n, want_n;
    FILE *in = open_memstream(&text, &text_n), *out = open_memstream(&want, &want_n);
    if (!in || !out)
        fail("memory");
    bool zeros = false;
    for (int i = 0; i < n; i++) {
        zeros |= chooses_zeros(list[i]);
        fprintf(in, "create local\nprint(\"=== %d\")\n", i);
        fwrite(list[i]->text, 1, list[i]->text_n, in);
        fprintf(out, "=== %d\n", i);
        fwrite(list[i]->output, 1, list[i]->output_n, out);
    }
    if (fclose(in) || fclose(out))
        fail("memory");
    answer a = run(kvctl, text, text_n);
    bool ok = a.code == 0 && (zeros ? same_but_for_zeros(a.out, a.out_n, want, want_n, true)
                                    : a.out_n == want_n && memcmp(a.out, want, want_n) == 0);
    free(text);
    free(want);
    free(a.out);
    free(a.err);
    return ok;
}

/* How many of n programs differ, of which `differ` did before. */
static int count_together(const char *kvctl, const program *const *list, int n, int differ)
{
    int before = differ;
    if (agree_together(kvctl, list, n))
        return 0;
    for (int i = 0; i < n; i++)
        differ += !agrees_alone(kvctl, list[i], differ);
    for (int i = 0; i < n && differ == before; i++)
        if (ends_otherwise(list[i], kvctl))
            return 0;
    if (differ > before)
        return differ - before;
    show_text("differs behind others in one process, not alone", list[0]->text, list[0]->text_n);
    return 1;
}

/* A group of programs, and its verdict. */
static void run_group(const char *kvctl, const program *list, int group, int n)
{
    const program *ends_well[GROUP];
    int differ = 0, many = 0, first = group * GROUP, end = first + GROUP < n ? first + GROUP : n;
    for (int i = first; i < end; i++) {
        if (list[i].kind == RUNS)
            ends_well[many++] = &list[i];
        else
            differ += !agrees_alone(kvctl, &list[i], differ);
    }
    for (int i = 0; i < many; i += TOGETHER)
        differ += count_together(kvctl, ends_well + i, many - i < TOGETHER ? many - i : TOGETHER,
                                 differ);
    printf("%sok %d - programs %d to %d: %d of %d as in Python\n", differ ? "not " : "", group + 1,
           first + 1, end, end - first - differ, end - first);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int n, jobs = argc > 2 ? atoi(argv[2]) : 1;
    if (argc < 2 || jobs < 1) {
        fprintf(stderr, "usage: differential KVCTL [JOBS] <PROGRAMS\n");
        return 2;
    }
    char *all = read_all();
    program *list = read_programs(all, &n);
    int groups = (n + GROUP - 1) / GROUP;
    printf("1..%d\n", groups);
    fflush(stdout);
    setvbuf(stdout, NULL, _IOFBF, 1 << 20); /* the verdicts of the jobs must not mix */
    for (int job = 0; job < jobs; job++) {
        if (fork() != 0)
            continue;
        for (int group = job; group < groups; group += jobs)
            run_group(argv[1], list, group, n);
        _exit(0);
    }
    while (wait(NULL) > 0)
        ;
    free(list);
    free(all);
    return 0;
}
