#!/usr/bin/env python3
"""Writes tests/unit/tensor_codec_reference.h: checksums of what ml_dtypes 0.6.0 makes of every code
of the small floats, and of 100,000 float32. The sequence and the checksum are those of
tests/unit/test_tensor_codec.c.

    python3 -m venv v && v/bin/pip install ml_dtypes==0.6.0 numpy
    v/bin/python tests/checkpoint/tensor_codec.py > tests/unit/tensor_codec_reference.h
"""
import sys
import warnings

import ml_dtypes
import numpy as np

N = 100000
TYPES = [  # of tensors, of ml_dtypes, bits
    ("F8_E5M2", "float8_e5m2", 8),
    ("F8_E4M3", "float8_e4m3fn", 8),
    ("F8_E8M0", "float8_e8m0fnu", 8),
    ("F8_E4M3FNUZ", "float8_e4m3fnuz", 8),
    ("F8_E5M2FNUZ", "float8_e5m2fnuz", 8),
    ("F6_E2M3", "float6_e2m3fn", 6),
    ("F6_E3M2", "float6_e3m2fn", 6),
    ("F4", "float4_e2m1fn", 4),
]


def numbers():
    """float32 by a generator of 64 bits. Every second one lies between 2^-31 and 2^17, the others
    anywhere; two of four are at or beside a number of 5 bits, which is a tie of some types."""
    bits, x = np.zeros(N, np.uint32), 1
    for i in range(N):
        x = (x * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        u, near = x >> 32, (x >> 16 & 3) - 1
        if i % 2:
            u = u & 0x8FFFFFFF | 0x30000000 if u & 0x40000000 == 0 else u & 0xC7FFFFFF
        if i % 4 > 1:
            u = (u & 0xFFF80000) + (near if near < 2 else 0)
        bits[i] = u & 0xFFFFFFFF
    return bits.view(np.float32)


def fnv(data):
    h = 14695981039346656037
    for byte in data:
        h = (h ^ byte) * 1099511628211 & (1 << 64) - 1
    return h


def main():
    warnings.simplefilter("ignore")
    assert ml_dtypes.__version__ == "0.6.0"
    print("/* What ml_dtypes 0.6.0 gives, written by tests/checkpoint/tensor_codec.py: type, bits, checksum of\n"
          " * all codes as float32, checksum of the codes of 100,000 numbers. */\n"
          "#ifndef TENSOR_CODEC_REFERENCE_H\n#define TENSOR_CODEC_REFERENCE_H\n\n"
          "#define TENSOR_CODEC_REFERENCES(X)", end="")
    x = numbers()
    for name, theirs, bits in TYPES:
        dtype = getattr(ml_dtypes, theirs)
        codes = np.arange(1 << bits, dtype=np.uint8).view(dtype)
        y = np.where(np.isnan(x), np.float32(1), x) if bits < 8 else x
        print(" \\\n    X(TENSOR_%s, %d, 0x%016x, 0x%016x)" % (
            name, bits, fnv(codes.astype(np.float32).tobytes()), fnv(y.astype(dtype).tobytes())),
              end="")
    print("\n\n#endif")


if __name__ == "__main__":
    sys.exit(main())
