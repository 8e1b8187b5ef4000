/* The folder of jobs, their messages, and the door of a launcher: see jobs_socket.h. */
#include "launch/jobs_socket.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "launch/launch_attempt.h"
#include "launch/launch_folder.h"
#include "term/terminal.h"

/* ---- The folder ---- */

/* Sockets are reached through /proc/self/fd/FOLDER/NAME: so no path is too long for one, and nobody
 * can put another folder in the place of the one that was checked. */

enum { WAITING = 16 /* connections that are not accepted yet */, SECONDS = 10 };

bool jobs_is_name(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > JOBS_NAME || *name == '.')
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("-_.", *name))
            return false;
    return true;
}

void jobs_name_worker(char file[JOBS_SOCKET], const char *name, const char *folder, int number)
{
    size_t n = strlen(folder);
    snprintf(file, JOBS_SOCKET, "%.*s:%s:%04d", (int)strcspn(name, ":"), name,
             folder + (n > JOBS_ID ? n - JOBS_ID : 0), number);
}

int jobs_folder_open(bool makes, int *dir, kv_err *e)
{
    char path[4096];
    struct stat s;
    const char *own = getenv("KVCTL_JOBS");
    if (own && *own)
        snprintf(path, sizeof path, "%s", own);
    else
        snprintf(path, sizeof path, "/tmp/kvctl.%u", (unsigned)geteuid());
    *dir = -1;
    if (makes && mkdir(path, 0700) && errno != EEXIST)
        return file_error(e, "make", path, errno);
    own_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && !makes)
        return KV_OK;
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return kv_err_set(e, KV_E_IO, "\"%s\" is a link or a file, not a folder", path);
    if (fd < 0 || fstat(fd, &s))
        return file_error(e, "open", path, errno);
    if (s.st_uid != geteuid())
        kv_err_set(e, KV_E_IO, "\"%s\" belongs to another user", path);
    else if (s.st_mode & 077)
        kv_err_set(e, KV_E_IO, "\"%s\" is open to other users: its mode is %03o, not 700", path,
                   (unsigned)s.st_mode & 0777);
    if (e->code)
        return kv_err_hint(e, "$KVCTL_JOBS names another folder");
    *dir = fd;
    fd = -1;
    return KV_OK;
}

static struct sockaddr_un address_of(int dir, const char *name)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%.80s", dir, name);
    return a;
}

static bool is_own_peer(int fd)
{
    struct ucred who;
    socklen_t n = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}

/* A peer that does not accept, does not read, or stops within a message, is given up. */
static void limit_waits(int fd, int seconds)
{
    const struct timeval t = {seconds, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

int jobs_connect(int dir, const char *name, int seconds)
{
    struct stat s;
    struct sockaddr_un a = address_of(dir, name);
    if (fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW))
        return -1;
    if (!S_ISSOCK(s.st_mode) || s.st_uid != geteuid()) {
        errno = EPERM;
        return -1;
    }
    own_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (seconds ? 0 : SOCK_NONBLOCK), 0);
    if (fd < 0)
        return -1;
    limit_waits(fd, seconds);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0 || !is_own_peer(fd)) {
        errno = errno ? errno : EPERM;
        return -1;
    }
    int connected = fd;
    fcntl(fd, F_SETFL, 0);
    limit_waits(fd, SECONDS);
    fd = -1;
    return connected;
}

/* Removes a socket that is left of a job that is gone; the folder's lock is held. */
static void remove_dead(int dir, const char *name)
{
    own_fd fd = jobs_connect(dir, name, 0);
    if (fd < 0 && errno == ECONNREFUSED)
        unlinkat(dir, name, 0);
}

static int make_socket(int dir, const char *name, int *out, kv_err *e)
{
    struct sockaddr_un a = address_of(dir, name);
    own_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Linux gives the file the mode of the socket; the folder keeps others out anyway. */
    if (fd < 0 || fchmod(fd, 0600) || bind(fd, (struct sockaddr *)&a, sizeof a) ||
        listen(fd, WAITING))
        return file_error(e, "make", name, errno);
    *out = fd;
    fd = -1;
    return KV_OK;
}

int jobs_listen(int dir, const char *name, int *fd, kv_err *e)
{
    struct stat s;
    flock(dir, LOCK_EX);
    remove_dead(dir, name);
    if (fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW))
        make_socket(dir, name, fd, e);
    else if (S_ISSOCK(s.st_mode))
        kv_err_set(e, KV_E_BUSY, "a job called %s runs already", name);
    else
        kv_err_set(e, KV_E_IO, "\"%s\" in the folder of jobs is not a socket", name);
    flock(dir, LOCK_UN);
    return e->code;
}

int jobs_accept(int fd)
{
    int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    limit_waits(peer, SECONDS);
    if (peer < 0 || is_own_peer(peer))
        return peer;
    close(peer);
    return -1;
}

void jobs_tidy(int dir, const char *name)
{
    flock(dir, LOCK_EX);
    remove_dead(dir, name);
    flock(dir, LOCK_UN);
}

void jobs_tidy_worker(const char *folder, int number)
{
    char file[JOBS_SOCKET];
    own_fd dir = -1;
    const char *name = getenv("KVSTORE_JOB");
    if (!name || jobs_folder_open(false, &dir, &(kv_err){0}) || dir < 0)
        return;
    jobs_name_worker(file, name, folder, number);
    jobs_tidy(dir, file);
}

void jobs_unlisten(int dir, int fd, const char *name)
{
    close(fd);
    jobs_tidy(dir, name);
    close(dir);
}

/* ---- Messages ---- */

/* Sending and receiving whole messages; the head is read first, so that a length is judged before
 * anything of that size is made. */

static bool send_all(int fd, const char *at, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

bool jobs_send(int fd, jobs_kind kind, const void *text, size_t n)
{
    jobs_head head = {.bytes = (uint32_t)n, .kind = kind};
    struct iovec both[] = {{&head, sizeof head}, {(void *)text, n}}; /* in one piece if they fit */
    const struct msghdr m = {.msg_iov = both, .msg_iovlen = 2};
    if (n > JOBS_LARGE)
        return false;
    ssize_t sent;
    do
        sent = sendmsg(fd, &m, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    size_t rest = sent < (ssize_t)sizeof head ? 0 : (size_t)sent - sizeof head;
    return sent >= (ssize_t)sizeof head && send_all(fd, text + rest, n - rest);
}

bool jobs_say(int fd, jobs_kind kind, const char *text)
{
    return jobs_send(fd, kind, text, strlen(text));
}

/* Returns 1, or 0 at an end before the first byte, or -1. */
static int receive_all(int fd, char *to, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = recv(fd, to + at, n - at, 0);
        if (got == 0 && at == 0)
            return 0;
        if (got == 0)
            errno = EPROTO;
        if (got == 0 || (got < 0 && errno != EINTR))
            return -1;
        at += got > 0 ? (size_t)got : 0;
    }
    return 1;
}

int jobs_receive(int fd, jobs_kind *kind, buf *text, size_t most)
{
    jobs_head head;
    buf_clear(text);
    int rc = receive_all(fd, (char *)&head, sizeof head);
    if (rc <= 0)
        return rc;
    char *room = head.bytes <= most ? buf_room(text, head.bytes) : NULL;
    if (!room && head.bytes > 0) {
        errno = head.bytes <= most ? ENOMEM : EPROTO;
        return -1;
    }
    if (head.bytes > 0 && (rc = receive_all(fd, room, head.bytes)) <= 0) {
        errno = rc ? errno : EPROTO;
        return -1;
    }
    buf_grew(text, head.bytes);
    *kind = (jobs_kind)head.kind;
    return 1;
}

/* ---- The door of a launcher ---- */

/* Requests of clients and the answers are small, so a client that does not take its answer at
 * once gets none. */

int door_open(launch_door *d, const launch_options *o, kv_err *e)
{
    kv_err why = {0};
    *d = (launch_door){.dir = -1, .fd = -1, .name = o->name, .since = time(NULL)};
    if (jobs_folder_open(true, &d->dir, &why) == KV_OK &&
        jobs_listen(d->dir, d->name, &d->fd, &why) == KV_OK)
        return KV_OK;
    file_close_fd(&d->dir);
    if (why.code == KV_E_BUSY) {
        *e = why;
        return kv_err_hint(e, "kvctl jobs lists it; --name gives this one another name");
    }
    terminal_say("kvctl: the job runs, and nobody can attach to it: %s", why.text);
    return KV_OK;
}

void door_close(launch_door *d)
{
    for (int i = 0; i < d->n; i++)
        close(d->clients[i]);
    if (d->fd >= 0)
        jobs_unlisten(d->dir, d->fd, d->name);
    *d = (launch_door){.dir = -1, .fd = -1};
}

/* ---- The job in words ---- */

static const char *state_of(const job *j)
{
    rank_count n = attempt_count(j);
    return j->end_ms || n.ended == j->n ? "ends" : n.begun < j->n ? "begins" : "runs";
}

/* The value of a line ends where the line does. */
static void tell(int fd, const launch_door *d, const job *j)
{
    own_buf words = {0}, text = {0};
    int n = 0, workers = j->o->workers - j->o->spares; /* without the spares that wait */
    for (int i = workers; i < j->o->workers; i++)
        workers += j->ranks[i].asked;
    for (int i = 0; i < j->o->nwords; i++)
        buf_printf(&words, i ? " %s" : "%s", j->o->words[i]);
    for (size_t i = 0; i < words.len; i++)
        words.data[i] = (char)(words.data[i] == '\n' ? ' ' : words.data[i]);
    buf_printf(&text, "folder %s\npid %d\nsince %lld\nworkers %d\nservers %d\nstate %s\nhosts ",
               j->folder, (int)getpid(), (long long)d->since, workers, j->o->servers, state_of(j));
    /* the hosts on which ranks have begun, each once */
    for (int i = 0; i < j->n; i++) {
        bool seen = !j->ranks[i].host[0];
        for (int k = 0; k < i && !seen; k++)
            seen = strcmp(j->ranks[k].host, j->ranks[i].host) == 0;
        if (!seen)
            buf_printf(&text, n++ ? ",%s" : "%s", j->ranks[i].host);
    }
    buf_add(&text, "\npids");
    for (int i = 0; i < j->n; i++)
        buf_printf(&text, " %d", (int)j->ranks[i].pid);
    buf_printf(&text, "\nscript %s\n", buf_text(&words));
    if (!words.failed && !text.failed)
        jobs_say(fd, JOBS_TOLD, buf_text(&text));
}

/* ---- Entering ---- */

static bool is_here(const job *j, int number)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    return j->is_local || strcmp(j->ranks[number].host, host) == 0;
}

/* The worker that is asked for, or the first one of this host. */
static int choose(const job *j, const char *text, char why[200])
{
    int first = -1, wanted = *text ? atoi(text) : -1;
    for (int i = j->o->workers - 1; i >= 0; i--)
        if (j->ranks[i].pid && !j->ranks[i].ended && is_here(j, i))
            first = i;
    if (!*text && first < 0)
        snprintf(why, 200, "none of its workers runs on this host now");
    if (!*text)
        return first;
    if (wanted < 0 || wanted >= j->o->workers)
        snprintf(why, 200, "there is no worker %d: they are 0 to %d", wanted, j->o->workers - 1);
    else if (!j->ranks[wanted].pid || j->ranks[wanted].ended)
        snprintf(why, 200, "worker %d %s", wanted,
                 j->ranks[wanted].ended ? "has ended" : "has not begun yet");
    else if (!is_here(j, wanted))
        snprintf(why, 200, "worker %d runs on %s: attach there", wanted, j->ranks[wanted].host);
    else
        return wanted;
    return -1;
}

static void enter(int fd, const job *j, const char *text)
{
    char name[16], why[200] = "";
    int number = choose(j, text, why);
    if (number >= 0 && j->o->python)
        snprintf(why, sizeof why,
                 "worker %d runs Python, which has no prompt: kv.describe(\"rounds\") in the "
                 "program says whom a round lacks",
                 number);
    snprintf(name, sizeof name, "%d", number);
    jobs_say(fd, *why ? JOBS_REFUSED : JOBS_TOLD, *why ? why : name);
}

static void grow(int fd, job *j)
{
    char text[100];
    int number = j->o->workers - j->o->spares;
    while (number < j->o->workers && (j->ranks[number].asked || j->ranks[number].gone))
        number++;
    jobs_kind kind = JOBS_REFUSED;
    if (j->o->spares == 0) {
        snprintf(text, sizeof text, "it has no spare: launch --spares starts some");
    } else if (number == j->o->workers) {
        snprintf(text, sizeof text, "no spare is left of the %d that it began with", j->o->spares);
    } else if (strcmp(state_of(j), "runs") != 0) {
        snprintf(text, sizeof text, "it %s, and grows while it runs", state_of(j));
    } else {
        j->ranks[number].asked = true;
        folder_add(j->folder, "grow", number, "-");
        snprintf(text, sizeof text, "%d", number);
        kind = JOBS_TOLD;
    }
    jobs_say(fd, kind, text);
}

/* ---- Clients ---- */

/* Reads a question, which comes in one piece, and answers it. Returns false if none came yet. */
static bool answer(int fd, const launch_door *d, job *j)
{
    char bytes[sizeof(jobs_head) + 32];
    jobs_head head;
    ssize_t n = recv(fd, bytes, sizeof bytes - 1, MSG_DONTWAIT);
    if (n < (ssize_t)sizeof head)
        return n >= 0 || errno != EAGAIN;
    memcpy(&head, bytes, sizeof head);
    bytes[n] = '\0';
    if (head.bytes != (size_t)n - sizeof head)
        return true;
    if (head.kind == JOBS_ASK)
        tell(fd, d, j);
    else if (head.kind == JOBS_ENTER)
        enter(fd, j, bytes + sizeof head);
    else if (head.kind == JOBS_GROW)
        grow(fd, j);
    return true;
}

static void drop(launch_door *d, int i)
{
    close(d->clients[i]);
    d->n--;
    memmove(d->clients + i, d->clients + i + 1, (size_t)(d->n - i) * sizeof *d->clients);
}

void door_look(launch_door *d, struct job *j)
{
    struct pollfd next = {.fd = d->fd, .events = POLLIN};
    int fd;
    while (d->n < DOOR_CLIENTS && (fd = jobs_accept(d->fd)) >= 0) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
        d->clients[d->n++] = fd;
    }
    for (int i = 0; i < d->n; i++)
        if (answer(d->clients[i], d, j))
            drop(d, i--);
    /* Silent clients must not keep out clients that ask: the oldest silent one makes room. */
    if (d->n == DOOR_CLIENTS && poll(&next, 1, 0) > 0)
        drop(d, 0);
}
