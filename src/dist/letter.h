/* Letters: what one worker sends another, by way of the coordinator, which keeps it until it is
 * asked for. A later one with the same tag takes the place of one that nobody has received.
 */
#ifndef DIST_LETTER_H
#define DIST_LETTER_H

#include "base/buf.h"
#include "dist/worker.h"

typedef enum letter_tag { LETTER_SAVED, LETTER_LOADED, LETTER_RESIDUALS } letter_tag;

/* Errors: memory (of the buf too), peer, timeout. */
int letter_send(const worker *w, int to, letter_tag tag, const buf *b, kv_err *e);

/* Waits for it. *data is released with mem_free. Errors: peer, timeout, memory. */
int letter_receive(const worker *w, int from, letter_tag tag, void **data, int64_t *bytes,
                   kv_err *e);

#endif
