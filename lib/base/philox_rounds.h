/* The ten rounds of Philox4x32-10, and how counters name numbers. Compilers of GPUs read this file
 * too, in front of each rule (cuda/prelude.h), so it includes nothing and has its own names for the
 * types. What it is for: base/philox.h. */
#pragma once

#ifdef KV_DEVICE
#define PHILOX KV_DEVICE
#else
#define PHILOX static inline
#endif

typedef unsigned long long philox_bits; /* 64 bits, as uint64_t */

typedef struct philox {
    unsigned word[4]; /* of 32 bits */
} philox;

/* Users of random numbers. Each has numbers of its own, so that one changes none of another. */
typedef enum philox_stream {
    PHILOX_FUNCTIONS, /* uniform, normal and randint of expressions; draw: the calls before */
    PHILOX_RULES,     /* normal of rules; draw: the count t of the key */
    PHILOX_RANKS      /* seeds of the ranks of a job above 0, words 0 and 1; draw: the rank */
} philox_stream;

/* Multipliers and the steps of the key, from section 4 of the paper: the golden ratio and
 * sqrt(3) - 1, scaled to 32 bits. */
#define PHILOX_MULTIPLY_0 0xD2511F53u
#define PHILOX_MULTIPLY_1 0xCD9E8D57u
#define PHILOX_STEP_0     0x9E3779B9u
#define PHILOX_STEP_1     0xBB67AE85u
#define PHILOX_ROUNDS     10

PHILOX philox philox_rounds(philox x, unsigned key0, unsigned key1)
{
    for (int i = 0; i < PHILOX_ROUNDS; i++) {
        philox_bits p = (philox_bits)PHILOX_MULTIPLY_0 * x.word[0];
        philox_bits q = (philox_bits)PHILOX_MULTIPLY_1 * x.word[2];
        x.word[0] = (unsigned)(q >> 32) ^ x.word[1] ^ key0;
        x.word[1] = (unsigned)q;
        x.word[2] = (unsigned)(p >> 32) ^ x.word[3] ^ key1;
        x.word[3] = (unsigned)p;
        key0 += PHILOX_STEP_0;
        key1 += PHILOX_STEP_1;
    }
    return x;
}

/* The counter of an element, or of whatever one block is for. */
PHILOX philox philox_counter(philox_stream stream, philox_bits draw, philox_bits element)
{
    philox x;
    x.word[0] = (unsigned)element;
    x.word[1] = (unsigned)(element >> 32);
    x.word[2] = (unsigned)draw;
    x.word[3] = (unsigned)(draw >> 32 & 0xffff) | (unsigned)stream << 16;
    return x;
}
