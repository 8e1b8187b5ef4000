#!/usr/bin/env python3
"""Makes the files of this folder with the Python packages gguf, safetensors, ml_dtypes and numpy, and beside
each what these packages read in it. tests/unit/test_checkpoint_files.c compares.

    python3 tests/checkpoint/make_files.py      (gguf 0.17 or later, for all types)
"""
import json
import os
import struct
import zlib

import gguf
import ml_dtypes
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


def describe_values(name, out):
    """The numbers of what is not plain, as the package decodes them; every nan is the usual one."""
    reader = gguf.GGUFReader(path(name))
    with open(path(out), "w") as f:
        for t in reader.tensors:
            if t.tensor_type.name.startswith(("IQ1", "IQ2", "IQ3", "Q8_K", "Q1_0")):
                continue
            if gguf.GGML_QUANT_SIZES[t.tensor_type][0] == 1:
                continue
            with np.errstate(all="ignore"):
                x = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
            x[np.isnan(x)] = np.float32(np.nan)
            f.write(line(t.name, "F32", x.shape, x.nbytes, x.tobytes()))


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


E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)
E2M1 = np.concatenate([E2M1, -E2M1])


def halves(b):
    return np.stack([E2M1[b & 15], E2M1[b >> 4]], -1).reshape(*b.shape[:-1], -1)


def exponents(s):
    return np.where(s == 255, np.float32(np.nan), np.ldexp(1.0, s.astype(int) - 127)).astype("f4")


def make_scaled():
    """Codes with scales of each form, and the numbers that they mean."""
    rng = np.random.default_rng(7)
    e4m3, e5m2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
    f8 = lambda *s: rng.normal(0, 30, s).astype(e4m3)
    f4 = lambda *s: rng.normal(0, 1, s).astype(np.float32)
    u8 = lambda *s: rng.integers(0, 256, s, dtype=np.uint8)
    wide = lambda a: a.astype(np.float32)
    each = lambda s, n, axis: np.repeat(s, n, axis)
    tensors, numbers = {}, []

    def add(codes, scales, name, x):
        tensors.update(codes)
        tensors.update(scales)
        numbers.append((name, np.ascontiguousarray(x, np.float32)))

    w, s = f8(3, 5), f4()
    add({"all.weight": w}, {"all.weight_scale": s, "all.input_scale": f4(1)}, "all.weight", wide(w) * s)
    w, s = f8(4), f4(1)
    add({"one.weight": w}, {"one.scale_weight": s}, "one.weight", wide(w) * s)
    w, s = f8(3, 5), f4(3, 1)
    add({"rows.weight": w}, {"rows.weight_scale": s}, "rows.weight", wide(w) * s)
    w, s = rng.integers(-128, 128, (3, 5), np.int8), f4(3).astype(ml_dtypes.bfloat16)
    add({"i8.weight": w}, {"i8.weight_scale": s}, "i8.weight", wide(w) * wide(s)[:, None])
    w, s = f8(130, 2), f4(2, 1)
    add({"blocks.weight": w}, {"blocks.weight_scale_inv": s}, "blocks.weight",
        wide(w) * each(s, 128, 0)[:130])
    w, s = f8(2, 3, 130), f4(2, 1, 2)
    add({"experts.up": w}, {"experts.up_scale_inv": s}, "experts.up",
        wide(w) * each(s, 128, 2)[:, :, :130])
    w, s = f8(2, 3, 4), f4(2)
    add({"experts.gate": w}, {"experts.gate_scale": s}, "experts.gate", wide(w) * s[:, None, None])
    w, s = f8(2, 3, 4), f4(2, 3, 1)
    add({"experts.down": w}, {"experts.down_scale": s}, "experts.down", wide(w) * s)
    w, s = f8(3, 64), u8(3, 2)
    s[0, 0] = 255
    s[1, 1] = 0
    add({"mx.weight": w}, {"mx.weight_scale": s}, "mx.weight", wide(w) * each(exponents(s), 32, 1))
    w, s = rng.normal(0, 1, (3, 64)).astype(e5m2), rng.integers(100, 140, (3, 2), np.uint8)
    add({"mx5.weight": w}, {"mx5.weight_scale": s.view(ml_dtypes.float8_e8m0fnu)}, "mx5.weight",
        wide(w) * each(exponents(s), 32, 1))
    w, s = f8(3, 12), f4(3, 4)
    add({"groups.weight": w}, {"groups.weight_scale": s}, "groups.weight", wide(w) * each(s, 3, 1))
    w, s = u8(2, 3, 2, 16), rng.integers(100, 140, (2, 3, 2), np.uint8)
    x = (halves(w) * exponents(s)[..., None]).reshape(2, 3, 64)
    add({"moe_blocks": w}, {"moe_scales": s}, "moe", x.swapaxes(1, 2))
    w, s = u8(3, 32), rng.integers(100, 140, (3, 2), np.uint8)
    add({"packed.weight_packed": w}, {"packed.weight_scale": s}, "packed.weight",
        halves(w) * each(exponents(s), 32, 1))
    w, s, g = u8(3, 32), np.abs(f8(3, 4)), f4()
    add({"nv.weight": w}, {"nv.weight_scale": s, "nv.weight_scale_2": g}, "nv.weight",
        halves(w) * each(wide(s) * g, 16, 1))
    w, s, g = u8(3, 32), np.abs(f8(3, 4)), f4(1)
    add({"ct.weight_packed": w}, {"ct.weight_scale": s, "ct.weight_global_scale": g}, "ct.weight",
        halves(w) * each(wide(s) / g, 16, 1))
    tensors["norm"] = f4(3)
    tensors["scaled_fp8"] = f8(2)
    names = {np.dtype(e4m3): "F8_E4M3", np.dtype(e5m2): "F8_E5M2", np.dtype(np.uint8): "U8",
             np.dtype(np.int8): "I8", np.dtype(np.float32): "F32",
             np.dtype(ml_dtypes.bfloat16): "BF16", np.dtype(ml_dtypes.float8_e8m0fnu): "F8_E8M0"}
    header, data = {}, b""
    for name, t in tensors.items():
        raw = t.tobytes()
        header[name] = {"dtype": names[t.dtype], "shape": list(t.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path("scaled.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    with open(path("scaled.txt"), "w") as f:
        for name, x in numbers:
            x[np.isnan(x)] = np.float32(np.nan)
            f.write(line(name, "F32", x.shape, x.nbytes, x.tobytes()))


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
describe_values("types.gguf", "types-values.txt")
make_small()
make_big_endian()
make_version_2()
describe_gguf("version-2.gguf", "version-2.txt")
make_sharded()
make_scaled()
