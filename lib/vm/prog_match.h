/* The tiles that cover the nodes of a program, one for each instruction. */
#ifndef VM_PROG_MATCH_H
#define VM_PROG_MATCH_H

#include "vm/prog.h"

/* A constant of a tile: a literal, or a number of the builder or minus it. */
typedef struct tile_constant {
    prog_number k;
    int16_t number;
    bool negated; /* until prog_match has found the number that this is */
} tile_constant;

/* An instruction whose operands are nodes. */
typedef struct tile {
    int32_t node;   /* whose value it gives; -1 for a store behind the others */
    int32_t kid[3]; /* -1: unused */
    int32_t slot;   /* the array it writes, or -1: a register */
    uint16_t kernel;
    uint8_t kind, type, to, from;
    uint8_t nk;
    tile_constant k[KERNEL_CONSTANTS];
} tile;

/* Makes the tile for node i, whose uses have been counted: the loop that computes it, which
 * swallows operands that no other node needs where a fused loop exists for the shape. The tile
 * writes a register; its operands are the nodes that it does not swallow. */
void prog_match(const prog_builder *b, tile *t, int32_t i);

#endif
