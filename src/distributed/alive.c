/* Heartbeats between ranks, and the file `lost`, in which a rank names one that is lost. The
 * file is written beside its place and linked there, so that readers never see a part of it and a
 * second loss does not replace the first. The files `gone` and `missed` get whole lines. */
#include "distributed/alive.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/kv_assert.h"
#include "base/mem.h"
#include "distributed/environment.h"
#include "distributed/link.h"
#include "distributed/server_ranks.h"

enum {
    BEATS = 8,       /* in the time of a deadline */
    LATE_US = 500000 /* for a rank to see that all have joined */
};

static struct {
    int64_t deadline_us, beat_us, now_us;
    int first, end;    /* the ranks that send this one records */
    int64_t *heard_us; /* of rank first + i; INT64_MAX: it has left; atomic */
    int nleft;         /* atomic */
    pthread_mutex_t lock;
    kv_err lost;  /* under lock */
    bool is_lost; /* atomic */

    bool *gone;       /* by rank, atomic; NULL: none may go */
    int ngone;        /* atomic */
    bool needs_all;   /* atomic: none may go any more */
    int64_t gone_at;  /* bytes of the file `gone` that were read */
    int64_t gone_us;  /* when a rank was found there before this one had joined */
    int first_gone;   /* and its sentence; under lock */
    char why_gone[ALIVE_WHY];
} alive = {.lock = PTHREAD_MUTEX_INITIALIZER};

int alive_open(int64_t now_us, kv_err *e)
{
    alive.deadline_us = (int64_t)(environment_number(ENV_DEADLINE, 10) * 1e6);
    server_peers(&alive.first, &alive.end);
    int n = alive.end - alive.first;
    alive.heard_us = mem_alloc(n, sizeof *alive.heard_us, e);
    if (!alive.heard_us)
        return KV_E_MEMORY;
    alive.now_us = alive.beat_us = now_us;
    for (int i = 0; i < n; i++)
        alive.heard_us[i] = alive.now_us;
    /* Only ranks that a launcher watches may go, and only workers that keep nothing. */
    if (environment(ENV_ELASTIC) && environment(ENV_RUN_DIR) && server_dedicated() &&
        !(alive.gone = mem_zalloc(server_workers(), sizeof *alive.gone, e)))
        return KV_E_MEMORY;
    return KV_OK;
}

int64_t alive_deadline_ms(void)
{
    return alive.deadline_us / 1000;
}

static int64_t *heard_of(int rank)
{
    kv_assert(rank >= alive.first && rank < alive.end,
              "rank %d exchanges no records with this one, only ranks %d to %d do", rank,
              alive.first, alive.end - 1);
    return &alive.heard_us[rank - alive.first];
}

void alive_heard(int rank)
{
    int64_t *heard = heard_of(rank);
    if (*heard != INT64_MAX)
        __atomic_store_n(heard, alive.now_us, __ATOMIC_RELAXED);
}

void alive_left(int rank)
{
    if (__atomic_exchange_n(heard_of(rank), INT64_MAX, __ATOMIC_ACQ_REL) != INT64_MAX)
        __atomic_fetch_add(&alive.nleft, 1, __ATOMIC_RELEASE);
}

bool alive_any_left(void)
{
    return __atomic_load_n(&alive.nleft, __ATOMIC_ACQUIRE) > 0;
}

bool alive_has_left(int rank)
{
    return __atomic_load_n(heard_of(rank), __ATOMIC_ACQUIRE) == INT64_MAX;
}

int64_t alive_silence(int rank, int64_t now_us)
{
    if (rank == link_rank())
        return 0;
    if (rank < alive.first || rank >= alive.end)
        return -1;
    int64_t heard = __atomic_load_n(heard_of(rank), __ATOMIC_RELAXED);
    return heard == INT64_MAX ? 0 : now_us - heard;
}

void alive_lost(int rank, const char *why)
{
    pthread_mutex_lock(&alive.lock);
    if (!alive.lost.code) {
        kv_err_set(&alive.lost, KV_E_PEER, "%s", why);
        alive.lost.rank = rank;
        alive.lost.has_rank = rank >= 0;
    }
    pthread_mutex_unlock(&alive.lock);
    __atomic_store_n(&alive.is_lost, true, __ATOMIC_RELEASE);
}

bool alive_is_lost(kv_err *e)
{
    if (!__atomic_load_n(&alive.is_lost, __ATOMIC_ACQUIRE))
        return false;
    pthread_mutex_lock(&alive.lock);
    if (e && !e->code)
        *e = alive.lost;
    pthread_mutex_unlock(&alive.lock);
    return true;
}

void alive_read(void)
{
    const char *folder = environment(ENV_RUN_DIR);
    char path[4200], line[512] = "";
    int rank = -1, used = 0;
    snprintf(path, sizeof path, "%s/lost", folder ? folder : "");
    FILE *f = folder ? fopen(path, "re") : NULL;
    if (!f)
        return;
    if (fgets(line, sizeof line, f) && sscanf(line, "%d %n", &rank, &used) == 1) {
        line[strcspn(line, "\n")] = 0;
        alive_lost(rank, line + used);
    }
    fclose(f);
}

/* Tells the launcher and the other ranks of its job, whole from the first moment, unless one was
 * sooner: all say the same. */
static void write_file(int rank, const char *why)
{
    const char *folder = environment(ENV_RUN_DIR);
    char path[4200], beside[4200];
    if (!folder)
        return;
    snprintf(path, sizeof path, "%s/lost", folder);
    snprintf(beside, sizeof beside, "%s/lost.%d", folder, (int)getpid());
    FILE *f = fopen(beside, "we");
    if (!f) {
        unlink(beside); /* it may be there without memory for the stream */
        return;
    }
    fprintf(f, "%d %s\n", rank, why);
    fclose(f);
    int kept = link(beside, path); /* or there was one sooner */
    (void)kept;
    unlink(beside);
    alive_read();
}

void alive_told(int rank, const char *why)
{
    write_file(rank, why);
    alive_lost(rank, why); /* unless the file said it */
}

/* ---- Workers that are gone ---- */

static bool may_go(int rank)
{
    return alive.gone && rank > 0 && rank < server_workers() &&
           !__atomic_load_n(&alive.needs_all, __ATOMIC_ACQUIRE);
}

bool alive_next_line(const char *file, int64_t *at, int *rank, char why[ALIVE_WHY])
{
    const char *folder = environment(ENV_RUN_DIR);
    char path[4200], line[512];
    int used = 0;
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "", file);
    FILE *f = folder ? fopen(path, "re") : NULL;
    bool whole = f && !fseek(f, (long)*at, SEEK_SET) && fgets(line, sizeof line, f) &&
                 strchr(line, '\n') && sscanf(line, "%d %n", rank, &used) == 1;
    if (whole) {
        *at += (int64_t)strlen(line);
        line[strcspn(line, "\n")] = '\0';
        snprintf(why, ALIVE_WHY, "%.*s", ALIVE_WHY - 1, line + used);
    }
    if (f)
        fclose(f);
    return whole;
}

int alive_next_gone(char why[ALIVE_WHY])
{
    int rank;
    while (alive.gone && alive_next_line("gone", &alive.gone_at, &rank, why)) {
        if (rank == link_rank()) { /* the others do without this rank, and need no loss */
            __atomic_store_n(&alive.gone[rank], true, __ATOMIC_RELEASE);
            alive_lost(rank, why);
            continue;
        }
        if (!may_go(rank)) {
            alive_told(rank, why);
            continue;
        }
        if (__atomic_exchange_n(&alive.gone[rank], true, __ATOMIC_ACQ_REL))
            continue; /* launch and another host may both have said so */
        pthread_mutex_lock(&alive.lock);
        if (__atomic_fetch_add(&alive.ngone, 1, __ATOMIC_RELEASE) == 0) {
            alive.first_gone = rank;
            snprintf(alive.why_gone, sizeof alive.why_gone, "%s", why);
        }
        pthread_mutex_unlock(&alive.lock);
        return rank;
    }
    return -1;
}

bool alive_any_gone(void)
{
    return __atomic_load_n(&alive.ngone, __ATOMIC_ACQUIRE) > 0;
}

bool alive_is_gone(int rank)
{
    return alive.gone && rank >= 0 && rank < server_workers() &&
           __atomic_load_n(&alive.gone[rank], __ATOMIC_ACQUIRE);
}

void alive_need_all(void)
{
    char why[ALIVE_WHY];
    const char *how = environment(ENV_ELASTIC);
    if (!alive.gone || (how && strcmp(how, "all") == 0))
        return;
    __atomic_store_n(&alive.needs_all, true, __ATOMIC_RELEASE);
    pthread_mutex_lock(&alive.lock);
    int rank = alive_any_gone() ? alive.first_gone : -1;
    memcpy(why, alive.why_gone, sizeof why);
    pthread_mutex_unlock(&alive.lock);
    if (rank >= 0)
        alive_told(rank, why);
}

/* Asks the launcher to end it: it may be stopped, and come back. Returns false if the launcher
 * cannot be told. */
static bool ask_to_end(int rank, const char *why)
{
    char path[4200], line[512];
    snprintf(path, sizeof path, "%s/missed", environment(ENV_RUN_DIR));
    int n = snprintf(line, sizeof line, "%d %s\n", rank, why);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    bool told = fd >= 0 && write(fd, line, (size_t)n) == n;
    if (fd >= 0)
        close(fd);
    return told;
}

/* ---- Looking ---- */

/* No rank that joined ends before all have, and one that failed is in the file `lost`: so a rank
 * that has ended with status 0 now has never joined. One that is gone may have joined, and this
 * rank be a little late. */
void alive_read_ends(int64_t now_us)
{
    const char *folder = environment(ENV_RUN_DIR);
    char path[4200], line[64], why[ALIVE_WHY];
    int rank, status;
    int64_t at = 0;
    snprintf(path, sizeof path, "%s/events", folder ? folder : "");
    FILE *f = folder ? fopen(path, "re") : NULL;
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%d exit %d", &rank, &status) == 2 && status == 0) {
            snprintf(why, sizeof why, "rank %d has ended without joining", rank);
            write_file(rank, why);
            break;
        }
    }
    if (f)
        fclose(f);
    if (!environment(ENV_ELASTIC) || !alive_next_line("gone", &at, &rank, why))
        return;
    alive.gone_us = alive.gone_us ? alive.gone_us : now_us;
    if (now_us - alive.gone_us > LATE_US)
        alive_told(rank, why);
}

bool alive_look(int64_t now_us)
{
    char why[256];
    bool paused = now_us - alive.now_us > alive.deadline_us / 2; /* it was this rank that slept */
    alive.now_us = now_us;
    alive_read();
    if (!alive.deadline_us)
        return false;
    for (int i = alive.first; i < alive.end; i++) {
        int64_t heard = *heard_of(i);
        if (i == link_rank() || heard == INT64_MAX)
            continue;
        if (paused)
            *heard_of(i) = now_us;
        else if (now_us - heard > alive.deadline_us) {
            snprintf(why, sizeof why, "rank %d on %s has not been heard for %lld s", i,
                     link_host(i), (long long)(alive.deadline_us / 1000000));
            if (!may_go(i) || !ask_to_end(i, why))
                alive_told(i, why);
            *heard_of(i) = now_us; /* not said again at once, where it may go */
        }
    }
    bool due = now_us - alive.beat_us >= alive.deadline_us / BEATS;
    alive.beat_us = due ? now_us : alive.beat_us;
    return due;
}
