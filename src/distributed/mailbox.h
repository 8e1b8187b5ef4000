/* Mail: one worker sends it to another by way of the coordinator, which keeps it until the other
 * asks for it. A later one with the same tag replaces one that nobody has received.
 */
#ifndef DISTRIBUTED_MAILBOX_H
#define DISTRIBUTED_MAILBOX_H

#include "base/buf.h"
#include "distributed/worker.h"

typedef enum mail_tag { MAIL_SAVED, MAIL_LOADED, MAIL_RESIDUALS } mail_tag;

/* Errors: memory (of the buf too), peer, timeout. */
int mailbox_send(const worker *w, int to, mail_tag tag, const buf *b, kv_err *e);

/* Waits for it. *data is released with mem_free. Errors: peer, timeout, memory. */
int mailbox_receive(const worker *w, int from, mail_tag tag, void **data, int64_t *bytes,
                    kv_err *e);

#endif
