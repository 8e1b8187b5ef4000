/* buf: texts grow, and a failure is remembered. */
#include "test.h"

TEST(buf_grows)
{
    buf b = {0};
    CHECK_TEXT(buf_text(&b), "");
    buf_put(&b, "", 0);
    CHECK_TEXT(buf_text(&b), "");
    buf_add(&b, "one");
    buf_char(&b, ' ');
    buf_repeat(&b, '=', 3);
    buf_repeat(&b, '=', -3);
    buf_printf(&b, " %d %s", 42, "two");
    CHECK_TEXT(buf_text(&b), "one === 42 two");
    buf_put(&b, "\0x", 2);
    CHECK_INT(b.len, 16);
    CHECK_INT(b.data[15], 'x');
    buf_clear(&b);
    CHECK_TEXT(buf_text(&b), "");
    for (int i = 0; i < 5000; i++)
        buf_printf(&b, "%04d,", i);
    CHECK_INT(b.len, 25000);
    CHECK(memcmp(b.data + 24990, "4998,4999,", 11) == 0);
    buf_clear(&b);
    char *room = buf_room(&b, 3);
    room[0] = 'h';
    room[1] = 'i';
    buf_grew(&b, 2);
    CHECK_TEXT(buf_text(&b), "hi");
    CHECK_OK(buf_check(&b, &e));
    buf_release(&b);
    CHECK(!b.data && b.len == 0);
}

TEST(buf_remembers_failure)
{
    own_buf b = {0};
    buf_add(&b, "kept");
    char line[300];
    memset(line, 'x', 299);
    line[299] = '\0';
    mem_fail_at(1);
    buf_add(&b, line);
    mem_fail_at(0);
    buf_add(&b, "lost");
    buf_printf(&b, "%d", 1);
    buf_repeat(&b, 'z', 2);
    CHECK_TEXT(buf_text(&b), "kept");
    CHECK_ERR(buf_check(&b, &e), KV_E_MEMORY, "out of memory for a text of more than 4 bytes");
    buf_clear(&b);
    buf_add(&b, "again");
    CHECK_OK(buf_check(&b, &e));
    CHECK_TEXT(buf_text(&b), "again");
}
