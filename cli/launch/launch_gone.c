/* The list of those that are gone is the ranks of the job, which are marked. */
#include "launch/launch_gone.h"

#include <stdio.h>

#include "term/terminal.h"
#include "launch/launch_children.h"
#include "launch/launch_folder.h"

enum { MOST_NAMED = 8 };

bool gone_may(const job *j, int number)
{
    return j->o->losses != LOSSES_END && number > 0 && number < j->o->workers && !j->end_ms;
}

void gone_let(job *j, int number, const char *why)
{
    rank *r = &j->ranks[number];
    if (r->gone)
        return;
    r->gone = true;
    snprintf(r->why, sizeof r->why, "%s", why);
    folder_add(j->folder, "gone", number, why);
    r->untold = !j->is_local;
    if (j->is_local && r->pid && !r->ended)
        kill(r->pid, SIGKILL); /* silent, perhaps stopped */
}

void gone_take_missed(job *j, const char *text)
{
    int number, used = 0;
    if (sscanf(text, "%d %n", &number, &used) == 1 && gone_may(j, number))
        gone_let(j, number, text + used);
}

void gone_look(job *j)
{
    int number;
    char why[512];
    if (j->o->losses == LOSSES_END || j->end_ms)
        return;
    while (j->is_local && folder_next(j->folder, "missed", &j->missed_at, &number, why, sizeof why))
        if (gone_may(j, number))
            gone_let(j, number, why);
    for (int i = 0; i < j->n && !j->telling && j->mpirun; i++) {
        rank *r = &j->ranks[i];
        if (!r->untold)
            continue;
        children_tell_hosts(j, i, r->why, true);
        r->untold = false;
    }
}

void gone_say(const job *j)
{
    buf list = {0};
    int n = 0, named = 0;
    for (int i = 0; i < j->n; i++)
        n += j->ranks[i].gone;
    for (int i = 0; i < j->n && named < MOST_NAMED; i++) {
        if (!j->ranks[i].gone)
            continue;
        named++;
        buf_printf(&list, "%s %d", named == 1 ? "" : named == n ? " and" : ",", i);
    }
    if (n > named)
        buf_printf(&list, " and %d more", n - named);
    if (n > 0)
        terminal_say("kvctl: the job went on without rank%s%s, which %s lost", n == 1 ? "" : "s",
                     buf_text(&list), n == 1 ? "was" : "were");
    buf_release(&list);
}
