/* For whom others wait: see room.h. */
#ifndef DIST_LACKS_H
#define DIST_LACKS_H

#include "dist/served.h"

/* What workers have come to and this one has not, the first ASK_MOST_LACKS; how many. */
int64_t lacks_of(const served *s, int rank, ask_lack *list);

#endif
