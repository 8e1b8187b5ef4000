/* The report of --check. */
#ifndef OUT_CHECK_REPORT_H
#define OUT_CHECK_REPORT_H

#include "session/session.h"

/* Reports what was found in the order of files and places, each error once, and forgets it. */
void check_report(session *s);

#endif
