/* Counts of losses. */
#include "tensors/losses.h"

void losses_add(losses *l, int64_t key, const tensor_loss *loss)
{
    const int64_t n[LOSSES_KINDS] = {loss->inf, loss->nan, loss->saturated, loss->rounded,
                                     loss->fraction};
    if (!l || loss->first < 0)
        return;
    for (int i = 0; i < LOSSES_KINDS; i++)
        atomic_fetch_add_explicit(&l->keys[key].count[i], n[i], memory_order_relaxed);
}
