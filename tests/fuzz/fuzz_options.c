/* Command lines, a word a line: of kvctl, whose session is then configured by it, and of launch. */
#include "fuzz.h"

#include <string.h>

#include "base/mem.h"
#include "configure.h"
#include "language.h"
#include "launch/launch_options.h"
#include "options/options.h"
#include "scripts.h"
#include "syntax/read_unit.h"

enum { MOST = 30 };

/* Plugins are code of the user, and time limits and GPUs are those of the process. */
static bool may_configure(const options *o)
{
    return o->plugins.n == 0 && o->timeout == 0 && !o->gpus_said;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    kv_err e = {0}, e2 = {0}, e3 = {0}, e4 = {0};
    unit *u;
    options o;
    launch_options l;
    char *words[MOST + 1] = {(char[]){"kvctl"}}, *text = mem_text((const char *)data, n, &e);
    int count = 1;
    HOLDS(text != NULL, e.text);
    language_init();
    for (char *at = text; at && count < MOST; count++)
        words[count] = strsep(&at, "\n");
    if (fuzz_result(options_parse(&o, count, words, &e), &e) && may_configure(&o)) {
        session s;
        scripts_begin(&s, 300);
        fuzz_result(configure(&s, &o, false, &e2), &e2);
        if (o.command.c)
            fuzz_result(unit_read_words(&s, &u, &o.command, &e4), &e4);
        scripts_end(&s);
    }
    options_release(&o);
    fuzz_result(launch_options_parse(&l, count - 1, words + 1, 0, &e3), &e3);
    launch_options_release(&l);
    mem_free(text);
    return 0;
}
