/* The watcher of one rank: starts it, tells how it ends and what it writes, and lets nothing
 * outlive the job. It is what mpirun knows as the rank.
 *
 * Signals, as mpirun forwards them to every host: SIGUSR2, the rank shall end; SIGUSR1, the job is
 * over. Until then a watcher stays, because mpirun ends all other ranks with the first one that
 * ends badly. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/num.h"
#include "launch/jobs_socket.h"
#include "launch/launch_command.h"
#include "launch/launch_folder.h"
#include "launch/launch_job.h"
#include "term/terminal.h"

enum {
    TICK_MS = 100,
    BEAT_MS = 1000, /* at the most */
    BEATS = 8,      /* in the time of a deadline */
    FILES = 3       /* of lost ranks */
};

typedef struct watch {
    const char *folder; /* NULL: nobody wants to be told */
    int number;
    pid_t pid, parent;
    int out[3];    /* what it writes to stdout, stderr and of entries (launch_job.h); or -1 */
    int signals;   /* signalfd */
    sigset_t mask; /* the rank's signals */
    bool is_over;  /* the job is */
    bool stopped;  /* it was when the rank ended */
    bool python;              /* the words are python3's */
    bool elastic;             /* workers may be gone */
    long read[FILES];         /* bytes of the files of lost ranks */
    int64_t beat_ms, next_ms; /* between two heartbeats, and when the next one is due */
} watch;

void launch_mark_rank(void)
{
    const char *job = getenv("PMIX_NAMESPACE");
    char text[300];
    snprintf(text, sizeof text, "%d %s", (int)getpid(), job ? job : "");
    setenv("KVSTORE_RANK_PID", text, 1);
}

/* In the child. */
static void become_rank(const watch *w, char **words, int (*pipes)[2])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &w->mask, NULL);
    if (w->folder) {
        dup2(pipes[0][1], STDOUT_FILENO);
        dup2(pipes[1][1], STDERR_FILENO);
    }
    char number[16];
    launch_mark_rank();
    if (w->folder && getenv("KVSTORE_ENTRIES")) {
        snprintf(number, sizeof number, "%d", pipes[2][1]);
        setenv("KVSTORE_ENTRIES", number, 1);
        fcntl(pipes[2][1], F_SETFD, 0);
    }
    if (w->python) {
        setenv("PYTHONUNBUFFERED", "1", 0); /* its lines go into a pipe */
        execvp(words[0], words);
        fprintf(stderr, "kvctl: error[unsupported]: %s cannot be started: %s\n", words[0],
                strerror(errno));
        _exit(EXIT_UNSUPPORTED);
    }
    execv("/proc/self/exe", words);
    fprintf(stderr, "kvctl: error[io]: cannot be started again: %s\n", strerror(errno));
    _exit(EXIT_FAILED);
}

static bool begin(watch *w, char **words)
{
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    for (int i = 0; i < 3 && w->folder; i++)
        if (pipe2(pipes[i], O_CLOEXEC) || fcntl(pipes[i][0], F_SETFL, O_NONBLOCK))
            return false;
    w->pid = fork();
    if (w->pid == 0)
        become_rank(w, words, pipes);
    for (int i = 0; i < 3; i++) {
        w->out[i] = pipes[i][0];
        file_close_fd(&pipes[i][1]);
    }
    return w->pid > 0;
}

/* What has happened, for the file `events` of this host and for launch; `more` only for launch. */
static void tell(const watch *w, const char *what, const char *more)
{
    char all[512];
    folder_add(w->folder, "events", w->number, what);
    snprintf(all, sizeof all, "%d %s %s", w->number, what, more);
    wire_tell(w->number, WIRE_EVENT, all, strlen(all));
}

static void pass_on(watch *w, int i)
{
    char block[65536];
    ssize_t n;
    while (w->out[i] >= 0 && (n = read(w->out[i], block, sizeof block)) > 0) {
        for (int k = 0; k < 2 && i == 2; k++) /* what it had printed before */
            pass_on(w, k);
        wire_tell(w->number, i == 2 ? WIRE_DONE : i ? WIRE_ERR : WIRE_OUT, block, (size_t)n);
    }
    if (w->out[i] >= 0 && (n == 0 || errno != EAGAIN)) {
        close(w->out[i]);
        w->out[i] = -1;
    }
}

static void pass_all(watch *w)
{
    for (int i = 0; i < 3; i++)
        pass_on(w, i);
}

/* Reads what this host's files have of lost ranks: only the first line of `lost` counts. */
static void look_at_losses(watch *w)
{
    static const char *const files[FILES] = {"lost", "missed", "gone"};
    char text[512], why[WIRE_TEXT - 16];
    int number;
    for (int i = 0; i < (w->elastic ? FILES : 1); i++)
        while ((i > 0 || w->read[0] == 0) &&
               folder_next(w->folder, files[i], &w->read[i], &number, why, sizeof why)) {
            snprintf(text, sizeof text, "%d %s", number, why);
            if (i != 1 && number == w->number && w->pid)
                kill(w->pid, SIGKILL); /* silent, perhaps stopped */
            if (i < 2)
                wire_tell(w->number, i ? WIRE_MISSED : WIRE_LOST, text, strlen(text));
        }
}

static void take_signal(watch *w)
{
    struct signalfd_siginfo s;
    while (read(w->signals, &s, sizeof s) == sizeof s) {
        if (s.ssi_signo == SIGCHLD)
            continue;
        if (s.ssi_signo == SIGUSR2 && w->pid)
            kill(w->pid, SIGTERM);
        w->is_over |= s.ssi_signo != SIGUSR2;
    }
}

static void tick(watch *w)
{
    struct pollfd fds[] = {{.fd = w->signals, .events = POLLIN},
                           {.fd = w->out[0], .events = POLLIN},
                           {.fd = w->out[1], .events = POLLIN},
                           {.fd = w->out[2], .events = POLLIN}};
    poll(fds, 4, TICK_MS);
    take_signal(w);
    w->is_over |= getppid() != w->parent; /* the parent of this process is gone */
    if (!w->folder)
        return;
    pass_all(w);
    look_at_losses(w);
    int64_t now = clock_ms();
    if (now >= w->next_ms) {
        w->next_ms = now + w->beat_ms;
        wire_tell(w->number, WIRE_BEAT, "", 0);
    }
}

/* Until the rank has ended; it is ended when the job is over. Returns how, as waitpid does. */
static int watch_rank(watch *w)
{
    int status = 0;
    while (waitpid(w->pid, &status, WNOHANG) == 0) {
        tick(w);
        if (w->is_over)
            kill(w->pid, SIGKILL);
    }
    take_signal(w); /* mpirun sends them to the rank as well */
    w->stopped = w->is_over;
    w->pid = 0;
    return status;
}

static void tell_end(watch *w, int status)
{
    char path[FOLDER_PATH], name[32], rounds[32] = "", line[64];
    bool killed = WIFSIGNALED(status), failed = killed || WEXITSTATUS(status) != 0;
    pass_all(w);
    look_at_losses(w); /* why it ended, if it did for the loss of another one */
    snprintf(name, sizeof name, "rounds.%d", w->number);
    folder_path(w->folder, path, name);
    own_stream *f = fopen(path, "re");
    if (f && !fgets(rounds, sizeof rounds, f))
        rounds[0] = '\0';
    snprintf(line, sizeof line, "%s %d",
             failed && w->stopped ? "stopped"
             : killed             ? "signal"
                                  : "exit",
             killed ? WTERMSIG(status) : WEXITSTATUS(status));
    tell(w, line, rounds);
}

/* What a shell makes of a status of waitpid. */
static int shell_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run(watch *w, char **words)
{
    int held = w->folder ? folder_hold(w->folder, "held") : -1;
    if (w->folder && held < 0) {
        char text[4400];
        int n = snprintf(text, sizeof text, "kvctl: error[io]: cannot make \"%s\": %s\n", w->folder,
                         strerror(errno));
        wire_tell(w->number, WIRE_ERR, text, (size_t)n);
        return EXIT_IO;
    }
    if (!begin(w, words))
        return EXIT_FAILED;
    if (!w->folder)
        return shell_code(watch_rank(w));
    folder_sweep(w->folder);
    char line[64], host[64] = "";
    snprintf(line, sizeof line, "start %d %d", (int)w->pid, (int)getpid());
    gethostname(host, sizeof host - 1);
    tell(w, line, host);
    tell_end(w, watch_rank(w));
    jobs_tidy_worker(w->folder, w->number); /* it may have been killed */
    close(held); /* after the file of rounds was read */
    while (!w->is_over)
        tick(w);
    /* The daemon of mpirun that ends a job kills all watchers of its host when the first of them
     * has ended, so none may end before the folder is gone. */
    folder_remove_free(w->folder, true);
    return EXIT_DONE;
}

/* A rank may have been given another deadline than launch has. */
static int64_t read_beat_ms(void)
{
    const char *text = getenv("KVSTORE_DEADLINE");
    double seconds = 0;
    if (text)
        num_parse(text, strlen(text), NUM_BINARY64, &seconds, NULL);
    double ms = seconds * 1000 / BEATS;
    return ms > 0 && ms < BEAT_MS ? (int64_t)ms : BEAT_MS;
}

/* Servers are the last ranks of a job (server_ranks.c). */
static bool is_server(int number)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE"), *servers = getenv("KVSTORE_SERVERS");
    return size && servers && number >= atoi(size) - atoi(servers);
}

/* Returns true if a Python says that it finds no module kvstore. */
static bool lacks_module(const char *python)
{
    enum { LACKS = 3 };
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        execlp(python, python, "-c",
               "from importlib.util import find_spec as f; exit(0 if f('kvstore') else 3)",
               (char *)NULL);
        _exit(EXIT_UNSUPPORTED); /* as the program will, which says so */
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == LACKS;
}

/* Shows a Python that lacks the module the one that was installed with this program, as make
 * install PREFIX=… does in a folder where Python does not look. */
static void show_module(const char *python)
{
    char self[4096], pattern[4096 + 64];
    const char *before = getenv("PYTHONPATH");
    glob_t found = {0};
    own_buf path = {0};
    if (launch_self(self, &(kv_err){0}))
        return;
    *strrchr(self, '/') = '\0';
    snprintf(pattern, sizeof pattern, "%s/../lib/python3*/*-packages/kvstore", self);
    if (glob(pattern, 0, NULL, &found) == 0 && lacks_module(python)) {
        buf_printf(&path, "%s%s%s", before ? before : "", before && *before ? ":" : "",
                   found.gl_pathv[0]);
        if (!path.failed) {
            *strrchr(buf_text(&path), '/') = '\0';
            setenv("PYTHONPATH", buf_text(&path), 1);
        }
    }
    globfree(&found);
}

/* Of somebody who types a word that launch uses. */
static int refuse(const char *word)
{
    fprintf(stderr, "kvctl: error[usage]: %s is for kvctl launch\n", word);
    return EXIT_NOT_UNDERSTOOD;
}

/* launch-rank WORD...: the words of a worker; behind --python they are those of python3. A server
 * runs `kvctl serve` instead. */
int launch_rank(int argc, char **argv)
{
    static char self[] = "kvctl", serve[] = "serve", python3[] = "python3";
    static char *server[] = {self, serve, NULL};
    const char *number = getenv("OMPI_COMM_WORLD_RANK");
    if (argc < 1 || !number)
        return refuse("launch-rank");
    bool serves = is_server(atoi(number));
    variables_take(serves ? 's' : 'w');
    watch w = {.folder = getenv("KVSTORE_RUN_DIR"),
               .number = atoi(number),
               .parent = getppid(),
               .python = !serves && strcmp(argv[0], "--python") == 0,
               .beat_ms = read_beat_ms(),
               .elastic = getenv("KVSTORE_ELASTIC") != NULL};
    char *python = getenv("KVCTL_PYTHON"); /* as variables_take has left it */
    python = python && *python ? python : python3;
    if (w.python)
        show_module(python);
    sigset_t watched;
    static const int signals[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    sigemptyset(&watched);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaddset(&watched, signals[i]);
    sigprocmask(SIG_BLOCK, &watched, &w.mask);
    signal(SIGPIPE, SIG_IGN);
    w.signals = signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
    if (serves)
        argv = server;
    else if (w.python)
        argv[0] = python; /* it was "--python" */
    else
        *--argv = self; /* it was "launch-rank" */
    return w.signals < 0 ? EXIT_FAILED : run(&w, argv);
}

/* launch-tell FILE RANK SENTENCE: from launch to the watchers and ranks of this host. Where the
 * folder is gone nobody is there to be told. */
int launch_tell(int argc, char **argv)
{
    const char *folder = getenv("KVSTORE_RUN_DIR");
    if (argc != 3 || !folder)
        return refuse("launch-tell");
    /* what is written while a watcher removes it would stay, and watchers wait for the lock */
    own_fd held = folder_hold_existing(folder);
    if (held >= 0)
        folder_add(folder, argv[0], atoi(argv[1]), argv[2]);
    return EXIT_DONE;
}

/* launch-ssh SSH... HOST COMMAND: the program with which mpirun reaches its hosts. mpirun takes an
 * ssh that fails for a daemon that never began, and ends the whole job in such a hurry that most of
 * what the other hosts had to tell is lost: also when a host dies hours later, unless it has
 * noticed by then that the daemon is gone. So mpirun is not told, and launch is. */
int launch_ssh(int argc, char **argv)
{
    char text[16];
    int status = 0;
    if (argc < 1)
        return refuse("launch-ssh");
    pid_t pid = getenv("KVSTORE_RUN_DIR") ? fork() : 0; /* without it there is no launch */
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execvp(argv[0], argv);
        fprintf(stderr, "kvctl: error[unsupported]: %s cannot be started: %s\n", argv[0],
                strerror(errno));
        _exit(EXIT_UNSUPPORTED);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    int rc = pid < 0 ? EXIT_FAILED : shell_code(status);
    snprintf(text, sizeof text, "%d", rc);
    if (rc)
        wire_tell(0, WIRE_SSH, text, strlen(text));
    return EXIT_DONE;
}
