/* Files that are no checkpoints: what is said of them. */
#include "test_checkpoint.h"

#define READ                                                                                       \
    "read are safetensors, npz, npy, GGUF, .pt and .params files, and folders of safetensors files"
#define TORCH(part)                                                                                \
    "save it as safetensors: safetensors.torch.save_file(torch.load(FILE, weights_only=True)" part \
    ", \"m.safetensors\")"
#define SAVE   "save its arrays as safetensors or npz, with the library that wrote it"
#define PICKLE "a Python pickle, which would run code"
#define DCP    "python -m torch.distributed.checkpoint.format_utils dcp_to_torch DIR FILE"
#define ORBAX  "restore it in Python and save it as safetensors or npz"
#define FLAX                                                                                       \
    "safetensors.flax.save_file(flax.traverse_util.flatten_dict(flax.serialization."               \
    "msgpack_restore(open(FILE, \"rb\").read()), sep=\".\"), \"m.safetensors\")"

/* These bytes in a file are refused as what they look like. */
static void check_looks(test_folder *d, const char *file, const void *data, size_t n,
                        const char *what, const char *hint)
{
    char want[200];
    folder_put(d, file, data, n);
    snprintf(want, sizeof want, "%%/%s: this looks like %s%s not read", file, what,
             strstr(what, ", which") ? "; it is" : ", which is");
    folder_refused(d, folder_file(d, file), KV_E_FORMAT, want, hint);
}

TEST(checkpoint_looks_like)
{
    static const struct {
        const char *text;
        size_t n; /* 0: all of the text */
        const char *what, *hint;
    } cases[] = {
        {"\x80\x02\x8A\x0Al\xFC\x9C\x46\xF9 j\xA8P\x19.", 0,
         "PyTorch's format from before 1.6 (legacy)", TORCH("")},
        {"\x80\x02\x8A\x0Al\xFC\x9C\x46\xF9 j\xA8P\x19.\x80\x02}q\0(X\5\0\0\0epochq\1K\3X\x0A\0\0\0"
         "state_dictq\2}",
         53, "PyTorch's format from before 1.6 (legacy)", TORCH("[\"state_dict\"]")},
        {"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94.", 14, PICKLE, SAVE},
        {"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94.......", 20, PICKLE, SAVE},
        {"\x80\2cnumpy.core.multiarray\n_reconstruct\n", 0, PICKLE, SAVE},
        {"\x80\x03X\x01\0\0\0aq\0.", 11, PICKLE, SAVE},
        {"\x81\xA6params\x81\xA5" "dense", 0, "msgpack, as Flax writes it", FLAX},
        {"\xDE\0\x20\xD9\x28"
         "0123456789012345678901234567890123456789",
         45, "msgpack, as Flax writes it", FLAX},
        {"MATLAB 5.0 MAT-file, Platform: GLNXA64", 0, "a MATLAB file", SAVE},
        {"\x89PNG\r\n\x1A\n\0\0\0\rIHDR", 16, "a picture (PNG)", READ},
        {"PAR1\x15\4\x15\x10\x15\x14L\x15", 0, "a Parquet file", READ},
        {"\x1C\0\0\0TFL3\x14\0\x20\0", 12, "a TFLite model", SAVE},
        {"\x1F\x8B\x08\0\0\0\0\0\0\x03......", 16, "a file compressed with gzip",
         "zcat FILE | kvctl -c 'x = @-' reads it; gunzip FILE unpacks it"},
        {"\x28\xB5\x2F\xFD........", 0, "a file compressed with zstd",
         "unpack it first: zstd -d FILE"},
        {"\xFD\x37zXZ\0\0\4......", 14, "a file compressed with xz", "unpack it first: xz -d FILE"},
        {"\xFF\xFE\x31\0,\0\x32\0", 8, "a text in UTF-16, as PowerShell writes it",
         "write it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW"},
        {"BZh91AY&SY.....", 0, "a file compressed with bzip2", "unpack it first: bunzip2 FILE"},
        {"\x89HDF\r\n\x1A\n........", 0, "an HDF5 file, as Keras and NetCDF write them",
         "save its arrays as safetensors: h5py reads them, safetensors.numpy.save_file writes"},
        {"\x08\x07\x12\x07pytorch\x1A\x05"
         "1.9.0:",
         0, "an ONNX graph",
         "its arrays become safetensors by onnx.numpy_helper and safetensors.numpy.save_file"},
        {"tjgg\1\0\0\0..........", 18, "a ggml file from before GGUF",
         "convert it to gguf, or the model that it was made from"},
        {"<!DOCTYPE html>\n<html>", 0, "an HTML page, such as a server's login or error page",
         "download the file again, with a token where one is needed"},
        {"\n <HTML lang=en>", 0, "an HTML page, such as a server's login or error page",
         "download the file again, with a token where one is needed"},
        {"<?xml version='1.0'?><Error>", 0, "an XML text", READ},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", 0,
         "a Git LFS pointer", "fetch the file that it points to: git lfs pull"},
        {"{\"metadata\": {}, \"weight_map\": {\"a\": \"x.safetensors\"}}", 0,
         "an index of shards under another name", "its name has to end in .safetensors.index.json"},
        {"{\"metadata\": {}, \"weight_map\": {\"a\": \"pytorch_model-1.bin\"}}", 0,
         "an index of PyTorch files",
         "save the model as safetensors: save_pretrained(FOLDER, safe_serialization=True) of "
         "transformers"},
        {"{\"architectures\": []}", 0, "a JSON text", READ},
        {"[1,2]\n", 0, "a JSON text", READ},
        {"1,2\n", 0, "a CSV text", "as one array it is read by @FILE.csv"},
        {"a,b,c\n1,2,3\n4,5,6\n", 0, "a CSV text", "as one array it is read by @FILE.csv"},
        {"Hello, world\nand more\n", 0, "a text", READ},
        {"\xC3\xA4 text of one line", 0, "a text", READ},
    };
    own_folder d = folder_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i].text;
        check_looks(&d, "m.x", text, cases[i].n ? cases[i].n : strlen(text), cases[i].what,
                    cases[i].hint);
    }
    char text[8192] = {0};
    check_looks(&d, "m.x", text, sizeof text, "a file of zeros, such as an unfinished download",
                "download it again");
    memset(text, ' ', sizeof text);
    memcpy(text + 257, "ustar", 5);
    check_looks(&d, "m.x", text, sizeof text, "a tar archive", "unpack it first: tar -xf FILE");
    /* a character that ends behind what is looked at */
    memset(text, 'x', sizeof text);
    memcpy(text + 4094, "\xE2\x82\xAC", 3);
    check_looks(&d, "m.x", text, sizeof text, "a text", READ);
}

/* A member of a tar archive, without bytes. */
static void put_member(buf *b, const char *name)
{
    char head[512] = {0};
    strcpy(head, name);
    strcpy(head + 124, "00000000000");
    memcpy(head + 257, "ustar", 5);
    buf_put(b, head, sizeof head);
}

TEST(checkpoint_looks_like_tar)
{
    static const char *const names[] = {"sys_info", "pickle", "tensors", "storages"};
    own_folder d = folder_new();
    own_buf b = {0};
    for (int i = 0; i < 4; i++)
        put_member(&b, names[i]);
    check_looks(&d, "m.x", b.data, b.len, "PyTorch's tar format, from before its archives",
                TORCH(""));
    check_looks(&d, "m.x", b.data, b.len - 512, "a tar archive", "unpack it first: tar -xf FILE");
}

/* Files that are known by their names, and safetensors under such a name. */
TEST(checkpoint_looks_like_by_name)
{
    static const char *const name[] = {"a"};
    static const struct {
        const char *file, *what, *hint;
    } cases[] = {
        {"__0_0.distcp", "a file of torch.distributed.checkpoint (DCP)", DCP},
        {"flax_model.msgpack", "msgpack, as Flax writes it", FLAX},
        {"model.onnx", "an ONNX graph",
         "its arrays become safetensors by onnx.numpy_helper and safetensors.numpy.save_file"},
        {"saved_model.pb", "a TensorFlow SavedModel", SAVE},
        {"model.ckpt.data-00000-of-00001", "a TensorFlow checkpoint", SAVE},
    };
    own_folder d = folder_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_looks(&d, cases[i].file, "PK\3\4\xFF\xFF\xFF\xFF\xFF\xFF", 10, cases[i].what,
                    cases[i].hint);
        folder_tensors(&d, cases[i].file, 1, name);
        own_checkpoint *c = MADE(checkpoint, checkpoint_open, folder_file(&d, cases[i].file), NULL);
    }
}

TEST(checkpoint_looks_like_folder)
{
    static const struct {
        const char *files[3], *what, *hint;
    } cases[] = {
        {{".metadata", "__0_0.distcp"}, "a folder of torch.distributed.checkpoint (DCP)", DCP},
        {{"__1_0.distcp"}, "a folder of torch.distributed.checkpoint (DCP)", DCP},
        {{"_CHECKPOINT_METADATA", "_METADATA"}, "an Orbax checkpoint", ORBAX},
        {{"_METADATA"}, "an Orbax checkpoint", ORBAX},
        {{"manifest.ocdbt"}, "an Orbax checkpoint", ORBAX},
        {{"saved_model.pb"}, "a TensorFlow SavedModel", SAVE},
        {{"checkpoint", "model.index", "model.data-00000-of-00001"}, "a TensorFlow checkpoint",
         SAVE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        own_folder d = folder_new();
        char want[200];
        for (int k = 0; k < 3 && cases[i].files[k]; k++)
            folder_text(&d, cases[i].files[k], "x");
        snprintf(want, sizeof want, "%%: this looks like %s, which is not read", cases[i].what);
        folder_refused(&d, d.path, KV_E_FORMAT, want, cases[i].hint);
    }
    /* one name of two is not enough */
    own_folder d = folder_new();
    folder_text(&d, "checkpoint", "x");
    folder_text(&d, ".metadata", "x");
    folder_refused(&d, d.path, KV_E_FORMAT,
                   "%: the folder has no *.safetensors and no *.safetensors.index.json", "");
}

/* What is nothing known keeps the sentences of the format, and a damaged file its own. */
TEST(checkpoint_looks_like_nothing)
{
    own_folder d = folder_new();
    static const struct {
        const char *text;
        size_t n;
        const char *want;
    } cases[] = {
        {"", 0, "the file is empty"},
        {"new", 3, "cut within the length of its header: 5 of 8 bytes are missing"},
        {"\1\2\3\4\5\6\7\x08\x09", 9,
         "no safetensors file: it begins with a header of 578437695752307201 bytes, and at most "
         "100000000 are allowed"},
        {"<\0\0\0\0\0\0\0{\"a\"", 12, "cut within its header: 56 of 60 bytes are missing"},
        {"\2\0\0\0\0\0\0\0{,", 10, "byte 9: \",\" cannot stand here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[200];
        folder_put(&d, "m.x", cases[i].text, cases[i].n);
        snprintf(want, sizeof want, "%%/m.x: %s", cases[i].want);
        folder_refused(&d, folder_file(&d, "m.x"), KV_E_FORMAT, want, "");
    }
}

/* The length of a header may begin as other files do. */
TEST(checkpoint_looks_like_a_length)
{
    static const char *const begins[] = {"\x1F\x8B\x08", "BZh", "\x80\x02", "\x89H", "{\"", "1,2"};
    own_folder d = folder_new();
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        own_buf text = {0};
        uint64_t length = 0;
        memcpy(&length, begins[i], strlen(begins[i]));
        buf_put(&text, (const char *)&length, sizeof length);
        buf_add(&text, "{}");
        buf_repeat(&text, ' ', (int64_t)length - 2);
        folder_put(&d, "m.x", text.data, text.len);
        own_checkpoint *c = MADE(checkpoint, checkpoint_open, folder_file(&d, "m.x"), NULL);
    }
}

/* Among findings it is an error where it is all, and a finding where it is a shard. */
TEST(checkpoint_looks_like_findings)
{
    static const char *const name[] = {"a"};
    own_folder d = folder_new();
    own_checkpoint *c = NULL;
    buf got = {0};
    checkpoint_options asked = {.found = keep_finding, .arg = &got};
    folder_tensors(&d, "x.safetensors", 1, name);
    folder_text(&d, "y.safetensors", "version https://git-lfs.github.com/spec/v1\n");
    CHECK_INT(checkpoint_open(&c, folder_file(&d, "y.safetensors"), &asked, &e), KV_E_FORMAT);
    CHECK_TEXT(e.hint, "fetch the file that it points to: git lfs pull");
    CHECK(!c && got.len == 0);
    c = folder_findings(d.path,
                        "y.safetensors -: this looks like a Git LFS pointer, which is not read\n");
    CHECK_INT(checkpoint_count(c), 1);
}
