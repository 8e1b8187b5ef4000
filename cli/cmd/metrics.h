/* The stores of a session as Prometheus reads them: the text format 0.0.4, a HELP and a TYPE line
 * for each metric, then a line for each sample. Labels: `store`, the name of the store in the
 * session, and `rank`. What a metric counts stands in the table in metrics.c.
 */
#ifndef CMD_METRICS_H
#define CMD_METRICS_H

#include "eval/eval.h"

/* Appends the metrics of all stores of the session; of the one in use also a row for each of some
 * keys, when keys is not NULL. cluster: what each rank tells of its part of the store in use, in
 * place of what this rank counts. Errors: those of kv_describe and kv_find. */
int metrics_text(buf *out, session *s, const key_list *keys, bool cluster, kv_err *e);

#endif
