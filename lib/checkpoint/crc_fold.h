/* CRC-32 of long texts, by the carry-less multiplication that x86-64 processors have: some times as
 * quick as zlib's tables. */
#ifndef CHECKPOINT_CRC_FOLD_H
#define CHECKPOINT_CRC_FOLD_H

#include <stdbool.h>
#include <stdint.h>

#define CRC_FOLD_LEAST 64 /* bytes */

/* Returns true if this processor can do it. */
bool crc_fold_there(void);

/* Makes 16 bytes of n, a multiple of 16 and CRC_FOLD_LEAST at least, that follow bytes whose CRC-32
 * is crc: their CRC-32 behind bytes whose CRC-32 is 0xFFFFFFFF is that of all. */
void crc_fold(unsigned char out[16], uint32_t crc, const void *data, int64_t n);

#endif
