/* Requests of clients and the answers are small, so a client that does not take its answer at
 * once gets none. */
#include "launch/launch_door.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "launch/jobs_folder.h"
#include "launch/jobs_wire.h"
#include "launch/launch_attempt.h"
#include "launch/launch_folder.h"
#include "term/terminal.h"

static void name_job(const launch_options *o, char name[80])
{
    if (o->name)
        snprintf(name, 80, "%s", o->name);
    else
        snprintf(name, 80, "%d", (int)getpid());
}

void door_tell_ranks(const launch_options *o)
{
    char host[64] = "", name[80];
    name_job(o, name);
    gethostname(host, sizeof host - 1);
    setenv("KVSTORE_JOB", name, 1);
    setenv("KVSTORE_JOB_HOST", host, 1);
}

int door_open(launch_door *d, const launch_options *o, kv_err *e)
{
    kv_err why = {0};
    *d = (launch_door){.dir = -1, .fd = -1, .since = time(NULL)};
    name_job(o, d->name);
    if (jobs_folder_open(true, &d->dir, &why) == KV_OK &&
        jobs_listen(d->dir, d->name, &d->fd, &why) == KV_OK) {
        d->open = true;
        return KV_OK;
    }
    if (d->dir >= 0)
        close(d->dir);
    if (why.code == KV_E_BUSY) {
        *e = why;
        return kv_err_hint(e, "kvctl jobs lists it; --name gives this one another name"), KV_E_BUSY;
    }
    terminal_say("kvctl: the job runs, and nobody can attach to it: %s", why.text);
    return KV_OK;
}

void door_close(launch_door *d)
{
    for (int i = 0; i < d->n; i++)
        close(d->clients[i]);
    if (d->open)
        jobs_unlisten(d->dir, d->fd, d->name);
    *d = (launch_door){.dir = -1, .fd = -1};
}

/* ---- The job in words ---- */

static const char *state_of(const job *j)
{
    int begun = 0, ended = 0;
    for (int i = 0; i < j->n; i++) {
        begun += j->ranks[i].pid != 0;
        ended += j->ranks[i].ended;
    }
    return j->end_ms || ended == j->n ? "ends" : begun < j->n ? "begins" : "runs";
}

/* The hosts on which ranks have begun, each once. */
static void put_hosts(buf *out, const job *j)
{
    int n = 0;
    for (int i = 0; i < j->n; i++) {
        bool seen = !j->ranks[i].host[0];
        for (int k = 0; k < i && !seen; k++)
            seen = strcmp(j->ranks[k].host, j->ranks[i].host) == 0;
        if (!seen)
            buf_printf(out, n++ ? ",%s" : "%s", j->ranks[i].host);
    }
}

static void put_words(buf *out, const launch_options *o)
{
    for (int i = 0; i < o->nwords; i++)
        buf_printf(out, i ? " %s" : "%s", o->words[i]);
}

/* The workers, without the spares that wait. */
static int count_workers(const job *j)
{
    int n = j->o->workers - j->o->spares;
    for (int i = n; i < j->o->workers; i++)
        n += j->ranks[i].asked;
    return n;
}

/* The value of a line ends where the line does. */
static void tell(int fd, const launch_door *d, const job *j)
{
    buf words = {0}, text = {0};
    put_words(&words, j->o);
    for (size_t i = 0; i < words.len; i++)
        words.data[i] = (char)(words.data[i] == '\n' ? ' ' : words.data[i]);
    buf_printf(&text, "name %s\npid %d\nsince %lld\nworkers %d\nservers %d\nstate %s\nhosts ",
               d->name, (int)getpid(), (long long)d->since, count_workers(j), j->o->servers,
               state_of(j));
    put_hosts(&text, j);
    buf_printf(&text, "\nscript %s\n", buf_text(&words));
    if (!words.failed && !text.failed)
        jobs_say(fd, JOBS_TOLD, buf_text(&text));
    buf_release(&words);
    buf_release(&text);
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
    char name[32], why[200] = "";
    int number = choose(j, text, why), door = -1;
    int dir = number < 0 ? -1 : open(j->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(name, sizeof name, "attach.%d", number);
    if (dir >= 0)
        door = jobs_connect(dir, name, 0);
    if (door >= 0) {
        snprintf(name, sizeof name, "%d", number);
        jobs_send(fd, JOBS_DOOR, name, strlen(name), door);
        close(door);
    } else {
        if (!*why)
            snprintf(why, sizeof why, "worker %d cannot be reached now: %s", number,
                     strerror(errno));
        jobs_say(fd, JOBS_REFUSED, why);
    }
    if (dir >= 0)
        close(dir);
}

/* ---- Growing ---- */

static void grow(int fd, job *j)
{
    char text[100];
    int number = j->o->workers - j->o->spares;
    while (number < j->o->workers && (j->ranks[number].asked || j->ranks[number].gone))
        number++;
    if (j->o->spares == 0) {
        jobs_say(fd, JOBS_REFUSED, "it has no spare: launch --spares starts some");
    } else if (number == j->o->workers) {
        snprintf(text, sizeof text, "no spare is left of the %d that it began with", j->o->spares);
        jobs_say(fd, JOBS_REFUSED, text);
    } else if (strcmp(state_of(j), "runs") != 0) {
        snprintf(text, sizeof text, "it %s, and grows while it runs", state_of(j));
        jobs_say(fd, JOBS_REFUSED, text);
    } else {
        j->ranks[number].asked = true;
        folder_add(j->folder, "grow", number, "-");
        snprintf(text, sizeof text, "%d", number);
        jobs_say(fd, JOBS_TOLD, text);
    }
}

/* ---- Clients ---- */

/* Reads a question, which comes in one piece. Returns whether another one may follow. */
static bool answer(int fd, const launch_door *d, job *j)
{
    char bytes[sizeof(jobs_head) + 32];
    jobs_head head;
    ssize_t n = recv(fd, bytes, sizeof bytes - 1, MSG_DONTWAIT);
    if (n < (ssize_t)sizeof head)
        return false;
    memcpy(&head, bytes, sizeof head);
    if (head.bytes != (size_t)n - sizeof head)
        return false;
    bytes[n] = '\0';
    if (head.kind == JOBS_ASK)
        tell(fd, d, j);
    else if (head.kind == JOBS_ENTER)
        enter(fd, j, bytes + sizeof head);
    else if (head.kind == JOBS_GROW)
        grow(fd, j);
    return head.kind == JOBS_ASK;
}

static void drop(launch_door *d, int i)
{
    close(d->clients[i]);
    d->n--;
    for (; i < d->n; i++)
        d->clients[i] = d->clients[i + 1];
}

void door_look(launch_door *d, struct job *j)
{
    struct pollfd next = {.fd = d->fd, .events = POLLIN};
    int fd;
    while (d->open && d->n < DOOR_CLIENTS && (fd = jobs_accept(d->fd)) >= 0) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
        d->clients[d->n++] = fd;
    }
    for (int i = 0; i < d->n; i++) {
        struct pollfd p = {.fd = d->clients[i], .events = POLLIN};
        if (poll(&p, 1, 0) <= 0 || answer(d->clients[i], d, j))
            continue;
        drop(d, i--);
    }
    /* Silent clients must not keep out clients that ask: the oldest silent one makes room. */
    if (d->open && d->n == DOOR_CLIENTS && poll(&next, 1, 0) > 0)
        drop(d, 0);
}
