/* tensor_put: what many threads write in pieces is what one conversion gives, and of several
 * elements that do not fit the first is told. */
#include "tensors/conversion.h"

#include "checkpoint/tensor_codec.h"
#include "store_help.h"

enum { N = 700000 }; /* some pieces, the last one not full */

static float *numbers(void)
{
    kv_err e = {0};
    float *x = mem_alloc(N, sizeof *x, &e);
    CHECK(x != NULL);
    for (int64_t i = 0; i < N; i++)
        x[i] = (float)((i * 7919) % 1000) / 8 - 60;
    return x;
}

static checkpoint_out *open_out(const char *path, tensor_type to, int64_t n)
{
    checkpoint_out *out = NULL;
    const checkpoint_entry entries[] = {{"a", TENSOR_F32, 1, (int64_t[]){2}}, {"x", to, 1, &n}};
    CHECK_OK(checkpoint_out_open(&out, path, entries, 2, NULL, 0, NULL, &e));
    return out;
}

static void check_bytes(const char *path, const void *want, int64_t bytes)
{
    kv_err e = {0};
    FILE *f = fopen(path, "rb");
    own_checkpoint *c = MADE(checkpoint, checkpoint_open, path, NULL);
    const tensor_info *t = checkpoint_at(c, checkpoint_find(c, "x"));
    CHECK_INT(t->bytes, bytes);
    own_text *got = mem_alloc(bytes + 1, 1, &e);
    CHECK(f && got && fseek(f, (long)t->offset, SEEK_SET) == 0);
    CHECK_INT(fread(got, 1, (size_t)bytes, f), bytes);
    CHECK(memcmp(got, want, (size_t)bytes) == 0);
    fclose(f);
}

static void put_as(const float *x, tensor_type to, int64_t n)
{
    kv_err e = {0};
    int64_t wrong = 5, bytes = tensor_type_bytes(to, n);
    checkpoint_out *out = open_out("x.safetensors", to, n);
    own_text *want = mem_alloc(bytes + 1, 1, &e);
    CHECK(want && tensor_convert(want, to, x, TENSOR_F32, n) == -1);
    CHECK_OK(tensor_put(out, 1, to, x, TENSOR_F32, n, NULL, &wrong, &e));
    CHECK_INT(wrong, -1);
    CHECK_OK(tensor_put(out, 0, TENSOR_F32, x, TENSOR_F32, 2, NULL, &wrong, &e));
    CHECK_OK(checkpoint_out_commit(out, &e));
    check_bytes("x.safetensors", want, bytes);
}

TEST(tensor_put_writes_every_type)
{
    const tensor_type types[] = {TENSOR_F32, TENSOR_F64,     TENSOR_F16, TENSOR_BF16,
                                 TENSOR_I32, TENSOR_F8_E4M3, TENSOR_F4,  TENSOR_F6_E2M3};
    own_mem float *x = numbers();
    IN_FOLDER("x.safetensors", NULL);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        put_as(x, types[i], N);
        put_as(x, types[i], 4);
        put_as(x, types[i], 0);
    }
}

TEST(tensor_put_tells_the_first_element_that_does_not_fit)
{
    own_mem float *x = numbers();
    int64_t at[] = {N - 1, 600000, 262144, 131071, 131070, 3};
    enter_folder();
    for (int i = 0; i < 6; i++) {
        int64_t wrong = -1;
        checkpoint_out *out = open_out("x.safetensors", TENSOR_I8, N);
        x[at[i]] = 1000;
        CHECK_OK(tensor_put(out, 1, TENSOR_I8, x, TENSOR_F32, N, NULL, &wrong, &e));
        CHECK_INT(wrong, at[i]);
        checkpoint_out_abandon(out);
    }
    leave_folder(NULL, NULL); /* nothing is left */
}

TEST(tensor_put_without_memory)
{
    int64_t wrong;
    own_mem float *x = numbers();
    IN_FOLDER(NULL, NULL);
    checkpoint_out *out = open_out("x.safetensors", TENSOR_F16, N);
    CHECK_INT(WITHOUT_MEMORY(1, tensor_put(out, 1, TENSOR_F16, x, TENSOR_F32, N, NULL, &wrong, &e)),
              KV_E_MEMORY);
    checkpoint_out_abandon(out);
}
