/* Two calls of the coordinator. */
#include "distributed/mailbox.h"

#include "distributed/server.h"

int mailbox_send(const worker *w, int to, mail_tag tag, const buf *b, kv_err *e)
{
    int rc = buf_check(b, e);
    net_call c = {.rank = server_rank(0), .what = ASK_SEND, .store = w->number,
                  .args.mail = {to, tag}, .data = b->data, .bytes = (int64_t)b->len};
    return rc ? rc : net_call_wait(&c, NULL, NULL, e);
}

int mailbox_receive(const worker *w, int from, mail_tag tag, void **data, int64_t *bytes, kv_err *e)
{
    net_call c = {.rank = server_rank(0), .what = ASK_RECEIVE, .store = w->number,
                  .args.mail = {from, tag}};
    return net_call_wait(&c, data, bytes, e);
}
