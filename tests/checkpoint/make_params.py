#!/usr/bin/env python3
"""Makes mxnet.params, records of every version as lib/checkpoint/params.h describes them, beside
it what they hold, small.params, of one array, and sparse.params, of arrays that are not dense.

    python3 tests/checkpoint/make_params.py
"""
import os
import struct
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {0: ("F32", 4), 1: ("F64", 8), 2: ("F16", 2), 3: ("U8", 1), 4: ("I32", 4), 5: ("I8", 1),
         6: ("I64", 8), 7: ("BOOL", 1), 8: ("I16", 2), 9: ("U16", 2), 10: ("U32", 4),
         11: ("U64", 8), 12: ("BF16", 2)}
records, names, lines = [], [], []


def shape_of(sizes):
    return struct.pack(f"<i{len(sizes)}q", len(sizes), *sizes)


def add(name, version, flag, sizes, device=(1, 0)):
    n = TYPES[flag][1]
    for size in sizes:
        n *= size
    data = bytes(i % 2 if flag == 7 else (i * 7 + flag) % 64 for i in range(n))
    about = struct.pack("<3i", *device, flag)
    if version == 0:
        head = struct.pack(f"<I{len(sizes)}I", len(sizes), *sizes)
    else:
        head = struct.pack("<I", 0xF993FAC7 + version)
        head += struct.pack("<i", 0) if version > 1 else b""
        head += shape_of(sizes)
    records.append(head + about + data)
    names.append(name)
    text = "(" + ", ".join(map(str, sizes)) + ("," if len(sizes) == 1 else "") + ")"
    lines.append(f"{name} {TYPES[flag][0]} {text} {n} {zlib.crc32(data):08x}\n")


def add_raw(name, record):
    records.append(record)
    names.append(name)


for flag in TYPES:
    add(f"arg:t{flag}", 2, flag, (2, 3))
add("aux:old", 0, 0, (3,))
add("aux:first", 1, 4, (2, 2))
add("gpu", 2, 0, (1, 2, 2), device=(2, 3))
add("np.number", 3, 1, ())
add("np.empty", 3, 0, (0, 4))


def write(name):
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(struct.pack("<3Q", 0x112, 0, len(records)) + b"".join(records))
        f.write(struct.pack("<Q", len(names)))
        for key in names:
            f.write(struct.pack("<Q", len(key)) + key.encode())


write("mxnet.params")
with open(os.path.join(HERE, "params.txt"), "w") as f:
    f.writelines(lines)
with open(os.path.join(HERE, "small.params"), "wb") as f:
    f.write(struct.pack("<3Q", 0x112, 0, 1) + records[0] + struct.pack("<2Q", 1, 1) + b"w")


# ---- Arrays that are not dense ----------------------------------------------------------------

def sparse(name, kind, shape, flag, values_shape, values, *indices):
    dense = bytes(TYPES[flag][1] * shape[0] * shape[1])
    head = struct.pack("<Ii", 0xF993FAC9, kind) + shape_of(values_shape) + shape_of(shape)
    head += struct.pack("<3i", 1, 0, flag)
    for index in indices:
        head += struct.pack("<i", 6) + shape_of((len(index),))
    add_raw(name, head + values + b"".join(struct.pack(f"<{len(x)}q", *x) for x in indices))
    width, dense = TYPES[flag][1], bytearray(dense)
    places = []
    if kind == 1:
        width *= shape[1]
        places = [row for row in indices[0]]
    else:
        for row in range(shape[0] if indices[0] else 0):
            places += [row * shape[1] + column
                       for column in indices[1][indices[0][row]:indices[0][row + 1]]]
    for i, place in enumerate(places):
        dense[place * width:(place + 1) * width] = values[i * width:(i + 1) * width]
    text = "(" + ", ".join(map(str, shape)) + ")"
    lines.append(f"{name} {TYPES[flag][0]} {text} {len(dense)} {zlib.crc32(dense):08x}\n")


records, names, lines = [], [], []
add_raw("nothing", struct.pack("<Iii", 0xF993FAC9, 0, 0))
sparse("rows", 1, (5, 3), 0, (2, 3), struct.pack("<6f", *range(6)), (1, 4))
sparse("room", 1, (5, 3), 4, (4, 3), struct.pack("<6i", *range(6)), (0, 3))
sparse("no.rows", 1, (4, 2), 2, (0, 2), b"", ())
sparse("csr", 2, (4, 6), 1, (5,), struct.pack("<5d", *range(1, 6)), (0, 2, 2, 5, 5), (0, 5, 1, 2, 4))
sparse("no.csr", 2, (2, 3), 0, (0,), b"", (), ())
sparse("csr.turned", 2, (1, 4), 3, (3,), b"\1\2\3", (0, 3), (3, 0, 2))
write("sparse.params")
with open(os.path.join(HERE, "sparse.txt"), "w") as f:
    f.writelines(lines)
