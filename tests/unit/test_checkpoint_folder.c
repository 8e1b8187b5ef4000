/* Folders of files, and the index that says which tensor is where. */
#include <sys/resource.h>
#include <sys/stat.h>

#include "test_checkpoint.h"

#define INDEX "model.safetensors.index.json"

static const char *const ab[] = {"a", "b"}, *const c[] = {"c"}, *const bd[] = {"b", "d"};

/* The folder that the tests begin with: a and b in x, c in y. */
static test_folder two_shards(const char *index)
{
    test_folder d = folder_new();
    folder_tensors(&d, "x.safetensors", 2, ab);
    folder_tensors(&d, "y.safetensors", 1, c);
    if (index)
        folder_text(&d, INDEX, index);
    return d;
}

#define RIGHT                                                                                      \
    "{\"metadata\":{\"total_size\":3,\"x\":[{}]},\"weight_map\":{\"c\":\"y.safetensors\","         \
    "\"a\":\"x.safetensors\",\"b\":\"x.safetensors\"}}\n"

static void holds(const checkpoint *m, const char *want)
{
    own_buf names = {0};
    for (int64_t i = 0; i < checkpoint_count(m); i++)
        buf_printf(&names, "%s%s", i ? " " : "", checkpoint_at(m, i)->name);
    CHECK_TEXT(buf_text(&names), want);
}

/* Opening finds this, and holds these tensors. */
static void finds(const char *path, const char *want, const char *findings)
{
    own_checkpoint *m = folder_findings(path, findings);
    holds(m, want);
}

static void opens(const char *path, const char *want)
{
    kv_array *array = NULL;
    own_checkpoint *m = MADE(checkpoint, checkpoint_open, path, NULL);
    holds(m, want);
    for (int64_t i = 0; i < checkpoint_count(m); i++) {
        const tensor_info *t = checkpoint_at(m, i);
        CHECK_INT(checkpoint_find(m, t->name), i);
        CHECK_OK(checkpoint_load(&array, m, i, &e));
        CHECK_INT(*(const unsigned char *)array_elements(array), strcmp(t->name, "b") == 0);
        kv_array_unref(array);
    }
    CHECK_INT(checkpoint_metadata_count(m), 0);
}

TEST(checkpoint_folder)
{
    own_folder d = two_shards(NULL);
    char path[80];
    opens(d.path, "a b c");
    snprintf(path, sizeof path, "%s//", d.path);
    opens(path, "a b c");
    /* what is hidden, or no safetensors file, is not read */
    folder_text(&d, "._x.safetensors", "nothing");
    folder_text(&d, "config.json", "{}");
    folder_text(&d, "x.safetensors.part", "nothing");
    opens(d.path, "a b c");
    /* with an index others are not read */
    folder_text(&d, INDEX, RIGHT);
    folder_text(&d, "a.safetensors", "nothing");
    opens(d.path, "a b c");
    opens(folder_file(&d, INDEX), "a b c");
    /* shards may be links */
    CHECK(mkdir(folder_file(&d, "blobs"), 0700) == 0);
    char blob[128];
    snprintf(blob, sizeof blob, "%s/blobs/1", d.path);
    CHECK(rename(folder_file(&d, "y.safetensors"), blob) == 0);
    CHECK(symlink("blobs/1", folder_file(&d, "y.safetensors")) == 0);
    opens(d.path, "a b c");
    unlink(blob);
    rmdir(folder_file(&d, "blobs"));
    folder_refused(&d, d.path, KV_E_IO,
                   "%/" INDEX ": 1 of its 2 shards is not there: y.safetensors",
                   "there are links of these names, to no file: fetch them again");
    checkpoint_close(folder_findings(d.path, "y.safetensors -: the shard is a link to no file\n"
                                             "a.safetensors -: the index names no tensor of this "
                                             "file\n"));
}

/* An index in the working folder has shards without a folder before their names. */
TEST(checkpoint_folder_here)
{
    own_folder d = two_shards(RIGHT);
    CHECK(chdir(d.path) == 0);
    opens(INDEX, "a b c");
    opens(".", "a b c");
    unlink("x.safetensors");
    folder_refused(&d, INDEX, KV_E_IO, INDEX ": 1 of its 2 shards is not there: x.safetensors",
                   "fetch them again; a file that is there can be read by its name");
}

TEST(checkpoint_folder_empty)
{
    test_folder d = folder_new();
    static const char want[] = "%: the folder has no *.safetensors and no *.safetensors.index.json";
    folder_refused(&d, d.path, KV_E_FORMAT, want, "");
    folder_text(&d, "README.md", "");
    folder_refused(&d, d.path, KV_E_FORMAT, want, "");
    folder_text(&d, "pytorch_model-00002.bin", "");
    folder_text(&d, "pytorch_model-00001.bin", "");
    folder_refused(&d, d.path, KV_E_FORMAT, want, "name the file: %/pytorch_model-00001.bin");
    folder_text(&d, "w.npz", "");
    folder_refused(&d, d.path, KV_E_FORMAT, want, "name the file: %/w.npz");
    folder_text(&d, "z.gguf", "");
    folder_refused(&d, d.path, KV_E_FORMAT, want, "name the file: %/z.gguf");
    folder_remove(&d);
    folder_refused(&d, d.path, KV_E_IO, "cannot read \"%\": No such file or directory", "");
    folder_refused(&d, folder_file(&d, INDEX), KV_E_IO,
                   "cannot read \"%/" INDEX "\": No such file or directory", "");
}

TEST(checkpoint_folder_indexes)
{
    own_folder d = two_shards(RIGHT);
    folder_text(&d, "model.fp16.safetensors.index.json", "{}");
    folder_refused(&d, d.path, KV_E_FORMAT,
                   "%: the folder has 2 indexes: model.fp16.safetensors.index.json, " INDEX,
                   "name one: %/model.fp16.safetensors.index.json");
    opens(folder_file(&d, INDEX), "a b c");
}

TEST(checkpoint_folder_missing)
{
    own_folder d = two_shards("{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"x.safetensors\","
                               "\"p\":\"p.safetensors\",\"q\":\"q.safetensors\","
                               "\"c\":\"y.safetensors\",\"r\":\"p.safetensors\"}}");
    static const char advice[] = "fetch them again; a file that is there can be read by its name";
    folder_refused(&d, d.path, KV_E_IO,
                   "%/" INDEX ": 2 of its 4 shards are not there: p.safetensors, q.safetensors",
                   advice);
    finds(d.path, "a b c",
          "p.safetensors -: the shard is not there\n"
          "q.safetensors -: the shard is not there\n");

    /* more than a sentence has room for */
    own_buf index = {0}, want = {0};
    buf_add(&index, "{\"weight_map\":{");
    for (int i = 1; i <= 40; i++)
        buf_printf(&index, "%s\"t%d\":\"model-%05d-of-00040.safetensors\"", i > 1 ? "," : "", i, i);
    buf_add(&index, "}}");
    folder_text(&d, INDEX, buf_text(&index));
    buf_add(&want, "%/" INDEX ": 40 of its 40 shards are not there: ");
    for (int i = 1; i <= 7; i++)
        buf_printf(&want, "%smodel-%05d-of-00040.safetensors", i > 1 ? ", " : "", i);
    buf_add(&want, " and 33 more");
    folder_refused(&d, d.path, KV_E_IO, buf_text(&want), advice);
}

TEST(checkpoint_folder_twice)
{
    own_folder d = two_shards(NULL);
    folder_tensors(&d, "z.safetensors", 2, bd);
    folder_refused(&d, d.path, KV_E_FORMAT,
                   "%: tensor \"b\" is in x.safetensors and in z.safetensors",
                   "name one of the files, or the index that tells which tensor is where");
    folder_text(&d, INDEX,
                "{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"z.safetensors\","
                "\"c\":\"y.safetensors\",\"d\":\"z.safetensors\"}}");
    /* the index decides, and check tells */
    for (int i = 0; i < 2; i++) {
        own_checkpoint *m = NULL;
        CHECK_OK(checkpoint_open(&m, i ? d.path : folder_file(&d, INDEX), NULL, &e));
        holds(m, "a c b d");
        const char *file = checkpoint_file(m, checkpoint_at(m, checkpoint_find(m, "b"))->file);
        CHECK(strstr(file, "/z.safetensors") != NULL);
    }
    finds(d.path, "a c b d",
          INDEX " b: tensor \"b\" is in x.safetensors too, the index says z.safetensors\n");
}

/* What check tells of an index beyond what stands in the way of reading. */
TEST(checkpoint_folder_oddities)
{
    static const struct {
        const char *index, *want;
    } cases[] = {
        {"{\"metadata\":{\"total_size\":3.0},\"weight_map\":{\"c\":\"y.safetensors\","
         "\"a\":\"x.safetensors\",\"b\":\"x.safetensors\"}}",
         ""},
        {"{\"metadata\":{\"total_size\":4,\"x\":{\"total_size\":9}},\"weight_map\":{\"c\":"
         "\"y.safetensors\",\"a\":\"x.safetensors\",\"b\":\"x.safetensors\"}}",
         INDEX " -: total_size is 4, the tensors have 3 bytes\n"},
        {"{\"metadata\":{\"total_size\":1},\"weight_map\":{\"c\":\"y.safetensors\"}}",
         "x.safetensors -: the index names no tensor of this file\n"},
        {"{\"weight_map\":{}}", "x.safetensors -: the index names no tensor of this file\n"
                                "y.safetensors -: the index names no tensor of this file\n" INDEX
                                " -: the weight_map is empty\n"},
        {"{\"metadata\":{\"total_size\":9},\"weight_map\":{\"c\":\"y.safetensors\",\"z\":"
         "\"z.safetensors\",\"a\":\"x.safetensors\",\"b\":\"x.safetensors\"}}",
         "z.safetensors -: the shard is not there\n"},
    };
    own_folder d = two_shards(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder_text(&d, INDEX, cases[i].index);
        checkpoint_close(folder_findings(d.path, cases[i].want));
        checkpoint_close(folder_findings(folder_file(&d, INDEX), cases[i].want));
    }
    /* another index may name the file */
    folder_text(&d, INDEX, cases[2].index);
    folder_text(&d, "model.fp16.safetensors.index.json",
                "{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"x.safetensors\"}}");
    checkpoint_close(folder_findings(folder_file(&d, INDEX), ""));
}

TEST(checkpoint_folder_disagrees)
{
    own_folder d = two_shards("{\"weight_map\":{\"a\":\"x.safetensors\",\"c\":\"x.safetensors\","
                               "\"e\":\"y.safetensors\"}}");
    folder_refused(&d, d.path, KV_E_FORMAT,
                   "%/" INDEX ": index and shards disagree on 3 tensors: "
                   "tensor \"b\" of x.safetensors is not in the index; "
                   "tensor \"c\" is in y.safetensors, the index says x.safetensors; "
                   "tensor \"e\" is not in y.safetensors, which the index says",
                   "");
    finds(d.path, "a b c",
          INDEX " b: tensor \"b\" of x.safetensors is not in the index\n" INDEX
                " c: tensor \"c\" is in y.safetensors, the index says x.safetensors\n" INDEX
                " e: tensor \"e\" is not in y.safetensors, which the index says\n");
    /* a shard that cannot be read says nothing of its tensors */
    folder_put(&d, "y.safetensors", "\x02\0\0\0\0\0\0\0{\"", 10);
    checkpoint_close(folder_findings(
        d.path, "y.safetensors -: the header ends within a text\n" INDEX
                " b: tensor \"b\" of x.safetensors is not in the index\n" INDEX
                " c: tensor \"c\" is not in x.safetensors, which the index says\n"));
}

/* A shard that is replaced meanwhile is read as it was. */
TEST(checkpoint_folder_replaced)
{
    own_folder d = two_shards(RIGHT);
    own_checkpoint *m = MADE(checkpoint, checkpoint_open, d.path, NULL);
    unlink(folder_file(&d, "y.safetensors"));
    unlink(folder_file(&d, INDEX));
    folder_tensors(&d, "y.safetensors", 2, (const char *const[]){"z", "c"});
    own_array *array = MADE(kv_array, checkpoint_load_name, m, "c");
    CHECK_INT(*(const unsigned char *)array_elements(array), 0);
}

/* A tensor that is left out is not told to be missing, too. */
TEST(checkpoint_folder_left_out)
{
    static const char header[] = "{\"c\":{\"dtype\":\"U128\",\"shape\":[],\"data_offsets\":[0,1]}}";
    own_folder d = two_shards(RIGHT);
    folder_header(&d, "y.safetensors", header, "", 0);
    finds(d.path, "a b",
          "y.safetensors c: tensor \"c\" has the dtype \"U128\", which is not read\n");
}

/* A cut shard keeps the tensors that it has. */
TEST(checkpoint_folder_cut)
{
    own_folder d = two_shards(RIGHT);
    struct stat about;
    CHECK(stat(folder_file(&d, "x.safetensors"), &about) == 0);
    CHECK(truncate(d.file, about.st_size - 1) == 0);
    folder_refused(&d, d.path, KV_E_FORMAT,
                   "%/x.safetensors: cut within its data: 1 of 2 bytes are missing", "");
    finds(d.path, "a c", "x.safetensors -: cut within its data: 1 of 2 bytes are missing\n");
}

/* Opening a pipe would wait. */
TEST(checkpoint_folder_pipe)
{
    own_folder d = two_shards(RIGHT);
    unlink(folder_file(&d, "y.safetensors"));
    CHECK(mkfifo(d.file, 0600) == 0);
    folder_refused(&d, d.path, KV_E_IO, "%/y.safetensors: a shard has to be a regular file", "");
}

TEST(checkpoint_folder_limit)
{
    own_folder d = folder_new();
    for (int i = 0; i < 40; i++) {
        char file[32], name[8];
        snprintf(file, sizeof file, "%02d.safetensors", i);
        snprintf(name, sizeof name, "t%d", i);
        folder_tensors(&d, file, 1, (const char *const[]){name});
    }
    int lowest = dup(0);
    close(lowest);
    struct rlimit limit = {(rlim_t)lowest + 20, (rlim_t)lowest + 20};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        test_skip("the limit of open files cannot be set"); /* under valgrind */
    checkpoint *m = NULL;
    CHECK_INT(checkpoint_open(&m, d.path, NULL, &e), KV_E_IO);
    CHECK(strstr(e.text, ".safetensors\": Too many open files") != NULL);
    CHECK_TEXT(e.hint, "the limit of the process is raised by: ulimit -n NUMBER");
    int now = dup(0);
    CHECK_INT(now, lowest);
    close(now);
}

TEST(checkpoint_index_refuses)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "the index ends where a value is needed"},
        {"[]", "byte 0: \"[\" cannot stand here"},
        {"{}", "it has no \"weight_map\""},
        {"{\"weight_map\":1}", "\"weight_map\" is not an object"},
        {"{\"weight_map\":{},\"weight_map\":{}}", "\"weight_map\" stands there twice"},
        {"{\"weight_map\":{\"a\":1}}", "the file of tensor \"a\" is not a text"},
        {"{\"weight_map\":{\"a\":\"\"}}", "the file of tensor \"a\" is an empty text"},
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}",
         "the file of tensor \"a\" is a name that leaves the folder"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}",
         "the file of tensor \"a\" is a name that leaves the folder"},
        {"{\"weight_map\":{\"a\":\"s/x.safetensors\"}}",
         "the file of tensor \"a\" is a name that leaves the folder"},
        {"{\"weight_map\":{\"a\":\"..\"}}",
         "the file of tensor \"a\" is a name that leaves the folder"},
        {"{\"weight_map\":{\"a\":\"x\\u0000\"}}", "byte 21: a text with a NUL"},
        {"{\"weight_map\":{\"a\":\"x.safetensors\",\"a\":\"x.safetensors\"}}",
         "tensor \"a\" stands there twice"},
        {RIGHT "x", "byte 114: only blanks may follow the index's last bracket"},
        {"{\"metadata\":[[[[[[[[[[[[[[[[[[[", "byte 27: brackets are nested deeper than 16"},
        {"<html>", "byte 0: \"<\" cannot stand here"},
    };
    own_folder d = two_shards(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[160];
        folder_text(&d, INDEX, cases[i].text);
        snprintf(want, sizeof want, "%%/" INDEX ": %s", cases[i].want);
        folder_refused(&d, d.path, KV_E_FORMAT, want, "");
    }
    folder_text(&d, INDEX, "{\"weight_map\":{\"a\":\"x\\u001b[2J\"}}");
    folder_refused(&d, d.path, KV_E_IO, "%/" INDEX ": 1 of its 1 shards is not there: x?[2J",
                   "fetch them again; a file that is there can be read by its name");
    /* as findings, and the rest is read */
    folder_text(&d, INDEX,
                "{\"weight_map\":{\"a\":\"../x\",\"c\":\"y.safetensors\","
                "\"c\":\"y.safetensors\",\"d\":4}}");
    finds(d.path, "c",
          INDEX " a: the file of tensor \"a\" is a name that leaves the folder\n" INDEX
                " d: the file of tensor \"d\" is not a text\n" INDEX
                " c: tensor \"c\" stands there twice\n"
                "x.safetensors -: the index names no tensor of this file\n");
    folder_text(&d, INDEX, "{}");
    finds(d.path, "a b c", INDEX " -: it has no \"weight_map\"\n");
}

/* 200,000 tensors in one index: no step is quadratic. */
TEST(checkpoint_index_many)
{
    enum { N = 200000 };
    own_buf index = {0};
    own_folder d = two_shards(NULL);
    buf_add(&index, "{\"weight_map\":{\"a\":\"x.safetensors\"");
    for (int i = 0; i < N; i++)
        buf_printf(&index, ",\"t%d\":\"s%d.safetensors\"", i, i % 1000);
    buf_add(&index, "}}");
    folder_put(&d, INDEX, index.data, index.len);
    checkpoint *m = NULL;
    CHECK_INT(checkpoint_open(&m, d.path, NULL, &e), KV_E_IO);
    CHECK(strstr(e.text, ": 1000 of its 1001 shards are not there: s0.safetensors, s1.") != NULL);
}

/* More than memory is taken for. */
TEST(checkpoint_index_too_many)
{
    own_buf index = {0};
    own_folder d = two_shards(NULL);
    buf_add(&index, "{\"weight_map\":{\"\":\"x\"");
    for (int i = 0; i < 4000000; i++)
        buf_add(&index, ",\"\":\"x\"");
    buf_add(&index, "}}");
    folder_put(&d, INDEX, index.data, index.len);
    folder_refused(&d, d.path, KV_E_FORMAT,
                   "%/" INDEX ": more than 4000000 tensors, which are not read", "");
    buf_repeat(&index, ' ', 100000000);
    folder_put(&d, INDEX, index.data, 100000001);
    folder_refused(&d, d.path, KV_E_FORMAT,
                   "%/" INDEX ": an index of 100000001 bytes, at most 100000000 are allowed", "");
}

TEST(checkpoint_weights)
{
    char header[] =
        "{\"__metadata__\":{\"kvstore.format\":\"1\",\"kvstore.type\":\"local\",\"format\":\"pt\"},"
        "\"__state__/w/0\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
        "\"w\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[1,2]},"
        "\"__key____x\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[2,3]},"
        "\"__key__/__x\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[3,4]},"
        "\"__residual__/w/0\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[4,5]},"
        "\"__rows__/r/data\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[5,6]}}";
    own_folder d = folder_new();
    own_checkpoint *m = NULL;
    folder_header(&d, "s.kvs", header, "\0\1\2\3\4\5", 6);
    CHECK_OK(
        checkpoint_open(&m, folder_file(&d, "s.kvs"), &(checkpoint_options){.weights = true}, &e));
    holds(m, "w __key____x __x __rows__/r/data");
    CHECK_INT(checkpoint_find(m, "__x"), 2);
    CHECK_INT(checkpoint_find(m, "__key__/__x"), -1);
    CHECK_INT(checkpoint_metadata_count(m), 1);
    CHECK_TEXT(checkpoint_metadata(m, "format"), "pt");
    CHECK(!checkpoint_metadata(m, "kvstore.format"));
    checkpoint_close(m);
    CHECK_OK(checkpoint_open(&m, d.file, NULL, &e));
    CHECK_INT(checkpoint_count(m), 6);
    CHECK_INT(checkpoint_metadata_count(m), 3);
    checkpoint_close(m);
    /* another tool's file is left alone, whatever its names */
    memcpy(strstr(header, "kvstore.format"), "kvstare", 7);
    folder_header(&d, "s.kvs", header, "\0\1\2\3\4\5", 6);
    CHECK_OK(
        checkpoint_open(&m, folder_file(&d, "s.kvs"), &(checkpoint_options){.weights = true}, &e));
    CHECK_INT(checkpoint_count(m), 6);
    CHECK_INT(checkpoint_metadata_count(m), 3);
}

/* A model of PyTorch, where no safetensors stand beside it. */
TEST(checkpoint_folder_torch)
{
    static const char index[] = "{\"weight_map\": {\"one\": \"one.pt\"}}";
    own_folder d = folder_new();
    size_t n;
    own_text *bytes = file_text("tests/checkpoint/torch/one.pt", &n);
    folder_put(&d, "pytorch_model.bin", bytes, n);
    own_checkpoint *model = MADE(checkpoint, checkpoint_open, d.path, NULL);
    CHECK_TEXT(checkpoint_at(model, 0)->name, "pytorch_model");
    checkpoint_close(model);
    folder_put(&d, "one.pt", bytes, n);
    folder_text(&d, "pytorch_model.bin.index.json", index);
    CHECK_OK(checkpoint_open(&model, d.path, NULL, &e));
    CHECK_TEXT(checkpoint_at(model, 0)->name, "one");
}
