/* csv: what is written reads back equal; every kind of malformed file has its text. */
#include "test.h"

#include "../csv_text.h"
#include "test_io.h"

static kv_array *read_text(const char *text, const csv_options *o)
{
    return MADE(kv_array, csv_read_text, text, strlen(text), "x.csv", o);
}

/* The file as an array, shown as the CSV that csv_write_array makes of it. */
static void check_read(const char *text, const csv_options *o, const char *want)
{
    own_array *a = read_text(text, o);
    own_buf b = {0};
    CHECK_OK(csv_write_array(&b, a, &e));
    CHECK_TEXT(buf_text(&b), want);
}

static void check_error(const char *text, size_t n, const csv_options *o, const char *want)
{
    kv_array *a = NULL;
    CHECK_ERR(csv_read_text(&a, text, n, "x.csv", o, &e), KV_E_FORMAT, want);
    CHECK(!a);
}

TEST(csv_reads)
{
    check_read("1,2,3\n4,5,6\n", NULL, "1,2,3\n4,5,6\n");
    check_read("1,2,3\n4,5,6", NULL, "1,2,3\n4,5,6\n");
    check_read("1\r\n2\r\n\r\n", NULL, "1\n2\n");
    check_read("1\r2\r", NULL, "1\n2\n");
    check_read("\n1,2\n\n \t \n3,4\n\n\n5,6", NULL, "1,2\n3,4\n5,6\n");
    check_read("\r\n\r\nx,y\r\n\r\n1,2\r\n\r\n\r\n3,4\r\n", NULL, "1,2\n3,4\n");
    check_read("x,y\n\n1,2\n\n3,4\n",
               &(csv_options){.columns = &(csv_column){.number = 1}, .ncolumns = 1}, "2\n4\n");
    check_read("1\n\n3\n", &(csv_options){.fills = true, .filler = 0}, "1\n3\n");
    check_read("\xEF\xBB\xBF 1 ,\t2\n\n\n", NULL, "1,2\n");
    check_read("+2,.3e1,3.,nan,inf,-Inf,-0,true,False\n", NULL, "2,3,3,nan,inf,-inf,-0.0,1,0\n");
    check_read("\"1\",\" 2\" , 3\n", &(csv_options){.header = -1}, "1,2,3\n");
    check_read("x,y\n1,2\n", NULL, "1,2\n");
    check_read(",y\n1,2\n", NULL, "1,2\n");
    check_read("\"a\nb\",y\n1,2\n", NULL, "1,2\n");
    check_read("# a comment\n1\n", NULL, "1\n");
    check_read("1,2\n3,4\n", &(csv_options){.header = 1}, "3,4\n");
    check_read("1\t 2\n", &(csv_options){.separator = '\t'}, "1,2\n");
    check_read("300,-1\n", &(csv_options){.has_dtype = true, .dtype = KV_INT32},
               "# shape=1,2 dtype=int32\n300,-1\n");
}

TEST(csv_comments)
{
    const csv_options o = {.comment = '#'}, blanks = {.comment = '#', .separator = ' '},
                      tabs = {.comment = '#', .separator = '\t', .fills = true};
    check_read("# x,y\n#\na,b\n1,2\r\n  # 7,8\n3,4\n#5,6", &o, "1,2\n3,4\n");
    check_read("# x\n 1  2\n # y\n3 4\n", &blanks, "1,2\n3,4\n");
    check_read("# x\n\t1\n", &tabs, "0,1\n");
    check_read("# shape=1 dtype=int8\n# x\n7\n", &o, "# shape=1 dtype=int8\n7\n");
    check_error("1,2\n# x\n3,y\n", 12, &o, "x.csv:3:2: \"y\" is not a number");
    /* within quotes # begins no comment, and 2 # x is a cell */
    check_read("\"a\n# b\",c\n1,2\n", &o, "1,2\n");
    check_error("1,2 # x\n", 8, &o, "x.csv:1:2: \"2 # x\" is not a number");
    /* longer than what the parser gets at a time */
    own_buf b = {0};
    buf_add(&b, "1\n#");
    for (int i = 0; i < 100000; i++)
        buf_add(&b, " 9");
    buf_add(&b, "\n2\n");
    check_read(buf_text(&b), &o, "1\n2\n");
}

TEST(csv_words_and_numbers)
{
    static const char *const words[] = {"x"};
    /* integers beyond 2^24 that float32 holds, or that it is written as */
    check_read("16777216,20000000,99999999999\n", &(csv_options){.has_dtype = true},
               "16777216,20000000,100000000000\n");
    check_read("16777216,-33554432,1e10\n", NULL, "16777216,-33554432,10000000000\n");
    check_read("8589934592,8589935000\n", NULL, "8589935000,8589935000\n");
    check_read("# dtype=float32\n123456789\n", NULL, "123456790\n");
    check_read("1;2\n3;4\n", &(csv_options){.separator = ';'}, "1,2\n3,4\n");
    check_read("1\t2\n\n3\t4\n", &(csv_options){.separator = '\t'}, "1,2\n3,4\n");
    check_read("\n1  2\n   \n3 4\n", &(csv_options){.separator = ' '}, "1,2\n3,4\n");
    check_read("  1 \t2\r\n3   4  \n", &(csv_options){.separator = ' '}, "1,2\n3,4\n");
    check_read("\"a b\" c\n1 2", &(csv_options){.separator = ' '}, "1,2\n");
    check_read("1,\nna,?\n", &(csv_options){.fills = true, .filler = -1}, "1,-1\n-1,-1\n");
    check_read("x,1\n,2\n",
               &(csv_options){.fills = true, .filler = 0, .missing = words, .nmissing = 1},
               "0,1\n0,2\n");
    check_error("1,2\nx,NA\n", 9, &(csv_options){.fills = true, .missing = words, .nmissing = 1},
                "x.csv:2:2: \"NA\" is not a number");
    /* the first line */
    check_read("# shape=4\n1,2,3,4\n", NULL, "# shape=4 dtype=float32\n1\n2\n3\n4\n");
    check_read("# shape=\n7\n", NULL, "# shape= dtype=float32\n7\n");
    check_read("\n \r\n# shape=1,2 dtype=int8\n\n1,2\n", NULL, "# shape=1,2 dtype=int8\n1,2\n");
    check_read("#dtype=int8  shape=1,2 \r\n1,2\n", NULL, "# shape=1,2 dtype=int8\n1,2\n");
    check_read("# shape=2,2\n1,2\n3,4\n", NULL, "1,2\n3,4\n");
    check_read("# shape=2,1,2 dtype=float16\na,b\n1,2\n3,0.1\n", NULL,
               "# shape=2,1,2 dtype=float16\n1,2\n3,0.1\n");
    check_read("# shape=0,3\n", NULL, "# shape=0,3 dtype=float32\n");
    check_read("# shape=0,3", NULL, "# shape=0,3 dtype=float32\n");
    check_read("\xEF\xBB\xBF# dtype=bool\n1,false\n", NULL, "# shape=1,2 dtype=bool\n1,0\n");
    check_read("# shape=1,2 dtype=int8\n1,2\n",
               &(csv_options){.has_dtype = true, .dtype = KV_FLOAT32}, "1,2\n");
}

TEST(csv_round_trip)
{
    uint64_t state = 12345;
    for (int d = 0; d < NDTYPES; d++) {
        for (int s = 0; s < NSHAPES; s++) {
            kv_array *a =
                io_random_array(all_dtypes[d], io_shapes[s].ndim, io_shapes[s].shape, &state);
            own_buf text = {0};
            CHECK_OK(csv_write_array(&text, a, &e));
            own_array *b = MADE(kv_array, csv_read_text, buf_text(&text), text.len, "x.csv", NULL);
            CHECK(io_same(a, b));
            kv_array_unref(a);
        }
    }
}

TEST(csv_stream)
{
    /* Larger than a piece, with a cell across every border. */
    uint64_t state = 99;
    kv_array *a = io_random_array(KV_FLOAT64, 2, (int64_t[]){3000, 7}, &state), *b = NULL;
    own_buf text = {0};
    CHECK_OK(csv_write_array(&text, a, &e));
    CHECK(text.len > 300000);
    FILE *f = fmemopen(text.data, text.len, "r");
    CHECK_OK(csv_read_stream(&b, f, "x.csv", NULL, &e));
    CHECK(io_same(a, b));
    kv_array_unref(b);
    fclose(f);

    f = fopen("/", "r");
    CHECK(f != NULL);
    CHECK_ERR(csv_read_stream(&b, f, "x.csv", NULL, &e), KV_E_IO,
              "cannot read \"x.csv\": Is a directory");
    fclose(f);
    kv_array_unref(a);
}

/* Reads columns: names, or numbers where a name is NULL. */
static int read_columns(kv_array **a, const char *text, const csv_column *columns, int64_t n,
                        int header, kv_err *e)
{
    csv_options o = {.columns = columns, .ncolumns = n, .header = (int8_t)header};
    *a = NULL;
    return csv_read_text(a, text, strlen(text), "x.csv", &o, e);
}

static void check_columns(const char *text, const csv_column *columns, int64_t n, int header,
                          const char *want)
{
    own_buf b = {0};
    own_array *a = MADE(kv_array, read_columns, text, columns, n, header);
    CHECK_OK(csv_write_array(&b, a, &e));
    CHECK_TEXT(buf_text(&b), want);
}

static void check_columns_error(const char *text, const csv_column *columns, int64_t n, int header,
                                kv_code code, const char *want)
{
    kv_array *a;
    CHECK_ERR(read_columns(&a, text, columns, n, header, &e), code, want);
    CHECK(!a);
}

TEST(csv_columns)
{
    static const char people[] = "name,age,\"body weight\"\nAda,36,60.5\nBob,,70\nEve,9,30\n";
    const csv_column weight[] = {{.name = "body weight"}};
    const csv_column last_two[] = {{.number = -1}, {.number = 2}, {.name = "body weight"}};
    check_columns(people, weight, 1, 0, "60.5\n70\n30\n");
    check_columns(people, last_two, 3, 0, "60.5,60.5,60.5\n70,70,70\n30,30,30\n");
    const csv_column swapped[] = {{.number = 2}, {.number = 0}};
    check_columns("1,2,3\n4,5,6", swapped, 2, 0, "3,1\n6,4\n");
    check_columns("1,2,3\n4,5,6", swapped, 2, -1, "3,1\n6,4\n");
    check_columns("1,2,3\n4,5,6", swapped, 2, 1, "6,4\n");
    check_columns("1,two,3\n4,five,6", swapped, 2, 0, "3,1\n6,4\n");
    check_columns("# shape=2,3 dtype=int8\n1,2,3\n4,5,6", swapped, 2, 0,
                  "# shape=2,2 dtype=int8\n3,1\n6,4\n");
    check_columns("# shape=0,3\n", swapped, 2, 0, "# shape=0,2 dtype=float32\n");
}

/* A comment before the header is one when a column of texts is chosen by a name that it has. */
TEST(csv_texts_by_name)
{
    const csv_text_column b = {.column = {.name = "b"}};
    check_read("# a,b\n1,x\n2,y\n1,x\n", &(csv_options){.texts = &b, .ntexts = 1},
               "1,0\n2,1\n1,0\n");
    check_read("a,b\nx,1\ny,2\n", &(csv_options){.every = CSV_CODES}, "0,1\n1,2\n");
}

static void check_fit(char *text, char separator, kv_array *a, const char *want)
{
    kv_err e = {0};
    FILE *f = fmemopen(text, strlen(text), "r");
    CHECK(f != NULL);
    int rc = csv_rows_fit(f, "x.csv", a, separator, &e);
    CHECK_TEXT(e.text, want);
    CHECK_INT(rc, *want ? KV_E_SHAPE : KV_OK);
    fclose(f);
}

/* Separators within quotes are none. */
TEST(csv_rows_fit_below_quotes)
{
    own_array *a = io_array(KV_FLOAT32, 2, (int64_t[]){1, 2}, (double[]){1, 2});
    check_fit((char[]){"\"a,b\",c\n"}, ',', a, "");
    check_fit((char[]){"a,\"b,c\"\n"}, ',', a, "");
    check_fit((char[]){"a;b,c\n"}, ';', a, "");
    check_fit((char[]){"\"a,b\"\n"}, ',', a, "\"x.csv\" has rows of 1 cells, this value has 2");
    check_fit((char[]){"a,\"b\",c\n"}, ',', a, "\"x.csv\" has rows of 3 cells, this value has 2");
}

TEST(csv_columns_errors)
{
    const csv_column age[] = {{.name = "age"}}, third[] = {{.number = 2}}, first[] = {{0}};
    check_columns_error("a,b\n1,2\n", age, 1, 0, KV_E_NAME, "x.csv has no column \"age\"");
    check_columns_error("age,age\n1,2\n", age, 1, 0, KV_E_NAME,
                        "x.csv has two columns called \"age\"");
    check_columns_error("1,2\n", age, 1, 0, KV_E_NAME,
                        "x.csv has no header, so no column is called \"age\"");
    check_columns_error("1,2\n", third, 1, 0, KV_E_INDEX,
                        "x.csv has 2 columns, there is no column 2");
    check_columns_error("a,b\n1,2\n3\n", first, 1, 0, KV_E_FORMAT,
                        "x.csv:3:2: the row has 1 cell, those above have 2");
    check_columns_error("a,b\n1,2\n3,4,5\n", first, 1, 0, KV_E_FORMAT,
                        "x.csv:3:3: the row has 3 cells, those above have 2");
    check_columns_error("a,b\n1,2\nx,4\n", first, 1, 0, KV_E_FORMAT,
                        "x.csv:3:1: \"x\" is not a number");
    check_columns_error("one,2\n", first, 1, 0, KV_E_FORMAT, "x.csv:1:1: \"one\" is not a number");
    check_columns_error("a,b\n", first, 1, 0, KV_E_FORMAT,
                        "x.csv: no row of numbers follows the header");
    check_columns_error("", first, 1, 0, KV_E_FORMAT, "x.csv: the file is empty");
    check_columns_error("# shape=4\n1,2,3,4\n", first, 1, 0, KV_E_SHAPE,
                        "x.csv has shape (4,), and columns need two axes");
    check_columns_error("# shape=2,2\n1,2,3,4\n", first, 1, 0, KV_E_FORMAT,
                        "x.csv: 1 rows of 4 numbers do not fit shape (2, 2)");
}

/* csv_write_stream of an array of n int32 rows of one. */
TEST(csv_write_stream)
{
    enum { ROWS = 100000 };
    char *text = NULL;
    size_t n = 0;
    own_array *a = MADE(kv_array, kv_array_new, KV_INT32, 2, (int64_t[]){ROWS, 1}, (kv_ctx){0});
    int32_t *data = array_data(a);
    for (int32_t i = 0; i < ROWS; i++)
        data[i] = i * 1001;
    FILE *f = open_memstream(&text, &n);
    CHECK_OK(csv_write_stream(f, a, "x.csv", NULL, &e));
    fclose(f);
    kv_array *b = MADE(kv_array, csv_read_text, text, n, "x.csv", NULL);
    CHECK(kv_array_same_shape(a, b) && memcmp(data, array_elements(b), 4 * ROWS) == 0);
    kv_array_unref(b);
    free(text);
    f = open_memstream(&text, &n);
    CHECK_OK(csv_write_stream(f, a, "x.tsv", &(csv_options){.header = -1, .separator = '\t'}, &e));
    fclose(f);
    CHECK(strncmp(text, "0\n1001\n", 7) == 0);
    free(text);
    f = fopen("/dev/full", "w");
    if (f) {
        CHECK_ERR(csv_write_stream(f, a, "x.csv", NULL, &e), KV_E_IO,
                  "cannot write \"x.csv\": No space left on device");
        fclose(f);
    }
}

TEST(csv_errors)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "x.csv: the file is empty"},
        {"\n\n", "x.csv: the file is empty"},
        {"a,b\n", "x.csv: no row of numbers follows the header"},
        {"a", "x.csv: no row of numbers follows the header"},
        {"1,2\n3,abc\n", "x.csv:2:2: \"abc\" is not a number"},
        {"1,abc\n3,4\n", "x.csv:1:2: \"abc\" is not a number"},
        {"a,b\n1,2\n3,x\n", "x.csv:3:2: \"x\" is not a number, in column \"b\""},
        {"\"a\nb\",c\n1,2\n3,x\n", "x.csv:4:2: \"x\" is not a number, in column \"c\""},
        {"123456789\n", "x.csv:1:1: float32 does not hold 123456789"},
        {"1\n-16777217\n", "x.csv:2:1: float32 does not hold -16777217"},
        {"1,2\n3\n", "x.csv:2:2: the row has 1 cell, those above have 2"},
        {"1,2\n3,4,5,6\n", "x.csv:2:3: the row has 4 cells, those above have 2"},
        {"1,2\n3,4,\n", "x.csv:2:3: the cell is empty"},
        {"1,,2\n", "x.csv:1:2: the cell is empty"},
        {",\n", "x.csv:1:1: the cell is empty"},
        {"\n1,2\n\n \t \n3,x\n", "x.csv:5:2: \"x\" is not a number"},
        {"1,2\r\n\r\n\r\n3\r\n", "x.csv:4:2: the row has 1 cell, those above have 2"},
        {"\n \n", "x.csv: the file is empty"},
        {"\n\n# dtype=int8\n1\n\n300\n", "x.csv:6:1: 300 does not fit int8"},
        {"\n# shape=-2\n1,2\n", "x.csv:2:1: \"shape=-2\" is not a shape"},
        {"x\n\n", "x.csv: no row of numbers follows the header"},
        {"# shape=3\n1\n\n2\n", "x.csv: 2 numbers do not fit shape (3,)"},
        {"1e999,2\n", "x.csv:1:1: 1e999 does not fit float32"},
        {"1,2\n1,-4e38\n", "x.csv:2:2: -4e38 does not fit float32"},
        {"# dtype=int8\n1\n300\n", "x.csv:3:1: 300 does not fit int8"},
        {"# dtype=int32\n2.5\n", "x.csv:2:1: 2.5 is not a whole number, as int32 needs"},
        {"1,2\n3,\"4\n", "x.csv:2:2: a quote is not closed"},
        {"1,2\n3,4\"4\n", "x.csv:2:2: a quote stands where none can be"},
        {"1 2\n", "x.csv: no row of numbers follows the header"},
        {"1,1 2\n", "x.csv:1:2: \"1 2\" is not a number"},
        {"1\n0123456789012345678901234567890123456789x\n",
         "x.csv:2:1: \"0123456789012345678901234567890123456789...\" is not a number"},
        {"# shape=2,3\n1,2\n", "x.csv: 2 numbers do not fit shape (2, 3)"},
        {"# shape=2\n", "x.csv: 0 numbers do not fit shape (2,)"},
        {"# shape=0\n1\n", "x.csv: 1 numbers do not fit shape (0,)"},
        {"# shape=4294967296,4294967296\n",
         "x.csv: 0 numbers do not fit shape (4294967296, 4294967296)"},
        {"# shape=2,\n1,2\n", "x.csv:1:1: \"shape=2,\" is not a shape"},
        {"# shape=-2\n1,2\n", "x.csv:1:1: \"shape=-2\" is not a shape"},
        {"# shape=a\n1,2\n", "x.csv:1:1: \"shape=a\" is not a shape"},
        {"# shape=99999999999999999999\n1\n",
         "x.csv:1:1: \"shape=99999999999999999999\" is not a shape"},
        {"# shape=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\n1\n",
         "x.csv:1:1: \"shape=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\" "
         "is not a "
         "shape"},
        {"# shape=1 dtype=flot32\n1\n", "x.csv:1:1: there is no dtype \"flot32\""},
        {"# shape=1 stype=x\n1\n", "x.csv:1:1: \"stype=x\" is neither a shape nor a dtype"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_error(cases[i].text, strlen(cases[i].text), NULL, cases[i].want);
    check_error("1,\0002\n", 5, NULL, "x.csv:1:2: the cell holds a NUL byte");
    check_error("a\0b\n1\n", 6, NULL, "x.csv:1:1: the cell holds a NUL byte");
    check_error("\0", 1, NULL, "x.csv:1:1: the cell holds a NUL byte");
    check_error("1\n2\0\n", 5, NULL, "x.csv:2:1: the cell holds a NUL byte");
    check_error("a,b\n1,2\n", 8, &(csv_options){.header = -1}, "x.csv:1:1: \"a\" is not a number");
    check_error("1,2\n", 4, &(csv_options){.header = 1},
                "x.csv: no row of numbers follows the header");
}

/* A header and the rows below it have as many cells, but for empty names at the end of a header. NA
 * and the like are not names. */
TEST(csv_header_of_another_length)
{
    static const char names[] =
        "load(\"x.csv\", header=true) passes over the first row, whatever it holds";
    static const struct {
        const char *text, *want, *hint;
    } cases[] = {
        {"a,b,c,d\n1,2,3\n", "x.csv:2:4: the row has 3 cells, the header has 4", names},
        {"a,b\n1,10,20\n2,30,40\n", "x.csv:2:3: the row has 3 cells, the header has 2", names},
        {"a,b\nr1,10,20\n", "x.csv:2:3: the row has 3 cells, the header has 2", names},
        {"A title\n1,2\n", "x.csv:2:2: the row has 2 cells, the header has 1",
         "load(\"x.csv\", decimal=\",\", sep=\";\") reads 1,5 as one number; header=true passes "
         "over a title"},
        {"a;b\n1,5;2\n", "x.csv:2:2: \"5;2\" is not a number",
         "load(\"x.csv\", sep=\";\", decimal=\",\")"},
        {"1,5;2,5\n3;4\n", "x.csv:1:2: \"5;2\" is not a number",
         "load(\"x.csv\", sep=\";\", decimal=\",\")"},
        {"a;b\n\"1,5\";\"2\"\n", "x.csv:2:1: a quote stands where none can be",
         "load(\"x.csv\", sep=\";\", decimal=\",\")"},
        {"a;b\n\"x\";\"2\"\n", "x.csv:2:1: a quote stands where none can be",
         "load(\"x.csv\", sep=\";\")"},
        {"1,\n2,3\n", "x.csv:1:2: the cell is empty",
         "load(\"x.csv\", missing=nan) reads it as nan; missing=0 fills it"},
        {"NA,NA\n1,2\n", "x.csv:1:1: \"NA\" is not a number",
         "load(\"x.csv\", missing=nan) reads it as nan"},
        {"-,?\n1,2\n", "x.csv:1:1: \"-\" is not a number",
         "load(\"x.csv\", missing=nan) reads it as nan"},
        {"# x,y\nz,2\n3,1\n", "x.csv:2:1: \"z\" is not a number",
         "load(\"x.csv\", comment=\"#\") passes over line 1, which begins with #"},
        {"#x,y\nz,2\n3,1\n", "x.csv:2:1: \"z\" is not a number",
         "load(\"x.csv\", cats=[0]) makes codes of its texts; cols=[1] leaves it out"},
        {"# a title\n1,2,3\n4,5,x\n", "x.csv:3:3: \"x\" is not a number",
         "load(\"x.csv\", cats=[2]) makes codes of its texts; cols=[0, 1] leaves it out"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        e = (kv_err){0};
        kv_array *a = NULL;
        int code = csv_read_text(&a, cases[i].text, strlen(cases[i].text), "x.csv", NULL, &e);
        CHECK_TEXT(e.hint, cases[i].hint);
        CHECK_FAILED(code, KV_E_FORMAT, cases[i].want);
    }
    const csv_column b[] = {{.name = "b"}}, first[] = {{0}, {.number = 1}};
    check_columns("# a title\n1,2,3\n4,5,x\n", first, 2, 0, "1,2\n4,5\n");
    check_columns("# a title\na,b,c\n1,2,3\n", first, 2, 0, "1,2\n");
    check_columns("# a title\n1,2,3\n4,5,x\n", first, 2, 1, "1,2\n4,5\n");
    check_columns_error("a,b\n1,10,20\n", b, 1, 0, KV_E_FORMAT,
                        "x.csv:2:3: the row has 3 cells, the header has 2");
    check_columns_error("a,b,c\n1,10\n", b, 1, 0, KV_E_FORMAT,
                        "x.csv:2:3: the row has 2 cells, the header has 3");
    check_read("a,b,\n1,2\n", NULL, "1,2\n");
    check_read("A title\n1,2\n", &(csv_options){.header = 1}, "1,2\n");
    check_read("# a title\n1,2\n", NULL, "1,2\n");
    check_read("None,a\n1,2\n", NULL, "1,2\n");
}

TEST(csv_no_memory)
{
    static const char text[] = "# shape=2,3,2 dtype=float64\n1,2\n3,4\n5,6\n7,8\n9,10\n11,12\n";
    own_array *a = NULL;
    bool cell = false;
    EACH_FAILURE(csv_read_text(&a, text, strlen(text), "x.csv", NULL, &e))
        cell |= strcmp(e.text, "x.csv:2:1: out of memory for a cell") == 0;
    CHECK(cell);
}
