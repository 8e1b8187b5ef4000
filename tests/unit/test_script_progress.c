/* The line that tells how far work has come, and the label of a large paste. */
#include "test.h"

#include "term/keys.h"
#include "term/terminal.h"

TEST(script_progress_line)
{
    static const struct {
        int64_t done, total;
        progress_unit unit;
        double seconds;
        int columns;
        const char *line;
    } cases[] = {
        {0, 100, PROGRESS_TIMES, 1, 0, "load 0%  0.0/s"},
        {52, 100, PROGRESS_TIMES, 13, 0, "load 52%  4.0/s  ETA 0:12"},
        {52, 100, PROGRESS_TIMES, 13, 40, "load [======>     ] 52%  4.0/s  ETA 0:12"},
        {100, 100, PROGRESS_TIMES, 10, 38, "load [==========] 100%  10/s  ETA 0:00"},
        {4400000000, 8460000000, PROGRESS_BYTES, 4, 80,
         "load [===============>              ] 52% of 8.5 GB  1.1 GB/s  ETA 0:04"},
        {4400000000, 8460000000, PROGRESS_BYTES, 4, 30, "load 52% of 8.5 GB  1.1 GB/s"},
        {4400000000, 8460000000, PROGRESS_BYTES, 4, 20, "load 52% of 8.5 GB"},
        {4400000000, 8460000000, PROGRESS_BYTES, 4, 17, "load 52%"},
        {1500, 0, PROGRESS_BYTES, 3, 80, "load 1.5 KB  500 B/s"},
        {1, 100000, PROGRESS_TIMES, 2, 0, "load 0%  0.5/s  ETA 55:33:18"},
        {1, 1000, PROGRESS_TIMES, 4, 0, "load 0%  0.2/s  ETA 1:06:36"},
        {52, 100, PROGRESS_TIMES, 13, 16, "load 52%  4.0/s"},
        {52, 100, PROGRESS_TIMES, 13, 12, "load 52%"},
        {120, 100, PROGRESS_TIMES, 10, 0, "load 100%  12/s  ETA 0:00"},
        {9223372036854775807, 9223372036854775807, PROGRESS_BYTES, 1, 0,
         "load 100% of 9223372 TB  9223372 TB/s  ETA 0:00"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        own_buf line = {0};
        progress_line(&line, "load", cases[i].done, cases[i].total, cases[i].unit, cases[i].seconds,
                      cases[i].columns);
        CHECK_TEXT(buf_text(&line), cases[i].line);
    }
}

TEST(script_paste_labels)
{
    own_buf line = {0}, all = {0};
    CHECK(!paste_any());
    CHECK_TEXT(paste_keep("print 1\nprint 2", 15), "[pasted 2 lines, 15 bytes]");
    CHECK_TEXT(paste_keep("", 0), "[pasted 2: 0 lines, 0 bytes]");
    CHECK_TEXT(paste_keep("[pasted 2 lines, 15 bytes]\n", 27), "[pasted 3: 1 line, 27 bytes]");
    CHECK_TEXT(paste_add("x\ny", 3), "[pasted 3: 3 lines, 30 bytes]");
    CHECK_TEXT(paste_label(), "[pasted 3: 3 lines, 30 bytes]");
    paste_expand(&line, "a[0] [pasted 2 lines, 15 bytes] [pasted 2: 0 lines, 0 bytes]"
                        "[pasted 3: 3 lines, 30 bytes][past");
    CHECK_TEXT(buf_text(&line), "a[0] print 1\nprint 2 [pasted 2 lines, 15 bytes]\nx\ny[past");
    buf_clear(&line);
    char *large = mem_zalloc(12000000, 1, NULL);
    CHECK(large != NULL);
    memset(large, 'x', 12000000);
    CHECK_TEXT(paste_keep(large, 12000), "[pasted 4: 1 line, 12 KB]");
    CHECK_TEXT(paste_add(large, 11988000), "[pasted 4: 1 line, 12 MB]");
    paste_expand(&all, "[pasted 4: 1 line, 12 MB]");
    CHECK_INT(all.len, 12000000);
    mem_free(large);
    paste_forget();
    CHECK(!paste_any());
    paste_expand(&line, "[pasted 2 lines, 15 bytes]");
    CHECK_TEXT(buf_text(&line), "[pasted 2 lines, 15 bytes]");
}
