/* Texts of a table, and numbers in another notation: lib/io/csv_cell.c. */
#include "io/csv_cell.h"

#include "io/csv.h"
#include "test.h"

TEST(csv_cell_numbers)
{
    static const struct {
        char decimal, thousands;
        const char *text, *want; /* NULL: not a number */
    } cases[] = {
        {',', 0, "22,5", "22.5"},        {',', 0, "-0,5e3", "-0.5e3"},
        {',', 0, "22.5", NULL},          {',', '.', "1.234.567,8", "1234567.8"},
        {',', '.', "1.23", NULL},        {',', '.', "1.234.", NULL},
        {',', '.', ".234", NULL},        {',', '.', "1..234", NULL},
        {',', '.', "1,5.234", NULL},     {'.', ',', "+1,234.5", "+1234.5"},
        {'.', ',', "1234,567", NULL},    {'.', ',', "1,234,56", NULL},
        {'.', ',', "1,234e2", "1234e2"}, {'.', ',', "12", "12"},
        {'.', ' ', "12 345", "12345"},   {'.', ',', "", NULL},
        {'.', ',', ",", NULL},           {'.', ',', "-,123", NULL},
        {'.', 0, "12.5%", "12.5e-2"},    {'.', 0, "-3 %", "-3e-2"},
        {',', '.', "1.234,5\xc2\xa0%", "1234.5e-2"},
        {',', 0, "12,5\xe2\x80\xaf%", "12.5e-2"},
        {'.', 0, "1e2%", NULL},
        {'.', 0, "%", NULL},
    };
    csv_options semicolons = {.separator = ';'}, commas = {.separator = ','};
    csv_options thousands = {.separator = ',', .thousands = ','};
    own_buf out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i].text;
        bool right = csv_plain_number(&out, cases[i].decimal, cases[i].thousands, true, text,
                                      strlen(text)) &&
                     !strchr(buf_text(&out), '%');
        CHECK_INT(right, cases[i].want != NULL);
        if (right)
            CHECK_TEXT(buf_text(&out), cases[i].want);
    }
    CHECK_TEXT(csv_notation(&out, &semicolons, "22,5", 4), "decimal=\",\"");
    CHECK_TEXT(csv_notation(&out, &commas, "22,5", 4), "decimal=\",\"");
    CHECK_TEXT(csv_notation(&out, &semicolons, "1,234", 5), "decimal=\",\"");
    CHECK_TEXT(csv_notation(&out, &commas, "1,234", 5), "thousands=\",\"");
    CHECK_TEXT(csv_notation(&out, &commas, "12.5%", 5), "percent=true");
    CHECK_TEXT(csv_notation(&out, &semicolons, "12,5 %", 6), "decimal=\",\", percent=true");
    CHECK_TEXT(csv_notation(&out, &commas, "1,234%", 6), "thousands=\",\", percent=true");
    CHECK(!csv_notation(&out, &commas, "1e3%", 4));
    CHECK(!csv_notation(&out, &thousands, "12,34", 5));
    CHECK(!csv_notation(&out, &commas, "a%", 2));
    CHECK(!csv_notation(&out, &commas, "%", 1));
    CHECK_TEXT(csv_notation(&out, &commas, "1,234.5", 7), "thousands=\",\"");
    CHECK_TEXT(csv_notation(&out, &semicolons, "1.234,5", 7), "decimal=\",\", thousands=\".\"");
    CHECK(!csv_notation(&out, &semicolons, "a,b", 3));
}

TEST(csv_cell_labels)
{
    csv_labels l[2] = {{0}, {.kind = CSV_ONEHOT}};
    char *data = mem_alloc(4, 2, &e);
    int64_t width;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(csv_labels_add(&l[1], i ? "a" : "b", 1, &e));
        data[2 * i] = (char)(7 + i);
    }
    CHECK_ERR(csv_labels_add(&l[1], "\xff", 1, &e), KV_E_FORMAT, "the text is not UTF-8");
    CHECK_OK(csv_labels_spread(l, 2, 2, KV_INT8, 0, &data, &width, "x.csv", &e));
    CHECK_INT(width, 3);
    CHECK(memcmp(data, "\7\0\1\10\1\0", 6) == 0);
    l[1].kind = CSV_CODES;
    l[1].rows[0] = 128;
    l[1].fixed = true;
    CHECK_ERR(csv_labels_spread(l, 2, 2, KV_INT8, 0, &data, &width, "x.csv", &e), KV_E_FORMAT,
              "x.csv: the code 128 of a text does not fit int8");
    char text[90], want[160];
    memset(text, 'y', sizeof text);
    snprintf(want, sizeof want, "\"%.80s\" is none of the texts given for its column", text);
    CHECK_ERR(csv_labels_add(&l[1], text, sizeof text, &e), KV_E_FORMAT, want);
    l[1].kind = CSV_ONEHOT;
    l[1].n = INT64_MAX / 2;
    CHECK_ERR(csv_labels_spread(l, 2, 4, KV_INT8, 0, &data, &width, "x.csv", &e), KV_E_MEMORY,
              "x.csv: its texts make too many columns");
    mem_free(data);
    csv_labels_release(&l[1]);
}
