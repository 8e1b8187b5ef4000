/* A stream of fopencookie over the descriptor. */
#include "term/output.h"

#include <errno.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "term/interrupt.h"

static int reason; /* of the last write that failed */

/* Output that Ctrl-C cuts off counts as written: an error here would stay with the stream, and end
 * all later output. */
static ssize_t write_to_end(void *cookie, const char *text, size_t n)
{
    size_t done = 0;
    (void)cookie;
    while (done < n) {
        ssize_t got = write(STDOUT_FILENO, text + done, n - done);
        if (got > 0)
            done += (size_t)got;
        else if (got == 0 || errno != EINTR) {
            reason = got ? errno : EIO;
            break;
        } else if (interrupt_pending())
            return (ssize_t)n;
    }
    return (ssize_t)done;
}

int output_reason(void)
{
    return reason;
}

void output_install(void)
{
    FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_to_end});
    if (!f)
        return;
    setvbuf(f, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = f;
}
