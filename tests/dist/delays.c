/* Delays in a rank, drawn by a seed: LD_PRELOAD=delays.so DELAYS=SEED before the program. A thread
 * sleeps up to two milliseconds, or lets others run, at one in 40 ($DELAYS_ONE_IN) of the places
 * where it takes or gives a lock or sends a message: every record is moved between two of them. A
 * message that has come is found later. Each rank draws others.
 *
 * The rank $DELAYS_LATE goes on so much later than the others when all have joined (net.c).
 *
 * And while MPI starts, which changes the environment, no other thread may read it: the process
 * ends with a sentence then. */
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    uint64_t seed, one_in; /* 0: no delays */
    uint64_t threads;
    pthread_t starting;
    int starts;
    int late, gathered;
} all;

static __thread uint64_t state;

static char *(*next_getenv)(const char *);
static int (*next_lock)(pthread_mutex_t *), (*next_trylock)(pthread_mutex_t *),
    (*next_unlock)(pthread_mutex_t *);

/* Libraries that this one needs take locks before its own turn to begin: those of Open MPI 5 do. */
static void find_next(void)
{
    if (next_unlock)
        return;
    next_getenv = (char *(*)(const char *))dlsym(RTLD_NEXT, "getenv");
    next_lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    next_trylock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_trylock");
    next_unlock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
}

__attribute__((constructor)) static void begin(void)
{
    find_next();
    const char *seed = next_getenv("DELAYS"), *often = next_getenv("DELAYS_ONE_IN");
    const char *rank = next_getenv("OMPI_COMM_WORLD_RANK");
    if (!seed || !rank)
        return;
    all.seed = strtoull(seed, NULL, 10) * 1000003 + strtoull(rank, NULL, 10) * 7919 + 1;
    const char *late = next_getenv("DELAYS_LATE");
    all.late = late && strcmp(late, rank) == 0;
    all.one_in = often ? strtoull(often, NULL, 10) : 40;
}

static uint64_t draw(void)
{
    if (!state)
        state = all.seed * (2 * __atomic_add_fetch(&all.threads, 1, __ATOMIC_RELAXED) + 1) | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull >> 20;
}

static int is_drawn(void)
{
    return all.one_in && draw() % all.one_in == 0;
}

static void pause_some(void)
{
    if (!is_drawn())
        return;
    if (draw() % 2)
        sched_yield();
    else
        usleep((unsigned)(draw() % 2000));
}

int pthread_mutex_lock(pthread_mutex_t *m)
{
    find_next();
    pause_some();
    return next_lock(m);
}

int pthread_mutex_trylock(pthread_mutex_t *m)
{
    find_next();
    pause_some();
    return next_trylock(m);
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
    find_next();
    int rc = next_unlock(m);
    pause_some();
    return rc;
}

int MPI_Isend(const void *data, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    pause_some();
    return PMPI_Isend(data, n, type, to, tag, comm, request);
}

/* The names of hosts, then link_agree twice. */
int MPI_Allgather(const void *data, int n, MPI_Datatype type, void *to, int nto, MPI_Datatype into,
                  MPI_Comm comm)
{
    int rc = PMPI_Allgather(data, n, type, to, nto, into, comm);
    if (++all.gathered == 3 && all.late)
        usleep(400000);
    return rc;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    *flag = 0;
    return is_drawn() ? MPI_SUCCESS : PMPI_Test(request, flag, status);
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    all.starting = pthread_self();
    __atomic_store_n(&all.starts, 1, __ATOMIC_SEQ_CST);
    usleep(20000); /* so that a thread that waits for the others looks a few times */
    int rc = PMPI_Init_thread(argc, argv, required, provided);
    __atomic_store_n(&all.starts, 0, __ATOMIC_SEQ_CST);
    return rc;
}

char *getenv(const char *name)
{
    int ours = strncmp(name, "KVSTORE_", 8) == 0;
    if (ours && __atomic_load_n(&all.starts, __ATOMIC_SEQ_CST) &&
        !pthread_equal(all.starting, pthread_self())) {
        fprintf(stderr, "%s is read while MPI starts\n", name);
        _exit(99);
    }
    return next_getenv ? next_getenv(name) : NULL;
}
