/* Queues, and which of them goes on. */
#include "tests/device/streams.hh"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static std::vector<driver_stream *> streams; /* of all devices; they stay */
static uint64_t given;

/* Of the order in which work is done, and nothing else: splitmix64 (Vigna, public domain). */
static uint64_t draw()
{
    static uint64_t seed, state;
    if (!state) {
        const char *text = getenv("FAKE_GPU_SEED");
        seed = text ? strtoull(text, NULL, 10) : 1;
        state = seed + 1;
    }
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return seed ? z ^ (z >> 31) : 1;
}

void streams_die(const char *why)
{
    fprintf(stderr, "driver of host memory: %s\n", why);
    _exit(99);
}

driver_stream *streams_new(int device)
{
    streams.push_back(new driver_stream{device, {}});
    return streams.back();
}

void streams_add(driver_stream *s, work w)
{
    w.number = given++;
    s->queue.push_back(std::move(w));
}

uint64_t streams_number()
{
    return given;
}

void streams_record(driver_event *e, driver_stream *s)
{
    work w{};
    e->last = w.recorded = std::make_shared<moment>(moment{s, false});
    streams_add(s, std::move(w));
}

void streams_wait(driver_stream *s, const driver_event *e)
{
    work w{};
    w.awaited = e->last;
    if (w.awaited)
        streams_add(s, std::move(w));
}

/* ---- Running ---- */

static bool may_run(const driver_stream *s)
{
    return !s->queue.empty() && (!s->queue.front().awaited || s->queue.front().awaited->happened);
}

/* The head, which may run. */
static void run_head(driver_stream *s)
{
    work w = std::move(s->queue.front());
    s->queue.pop_front();
    if (w.recorded)
        w.recorded->happened = true;
    if (w.run)
        w.run(w.number);
}

/* Now and then some work that nobody asked for. */
static void run_any()
{
    while (draw() % 4 == 0) {
        driver_stream *s = streams[draw() % streams.size()];
        if (may_run(s))
            run_head(s);
    }
}

/* Runs the head of s and all that it waits for. */
static void advance(driver_stream *s)
{
    run_any();
    while (!s->queue.empty() && !may_run(s)) {
        std::shared_ptr<moment> m = s->queue.front().awaited;
        while (!m->happened)
            advance(m->stream);
    }
    if (!s->queue.empty())
        run_head(s);
}

void streams_sync(const driver_event *e)
{
    std::shared_ptr<moment> m = e->last;
    while (m && !m->happened)
        advance(m->stream);
}

void streams_sync(driver_stream *s)
{
    while (!s->queue.empty())
        advance(s);
}

bool streams_use(const void *at, int64_t bytes)
{
    const char *from = (const char *)at;
    for (const driver_stream *s : streams)
        for (const work &w : s->queue)
            for (const span &p : w.spans)
                if ((const char *)p.at < from + bytes && from < (const char *)p.at + p.bytes)
                    return true;
    return false;
}
