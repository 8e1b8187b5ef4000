/* CSV text, with the options that the first byte draws, whole and as a stream. What is read is
 * written and reads back equal. */
#include "fuzz.h"

#include <stdio.h>
#include <string.h>

#include "../csv_text.h"
#include "io/csv.h"

/* Columns of texts and other notations, by one byte more. */
static void draw_texts(fuzz_bytes *in, csv_options *o, csv_text_column texts[2])
{
    static const char *const known[] = {"a", "b", "1"};
    static const char marks[] = {0, ',', '.', '\''};
    unsigned what = fuzz_draw(in, 256);
    o->decimal = marks[what % 3];
    o->thousands = marks[what / 3 % 4];
    o->every = (csv_kind)(what / 12 % 3);
    o->percent = what & 128;
    texts[0] = (csv_text_column){.column.number = (int64_t)(what / 36 % 3) - 1, .onehot = what & 1};
    texts[1] = (csv_text_column){.column.name = "b", .texts = known, .ntexts = 3};
    o->texts = texts;
    o->ntexts = what % 3;
}

static csv_options draw_options(fuzz_bytes *in, csv_column columns[2], csv_text_column texts[2])
{
    static const char separators[] = {0, ';', '\t', ' '};
    unsigned what = fuzz_draw(in, 256);
    csv_options o = {.separator = separators[what % 4], .header = (int8_t)(what / 4 % 3 - 1)};
    o.fills = what & 16;
    o.filler = -1;
    if (what & 32) {
        o.has_dtype = true;
        o.dtype = fuzz_dtype(in);
    }
    if (what & 64) {
        columns[0] = (csv_column){.number = (int64_t)fuzz_draw(in, 8) - 4};
        columns[1] = (csv_column){.name = "a"};
        o.columns = columns;
        o.ncolumns = 1 + (what >> 7);
    }
    if ((what & 3) == 2 && in->at < in->end)
        draw_texts(in, &o, texts);
    return o;
}

static void write_and_read(kv_array *a)
{
    kv_err e = {0};
    buf once = {0}, twice = {0};
    kv_array *again = NULL;
    HOLDS(csv_write_array(&once, a, &e) == KV_OK, e.text);
    HOLDS(csv_read_text(&again, buf_text(&once), once.len, "x.csv", NULL, &e) == KV_OK, e.text);
    HOLDS(csv_write_array(&twice, again, &e) == KV_OK, e.text);
    HOLDS(strcmp(buf_text(&once), buf_text(&twice)) == 0, "it reads back equal");
    kv_array_unref(again);
    buf_release(&once);
    buf_release(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_bytes in = {data, data + n};
    csv_column columns[2];
    csv_text_column texts[2];
    csv_options o = draw_options(&in, columns, texts);
    size_t left = (size_t)(in.end - in.at);
    kv_array *a = NULL;
    kv_err e = {0};
    int code = csv_read_text(&a, (const char *)in.at, left, "x.csv", &o, &e);
    if (fuzz_result(code, &e)) {
        write_and_read(a);
        kv_array_unref(a);
    }
    return 0;
}
