/* Walks: every piece comes once, whatever the threads; the first error wins; files that shrink. */
#include "tensors/walk.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/stop.h"
#include "checkpoint/file_window.h"
#include "engine/pool.h"
#include "test_tensor.h"

/* ---- Files ----------------------------------------------------------------------------------- */

/* Sizes around those of pieces and parts. */
static const int64_t lengths[] = {
    0, 1, 7, WALK_PIECE - 1, WALK_PIECE, WALK_PIECE + 1, 0, 12 * WALK_PIECE + 5, 3, 2 * WALK_PIECE};
#define NLENGTHS ((int)(sizeof lengths / sizeof *lengths))
static const int64_t all_of_them[NLENGTHS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

/* I32 tensors with consecutive numbers from `from` on, in the order given. */
static buf counted(int32_t from)
{
    tensor_given t[NLENGTHS];
    char names[NLENGTHS][8];
    int32_t *data[NLENGTHS];
    for (int i = 0; i < NLENGTHS; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        data[i] = malloc((size_t)lengths[i] * sizeof **data + 1);
        for (int64_t k = 0; k < lengths[i]; k++)
            data[i][k] = from++;
        t[i] = (tensor_given){names[i], TENSOR_I32, lengths[i], 0, data[i]};
    }
    buf file = tensor_file(t, NLENGTHS);
    for (int i = 0; i < NLENGTHS; i++)
        free(data[i]);
    return file;
}

static int64_t total(void)
{
    int64_t n = 0;
    for (int i = 0; i < NLENGTHS; i++)
        n += (lengths[i] + WALK_PIECE - 1) / WALK_PIECE;
    return n;
}

/* ---- What comes ------------------------------------------------------------------------------ */

typedef struct seen {
    atomic_int times[NLENGTHS][16]; /* each piece */
    int64_t sums[NLENGTHS][16];
    int64_t last[NLENGTHS];  /* the piece before, with in_order */
    atomic_int busy[POOL_MAX_WORKERS];
    atomic_int wrong, pieces;
    int64_t bad[2]; /* pieces of tensor 7 that fail */
    int slow;       /* of them, which fails late */
    bool in_order;
    int64_t done, all, tells;
} seen;

static int look(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    seen *s = arg;
    const int32_t *a = p->data[0], *b = p->data[1];
    s->wrong += atomic_fetch_add(&s->busy[worker], 1) != 0;
    s->wrong += p->first != p->number * WALK_PIECE || p->n < 1;
    s->wrong += s->in_order && p->number != s->last[p->tensor]++;
    s->pieces++;
    s->times[p->tensor][p->number]++;
    for (int64_t i = 0; i < p->n; i++)
        s->sums[p->tensor][p->number] += a[i] + (b ? b[i] : 0);
    s->busy[worker]--;
    for (int i = 0; i < 2; i++) {
        if (p->tensor != 7 || p->number != s->bad[i])
            continue;
        if (s->slow == i)
            usleep(50000);
        return kv_err_set(e, KV_E_VALUE, "piece %lld is bad", (long long)p->number);
    }
    return KV_OK;
}

static void told(void *arg, int64_t done, int64_t all)
{
    seen *s = arg;
    s->wrong += done < s->done || done > all;
    s->done = done;
    s->all = all;
    s->tells++;
}

static walk walk_of(checkpoint **inputs, int n, const int64_t *at, seen *s)
{
    return (walk){.inputs = inputs, .ninputs = n, .at = at, .ntensors = NLENGTHS, .piece = look,
                  .arg = s, .progress = told, .progress_arg = s, .in_order = s->in_order};
}

/* Two inputs; the second one lacks every third tensor. */
static void all_pieces(bool in_order)
{
    OWN(test_free) seen *s = calloc(1, sizeof *s);
    buf files[] = {counted(1), counted(1000)};
    checkpoint *inputs[] = {tensor_open(&files[0], "a"), tensor_open(&files[1], "b")};
    int64_t at[2 * NLENGTHS];
    int32_t from = 1;
    int64_t bytes = 0;
    for (int i = 0; i < NLENGTHS; i++) {
        at[2 * i] = i;
        at[2 * i + 1] = i % 3 ? i : -1;
        bytes += lengths[i] * 4 * (i % 3 ? 2 : 1);
    }
    *s = (seen){.bad = {-1, -1}, .in_order = in_order};
    walk w = walk_of(inputs, 2, at, s);
    CHECK_OK(walk_run(&w, &e));
    CHECK_INT(s->wrong, 0);
    CHECK_INT(s->pieces, total());
    CHECK_INT(s->done, bytes);
    CHECK_INT(s->all, bytes);
    for (int i = 0; i < NLENGTHS; i++) {
        for (int64_t k = 0; k < lengths[i]; k += WALK_PIECE) {
            int64_t sum = 0, end = k + WALK_PIECE < lengths[i] ? k + WALK_PIECE : lengths[i];
            for (int64_t j = k; j < end; j++)
                sum += i % 3 ? 2 * (from + j) + 999 : from + j;
            CHECK_INT(s->times[i][k / WALK_PIECE], 1);
            CHECK_INT(s->sums[i][k / WALK_PIECE], sum);
        }
        from += (int32_t)lengths[i];
    }
    checkpoint_close(inputs[0]);
    checkpoint_close(inputs[1]);
    buf_release(&files[0]);
    buf_release(&files[1]);
}

/* The number of threads is fixed once in a process, so each number is tried in its own. */
static void with_threads(void (*test)(void))
{
    static const char *const counts[] = {"1", "2", "3", "4", "8", "64"};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        IN_CHILD(counts[i])
            test();
}

static void both_orders(void)
{
    all_pieces(false);
    all_pieces(true);
}

TEST(tensor_walk_pieces)
{
    with_threads(both_orders);
}

/* Blocks that are larger than all that the windows take: one thread does all the work. */
static int count_piece(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    (void)worker, (void)e;
    *(int64_t *)arg += p->n;
    return KV_OK;
}

TEST(tensor_walk_blocks)
{
    int64_t n = 0, want = 0;
    own_buf file = counted(1);
    own_checkpoint *c = tensor_open(&file, "a");
    for (int i = 0; i < NLENGTHS; i++)
        want += lengths[i];
    walk w = {.inputs = &c, .ninputs = 1, .at = all_of_them, .ntensors = NLENGTHS,
              .piece = count_piece, .arg = &n, .block_bytes = INT64_MAX};
    CHECK_OK(walk_run(&w, &e));
    CHECK_INT(n, want);
}

/* Types with several elements a byte, and without any. */
static int nibbles(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    (void)worker, (void)e;
    const unsigned char *bytes = p->data[0];
    int64_t *sum = (int64_t *)arg + p->number;
    for (int64_t i = 0; i < p->n / 2; i++)
        *sum += bytes[i];
    return KV_OK;
}

TEST(tensor_walk_packed)
{
    int64_t n = WALK_PIECE + 6, sums[2] = {0}, want[2] = {0};
    OWN(test_free) unsigned char *data = malloc((size_t)n / 2);
    for (int64_t i = 0; i < n / 2; i++) {
        data[i] = (unsigned char)(i * 7);
        want[i >= WALK_PIECE / 2] += data[i];
    }
    const tensor_given given = {"x", TENSOR_F4, n, 0, data};
    own_buf file = tensor_file(&given, 1);
    own_checkpoint *c = tensor_open(&file, "x");
    const int64_t all = 0;
    walk w = {.inputs = &c, .ninputs = 1, .at = &all, .ntensors = 1, .piece = nibbles, .arg = sums};
    CHECK_OK(walk_run(&w, &e));
    CHECK_INT(sums[0], want[0]);
    CHECK_INT(sums[1], want[1]);
    w.ntensors = 0;
    CHECK_OK(walk_run(&w, &e));
}

/* ---- What fails ------------------------------------------------------------------------------ */

/* Of two pieces that fail the first is told, also when it fails later. */
static void errors(void)
{
    OWN(test_free) seen *s = calloc(1, sizeof *s);
    own_buf file = counted(1);
    own_checkpoint *c = tensor_open(&file, "a");
    for (int slow = -1; slow < 2; slow++) {
        *s = (seen){.bad = {2, 10}, .slow = slow};
        walk w = walk_of(&c, 1, all_of_them, s);
        CHECK_ERR(walk_run(&w, &e), KV_E_VALUE, "piece 2 is bad");
        CHECK_INT(s->times[7][2], 1);
        CHECK_INT(s->wrong, 0);
    }
}

TEST(tensor_walk_errors)
{
    with_threads(errors);
}

static int asked_often(void)
{
    static atomic_int asked;
    return asked++ > 5;
}

static void interrupted(void)
{
    OWN(test_free) seen *s = calloc(1, sizeof *s);
    own_buf file = counted(1);
    own_checkpoint *c = tensor_open(&file, "a");
    *s = (seen){.bad = {2, -1}, .slow = -1};
    walk w = walk_of(&c, 1, all_of_them, s);
    stop_ask(asked_often);
    CHECK_ERR(walk_run(&w, &e), KV_E_INTERRUPTED, "interrupted");
    stop_ask(NULL);
    CHECK(s->pieces <= 6);
}

TEST(tensor_walk_interrupted)
{
    with_threads(interrupted);
}

TEST(tensor_walk_no_memory)
{
    OWN(test_free) seen *s = calloc(1, sizeof *s);
    own_buf file = counted(1);
    own_checkpoint *c = tensor_open(&file, "a");
    int code = KV_E_MEMORY, n = 0;
    for (n = 1; n < 50 && code; n++) {
        *s = (seen){.bad = {-1, -1}};
        walk w = walk_of(&c, 1, all_of_them, s);
        code = WITHOUT_MEMORY(n, walk_run(&w, &e));
    }
    CHECK(code == KV_OK && n > 2);
}

/* ---- Files that shrink ----------------------------------------------------------------------- */

static void on_fault(int sig, siginfo_t *about, void *context)
{
    (void)context;
    if (!file_window_fault(about->si_addr)) {
        signal(sig, SIG_DFL);
        raise(sig);
    }
}

static const char *cut_path;

/* Cuts the file when the first piece is there, then reads the rest of it. */
static int cut_it(void *arg, const walk_piece *p, int worker, kv_err *e)
{
    (void)worker, (void)e;
    if (p->number == 0)
        CHECK(truncate(cut_path, 4096) == 0);
    int64_t sum = 0;
    for (int64_t i = 0; i < p->n; i++)
        sum += ((const int32_t *)p->data[0])[i];
    atomic_fetch_add((atomic_llong *)arg, sum);
    return KV_OK;
}

/* One tensor of so many elements. handled: the file is mapped, else it is read into a buffer. */
static void shrinks(int64_t n, bool handled)
{
    char path[] = "/tmp/unit-walk-XXXXXX.safetensors", want[200];
    int fd = mkstemps(path, sizeof ".safetensors" - 1);
    OWN(test_free) int32_t *data = calloc((size_t)n, sizeof *data);
    const tensor_given given = {"x", TENSOR_I32, n, 0, data};
    own_buf file = tensor_file(&given, 1);
    CHECK(write(fd, file.data, file.len) == (ssize_t)file.len);
    CHECK(close(fd) == 0);
    if (handled) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, NULL);
        file_window_handled();
    }
    atomic_llong sum = 0;
    const int64_t all = 0;
    cut_path = path;
    checkpoint *c = MADE(checkpoint, checkpoint_open, path, NULL);
    walk w = {.inputs = &c, .ninputs = 1, .at = &all, .ntensors = 1, .piece = cut_it, .arg = &sum};
    snprintf(want, sizeof want, "%s: the file became shorter while it was read", path);
    CHECK_ERR(walk_run(&w, &e), KV_E_IO, want);
    checkpoint_close(c);
    CHECK(unlink(path) == 0);
}

/* In the last piece, so that only the check behind it tells. */
TEST(tensor_walk_shrinks_at_the_end)
{
    shrinks(WALK_PIECE, true);
}

TEST(tensor_walk_shrinks)
{
    shrinks(40 * WALK_PIECE, true);
}

TEST(tensor_walk_shrinks_unmapped)
{
    shrinks(40 * WALK_PIECE, false);
}
