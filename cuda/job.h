/* The argument of a kernel: a list of jobs in the memory of the device, of all arrays of a call.
 *
 * Work is cut into tiles of equal size, numbered through all jobs: job j has the tiles from
 * its `first` on, up to that of the next job, and one at least. A tile is the work of a team of 32
 * threads. So one launch serves many arrays, small and large ones alike.
 *
 * The host's code, the kernels and generated rules share this header, so it includes nothing.
 */
#pragma once

enum {
    JOB_TEAM = 32,
    JOB_TILE = 1024,
    JOB_CHUNK = 4096, /* elements of a part of a sum over all of them */
    JOB_SUMS = 4      /* such parts that a team works on at a time */
};

typedef struct job_item {
    void *dst;
    const void *const *src;  /* nsrc arrays that are read */
    void *const *more;       /* others; a rule's by slot */
    const long long *index;  /* numbers of rows */
    const double *numbers;   /* words of 8 bytes: constants of a rule */
    long long n;             /* elements */
    long long nsrc;
    long long row;           /* elements of a row */
    long long first;         /* its first tile */
    float threshold;
    int to, from;            /* kv_dtype of dst, and of src */
    int code;                /* a quantise_code */
} job_item;

typedef struct job_list {
    const job_item *items;
    long long nitems, ntiles, tile; /* tile: its elements */
} job_list;
