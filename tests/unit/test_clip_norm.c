/* Tests of clip_global_norm against closed forms. */
#include <math.h>

#include "kvstore.h"
#include "store_help.h"

static void set_clipped(kv *s, const char *norm, const char *rescale)
{
    set_rule_with(s, "{ stored -= rescale_grad * input }",
                  (kv_opt[]){{"clip_global_norm", norm}, {"rescale_grad", rescale}}, 2);
}

/* Pushes n keys from 1 on, each of `size` elements x[i], in one call. */
static int push_all(kv *s, const double *x, int n, int64_t size, kv_err *e)
{
    kv_key keys[8];
    own_arrays *values[8 + 1] = {NULL};
    for (int i = 0; i < n; i++) {
        keys[i] = id(i + 1);
        values[i] = array_full(KV_FLOAT32, 1, &size, x[i], cpu0);
    }
    return kv_push(s, keys, n, values, NULL, e);
}

static void init_all(kv *s, int n, int64_t size, double x)
{
    for (int i = 0; i < n; i++)
        init_with(s, id(i + 1), array_full(KV_FLOAT32, 1, &size, x, cpu0));
}

static float first(kv *s, int key)
{
    kv_info info = info_of(s, id(key));
    own_array *out = pull_into(s, id(key), array_full(KV_FLOAT32, info.ndim, info.shape, 0, cpu0));
    return *(const float *)array_elements(out);
}

/* w -= rescale * g * min(1, c / (rescale * norm)), the factor rounded to float32 once. */
TEST(clip_norm_closed_form)
{
    static const double grads[] = {0.1, -0.7, 3.25}, limits[] = {0.01, 1, 50, 1000};
    static const char *const texts[] = {"0.01", "1", "50", "1000"};
    for (int i = 0; i < 4; i++) {
        own_kv *s = make(i % 2 ? "device" : "local");
        double sum = 0;
        init_all(s, 3, 3000, 0);
        set_clipped(s, texts[i], "0.5");
        CHECK_OK(push_all(s, grads, 3, 3000, &e));
        for (int k = 0; k < 3; k++)
            sum += 3000 * (double)(float)grads[k] * (double)(float)grads[k];
        double norm = 0.5 * sqrt(sum);
        for (int k = 0; k < 3; k++) {
            float g = (float)grads[k];
            if (norm > limits[i])
                g *= (float)(limits[i] / norm);
            float want = 0.0f - 0.5f * g, got = first(s, k + 1);
            CHECK(fabsf(got - want) <= 1e-6f * fabsf(want));
        }
    }
}

/* Below the limit nothing differs from a push that does not clip, in any bit. */
TEST(clip_norm_below_the_limit)
{
    static const double grads[] = {0.1, -0.7, 1e-30};
    float got[2][3];
    for (int clips = 0; clips < 2; clips++) {
        own_kv *s = make("local");
        init_all(s, 3, 17, 0.3);
        CHECK_OK(kv_set_optimizer(s, "adam", &(kv_opt){"clip_global_norm", clips ? "1e3" : "none"},
                                  1, &e));
        for (int i = 0; i < 5; i++)
            CHECK_OK(push_all(s, grads, 3, 17, &e));
        for (int k = 0; k < 3; k++)
            got[clips][k] = first(s, k + 1);
    }
    CHECK(memcmp(got[0], got[1], sizeof got[0]) == 0);
}

TEST(clip_norm_refusals)
{
    own_kv *s = make("local");
    CHECK_ERR(kv_set_optimizer(s, "sgd", &(kv_opt){"clip_global_norm", "0"}, 1, &e), KV_E_VALUE,
              "parameter clip_global_norm takes a number above 0, or none");
    CHECK_OK(kv_set_optimizer(s, "sgd", NULL, 0, &e));
    CHECK_CODE(kv_update_optimizer(s, &(kv_opt){"clip_global_norm", "-1"}, 1, &e), KV_E_VALUE);
    CHECK_OK(kv_update_optimizer(s, &(kv_opt){"clip_global_norm", "2"}, 1, &e));
}

TEST(clip_norm_memory_faults)
{
    static const double grads[] = {3, 4};
    for (int64_t n = 1, rc = -1; rc != KV_OK; n++) {
        own_kv *s = make("local");
        e = (kv_err){0};
        init_all(s, 2, 1, 0);
        set_clipped(s, "2.5", "1");
        kv_key keys[] = {id(1), id(2)};
        const int64_t one = 1;
        own_arrays *values[] = {array_full(KV_FLOAT32, 1, &one, grads[0], cpu0),
                                array_full(KV_FLOAT32, 1, &one, grads[1], cpu0), NULL};
        rc = WITHOUT_MEMORY(n, kv_push(s, keys, 2, values, NULL, &e));
        CHECK(first(s, 1) == (rc == KV_OK ? -1.5f : 0));
        CHECK(first(s, 2) == (rc == KV_OK ? -2.0f : 0));
    }
}
