/* Cells are looked for by their mark, because mpirun writes between them. */
#include "launch/launch_wire.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

static_assert(sizeof(wire_cell) == 512, "8 cells make a piece of mpirun");

static void replace(wire_cell *cell, char what, char by)
{
    char *at = (char *)cell + sizeof cell->mark, *end = &cell->newline;
    while (at < end && (at = memchr(at, what, (size_t)(end - at))))
        *at++ = by;
}

/* Finds a byte that the cell does not have, and writes it for newlines. Returns false if the cell
 * has all bytes. */
static bool make_line(wire_cell *cell)
{
    const char *from = (const char *)cell + sizeof cell->mark;
    const size_t n = sizeof *cell - sizeof cell->mark - 2;
    cell->end = '\n';
    cell->newline = 0;
    if (!memchr(from, '\n', n))
        return true;
    for (int c = 1; c < 256 && !cell->newline; c++)
        cell->newline = (char)(memchr(from, c, n) ? 0 : c);
    replace(cell, '\n', cell->newline);
    return cell->newline;
}

/* Makes a cell of the first bytes of a text, of few if it would have all bytes otherwise. Returns
 * how many they are; the cell has other bytes for newlines then, also in its numbers. */
static size_t make_cell(wire_cell *cell, int rank, wire_kind kind, const char *text, size_t n)
{
    enum { FEW = 128 };
    for (size_t most = WIRE_TEXT;; most = FEW) {
        size_t part = n < most ? n : most;
        *cell = (wire_cell){.mark = WIRE_MARK, .rank = rank, .kind = (int16_t)kind,
                            .n = (int16_t)part};
        memcpy(cell->text, text, part);
        if (make_line(cell))
            return part;
    }
}

void wire_tell(int rank, wire_kind kind, const char *text, size_t n)
{
    do {
        wire_cell cell;
        size_t part = make_cell(&cell, rank, kind, text, n);
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
    if (out->newline)
        replace(out, out->newline, '\n');
    return out->n >= 0 && out->n <= WIRE_TEXT;
}
