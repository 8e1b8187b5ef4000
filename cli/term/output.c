/* A stream of fopencookie over the descriptor. */
#include "term/output.h"

#include <errno.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include "term/interrupt.h"

static ssize_t put(void *cookie, const char *text, size_t n)
{
    size_t done = 0;
    (void)cookie;
    while (done < n) {
        ssize_t got = write(STDOUT_FILENO, text + done, n - done);
        if (got >= 0)
            done += (size_t)got;
        else if (errno != EINTR || interrupt_pending())
            break;
    }
    return (ssize_t)done;
}

void output_install(void)
{
    FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = put});
    if (!f)
        return;
    setvbuf(f, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = f;
}
