/* Random numbers from [0, 1) for the elements of a key, by Philox 4x32-10 (base/philox.h).
 *
 * A number follows from the seed, the text of the key, a stream, and the element's place in it. So
 * neither threads nor blocks, shards or other keys change it. The seed is the key of the cipher; a
 * hash of key and stream is the upper half of its counter, the place the lower one. A counter gives
 * four numbers: element 64 g + 16 w + b is word w of counter 16 g + b.
 */
#ifndef MERGE_MERGE_DRAW_H
#define MERGE_MERGE_DRAW_H

#include <stdint.h>

/* Elements that are drawn together. */
#define MERGE_DRAW_GROUP 64

/* The key and the upper counter half of Philox for one draw of one key of a checkpoint. */
typedef struct merge_draw_key {
    uint32_t seed[2], hash[2];
} merge_draw_key;

merge_draw_key merge_draw_key_of(int64_t seed, const char *key, int64_t stream);

/* The words of one group, 24 bits of which make a number. */
typedef uint32_t merge_draw_words[4][MERGE_DRAW_GROUP / 4];
typedef void merge_drawer(merge_draw_words out, const merge_draw_key *k, uint64_t counter);

/* The i-th implementation that this processor can run, from the slowest; NULL behind the last. All
 * give the same words. */
merge_drawer *merge_draw_way(int i);

/* The numbers of ngroups groups from element MERGE_DRAW_GROUP * group on, multiples of 2^-24. */
void merge_draw_f32(float *out, const merge_draw_key *k, int64_t group, int64_t ngroups);
void merge_draw_f64(double *out, const merge_draw_key *k, int64_t group, int64_t ngroups);

#endif
