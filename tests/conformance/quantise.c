/* The recorded steps of MXNet's quantiser against ours: bytes, residuals and what
 * they stand for. */
#include <stdio.h>
#include <string.h>

#include "cpu/cpu.h"
#include "replay.h"

enum { MOST = 4096 };

/* The numbers of a list; returns how many, or -1 when they are too many. */
static int64_t numbers(float *out, const cJSON *list)
{
    int64_t n = 0;
    const cJSON *x;
    cJSON_ArrayForEach(x, list)
    {
        if (n == MOST)
            return -1;
        out[n++] = (float)replay_number(x);
    }
    return n;
}

static bool same(const float *got, const cJSON *list, int64_t n)
{
    static float want[MOST];
    return numbers(want, list) == n && memcmp(got, want, (size_t)n * sizeof *want) == 0;
}

static bool same_bytes(const uint8_t *got, int64_t n, const char *hex)
{
    char text[3];
    if ((int64_t)strlen(hex) != 2 * n)
        return false;
    for (int64_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%02x", got[i]);
        if (memcmp(text, hex + 2 * i, 2) != 0)
            return false;
    }
    return true;
}

/* What differs in a step, or NULL. residual is changed as the step does it. */
static const char *differs(const cJSON *step, float *residual, float threshold)
{
    static float input[MOST], output[MOST];
    static uint8_t codes[MOST];
    int64_t n = numbers(input, replay_get(replay_get(step, "input"), "data"));
    if (n < 0)
        return "a length that is too large";
    quantise_encode(codes, residual, input, QUANTISE_2BIT, threshold, n);
    quantise_decode(output, codes, QUANTISE_2BIT, threshold, n);
    if (!same_bytes(codes, quantise_bytes(QUANTISE_2BIT, n),
                    replay_get(step, "bytes")->valuestring))
        return "other bytes";
    if (!same(residual, replay_get(step, "residual"), n))
        return "another residual";
    return same(output, replay_get(step, "output"), n) ? NULL : "another output";
}

static const char *run_differs(const cJSON *run)
{
    static float residual[MOST];
    const char *what = NULL;
    const cJSON *step;
    memset(residual, 0, sizeof residual);
    cJSON_ArrayForEach(step, replay_get(run, "steps"))
    {
        if (!what)
            what = differs(step, residual, (float)replay_number(replay_get(run, "threshold")));
    }
    return what;
}

bool quantise_run(const cJSON *runs, verdict *v)
{
    const cJSON *run;
    cJSON_ArrayForEach(run, runs)
    {
        const char *what = run_differs(run);
        v->wrong += what != NULL;
        v->equal += what == NULL;
        if (what && !v->first[0])
            snprintf(v->first, sizeof v->first, "%s: %s", replay_get(run, "id")->valuestring, what);
    }
    return v->wrong == 0 && v->equal > 0;
}
