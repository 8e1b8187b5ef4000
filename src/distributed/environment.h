/* The variables of the environment. They are read once, before MPI starts, because MPI changes the
 * environment while it starts, and no thread may read it meanwhile.
 */
#pragma once

#include "kv_err.h"

/* Every variable, by its name behind KVSTORE_. */
#define VARIABLES(X)                                                                               \
    X(RUN_DIR)       /* the launcher's folder */                                                   \
    X(DEADLINE)      /* see alive.h */                                                             \
    X(TIMEOUT)       /* see net.h */                                                               \
    X(NOTICE)        /* see waits.h */                                                             \
    X(SERVERS)       /* how many ranks only serve */                                               \
    X(SPARES)        /* see spares.h */                                                            \
    X(SHARED_MEMORY) /* 0: every rank is a machine of its own */                                   \
    X(AHEAD)         /* see request.h */                                                           \
    X(DEADLOCK)      /* see waits.h */                                                             \
    X(TRACE)         /* 1: see link_trace */                                                       \
    X(ELASTIC)       /* see alive.h */                                                             \
    X(CHECKPOINT)    /* see checkpoint.h, and the next two */                                      \
    X(CHECKPOINT_EVERY)                                                                            \
    X(CHECKPOINT_ROUND)

typedef enum variable {
#define VARIABLE_ENUM(name) ENV_##name,
    VARIABLES(VARIABLE_ENUM)
#undef VARIABLE_ENUM
        ENV_VARIABLES
} variable;

/* Reads them, at its first call. */
void environment_read(void);

/* Errors: value (a variable that holds a number holds something else, or one below its least; empty
 * ones are as if they were not set). */
int environment_check(kv_err *e);

/* A value, or NULL. */
const char *environment(variable v);

/* The whole number that a value begins with; 0: there is none. */
int environment_count(variable v);

/* The number that the variable holds, or the default where it holds none. */
double environment_number(variable v, double otherwise);
