/* json: what is written reads back equal; every kind of malformed file has its text and place. */
#include "test.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "io/json.h"
#include "test_io.h"

/* The text as an array, shown as the JSON that json_write makes of it. */
static void check_read(const char *text, const char *want)
{
    own_buf b = {0};
    own_array *a = MADE(kv_array, json_read, text, strlen(text), "x.json", false, 0);
    CHECK_OK(json_write(&b, a, &e));
    CHECK_TEXT(buf_text(&b), want);
}

TEST(json_reads_row_sparse)
{
    static const char *const same[] = {
        "{\"dtype\":\"float32\",\"shape\":[5,2],\"stype\":\"row_sparse\",\"row_ids\":[1,4],"
        "\"data\":[[1,2],[0,\"nan\"]]}",
        "{\"dtype\":\"int64\",\"shape\":[3],\"stype\":\"row_sparse\",\"row_ids\":[2],"
        "\"data\":[\"9007199254740993\"]}",
        "{\"dtype\":\"float16\",\"shape\":[3,2,2],\"stype\":\"row_sparse\",\"row_ids\":[],"
        "\"data\":[]}",
        "{\"dtype\":\"int8\",\"shape\":[3,0],\"stype\":\"row_sparse\",\"row_ids\":[0,2],"
        "\"data\":[[],[]]}",
        "{\"dtype\":\"int8\",\"shape\":[0,3],\"stype\":\"row_sparse\",\"row_ids\":[],"
        "\"data\":[]}"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        check_read(same[i], same[i]);
    check_read("{\"data\":[[3]],\"row_ids\":[1],\"shape\":[2,1],\"stype\":\"row_sparse\"}",
               "{\"dtype\":\"float32\",\"shape\":[2,1],\"stype\":\"row_sparse\",\"row_ids\":[1],"
               "\"data\":[[3]]}");
}

TEST(json_reads)
{
    check_read("[[1,2],[3,4.5]]", "[[1,2],[3,4.5]]");
    check_read("\xEF\xBB\xBF [ 1 ,\r\n\t2 ]\n\n", "[1,2]");
    check_read("[\"nan\",\"inf\",\"-inf\",\"NaN\",-0,true,false,1e2,\"0.5\"]",
               "[\"nan\",\"inf\",\"-inf\",\"nan\",-0.0,1,0,100,0.5]");
    check_read("3", "{\"dtype\":\"float32\",\"shape\":[],\"data\":3}");
    check_read("[]", "{\"dtype\":\"float32\",\"shape\":[0],\"data\":[]}");
    check_read("[[],[]]", "{\"dtype\":\"float32\",\"shape\":[2,0],\"data\":[[],[]]}");
    check_read("[[[1]]]", "[[[1]]]");
    check_read("{\"data\":[1,2]}", "[1,2]");
    check_read("{\"dtype\":\"float32\",\"stype\":\"default\",\"shape\":[2,1],\"data\":[[1],[2]]}",
               "[[1],[2]]");
    check_read("{\"data\":[300,-1],\"dtype\":\"int32\"}",
               "{\"dtype\":\"int32\",\"shape\":[2],\"data\":[300,-1]}");
    check_read(
        "{\"dtype\":\"int64\",\"data\":[\"9007199254740993\",9007199254740992]}",
        "{\"dtype\":\"int64\",\"shape\":[2],\"data\":[\"9007199254740993\",9007199254740992]}");
    check_read("{\"dtype\":\"bool\",\"data\":[true,0]}",
               "{\"dtype\":\"bool\",\"shape\":[2],\"data\":[true,false]}");
    check_read("{\"shape\":[0,3],\"data\":[]}",
               "{\"dtype\":\"float32\",\"shape\":[0,3],\"data\":[]}");
    check_read("{\"shape\":[],\"data\":7,\"dtype\":\"int8\"}",
               "{\"dtype\":\"int8\",\"shape\":[],\"data\":7}");
}

TEST(json_dtype_of_the_caller)
{
    const char *text = "{\"dtype\":\"float32\",\"data\":[1,2]}";
    own_array *a = MADE(kv_array, json_read, text, strlen(text), "x.json", true, KV_INT8);
    CHECK_INT(kv_array_dtype(a), KV_INT8);
    kv_array_unref(a);
    CHECK_OK(json_read(&a, "[1]", 3, "x.json", true, KV_FLOAT64, &e));
    CHECK_INT(kv_array_dtype(a), KV_FLOAT64);
}

/* Releases a. */
static void check_round_trip(kv_array *a)
{
    own_buf text = {0};
    CHECK_OK(json_write(&text, a, &e));
    own_array *b = MADE(kv_array, json_read, buf_text(&text), text.len, "x.json", false, 0);
    CHECK(io_same(a, b));
    kv_array_unref(a);
}

TEST(json_round_trip)
{
    uint64_t state = 777;
    for (int d = 0; d < NDTYPES; d++)
        for (int s = 0; s < NSHAPES; s++)
            check_round_trip(
                io_random_array(all_dtypes[d], io_shapes[s].ndim, io_shapes[s].shape, &state));
    check_round_trip(io_random_array(KV_FLOAT32, 1, (int64_t[]){200000}, &state));
}

TEST(json_round_trip_halves)
{
    static const kv_dtype dtypes[] = {KV_FLOAT16, KV_BFLOAT16};
    for (int k = 0; k < 2; k++) {
        kv_dtype dtype = dtypes[k];
        kv_array *a = MADE(kv_array, kv_array_new, dtype, 1, (int64_t[]){65536}, (kv_ctx){0});
        uint16_t *data = array_data(a);
        for (int i = 0; i < 65536; i++) {
            data[i] = (uint16_t)i;
            if (isnan(scalar_float(dtype, data, i)))
                scalar_set(dtype, data, i, NAN);
        }
        check_round_trip(a);
    }
}

/* The element that a text becomes: in a list and in an object, which are read by two passes. */
static void check_element(const char *number, bool has_dtype, kv_dtype dtype, double want)
{
    static const char *const around[] = {"[%s]", "{\"data\":[%s]}", "{\"data\":[\"%s\"]}"};
    for (int i = 0; i < 3; i++) {
        char text[200];
        const void *data;
        snprintf(text, sizeof text, around[i], number);
        own_array *a = MADE(kv_array, json_read, text, strlen(text), "x.json", has_dtype, dtype);
        CHECK_OK(kv_array_read(a, &data, &e));
        double x = scalar_float(kv_array_dtype(a), data, 0);
        CHECK(memcmp(&x, &want, sizeof x) == 0);
    }
}

TEST(json_rounds_once)
{
    /* just above the middle of two numbers: as a double it is the middle, which goes to the even
     * one */
    check_element("1.00000005960464477539062500000001", false, 0, 0x1.000002p0);
    check_element("1.00000017881393432617187499999999", false, 0, 0x1.000002p0);
    check_element("16777217.0000000000000001", false, 0, 16777218);
    check_element("1.00048828125000000001", true, KV_FLOAT16, 1.0009765625);
    check_element("1.00390625000000000000001", true, KV_BFLOAT16, 1.0078125);
    check_element("9007199254740993.0000000001", true, KV_FLOAT64, 9007199254740994.0);
    check_element("0.1", true, KV_FLOAT64, 0.1);
}

TEST(json_whole_numbers)
{
    static const char *const kept[] = {"16777218", "-16777216", "123456790", "1e20",
                                       "100000000000000000000", "18446744073709551616",
                                       "16777217.0"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        check_element(kept[i], false, 0, (double)strtof(kept[i], NULL));
    check_element("16777217", true, KV_FLOAT32, 16777216);
    static const struct {
        const char *text, *file, *want, *hint;
    } cases[] = {
        {"[16777217]", "x.json", "1:2: float32 does not hold 16777217", "int64"},
        {"[[1,2],[3,-1491926160718000001]]", "x.json",
         "1:11: float32 does not hold -1491926160718000001", "int64"},
        {"{\"data\":[1, 16777217]}", "x.json", "1:13: float32 does not hold 16777217", "int64"},
        {"[\"9007199254740993\"]", "x.json", "1:2: float32 does not hold 9007199254740993",
         "int64"},
        {"[100000000000000000001]", "x.json", "1:2: float32 does not hold 100000000000000000001",
         "float64"},
        {"16777217", "stdin", "1:1: float32 does not hold 16777217", "int64"},
    };
    own_array *a = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[80], hint[80];
        const char *file = cases[i].file, *text = cases[i].text;
        snprintf(want, sizeof want, "%s:%s", file, cases[i].want);
        snprintf(hint, sizeof hint, "load(\"%s\", dtype=\"%s\")", *file == 's' ? "-" : file,
                 cases[i].hint);
        int code = json_read(&a, text, strlen(text), file, false, 0, &e);
        CHECK_TEXT(e.hint, hint);
        CHECK_FAILED(code, KV_E_FORMAT, want);
        CHECK(!a);
    }
    static const char object[] = "{\"dtype\":\"float32\",\"data\":[16777217]}";
    CHECK_OK(json_read(&a, object, strlen(object), "x.json", false, 0, &e));
}

/* A text that is not read, and the error. */
typedef struct refusal {
    const char *text, *want;
} refusal;

static void are_refused(const refusal *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        kv_array *a = NULL;
        CHECK_ERR(json_read(&a, cases[i].text, strlen(cases[i].text), "x.json", false, 0, &e),
                  KV_E_FORMAT, cases[i].want);
        CHECK(!a);
    }
}

/* What RFC 8259 does not know. */
TEST(json_grammar)
{
    static const char *const numbers[] = {"-01", "012", "1.",   "-.5", "2.e3", "-1.",   "00",
                                          "1.e", "1e",  "1.5e", "1e+", "-012", "1e5.2", "1.2.3"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        for (int object = 0; object < 2; object++) {
            char text[80];
            e = (kv_err){0};
            kv_array *a = NULL;
            snprintf(text, sizeof text, object ? "{\"dtype\":\"float64\",\"data\":[%s]}" : "[%s]",
                     numbers[i]);
            CHECK_INT(json_read(&a, text, strlen(text), "x.json", false, 0, &e), KV_E_FORMAT);
        }
    }
    static const refusal cases[] = {
        {"[1, 012]", "x.json:1:5: 012 is not a number of JSON"},
        {"{\"data\":[2.e3 ]}", "x.json:1:10: 2.e3 is not a number of JSON"},
        {"[1,\f2]", "x.json:1:4: the byte \\x0c cannot stand here"},
        {"[1]\v", "x.json:1:4: the byte \\x0b cannot stand here"},
        {"{\"shape\":[01],\"data\":[1]}", "x.json:1:11: 01 is not a number of JSON"},
    };
    are_refused(cases, sizeof cases / sizeof *cases);
}

TEST(json_through_a_double)
{
    /* The shortest digits of this number, 7.038531e-26, lie just above the middle to its neighbour,
     * and their double is that middle: a reader would round it the other way. */
    own_array *a = io_array(KV_FLOAT32, 1, (int64_t[]){2}, (double[]){0x1.5c87fap-84, 0.1f});
    char shortest[NUM_TEXT_MAX];
    num_plain(shortest, 0x1.5c87fap-84, NUM_BINARY32);
    CHECK_TEXT(shortest, "7.038531e-26");
    CHECK((float)7.038531e-26 != 0x1.5c87fap-84f);
    own_buf text = {0};
    CHECK_OK(json_write(&text, a, &e));
    CHECK_TEXT(buf_text(&text), "[7.038530691851209e-26,0.1]");
}

TEST(json_negative_zero)
{
    static const kv_dtype types[] = {KV_FLOAT16, KV_BFLOAT16, KV_FLOAT32, KV_FLOAT64};
    for (int i = 0; i < 4; i++) {
        own_array *a = io_array(types[i], 1, (int64_t[]){3}, (double[]){-0.0, 0.0, -1});
        own_buf text = {0};
        CHECK_OK(json_write(&text, a, &e));
        CHECK(strstr(buf_text(&text), "[-0.0,0,-1]") != NULL);
    }
}

TEST(json_text)
{
    own_buf b = {0};
    json_writer w = {.out = &b};
    json_text(&w, NULL, "a\"\\\b\f\n\r\t\x01\x1f\x7f\xC3\xA4\xFF\xE2\x82z/\xF3\xA0\x80\x81");
    CHECK_TEXT(buf_text(&b), "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\xC3\xA4\xEF\xBF\xBD"
                             "\xEF\xBF\xBD\xEF\xBF\xBDz/\\udb40\\udc01\"");
}

TEST(json_errors)
{
    static const refusal cases[] = {
        {"", "x.json: the file is empty"},
        {" \n ", "x.json:2:2: the text ends too early"},
        {"[1,2", "x.json:1:5: the text ends too early"},
        {"[1,2\n", "x.json:2:1: the text ends too early"},
        {"[1,", "x.json:1:4: the text ends too early"},
        {"[", "x.json:1:2: the text ends too early"},
        {"{\"data\":[1]", "x.json:1:12: the text ends too early"},
        {"[1,\n 2 3]", "x.json:2:4: \"3\" cannot stand here"},
        {"[1,]", "x.json:1:4: \"]\" cannot stand here"},
        {"[1}", "x.json:1:3: \"}\" cannot stand here"},
        {"[1]]", "x.json:1:4: \"]\" cannot stand here"},
        {"[1] x", "x.json:1:5: \"x\" cannot stand here"},
        {"[1,nan]", "x.json:1:4: \"n\" cannot stand here"},
        {"[1,\xC3\xA4]", "x.json:1:4: \"\xC3\xA4\" cannot stand here"},
        {"[1,\xFF]", "x.json:1:4: the byte \\xff is not UTF-8"},
        {"[\"\xC3\xA4\", x]", "x.json:1:7: \"x\" cannot stand here"},
        {"[1,\n\"\xC3\xA4\", x]", "x.json:2:6: \"x\" cannot stand here"},
        {"[\"abc]", "x.json:1:2: a quote is not closed"},
        {"[1,\"abc\",null]", "x.json:1:4: \"abc\" is not a number"},
        {"[1,\n\n  null]", "x.json:3:3: null is not a number"},
        {"[\"a]\\\"b\", 1]", "x.json:1:2: \"a]\"b\" is not a number"},
        {"[1,{\"a\":2}]", "x.json:1:4: an object is not a number"},
        {"null", "x.json:1:1: null is not a number"},
        {"[[1,2],[3]]", "x.json:1:8: lists of unequal length: 1 here, 2 before"},
        {"[[1],\n [3,4,5]]", "x.json:2:2: lists of unequal length: 3 here, 1 before"},
        {"[[1,2],[[3],4]]", "x.json:1:9: a list here, a number before"},
        {"[[1,2],3]", "x.json:1:8: a number here, a list before"},
        {"[[1,2],\"nan\"]", "x.json:1:8: a text here, a list before"},
        {"[1,1e999]", "x.json:1:4: 1e999 does not fit float32"},
        {"[1,4e38 ]", "x.json:1:4: 4e38 does not fit float32"},
        {"{\"dtype\":\"int8\",\"data\":[[1],[300]]}", "x.json:1:30: 300 does not fit int8"},
        {"{\"dtype\":\"int8\",\"data\":[\"300\"]}", "x.json:1:25: 300 does not fit int8"},
        {"{\"data\":[2.5],\"dtype\":\"int8\"}",
         "x.json:1:10: 2.5 is not a whole number, as int8 needs"},
        {"{\"data\":[true,2],\"dtype\":\"bool\"}", "x.json:1:15: 2 does not fit bool"},
        {"{\"shape\":[1]}", "x.json:1:1: the object has no \"data\""},
        {"{\"data\":[1],\"dtpye\":\"int8\"}", "x.json:1:21: \"dtpye\" is not a part of an array; "
                                              "those are dtype, shape, stype, row_ids, "
                                              "data"},
        {"{\"stype\":\"csr\",\"data\":[1]}",
         "x.json:1:10: \"stype\" is \"default\" or \"row_sparse\""},
        {"{\"stype\":1,\"data\":[1]}", "x.json:1:10: \"stype\" is \"default\" or \"row_sparse\""},
        {"{\"stype\":\"row_sparse\",\"data\":[1]}",
         "x.json:1:1: a row_sparse array has \"shape\" and \"row_ids\""},
        {"{\"row_ids\":[0],\"data\":[1]}",
         "x.json:1:12: \"row_ids\" belong to \"stype\":\"row_sparse\""},
        {"{\"row_ids\":[0.5],\"stype\":\"row_sparse\",\"shape\":[2],\"data\":[1]}",
         "x.json:1:12: \"row_ids\" is a list of whole numbers from 0 on"},
        {"{\"row_ids\":0,\"stype\":\"row_sparse\",\"shape\":[2],\"data\":[1]}",
         "x.json:1:12: \"row_ids\" is a list of whole numbers from 0 on"},
        {"{\"row_ids\":[2],\"stype\":\"row_sparse\",\"shape\":[2],\"data\":[1]}",
         "x.json:1:12: an array of shape (2,) has no row 2"},
        {"{\"row_ids\":[1,1],\"stype\":\"row_sparse\",\"shape\":[2],\"data\":[1,2]}",
         "x.json:1:12: row ids ascend and none stands twice: not 1, 1"},
        {"{\"row_ids\":[0],\"stype\":\"row_sparse\",\"shape\":[2],\"data\":[1,2]}",
         "x.json:1:56: data of shape (2,) are not the rows of \"row_ids\", which have (1,)"},
        {"{\"row_ids\":[],\"stype\":\"row_sparse\",\"shape\":[],\"data\":1}",
         "x.json:1:12: a row_sparse array has rows, so at least one axis"},
        {"{\"row_ids\":[],\"stype\":\"row_sparse\",\"shape\":3,\"data\":[]}",
         "x.json:1:44: \"shape\" is a list of up to 32 sizes"},
        {"{\"data\":[1],\"data\":[2]}", "x.json:1:20: \"data\" stands here twice"},
        {"{\"data\":[1],\"dtype\":\"flot\"}", "x.json:1:21: there is no dtype \"flot\""},
        {"{\"data\":[1],\"dtype\":3}", "x.json:1:21: there is no dtype a number"},
        {"{\"shape\":[2,2],\"data\":[1,2]}",
         "x.json:1:23: data of shape (2,) do not fit \"shape\" (2, 2)"},
        {"{\"shape\":[3],\"data\":[1,2]}",
         "x.json:1:21: data of shape (2,) do not fit \"shape\" (3,)"},
        {"{\"shape\":[0,3],\"data\":[1]}",
         "x.json:1:23: data of shape (1,) do not fit \"shape\" (0, 3)"},
        {"{\"shape\":[],\"data\":[1]}", "x.json:1:20: data of shape (1,) do not fit \"shape\" ()"},
        {"{\"shape\":3,\"data\":[1]}", "x.json:1:10: \"shape\" is a list of up to 32 sizes"},
        {"{\"shape\":{\"a\":1},\"data\":[1]}",
         "x.json:1:10: \"shape\" is a list of up to 32 sizes"},
        {"{\"shape\":[-1],\"data\":[1]}", "x.json:1:10: \"shape\" is a list of up to 32 sizes"},
        {"{\"shape\":[1.5],\"data\":[1]}", "x.json:1:10: \"shape\" is a list of up to 32 sizes"},
        {"[\"1\\u00002\"]", "x.json:1:4: a text with a NUL"},
        {"[1, \"nan\\\\\\u0000\"]", "x.json:1:11: a text with a NUL"},
        {"[\"1\\\\u00002\"]", "x.json:1:2: \"1\\u00002\" is not a number"},
        {"{\"dtype\":\"float32\\u0000x\",\"data\":[1]}", "x.json:1:18: a text with a NUL"},
    };
    are_refused(cases, sizeof cases / sizeof *cases);
    kv_array *a = NULL;
    CHECK_ERR(json_read(&a, "[1,\0 2]", 7, "x.json", false, 0, &e), KV_E_FORMAT,
              "x.json:1:4: a NUL byte");
    CHECK_ERR(json_read_lines("\n\n\n \n\n\n[1,x]", 12, "x.ndjson", false, 0, NULL, NULL, &e),
              KV_E_FORMAT, "x.ndjson:7:4: \"x\" cannot stand here");
}

/* depth opening brackets, a number, and as many closing ones. */
static char *nested(int depth)
{
    char *text = malloc((size_t)depth * 2 + 2);
    memset(text, '[', (size_t)depth);
    text[depth] = '1';
    memset(text + depth + 1, ']', (size_t)depth);
    text[depth * 2 + 1] = '\0';
    return text;
}

TEST(json_depth)
{
    static const int depths[] = {33, 999, 1000, 1001, 10000, 1000000};
    char *text = nested(32);
    kv_array *a = MADE(kv_array, json_read, text, strlen(text), "x.json", false, 0);
    CHECK_INT(kv_array_ndim(a), 32);
    kv_array_unref(a);
    free(text);
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        text = nested(depths[i]);
        CHECK_CODE(json_read(&a, text, strlen(text), "x.json", false, 0, &e), KV_E_FORMAT);
        /* only opened, never closed */
        CHECK_ERR(json_read(&a, text, (size_t)depths[i], "x.json", false, 0, &e), KV_E_FORMAT,
                  "x.json:1:33: lists are nested deeper than 32");
        free(text);
    }
}

TEST(json_no_memory)
{
    static const char text[] = "{\"dtype\":\"float16\",\"data\":[[1,2],[3,4]]}";
    own_array *a = NULL;
    CHECK(FAILURES(json_read(&a, text, strlen(text), "x.json", false, 0, &e)) < 50);
}

TEST(json_no_memory_for_the_tree)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    test_skip("the sanitizer needs its address space");
#endif
    const char *preload = getenv("LD_PRELOAD");
    if (preload && strstr(preload, "vgpreload"))
        test_skip("valgrind needs its address space");
    size_t n = 20000006;
    OWN(test_free) char *text = malloc(n);
    memcpy(text, "[true,", 6); /* a list of numbers only would need no tree */
    for (size_t i = 6; i + 2 < n; i += 2)
        memcpy(text + i, "1,", 2);
    memcpy(text + n - 2, "1]", 2);
    struct rlimit limit = {100 << 20, 100 << 20};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    if (mmap(NULL, 200 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        test_skip("the address space has no limit here, as under qemu-user");
    kv_array *a = NULL;
    CHECK_ERR(json_read(&a, text, n, "x.json", false, 0, &e), KV_E_MEMORY, "x.json: out of memory");
}

/* Lists of numbers are read in a pass of their own, and as the data of an object through the tree:
 * both must take the same texts and give the same bits. */
TEST(json_lists_of_numbers)
{
    static const char *const parts[] = {
        "[", "[", "[", "]", "]", "]", "],[", ",", ",", ",", "1", "-2.5", "1e3", "0.1", "-0", " ",
        "\n", "01", "3.", ".5", "1e", "1e39", "nan", "-", "+1", "16777217.0000001", "true", "\t",
        "1e-46", "2"};
    uint64_t state = 815;
    int64_t all = 2 * test_random(33000), read = 0;
    for (int64_t i = 0; i < all; i++) {
        char bare[512] = "[", object[540];
        state = state * 6364136223846793005u + 1442695040888963407u;
        int n = 1 + (int)(state >> 60);
        for (int k = 0; k < n; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            strcat(bare, parts[(state >> 33) % (sizeof parts / sizeof *parts)]);
        }
        strcat(bare, "]");
        snprintf(object, sizeof object, "{\"data\":%s}", bare);
        kv_err other = {0};
        e = (kv_err){0};
        own_array *a = NULL, *b = NULL;
        int rc = json_read(&a, bare, strlen(bare), "x.json", false, 0, &e);
        CHECK_INT(json_read(&b, object, strlen(object), "x.json", false, 0, &other), rc);
        if (rc == KV_OK) {
            CHECK(io_same(a, b));
            read++;
        }
    }
    CHECK(read > all / 200);
}

TEST(json_write_stream)
{
    enum { ROWS = 30000 };
    char *text = NULL;
    size_t n = 0;
    own_array *a =
        MADE(kv_array, kv_array_new, KV_FLOAT32, 3, (int64_t[]){ROWS, 1, 2}, (kv_ctx){0});
    float *data = array_data(a);
    for (int32_t i = 0; i < 2 * ROWS; i++)
        data[i] = (float)i / 3;
    FILE *f = open_memstream(&text, &n);
    CHECK_OK(json_write_stream(f, a, "x.json", &e));
    fclose(f);
    CHECK(n > 0 && text[n - 1] == '\n');
    kv_array *b = MADE(kv_array, json_read, text, n, "x.json", false, KV_FLOAT32);
    CHECK(kv_array_same_shape(a, b) && memcmp(data, array_elements(b), 8 * ROWS) == 0);
    kv_array_unref(b);
    free(text);
    f = fopen("/dev/full", "w");
    if (f) {
        CHECK_ERR(json_write_stream(f, a, "x.json", &e), KV_E_IO,
                  "cannot write \"x.json\": No space left on device");
        fclose(f);
    }
}
