/* Messages of watchers to launch: cells between words of mpirun, in pieces of any size. */
#include <unistd.h>

#include "launch/launch_attempt.h"
#include "launch/launch_folder.h"
#include "test.h"

static void add_cell(buf *b, int number, wire_kind kind, const char *text)
{
    wire_cell cell = {.mark = WIRE_MARK, .rank = number, .kind = (int16_t)kind};
    cell.n = (int16_t)strlen(text);
    memcpy(cell.text, text, strlen(text));
    buf_put(b, (const char *)&cell, sizeof cell);
}

/* Takes the bytes in pieces of a size, and writes down what comes out. */
static void read_pieces(const buf *all, size_t size, buf *cells, buf *log)
{
    own_buf bytes = {0};
    wire_cell cell;
    for (size_t at = 0; at < all->len; at += size) {
        bool last = at + size >= all->len;
        buf_put(&bytes, all->data + at, last ? all->len - at : size);
        while (wire_take(&bytes, &cell, log, last))
            buf_printf(cells, "%d%c%.*s ", (int)cell.rank, cell.kind, cell.n, cell.text);
    }
}

TEST(wire_cells_between_words)
{
    own_buf all = {0};
    buf_add(&all, "mpirun: a word\n");
    add_cell(&all, 0, WIRE_OUT, "one\n");
    add_cell(&all, 1, WIRE_EVENT, "1 exit 0");
    buf_add(&all, "\1\2kv no mark\n");
    add_cell(&all, 2, WIRE_LOST, "2 why");
    add_cell(&all, 3, WIRE_ERR, "");
    buf_add(&all, "the end\1\2kv");
    for (size_t size = 1; size < 700; size += size < 20 ? 1 : 97) {
        own_buf cells = {0}, log = {0};
        read_pieces(&all, size, &cells, &log);
        CHECK_TEXT(buf_text(&cells), "0oone\n 1v1 exit 0 2l2 why 3e ");
        CHECK_TEXT(buf_text(&log), "mpirun: a word\n\1\2kv no mark\nthe end\1\2kv");
    }
}

/* A cell says of which rank it is; a line about another one is no line of its watcher. */
TEST(wire_event_of_another_rank)
{
    launch_options o = {.by = LAUNCH_SSH, .workers = 2, .deadline = 10};
    rank ranks[2];
    job j = {.o = &o, .n = 2, .ranks = ranks, .heard = -1, .early = -1};
    own_buf all = {0};
    memset(ranks, 0, sizeof ranks);
    CHECK_OK(output_begin(&j.output, 2, 0, &e));
    add_cell(&all, 0, WIRE_EVENT, "7 exit 3");
    add_cell(&all, 0, WIRE_EVENT, "-1 exit 0");
    attempt_take(&j, all.data, all.len, true);
    CHECK(j.end_ms == 0 && j.early == -1 && !ranks[0].ended && !ranks[1].ended);
    buf_clear(&all);
    add_cell(&all, 0, WIRE_EVENT, "0 exit 0");
    attempt_take(&j, all.data, all.len, true);
    CHECK(j.early == 0 && ranks[0].ended && !ranks[1].ended);
    output_release(&j.output);
    buf_release(&j.bytes);
    buf_release(&j.log);
}

/* What a watcher tells, by way of a file. */
static void tell(buf *told, int number, const char *text, size_t n)
{
    char block[4096];
    size_t got;
    FILE *f = tmpfile();
    int kept = dup(STDERR_FILENO);
    CHECK(f && kept >= 0);
    dup2(fileno(f), STDERR_FILENO);
    wire_tell(number, WIRE_OUT, text, n);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(f);
    while ((got = fread(block, 1, sizeof block, f)) > 0)
        buf_put(told, block, got);
    fclose(f);
}

static void check_lines(int number, const char *text, size_t n)
{
    own_buf told = {0}, came = {0}, log = {0};
    wire_cell cell;
    tell(&told, number, text, n);
    CHECK(told.len > n && told.len % sizeof cell == 0);
    for (size_t at = 0; at < told.len; at += sizeof cell)
        CHECK(memchr(told.data + at, '\n', sizeof cell) == told.data + at + sizeof cell - 1);
    while (wire_take(&told, &cell, &log, false)) {
        CHECK(cell.rank == number && cell.kind == WIRE_OUT);
        buf_put(&came, cell.text, (size_t)cell.n);
    }
    CHECK(came.len == n && memcmp(came.data, text, n) == 0);
    CHECK(log.len == 0);
}

/* Open MPI 5 passes on whole lines. Ranks 10 and 2570 have newlines in their number, and so have
 * texts of 10 and of 266 bytes. */
TEST(wire_cell_is_a_line)
{
    static const int ranks[] = {0, 10, 2570};
    static const size_t sizes[] = {1, 9, 10, 11, 265, 266, 267, WIRE_TEXT, WIRE_TEXT + 10, 3000};
    char text[3000];
    for (size_t i = 0; i < sizeof text; i++) /* all bytes in each cell, and many newlines */
        text[i] = (char)(i % 7 == 3 ? '\n' : i % 256);
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            check_lines(ranks[i], text, sizes[j]);
}
