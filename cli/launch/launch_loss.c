/* Silence is counted from the last cell of any watcher of a host. */
#include "launch/launch_loss.h"

#include <string.h>

#include "base/clock.h"
#include "launch/launch_job.h"

enum { MOST_NAMED = 8 };

void loss_tick(job *j, bool full)
{
    int64_t now = clock_ms();
    if (full || (double)(now - j->looked_ms) > j->o->deadline * 500)
        j->unheard_ms = now;
    j->looked_ms = now;
}

static bool on_one_host(const job *j, int a, int b)
{
    return strcmp(j->ranks[a].host, j->ranks[b].host) == 0;
}

/* Milliseconds; 0: nothing is known of it yet. */
static int64_t silence_of_watcher(const job *j, int number)
{
    const rank *r = &j->ranks[number];
    int64_t last = r->heard_ms > j->unheard_ms ? r->heard_ms : j->unheard_ms;
    return !r->pid ? 0 : clock_ms() - last;
}

/* That of the watcher that was heard last. */
static int64_t silence_of_host(const job *j, int number)
{
    int64_t least = silence_of_watcher(j, number);
    for (int i = 0; i < j->n; i++) {
        int64_t one = on_one_host(j, i, number) ? silence_of_watcher(j, i) : least;
        least = one < least ? one : least;
    }
    return least;
}

static bool is_longer(const job *j, int64_t ms, double deadlines)
{
    return (double)ms > j->o->deadline * 1000 * deadlines;
}

/* The watchers of a host that lives were heard an eighth of the deadline ago, those of one that
 * died no later than its ranks: half of it is far from both. */
bool loss_is_host(const job *j, int number)
{
    return !j->is_local && number >= 0 && number < j->n &&
           is_longer(j, silence_of_host(j, number), 0.5);
}

/* On this host the cells of all watchers come through mpirun. */
void loss_name_local(const job *j, int number, const char *name, char *why, size_t size)
{
    bool all = is_longer(j, silence_of_host(j, number), 0.5);
    snprintf(why, size, "%s%s has not been heard for %lld s", all ? "mpirun" : "the watcher of ",
             all ? "" : name, (long long)silence_of_watcher(j, number) / 1000);
}

int loss_find(const job *j)
{
    for (int i = 0; i < j->n; i++)
        if (!j->ranks[i].ended && (is_longer(j, silence_of_watcher(j, i), 1.5) ||
                                   (j->ssh_ended && loss_is_host(j, i))))
            return i;
    return -1;
}

void loss_name_silent(const job *j, int number, const char *name, char *why, size_t size)
{
    snprintf(why, size, "%s has not been heard for %lld s", name,
             (long long)silence_of_watcher(j, number) / 1000);
}

void loss_name_host(const job *j, int number, char *why, size_t size)
{
    int ranks = 0, named = 0;
    for (int i = 0; i < j->n; i++)
        ranks += !j->ranks[i].ended && on_one_host(j, i, number);
    int at = snprintf(why, size, "host %s is lost, with rank%s", j->ranks[number].host,
                      ranks == 1 ? "" : "s");
    for (int i = 0; i < j->n && named < MOST_NAMED; i++) {
        if (j->ranks[i].ended || !on_one_host(j, i, number))
            continue;
        named++;
        at += snprintf(why + at, size - (size_t)at, "%s %d",
                       named == 1       ? ""
                       : named == ranks ? " and"
                                        : ",",
                       i);
    }
    if (ranks > named)
        snprintf(why + at, size - (size_t)at, " and %d more", ranks - named);
}

void loss_end_host(job *j, int number)
{
    for (int i = 0; i < j->n; i++)
        if (on_one_host(j, i, number))
            j->ranks[i].ended = true;
}
