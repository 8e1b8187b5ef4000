/* Files that are no checkpoints: what is said of them. */
#include "test_checkpoint.h"

#define READ "read are safetensors, npz, npy and GGUF files, and folders of safetensors files"
#define TORCH                                                                                      \
    "save it as safetensors: safetensors.torch.save_file(torch.load(FILE, weights_only=True), "    \
    "\"m.safetensors\")"

TEST(checkpoint_looks_like)
{
    static const struct {
        const char *text;
        size_t n; /* 0: all of the text */
        const char *what, *hint;
    } cases[] = {
        {"\x80\x02\x8A\x0Al\xFC\x9C\x46\xF9 j\xA8P\x19.", 0, "a PyTorch file", TORCH},
        {"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94.", 14, "a Python pickle", TORCH},
        {"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94.......", 20, "a Python pickle", TORCH},
        {"\x1F\x8B\x08\0\0\0\0\0\0\x03......", 16, "a file compressed with gzip",
         "unpack it first: gunzip FILE"},
        {"\x28\xB5\x2F\xFD........", 0, "a file compressed with zstd",
         "unpack it first: zstd -d FILE"},
        {"\xFD\x37zXZ\0\0\4......", 14, "a file compressed with xz", "unpack it first: xz -d FILE"},
        {"BZh91AY&SY.....", 0, "a file compressed with bzip2", "unpack it first: bunzip2 FILE"},
        {"\x89HDF\r\n\x1A\n........", 0, "an HDF5 file, as Keras and NetCDF write them",
         "save its arrays as safetensors: h5py reads them, safetensors.numpy.save_file writes"},
        {"\x08\x07\x12\x07pytorch\x1A\x05"
         "1.9.0:",
         0, "an ONNX model",
         "its arrays become safetensors by onnx.numpy_helper and safetensors.numpy.save_file"},
        {"tjgg\1\0\0\0..........", 18, "a ggml file from before GGUF",
         "convert the model again, to GGUF"},
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
    test_folder d = folder_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[200];
        folder_put(&d, "m.x", cases[i].text, cases[i].n ? cases[i].n : strlen(cases[i].text));
        snprintf(want, sizeof want, "%%/m.x: this looks like %s, which is not read", cases[i].what);
        folder_refused(&d, folder_file(&d, "m.x"), KV_E_FORMAT, want, cases[i].hint);
    }
    char text[8192] = {0};
    folder_put(&d, "m.x", text, sizeof text);
    folder_refused(&d, folder_file(&d, "m.x"), KV_E_FORMAT,
                   "%/m.x: this looks like a file of zeros, such as an unfinished download, which "
                   "is not read",
                   "download it again");
    memset(text, ' ', sizeof text);
    memcpy(text + 257, "ustar", 5);
    folder_put(&d, "m.x", text, sizeof text);
    folder_refused(&d, folder_file(&d, "m.x"), KV_E_FORMAT,
                   "%/m.x: this looks like a tar archive, which is not read",
                   "unpack it first: tar -xf FILE");
    /* a character that ends behind what is looked at */
    memset(text, 'x', sizeof text);
    memcpy(text + 4094, "\xE2\x82\xAC", 3);
    folder_put(&d, "m.x", text, sizeof text);
    folder_refused(&d, folder_file(&d, "m.x"), KV_E_FORMAT,
                   "%/m.x: this looks like a text, which is not read", READ);
    folder_remove(&d);
}

/* What is nothing known keeps the sentences of the format, and a damaged file its own. */
TEST(checkpoint_looks_like_nothing)
{
    test_folder d = folder_new();
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
    folder_remove(&d);
}

/* The length of a header may begin as other files do. */
TEST(checkpoint_looks_like_a_length)
{
    static const char *const begins[] = {"\x1F\x8B\x08", "BZh", "\x80\x02", "\x89H", "{\"", "1,2"};
    test_folder d = folder_new();
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        kv_err e = {0};
        checkpoint *c = NULL;
        buf text = {0};
        uint64_t length = 0;
        memcpy(&length, begins[i], strlen(begins[i]));
        buf_put(&text, (const char *)&length, sizeof length);
        buf_add(&text, "{}");
        buf_repeat(&text, ' ', (int64_t)length - 2);
        folder_put(&d, "m.x", text.data, text.len);
        CHECK_OK(checkpoint_open(&c, folder_file(&d, "m.x"), NULL, &e));
        checkpoint_close(c);
        buf_release(&text);
    }
    folder_remove(&d);
}

/* Among findings it is an error where it is all, and a finding where it is a shard. */
TEST(checkpoint_looks_like_findings)
{
    static const char *const name[] = {"a"};
    test_folder d = folder_new();
    kv_err e = {0};
    checkpoint *c = NULL;
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
    checkpoint_close(c);
    folder_remove(&d);
}
