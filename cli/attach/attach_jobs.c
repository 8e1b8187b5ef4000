/* Each socket is asked in its turn, and a job that does not answer within a second is silent. */
#include "attach/attach_jobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "launch/jobs_wire.h"

enum { TOLD_MOST = 1 << 20 };

static void limit(int fd, int seconds)
{
    const struct timeval t = {seconds, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

/* Appends what the socket tells of itself. */
static bool ask(int fd, buf *told)
{
    jobs_kind kind = JOBS_REFUSED;
    buf text = {0};
    limit(fd, 1);
    errno = 0;
    bool good = jobs_say(fd, JOBS_ASK, "") &&
                jobs_receive(fd, &kind, &text, TOLD_MOST, NULL) == 1 && kind == JOBS_TOLD;
    if (good)
        buf_put(told, buf_text(&text), text.len);
    buf_release(&text);
    return good;
}

static int add(job_list *list, const char *name, kv_err *e)
{
    int fd = jobs_connect(list->dir, name, 1), number;
    job_entry x = {.told = {0}};
    kv_err unused = {0};
    bool good = fd >= 0 && ask(fd, &x.told);
    x.silent = !good && errno == EAGAIN;
    if (fd >= 0)
        close(fd);
    if (x.silent)
        buf_printf(&x.told, "state silent\n");
    fd = good ? attach_enter(list, name, -1, &number, &unused) : -1;
    if (fd >= 0) { /* a worker knows how far it is */
        ask(fd, &x.told);
        close(fd);
    }
    snprintf(x.name, sizeof x.name, "%s", name);
    if ((good || x.silent) && buf_check(&x.told, e) == KV_OK &&
        mem_grow(&list->items, &list->cap, list->n + 1, sizeof *list->items, e) == KV_OK) {
        list->items[list->n++] = x;
        return KV_OK;
    }
    buf_release(&x.told);
    return (int)e->code;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const job_entry *)a)->name, ((const job_entry *)b)->name);
}

int attach_jobs(job_list *list, kv_err *e)
{
    *list = (job_list){.dir = -1};
    int code = jobs_folder_open(false, &list->dir, e);
    if (code || list->dir < 0)
        return code;
    jobs_tidy(list->dir);
    int again = openat(list->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again < 0 ? NULL : fdopendir(again);
    for (const struct dirent *x; d && code == KV_OK && (x = readdir(d));)
        if (jobs_is_name(x->d_name))
            code = add(list, x->d_name, e);
    if (d)
        closedir(d);
    if (list->n > 1)
        qsort(list->items, (size_t)list->n, sizeof *list->items, by_name);
    return code;
}

void attach_jobs_release(job_list *list)
{
    for (int64_t i = 0; i < list->n; i++)
        buf_release(&list->items[i].told);
    mem_free(list->items);
    if (list->dir >= 0)
        close(list->dir);
}

const char *attach_job_field(const job_entry *x, const char *name, int *n)
{
    size_t length = strlen(name);
    for (const char *at = buf_text(&x->told); *at; at += *at == '\n') {
        size_t line = strcspn(at, "\n");
        if (line > length && strncmp(at, name, length) == 0 && at[length] == ' ') {
            *n = (int)(line - length - 1);
            return at + length + 1;
        }
        at += line;
    }
    *n = 0;
    return "";
}

static void hint_names(const job_list *list, kv_err *e)
{
    buf names = {0};
    for (int64_t i = 0; i < list->n; i++)
        buf_printf(&names, i ? ", %s" : "%s", list->items[i].name);
    if (names.len > 0)
        kv_err_hint(e, "jobs that run here: %s", buf_text(&names));
    else
        kv_err_hint(e, "kvctl launch -n 2 train.kv runs one; one of plain mpirun has no way in");
    buf_release(&names);
}

/* why: what the launcher says; NULL: nothing. */
static int refuse(const char *name, const buf *why, kv_err *e)
{
    if (why)
        kv_err_set(e, KV_E_PEER, "job %s: %s", name, buf_text(why));
    else
        kv_err_set(e, KV_E_PEER, "job %s does not answer", name);
    return KV_E_PEER;
}

int attach_jobs_choose(const job_list *list, const char *job, const char **name, kv_err *e)
{
    *name = job;
    for (int64_t i = 0; i < list->n && job; i++)
        if (strcmp(list->items[i].name, job) == 0)
            return list->items[i].silent ? refuse(job, NULL, e) : KV_OK;
    if (job)
        kv_err_set(e, KV_E_NAME, "no job of yours is called %s here", job);
    else if (list->n == 0)
        kv_err_set(e, KV_E_NAME, "no job of yours runs here");
    else if (list->n > 1)
        kv_err_set(e, KV_E_NAME, "which job? %lld run here", (long long)list->n);
    else if (list->items[0].silent)
        return refuse(list->items[0].name, NULL, e);
    else
        *name = list->items[0].name;
    if (e->code)
        hint_names(list, e);
    return (int)e->code;
}

/* Returns the socket, or -1. */
static int connect_to(const job_list *list, const char *name, kv_err *e)
{
    int fd = list->dir < 0 ? -1 : jobs_connect(list->dir, name, 5);
    if (fd < 0 && errno == EAGAIN)
        refuse(name, NULL, e);
    else if (fd < 0)
        kv_err_set(e, KV_E_IO, "job %s cannot be reached: %s", name, strerror(errno));
    else
        limit(fd, 5);
    return fd;
}

int attach_enter(const job_list *list, const char *name, int rank, int *number, kv_err *e)
{
    jobs_kind kind = JOBS_REFUSED;
    buf text = {0};
    char wanted[16] = "";
    int door = -1, fd = connect_to(list, name, e);
    if (fd < 0)
        return -1;
    if (rank >= 0)
        snprintf(wanted, sizeof wanted, "%d", rank);
    int got =
        jobs_say(fd, JOBS_ENTER, wanted) ? jobs_receive(fd, &kind, &text, TOLD_MOST, &door) : -1;
    *number = -1;
    if (got == 1 && kind == JOBS_HERE) {
        door = fd;
        fd = -1;
    } else if (got == 1 && kind == JOBS_DOOR && door >= 0) {
        *number = atoi(buf_text(&text));
    } else {
        refuse(name, got == 1 && kind == JOBS_REFUSED ? &text : NULL, e);
    }
    if (e->code && door >= 0) {
        close(door);
        door = -1;
    }
    if (fd >= 0)
        close(fd);
    if (door >= 0)
        limit(door, 0);
    buf_release(&text);
    return door;
}

int attach_grow(const job_list *list, const char *name, int *number, kv_err *e)
{
    jobs_kind kind = JOBS_REFUSED;
    buf text = {0};
    int fd = connect_to(list, name, e);
    if (fd < 0)
        return (int)e->code;
    int got = jobs_say(fd, JOBS_GROW, "") ? jobs_receive(fd, &kind, &text, TOLD_MOST, NULL) : -1;
    if (got == 1 && kind == JOBS_TOLD)
        *number = atoi(buf_text(&text));
    else
        refuse(name, got == 1 && kind == JOBS_REFUSED ? &text : NULL, e);
    close(fd);
    buf_release(&text);
    return (int)e->code;
}
