"""Files of Python's libraries read by kvctl, and files of kvctl read by them, bit by bit.

    python3 crosscheck.py KVCTL

Needs numpy, ml_dtypes, safetensors and gguf, which set-up does not install: it is run by hand. Every
dtype that a library has is written by it, hashed by kvctl, converted to every format of kvctl and
read back by the library. What a hash should be is computed here, by SHA-256.
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

import gguf
import ml_dtypes
import numpy as np
import safetensors
from safetensors.numpy import save_file

KVCTL = os.path.abspath(sys.argv[1])
NAMES = {np.dtype(d): n for n, d in {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "I16": np.int16, "U16": np.uint16,
    "F16": np.float16, "BF16": ml_dtypes.bfloat16, "I32": np.int32, "U32": np.uint32,
    "F32": np.float32, "C64": np.complex64, "F64": np.float64, "I64": np.int64, "U64": np.uint64,
    "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu}.items()}
checks = 0


def check(what, got, want):
    global checks
    checks += 1
    if got != want:
        sys.exit(f"{what}: {got!r}, not {want!r}")


def kvctl(*words):
    done = subprocess.run([KVCTL, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"kvctl {' '.join(words)}: {done.stderr}")
    return done.stdout


def hashes(path):
    lines = kvctl("hash", path, "--sha256").splitlines()
    return {name: digest for digest, name in (line.split(None, 1) for line in lines)}


def expected(kind, shape, data):
    text = f"{kind} [{', '.join(map(str, shape))}]\n"
    return hashlib.sha256(text.encode() + data).hexdigest()


def of_array(x):
    x = np.ascontiguousarray(x) if x.ndim else x
    if x.dtype.byteorder == ">":
        x = x.astype(x.dtype.newbyteorder("<"))
    return expected(NAMES[x.dtype], x.shape, x.tobytes())


def random_array(rng, dtype, shape):
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    n = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(rng.bytes(n), dtype).reshape(shape)


def arrays(rng, dtypes):
    shapes = [(), (0,), (1,), (7,), (3, 5), (2, 0, 3), (4, 3, 2), (300, 257)]
    return {f"{np.dtype(d).name}.{i}": random_array(rng, d, s)
            for d in dtypes for i, s in enumerate(shapes)}


def is_of_numpy(d):
    return d.kind in "biufc" and d.isbuiltin == 1


def of_safetensors(rng, folder):
    path = os.path.join(folder, "py.safetensors")
    for dtype in NAMES:
        some = arrays(rng, [dtype])
        try:
            save_file(some, path, metadata={"format": "np"})
        except Exception as why:
            print(f"safetensors does not write {dtype}: {why}")
            continue
        check(f"hash of {dtype}", hashes(path), {k: of_array(x) for k, x in some.items()})
        for out in "ours.safetensors", "ours.kvs", "shards/":
            out = os.path.join(folder, out)
            force = ["--force"] if out.endswith("/") else []
            kvctl("convert", path, out, *force, *(["--shard-size", "20K"] if force else []))
            check(f"hash of {dtype} in {out}", hashes(out), hashes(path))
            files = [out] if not force else [os.path.join(out, f) for f in sorted(os.listdir(out))
                                             if f.endswith(".safetensors")]
            back = {}
            for file in files:
                with safetensors.safe_open(file, framework="np") as f:
                    check("metadata", f.metadata(), {"format": "np"})
                with open(file, "rb") as f:
                    back.update(safetensors.deserialize(f.read()))
            check(f"names of {dtype}", sorted(back), sorted(some))
            for name, x in some.items():
                got = back[name]
                check(f"{name} of {out}", (got["dtype"], got["shape"], bytes(got["data"])),
                      (NAMES[dtype], list(x.shape), x.tobytes()))


def all_types(folder):
    """Types that the library knows by name only: its reader gives their bytes."""
    path, out = os.path.join(folder, "raw.safetensors"), os.path.join(folder, "raw2.safetensors")
    for kind, bits in {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8, "C64": 64}.items():
        data = bytes(range(48))
        shape = [len(data) * 8 // bits]
        header = json.dumps({"x": {"dtype": kind, "shape": shape,
                                   "data_offsets": [0, len(data)]}}).encode()
        with open(path, "wb") as f:
            f.write(len(header).to_bytes(8, "little") + header + data)
        check(kind, hashes(path), {"x": expected(kind, shape, data)})
        kvctl("convert", path, out)
        with open(out, "rb") as f:
            try:
                (name, x), = safetensors.deserialize(f.read())
            except Exception as why:
                print(f"safetensors does not read {kind}: {why}")
                continue
        check(kind, (name, x["shape"], bytes(x["data"])), ("x", shape, data))


def of_npz(rng, folder):
    path, out = os.path.join(folder, "py.npz"), os.path.join(folder, "ours.npz")
    some = arrays(rng, [d for d in NAMES if is_of_numpy(d)])
    odd = {f"big.{k}": x.astype(x.dtype.newbyteorder(">")) for k, x in some.items()}
    odd.update({f"fortran.{k}": np.asfortranarray(x) for k, x in some.items()})
    for save in np.savez, np.savez_compressed:
        save(path, **some, **odd)
        want = {k: of_array(x) for k, x in {**some, **odd}.items()}
        check(save.__name__, hashes(path), want)
        kvctl("convert", path, out)
        back = np.load(out)
        check("names", sorted(back.files), sorted(want))
        for name, x in {**some, **odd}.items():
            check(name, of_array(back[name]), want[name])
    one = os.path.join(folder, "one.npy")
    np.save(one, some["float32.7"])
    check("npy", hashes(one), {"one": of_array(some["float32.7"])})


def of_gguf(rng, folder):
    path = os.path.join(folder, "py.gguf")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("general.name", "a name")
    writer.add_uint32("llama.block_count", 3)
    want = {}
    for dtype in np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64:
        for i, shape in enumerate([(7,), (3, 5), (4, 3, 2)]):
            x = random_array(rng, dtype, shape)
            name = f"{np.dtype(dtype).name}.{i}"
            writer.add_tensor(name, x)
            want[name] = of_array(x)
    for kind in gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0:
        x = gguf.quants.quantize(rng.standard_normal((4, 64)).astype(np.float32), kind)
        writer.add_tensor(kind.name, x, raw_dtype=kind)
        want[kind.name] = expected(kind.name, (4, 64), x.tobytes())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    check("gguf", hashes(path), want)


def conversions(rng, folder):
    """Numbers, with one rounding: float64 to narrow floats is checked by way of float32 where that
    is exact, because ml_dtypes rounds twice."""
    path, out = os.path.join(folder, "f.safetensors"), os.path.join(folder, "g.safetensors")
    x = rng.standard_normal(100000).astype(np.float32) * np.exp2(rng.integers(-20, 20, 100000))
    x = x.astype(np.float32)
    save_file({"x": x}, path)
    for kind, dtype in (("bf16", ml_dtypes.bfloat16), ("f16", np.float16), ("f64", np.float64),
                        ("f8_e4m3", ml_dtypes.float8_e4m3fn), ("f8_e5m2", ml_dtypes.float8_e5m2)):
        kvctl("convert", path, out, "--dtype", kind)
        with np.errstate(over="ignore"):
            want = of_array(x.astype(dtype))
        check(f"float32 to {kind}", hashes(out), {"x": want})


def main():
    rng = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as folder:
        of_safetensors(rng, folder)
        all_types(folder)
        of_npz(rng, folder)
        of_gguf(rng, folder)
        conversions(rng, folder)
    print(f"{checks} checks, all equal")


main()
