/* Reading the variables of the environment. The values are not copied, since no code changes these
 * variables. */
#include "distributed/environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

static struct {
    bool is_read;
    const char *values[ENV_VARIABLES];
    int counts[ENV_VARIABLES]; /* parsed once: every request asks for the number of servers */
} here;

void environment_read(void)
{
    static const char *const names[] = {
#define VARIABLE_NAME(name) "KVSTORE_" #name,
        VARIABLES(VARIABLE_NAME)
#undef VARIABLE_NAME
    };
    for (int i = 0; i < ENV_VARIABLES && !here.is_read; i++) {
        here.values[i] = getenv(names[i]);
        here.counts[i] = here.values[i] ? atoi(here.values[i]) : 0;
    }
    here.is_read = true;
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
