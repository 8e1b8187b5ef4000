/* Files that Python packages made are read as those read them: tests/checkpoint/make_files.py, and
 * torch/make.py there. */
#include <math.h>

#include "base/file.h"
#include "checkpoint/checkpoint_write.h"
#include "checkpoint/scales.h"
#include "checkpoint/tensor_codec.h"
#include "checkpoint/tensor_reader.h"
#include "test_checkpoint.h"

#define FILES "tests/checkpoint/"

static uint32_t crc32_of(uint32_t crc, const unsigned char *data, int64_t n)
{
    crc = ~crc;
    for (int64_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

/* The same of numbers in which every nan is the usual one. */
static uint32_t crc32_of_numbers(const float *x, int64_t n)
{
    uint32_t crc = 0;
    for (int64_t i = 0; i < n; i++) {
        float y = isnan(x[i]) ? NAN : x[i];
        crc = crc32_of(crc, (const unsigned char *)&y, sizeof y);
    }
    return crc;
}

/* A line a tensor, as the script writes it; decoded: those that were. */
static void describe(buf *out, const checkpoint *c, bool decoded)
{
    own_tensor_reader *r = MADE(tensor_reader, tensor_reader_new, c, 0);
    for (int64_t i = 0; i < checkpoint_count(c); i++) {
        const tensor_info *t = checkpoint_at(c, i);
        char shape[160];
        const void *data;
        CHECK_OK(tensor_read(r, &data, i, 0, t->bytes, &e));
        bool codes = tensor_values_codes(c, i) != NULL;
        CHECK_INT(t->form & ~(TENSOR_STRIDED | TENSOR_DEFLATED | TENSOR_SWAPPED | TENSOR_SPARSE),
                  codes ? TENSOR_DECODED : 0);
        if (decoded != codes)
            continue;
        buf_printf(out, "%s %s %s %lld %08x\n", t->name, tensor_type_name(t->type),
                   kv_shape_text(shape, sizeof shape, t->ndim, t->shape), (long long)t->bytes,
                   decoded ? crc32_of_numbers(data, t->elements) : crc32_of(0, data, t->bytes));
    }
    CHECK_OK(tensor_reader_check(r, &e));
}

static checkpoint *equal_to(const char *path, const char *want, bool decoded)
{
    own_buf got = {0};
    size_t n;
    own_text *text = file_text(want, &n);
    checkpoint *c = MADE(checkpoint, checkpoint_open, path, NULL);
    if (decoded)
        CHECK_OK(tensor_values_decode(&c, 1, NULL, NULL, &e));
    describe(&got, c, decoded);
    CHECK_TEXT(buf_text(&got), text);
    return c;
}

static checkpoint *equal(const char *path, const char *want)
{
    return equal_to(path, want, false);
}

TEST(checkpoint_files_gguf_values)
{
    own_checkpoint *c = equal_to(FILES "types.gguf", FILES "types-values.txt", true);
}

TEST(checkpoint_files_scaled)
{
    own_checkpoint *c = equal_to(FILES "scaled.safetensors", FILES "scaled.txt", true);
    CHECK_INT(checkpoint_count(c), 16); /* 15 of codes, and norm */
}

/* A part of a tensor that begins and ends within a block. */
TEST(checkpoint_files_gguf_part)
{
    const void *data;
    float all[192];
    own_checkpoint *c = MADE(checkpoint, checkpoint_open, FILES "types.gguf", NULL);
    CHECK_OK(tensor_values_decode(&c, 1, NULL, NULL, &e));
    own_tensor_reader *r = MADE(tensor_reader, tensor_reader_new, c, 0);
    int64_t i = checkpoint_find(c, "t.Q5_1");
    CHECK_OK(tensor_read(r, &data, i, 0, sizeof all, &e));
    memcpy(all, data, sizeof all);
    for (int64_t at = 0; at < 192; at += 7)
        for (int64_t n = 0; n <= 192 - at; n += 13) {
            CHECK_OK(tensor_read(r, &data, i, at * 4, n * 4, &e));
            CHECK(n == 0 || memcmp(data, all + at, (size_t)n * 4) == 0);
        }
}

/* What random blocks hardly have: the borders of scales, and the sign of 0. */
TEST(checkpoint_files_gguf_borders)
{
    float x[256];
    unsigned char block[256] = {0};
    memset(block + 1, 0x18, 16);
    gguf_blocks_decode(x, TENSOR_MXFP4, block, 1); /* 8 is +0 */
    CHECK(x[0] == 0 && !signbit(x[0]) && x[16] == 0x1p-128f);
    block[0] = 1;
    gguf_blocks_decode(x, TENSOR_MXFP4, block, 1);
    CHECK(x[16] == 0x1p-127f);
    block[0] = 255;
    gguf_blocks_decode(x, TENSOR_MXFP4, block, 1);
    CHECK(x[16] == 0x1p127f);
    memset(block, 0, sizeof block);
    memset(block + 4, 0x22, 32);
    block[1] = 0x7F; /* no scale */
    block[2] = 0xFF; /* the sign does not count */
    block[3] = 0x01;
    gguf_blocks_decode(x, TENSOR_NVFP4, block, 1);
    CHECK(x[0] == 0 && x[16] == 0 && x[32] == 480 && x[48] == 0x1p-9f);
    memset(block, 1, sizeof block);
    const uint16_t halves[] = {0x0001, 0x03FF, 0x8001, 0x7BFF, 0x7C00, 0xFC00};
    const float want[] = {0x1p-24f, 0x1.ff8p-15f, -0x1p-24f, 65504, INFINITY, -INFINITY};
    for (int i = 0; i < 6; i++) {
        memcpy(block, &halves[i], 2);
        gguf_blocks_decode(x, TENSOR_Q8_0, block, 1);
        CHECK(x[0] == want[i]);
    }
}

TEST(checkpoint_files_gguf)
{
    static const char want[] =
        "general.architecture=test\nv.u8=200\nv.i8=-100\nv.u16=60000\nv.i16=-30000\n"
        "v.u32=4000000000\nv.i32=-2000000000\nv.u64=18446744073709551615\n"
        "v.i64=-9223372036854775808\nv.f32=0.1\nv.f64=1e-300\nv.true=true\nv.false=false\n"
        "v.text=one\ntwo \xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\nv.empty=\nv.numbers=[1,-2,3]\n"
        "v.floats=[0.5,1.0]\nv.texts=[\"a\",\"b\\\"c\"]\n";
    own_checkpoint *c = equal(FILES "types.gguf", FILES "types.txt");
    own_buf got = {0};
    for (int64_t i = 0; i < checkpoint_metadata_count(c); i++)
        buf_printf(&got, "%s=%s\n", checkpoint_metadata_at(c, i)->name,
                   checkpoint_metadata_at(c, i)->text);
    CHECK_TEXT(buf_text(&got), want);
    checkpoint_close(equal(FILES "version-2.gguf", FILES "version-2.txt"));
    checkpoint_close(equal(FILES "small.gguf", FILES "version-2.txt"));
}

TEST(checkpoint_files_gguf_big_endian)
{
    own_folder d = folder_new();
    folder_refused(&d, FILES "big-endian.gguf", KV_E_FORMAT,
                   FILES "big-endian.gguf: a big-endian GGUF file, which is not read",
                   "gguf-convert-endian of the Python package gguf turns it");
    /* as a finding, too, it is no checkpoint */
    checkpoint *c = NULL;
    buf got = {0};
    checkpoint_options asked = {.found = keep_finding, .arg = &got};
    CHECK_INT(checkpoint_open(&c, FILES "big-endian.gguf", &asked, &e), KV_E_FORMAT);
    CHECK_TEXT(buf_text(&got), "");
    CHECK(!c);
}

TEST(checkpoint_files_sharded)
{
    own_checkpoint *c = equal(FILES "sharded", FILES "sharded.txt");
    CHECK_INT(checkpoint_nfiles(c), 2);
    CHECK_TEXT(checkpoint_file(c, 1), FILES "sharded/model-00002-of-00002.safetensors");
    CHECK_INT(checkpoint_metadata_count(c), 1);
    CHECK_TEXT(checkpoint_metadata(c, "format"), "pt");
    checkpoint_close(equal(FILES "sharded/model.safetensors.index.json", FILES "sharded.txt"));
}

/* Views of any strides, shared storages, every dtype, both orders of bytes, deflated members. */
TEST(checkpoint_files_torch)
{
    checkpoint_close(equal(FILES "torch/state.pt", FILES "torch/state.txt"));
    checkpoint_close(equal(FILES "torch/state-5.pt", FILES "torch/state.txt"));
    checkpoint_close(equal(FILES "torch/deflated.pt", FILES "torch/state.txt"));
    checkpoint_close(equal(FILES "torch/big.pt", FILES "torch/big.txt"));
}

static void torch_names(const char *path, const checkpoint_options *o, const char *want)
{
    own_buf got = {0};
    own_checkpoint *c = MADE(checkpoint, checkpoint_open, path, o);
    for (int64_t i = 0; i < checkpoint_count(c); i++) {
        const tensor_info *t = checkpoint_at(c, i);
        buf_printf(&got, "%s%s %s", i ? ", " : "", t->name, tensor_info_type(t));
        if (t->value)
            buf_printf(&got, "=%s", t->value);
    }
    CHECK_TEXT(buf_text(&got), want);
}

/* Dicts in dicts, parts of them, entries that are not tensors, arrays of NumPy. */
TEST(checkpoint_files_torch_parts)
{
    const checkpoint_options all = {.entries = true};
    const char *names, *model;
    own_checkpoint *c = NULL;
    torch_names(FILES "torch/train.pt", NULL,
                "model.0.weight F32, model.0.bias F32, optimizer.state.0.step F32, table F64, "
                "swapped I32");
    torch_names(FILES "torch/train.pt#model", NULL, "0.weight F32, 0.bias F32");
    torch_names(FILES "torch/train.pt#optimizer.state.0", NULL, "step F32");
    torch_names(FILES "torch/train.pt#optimizer", &all,
                "state.0.step F32, param_groups.0.lr float=0.5, param_groups.0.betas.0 float=0.9, "
                "param_groups.0.betas.1 float=0.99");
    torch_names(FILES "torch/train.pt#args", &all, "name text=run\xC3\xA9, fast bool=True");
    torch_names(FILES "torch/object.pt#state_dict", NULL, "0.weight F32, 0.bias F32");
    torch_names(FILES "torch/one.pt", NULL, "one F32");
    torch_names(FILES "torch/odd.pt", NULL, "q quantised, s sparse, c conj, m meta, z C128, w F32");
    torch_names(FILES "torch/keys.pt", &all,
                "by.True F32, by.False int=3, by.None F32, by.0.5 F32, by.-2 F32, "
                "half complex32, bits bits8, eight QUInt8Storage");
    torch_names(FILES "torch/keys.pt#by.0.5", NULL, "5 F32");
    torch_names(FILES "torch/tuple.pt#model", NULL, "0.weight F32, 0.bias F32");
    CHECK_OK(checkpoint_open(&c, FILES "torch/train.pt", NULL, &e));
    CHECK_INT(checkpoint_others(c, &names, &model), 9);
    CHECK_TEXT(names, "optimizer.param_groups.0.lr, optimizer.param_groups.0.betas.0");
    CHECK_TEXT(model, "model");
    own_array *a = MADE(kv_array, checkpoint_load_name, c, "table");
    const double *x = array_elements(a);
    for (int i = 0; i < 6; i++)
        CHECK(x[i] == i);
}

TEST(checkpoint_files_torch_refused)
{
    own_folder d = folder_new();
    folder_refused(&d, FILES "torch/object.pt", KV_E_FORMAT,
                   FILES "torch/object.pt: cfg is a random.Random, which only Python can make",
                   FILES "torch/object.pt#state_dict reads the tensors of state_dict only");
    folder_refused(&d, FILES "torch/tuple.pt", KV_E_FORMAT,
                   FILES "torch/tuple.pt: cfg has a key that gives no name",
                   FILES "torch/tuple.pt#model reads the tensors of model only");
    folder_refused(&d, FILES "torch/module.pt", KV_E_FORMAT,
                   FILES "torch/module.pt: it is a torch.nn.modules.linear.Linear, which only "
                         "Python can make",
                   "torch.save(model.state_dict(), FILE) writes what is read");
    folder_refused(&d, FILES "torch/train.pt#modle", KV_E_NAME,
                   FILES "torch/train.pt: there is no part \"modle\"",
                   "its parts are model, optimizer, epoch, best, args, table, swapped, loss, size");
    folder_refused(&d, FILES "torch/loop.pt", KV_E_FORMAT,
                   FILES "torch/loop.pt: malformed: a container that holds itself at self", "");
    folder_refused(&d, FILES "torch/twice.pt", KV_E_VALUE,
                   FILES "torch/twice.pt: two tensors have the name \"a.b\"", "");
    folder_refused(&d, FILES "small.gguf#x", KV_E_UNSUPPORTED,
                   FILES "small.gguf: only files of PyTorch have parts, as #x",
                   "names of keys are chosen by a pattern");
}

/* MXNet's .params: records of every version. */
TEST(checkpoint_files_params)
{
    const checkpoint_options all = {.entries = true};
    const char *names, *model;
    checkpoint_close(equal(FILES "mxnet.params", FILES "params.txt"));
    checkpoint_close(equal(FILES "sparse.params", FILES "sparse.txt"));
    torch_names(FILES "sparse.params", &all,
                "nothing none=, rows F32, room I32, no.rows F16, csr F64, no.csr F32, "
                "csr.turned U8");
    own_checkpoint *c = MADE(checkpoint, checkpoint_open, FILES "sparse.params", NULL);
    CHECK_INT(checkpoint_others(c, &names, &model), 1);
    CHECK_TEXT(names, "nothing");
}

/* Every part of sparse arrays, also one that begins and ends within a row. */
TEST(checkpoint_files_params_sparse_parts)
{
    const void *data;
    char all[192];
    own_checkpoint *c = MADE(checkpoint, checkpoint_open, FILES "sparse.params", NULL);
    own_tensor_reader *r = MADE(tensor_reader, tensor_reader_new, c, 0);
    for (int64_t i = 0; i < checkpoint_count(c); i++) {
        const tensor_info *t = checkpoint_at(c, i);
        int64_t width = t->bytes / t->elements;
        CHECK_OK(tensor_read(r, &data, i, 0, t->bytes, &e));
        memcpy(all, data, (size_t)t->bytes);
        for (int64_t at = 0; at < t->bytes; at += width)
            for (int64_t n = width; at + n <= t->bytes; n += width) {
                CHECK_OK(tensor_read(r, &data, i, at, n, &e));
                CHECK(memcmp(data, all + at, (size_t)n) == 0);
            }
    }
}

/* Indices are not believed before all of them were looked at. Rows 1 and 4 of 5 stand 24 bytes
 * behind the begin of "rows"; behind that of "csr" 5 numbers, 5 starts of rows and 5 columns. */
TEST(checkpoint_files_params_sparse_lies)
{
    static const struct {
        const char *key;
        int behind;
        int64_t index;
        const char *text;
    } lies[] = {
        {"rows", 24, 4, "row 1 is 4"},
        {"rows", 24, -1, "row 0 is -1"},
        {"rows", 32, 5, "row 1 is 5"},
        {"rows", 32, INT64_MIN, "row 1 is -9223372036854775808"},
        {"csr", 40, 1, "the start of row 0 is 1"},
        {"csr", 48, 3, "the start of row 2 is 2"},
        {"csr", 72, 6, "the start of row 4 is 6"},
        {"csr", 72, INT64_MAX, "the start of row 4 is 9223372036854775807"},
        {"csr.turned", 11, 2, "the end of row 0 is 2"},
        {"csr", 80, 6, "column 0 is 6"},
        {"csr", 112, -1, "column 4 is -1"},
    };
    own_folder d = folder_new();
    char path[300], want[600];
    size_t n;
    own_text *text = file_text(FILES "sparse.params", &n);
    snprintf(path, sizeof path, "%s/m.params", d.path);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        kv_array *a = NULL;
        own_checkpoint *c = MADE(checkpoint, checkpoint_open, FILES "sparse.params", NULL);
        char *at = text + checkpoint_at(c, checkpoint_find(c, lies[i].key))->offset;
        int64_t was;
        checkpoint_close(c);
        memcpy(&was, at + lies[i].behind, sizeof was);
        memcpy(at + lies[i].behind, &lies[i].index, sizeof was);
        folder_put(&d, "m.params", text, n);
        memcpy(at + lies[i].behind, &was, sizeof was);
        CHECK_OK(checkpoint_open(&c, path, NULL, &e));
        snprintf(want, sizeof want, "%s: tensor \"%s\": %s, out of range or order", path,
                 lies[i].key, lies[i].text);
        CHECK_ERR(checkpoint_load_name(&a, c, lies[i].key, &e), KV_E_FORMAT, want);
    }
}

/* What is written is read again, and is the record of the file that it came from. */
TEST(checkpoint_files_params_written)
{
    static const char want[] = "\x12\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"
                               "\xC9\xFA\x93\xF9\0\0\0\0\1\0\0\0\2\0\0\0\0\0\0\0"
                               "\1\0\0\0\0\0\0\0\5\0\0\0\1\2\1\0\0\0\0\0\0\0"
                               "\1\0\0\0\0\0\0\0w";
    static const int64_t shape[] = {2};
    static const checkpoint_entry entries[] = {{"w", TENSOR_I8, 1, shape},
                                               {"single", TENSOR_F32, 0, shape},
                                               {"f8", TENSOR_F8_E4M3, 1, shape}};
    own_folder d = folder_new();
    checkpoint_out *out = NULL;
    char path[300];
    size_t n;
    snprintf(path, sizeof path, "%s/m.params", d.path);
    CHECK_OK(checkpoint_out_open(&out, path, entries, 1, NULL, 0, NULL, &e));
    CHECK_OK(checkpoint_out_put(out, 0, 0, "\1\2", 2, &e));
    CHECK_OK(checkpoint_out_commit(out, &e));
    own_text *got = file_text(path, &n);
    CHECK(n == sizeof want - 1 && memcmp(got, want, n) == 0);
    CHECK_INT(checkpoint_out_open(&out, path, entries + 1, 1, NULL, 0, NULL, &e), KV_E_VALUE);
    CHECK(strstr(e.text, "m.params: \"single\" has no axes, and MXNet's files hold no array "
                         "without axes"));
    e = (kv_err){0};
    CHECK_INT(checkpoint_out_open(&out, path, entries + 2, 1, NULL, 0, NULL, &e), KV_E_DTYPE);
    CHECK(strstr(e.text, "m.params: \"f8\" is F8_E4M3, which MXNet's files do not hold"));
    CHECK_TEXT(e.hint, "--dtype NAME=f32 writes it as another type");
}
