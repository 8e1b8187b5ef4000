/* asks: what calls between ranks carry comes out as it went in, and cut short is malformed. */
#include "test.h"

#include "distributed/asks.h"

TEST(asks_keys)
{
    static const char *const names[] = {NULL, "", "w", "seventh", "eighth__", "a longer name"};
    enum { N = sizeof names / sizeof *names };
    own_buf b = {0};
    kv_key key;
    for (int i = 0; i < N; i++)
        ask_put_key(&b, &(ask_key){.id = i - 3, .ndim = 2, .shape = {i, 4}, .place.first = 70 + i},
                    names[i]);
    CHECK_OK(buf_check(&b, &e));
    const char *at = b.data, *end = b.data + b.len;
    for (int i = 0; i < N; i++) {
        const ask_key *k = ask_get_key(&at, end, &key);
        CHECK(k && k->shape[0] == i && k->place.first == 70 + i);
        CHECK_INT(key.id, i - 3);
        CHECK(!key.name == !names[i]);
        CHECK_TEXT(key.name ? key.name : "none", names[i] ? names[i] : "none");
    }
    CHECK(at == end);
    for (size_t n = 0; n < b.len; n++) {
        int whole = 0;
        at = b.data;
        while (at < b.data + n && ask_get_key(&at, b.data + n, &key))
            whole++;
        CHECK(whole < N);
        CHECK(at <= b.data + n);
    }
}

/* A part of an array, and an array made of its bytes. */
TEST(asks_parts)
{
    int64_t shape[] = {70000}, count = 4464;
    own_array *a = MADE(kv_array, kv_array_new, KV_FLOAT32, 1, shape, (kv_ctx){0});
    kv_array *part = NULL;
    float *data = array_data(a);
    own_buf b = {0};
    kv_key key;
    for (int i = 0; i < 70000; i++)
        data[i] = (float)i;
    ask_key k = {.dtype = KV_FLOAT32, .ndim = 1, .shape = {70000}};
    k.place = place_new(KV_FLOAT32, KV_DEFAULT, 1, shape, PLACE_ANYWHERE, 2);
    k.place.first = 5;
    CHECK_OK(ask_put_slot(&b, &k, "weight", 1, a, &e));
    const ask_slot *s = (const ask_slot *)(const void *)b.data;
    const char *at = (const char *)&s->key;
    CHECK(ask_get_key(&at, b.data + b.len, &key));
    CHECK_TEXT(key.name, "weight");
    CHECK_INT(s->part, 6);
    CHECK_INT(s->from, 65536);
    CHECK_INT(s->count, count);
    CHECK_OK(ask_array(&part, KV_DEFAULT, KV_FLOAT32, 1, &count, at, s->bytes, &e));
    CHECK(memcmp(array_elements(part), data + 65536, (size_t)count * sizeof(float)) == 0);
    kv_array_unref(part);
    CHECK_CODE(ask_array(&part, KV_DEFAULT, KV_FLOAT32, 1, &count, at, s->bytes - 4, &e),
               KV_E_INTERNAL);
    CHECK(!part);
}

TEST(asks_rows)
{
    int64_t shape[] = {6, 3}, ids[] = {1, 4};
    own_buf b = {0};
    own_array *a = MADE(kv_array, kv_array_new_sparse, KV_FLOAT32, 2, shape, 2, ids, (kv_ctx){0});
    float *data = row_data(a);
    for (int i = 0; i < 6; i++)
        data[i] = (float)i;
    ask_put_rows(&b, a, 0, INT64_MAX);
    int64_t bytes = (int64_t)b.len;
    kv_array *same = MADE(kv_array, ask_array, KV_ROW_SPARSE, KV_FLOAT32, 2, shape, b.data, bytes);
    CHECK_INT(kv_array_nrows(same), 2);
    CHECK(memcmp(kv_array_row_ids(same), ids, sizeof ids) == 0);
    CHECK(memcmp(row_elements(same), data, 6 * sizeof(float)) == 0);
    kv_array_unref(same);
    for (int64_t n = 0; n < bytes; n++) {
        e = (kv_err){0};
        CHECK(ask_array(&same, KV_ROW_SPARSE, KV_FLOAT32, 2, shape, b.data, n, &e) != KV_OK);
        CHECK(!same);
    }
}

static void check_no_key(const buf *b)
{
    kv_key key;
    const char *at = b->data;
    CHECK(!ask_get_key(&at, b->data + b->len, &key));
    CHECK(at == b->data);
}

/* Messages that no correct rank sends. */
TEST(asks_hostile)
{
    kv_key key;
    own_buf b = {0};
    const ask_key good = {.id = 3, .ndim = 2, .shape = {2, 4}, .place = {.nparts = 1, .step = 8}};
    enum { WRONG = 10 };
    ask_key wrong[WRONG];
    for (int i = 0; i < WRONG; i++)
        wrong[i] = good;
    wrong[0].ndim = KV_MAX_NDIM + 1;
    wrong[1].dtype = KV_DTYPE_END;
    wrong[2].storage = KV_ROW_SPARSE + 1;
    wrong[3].shape[1] = -4;
    wrong[4].shape[0] = wrong[4].shape[1] = INT64_C(1) << 31;
    wrong[4].ndim = 3;
    wrong[4].shape[2] = 2;
    wrong[5].need = PLACE_WHOLE + 1;
    wrong[6].dtype = 255;
    wrong[7].ndim = 255;
    wrong[8].shape[0] = INT64_MAX;
    wrong[9].shape[0] = 0; /* of no element, but its rows overflow */
    wrong[9].shape[1] = wrong[9].shape[2] = INT64_C(1) << 40;
    wrong[9].ndim = 3;
    for (int i = 0; i < WRONG; i++) {
        buf_clear(&b);
        ask_put_key(&b, &wrong[i], "w");
        check_no_key(&b);
    }
    static const int32_t names[] = {-1, -8, -112, INT32_MIN, INT32_MAX, 3, 9, 1};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        buf_clear(&b);
        ask_put_key(&b, &good, "wxy");
        ((ask_key *)(void *)b.data)->name_bytes = names[i];
        check_no_key(&b);
    }
    int64_t shape[] = {2, 4};
    kv_array *a = MADE(kv_array, kv_array_new, KV_FLOAT32, 2, shape, (kv_ctx){0});
    ask_key k = good;
    k.place = place_new(KV_FLOAT32, KV_DEFAULT, 2, shape, PLACE_ANYWHERE, 1);
    for (int i = 0; i < 8; i++) {
        const char *data;
        buf_clear(&b);
        CHECK_OK(ask_put_slot(&b, &k, "w", 0, a, &e));
        ask_slot *s = (ask_slot *)(void *)b.data;
        int64_t *const fields[] = {&s->part, &s->from, &s->count, &s->bytes, &s->key.place.row};
        const char *at = b.data, *end = b.data + b.len;
        if (i < 5)
            *fields[i] = -1;
        else if (i == 5)
            s->bytes = (int64_t)b.len;
        else if (i == 6)
            s->key.place.nparts = 0;
        else
            s->bytes = INT64_MAX;
        CHECK(!ask_get_slot(&at, end, &key, &data));
        CHECK(at == b.data);
    }
    kv_array_unref(a);
    static const int64_t counts[] = {-1, 2, INT64_MAX, INT64_MAX / 8, INT64_C(1) << 60};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        CHECK_ERR(
            ask_array(&a, KV_ROW_SPARSE, KV_FLOAT32, 2, shape, (const char *)&counts[i], 8, &e),
            KV_E_INTERNAL, "a record of another rank is malformed");
    }
}

TEST(asks_errors)
{
    kv_err told = {.code = KV_E_VALUE, .line = 3, .has_rank = 1, .rank = 2, .text = "why"};
    CHECK_INT(ask_error(&e, &told, sizeof told), KV_E_VALUE);
    CHECK_TEXT(e.text, "why");
    CHECK(e.has_rank && e.rank == 2 && e.line == 0);
    told.code = KV_E_SHAPE;
    CHECK_INT(ask_error(&e, &told, sizeof told), KV_E_VALUE); /* the first one wins */
    static const int32_t odd[] = {KV_OK, -1, KV_NCODES};
    for (int i = 0; i < 5; i++) {
        kv_err x = told;
        e = (kv_err){0};
        if (i < 3)
            x.code = odd[i];
        else if (i == 3)
            x.text[0] = 0;
        CHECK_INT(ask_error(&e, &x, sizeof x - (i == 4)), KV_E_INTERNAL);
        CHECK_TEXT(e.text, "a record of another rank is malformed");
    }
    e = (kv_err){0};
    memset(told.text, 'x', sizeof told.text);
    memset(told.key_name, 'x', sizeof told.key_name);
    CHECK_INT(ask_error(&e, &told, sizeof told), KV_E_SHAPE);
    CHECK_INT((int64_t)strlen(e.text), sizeof e.text - 1);
    CHECK_INT((int64_t)strlen(e.key_name), sizeof e.key_name - 1);
}
