/* The links over Open MPI: the only file that names MPI.
 *
 * Between ranks that share memory there are two rings for each direction, in a window that MPI
 * allocates: the sender writes records one behind the other and publishes how far it has come, the
 * receiver reads them in place and publishes how far it is done. A record never wraps: where it
 * does not fit before the end, the rest is skipped. The second ring is the express lane of small
 * records that are more urgent than all that lie in the first: it is looked at before each of them.
 *
 * To other machines records travel in frames. A few receives of any source are always posted, and
 * frames are taken in the order of posting, which keeps the order of each sender. When a rank is
 * gone, receives that MPI has given to its frames may never end: then frames are taken as they
 * come, and their numbers keep the order.
 */
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/kv_assert.h"
#include "base/mem.h"
#include "distributed/environment.h"
#include "distributed/link.h"
#include "engine/pool.h"

enum {
    FRAME = LINK_RECORD + 4096, /* bytes of a message at most */
    FRAME_HEAD = 8,             /* its number in what its sender sends to this rank */
    FRAMES_OUT = 16,            /* sends that may be under way to one rank */
    RECEIVES = 32,
    TAG = 1,
    LINE = 64,
    /* Two records and many small ones: it stays in the cache of a processor, and what is urgent has
     * no more than two before it. A rank that does not run fills, and empties, more at once; but
     * the rings of all ranks must not push each other out of the cache. */
    RING_MOST = 3 * LINK_PAYLOAD,
    RING_CROWDED = 1536 << 10,
    RING_LEAST = LINK_RECORD * 2 + LINE,
    /* Small records use no more of a ring where ranks outnumber processors and their receiver is
     * quick: others use the caches meanwhile. Where each has a processor, its cache is its own, and
     * looking whether the receiver is done costs more. */
    RING_HOT = 16 << 10,
    RINGS_TOGETHER = 256 << 20, /* of one machine */
    EXPRESS_RING = 4 * LINK_EXPRESS
};

/* At the beginning of a ring. Each side writes a line of its own. */
typedef struct ring {
    _Alignas(LINE) int64_t written; /* bytes so far, skipped ones included */
    int full;                       /* the sender waits for room */
    _Alignas(LINE) int64_t done;
    _Alignas(LINE) char data[];
} ring;

/* Who wakes the thread of a rank that sleeps for records: nobody, while it is awake; the threads of
 * its own process alone, while one of them takes the records; or the ranks of its machine too. */
typedef enum asleep { AWAKE, WAKEN_BY_OWN, WAKEN_BY_ALL } asleep;

/* The wake-up of a rank, in the memory that it shares with the ranks of its machine. */
typedef struct wakeup {
    _Alignas(LINE) int sleeper; /* an asleep; the thread that sets it to AWAKE posts, once */
    sem_t wakes;
} wakeup;

typedef struct frame {
    MPI_Request request;
    int64_t used;
    char *data;
    int from;  /* of one that has come: its sender */
    bool came; /* and another one of that sender may have to be taken before it */
} frame;

/* The rings to and from another rank. */
typedef struct lane {
    ring *out, *in;        /* or NULL: it is elsewhere */
    int64_t bytes;         /* of the data of each */
    int64_t hot;           /* of them: see RING_HOT */
    int64_t written, seen; /* of out: written but not published; what the other side is done with */
    int64_t read;          /* of in: handed out */
    bool full;             /* there was no room in out */
} lane;

/* The largest priority of the records that lie in a ring, or a little more: of those before and
 * behind a place. When the other side has come there, what is behind it becomes what is before. */
typedef struct urgency {
    int64_t place;
    int32_t before, behind;
} urgency;

/* Another rank. */
typedef struct peer {
    char host[64];
    bool near; /* the two share memory */
    lane main, express;
    urgency urgency;       /* of main */
    wakeup *wakeup;        /* its own, where there are rings */
    int64_t open;          /* bytes of the record that is open */
    lane *opened;          /* where it is; NULL: in a frame */
    int32_t priority;      /* of that record; INT32_MIN: it has none */
    frame *frames; /* FRAMES_OUT of them, from the first record on; NULL: none was sent */
    int next; /* the frame that is filled, or will be */
    bool filling;
    int64_t nsent, ntaken; /* frames */
    bool gone;             /* what still comes from it is dropped */
    bool listed;            /* it is in mpi.unsent */
    struct peer *unsent;    /* the next one there */
} peer;

static struct {
    MPI_Comm world, near;
    MPI_Win window;
    int rank, size;
    int processors;     /* of this machine, which its ranks share */
    int64_t ring_bytes; /* of the data of a main ring */
    wakeup *wakeup;
    peer *peers;
    int *nears, nnears; /* the ranks with rings, in order */
    bool remote;        /* some ranks are on other machines */
    peer *unsent;       /* those with a frame that is being filled, or was since the last flush */
    frame *receives; /* in the order of posting, from `first` on around the end */
    int nreceives;
    bool any_gone;
    int first, taken; /* the receive that comes next; frames handed out since the last release */
    int64_t sent;      /* bytes into rings since the last poll */
} mpi;

/* Of ULFM, which Open MPI has from 5.0 on unless it was built without. */
extern int MPIX_Comm_failure_ack(MPI_Comm comm) __attribute__((weak));

/* The result of a call of MPI as an error. what: what the call should do, as "post a receive". */
static int check_mpi(int rc, const char *what, kv_err *e)
{
    char text[MPI_MAX_ERROR_STRING];
    int n = 0;
    if (rc == MPI_SUCCESS)
        return KV_OK;
    MPI_Error_string(rc, text, &n);
    return kv_err_set(e, KV_E_PEER, "MPI cannot %s: %.*s", what, n, text);
}

/* ---- Joining ---- */

static bool is_elastic(void)
{
    return environment(ENV_ELASTIC) && link_outlives_ranks();
}

static int start_mpi(kv_err *e)
{
    int level, was;
    /* Without a launcher MPI would make a world of one rank, which cannot be meant. */
    if (!getenv("OMPI_COMM_WORLD_SIZE") && !getenv("PMIX_RANK")) {
        kv_err_set(e, KV_E_UNSUPPORTED,
                   "this process was not started as a rank of a job: OMPI_COMM_WORLD_SIZE "
                   "is not set");
        kv_err_hint(e, "start the script with kvctl launch -n WORKERS, or with mpirun");
        return KV_E_UNSUPPORTED;
    }
    MPI_Initialized(&was);
    if (was)
        MPI_Query_thread(&level);
    else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return kv_err_set(e, KV_E_PEER, "MPI cannot start");
    if (level < MPI_THREAD_SERIALIZED)
        return kv_err_set(e, KV_E_UNSUPPORTED, "this MPI cannot be called from several threads");
    return KV_OK;
}

/* A rank that may use fewer than it is bound to, by a quota or KVSTORE_THREADS, limits all. */
static int count_processors(kv_err *e)
{
    MPI_Comm machine;
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    int limit = pool_workers() < CPU_COUNT(&set) ? pool_workers() : INT_MAX;
    int rc = MPI_Comm_split_type(mpi.world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    if (rc)
        return check_mpi(rc, "find the ranks of this machine", e);
    MPI_Allreduce(MPI_IN_PLACE, &set, sizeof set, MPI_BYTE, MPI_BOR, machine);
    MPI_Allreduce(MPI_IN_PLACE, &limit, 1, MPI_INT, MPI_MIN, machine);
    MPI_Comm_free(&machine);
    int all = CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : pool_workers();
    mpi.processors = all < limit ? all : limit;
    return KV_OK;
}

/* Bytes of a main ring and the express ring behind it. */
static int64_t both_rings(void)
{
    return mpi.ring_bytes + EXPRESS_RING + 2 * (int64_t)sizeof(ring);
}

/* The n-th main ring behind base. MPI aligns windows for numbers only; every process maps them by
 * pages, so all round to the same place. */
static ring *ring_at(char *base, int n)
{
    char *first = base + (-(uintptr_t)base & (LINE - 1));
    return (ring *)(void *)(first + n * both_rings());
}

static ring *express_at(char *base, int n)
{
    return (ring *)(void *)(ring_at(base, n)->data + mpi.ring_bytes);
}

/* Behind all n rings. */
static wakeup *wakeup_at(char *base, int n)
{
    return (wakeup *)(void *)ring_at(base, n);
}

/* Ranks of this machine, by their order here: those from first_server on serve, and exchange
 * records with all ranks; the others exchange them with those alone. */
typedef struct near_ranks {
    int n, first_server;
} near_ranks;

/* Ranks that were told different numbers of servers all count as servers: server_open refuses the
 * job. */
static near_ranks find_near(void)
{
    int servers = environment_count(ENV_SERVERS), first = mpi.size - servers;
    near_ranks r = {0};
    MPI_Comm_size(mpi.near, &r.n);
    first = servers > 0 && first > 0 ? first : 0;
    int works = mpi.rank < first, both[2] = {first, -first};
    MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_INT, MPI_MAX, mpi.near);
    MPI_Allreduce(&works, &r.first_server, 1, MPI_INT, MPI_SUM, mpi.near);
    if (both[0] != -both[1])
        r.first_server = 0;
    return r;
}

static bool exchange_records(near_ranks r, int a, int b)
{
    return a != b && (a >= r.first_server || b >= r.first_server);
}

/* The number of rings that a rank receives from, and the index of another rank's ring among them.
 */
static int count_rings(near_ranks r, int to)
{
    return to >= r.first_server ? r.n - 1 : r.n - r.first_server;
}

static int ring_number(near_ranks r, int from, int to)
{
    return to >= r.first_server ? from - (to < from) : from - r.first_server;
}

/* The rings of the ranks of this machine that exchange records: each rank keeps the rings that it
 * receives from. */
static int open_rings(kv_err *e)
{
    int near, unit;
    char *base = NULL, *other;
    MPI_Aint bytes;
    MPI_Group group, all;
    MPI_Comm_rank(mpi.near, &near);
    near_ranks here = find_near();
    int mine = count_rings(here, near), rings = 0;
    for (int i = 0; i < here.n; i++)
        rings += count_rings(here, i);
    int64_t each = RINGS_TOGETHER / (rings > 0 ? rings : 1);
    bool crowded = here.n > mpi.processors;
    int64_t most = crowded ? RING_CROWDED : RING_MOST;
    each = each > most ? most : each < RING_LEAST ? RING_LEAST : each;
    each = (each + LINE - 1) / LINE * LINE;
    mpi.ring_bytes = each;
    int rc = MPI_Win_allocate_shared(mine * both_rings() + (int64_t)sizeof(wakeup) + LINE, 1,
                                     MPI_INFO_NULL, mpi.near, &base, &mpi.window);
    if (rc)
        return check_mpi(rc, "make a shared window", e);
    for (int i = 0; i < mine; i++) {
        memset(ring_at(base, i), 0, sizeof(ring));
        memset(express_at(base, i), 0, sizeof(ring));
    }
    if (!(mpi.nears = mem_alloc(mine + 1, sizeof *mpi.nears, e)))
        return KV_E_MEMORY;
    mpi.wakeup = wakeup_at(base, mine);
    mpi.wakeup->sleeper = AWAKE;
    sem_init(&mpi.wakeup->wakes, 1, 0);
    MPI_Comm_group(mpi.near, &group);
    MPI_Comm_group(mpi.world, &all);
    for (int i = 0; i < here.n; i++) {
        int rank, out = ring_number(here, near, i), in = ring_number(here, i, near);
        MPI_Group_translate_ranks(group, 1, &i, all, &rank);
        mpi.peers[rank].near = true;
        if (!exchange_records(here, i, near))
            continue;
        mpi.nears[mpi.nnears++] = rank;
        MPI_Win_shared_query(mpi.window, i, &bytes, &unit, &other);
        mpi.peers[rank].main = (lane){.out = ring_at(other, out), .in = ring_at(base, in),
                                      .bytes = each, .hot = crowded ? RING_HOT : each};
        mpi.peers[rank].express = (lane){.out = express_at(other, out),
                                         .in = express_at(base, in),
                                         .bytes = EXPRESS_RING, .hot = EXPRESS_RING};
        mpi.peers[rank].wakeup = wakeup_at(other, count_rings(here, i));
    }
    mpi.remote = here.n < mpi.size;
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    MPI_Barrier(mpi.near);
    return KV_OK;
}

static int post_receive(frame *f)
{
    return MPI_Irecv(f->data, FRAME, MPI_BYTE, MPI_ANY_SOURCE, TAG, mpi.world, &f->request);
}

/* Posts more receives of frames, where some rank is on another machine. No frame is handed out. */
static int open_frames(int n, kv_err *e)
{
    frame *all = mpi.remote ? mem_zalloc(mpi.nreceives + n, sizeof *all, e) : NULL;
    if (!all)
        return mpi.remote ? KV_E_MEMORY : KV_OK;
    for (int i = 0; i < mpi.nreceives; i++)
        all[i] = mpi.receives[(mpi.first + i) % mpi.nreceives];
    mem_free(mpi.receives);
    mpi.receives = all;
    mpi.first = 0;
    for (int i = 0; i < n; i++) {
        frame *f = &all[mpi.nreceives];
        if (!(f->data = mem_alloc(1, FRAME, e)))
            return KV_E_MEMORY;
        int rc = post_receive(f);
        if (rc)
            return check_mpi(rc, "post a receive", e);
        mpi.nreceives++;
    }
    return KV_OK;
}

/* MPI may keep as many receives as frames of that rank were under way. */
int link_gone(int rank, kv_err *e)
{
    kv_assert(mpi.taken == 0, "%d frames are handed out when rank %d is gone", mpi.taken, rank);
    mpi.any_gone = mpi.peers[rank].gone = true;
    return open_frames(FRAMES_OUT, e);
}

int link_open(kv_err *e)
{
    TRY(start_mpi(e));
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi.world);
    MPI_Comm_set_errhandler(mpi.world, MPI_ERRORS_RETURN);
    if (is_elastic()) /* ULFM reports a loss to these where no call is to blame */
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi.world, &mpi.rank);
    MPI_Comm_size(mpi.world, &mpi.size);
    mpi.peers = mem_zalloc(mpi.size, sizeof *mpi.peers, e);
    char *names = mem_zalloc(mpi.size, sizeof mpi.peers->host, e);
    if (!mpi.peers || !names) {
        mem_free(names);
        return KV_E_MEMORY;
    }
    char mine[MPI_MAX_PROCESSOR_NAME] = "";
    int n;
    MPI_Get_processor_name(mine, &n);
    mine[sizeof mpi.peers->host - 1] = 0;
    MPI_Allgather(mine, sizeof mpi.peers->host, MPI_CHAR, names, sizeof mpi.peers->host, MPI_CHAR,
                  mpi.world);
    for (int i = 0; i < mpi.size; i++)
        snprintf(mpi.peers[i].host, sizeof mpi.peers[i].host, "%s",
                 names + (size_t)i * sizeof mpi.peers->host);
    mem_free(names);
    TRY(count_processors(e));
    /* For tests, and where shared memory is not to be had: every rank a machine of its own. */
    const char *apart = environment(ENV_SHARED_MEMORY);
    int split = apart && strcmp(apart, "0") == 0 ? mpi.rank : 0;
    MPI_Comm place;
    MPI_Comm_split(mpi.world, split, mpi.rank, &place);
    int rc =
        check_mpi(MPI_Comm_split_type(place, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &mpi.near),
                  "find the ranks of this machine", e);
    MPI_Comm_free(&place);
    if (!rc)
        rc = open_rings(e);
    return rc ? rc : open_frames(RECEIVES, e);
}

bool link_agree(int number, int *other)
{
    kv_err unused = {0};
    int *all = mem_alloc(mpi.size, sizeof *all, &unused);
    if (!all)
        return true;
    for (int i = 0; i < mpi.size; i++)
        all[i] = number; /* MPI fails where a rank is lost */
    MPI_Allgather(&number, 1, MPI_INT, all, 1, MPI_INT, mpi.world);
    *other = -1;
    for (int i = 0; i < mpi.size && *other < 0; i++)
        if (all[i] != number)
            *other = i;
    mem_free(all);
    return *other < 0;
}

int link_rank(void)
{
    return mpi.rank;
}

int link_size(void)
{
    return mpi.size;
}

const char *link_host(int rank)
{
    return mpi.peers[rank].host;
}

bool link_shares_memory(int rank)
{
    return mpi.peers[rank].near;
}

int link_processors(void)
{
    return mpi.processors;
}

/* ---- Sleep ---- */

/* Wakes a rank whose sleep is at least of this kind. The race: the rank marks itself asleep, then
 * looks for news; the caller has written news, then this looks for the mark. There is a fence
 * between the two steps of each, so one of them sees what the other wrote. */
static void wake_up(wakeup *w, asleep at_least)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&w->sleeper, __ATOMIC_RELAXED) >= (int)at_least &&
        __atomic_exchange_n(&w->sleeper, AWAKE, __ATOMIC_ACQ_REL) != AWAKE)
        sem_post(&w->wakes);
}

void link_wake(void)
{
    wake_up(mpi.wakeup, WAKEN_BY_OWN);
}

/* Something came, or there is room again. */
static bool has_news(const lane *l)
{
    return __atomic_load_n(&l->in->written, __ATOMIC_ACQUIRE) != l->read ||
           (l->full && __atomic_load_n(&l->out->done, __ATOMIC_ACQUIRE) != l->seen);
}

bool link_prepare_sleep(bool listening)
{
    asleep how = listening ? WAKEN_BY_ALL : WAKEN_BY_OWN;
    __atomic_store_n(&mpi.wakeup->sleeper, (int)how, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (int i = 0; i < mpi.nnears && listening; i++) {
        const peer *p = &mpi.peers[mpi.nears[i]];
        if (has_news(&p->main) || has_news(&p->express)) {
            __atomic_store_n(&mpi.wakeup->sleeper, AWAKE, __ATOMIC_RELAXED);
            return false;
        }
    }
    return true;
}

void link_sleep(int64_t us)
{
    struct timespec until = clock_after(us * 1000);
    if (us > 0)
        sem_clockwait(&mpi.wakeup->wakes, CLOCK_MONOTONIC, &until);
    __atomic_store_n(&mpi.wakeup->sleeper, AWAKE, __ATOMIC_RELAXED);
}

/* ---- Sending ---- */

static void look_at_done(lane *l)
{
    l->seen = __atomic_load_n(&l->out->done, __ATOMIC_ACQUIRE);
}

/* Bytes to the end of a ring that a record leaves out: those that are too few for it, or all where
 * the receiver is done with what was written, since the beginning is still in the caches. */
static int64_t bytes_to_skip(lane *l, int64_t at, int64_t need)
{
    int64_t rest = l->bytes - at;
    if (need > rest)
        return rest;
    if (at < l->hot || need > at)
        return 0;
    look_at_done(l);
    return l->seen == l->written ? rest : 0;
}

static void tell_full(lane *l, bool full)
{
    if (full != l->full)
        __atomic_store_n(&l->out->full, full, __ATOMIC_RELAXED);
    l->full = full;
}

static link_rec *ring_reserve(lane *l, int64_t need)
{
    int64_t at = l->written % l->bytes, rest = l->bytes - at;
    int64_t skip = bytes_to_skip(l, at, need);
    if (l->written + skip + need - l->seen > l->bytes)
        look_at_done(l);
    bool full = l->written + skip + need - l->seen > l->bytes;
    tell_full(l, full);
    if (full)
        return NULL;
    if (skip) {
        if (rest >= (int64_t)sizeof(link_rec))
            *(link_rec *)(void *)(l->out->data + at) = (link_rec){0};
        l->written += skip;
        at = 0;
    }
    return (link_rec *)(void *)(l->out->data + at);
}

/* Returns true if there are records to overtake, and all of them are less urgent. */
static bool overtakes(peer *p, int32_t priority)
{
    urgency *u = &p->urgency;
    const lane *l = &p->main;
    look_at_done(&p->main);
    if (l->seen >= u->place)
        *u = (urgency){.place = l->written, .before = u->behind, .behind = INT32_MIN};
    if (l->seen == l->written)
        u->before = INT32_MIN;
    return l->seen != l->written && priority > u->before && priority > u->behind;
}

static void send_frame(int rank)
{
    peer *p = &mpi.peers[rank];
    if (!p->filling)
        return;
    frame *f = &p->frames[p->next];
    MPI_Isend(f->data, (int)f->used, MPI_BYTE, rank, TAG, mpi.world, &f->request);
    p->filling = false;
    p->next = (p->next + 1) % FRAMES_OUT;
}

static link_rec *frame_reserve(int rank, int64_t need)
{
    peer *p = &mpi.peers[rank];
    kv_err unused = {0};
    if (!p->frames && !(p->frames = mem_zalloc(FRAMES_OUT, sizeof *p->frames, &unused)))
        return NULL;
    if (p->filling && p->frames[p->next].used + need > FRAME)
        send_frame(rank);
    frame *f = &p->frames[p->next];
    if (!p->filling) {
        int sent = 1;
        if (f->data && MPI_Test(&f->request, &sent, MPI_STATUS_IGNORE) == MPI_SUCCESS && !sent)
            return NULL;
        if (!f->data && !(f->data = mem_alloc(1, FRAME, &unused)))
            return NULL;
        p->filling = true;
        p->nsent++;
        memcpy(f->data, &p->nsent, FRAME_HEAD);
        f->used = FRAME_HEAD;
        if (!p->listed) {
            p->unsent = mpi.unsent;
            mpi.unsent = p;
            p->listed = true;
        }
    }
    return (link_rec *)(void *)(f->data + f->used);
}

static link_rec *reserve(int rank, int64_t bytes, int32_t priority)
{
    peer *p = &mpi.peers[rank];
    p->open = link_whole(bytes);
    p->priority = priority;
    p->opened = p->main.out ? &p->main : NULL;
    kv_assert(p->open <= FRAME - FRAME_HEAD,
              "a record of %lld bytes to rank %d is longer than a frame", (long long)bytes, rank);
    return p->opened ? ring_reserve(&p->main, p->open) : frame_reserve(rank, p->open);
}

link_rec *link_reserve(int rank, int64_t bytes)
{
    return reserve(rank, bytes, INT32_MIN);
}

link_rec *link_reserve_by(int rank, int64_t bytes, int32_t priority, bool whole)
{
    peer *p = &mpi.peers[rank];
    bool ahead = p->main.out && overtakes(p, priority) && whole && bytes <= LINK_EXPRESS;
    link_rec *r = ahead ? ring_reserve(&p->express, link_whole(bytes)) : NULL;
    if (ahead && !r)
        tell_full(&p->express, false); /* nothing waits for that room */
    if (!r)
        return reserve(rank, bytes, priority);
    p->open = link_whole(bytes);
    p->opened = &p->express;
    return r;
}

static void publish(const peer *p, const lane *l)
{
    __atomic_store_n(&l->out->written, l->written, __ATOMIC_RELEASE);
    wake_up(p->wakeup, WAKEN_BY_ALL);
}

/* A record may become shorter than it was reserved, not longer. */
static void check_open(peer *p, int rank, const link_rec *r)
{
    kv_assert(link_whole(r->bytes) <= p->open,
              "a record of %u bytes to rank %d is committed, %lld with its head were reserved",
              r->bytes, rank, (long long)p->open);
    p->open = 0;
}

void link_commit(int rank)
{
    enum { BURST = 32 << 10 }; /* the other side may begin then */
    peer *p = &mpi.peers[rank];
    lane *l = p->opened;
    if (l) {
        const link_rec *r = (link_rec *)(void *)(l->out->data + l->written % l->bytes);
        int64_t before = l->written;
        link_trace("to", rank, r);
        check_open(p, rank, r);
        if (l == &p->main && p->priority > p->urgency.behind)
            p->urgency.behind = p->priority;
        l->written += link_whole(r->bytes);
        mpi.sent += link_whole(r->bytes);
        if (l == &p->express || l->written / BURST != before / BURST)
            publish(p, l);
        return;
    }
    frame *f = &p->frames[p->next];
    const link_rec *r = (link_rec *)(void *)(f->data + f->used);
    link_trace("to", rank, r);
    check_open(p, rank, r);
    f->used += link_whole(r->bytes);
    kv_assert(f->used <= FRAME, "a frame to rank %d holds %lld bytes", rank, (long long)f->used);
}

bool link_sent_much(void)
{
    return mpi.sent >= LINK_PAYLOAD;
}

void link_flush(void)
{
    for (int i = 0; i < mpi.nnears; i++) {
        peer *p = &mpi.peers[mpi.nears[i]];
        if (p->main.out->written != p->main.written)
            publish(p, &p->main);
    }
    for (peer *p; (p = mpi.unsent);) {
        mpi.unsent = p->unsent;
        p->listed = false;
        send_frame((int)(p - mpi.peers));
    }
}

/* ---- Receiving ---- */

/* Hands out records that end at `written`, until they have `most` bytes. */
static bool poll_ring(int rank, lane *l, int64_t written, int64_t most,
                      void (*take)(int rank, const link_rec *r))
{
    int64_t from = l->read;
    while (l->read < written && l->read - from < most) {
        int64_t at = l->read % l->bytes, rest = l->bytes - at;
        const link_rec *r = (const link_rec *)(const void *)(l->in->data + at);
        if (rest < (int64_t)sizeof *r || r->kind == LINK_SKIP) {
            l->read += rest;
            from += rest;
            continue;
        }
        l->read += link_whole(r->bytes);
        take(rank, r);
    }
    return l->read > from;
}

static bool poll_express(int rank, void (*take)(int rank, const link_rec *r))
{
    lane *l = &mpi.peers[rank].express;
    return poll_ring(rank, l, __atomic_load_n(&l->in->written, __ATOMIC_ACQUIRE), INT64_MAX, take);
}

/* When a rank is gone, MPI refuses to receive from any source until this rank has acknowledged the
 * failure; the receive stays posted. When its message comes before the next test, Open MPI 5 still
 * gives the old refusal, at every test, since it forgets one only where it finds the receive open.
 * Such a receive has its message and keeps its request, which a receive that failed loses. */
static bool has_come(frame *f)
{
    MPI_Status s;
    int came = 0, n = 0;
    if (f->came)
        return true;
    int rc = MPI_Test(&f->request, &came, &s);
    if (rc != MPI_SUCCESS && is_elastic())
        MPIX_Comm_failure_ack(mpi.world);
    if (rc != MPI_SUCCESS && came && f->request != MPI_REQUEST_NULL)
        rc = MPI_Request_free(&f->request);
    if (rc != MPI_SUCCESS || !came)
        return false;
    MPI_Get_count(&s, MPI_BYTE, &n);
    f->used = n;
    f->from = s.MPI_SOURCE;
    f->came = true;
    return true;
}

static bool is_next(const frame *f)
{
    int64_t number;
    const peer *p = f->used ? &mpi.peers[f->from] : NULL; /* NULL: it failed */
    if (p)
        memcpy(&number, f->data, FRAME_HEAD);
    return !p || p->gone || number == p->ntaken + 1;
}

/* Returns the frame that is next, which stands first then; NULL: it has not come. */
static frame *next_frame(void)
{
    int n = mpi.any_gone ? mpi.nreceives - mpi.taken : 1;
    for (int i = 0; i < n; i++) {
        frame *f = &mpi.receives[(mpi.first + i) % mpi.nreceives];
        if (!has_come(f) || !is_next(f))
            continue;
        frame next = *f;
        for (; i > 0; i--) {
            frame *before = &mpi.receives[(mpi.first + i - 1) % mpi.nreceives];
            *f = *before;
            f = before;
        }
        *f = next;
        return f;
    }
    return NULL;
}

static bool poll_frames(void (*take)(int rank, const link_rec *r))
{
    bool any = false;
    for (frame *f; mpi.taken < RECEIVES / 2 && (f = next_frame());) {
        peer *from = f->used ? &mpi.peers[f->from] : NULL;
        for (int64_t at = FRAME_HEAD; at < f->used && !from->gone;) {
            const link_rec *r = (const link_rec *)(const void *)(f->data + at);
            at += link_whole(r->bytes);
            take(f->from, r);
            any = true;
        }
        if (from)
            from->ntaken++;
        f->came = false;
        mpi.first = (mpi.first + 1) % mpi.nreceives;
        mpi.taken++;
    }
    return any;
}

/* Polls both lanes of each rank of this machine. A record of the express lane is visible before any
 * later record of the main lane: so `written` of the main lane is read first, and its records are
 * taken last. An express record that comes meanwhile ends the polling, to be dealt with at once. */
bool link_poll(void (*take)(int rank, const link_rec *r), int64_t bytes)
{
    bool any = false;
    mpi.sent = 0;
    for (int i = 0; i < mpi.nnears; i++) {
        int rank = mpi.nears[i];
        lane *l = &mpi.peers[rank].main;
        int64_t written = __atomic_load_n(&l->in->written, __ATOMIC_ACQUIRE), from = l->read;
        any |= poll_express(rank, take);
        for (bool express = false; l->read < written && l->read - from < bytes && !express;) {
            any |= poll_ring(rank, l, written, 1, take);
            express = poll_express(rank, take);
            any |= express;
        }
    }
    return mpi.remote && poll_frames(take) ? true : any;
}

static void release(const peer *p, const lane *l)
{
    if (l->in->done == l->read)
        return;
    __atomic_store_n(&l->in->done, l->read, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_load_n(&l->in->full, __ATOMIC_RELAXED))
        wake_up(p->wakeup, WAKEN_BY_ALL);
}

void link_release(void)
{
    for (int i = 0; i < mpi.nnears; i++) {
        const peer *p = &mpi.peers[mpi.nears[i]];
        release(p, &p->main);
        release(p, &p->express);
    }
    kv_assert(mpi.taken <= mpi.nreceives, "%d of %d receives are given back", mpi.taken,
              mpi.nreceives);
    for (; mpi.taken > 0; mpi.taken--)
        post_receive(&mpi.receives[(mpi.first - mpi.taken + mpi.nreceives) % mpi.nreceives]);
}

/* All ranks have said that they leave, and MPI_Finalize ends when all have called it: it asks the
 * launcher's daemons, over connections that are there. MPI_Barrier would make new ones between
 * ranks that exchange no records, which never ends when the link is cut just then. It would wait
 * for a rank that dies meanwhile: so in an elastic job nobody calls MPI_Finalize, and the launcher
 * ends what MPI has started. */
void link_close(void)
{
    if (!is_elastic())
        MPI_Finalize();
}

bool link_outlives_ranks(void)
{
    return MPIX_Comm_failure_ack != NULL;
}
