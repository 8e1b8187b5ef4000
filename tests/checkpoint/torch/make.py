#!/usr/bin/env python3
"""Makes the files of this folder with PyTorch, and beside them what their tensors are. See
tests/unit/test_checkpoint_files.c.

    python3 tests/checkpoint/torch/make.py      (torch 2.15, numpy)
"""
import argparse
import collections
import os
import random
import zipfile
import zlib

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
SHORT = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
         torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
         torch.uint8: "U8", torch.bool: "BOOL", torch.complex64: "C64", torch.uint16: "U16",
         torch.uint32: "U32", torch.uint64: "U64", torch.float8_e4m3fn: "F8_E4M3",
         torch.float8_e5m2: "F8_E5M2", torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
         torch.float8_e5m2fnuz: "F8_E5M2FNUZ", torch.float8_e8m0fnu: "F8_E8M0"}


def path(name):
    return os.path.join(HERE, name)


def describe(name, tensors):
    with open(path(name), "w") as f:
        for key, t in tensors.items():
            raw = t.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes() \
                if t.numel() else b""
            sizes = [str(n) for n in t.shape]
            shape = "(" + ", ".join(sizes) + ("," if len(sizes) == 1 else "") + ")"
            f.write(f"{key} {SHORT[t.dtype]} {shape} {len(raw)} {zlib.crc32(raw):08x}\n")


def state():
    w = torch.arange(35.0).reshape(5, 7)
    p = torch.arange(24, dtype=torch.int16).reshape(2, 3, 4)
    s = collections.OrderedDict(
        w=w, tied=w, turned=w.t(), part=w[1:4, ::2], row=w[2], wide=torch.arange(3)[:, None].expand(3, 4),
        permuted=p.permute(2, 0, 1), single=torch.tensor(3.5), none=torch.zeros(0, 3),
        parameter=torch.nn.Parameter(torch.ones(2, 2)))
    for t, short in SHORT.items():
        s["t." + short] = torch.arange(4).to(t) if short != "F8_E8M0" else \
            torch.arange(120, 124, dtype=torch.uint8).view(t)
    return s


def repack(name, to, how, change=lambda name, data: data):
    with zipfile.ZipFile(path(name)) as z, zipfile.ZipFile(path(to), "w", how) as out:
        for member in z.infolist():
            info = zipfile.ZipInfo(member.filename)
            info.compress_type = how
            out.writestr(info, change(member.filename, z.read(member.filename)))


s = state()
torch.save(s, path("state.pt"))
describe("state.txt", s)
torch.save(s, path("state-5.pt"), pickle_protocol=5)
repack("state.pt", "deflated.pt", zipfile.ZIP_DEFLATED)

# One storage of each width, as a big-endian machine writes them.
small = collections.OrderedDict(a=torch.arange(6.0).reshape(2, 3).t(), b=torch.arange(3).half(),
                                c=torch.arange(2.0).double(), d=torch.arange(3, dtype=torch.uint8))
widths = {"0": 4, "1": 2, "2": 8, "3": 1}
torch.save(small, path("big.pt"))
describe("big.txt", small)


def swap(name, data):
    if name.endswith("/byteorder"):
        return b"big"
    width = widths.get(os.path.basename(name), 1) if "/data/" in name else 1
    return b"".join(data[i:i + width][::-1] for i in range(0, len(data), width))


repack("big.pt", "big.pt.new", zipfile.ZIP_STORED, swap)
os.rename(path("big.pt.new"), path("big.pt"))

layer = {"0.weight": torch.ones(2, 3), "0.bias": torch.arange(2.0)}
torch.save({"model": layer, "optimizer": {"state": {0: {"step": torch.tensor(4.0)}},
                                          "param_groups": [{"lr": 0.5, "betas": (0.9, 0.99)}]},
            "epoch": 7, "best": None, "args": argparse.Namespace(name="run\u00e9", fast=True),
            "table": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            "swapped": np.arange(3, dtype=">i4"), "loss": np.float64(2.5), "size": torch.Size([2])},
           path("train.pt"))
torch.save({"cfg": random.Random(1), "state_dict": layer, "w": torch.ones(1)}, path("object.pt"))
torch.save(torch.nn.Linear(1, 1), path("module.pt"))
torch.save(torch.arange(3.0), path("one.pt"))
torch.save({"q": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
            "s": torch.eye(3).to_sparse(), "c": torch.ones(2, dtype=torch.complex64).conj(),
            "m": torch.empty(2, device="meta"), "z": torch.ones(2, dtype=torch.complex128),
            "w": torch.ones(2)}, path("odd.pt"))
loop = {"w": torch.ones(1)}
loop["self"] = loop
torch.save(loop, path("loop.pt"))
torch.save({"a.b": torch.ones(1), "a": {"b": torch.zeros(1)}}, path("twice.pt"))
torch.save({"by": {True: torch.ones(1), False: 3, None: torch.zeros(1), 0.5: torch.ones(2), -2: torch.ones(1)},
            "half": torch.ones(2, dtype=torch.complex64).to(torch.complex32),
            "bits": torch.zeros(4, dtype=torch.uint8).view(torch.bits8),
            "eight": torch.zeros(2, 2, dtype=torch.uint8).view(torch.quint8)}, path("keys.pt"))
torch.save({"cfg": {("a", 1): 3}, "model": layer}, path("tuple.pt"))
