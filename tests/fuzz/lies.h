/* Random inputs for the replay, from a seed. */
#pragma once

#include "fuzz.h"

/* What is drawn from here on depends on the seed alone. */
void lies_begin(uint64_t seed);
uint64_t lies_draw(uint64_t n); /* a number below n */

/* The words of a target: some of its own, and those of this file, which may be absent. */
void lies_dictionary(const char *path);
