/* The arrays that a workload is measured with: what is pushed, what is pulled into, and the blocks
 * that the streaming loops write. They are made when they are first asked for and stay for all
 * operations of a workload.
 *
 * Element i of array k of value v is bench_pattern[(i + k) % BENCH_PERIOD] * (v + 1): small
 * multiples of 1/8, so that sums are exact and every result has BENCH_PERIOD different elements at
 * most. Of a row_sparse value i counts in its packed rows.
 */
#ifndef BENCH_BENCH_ROOM_H
#define BENCH_BENCH_ROOM_H

#include "bench/bench_place.h"
#include "bench/bench_stream.h"
#include "bench/bench_workload.h"

#define BENCH_PERIOD 13

typedef struct bench_room {
    const bench_data *data;
    const bench_place *place; /* of values and outs */
    bench_shapes shapes;
    kv_key *keys;      /* 0, 1, … */
    int64_t *bytes;    /* of the elements of each array; of packed rows when sparse */
    int64_t all_bytes; /* of all arrays */
    int64_t largest;   /* index of the largest array */
    stream_cut cut;
    kv_array **values[BENCH_MAX_VALUES], **outs[BENCH_MAX_VALUES];
    void **value_data[BENCH_MAX_VALUES], **out_data[BENCH_MAX_VALUES]; /* in host memory */
    void *blocks[STREAM_MAX]; /* memory of scratch */
    void **scratch[STREAM_MAX];
    int nvalues, nouts, nscratch;
    kv_array *ids; /* sparse: the rows that are pushed, int64; else NULL */
    const int64_t *row_ids;
    int64_t nrows;
    stream_cut id_cut;                 /* sparse: of the ids of one array */
    void *value_ids[BENCH_MAX_VALUES]; /* sparse: those of each value, and as many beside each */
    void *scratch_ids[STREAM_MAX];     /* scratch */
    void *table; /* sparse: a block like all rows, which the loops use */
} bench_room;

/* Takes shapes, also on failure; borrows place. Released with bench_room_release in any case. */
int bench_room_init(bench_room *r, const bench_data *data, const bench_place *place,
                    bench_shapes *shapes, kv_err *e);
void bench_room_release(bench_room *r);

/* Makes what is missing up to these counts. Error: memory. */
int bench_room_need(bench_room *r, int nvalues, int nouts, int nscratch, bool table, kv_err *e);

/* On GPUs: as if these had just computed the first values, which no other place has then, and
 * cleared the first outs. Nothing to do elsewhere. Errors: those of the device. */
int bench_room_renew(bench_room *r, int nvalues, int nouts, kv_err *e);

/* One array of period elements in the room's dtype: pattern[i] * scale. */
int bench_room_period(kv_array **out, const bench_data *data, double scale, kv_err *e);

/* The bytes of a table of all rows, and of what is pushed of it, ids included. */
int64_t bench_room_table_bytes(const bench_shapes *shapes);

/* Bytes that programs can have without swapping; 0 when the system does not say. */
int64_t bench_memory_available(void);

/* Element i of the pattern. */
double bench_pattern(int64_t i);

#endif
