/* NCCL without GPUs: cuda/nccl_table.h over the driver of host memory. Sums are added from the last device
 * to the first and rounded at each step, as the real one may.
 *
 * $FAKE_NCCL=none: there is no library; =old: one that is too old; =half: a group fails when the
 * first device alone has begun, which waits for the others until its communicator is stopped.
 * $FAKE_NCCL_LOG names a file that gets a line a group: what it does, how many jobs, on which devices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "tests/device/streams.hh"

extern "C" {
#include "array/device.h"
#include "cuda/nccl_table.h"
}

enum { E_NONE = 0, E_SYSTEM = 2, E_ARGUMENT = 4, E_USAGE = 5 };

struct nccl_comm {
    int rank, id;
    bool stopped; /* it stays, for those who use it nevertheless */
    const std::vector<nccl_comm *> *all;
};

/* The work of one device. */
struct piece {
    const void *src;
    void *dst;
    size_t n;
    nccl_dtype dtype;
    int root;
    bool copies;
    nccl_comm *comm;
    driver_stream *stream;
};

static thread_local std::vector<piece> given;
static thread_local bool open_group;

static const char *text_of(int code)
{
    return code == E_SYSTEM     ? "unhandled system error"
           : code == E_ARGUMENT ? "invalid argument"
                                : "invalid usage";
}

static int version(int *out)
{
    *out = 22809;
    return E_NONE;
}

static int connect(nccl_comm **out, int n, const int *ids)
{
    auto all = new std::vector<nccl_comm *>;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            if (ids[k] == ids[i])
                return E_USAGE;
        all->push_back(out[i] = new nccl_comm{i, ids[i], false, all});
    }
    return E_NONE;
}

static int stop_comm(nccl_comm *c)
{
    c->stopped = true;
    return E_NONE;
}

static int begin(void)
{
    open_group = true;
    given.clear();
    return E_NONE;
}

static int give(const piece &p)
{
    if (!open_group || p.comm->stopped)
        return E_USAGE;
    given.push_back(p);
    return E_NONE;
}

static int reduce(const void *src, void *dst, size_t n, nccl_dtype dtype, int op, int root,
                  nccl_comm *c, driver_stream *s)
{
    return op == NCCL_SUM ? give({src, dst, n, dtype, root, false, c, s}) : E_ARGUMENT;
}

static int broadcast(const void *src, void *dst, size_t n, nccl_dtype dtype, int root,
                     nccl_comm *c, driver_stream *s)
{
    return give({src, dst, n, dtype, root, true, c, s});
}

/* ---- The work ---- */

static kv_dtype dtype_of(nccl_dtype dtype)
{
    switch (dtype) {
    case NCCL_INT8: return KV_INT8;
    case NCCL_UINT8: return KV_UINT8;
    case NCCL_INT32: return KV_INT32;
    case NCCL_INT64: return KV_INT64;
    case NCCL_FLOAT16: return KV_FLOAT16;
    case NCCL_FLOAT64: return KV_FLOAT64;
    case NCCL_BFLOAT16: return KV_BFLOAT16;
    default: return KV_FLOAT32;
    }
}

/* One place's elements on the host, which waits. */
static int fetch(const driver *d, const piece &p, const void *from, char *host, int64_t bytes)
{
    int code = d->use(p.comm->id);
    if (!code)
        code = d->copy_out(host, from, bytes, p.stream);
    return code ? code : d->sync(p.stream);
}

static int store(const driver *d, const piece &p, char *host, int64_t bytes)
{
    int code = d->use(p.comm->id);
    if (!code)
        code = d->copy_in(p.dst, host, bytes, p.stream);
    return code ? code : d->sync(p.stream);
}

/* The same piece of work of all devices. */
static int run(const driver *d, const std::vector<piece> &p)
{
    const piece &root = p[(size_t)p[0].root];
    int64_t bytes = (int64_t)root.n * kv_dtype_bytes(dtype_of(root.dtype));
    void *host = NULL, *other = NULL;
    int code = d->alloc_host(&host, bytes);
    if (!code)
        code = d->alloc_host(&other, bytes);
    size_t last = root.copies ? (size_t)root.root : p.size() - 1;
    if (!code)
        code = fetch(d, p[last], p[last].src, (char *)host, bytes);
    for (size_t i = last; i-- > 0 && !root.copies && !code;) {
        code = fetch(d, p[i], p[i].src, (char *)other, bytes);
        const void *both[] = {host, other};
        if (!code)
            sum_elements(host, both, 2, dtype_of(root.dtype), (int64_t)root.n);
    }
    for (size_t i = 0; i < p.size() && !code; i++)
        if (root.copies || i == (size_t)root.root)
            code = store(d, p[i], (char *)host, bytes);
    d->free_host(host);
    d->free_host(other);
    return code;
}

static void note(const std::vector<piece> &first, size_t jobs)
{
    const char *path = getenv("FAKE_NCCL_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    fprintf(f, "%s %zu on", first[0].copies ? "copy" : "sum", jobs);
    for (const piece &p : first)
        fprintf(f, " %d", p.comm->id);
    fprintf(f, "\n");
    fclose(f);
}

/* The work of one device alone, on what the whole group works on. */
static int begin_half(const std::vector<piece> &p)
{
    const nccl_comm *comm = p[0].comm;
    work w{};
    for (const piece &each : p)
        w.spans.push_back({each.dst, (int64_t)each.n * kv_dtype_bytes(dtype_of(each.dtype))});
    w.run = [comm](uint64_t) {
        if (!comm->stopped)
            streams_die("a device is waited for that waits for others, which have no such work");
    };
    streams_add(p[0].stream, std::move(w));
    return E_SYSTEM;
}

/* Every device must have been given the same, in the same order. */
static int end(void)
{
    const driver *d;
    kv_err why = {};
    open_group = false;
    if (given.empty())
        return E_NONE;
    size_t ranks = given[0].comm->all->size();
    if (given.size() % ranks != 0 || driver_open(&d, &why))
        return E_ARGUMENT;
    std::vector<std::vector<piece>> works(given.size() / ranks);
    std::vector<size_t> next(ranks);
    for (const piece &p : given) {
        size_t at = next[(size_t)p.comm->rank]++;
        if (p.comm->all != given[0].comm->all || at >= works.size())
            return E_ARGUMENT;
        works[at].resize(ranks);
        works[at][(size_t)p.comm->rank] = p;
    }
    for (const auto &w : works)
        for (const piece &p : w)
            if (p.n != w[0].n || p.dtype != w[0].dtype || p.root != w[0].root ||
                p.copies != w[0].copies)
                return E_ARGUMENT;
    const char *is = getenv("FAKE_NCCL");
    if (is && strcmp(is, "half") == 0)
        return begin_half(works[0]);
    note(works[0], works.size());
    for (const auto &w : works)
        if (run(d, w))
            return E_SYSTEM;
    return E_NONE;
}

extern "C" int nccl_open(const nccl **out, kv_err *e)
{
    static const nccl table = {text_of, version, connect, stop_comm, begin, end, reduce, broadcast};
    const char *is = getenv("FAKE_NCCL");
    *out = &table;
    if (is && strcmp(is, "none") == 0)
        return kv_err_set(e, KV_E_UNSUPPORTED, "NCCL (libnccl.so.2) cannot be loaded");
    if (is && strcmp(is, "old") == 0)
        return kv_err_set(e, KV_E_UNSUPPORTED, "NCCL (libnccl.so.2) is older than 2.10");
    return KV_OK;
}
