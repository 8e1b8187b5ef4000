/* Classes by the highest four bits of a size, and a list of blocks for each. */
#include "cuda/cache.h"

#include "base/mem.h"

enum { SMALLEST = 512, STEPS = 8 };

static int log2_of(int64_t bytes)
{
    return 63 - __builtin_clzll((unsigned long long)bytes);
}

int64_t cache_round(int64_t bytes)
{
    if (bytes <= SMALLEST)
        return SMALLEST;
    int64_t step = (int64_t)1 << (log2_of(bytes) - 3);
    return (bytes + step - 1) / step * step;
}

static cache_class *class_of(cache *c, int64_t size)
{
    int log = log2_of(size);
    return &c->classes[log * STEPS + (int)(size >> (log - 3)) % STEPS];
}

static kv_key key_of(const void *block)
{
    return (kv_key){(int64_t)(intptr_t)block, NULL};
}

void *cache_take(cache *c, int64_t size)
{
    cache_class *k = class_of(c, size);
    if (k->n == 0)
        return NULL;
    c->kept -= size;
    return k->blocks[--k->n];
}

int cache_note(cache *c, void *block, int64_t size, kv_err *e)
{
    return map_put(&c->sizes, key_of(block), size, e);
}

static bool put(cache *c, void *block, int64_t size)
{
    if (size < 0 || c->kept + size > c->bound)
        return false;
    cache_class *k = class_of(c, size);
    if (mem_grow(&k->blocks, &k->cap, k->n + 1, sizeof *k->blocks, NULL))
        return false;
    k->blocks[k->n++] = block;
    c->kept += size;
    return true;
}

bool cache_keep(cache *c, void *block)
{
    bool kept = put(c, block, map_get(&c->sizes, key_of(block)));
    if (!kept)
        map_remove(&c->sizes, key_of(block));
    return kept;
}

void *cache_drop(cache *c)
{
    for (int i = CACHE_CLASSES - 1; i >= 0; i--) {
        cache_class *k = &c->classes[i];
        if (k->n > 0) {
            void *block = k->blocks[--k->n];
            c->kept -= map_get(&c->sizes, key_of(block));
            map_remove(&c->sizes, key_of(block));
            return block;
        }
    }
    return NULL;
}
