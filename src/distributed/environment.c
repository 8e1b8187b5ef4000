/* Reading the variables of the environment. The values are not copied, since no code changes these
 * variables. */
#include "distributed/environment.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

static struct {
    bool is_read;
    const char *values[ENV_VARIABLES];
    int counts[ENV_VARIABLES]; /* parsed once: every request asks for the number of servers */
} here;

static const char *const names[] = {
#define VARIABLE_NAME(name) "KVSTORE_" #name,
    VARIABLES(VARIABLE_NAME)
#undef VARIABLE_NAME
};

void environment_read(void)
{
    for (int i = 0; i < ENV_VARIABLES && !here.is_read; i++) {
        here.values[i] = getenv(names[i]);
        here.counts[i] = here.values[i] ? atoi(here.values[i]) : 0;
    }
    here.is_read = true;
}

/* A value that cannot be meant must not pass for the default. */
static int check_number(variable v, bool whole, double least, double most, kv_err *e)
{
    const char *text = here.values[v];
    size_t n = text ? strlen(text) : 0;
    double x = 0;
    if (n == 0 || (num_parse(text, n, NUM_BINARY64, &x, NULL) == n && x >= least && x <= most &&
                   (!whole || strspn(text, "0123456789") == n)))
        return KV_OK;
    return kv_err_set(e, KV_E_VALUE, "%s takes a %snumber from %d on, not \"%.80s\"", names[v],
                      whole ? "whole " : "", (int)least, text);
}

static int check_switch(variable v, kv_err *e)
{
    const char *text = here.values[v];
    if (!text || !*text || strcmp(text, "0") == 0 || strcmp(text, "1") == 0)
        return KV_OK;
    return kv_err_set(e, KV_E_VALUE, "%s takes 0 or 1, not \"%.80s\"", names[v], text);
}

int environment_check(kv_err *e)
{
    enum { SECONDS = 1000 * 1000 * 1000 }; /* 32 years, whose microseconds fit into 64 bits */
    TRY(check_number(ENV_DEADLINE, false, 0, SECONDS, e));
    TRY(check_number(ENV_TIMEOUT, false, 0, SECONDS, e));
    TRY(check_number(ENV_NOTICE, false, 0, SECONDS, e));
    TRY(check_number(ENV_SERVERS, true, 0, INT_MAX, e));
    TRY(check_number(ENV_SPARES, true, 0, INT_MAX, e));
    TRY(check_switch(ENV_DEADLOCK, e));
    TRY(check_switch(ENV_SHARED_MEMORY, e));
    TRY(check_switch(ENV_TRACE, e));
    return check_number(ENV_AHEAD, true, 1, 1e15, e);
}

const char *environment(variable v)
{
    return here.values[v];
}

int environment_count(variable v)
{
    return here.counts[v];
}

double environment_number(variable v, double otherwise)
{
    const char *text = here.values[v];
    double x = otherwise;
    if (text)
        num_parse(text, strlen(text), NUM_BINARY64, &x, NULL);
    return x;
}
