/* One attempt of launch at a simulated job: between launch (attempt.c) and the simulation
 * (launcher.c), which know two different things by the name `job`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kv_err.h"

/* What attempt_run gives back. */
typedef struct outcome {
    int code, rc;
    bool lost; /* a rank was: launch may begin again */
    long long rounds;
    kv_err e;
} outcome;

/* Runs an attempt that begins with this round of the checkpoint; `launch` runs in a fiber of its
 * world. */
const outcome *launcher_attempt(int64_t round, outcome (*launch)(void));

/* Virtual milliseconds of the attempts before. */
int64_t launcher_past_ms(void);
