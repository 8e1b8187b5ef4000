#!/usr/bin/env python3
"""Makes the files of this folder with the Python packages gguf, safetensors and numpy, and beside
each what these packages read in it. tests/unit/test_checkpoint_files.c compares.

    python3 tests/checkpoint/make_files.py      (gguf 0.17 or later, for all types)
"""
import json
import os
import struct
import zlib

import gguf
import numpy as np
from safetensors.numpy import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
TYPE = gguf.GGMLQuantizationType
# The package counts Q8_1 with 40 bytes a block. In ggml a block has 36: two f16 and 32 i8.
LEFT_OUT = {TYPE.Q8_1}


def path(name):
    return os.path.join(HERE, name)


def data(n, seed):
    return np.random.default_rng(seed).integers(0, 256, n, dtype=np.uint8)


def shape_text(shape):
    sizes = [str(int(x)) for x in shape]
    return "(" + ", ".join(sizes) + ("," if len(sizes) == 1 else "") + ")"


def line(name, dtype, shape, nbytes, raw):
    return f"{name} {dtype} {shape_text(shape)} {nbytes} {zlib.crc32(raw):08x}\n"


def make_gguf(name):
    w = gguf.GGUFWriter(path(name), "test")
    w.add_uint8("v.u8", 200)
    w.add_int8("v.i8", -100)
    w.add_uint16("v.u16", 60000)
    w.add_int16("v.i16", -30000)
    w.add_uint32("v.u32", 4000000000)
    w.add_int32("v.i32", -2000000000)
    w.add_uint64("v.u64", 2**64 - 1)
    w.add_int64("v.i64", -(2**63))
    w.add_float32("v.f32", 0.1)
    w.add_float64("v.f64", 1e-300)
    w.add_bool("v.true", True)
    w.add_bool("v.false", False)
    w.add_string("v.text", "one\ntwo \u00e4\u20ac\U0001f600")
    w.add_key_value("v.empty", "", gguf.GGUFValueType.STRING)
    w.add_array("v.numbers", [1, -2, 3])
    w.add_array("v.floats", [0.5, 1.0])
    w.add_array("v.texts", ["a", "b\"c"])
    w.add_array("v.long", list(range(65)))
    w.add_array("v.words", [f"token{i}" for i in range(100)])
    for i, t in enumerate(TYPE):
        if t in LEFT_OUT:
            continue
        block, size = gguf.GGML_QUANT_SIZES[t]
        raw = data(3 * 2 * size, i).reshape(3, 2 * size)
        w.add_tensor(f"t.{t.name}", raw, raw_dtype=t)
    w.add_tensor("four", np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def describe_gguf(name, out):
    reader = gguf.GGUFReader(path(name))
    with open(path(out), "w") as f:
        for t in reader.tensors:
            f.write(line(t.name, t.tensor_type.name, reversed(t.shape.tolist()), t.n_bytes,
                         t.data.tobytes()))


def make_small():
    """Few bytes, of which tests change each."""
    w = gguf.GGUFWriter(path("small.gguf"), "test")
    w.add_custom_alignment(8)
    w.add_array("v.list", ["a", "b"])
    w.add_tensor("x", np.arange(3, dtype=np.float32))
    w.add_tensor("y", data(34, 1), raw_dtype=TYPE.Q8_0)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_big_endian():
    w = gguf.GGUFWriter(path("big-endian.gguf"), "test", endianess=gguf.GGUFEndian.BIG)
    w.add_tensor("x", np.arange(3, dtype=np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_version_2():
    with open(path("small.gguf"), "rb") as f:
        text = f.read()
    with open(path("version-2.gguf"), "wb") as f:
        f.write(text[:4] + struct.pack("<I", 2) + text[8:])


def make_sharded():
    folder = path("sharded")
    os.makedirs(folder, exist_ok=True)
    shards = [
        {"model.embed.weight": np.arange(12, dtype=np.float32).reshape(4, 3),
         "model.norm.weight": np.ones(3, dtype=np.float16)},
        {"lm_head.weight": np.arange(12, dtype=np.int64).reshape(3, 4),
         "a.empty": np.zeros((0, 4), dtype=np.int8)},
    ]
    where, total = {}, 0
    with open(path("sharded.txt"), "w") as f:
        for i, tensors in enumerate(shards):
            name = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
            save_file(tensors, os.path.join(folder, name), metadata={"format": "pt"})
            where.update({key: name for key in tensors})
            total += sum(t.nbytes for t in tensors.values())
            short = {"float32": "F32", "float16": "F16", "int64": "I64", "int8": "I8"}
            for key, t in load_file(os.path.join(folder, name)).items():
                f.write(line(key, short[str(t.dtype)], t.shape, t.nbytes, t.tobytes()))
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
        index = {"metadata": {"total_size": total}, "weight_map": where}
        f.write(json.dumps(index, indent=2, sort_keys=True) + "\n")


make_gguf("types.gguf")
describe_gguf("types.gguf", "types.txt")
make_small()
make_big_endian()
make_version_2()
describe_gguf("version-2.gguf", "version-2.txt")
make_sharded()
