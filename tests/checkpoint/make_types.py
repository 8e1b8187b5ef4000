#!/usr/bin/env python3
"""Makes a.safetensors and b.safetensors of tests/cli/data/types: a key of every type of
safetensors, without other packages. Run it with the folder to write to."""
import json
import struct
import sys

nan, inf = float("nan"), float("inf")


def f32(*x):
    return struct.pack("<%df" % len(x), *x)


def bf16(*x):
    return b"".join(struct.pack("<f", v)[2:] for v in x)


# name: type, shape, data of a, data of b. Small floats are codes.
tensors = {
    "bool": ("BOOL", [4], b"\0\1\1\0", b"\0\1\1\0"),
    "f4": ("F4", [2, 2], b"\x21\xf8", b"\x21\x70"),  # 0.5 1 -0 -6; 0 6
    "f6_e2m3": ("F6_E2M3", [4], b"\x88\x02\xfc", b"\x88\x02\xfc"),
    "f6_e3m2": ("F6_E3M2", [4], b"\x88\x02\xfc", b"\x88\x02\xf8"),
    "u8": ("U8", [3], b"\0\x80\xff", b"\0\x80\xfe"),
    "i8": ("I8", [3], b"\0\x80\x7f", b"\0\x80\x7f"),
    "f8_e5m2": ("F8_E5M2", [4], b"\x3c\xfc\x7e\x80", b"\x3c\xfc\x7e\x00"),
    "f8_e4m3": ("F8_E4M3", [4], b"\x38\x7e\xff\x01", b"\x39\x7e\xff\x01"),
    "f8_e8m0": ("F8_E8M0", [3], b"\x7f\x80\xff", b"\x7f\x80\xff"),
    "f8_e4m3fnuz": ("F8_E4M3FNUZ", [3], b"\x40\x80\x7f", b"\x40\x80\x7f"),
    "f8_e5m2fnuz": ("F8_E5M2FNUZ", [3], b"\x40\x80\x7f", b"\x41\x80\x7f"),
    "i16": ("I16", [2], struct.pack("<2h", -32768, 5), struct.pack("<2h", -32768, 6)),
    "u16": ("U16", [2], struct.pack("<2H", 65535, 5), struct.pack("<2H", 65535, 5)),
    "f16": ("F16", [3], b"\x00\x3c\x00\xfc\xff\x7b", b"\x01\x3c\x00\xfc\xff\x7b"),
    "bf16": ("BF16", [2, 3], bf16(1, -2, 3, nan, inf, -0.0), bf16(1, -2, 3.015625, nan, inf, 0)),
    "i32": ("I32", [2], struct.pack("<2i", -(2**31), 7), struct.pack("<2i", -(2**31), 7)),
    "u32": ("U32", [2], struct.pack("<2I", 2**32 - 1, 7), struct.pack("<2I", 2**32 - 1, 8)),
    "f32": ("F32", [2, 2], f32(0.5, -1.5, nan, 0.25), f32(0.5, -1.5, nan, 0.25)),
    "c64": ("C64", [2], f32(1, 2, 3, -4), f32(1, 2, 3, 4)),
    "f64": ("F64", [3], struct.pack("<3d", 0.1, -0.2, 1e300), struct.pack("<3d", 0.1, 0.2, 1e300)),
    "i64": ("I64", [2], struct.pack("<2q", -(2**63), 3), struct.pack("<2q", 2**63 - 1, 3)),
    "u64": ("U64", [2], struct.pack("<2Q", 2**64 - 1, 3), struct.pack("<2Q", 2**64 - 2, 3)),
    "nothing": ("F32", [0, 3], b"", b""),
    "scalar": ("F32", [], f32(-7), f32(-8)),
    "nan": ("F32", [2], f32(nan, nan), f32(nan, 0)),
    "shape": ("F32", [2, 3], f32(*range(6)), None),
    "type": ("F32", [2], f32(1, 2), None),
    "only a": ("I8", [1], b"\1", None),
}
others = {
    "shape": ("F32", [3, 2], f32(*range(6))),
    "type": ("BF16", [2], bf16(1, 2)),
    "only\x1b[31m b": ("I8", [1], b"\1"),
}


def write(path, items):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, raw) in items:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


folder = sys.argv[1]
write(folder + "/a.safetensors", [(k, v[:3]) for k, v in tensors.items()])
both = [(k, v[:2] + v[3:]) for k, v in tensors.items() if v[3] is not None]
write(folder + "/b.safetensors", list(reversed(both)) + list(others.items()))
