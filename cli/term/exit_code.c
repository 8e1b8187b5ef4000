/* The exit statuses of kvctl, and its end after a failed assertion. */
#include "term/terminal.h"

#include <unistd.h>

#include "base/kv_assert.h"

exit_code exit_code_of_error(int rc)
{
    switch ((kv_code)rc) {
    case KV_OK:
        return EXIT_DONE;
    case KV_E_ASSERT:
    case KV_E_EXPECT:
        return EXIT_NO;
    case KV_E_SYNTAX:
    case KV_E_USAGE:
        return EXIT_NOT_UNDERSTOOD;
    case KV_E_NAME:
    case KV_E_KEY:
    case KV_E_SHAPE:
    case KV_E_DTYPE:
    case KV_E_VALUE:
    case KV_E_INDEX:
    case KV_E_MEMORY:
        return EXIT_FAILED;
    case KV_E_UNSUPPORTED:
        return EXIT_UNSUPPORTED;
    case KV_E_IO:
    case KV_E_FORMAT:
        return EXIT_IO;
    case KV_E_BUSY:
    case KV_E_TIMEOUT:
    case KV_E_PEER:
        return EXIT_PEER;
    case KV_E_INTERRUPTED:
        return EXIT_SIGINT;
    case KV_E_INTERNAL:
    case KV_NCODES:
        break;
    }
    return EXIT_BUG;
}

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
