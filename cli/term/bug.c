/* The end of kvctl after a failed assertion. */
#include "term/bug.h"

#include <unistd.h>

#include "base/kv_assert.h"
#include "term/exit_code.h"
#include "term/terminal.h"

/* Ends without the handlers of atexit: they write files and wait for threads, and both need the
 * state that was just found to be wrong. */
static void end(const char *report)
{
    terminal_say("kvctl: error[internal]: %s", report);
    terminal_say(" hint: the file of -s is as it was; report this with the script that led here");
    _exit(EXIT_BUG);
}

void bug_ends_process(void)
{
    kv_assert_on_failure(end);
}
