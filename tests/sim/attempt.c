/* launch_job.c calls this instead of attempt_run (the Makefile says so), which then runs as a fiber
 * of a simulated world, perhaps in another process. Here launch's names `job` and `rank` are those
 * of launch_attempt.h. */
#include "launch/launch_attempt.h"

#include "launcher_outcome.h"

int sim_attempt_run(job *j, const launch_command *c, const signal_masks *m, long long *rounds,
                    kv_err *e);

static struct {
    job *j;
    const launch_command *c;
    const signal_masks *m;
} call;

static outcome run(void)
{
    outcome o = {.rounds = -1};
    o.rc = attempt_run(call.j, call.c, call.m, &o.rounds, &o.e);
    o.code = call.j->code;
    o.lost = call.j->lost;
    return o;
}

int sim_attempt_run(job *j, const launch_command *c, const signal_masks *m, long long *rounds,
                    kv_err *e)
{
    call.j = j;
    call.c = c;
    call.m = m;
    j->first_ms -= launcher_past_ms(); /* the clock of a world begins with 0 */
    const outcome *o = launcher_attempt(j->round, run);
    j->code = o->code;
    j->lost = o->lost;
    *rounds = o->rounds;
    if (o->rc)
        *e = o->e;
    return o->rc;
}
