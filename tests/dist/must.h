/* The conditions of a check. Its user defines give_up(line, why), which prints the reason and
 * ends. */
#ifndef TESTS_DIST_MUST_H
#define TESTS_DIST_MUST_H

#include "kv_err.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        kv_err e = {0};                                                                            \
        if (call)                                                                                  \
            give_up(__LINE__, e.text);                                                             \
    } while (0)

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            give_up(__LINE__, #condition);                                                         \
    } while (0)

#endif
