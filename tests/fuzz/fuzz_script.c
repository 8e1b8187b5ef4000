/* A script: is it complete, --check, and then it is run with --safe. */
#include "fuzz.h"

#include "base/mem.h"
#include "out/record.h"
#include "scripts.h"
#include "session/unit.h"
#include "syntax/check.h"
#include "syntax/read_unit.h"

enum { RUN_MS = 300 };

static void check(const char *text, size_t n)
{
    session s;
    kv_err e = {0};
    check_errors found = {0};
    unit *u;
    scripts_begin(&s, RUN_MS);
    s.check = &found;
    char *copy = mem_text(text, n, &e);
    if (unit_read(&s, &u, "<fuzz>", copy, n, 1, NULL, &e))
        check_take(&s, &e);
    e = (kv_err){0};
    check_unset(&s, &e);
    check_report(&s);
    s.check = NULL;
    scripts_end(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    session s;
    kv_err e = {0};
    char *text = mem_text((const char *)data, n, &e);
    HOLDS(text != NULL, e.text);
    check(text, n);
    scripts_begin(&s, RUN_MS);
    unit_is_complete(text, n);
    fuzz_result(scripts_run(&s, text, n, &e), &e);
    scripts_end(&s);
    mem_free(text);
    return 0;
}
