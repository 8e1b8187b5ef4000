/* Lets each call of each kind fail, once and from then on for ever, in sessions of kvctl.
 *
 *     faults [-j JOBS] [-e EVERY] [-k KIND] [-n CALL] [-c MOST] KVCTL PROGRAMS SESSIONS [NAME...]
 *
 * PROGRAMS is the folder that holds faults.so, calls.so and states.
 * SESSIONS is a folder of scripts. make.kv makes the files that the others find, and begins each of
 * them anew. Lines at the head of a script:
 *
 *     # kvctl: OPTIONS      of the command line
 *     # exits: N            when nothing fails
 *     # may: N...           statuses beside 3 and 5 when a call fails
 *     # varies: NAME...     files that are different each time; - is stdout
 *     # kinds: KIND...      these alone
 *     # keeps: NAME...      files that may stay when a call fails
 *     # empty: NAME         a file that may stay with nothing in it
 *     # stdin: NAME         of the files that make.kv makes
 *     # set: NAME=VALUE...  variables
 *     # alone               the types of several machines are those of a job of one rank, without
 *                           MPI, and mpirun starts one such rank
 *     # stale: NAME         a file that may stay as it was where a warning says so
 *     # unsynced            the power may fail, and what is written may be lost
 *     # unchanged           see below
 *
 * Each run must end by itself, with a status of the table and a sentence, or as it does when
 * nothing fails; each file must be as before or as afterwards, and nothing else be there; all
 * memory that nothing points to was given back, and all files were closed.
 *
 * `# unchanged`: with -k the session goes on behind an error, and shows the store after each
 * command, between the lines `== N` and `== end N`. The first part that is not as it is without a
 * failure is as the one before: the command that failed left the store as it was.
 *
 * `-c MOST`: and the power fails behind each call of each session that changes files, which are
 * recorded: MOST states of the disk for each, see states.c.
 *
 * Each EVERY-th call fails (all). -n CALL with a KIND and a NAME is one run, whose output is shown.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../memory.h"
#include "faults.h"
#include "tree.h"

#define SESSIONS 128
#define WORDS    32
#define TEXT     (1 << 20)

static const char *const kinds[] = {FAULT_NAMES};

typedef struct session {
    char name[64], path[600], options[256], varies[256], only[256], may[64], keeps[128], empty[64],
        input[64], set[256], stale[64];
    int exits;
    bool unchanged, unsynced, alone;
} session;

/* What came out of a kind of fault in a session. */
typedef struct tally {
    _Atomic long runs, hits, failed;
} tally;

/* What came of all crashes. */
typedef struct crashes {
    _Atomic long sessions, calls, states, failed;
} crashes;

static struct {
    const char *kvctl, *programs, *folder;
    int jobs, every, kind, most;
    long at;
    char scratch[64], top[600];
    session sessions[SESSIONS];
    int nsessions;
    tally (*tallies)[FAULT_KINDS][2];
    tree files; /* that each session begins with */
    crashes *crashes;
} test = {.jobs = 1, .every = 1, .kind = -1};

/* A session that runs: its server, and what comes of it when nothing fails. */
typedef struct subject {
    const session *s;
    pid_t server;
    int plans, answers, out, err;
    char work[128];
    fault_page *page;
    int64_t made[FAULT_KINDS];
    tree now, after;
    char *said;
} subject;

__attribute__((format(printf, 1, 2), noreturn)) static void stop(const char *why, ...)
{
    va_list ap;
    va_start(ap, why);
    fputs("faults: ", stderr);
    vfprintf(stderr, why, ap);
    fputc('\n', stderr);
    exit(2);
}

static void *shared(size_t n, int *fd)
{
    *fd = memfd_create("faults", 0);
    void *p = *fd < 0 || ftruncate(*fd, (off_t)n) != 0
                  ? MAP_FAILED
                  : mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (p == MAP_FAILED)
        stop("no memory");
    return p;
}

static char *text_of(int fd)
{
    char *text = calloc(1, TEXT + 1);
    if (pread(fd, text, TEXT, 0) < 0)
        stop("cannot read what a session said");
    return text;
}

/* Whether a list of words with blanks has this one. */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void read_session(session *s, const char *name)
{
    char line[400];
    *s = (session){0};
    snprintf(s->name, sizeof s->name, "%.*s", (int)strlen(name) - 3, name);
    snprintf(s->path, sizeof s->path, "%s/%s", test.folder, name);
    FILE *f = fopen(s->path, "r");
    if (!f)
        stop("cannot read %s", s->path);
    while (fgets(line, sizeof line, f) && line[0] == '#') {
        line[strcspn(line, "\n")] = '\0';
        sscanf(line, "# kvctl: %255[^\n]", s->options);
        sscanf(line, "# varies: %255[^\n]", s->varies);
        sscanf(line, "# kinds: %255[^\n]", s->only);
        sscanf(line, "# may: %63[^\n]", s->may);
        sscanf(line, "# keeps: %127[^\n]", s->keeps);
        sscanf(line, "# stdin: %63s", s->input);
        sscanf(line, "# empty: %63s", s->empty);
        sscanf(line, "# set: %255[^\n]", s->set);
        sscanf(line, "# stale: %63s", s->stale);
        sscanf(line, "# exits: %d", &s->exits);
        s->unsynced = s->unsynced || strcmp(line, "# unsynced") == 0;
        s->alone = s->alone || strcmp(line, "# alone") == 0;
        s->unchanged = s->unchanged || strcmp(line, "# unchanged") == 0;
    }
    fclose(f);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const session *)a)->name, ((const session *)b)->name);
}

static void read_sessions(char *const *names, int n)
{
    DIR *d = opendir(test.folder);
    if (!d)
        stop("cannot read %s", test.folder);
    for (const struct dirent *x; (x = readdir(d));) {
        size_t len = strlen(x->d_name);
        if (len < 4 || strcmp(x->d_name + len - 3, ".kv") != 0 || strcmp(x->d_name, "make.kv") == 0)
            continue;
        if (test.nsessions == SESSIONS)
            stop("too many sessions");
        session *s = &test.sessions[test.nsessions];
        read_session(s, x->d_name);
        bool wanted = n == 0;
        for (int i = 0; i < n; i++)
            wanted = wanted || strcmp(names[i], s->name) == 0;
        test.nsessions += wanted;
    }
    closedir(d);
    qsort(test.sessions, (size_t)test.nsessions, sizeof(session), by_name);
}

/* The words of the command line. */
static void words_of(const session *s, const char *more, char *text, size_t size, char **words)
{
    int n = 0;
    snprintf(text, size, "%s %s", s->options, more);
    words[n++] = (char *)test.kvctl;
    for (char *word = strtok(text, " "); word && n < WORDS - 3; word = strtok(NULL, " "))
        words[n++] = word;
    words[n++] = (char *)s->path;
    words[n] = NULL;
}

static void set_variables(const session *s)
{
    static char text[sizeof s->set], path[5000]; /* of this process, which becomes another */
    snprintf(text, sizeof text, "%s", s->set);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        putenv(word);
    if (!s->alone)
        return;
    snprintf(path, sizeof path, "%s/alone", test.programs);
    setenv("KVSTORE_PLUGINS", path, 1);
    snprintf(path, sizeof path, "%s/alone/libmpi.so.40", test.programs);
    setenv("KVSTORE_MPI", path, 1);
    snprintf(path, sizeof path, "%s/tests/faults/alone:%.4000s", test.top, getenv("PATH"));
    setenv("PATH", path, 1);
}

static void become(const session *s, const char *more, const char *work, int out, int err)
{
    char text[300], *words[WORDS];
    words_of(s, more, text, sizeof text, words);
    if (chdir(work) != 0)
        _exit(126);
    int in = open(*s->input ? s->input : "/dev/null", O_RDONLY);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(126);
    close(in);
    setenv("HOME", work, 1);
    setenv("FAULT_TOP", test.top, 1);
    setenv("MALLOC_ARENA_MAX", "1", 1); /* see blocks.c */
    setenv("KVSTORE_THREADS", "1", 1);  /* so that calls have an order */
    setenv("LC_ALL", "C.UTF-8", 1);
    set_variables(s);
    execv(test.kvctl, words);
    _exit(127);
}

static void preload(const char *library)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", test.programs, library);
    setenv("LD_PRELOAD", path, 1);
}

/* ---- A server -------------------------------------------------------------------------------- */

static void start(subject *u, const session *s, const char *work)
{
    int plans[2], answers[2], page;
    char words[64];
    *u = (subject){.s = s};
    snprintf(u->work, sizeof u->work, "%s", work);
    tree_write(work, &u->now, &test.files); /* one of them may be stdin */
    u->now = tree_read(work);
    u->page = shared(sizeof *u->page, &page);
    u->out = memfd_create("out", 0);
    u->err = memfd_create("err", 0);
    if (pipe(plans) != 0 || pipe(answers) != 0)
        stop("no pipe");
    u->server = fork();
    if (u->server == 0) {
        close(plans[1]);
        close(answers[0]);
        snprintf(words, sizeof words, "%d %d %d", plans[0], answers[1], page);
        setenv("FAULT_SERVER", words, 1);
        preload("faults.so");
        become(s, "", work, u->out, u->err);
    }
    close(plans[0]);
    close(answers[1]);
    close(page);
    u->plans = plans[1];
    u->answers = answers[0];
}

static void end(subject *u)
{
    close(u->plans);
    close(u->answers);
    close(u->out);
    close(u->err);
    waitpid(u->server, NULL, 0);
    munmap(u->page, sizeof *u->page);
    tree_release(&u->now);
    tree_release(&u->after);
    free(u->said);
}

static fault_answer ask(subject *u, fault_plan plan)
{
    fault_answer answer;
    tree_write(u->work, &u->now, &test.files);
    tree_release(&u->now);
    if (write(u->plans, &plan, sizeof plan) != sizeof plan ||
        read(u->answers, &answer, sizeof answer) != sizeof answer) {
        char *said = text_of(u->err);
        stop("%s: the server is gone: %s", u->s->name, said);
    }
    u->now = tree_read(u->work);
    return answer;
}

/* Runs the session by itself, without the library. Returns its status. */
static int run_plainly(const session *s, const char *more, const char *work, int out, int err)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        become(s, more, work, out, err);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- Checking a run -------------------------------------------------------------------------- */

/* The part between `== i` and `== end i`; false: it is not there whole. */
static bool part_of(const char *said, int i, const char **begin, size_t *n)
{
    char head[32], foot[32];
    snprintf(head, sizeof head, "== %d\n", i);
    snprintf(foot, sizeof foot, "== end %d\n", i);
    const char *from = strstr(said, head), *to = from ? strstr(from, foot) : NULL;
    if (!to)
        return false;
    *begin = from + strlen(head);
    *n = (size_t)(to - *begin);
    return true;
}

static const char *check_parts(const subject *u, const char *said)
{
    const char *got, *want, *last = "";
    size_t ngot, nwant, nlast;
    for (int i = 0; part_of(u->said, i, &want, &nwant); i++) {
        bool whole = part_of(said, i, &got, &ngot);
        if (i > 0 && !whole)
            continue;
        if (whole && ngot == nwant && memcmp(got, want, ngot) == 0)
            continue;
        /* how the store came into being is not looked at */
        bool same = i == 0 || (part_of(u->said, i - 1, &last, &nlast) && ngot == nlast &&
                               memcmp(got, last, nlast) == 0);
        return same ? NULL : "the command that failed changed the store";
    }
    return NULL;
}

/* Whether a file may be there that is neither old nor new: one that the session
 * makes empty first. */
static bool may_stay(const subject *u, const char *path)
{
    const tree_file *f = tree_find(&u->now, path);
    return f && f->n == 0 && strcmp(path, u->s->empty) == 0;
}

/* What is wrong with a run, NULL if nothing is. */
static const char *check(const subject *u, fault_answer answer, const char *said, const char *cried)
{
    static char why[700];
    int status = WIFEXITED(answer.status) ? WEXITSTATUS(answer.status) : -1;
    char number[16];
    if (answer.hung)
        return "no end";
    if (status < 0) {
        snprintf(why, sizeof why, "ended by signal %d", WTERMSIG(answer.status));
        return why;
    }
    snprintf(number, sizeof number, "%d", status);
    bool same = status == u->s->exits;
    if (!same && status != 3 && status != 5 && !has_word(u->s->may, number)) {
        snprintf(why, sizeof why, "exit status %d", status);
        return why;
    }
    if (status != 0 && !same && !strstr(cried, "error[") && !strstr(cried, "kvctl: ") &&
        !strstr(said, "error[") && !strstr(said, "\"error\":"))
        return "a failure without a sentence";
    if (u->page->leaks) {
        snprintf(why, sizeof why,
                 "%lld blocks are leaked, the first by allocation %lld of %lld bytes",
                 (long long)u->page->leaks, (long long)u->page->first_leak,
                 (long long)u->page->first_bytes);
        return why;
    }
    if (u->page->descriptors) {
        snprintf(why, sizeof why, "%lld files are left open: %s", (long long)u->page->descriptors,
                 u->page->descriptor);
        return why;
    }
    if (u->s->unchanged)
        return check_parts(u, said);
    const char *but = u->s->varies[0] != '-' ? u->s->varies : "";
    char leave[400];
    snprintf(leave, sizeof leave, "%s %s", but, u->s->keeps);
    if (!u->page->hits && u->page->foreign_leaks)
        return "a library leaks without a fault";
    const char *odd = tree_odd(&u->now, &test.files, &u->after, leave);
    if (odd && !may_stay(u, odd)) {
        snprintf(why, sizeof why, "status %d, and this file is neither old nor new: %s", status,
                 odd);
        return why;
    }
    if (!same)
        return NULL;
    if (!has_word(u->s->varies, "-") && strcmp(said, u->said) != 0)
        return "no failure, but another output";
    if (*u->s->stale && strstr(cried, "warning: "))
        return NULL;
    if (!*but && !tree_same(&u->now, &u->after))
        return "no failure, but other files";
    return NULL;
}

/* ---- All faults of a session ----------------------------------------------------------------- */

/* The run without a fault. */
static void try_none(subject *u)
{
    const char *why = NULL;
    fault_answer answer = ask(u, (fault_plan){.kind = -1});
    for (int k = 0; k < FAULT_KINDS; k++)
        u->made[k] = u->page->made[k];
    u->after = tree_read(u->work);
    u->said = text_of(u->out);
    char *cried = text_of(u->err);
    if (!WIFEXITED(answer.status) || WEXITSTATUS(answer.status) != u->s->exits ||
        (why = check(u, answer, u->said, cried)))
        stop("%s does not work without a fault: status %x\n%s%s%s", u->s->name,
             (unsigned)answer.status, u->said, cried, why ? why : "");
    free(cried);
}

/* A change in place that failed may leave its journal: the next reader of the file ends it. */
static void read_changed(subject *u)
{
    session reader = {.path = "--quiet"}; /* behind the command */
    for (int i = 0; i < u->now.n; i++) {
        const char *path = u->now.files[i].path, *ending = strstr(path, ".kv-journal");
        if (path[0] != '.' || !ending)
            continue;
        snprintf(reader.options, sizeof reader.options, "ls %.*s", (int)(ending - path - 1),
                 path + 1);
        run_plainly(&reader, "", u->work, open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
        tree_release(&u->now);
        u->now = tree_read(u->work);
        return;
    }
}

/* A folder that cannot be opened or read cannot be removed: the next writer does that, or the next
 * job, whose launcher also needs memory to read its own. */
static void drop_left(subject *u, int kind)
{
    tree left = {malloc((size_t)u->now.n * sizeof *left.files), 0};
    for (int i = 0; i < u->now.n; i++) {
        const char *path = u->now.files[i].path;
        bool folder = strncmp(path, ".kv-", 4) == 0 && strstr(path, ".tmp/");
        bool job = u->s->alone && strncmp(path, "kvctl-", 6) == 0;
        if (!(folder && kind != FAULT_MEMORY) && !job)
            left.files[left.n++] = u->now.files[i];
    }
    if (left.n < u->now.n) {
        tree_write(u->work, &u->now, &left);
        tree_release(&u->now);
        u->now = tree_read(u->work);
    }
    free(left.files);
}

static void try_fault(subject *u, tally *t, fault_plan plan)
{
    fault_answer answer = ask(u, plan);
    read_changed(u);
    if (plan.kind == FAULT_OPEN || plan.kind == FAULT_READ || plan.kind == FAULT_MEMORY)
        drop_left(u, plan.kind);
    char *said = text_of(u->out), *cried = text_of(u->err);
    const char *why = check(u, answer, said, cried);
    t->runs++;
    t->hits += u->page->hits > 0;
    if (test.at)
        printf("%s%sstatus %x\n", said, cried, (unsigned)answer.status);
    if (why && t->failed++ < 8)
        printf("# %s: %s %lld%s: %s\n#   %.300s\n", u->s->name, kinds[plan.kind],
               (long long)plan.at, plan.ever ? " and all behind it" : "", why,
               *cried ? cried : said);
    fflush(stdout);
    free(said);
    free(cried);
}

static void try_kind(subject *u, tally (*t)[2], int kind, int job)
{
    const session *s = u->s;
    if ((test.kind >= 0 && kind != test.kind) || (*s->only && !has_word(s->only, kinds[kind])))
        return;
    int64_t step = test.every, i = 0;
    for (int64_t n = test.at ? test.at : 1 + (step - 1) % (u->made[kind] + 1);
         n <= u->made[kind] && (!test.at || n == test.at); n += step)
        for (int ever = 0; ever < 2; ever++)
            if (i++ % test.jobs == job)
                try_fault(u, &(*t)[ever],
                          (fault_plan){.kind = kind, .ever = ever, .at = n});
}

/* ---- Crashes --------------------------------------------------------------------------------- */

/* Records the calls of a session. Returns its status. */
static int record(const session *s, const char *work, const char *log)
{
    int status, unused = open("/dev/null", O_WRONLY | O_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("CALLS_FOLDER", work, 1);
        setenv("CALLS_LOG", log, 1);
        preload("calls.so");
        become(s, "", work, unused, unused);
    }
    waitpid(pid, &status, 0);
    close(unused);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The states that the recorded calls allow. What they say is shown when one is wrong. */
static void crash(const session *s, const char *log, const char *before, const char *after)
{
    char program[700], most[16], said[600] = "";
    long states = 0, calls = 0;
    int ends[2], status;
    snprintf(program, sizeof program, "%s/states", test.programs);
    snprintf(most, sizeof most, "%d", test.most);
    if (pipe(ends) != 0)
        stop("no pipe");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        execl(program, program, "-p", "512", "-m", most, "-e", *s->empty ? s->empty : ".", log,
              before, after, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *f = fdopen(ends[0], "r");
    while (f && fgets(said, sizeof said, f))
        ;
    fclose(f);
    waitpid(pid, &status, 0);
    bool fine = status == 0 && sscanf(said, "%ld states behind %ld calls", &states, &calls) == 2;
    printf("%s - %s: crashes, %s", fine ? "ok" : "not ok", s->name, said);
    fflush(stdout);
    test.crashes->sessions++;
    test.crashes->states += states;
    test.crashes->calls += calls;
    test.crashes->failed += !fine;
}

static void try_crashes(const session *s, int job)
{
    char work[128], before[128], log[128];
    tree none = {NULL, 0};
    snprintf(work, sizeof work, "%s/crash%d", test.scratch, job);
    snprintf(before, sizeof before, "%s/before%d", test.scratch, job);
    snprintf(log, sizeof log, "%s/log%d", test.scratch, job);
    mkdir(work, 0700);
    mkdir(before, 0700);
    tree_write(work, &none, &test.files);
    tree_write(before, &none, &test.files);
    unlink(log);
    int status = record(s, work, log);
    tree after = tree_read(work);
    if (status != s->exits)
        stop("%s ends with %d when its calls are recorded", s->name, status);
    if (!tree_same(&after, &test.files))
        crash(s, log, before, work);
    tree_write(work, &after, &none);
    tree_write(before, &test.files, &none);
    tree_release(&after);
    rmdir(work);
    rmdir(before);
    unlink(log);
}

static int try_all(int job)
{
    char work[128];
    tree none = {NULL, 0};
    snprintf(work, sizeof work, "%s/%d", test.scratch, job);
    mkdir(work, 0700);
    for (int i = 0; i < test.nsessions; i++) {
        subject u;
        start(&u, &test.sessions[i], work);
        try_none(&u);
        for (int k = 0; k < FAULT_KINDS; k++)
            try_kind(&u, &test.tallies[i][k], k, job);
        tree_write(work, &u.now, &none);
        end(&u);
        const session *s = &test.sessions[i];
        if (test.most > 0 && i % test.jobs == job && !s->unsynced && !s->unchanged)
            try_crashes(s, job);
    }
    rmdir(work);
    return 0;
}

/* ---- All commands ---------------------------------------------------------------------------- */

/* The commands that the sessions use, as --json names them, and those that kvctl has. */
static int check_commands(const char *work)
{
    static char used[TEXT], word[64];
    session help = {.path = "--json", .options = "help"};
    tree now = {NULL, 0}, none = now;
    int out = memfd_create("out", 0), unused = 0, n = 0;
    for (int i = 0; i < test.nsessions; i++) {
        tree_write(work, &now, &test.files);
        if (ftruncate(out, 0) != 0 || lseek(out, 0, SEEK_SET) != 0)
            stop("ftruncate");
        run_plainly(&test.sessions[i], "--json", work, out, open("/dev/null", O_WRONLY));
        tree_release(&now);
        now = tree_read(work);
        char *said = text_of(out);
        for (const char *at = said; (at = strstr(at, "\"cmd\":\"")); at += 7)
            if (sscanf(at, "\"cmd\":\"%63[a-z-]", word) == 1 && !has_word(used, word))
                strcat(strcat(used, " "), word);
        free(said);
    }
    if (ftruncate(out, 0) != 0 || lseek(out, 0, SEEK_SET) != 0)
        stop("ftruncate");
    run_plainly(&help, "", work, out, 2);
    char *said = text_of(out), *behind = strstr(said, "\"functions\":");
    if (behind)
        *behind = '\0';
    for (const char *at = said; (at = strstr(at, "{\"name\":\"")); at += 9) {
        int len = 0;
        if (sscanf(at, "{\"name\":\"%63[a-z-]\",\"usage%n", word, &len) != 1 || len == 0)
            continue;
        n++;
        if (!has_word(used, word) && ++unused)
            printf("# no session uses the command %s\n", word);
    }
    free(said);
    tree_write(work, &now, &none);
    tree_release(&now);
    close(out);
    printf("%s - each of the %d commands is used by a session\n",
           unused || n < 50 ? "not ok" : "ok", n);
    return unused || n < 50;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static void make_files(void)
{
    char work[128];
    session s;
    tree none = {NULL, 0};
    snprintf(work, sizeof work, "%s/made", test.scratch);
    mkdir(work, 0700);
    read_session(&s, "make.kv");
    if (run_plainly(&s, "", work, open("/dev/null", O_WRONLY | O_CLOEXEC), 2) != 0)
        stop("make.kv failed");
    test.files = tree_read(work);
    tree_write(work, &test.files, &none);
}

static int report(void)
{
    long runs[FAULT_KINDS] = {0}, all = 0;
    int passed = 0, failed = 0;
    for (int i = 0; i < test.nsessions; i++)
        for (int k = 0; k < FAULT_KINDS; k++)
            for (int ever = 0; ever < 2; ever++) {
                const tally *t = &test.tallies[i][k][ever];
                runs[k] += t->hits;
                all += t->hits;
                if (t->runs == 0)
                    continue;
                *(t->failed ? &failed : &passed) += 1;
                printf("%s - %s: %s fails %s, %ld times%s", t->failed ? "not ok" : "ok",
                       test.sessions[i].name, kinds[k], ever ? "for ever" : "once", t->runs,
                       t->failed ? "" : "\n");
                if (t->failed)
                    printf(", %ld of them wrong\n", t->failed);
            }
    char work[128];
    snprintf(work, sizeof work, "%s/made", test.scratch);
    if (test.crashes->sessions > 0) {
        passed += (int)(test.crashes->sessions - test.crashes->failed);
        failed += (int)test.crashes->failed;
        printf("# %ld states of the disk behind %ld calls of %ld sessions\n",
               (long)test.crashes->states, (long)test.crashes->calls,
               (long)test.crashes->sessions);
    }
    if (test.nsessions > 20 && test.most > 0) {
        bool enough = test.crashes->states >= 100 * test.most;
        *(enough ? &passed : &failed) += 1;
        printf("%s - %d states of the disk or more\n", enough ? "ok" : "not ok", 100 * test.most);
    }
    bool some = test.kind >= 0 || test.at;
    if (!some && test.nsessions > 20)
        *(check_commands(work) ? &failed : &passed) += 1;
    rmdir(work);
    printf("# %d sessions, %ld faults:", test.nsessions, all);
    for (int k = 0; k < FAULT_KINDS; k++)
        printf(" %s %ld%s", kinds[k], runs[k], k + 1 < FAULT_KINDS ? "," : "\n");
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || passed == 0;
}

static int kind_named(const char *name)
{
    for (int k = 0; k < FAULT_KINDS; k++)
        if (strcmp(kinds[k], name) == 0)
            return k;
    stop("there is no kind %s", name);
}

int main(int argc, char **argv)
{
    for (int c; (c = getopt(argc, argv, "+j:e:k:n:c:")) > 0;) {
        if (c == 'k')
            test.kind = kind_named(optarg);
        else if (c == 'n')
            test.at = atol(optarg);
        else if (c == 'j' || c == 'e' || c == 'c')
            *(c == 'j'   ? &test.jobs
              : c == 'e' ? &test.every
                         : &test.most) = atoi(optarg);
        else
            return 2;
    }
    if (argc - optind < 3 || test.jobs < 1 || test.every < 1)
        stop("usage: faults [-j JOBS] [-e EVERY] [-k KIND] [-n CALL] [-c MOST] KVCTL PROGRAMS "
             "SESSIONS [NAME...]");
    test.kvctl = realpath(argv[optind], NULL);
    test.programs = realpath(argv[optind + 1], NULL);
    test.folder = realpath(argv[optind + 2], NULL);
    if (!test.kvctl || !test.programs || !test.folder)
        stop("a file is missing");
    snprintf(test.top, sizeof test.top, "%s/../../..", test.folder);
    if (!mkdtemp(memory_path(test.scratch, sizeof test.scratch, "kv-faults")))
        stop("cannot make a folder");
    read_sessions(argv + optind + 3, argc - optind - 3);
    make_files();
    int fd, bad = 0, status;
    signal(SIGPIPE, SIG_IGN); /* a server that is gone is an error */
    test.crashes = shared(sizeof *test.crashes, &fd);
    close(fd);
    test.tallies = shared((size_t)test.nsessions * sizeof *test.tallies + 1, &fd);
    close(fd);
    fflush(stdout);
    if (test.at)
        test.jobs = 1;
    for (int job = 0; job < test.jobs; job++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); /* a driver that is killed leaves none of them */
            exit(try_all(job));
        }
    while (wait(&status) > 0)
        bad |= status != 0;
    bad |= report();
    rmdir(test.scratch);
    return bad ? 1 : 0;
}
