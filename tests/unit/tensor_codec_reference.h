/* What ml_dtypes 0.6.0 gives, written by tests/checkpoint/tensor_codec.py: type, bits, checksum of
 * all codes as float32, checksum of the codes of 100,000 numbers. */
#pragma once

#define TENSOR_CODEC_REFERENCES(X) \
    X(TENSOR_F8_E5M2, 8, 0xa4c9f019470b0385, 0x53daebf6f8ac28d0) \
    X(TENSOR_F8_E4M3, 8, 0xdad259c50f757625, 0xe19f28351c91d804) \
    X(TENSOR_F8_E8M0, 8, 0x6d2c8b41c3f0e5a5, 0x15e29d301f86006f) \
    X(TENSOR_F8_E4M3FNUZ, 8, 0x10b52e1689fa0f98, 0x719c7bee5de72b0a) \
    X(TENSOR_F8_E5M2FNUZ, 8, 0x5bcfa8edcce2bf98, 0x4cdee48a86219025) \
    X(TENSOR_F6_E2M3, 6, 0x7ffacb24ad8b0aa5, 0x89e53ffc83ec37b8) \
    X(TENSOR_F6_E3M2, 6, 0x25da13434201d785, 0x7101192cdbc7c70a) \
    X(TENSOR_F4, 4, 0x2403bb76b85dfea5, 0x787c037bb30239d5)
