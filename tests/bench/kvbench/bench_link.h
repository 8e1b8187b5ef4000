/* The parameters of a LogGP model (Alexandrov and others, "LogGP", 1995) of the link from this rank
 * to another one that serves: what a record costs on its way, what it costs the processor at each
 * end, and what a byte costs.
 *
 * They are found as Culler and others did ("Assessing fast network interfaces", 1996), by pulls of
 * a store of the type dist_async: one small pull alone is two records, and two latencies on the
 * way; of many small ones at once each takes the processor's overhead of two records; a larger one
 * differs by its bytes. So the store's own work counts as overhead, and the thread that has to be
 * woken, on a machine with fewer processors than ranks, as latency. G is that of a record that is
 * copied in and out, one behind the other.
 */
#pragma once

#include "bench_switch.h"
#include "kvstore.h"

typedef struct bench_link {
    int rank;         /* the other one */
    char host[64];    /* its machine */
    char link[16];    /* memory or messages */
    double alone_ns;  /* a small pull alone */
    double one_ns;    /* each of many */
    double latency_ns, overhead_ns, gap_ns; /* L, o of a record at one end, G of a byte */
    double push_ns;   /* each of many keys that are pushed and updated by sgd */
    bench_switch threads; /* of this machine */
} bench_link;

/* Measures the links from rank 0 to all others that serve, `runs` times each, and gives medians of
 * the least times of each; the other workers wait meanwhile. Collective: all workers call it.
 * Out: *links and *n, to be released with mem_free; n is 0 on other workers than rank 0. Errors:
 * unsupported (this process is no rank of a job, or no other rank serves), memory, those of a
 * store. */
int bench_link_run(bench_link **links, int *n, int runs, bool quick, kv_err *e);
