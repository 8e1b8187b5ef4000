/* Verdicts as TAP, and calls that must succeed, for the programs about GPUs. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "kv_err.h"

static int verdicts, failed;

__attribute__((format(printf, 2, 3))) static inline void verdict(bool ok, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("%sok %d - ", ok ? "" : "not ", ++verdicts);
    vprintf(fmt, ap);
    printf("\n");
    va_end(ap);
    failed += !ok;
}

/* The exit status. */
static inline int end_verdicts(void)
{
    printf("1..%d\n", verdicts);
    return failed > 0;
}

static inline void must(int code, const kv_err *e)
{
    if (code == KV_OK)
        return;
    printf("Bail out! %s\n", e->text);
    exit(2);
}
