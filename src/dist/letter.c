/* Two calls of the coordinator. */
#include "dist/letter.h"

#include "dist/server.h"

int letter_send(const worker *w, int to, letter_tag tag, const buf *b, kv_err *e)
{
    int rc = buf_check(b, e);
    net_call c = {.rank = server_rank(0), .what = ASK_SEND, .store = w->number,
                  .args.mail = {to, tag}, .data = b->data, .bytes = (int64_t)b->len};
    return rc ? rc : net_call_wait(&c, NULL, NULL, e);
}

int letter_receive(const worker *w, int from, letter_tag tag, void **data, int64_t *bytes,
                          kv_err *e)
{
    net_call c = {.rank = server_rank(0), .what = ASK_RECEIVE, .store = w->number,
                  .args.mail = {from, tag}};
    return net_call_wait(&c, data, bytes, e);
}
