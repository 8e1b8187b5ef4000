/* Counted, since a function may be defined anew while it runs. */
#include "session/def_values.h"

#include "base/mem.h"

void def_values_unref(def_values *d)
{
    if (!d || --d->refs > 0)
        return;
    map_release(&d->assigned);
    for (int64_t i = 0; i < d->n; i++)
        value_release(&d->defaults[i]);
    mem_free(d);
}
