/* npy: what is written reads back equal; every kind of malformed file has its text. */
#include "io/npy.h"
#include "array/arrange.h"

#include <unistd.h>

#include "../memory.h"
#include "test_image.h"
#include "test_io.h"

#define NAME "x.npy"

static image written(kv_array *a)
{
    image m = {0};
    FILE *f = open_memstream(&m.data, &m.n);
    CHECK_OK(npy_write(f, NAME, a, &e));
    fclose(f);
    return m;
}

static int load_one(kv_array **out, checkpoint *c, kv_err *e)
{
    int rc = checkpoint_load(out, c, 0, e);
    checkpoint_close(c);
    return rc;
}

/* Reads from memory, or from a file that has to be npy. */
static int read_image(kv_array **out, image m, bool regular, kv_err *e)
{
    checkpoint *c = NULL;
    if (!regular) {
        int rc = checkpoint_open_memory(&c, m.data, m.n, NAME, e);
        return rc ? rc : load_one(out, c, e);
    }
    char folder[64];
    CHECK(mkdtemp(memory_path(folder, sizeof folder, "kv-npy")) && chdir(folder) == 0);
    file_fill(NAME, m.data, m.n);
    int rc = checkpoint_open(&c, NAME, &(checkpoint_options){.npy = true}, e);
    rc = rc ? rc : load_one(out, c, e);
    CHECK(unlink(NAME) == 0 && chdir("/") == 0 && rmdir(folder) == 0);
    return rc;
}

static kv_array *read_both(image m)
{
    kv_array *a = MADE(kv_array, read_image, m, false);
    own_array *b = MADE(kv_array, read_image, m, true);
    CHECK(io_same(a, b));
    return a;
}

static void refused(image m, kv_code code, const char *want)
{
    kv_array *a = NULL;
    CHECK_ERR(read_image(&a, m, true, &e), code, want);
    if (m.n >= 6 && memcmp(m.data, "\x93NUMPY", 6) == 0)
        CHECK_ERR(read_image(&a, m, false, &e), code, want);
    CHECK(!a);
}

/* A file of this version, header and ndata bytes of data: 0, 1, 2, … */
static image made(int version, const char *header, size_t nheader, size_t ndata)
{
    size_t width = version == 1 ? 2 : 4, at = 8 + width;
    image m = {calloc(1, at + nheader + ndata + 1), at + nheader + ndata};
    memcpy(m.data, "\x93NUMPY", 6);
    m.data[6] = (char)version;
    memcpy(m.data + 8, &nheader, width);
    memcpy(m.data + at, header, nheader);
    for (size_t i = 0; i < ndata; i++)
        m.data[at + nheader + i] = (char)i;
    return m;
}

/* ---- What is written ------------------------------------------------------------------------- */

/* numpy.save(f, numpy.array([[1, 2, 3], [4, 5, 6]], "float32")) */
static const char pinned[] = "\x93NUMPY\1\0\x76\0"
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
                             "                                                          \n"
                             "\0\0\x80\x3F\0\0\0\x40\0\0\x40\x40"
                             "\0\0\x80\x40\0\0\xA0\x40\0\0\xC0\x40";

static const image sample = {(char *)pinned, sizeof pinned - 1};

TEST(npy_bytes)
{
    const int64_t shape[] = {2, 3};
    const double numbers[] = {1, 2, 3, 4, 5, 6};
    own_array *a = io_array(KV_FLOAT32, 2, shape, numbers);
    own_image m = written(a);
    CHECK_INT(m.n, sample.n);
    CHECK(memcmp(m.data, sample.data, m.n) == 0);
    own_array *b = read_both(sample);
    CHECK(io_same(a, b));
}

TEST(npy_header)
{
    static const struct {
        kv_dtype dtype;
        int ndim;
        int64_t shape[2];
        const char *want;
    } cases[] = {
        {KV_FLOAT64, 0, {0}, "{'descr': '<f8', 'fortran_order': False, 'shape': (), } "},
        {KV_FLOAT16, 1, {3}, "{'descr': '<f2', 'fortran_order': False, 'shape': (3,), } "},
        {KV_INT64, 2, {0, 9}, "{'descr': '<i8', 'fortran_order': False, 'shape': (0, 9), } "},
        {KV_INT32, 1, {0}, "{'descr': '<i4', 'fortran_order': False, 'shape': (0,), } "},
        {KV_INT8, 1, {1}, "{'descr': '|i1', 'fortran_order': False, 'shape': (1,), } "},
        {KV_UINT8, 1, {1}, "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), } "},
        {KV_BOOL, 1, {1}, "{'descr': '|b1', 'fortran_order': False, 'shape': (1,), } "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        own_array *a = NULL;
        CHECK_OK(kv_array_new(&a, cases[i].dtype, cases[i].ndim, cases[i].shape, (kv_ctx){0}, &e));
        own_image m = written(a);
        CHECK_INT(m.n, 128 + kv_array_bytes(a));
        CHECK(memcmp(m.data + 10, cases[i].want, strlen(cases[i].want)) == 0);
        CHECK_INT(m.data[127], '\n');
    }
}

/* From 15 axes on the header and its room for the first size to grow pass 128 bytes, as with numpy.
 */
TEST(npy_long_header)
{
    const int64_t shape[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                             1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static const struct {
        int ndim;
        size_t n;
    } cases[] = {{14, 128}, {15, 192}, {32, 192}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        own_array *a = MADE(kv_array, kv_array_new, KV_INT8, cases[i].ndim, shape, (kv_ctx){0});
        own_image m = written(a);
        CHECK_INT(m.n, cases[i].n + 1);
        own_array *b = read_both(m);
        CHECK(io_same(a, b));
    }
}

TEST(npy_round)
{
    uint64_t state = 4711;
    for (int d = 0; d < NDTYPES; d++) {
        for (int k = 0; k < NSHAPES && all_dtypes[d] != KV_BFLOAT16; k++) {
            kv_array *a =
                io_random_array(all_dtypes[d], io_shapes[k].ndim, io_shapes[k].shape, &state);
            own_image m = written(a);
            own_array *b = read_both(m);
            CHECK(io_same(a, b));
            kv_array_unref(a);
        }
    }
}

TEST(npy_write_bfloat16_as_float32)
{
    uint64_t state = 4712;
    own_array *a = io_random_array(KV_BFLOAT16, io_shapes[1].ndim, io_shapes[1].shape, &state);
    own_array *wide = NULL;
    own_image m = written(a);
    own_array *b = read_both(m);
    CHECK_OK(arrange_copy(&wide, a, KV_FLOAT32, (kv_ctx){0}, &e));
    CHECK(io_same(wide, b));
}

TEST(npy_write_refuses)
{
    const int64_t shape[] = {100000};
    FILE *f = fopen("/dev/full", "wb");
    if (!f)
        test_skip("no /dev/full");
    own_array *b = MADE(kv_array, kv_array_new, KV_FLOAT32, 1, shape, (kv_ctx){0});
    CHECK_ERR(npy_write(f, NAME, b, &e), KV_E_IO,
              "cannot write \"" NAME "\": No space left on device");
    fclose(f);
}

/* ---- What is read ---------------------------------------------------------------------------- */

/* The numbers of an array as text: "int32 (2, 3): 1 2 3 4 5 6". */
static const char *shown(char out[256], kv_array *a)
{
    char shape[64];
    const void *data = array_elements(a);
    kv_shape_text(shape, sizeof shape, kv_array_ndim(a), kv_array_shape(a));
    int n = snprintf(out, 256, "%s %s:", kv_dtype_name(kv_array_dtype(a)), shape);
    for (int64_t i = 0; i < kv_array_size(a); i++) {
        out[n++] = ' ';
        n += scalar_text(out + n, kv_array_dtype(a), data, i);
    }
    return out;
}

/* Data bytes are 0, 1, 2, … */
TEST(npy_forms)
{
    static const struct {
        int version;
        const char *header;
        size_t ndata;
        const char *want;
    } cases[] = {
        {1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}\n", 6,
         "uint8 (2, 3): 0 1 2 3 4 5"},
        {2, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n", 6,
         "uint8 (2, 3): 0 2 4 1 3 5"},
        {3, "{'descr': '<u1', 'fortran_order': True, 'shape': (2, 1, 3), }", 6,
         "uint8 (2, 1, 3): 0 2 4 1 3 5"},
        {1, "{'descr': '>i1', 'fortran_order': True, 'shape': (3,), }", 3, "int8 (3,): 0 1 2"},
        {1, "{\"shape\":(),\"fortran_order\":True,\"descr\":\"|i1\"}", 1, "int8 (): 0"},
        {1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2L,), }", 8,
         "int32 (2,): 50462976 117835012"},
        {1, "{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }", 8,
         "int32 (2,): 66051 67438087"},
        {1, "{'descr': '>i8', 'fortran_order': False, 'shape': (1,), }", 8,
         "int64 (1,): 283686952306183"},
        {1, "{'descr': '>f2', 'fortran_order': False, 'shape': (1,), }", 2, "float16 (1,): 6e-08"},
        {1, "{'descr': '>i4', 'fortran_order': True, 'shape': (2,2), }", 16,
         "int32 (2, 2): 66051 134810123 67438087 202182159"},
        {1, "{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", 2, "bool (2,): 0 1"},
        {1, "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", 4, "int32 (2,): 256 770"},
        {1, "{'descr': '>u2', 'fortran_order': True, 'shape': (2,2), }", 8,
         "int32 (2, 2): 1 1029 515 1543"},
        {2, "{'descr': '>u4', 'fortran_order': False, 'shape': (2,), }", 8,
         "int64 (2,): 66051 67438087"},
        {1, "{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }", 8,
         "int64 (1,): 506097522914230528"},
        {1, "{'descr': '<u2', 'fortran_order': False, 'shape': (0,), }", 0, "int32 (0,):"},
        {1, " { 'shape' : ( 0 , 7 , ) , 'descr' : '<f4' ,\t'fortran_order' : True } \r\n \n", 0,
         "float32 (0, 7):"},
        {1, "{'descr': '<f4', 'fortran_order': True, 'shape': (9223372036854775807, 0, 3), }", 0,
         "float32 (9223372036854775807, 0, 3):"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        image m = made(cases[i].version, cases[i].header, strlen(cases[i].header), cases[i].ndata);
        own_array *a = read_both(m);
        CHECK_TEXT(shown(text, a), cases[i].want);
        free(m.data);
    }
}

/* ---- Hostile files --------------------------------------------------------------------------- */

TEST(npy_cut)
{
    for (size_t n = 0; n < sample.n; n++) {
        char want[128];
        int missing = (int)(sample.n - n);
        if (n == 0)
            snprintf(want, sizeof want, NAME ": the file is empty");
        else if (n < 10)
            snprintf(want, sizeof want,
                     NAME ": cut within its first bytes: %d of %d bytes are missing",
                     (n < 8 ? 8 : 10) - (int)n, n < 8 ? 8 : 10);
        else if (n < 128)
            snprintf(want, sizeof want, NAME ": cut within its header: %d of 118 bytes are missing",
                     missing - 24);
        else
            snprintf(want, sizeof want, NAME ": cut within its data: %d of 24 bytes are missing",
                     missing);
        refused((image){sample.data, n}, KV_E_FORMAT, want);
    }
}

TEST(npy_prefix)
{
    static const struct {
        const char *text;
        size_t n;
        kv_code code;
        const char *want;
    } cases[] = {
        {"a,b\n1,2\n", 8, KV_E_FORMAT, "no npy file: it does not begin with 0x93 and NUMPY"},
        {"\x93NUMPX\1\0", 8, KV_E_FORMAT, "no npy file: it does not begin with 0x93 and NUMPY"},
        {"x", 1, KV_E_FORMAT, "no npy file: it does not begin with 0x93 and NUMPY"},
        {"\x93NUMPY\0\0", 8, KV_E_FORMAT, "version 0.0 is not read, only 1.0, 2.0 and 3.0"},
        {"\x93NUMPY\4\0", 8, KV_E_FORMAT, "version 4.0 is not read, only 1.0, 2.0 and 3.0"},
        {"\x93NUMPY\1\1", 8, KV_E_FORMAT, "version 1.1 is not read, only 1.0, 2.0 and 3.0"},
        {"\x93NUMPY\xFF\xFF", 8, KV_E_FORMAT, "version 255.255 is not read, only 1.0, 2.0 and 3.0"},
        {"\x93NUMPY\1\0\0", 9, KV_E_FORMAT,
         "cut within its first bytes: 1 of 10 bytes are missing"},
        {"\x93NUMPY\2\0\0\0\0", 11, KV_E_FORMAT,
         "cut within its first bytes: 1 of 12 bytes are missing"},
        {"\x93NUMPY\2\0\xFF\xFF\xFF\xFF", 12, KV_E_FORMAT,
         "a header of 4294967295 bytes, and at most 10000 are read"},
        {"\x93NUMPY\2\0\x10\x27\0\0", 12, KV_E_FORMAT,
         "cut within its header: 10000 of 10000 bytes are missing"},
        {"\x93NUMPY\1\0\0\0", 10, KV_E_FORMAT, "byte 10: { is missing here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[128];
        snprintf(want, sizeof want, NAME ": %s", cases[i].want);
        refused((image){(char *)cases[i].text, cases[i].n}, cases[i].code, want);
    }
}

#define H(descr, fortran, shape)                                                                   \
    "{'descr': " descr ", 'fortran_order': " fortran ", 'shape': " shape "}"

TEST(npy_headers)
{
    static const struct {
        const char *header, *want;
    } cases[] = {
        {"[]", "byte 10: { is missing here"},
        {"{", "byte 11: a text is missing here"},
        {"{}", "the header has no 'descr'"},
        {"{'descr': '<f4', 'shape': ()}", "the header has no 'fortran_order'"},
        {"{'descr': '<f4', 'fortran_order': False}", "the header has no 'shape'"},
        {"{'descr': '<f4', 'descr': '<f4'}", "the header has two 'descr'"},
        {"{'Descr': '<f4'}", "'Descr' is not a part of a header"},
        {"{'': '<f4'}", "'' is not a part of a header"},
        {"{'descr", "byte 11: this text does not end"},
        {"{'descr\"", "byte 11: this text does not end"},
        {"{descr: 1}", "byte 11: a text is missing here"},
        {"{'descr' '<f4'}", "byte 19: : is missing here"},
        {"{'descr': 4}", "byte 20: a text is missing here"},
        {"{'descr': '<f4' 'shape': ()}", "byte 26: , is missing here"},
        {"{'shape': (), , }", "byte 24: a text is missing here"},
        {H("'<f4'", "false", "()"), "byte 44: fortran_order is True or False"},
        {H("'<f4'", "0", "()"), "byte 44: fortran_order is True or False"},
        {H("'<f4'", "Tru", "()"), "byte 44: fortran_order is True or False"},
        {"{'fortran_order': Fals", "byte 28: fortran_order is True or False"},
        {H("'<f4'", "False", "3"), "byte 60: ( is missing here"},
        {H("'<f4'", "False", "[3]"), "byte 60: ( is missing here"},
        {H("'<f4'", "False", "(3)"), "byte 62: , is missing here"},
        {H("'<f4'", "False", "(,)"), "byte 61: a size is missing here"},
        {H("'<f4'", "False", "(3,,4)"), "byte 63: a size is missing here"},
        {H("'<f4'", "False", "(3 4)"), "byte 63: , is missing here"},
        {H("'<f4'", "False", "(3, 4"), "byte 65: , is missing here"},
        {H("'<f4'", "False", "(-1,)"), "byte 61: a size is negative"},
        {H("'<f4'", "False", "(+1,)"), "byte 61: a size is missing here"},
        {H("'<f4'", "False", "(1.0,)"), "byte 62: , is missing here"},
        {H("'<f4'", "False", "(1e3,)"), "byte 62: , is missing here"},
        {H("'<f4'", "False", "(9223372036854775808,)"), "byte 61: a size beyond 64 bits"},
        {H("'<f4'", "False", "(99999999999999999999999999,)"), "byte 61: a size beyond 64 bits"},
        {H("'<f4'", "False", "(9223372036854775807,)"),
         "shape (9223372036854775807,) is too large: more than 2^63 bytes"},
        {H("'<f4'", "False", "(4294967296, 4294967296)"),
         "shape (4294967296, 4294967296) is too large: more than 2^63 bytes"},
        {H("'<f4'", "True", "(4294967296, 4294967296)"),
         "shape (4294967296, 4294967296) is too large: more than 2^63 bytes"},
        {H("'<f4'", "False", "(1000000000000,)"),
         "cut within its data: 3999999999996 of 4000000000000 bytes are missing"},
        {H("'<f4'", "True", "(1000000, 1000000)"),
         "cut within its data: 3999999999996 of 4000000000000 bytes are missing"},
        {H("'<f4'", "False", "(2,)"), "cut within its data: 4 of 8 bytes are missing"},
        {H("'|i1'", "False", "(3,)"), "there are bytes behind the data"},
        {H("'<f4'", "False", "(0,)"), "there are bytes behind the data"},
        {H("'<f4'", "False", "(1,)") " x", "byte 66: only blanks may follow the header's }"},
        {H("'|b1'", "False", "(4,)"), "tensor \"x\": element 2 is not a bool, its byte is 2"},
        {H("'<f4'", "False", "(1,)") "\xC3\xA4", "byte 65: a byte 0xC3 cannot stand here"},
        {H("'<f\x7F'", "False", "(1,)"), "byte 23: a byte 0x7F cannot stand here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[128];
        snprintf(want, sizeof want, NAME ": %s", cases[i].want);
        own_image m = made(1, cases[i].header, strlen(cases[i].header), 4);
        refused(m, KV_E_FORMAT, want);
    }
    own_image m = made(1, "{\0}", 3, 4);
    refused(m, KV_E_FORMAT, NAME ": byte 11: a NUL byte cannot stand here");
}

TEST(npy_unsupported)
{
    static const struct {
        const char *header, *want;
    } cases[] = {
        {H("'<u16'", "False", "()"), "elements of descr '<u16' are not read"},
        {H("'|O'", "False", "()"), "elements of descr '|O' are not read"},
        {H("'<V2'", "False", "()"), "elements of descr '<V2' are not read"},
        {H("'=f4'", "False", "()"), "elements of descr '=f4' are not read"},
        {H("'|f4'", "False", "()"), "elements of descr '|f4' are not read"},
        {H("'f4'", "False", "()"), "elements of descr 'f4' are not read"},
        {H("'<f4 '", "False", "()"), "elements of descr '<f4 ' are not read"},
        {H("''", "False", "()"), "elements of descr '' are not read"},
        {H("'<U9999999999999999999999999999999999999999999'", "False", "()"),
         "elements of descr '<U99999999999999999999999999999999999999' are not read"},
        {H("[('a', '<f4')]", "False", "()"), "elements of descr '[('a', '<f4')]' are not read"},
        {H("'<f4'", "False", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"),
         "arrays of more than 32 axes are not read"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[128];
        snprintf(want, sizeof want, NAME ": %s", cases[i].want);
        own_image m = made(1, cases[i].header, strlen(cases[i].header), 4);
        refused(m, KV_E_FORMAT, want);
    }
}

/* A header as long as is read, of one open bracket after the other. */
TEST(npy_deep)
{
    OWN(test_free) char *text = malloc(10001);
    memset(text, '{', 10001);
    own_image m = made(2, text, 10001, 0);
    refused(m, KV_E_FORMAT, NAME ": a header of 10001 bytes, and at most 10000 are read");
    free(m.data);
    m = made(2, text, 10000, 0);
    refused(m, KV_E_FORMAT, NAME ": byte 13: a text is missing here");
}

TEST(npy_no_memory)
{
    static const char header[] = "{'descr': '>i4', 'fortran_order': True, 'shape': (2, 2)}";
    image m = made(1, header, sizeof header - 1, 16);
    for (int regular = 0; regular < 2; regular++) {
        own_array *a = NULL;
        int64_t last = 0;
        EACH_FAILURE(read_image(&a, m, regular, &e))
            CHECK(!a && (last = n) < 50);
        CHECK(a && last > 1);
    }
    free(m.data);
    own_array *a = read_both(sample);
    FILE *f = fopen("/dev/null", "wb");
    CHECK(FAILURES(npy_write(f, NAME, a, &e)) < 20);
    fclose(f);
}
