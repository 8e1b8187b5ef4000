/* A job that a seed draws: its ranks, keys and rounds, what the ranks call, and what goes wrong.
 *
 * Worker w pushes 16^w in each of its rounds, so that the digits of a number that was pulled count
 * the pushes of each worker that are in it: what a pull may see needs no second store (check.c).
 * With compression, whose codes stand for 1, 0 and -1, every worker pushes 5/8, and the sums of
 * codes are checked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kv_array.h"
#include "sim_link.h"

enum {
    MOST_WORKERS = 6,
    MOST_RANKS = 9,
    MOST_HOSTS = 3,
    MOST_KEYS = 4,
    MOST_ROUNDS = 14,
    MOST_ATTEMPTS = 3 /* before one to which nothing happens */
};

typedef enum mishap {
    MISHAP_NONE,
    MISHAP_STALL,  /* a rank stops for less than half of the deadline */
    MISHAP_SILENT, /* for longer than the deadline */
    MISHAP_CUT,    /* no record passes between two hosts, for less than half of the deadline */
    MISHAP_SPLIT,  /* for longer than the deadline */
    MISHAP_KILL,   /* a rank is killed */
    MISHAP_FAIL,   /* a worker's program fails */
    MISHAP_BUSY,   /* it computes for longer than the deadline */
    MISHAP_MEMORY, /* an allocation of a rank fails, or all from then on */
    MISHAP_DISK,   /* writing a checkpoint is slow, or fails */
    MISHAP_HOST,    /* a host is lost with all its processes */
    MISHAP_WATCHER, /* the watcher of a rank is killed */
    MISHAP_MPIRUN,  /* mpirun is killed */
    MISHAP_START,   /* a rank begins later than the deadline */
    MISHAP_SIGNAL,  /* the user ends the job */
    MISHAP_TIMEOUT, /* a worker computes for longer than --timeout */
    MISHAP_DEADLOCK, /* a worker is at a barrier, and the others wait for its push */
    MISHAPS
} mishap;

typedef struct job {
    uint64_t seed;
    int workers, servers, hosts, nkeys, rounds;
    const char *type;
    bool is_async, assigns;  /* it has no updater: the sum of a round replaces the value */
    bool sums;               /* a type without stored values, such as horovod: pushpull alone */
    bool compresses;         /* pushes travel as codes of two bits */
    bool named;              /* keys are texts */
    int staleness;           /* -1: none */
    int64_t size[MOST_KEYS];
    kv_dtype dtype[MOST_KEYS];
    bool sparse[MOST_KEYS];   /* workers push some of its rows, each an element: see job_pushes */
    int leaves[MOST_WORKERS]; /* rounds; fewer than those of the job: the worker is done then */
    double deadline;          /* seconds */
    int64_t ahead;            /* KVSTORE_AHEAD; 0: the default */
    int64_t every;            /* rounds between two checkpoints; 0: none are written */
    link_costs near, far;
    world_costs costs;
    mishap what;
    int who;           /* the rank, or the host, that it strikes */
    int64_t when_ns, how_long_ns;
    int64_t nth;       /* allocation, call or round; negative: it alone; the signal */
    int strikes;       /* the attempts that it strikes */
    int restarts;      /* --max-restarts */
    bool elastic;      /* --elastic: a worker is struck, and may be lost while the others go on */
    bool grows;        /* --spares 1: the last worker is one, and asked for at this time */
    int64_t grows_ns;
    bool outlives; /* its MPI has ULFM */
    int late;      /* the rank that is so much later than the others when all have joined */
    int64_t late_ns;
} job;

void job_draw(job *j, uint64_t seed);

/* From now on an allocation fails in each job that is drawn. */
void job_lack_memory(void);

/* Makes allocation after allocation fail, as k counts from 0 on: that of each rank, alone and with
 * all behind it, then the next one of each. */
void job_lack_at(job *j, int64_t k);

/* Whether worker w pushes row i of a sparse key in a round, and how often in the first n rounds. */
static inline bool job_pushes(int w, int64_t i, int64_t round)
{
    return (i + w + round) % 3 != 0;
}

static inline int64_t job_pushes_of(int w, int64_t i, int64_t n)
{
    return n - (n + (i + w) % 3) / 3;
}

/* Whether the mishap comes before launch can know the ranks of other hosts. */
static inline bool job_strikes_early(const job *j)
{
    return j->hosts > 1 && j->when_ns < 2 * j->far.latency_ns;
}

/* One line that says what was drawn. */
void job_describe(const job *j, char *text, size_t size);

/* What an attempt leaves to the next one, in memory that both share. */
typedef struct job_past {
    int64_t promised; /* the round that the file holds at least */
    int64_t begun;    /* the rounds that a worker has begun, at most */
} job_past;

/* From now on the link of each job loses a record: a test of the tests. */
void job_lose_records(void);

/* Runs attempt number `attempt` of the job in this process, once; in a fiber of it `launch` does
 * what launch does. folder: for its files. Returns whether all ranks have ended well; what was
 * wrong is with check.h. */
bool job_run(const job *j, int attempt, const char *folder, job_past *past, void (*launch)(void));
