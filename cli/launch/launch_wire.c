/* Cells are looked for by their mark, because mpirun writes between them. */
#include "launch/launch_wire.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

static_assert(sizeof(wire_cell) == 512, "8 cells make a piece of mpirun");

void wire_tell(int rank, wire_kind kind, const char *text, size_t n)
{
    wire_cell cell = {.mark = WIRE_MARK, .rank = rank, .kind = (int16_t)kind};
    do {
        size_t part = n < WIRE_TEXT ? n : WIRE_TEXT;
        cell.n = (int16_t)part;
        memcpy(cell.text, text, part);
        if (write(STDERR_FILENO, &cell, sizeof cell) < 0)
            return;
        text += part;
        n -= part;
    } while (n > 0);
}

static void drop(buf *bytes, size_t n)
{
    memmove(bytes->data, bytes->data + n, bytes->len - n + 1);
    bytes->len -= n;
}

/* The number of bytes before the first mark, or before the beginning of one at the end. */
static size_t before_mark(const buf *bytes, bool all)
{
    const size_t size = sizeof WIRE_MARK - 1;
    for (size_t i = 0; i < bytes->len; i++) {
        size_t rest = bytes->len - i;
        if (memcmp(bytes->data + i, WIRE_MARK, rest < size ? rest : size) == 0 &&
            (rest >= size || !all))
            return i;
    }
    return bytes->len;
}

bool wire_take(buf *bytes, wire_cell *out, buf *log, bool all)
{
    size_t n = before_mark(bytes, all);
    if (n > 0) {
        buf_put(log, bytes->data, n);
        drop(bytes, n);
    }
    if (bytes->len < sizeof *out)
        return false;
    memcpy(out, bytes->data, sizeof *out);
    drop(bytes, sizeof *out);
    return out->n >= 0 && out->n <= WIRE_TEXT;
}
