/* The thread sleeps in poll; a byte in a pipe ends it. */
#include "attach/attach_serve.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attach/attach_guest.h"
#include "base/mem.h"
#include "launch/jobs_folder.h"
#include "launch/jobs_wire.h"
#include "session/visit.h"

enum { CLIENTS = 16, SECONDS = 2 /* for the rest of a message */ };

struct attach_server {
    session *s;
    visit visit;
    guest *guest;
    pthread_t thread;
    int wake[2];
    int dir, fd;         /* in the folder of the job */
    char name[32];
    int listed_dir, listed; /* in the user's folder of jobs; -1: the launcher's is here */
    const char *job;
    pthread_mutex_t lock; /* of the clients, which attach_end shuts and the thread closes */
    int clients[CLIENTS], n;
};

/* ---- Clients ---- */

static void drop(attach_server *a, int i)
{
    guest_left(a->guest, a->clients[i]);
    pthread_mutex_lock(&a->lock);
    close(a->clients[i]);
    a->clients[i] = a->clients[--a->n];
    atomic_store(&a->visit.clients, a->n);
    pthread_mutex_unlock(&a->lock);
}

static void take_client(attach_server *a, int from)
{
    const struct timeval t = {SECONDS, 0};
    int fd = jobs_accept(from);
    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    if (a->n < CLIENTS) {
        pthread_mutex_lock(&a->lock);
        a->clients[a->n++] = fd;
        atomic_store(&a->visit.clients, a->n);
        pthread_mutex_unlock(&a->lock);
        return;
    }
    jobs_say(fd, JOBS_REFUSED, "too many clients are attached to this worker");
    close(fd);
}

/* Tells a client about this worker; where the worker itself is listed, also about the job. */
static void tell(const attach_server *a, int fd)
{
    const char *launcher = getenv("KVSTORE_JOB_HOST"), *size = getenv("OMPI_COMM_WORLD_SIZE"),
               *servers = getenv("KVSTORE_SERVERS"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    buf text = {0};
    int nservers = servers ? atoi(servers) : 0;
    buf_printf(&text, "rank %s\n", rank ? rank : "0");
    if (a->listed >= 0)
        buf_printf(&text, "name %s\nlauncher %s\nworkers %d\nservers %d\nstate runs\n", a->job,
                   launcher ? launcher : "", (size ? atoi(size) : 1) - nservers, nservers);
    if (!text.failed)
        guest_tell(a->guest, fd, buf_text(&text));
    buf_release(&text);
}

/* Returns whether the client stays. */
static bool take_message(attach_server *a, int fd)
{
    jobs_kind kind;
    buf text = {0};
    bool stays = jobs_receive(fd, &kind, &text, JOBS_SMALL, NULL) == 1;
    if (stays && kind == JOBS_ASK)
        tell(a, fd);
    else if (stays && kind == JOBS_ENTER)
        jobs_say(fd, JOBS_HERE, "");
    else if (stays && kind == JOBS_ENTRY)
        stays = guest_run(a->guest, fd, buf_text(&text), text.len);
    else
        stays = stays && kind == JOBS_STOP; /* of an entry that has ended meanwhile */
    buf_release(&text);
    return stays;
}

static void *serve(void *arg)
{
    attach_server *a = arg;
    for (;;) {
        struct pollfd p[CLIENTS + 3] = {{.fd = a->wake[0], .events = POLLIN},
                                        {.fd = a->fd, .events = POLLIN},
                                        {.fd = a->listed, .events = POLLIN}};
        int n = a->n;
        for (int i = 0; i < n; i++)
            p[i + 3] = (struct pollfd){.fd = a->clients[i], .events = POLLIN};
        if (poll(p, (nfds_t)n + 3, -1) < 0)
            continue;
        if (p[0].revents)
            return NULL;
        for (int i = n - 1; i >= 0; i--)
            if (p[i + 3].revents && !take_message(a, a->clients[i]))
                drop(a, i);
        if (p[1].revents)
            take_client(a, a->fd);
        if (p[2].revents)
            take_client(a, a->listed);
    }
}

/* ---- Beginning and ending ---- */

/* On a host without the launcher, the first worker there. */
static void list_job(attach_server *a)
{
    char here[64] = "";
    const char *launcher = getenv("KVSTORE_JOB_HOST"),
               *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    kv_err unused = {0};
    a->job = getenv("KVSTORE_JOB");
    a->listed = a->listed_dir = -1;
    gethostname(here, sizeof here - 1);
    if (!a->job || !jobs_is_name(a->job) || !launcher || strcmp(launcher, here) == 0 || !local ||
        strcmp(local, "0") != 0)
        return;
    if (jobs_folder_open(true, &a->listed_dir, &unused) == KV_OK &&
        jobs_listen(a->listed_dir, a->job, &a->listed, &unused)) {
        close(a->listed_dir);
        a->listed = a->listed_dir = -1;
    }
}

static bool open_sockets(attach_server *a, const char *folder, const char *number)
{
    kv_err unused = {0};
    a->fd = -1;
    snprintf(a->name, sizeof a->name, "attach.%.16s", number);
    a->dir = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (a->dir < 0)
        return false;
    if (jobs_listen(a->dir, a->name, &a->fd, &unused) || pipe2(a->wake, O_CLOEXEC)) {
        if (a->fd >= 0)
            jobs_unlisten(a->dir, a->fd, a->name);
        else
            close(a->dir);
        return false;
    }
    list_job(a);
    return true;
}

static void close_sockets(attach_server *a)
{
    for (int i = a->n - 1; i >= 0; i--)
        drop(a, i);
    jobs_unlisten(a->dir, a->fd, a->name);
    if (a->listed >= 0)
        jobs_unlisten(a->listed_dir, a->listed, a->job);
    close(a->wake[0]);
    close(a->wake[1]);
}

/* Signals are the script's. */
static bool start(attach_server *a)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    bool started = pthread_create(&a->thread, NULL, serve, a) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

attach_server *attach_begin(session *s)
{
    const char *folder = getenv("KVSTORE_RUN_DIR"), *number = getenv("OMPI_COMM_WORLD_RANK");
    kv_err unused = {0};
    attach_server *a = folder && number ? mem_zalloc(1, sizeof *a, &unused) : NULL;
    if (!a)
        return NULL;
    a->s = s;
    pthread_mutex_init(&a->lock, NULL);
    if (guest_new(&a->guest, s, folder, &unused) || !open_sockets(a, folder, number)) {
        guest_free(a->guest);
        mem_free(a);
        return NULL;
    }
    visit_init(&a->visit);
    s->visit = &a->visit;
    if (start(a))
        return a;
    s->visit = NULL;
    visit_release(&a->visit);
    close_sockets(a);
    guest_free(a->guest);
    mem_free(a);
    return NULL;
}

void attach_end(attach_server *a)
{
    if (!a)
        return;
    visit_end(a->s);
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->n; i++)
        shutdown(a->clients[i], SHUT_RDWR); /* what was sent arrives; a client that does not read
                                               holds nobody */
    pthread_mutex_unlock(&a->lock);
    if (write(a->wake[1], "", 1) == 1)
        pthread_join(a->thread, NULL);
    close_sockets(a);
    a->s->visit = NULL;
    visit_release(&a->visit);
    guest_free(a->guest);
    mem_free(a);
}
