"""Makes the files of this folder: NumPy's own, and archives that other tools write.

    python3 tests/checkpoint/npz/make.py        (numpy >= 1.24; ml_dtypes for void.npy)

Every array holds its numbers in order, which tests/unit/test_npz.c computes again: element i in
row-major order is i * 3 - 7 in floats and signed integers, i * 3 in unsigned ones, i % 2 in bools,
and i + 2i j in complex ones.
"""

import io
import os
import struct
import zipfile
import zlib

import numpy as np

folder = os.path.dirname(os.path.abspath(__file__))


def numbers(descr, shape=(2, 3), order="C"):
    t = np.dtype(descr)
    i = np.arange(int(np.prod(shape)))
    x = {"f": i * 3.0 - 7, "i": i * 3 - 7, "u": i * 3, "b": i % 2, "c": i + 2j * i}[t.kind]
    return np.array(x.astype(t).reshape(shape), order=order)


def path(name):
    return os.path.join(folder, name)


def npy(array):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def archive(name, members, prefix=b"", comment=b"", stream=False, **options):
    """Members by zipfile. stream: without seeking, so sizes stand behind the data."""
    out = io.BytesIO()
    out.write(prefix)
    target = out
    if stream:
        class Target:
            def write(self, data): return out.write(data)
            def flush(self): pass
        target = Target()
    with zipfile.ZipFile(target, "w", **options) as z:
        z.comment = comment
        for key, array in members:
            with z.open(key + ".npy", "w", force_zip64=True) as f:
                f.write(npy(array))
    with open(path(name), "wb") as f:
        f.write(out.getvalue())


every = ["<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1", "<c8"]
types = [(np.dtype(d).name, numbers(d)) for d in every]
swapped = [(np.dtype(d).name, numbers(d.replace("<", ">"))) for d in every]
shapes = [("scalar", numbers("<f4", ())), ("none", numbers("<f4", (0,))),
          ("hollow", numbers("<f8", (2, 0, 3))), ("ünï/code", numbers("<i4", (1,))),
          ("deep", numbers("<i2", (2, 1, 3, 2, 1, 2)))]
fortran = [("matrix", numbers("<f4", (3, 5), "F")), ("cube", numbers(">i2", (2, 3, 4), "F")),
           ("wide", numbers("<f8", (2, 70), "F")), ("deep", numbers("|u1", (2, 3, 2, 4), "F"))]

np.savez(path("types.npz"), **dict(types))
np.savez(path("shapes.npz"), **dict(shapes))
np.savez(path("nothing.npz"))
np.savez_compressed(path("deflated.npz"), **dict(types + shapes))
np.savez_compressed(path("fortran-deflated.npz"), **dict(fortran))
np.savez(path("fortran.npz"), **dict(fortran))
np.savez(path("swapped.npz"), **dict(swapped))
np.savez_compressed(path("swapped-deflated.npz"), **dict(swapped))
archive("behind.npz", shapes, prefix=b"#!/bin/sh\nexit 0\n", comment=b"PK\5\6 a comment")
archive("stream.npz", shapes, stream=True)
archive("stream-deflated.npz", shapes, stream=True, compression=zipfile.ZIP_DEFLATED)
np.save(path("matrix.npy"), numbers("<f4", (3, 5), "F"))
np.save(path("short.npy"), numbers(">i2", (4,)))

# All sizes and offsets in zip64's fields, and zip64's end.
data = npy(numbers("<f4"))
crc = zlib.crc32(data)
none = 0xFFFFFFFF
extra = struct.pack("<HHQQ", 1, 16, len(data), len(data))
local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 33, crc, none, none, 5, len(extra))
local += b"a.npy" + extra + data
extra = struct.pack("<HHQQQ", 1, 24, len(data), len(data), 0)
entry = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 33, crc, none, none, 5,
                    len(extra), 0, 0, 0, 0, none) + b"a.npy" + extra
end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 1, 1, len(entry), len(local))
locator = struct.pack("<IIQI", 0x07064B50, 0, len(local) + len(entry), 1)
end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, none, none, 0)
with open(path("zip64.npz"), "wb") as f:
    f.write(local + entry + end64 + locator + end)

# What NumPy writes of types that it does not know.
try:
    import ml_dtypes
    np.save(path("void.npy"), np.zeros(2, ml_dtypes.bfloat16))
except ImportError:
    print("void.npy was not made: there is no ml_dtypes")
