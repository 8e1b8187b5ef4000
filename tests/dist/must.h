/* The conditions of a check that all ranks run, and the run of a list of them. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/device.h"
#include "kvstore.h"

static int rank, workers;
static const char *running = "create";

static void give_up(int line, const char *why)
{
    printf("not ok - %s\n# rank %d, line %d: %s\n", running, rank, line, why);
    fflush(stdout);
    _Exit(1);
}

#define OK(call)                                                                                   \
    do {                                                                                           \
        kv_err e = {0};                                                                            \
        if (call)                                                                                  \
            give_up(__LINE__, e.text);                                                             \
    } while (0)

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            give_up(__LINE__, #condition);                                                         \
    } while (0)

/* A store that is released at the end of its block. */
#define own_kv OWN(must_free) kv
static inline void must_free(kv **s)
{
    kv_free(*s);
}

enum { MOST_SIDE = 1200 };

/* The side of large arrays: 1200 as in MXNet's own tests, or $DIST_SIDE. */
static inline int64_t must_side(void)
{
    const char *text = getenv("DIST_SIDE");
    int side = text ? atoi(text) : MOST_SIDE;
    MUST(side > 0 && side <= MOST_SIDE);
    return side;
}

typedef struct check {
    const char *name;
    void (*run)(void);
} check;

static uint64_t check_seed; /* the number of the check that runs: the same on all ranks */

/* Runs those of n checks that the arguments name, or all. Rank 0 prints TAP. */
static inline void run_checks(int argc, char **argv, const check *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool wanted = argc == 1;
        for (int j = 1; j < argc && !wanted; j++)
            wanted = strcmp(argv[j], list[i].name) == 0;
        if (!wanted)
            continue;
        running = list[i].name;
        check_seed = (uint64_t)(i + 1);
        list[i].run();
        if (rank == 0)
            printf("ok - %s\n", running);
        fflush(stdout);
    }
}
