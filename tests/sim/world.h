/* The world of a simulation: ranks of a job as fibers of one process, under a virtual clock.
 *
 * A rank is the real code of a process of a job: its threads are fibers, its static variables are
 * exchanged whenever another rank goes on, and what it asks of the system comes here (calls.c), or
 * to the link (sim_link.c). Fibers of the world itself, launch and its watchers (process.c), share
 * static variables of their own. Fibers go on in the order of their virtual times, equal ones in
 * the order in which they stopped. Wherever a fiber calls the system, the seed draws a delay, so
 * that it decides every order in which the ranks and their threads can meet. Nothing else is
 * random: a seed replays a run to the bit.
 *
 * A simulation takes one process: whoever runs many forks one for each (main.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WORLD_FOREVER INT64_MAX

typedef struct fiber fiber;

/* The costs and the mishaps of a world. All times are virtual nanoseconds. */
typedef struct world_costs {
    int64_t jitter_ns; /* some system calls take up to so long, drawn; 0: none, nothing is drawn */
    int64_t call_ns;   /* and each at least so long */
    int64_t grain_ns;    /* without jitter: calls are spent when they have come to so long */
    int64_t stack_bytes; /* of a fiber */
    int processors;      /* of a host, which the fibers of its ranks share; 0: one for each fiber */
    int64_t switch_ns;   /* from one fiber to another on a processor */
    int64_t wake_ns;     /* until an idle processor has begun with the fiber that is woken */
    int64_t post_ns;     /* to wake it, of the processor that does */
    double copy_ns, sum_ns, update_ns; /* a byte that is copied, added up, updated by a rule */
} world_costs;

typedef struct world_rank {
    int number, host;
    bool dead;            /* killed: none of its fibers goes on */
    bool ended;           /* its main function has returned */
    int64_t stalled_ns;   /* it does not go on before this time */
    int64_t news_ns;      /* when the next record arrives; WORLD_FOREVER: none is under way */
    int64_t dozed_ns;     /* how long its polling fibers dozed last */
    fiber *fibers;        /* all of them, linked by the world */
    char *statics;        /* of the product's code, while another rank goes on */
    int status;           /* what main returned */
    double slower;        /* all that its processor does takes so many times as long; 0: once */
    int64_t busy_ns;      /* what its fibers have spent */
    int64_t switches, wakes; /* where fibers share processors: that came to one, and were woken */
    int64_t bytes, most_bytes; /* of memory: allocated now, and at most */
} world_rank;

/* Makes a world of n ranks on `hosts` machines, rank i on host i % hosts. */
void world_open(int n, int hosts, uint64_t seed, const world_costs *costs);

extern world_rank *world_ranks;
extern int world_size;

/* The rank that goes on; NULL: a fiber of the world itself, such as the launcher. */
world_rank *world_here(void);

/* Keeps the static variables of the product's code as they are now: those of each rank begin so.
 * For a process that calls this code before world_open, which does it otherwise. */
void world_keep(void);

/* Begins a fiber: of a rank, or with NULL of the world. */
fiber *world_begin(world_rank *r, void *(*run)(void *arg), void *arg);

/* Begins a fiber of the world at this moment: nothing is drawn. */
fiber *world_begin_now(void *(*run)(void *arg), void *arg);

/* A fiber of the world, another one than the caller, does not go on from now. */
void world_end(fiber *f);

/* Runs fibers until all have ended, or the virtual time `until` has come, or nothing can go on any
 * more; returns false in the last case: a deadlock. */
bool world_run(int64_t until_ns);

/* The virtual time. */
int64_t world_now(void);

/* The costs that world_open was given. */
const world_costs *world_prices(void);

/* world_run returns as soon as this fiber stops. */
void world_stop(void);

/* Bytes that this simulation keeps for each rank: fibers, and its static variables. Stacks are
 * counted by their pages that were written. */
int64_t world_bytes(const world_rank *r);

/* Draws: a number below n; a true with probability p in 1/1000; nanoseconds with that mean,
 * exponentially distributed. */
uint64_t world_draw(uint64_t n);
bool world_chance(int permille);
int64_t world_about(int64_t mean_ns);

/* ---- For fibers ---- */

/* The fiber uses its processor for so long; others may go on before it. */
void world_spend(int64_t ns);

/* Computing in the midst of code that makes no system call: spent at the next one. */
void world_owe(double ns);

/* A system call that takes no time of its own: spends what the costs say. Those of the world's own
 * fibers take none, and draw nothing. */
void world_call(void);

/* Sleeps until the fiber is woken at this address, or the time has come; says whether it was woken.
 * Addresses of a rank's static variables are its own. */
bool world_block(const void *on, int64_t until_ns);

/* Wakes up to n fibers of this rank that sleep there, in an order that is drawn. */
void world_wake(const void *on, int n);

/* Wakes the fibers of any rank, or with NULL of the world, that sleep there, at that time, and says
 * what it costs the processor of this fiber where fibers share processors. */
int64_t world_wake_at(world_rank *r, const void *on, int64_t at_ns);

/* Others that wait for the processor of this fiber go first. */
void world_yield(void);

/* A pause of a thread that polls: at least min_ns; while nothing arrives for its rank and no other
 * of its fibers does anything, each is twice as long as the last, up to 50 ms: a slow machine may
 * do that, too, and a simulated wait of minutes takes some thousand steps. */
void world_doze(int64_t min_ns);

/* Waits for the end of a fiber; its result. */
void *world_join(fiber *f);

/* A record for the rank arrives at that time. */
void world_news(world_rank *r, int64_t at_ns);

/* Kills a rank: it does not go on from now. The caller is not one of its fibers. */
void world_kill(world_rank *r);

/* The process of this fiber's rank ends: none of its fibers goes on. */
_Noreturn void world_end_rank(void);

/* The sum of all that was drawn and in which order fibers went on: equal for equal runs. */
uint64_t world_sum(void);

/* Steps so far: fibers that went on. */
int64_t world_steps(void);
