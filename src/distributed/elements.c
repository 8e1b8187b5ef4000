/* One function sends each record with elements, whoever sends it; the checks of those that come. */
#include "distributed/server.h"

#include "base/kv_assert.h"

net_step elements_send(const net_item *i, const link_rec *head, const elements_out *x,
                       int64_t *from)
{
    int64_t n = elements_next(x, *from), at = *from, bytes = n;
    int64_t before = at ? 0 : x->host_bytes, codes = x->code ? (int64_t)sizeof *x->code : 0;
    bool last = at + n == x->all;
    kv_assert(n >= 0, "a part of %lld is sent from %lld on", (long long)x->all, (long long)at);
    if (x->code) {
        bytes = quantise_bytes((quantise_code)x->code->code, n);
        at = at / 8 * x->code->code;
    }
    link_rec *r = net_reserve_by(i, before + codes + bytes, n == x->all);
    if (!r)
        return NET_FULL;
    *r = *head;
    r->bytes = (uint32_t)(before + codes + bytes);
    r->flags |= (uint8_t)((last ? LINK_LAST : 0) | (before ? LINK_HOST : 0) |
                          (codes ? LINK_CODES : 0));
    r->from = *from;
    r->n = codes ? n : head->n;
    char *to = (char *)(r + 1);
    if (before)
        memcpy(to, x->host, (size_t)before);
    if (codes)
        memcpy(to + before, x->code, (size_t)codes);
    if (bytes)
        net_copy(i->peer, to + before + codes, x->data + at, bytes);
    *from += n;
    net_commit(i->peer);
    return last ? NET_ENDED : NET_MORE;
}

bool elements_fit(const link_rec *r, int64_t n, int64_t all)
{
    int64_t left = r->from >= 0 && r->from <= all ? all - r->from : -1;
    bool ends = r->kind == LINK_VALUE && r->flags & LINK_LAST;
    return n >= 0 && n <= left && (!ends || n == left);
}

const char *elements_codes(const link_rec *r, const char *data, kv_dtype dtype, int64_t count,
                           push_codes *how)
{
    int64_t bytes = (const char *)(r + 1) + r->bytes - data - (int64_t)sizeof *how;
    if (bytes < 0 || dtype != KV_FLOAT32 || !elements_fit(r, r->n, count))
        return NULL;
    memcpy(how, data, sizeof *how);
    bool known = (how->code == QUANTISE_1BIT || how->code == QUANTISE_2BIT) &&
                 how->back >= BACK_NUMBERS && how->back <= BACK_ANEW;
    return known && quantise_bytes((quantise_code)how->code, r->n) == bytes ? data + sizeof *how
                                                                             : NULL;
}
