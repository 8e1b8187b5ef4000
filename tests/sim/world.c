/* Fibers begin on a context of their own and change by _setjmp and _longjmp, which make no system
 * call. Those that are ready or have a time lie in a heap by time; a fiber that waits without a
 * time is in no heap. */
#include "world.h"

#include <link.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { SLICE_NS = 3000000 /* of a processor, while others wait for it */ };
enum { DOZE_MOST_NS = 50000000, LOCALS = 512 /* bytes of thread-local variables at most */ };

struct fiber {
    jmp_buf at;
    ucontext_t *first; /* until it has begun */
    char *stack;
    void *(*run)(void *arg);
    void *arg, *result;
    world_rank *rank;
    fiber *next;      /* of its rank */
    int64_t time_ns;  /* when it goes on; WORLD_FOREVER: when it is woken */
    uint64_t order;
    int64_t place;    /* in the heap, from 1; 0: none */
    const void *on;   /* where it sleeps */
    bool woken, dozes, ended;
    struct processor *on_cpu, *home; /* that it has now, or NULL; that it had last */
    fiber *behind;                   /* waits for the same processor */
    int64_t since_ns;                /* when it came to its processor */
    double owed_ns;
    char locals[LOCALS];
};

/* Of a host: the fibers of its ranks share it. */
typedef struct processor {
    fiber *running, *first, *last; /* and those that wait for it */
} processor;

world_rank *world_ranks;
int world_size;

static struct {
    world_costs costs;
    uint64_t random, sum, orders;
    int64_t now_ns, until_ns, steps;
    fiber **heap; /* heap[1] goes on next */
    int64_t nheap, cap;
    fiber *current;
    char *loaded; /* the static variables that are in place: those of a rank, or own_statics */
    char *own_statics;
    jmp_buf scheduler;
    fiber *own; /* fibers of the world itself */
    char *pristine; /* static variables as they are at the beginning of a process */
    char *locals, *pristine_locals;
    size_t nlocals;
    char **stacks;  /* of fibers that have ended */
    int64_t nstacks, stacks_cap;
    processor *processors; /* of all hosts */
    int hosts;
    bool stopped;
} world;

/* Where the linker has put the static variables of the product's code (see the Makefile). */
extern char __start_rank_data[], __stop_rank_data[], __start_rank_bss[], __stop_rank_bss[];

static size_t data_bytes(void)
{
    return (size_t)(__stop_rank_data - __start_rank_data);
}

static size_t bss_bytes(void)
{
    return (size_t)(__stop_rank_bss - __start_rank_bss);
}

static void save_statics(char *to)
{
    memcpy(to, __start_rank_data, data_bytes());
    memcpy(to + data_bytes(), __start_rank_bss, bss_bytes());
}

static void load_statics(const char *from)
{
    memcpy(__start_rank_data, from, data_bytes());
    memcpy(__start_rank_bss, from + data_bytes(), bss_bytes());
}

_Noreturn static void give_up(const char *why)
{
    fprintf(stderr, "sim: %s\n", why);
    abort();
}

/* ---- Draws ---- */

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t draw64(void)
{
    uint64_t z = world.random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void count_in(uint64_t x)
{
    world.sum = (world.sum ^ x) * 0x100000001b3u;
}

uint64_t world_draw(uint64_t n)
{
    return n ? draw64() % n : 0;
}

bool world_chance(int permille)
{
    return world_draw(1000) < (uint64_t)permille;
}

int64_t world_about(int64_t mean_ns)
{
    double u = (double)(draw64() >> 11) * 0x1p-53;
    return (int64_t)(-log1p(-u) * (double)mean_ns);
}

/* ---- The heap ---- */

static bool before(const fiber *a, const fiber *b)
{
    return a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->order < b->order);
}

static void put_at(fiber *f, int64_t i)
{
    world.heap[i] = f;
    f->place = i;
}

static void move_up(fiber *f, int64_t i)
{
    for (; i > 1 && before(f, world.heap[i / 2]); i /= 2)
        put_at(world.heap[i / 2], i);
    put_at(f, i);
}

static void move_down(fiber *f, int64_t i)
{
    for (int64_t c; (c = 2 * i) <= world.nheap; i = c) {
        if (c < world.nheap && before(world.heap[c + 1], world.heap[c]))
            c++;
        if (!before(world.heap[c], f))
            break;
        put_at(world.heap[c], i);
    }
    put_at(f, i);
}

static void leave_heap(fiber *f)
{
    int64_t i = f->place;
    if (!i)
        return;
    f->place = 0;
    fiber *last = world.heap[world.nheap--];
    if (last == f)
        return;
    if (i > 1 && before(last, world.heap[i / 2]))
        move_up(last, i);
    else
        move_down(last, i);
}

static void go_on_at(fiber *f, int64_t time_ns)
{
    leave_heap(f);
    f->time_ns = time_ns;
    f->order = world.orders++;
    if (time_ns == WORLD_FOREVER)
        return;
    if (world.nheap + 2 > world.cap) {
        world.cap = world.cap ? 2 * world.cap : 64;
        world.heap = realloc(world.heap, (size_t)world.cap * sizeof(fiber *));
        if (!world.heap)
            give_up("no memory");
    }
    move_up(f, ++world.nheap);
}

/* ---- Changing fibers ---- */

static void load_rank(const world_rank *r)
{
    char *wanted = r ? r->statics : world.own_statics;
    if (wanted == world.loaded)
        return;
    save_statics(world.loaded);
    load_statics(wanted);
    world.loaded = wanted;
}

/* ---- Processors ----
 *
 * Where the costs name processors, a fiber of a rank goes on only while it has one: it keeps it
 * until it sleeps, yields, or has used its slice. A fiber that becomes ready takes the processor
 * that it had, another one of its host that is idle, or waits for its own. It interrupts nobody. */

static void take_processor(processor *c, fiber *f, int64_t delay_ns)
{
    c->running = f;
    f->rank->switches++;
    f->on_cpu = f->home = c;
    f->since_ns = world.now_ns + delay_ns;
    go_on_at(f, world.now_ns + delay_ns);
}

static void wait_for(processor *c, fiber *f)
{
    f->behind = NULL;
    if (c->last)
        c->last->behind = f;
    else
        c->first = f;
    c->last = f;
}

static void leave_processor(fiber *f)
{
    processor *c = f->on_cpu;
    if (!c)
        return;
    f->on_cpu = NULL;
    c->running = NULL;
    fiber *next = c->first;
    if (!next)
        return;
    c->first = next->behind;
    c->last = c->first ? c->last : NULL;
    take_processor(c, next, world.costs.switch_ns);
}

/* Returns true if the fiber, which is ready, has what it needs to go on now. */
static bool may_go_on(fiber *f)
{
    int n = world.costs.processors;
    if (!n || !f->rank || f->on_cpu)
        return true;
    processor *all = &world.processors[(int64_t)f->rank->host * n], *c = f->home;
    if (!c)
        c = f->home = &all[f->rank->number / world.hosts % n];
    for (int i = 0; i < n && c->running; i++)
        c = all[i].running ? c : &all[i];
    if (c->running)
        wait_for(f->home, f);
    else
        take_processor(c, f, world.costs.wake_ns);
    return false;
}

/* Back to world_run; returns when the fiber goes on. */
static void leave(void)
{
    fiber *f = world.current;
    memcpy(f->locals, world.locals, world.nlocals);
    if (_setjmp(f->at) == 0)
        _longjmp(world.scheduler, 1);
}

/* The next fiber that begins may have its stack. */
static void keep_stack(fiber *f)
{
    if (world.nstacks == world.stacks_cap) {
        world.stacks_cap = world.stacks_cap ? 2 * world.stacks_cap : 64;
        world.stacks = realloc(world.stacks, (size_t)world.stacks_cap * sizeof(char *));
        if (!world.stacks)
            give_up("no memory");
    }
    world.stacks[world.nstacks++] = f->stack;
    f->stack = NULL;
}

static void first_step(void)
{
    fiber *f = world.current;
    free(f->first);
    f->first = NULL;
    f->result = f->run(f->arg);
    f->ended = true;
    keep_stack(f);
    world_wake(f, INT32_MAX);
    leave_processor(f);
    leave_heap(f);
    _longjmp(world.scheduler, 1);
}

/* Stacks lie one behind the other in mappings of many, since the number of mappings is limited. */
static char *new_stack(void)
{
    enum { TOGETHER = 256 };
    static char *block;
    static int used = TOGETHER;
    size_t bytes = (size_t)world.costs.stack_bytes;
    if (world.nstacks > 0)
        return world.stacks[--world.nstacks];
    if (used == TOGETHER) {
        block = mmap(NULL, bytes * TOGETHER, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (block == MAP_FAILED)
            give_up("no memory for stacks");
        used = 0;
    }
    return block + bytes * (size_t)used++;
}

static fiber *begin(world_rank *r, void *(*run)(void *arg), void *arg, int64_t delay_ns)
{
    fiber *f = calloc(1, sizeof *f);
    if (!f || !(f->first = malloc(sizeof *f->first)))
        give_up("no memory");
    f->stack = new_stack();
    f->run = run;
    f->arg = arg;
    f->rank = r;
    memcpy(f->locals, world.pristine_locals, world.nlocals);
    f->next = r ? r->fibers : world.own;
    *(r ? &r->fibers : &world.own) = f;
    getcontext(f->first);
    f->first->uc_stack.ss_sp = f->stack;
    f->first->uc_stack.ss_size = (size_t)world.costs.stack_bytes;
    makecontext(f->first, first_step, 0);
    go_on_at(f, world.now_ns + delay_ns);
    return f;
}

fiber *world_begin(world_rank *r, void *(*run)(void *arg), void *arg)
{
    return begin(r, run, arg, world.costs.jitter_ns ? world_about(world.costs.jitter_ns) : 0);
}

fiber *world_begin_now(void *(*run)(void *arg), void *arg)
{
    return begin(NULL, run, arg, 0);
}

void world_end(fiber *f)
{
    leave_heap(f);
    f->on = NULL;
    f->ended = true;
}

static void step(fiber *f)
{
    world.current = f;
    world.steps++;
    count_in((uint64_t)world.now_ns ^ (uint64_t)(f->rank ? f->rank->number : -1) << 48);
    load_rank(f->rank);
    memcpy(world.locals, f->locals, world.nlocals);
    if (_setjmp(world.scheduler)) {
        world.current = NULL; /* a rank may be released next */
        return;
    }
    if (f->first)
        setcontext(f->first);
    _longjmp(f->at, 1);
}

bool world_run(int64_t until_ns)
{
    world.until_ns = until_ns;
    world.stopped = false;
    while (world.nheap > 0 && !world.stopped) {
        fiber *f = world.heap[1];
        if (f->time_ns > until_ns) {
            world.now_ns = until_ns;
            return true;
        }
        if (f->rank && f->rank->stalled_ns > f->time_ns) {
            go_on_at(f, f->rank->stalled_ns);
            continue;
        }
        leave_heap(f);
        world.now_ns = f->time_ns > world.now_ns ? f->time_ns : world.now_ns;
        if (may_go_on(f))
            step(f);
    }
    if (world.stopped)
        return true;
    for (int i = -1; i < world_size; i++)
        for (const fiber *f = i < 0 ? world.own : world_ranks[i].fibers; f; f = f->next)
            if (!f->ended && (i < 0 || (!world_ranks[i].dead && !world_ranks[i].ended)))
                return false;
    return true;
}

/* ---- For fibers ---- */

world_rank *world_here(void)
{
    return world.current ? world.current->rank : NULL;
}

int64_t world_now(void)
{
    return world.now_ns;
}

const world_costs *world_prices(void)
{
    return &world.costs;
}

void world_stop(void)
{
    world.stopped = true;
    world_spend(1);
}

void world_owe(double ns)
{
    world.current->owed_ns += ns;
}

/* Goes behind the others that wait for its processor. */
static void give_way(fiber *f)
{
    processor *c = f->on_cpu;
    if (!c->first)
        return;
    wait_for(c, f);
    leave_processor(f);
    leave();
}

void world_yield(void)
{
    world_spend(0);
    give_way(world.current);
}

void world_spend(int64_t ns)
{
    fiber *f = world.current;
    if (!f)
        return; /* what ends the process */
    if (f->rank && f->owed_ns >= 1) {
        ns += (int64_t)f->owed_ns;
        f->owed_ns -= (double)(int64_t)f->owed_ns;
    }
    if (f->rank && f->rank->slower > 0)
        ns = (int64_t)((double)ns * f->rank->slower);
    if (f->rank)
        f->rank->busy_ns += ns;
    int64_t until = world.now_ns + ns;
    bool next = world.nheap == 0 || world.heap[1]->time_ns > until;
    if (next && until <= world.until_ns && !(f->rank && f->rank->stalled_ns > until)) {
        world.now_ns = until; /* nobody else goes on before it */
    } else {
        go_on_at(f, until);
        leave();
    }
    if (f->on_cpu && world.now_ns - f->since_ns > SLICE_NS)
        give_way(f);
}

/* Most calls are quick; one in eight may be overtaken by anything. */
void world_call(void)
{
    int64_t most = world.costs.jitter_ns;
    fiber *f = world.current;
    if (f && !f->rank)
        return;
    if (!most && f && world.costs.grain_ns) {
        f->owed_ns += (double)world.costs.call_ns;
        if (f->owed_ns >= (double)world.costs.grain_ns)
            world_spend(0);
        return;
    }
    uint64_t x = most ? draw64() : 0;
    int64_t more = most && x % 8 == 0 ? (int64_t)((x >> 3) % (uint64_t)most) : 0;
    world_spend(world.costs.call_ns + more);
}

/* A processor that is idle must be told. */
static int64_t cost_of_wake(const fiber *f)
{
    bool told = f->home != world.current->on_cpu && !f->home->running;
    return told ? world.costs.post_ns : world.costs.switch_ns;
}

static void sleep_at(const void *on, int64_t until_ns)
{
    fiber *f = world.current;
    f->on = on;
    f->woken = false;
    leave_processor(f);
    go_on_at(f, until_ns);
    leave();
    f->on = NULL;
}

bool world_block(const void *on, int64_t until_ns)
{
    sleep_at(on, until_ns > world.now_ns ? until_ns : world.now_ns);
    return world.current->woken;
}

static fiber *fibers_here(void)
{
    const world_rank *r = world_here();
    return r ? r->fibers : world.own;
}

static void end_dozes(const world_rank *r, int64_t at_ns)
{
    for (fiber *f = r->fibers; f; f = f->next)
        if (f->dozes && f->time_ns > at_ns)
            go_on_at(f, at_ns);
}

void world_wake(const void *on, int n)
{
    int sleeping = 0;
    for (const fiber *f = fibers_here(); f; f = f->next)
        sleeping += f->on == on && !f->woken;
    int skip = sleeping > n && world.costs.jitter_ns ? (int)world_draw((uint64_t)sleeping) : 0;
    for (fiber *f = fibers_here(); f && n > 0; f = f->next) {
        if (f->on != on || f->woken || (skip-- > 0 && sleeping > n))
            continue;
        f->woken = true;
        n--;
        go_on_at(f, world.now_ns);
        if (!f->home || !world.current->on_cpu)
            continue;
        f->rank->wakes++;
        world_owe((double)cost_of_wake(f));
    }
    world_rank *r = world_here();
    if (r && sleeping > 0) {
        r->dozed_ns = 0;
        end_dozes(r, world.now_ns);
    }
}

int64_t world_wake_at(world_rank *r, const void *on, int64_t at_ns)
{
    int64_t cost_ns = 0;
    for (fiber *f = r ? r->fibers : world.own; f; f = f->next) {
        if (f->on != on || f->woken)
            continue;
        f->woken = true;
        go_on_at(f, at_ns);
        if (!r)
            continue;
        r->wakes++;
        cost_ns += cost_of_wake(f);
    }
    return cost_ns;
}

void world_doze(int64_t min_ns)
{
    fiber *f = world.current;
    world_rank *r = f->rank;
    int64_t twice = r->dozed_ns * 2;
    r->dozed_ns = twice < min_ns ? min_ns : twice < DOZE_MOST_NS ? twice : DOZE_MOST_NS;
    int64_t until = world.now_ns + r->dozed_ns;
    f->dozes = true;
    if (r->news_ns < until)
        until = r->news_ns > world.now_ns ? r->news_ns : world.now_ns + min_ns;
    sleep_at(NULL, until);
    f->dozes = false;
}

void world_news(world_rank *r, int64_t at_ns)
{
    if (r->dead || at_ns >= r->news_ns)
        return;
    r->news_ns = at_ns;
    if (at_ns == WORLD_FOREVER)
        return;
    r->dozed_ns = 0;
    end_dozes(r, at_ns);
}

void *world_join(fiber *f)
{
    while (!f->ended)
        world_block(f, WORLD_FOREVER);
    return f->result;
}

void world_kill(world_rank *r)
{
    r->dead = true;
    for (fiber *f = r->fibers; f; f = f->next)
        leave_heap(f);
}

void world_end_rank(void)
{
    world_kill(world.current->rank);
    _longjmp(world.scheduler, 1);
}

int64_t world_bytes(const world_rank *r)
{
    enum { PAGE = 4096, MOST_PAGES = 1024 };
    unsigned char in[MOST_PAGES];
    int64_t bytes = (int64_t)(data_bytes() + bss_bytes());
    size_t pages = (size_t)world.costs.stack_bytes / PAGE;
    for (const fiber *f = r->fibers; f; f = f->next) {
        bytes += (int64_t)sizeof *f;
        if (!f->stack || pages > MOST_PAGES || mincore(f->stack, pages * PAGE, in))
            continue;
        for (size_t i = 0; i < pages; i++)
            bytes += in[i] & 1 ? PAGE : 0;
    }
    return bytes;
}

uint64_t world_sum(void)
{
    return world.sum ^ world.random;
}

int64_t world_steps(void)
{
    return world.steps;
}

/* ---- Opening ---- */

static int find_locals(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_TLS)
            continue;
        world.locals = info->dlpi_tls_data;
        world.nlocals = info->dlpi_phdr[i].p_memsz;
    }
    return 1; /* the first object is the program */
}

void world_keep(void)
{
    dl_iterate_phdr(find_locals, NULL);
    if (world.nlocals > LOCALS)
        give_up("there are more thread-local variables than a fiber keeps");
    world.pristine = malloc(data_bytes() + bss_bytes());
    world.pristine_locals = malloc(LOCALS);
    if (!world.pristine || !world.pristine_locals)
        give_up("no memory");
    save_statics(world.pristine);
    memcpy(world.pristine_locals, world.locals, world.nlocals);
}

void world_open(int n, int hosts, uint64_t seed, const world_costs *costs)
{
    world.costs = *costs;
    world.random = seed;
    world.sum = 0xcbf29ce484222325u;
    if (!world.pristine)
        world_keep();
    size_t bytes = data_bytes() + bss_bytes();
    world.own_statics = world.loaded = malloc(bytes);
    world_ranks = calloc((size_t)n, sizeof *world_ranks);
    if (!world.own_statics || !world_ranks)
        give_up("no memory");
    world.hosts = hosts;
    world.processors = calloc((size_t)hosts * (size_t)(costs->processors + 1), sizeof(processor));
    if (!world.processors)
        give_up("no memory");
    world_size = n;
    for (int i = 0; i < n; i++) {
        world_ranks[i] = (world_rank){.number = i, .host = i % hosts, .news_ns = WORLD_FOREVER};
        if (!(world_ranks[i].statics = malloc(bytes)))
            give_up("no memory");
        memcpy(world_ranks[i].statics, world.pristine, bytes);
    }
}
