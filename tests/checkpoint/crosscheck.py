"""Files of Python's libraries read by kvctl, and files of kvctl read by them, bit by bit.

    python3 crosscheck.py KVCTL

Needs numpy, ml_dtypes, safetensors and gguf, which set-up does not install: it is run by hand. Of torch,
transformers and mxnet (1.9.1, which wants numpy 1.23) those parts run whose package is there. Every
dtype that a library has is written by it, hashed by kvctl, converted to every format of kvctl and
read back by the library. What a hash should be is computed here, by SHA-256.
"""
import hashlib
import json
import os
import subprocess
import sys
import tempfile

try:
    import mxnet
except ImportError:
    mxnet = None
import numpy as np
try:
    import torch
except ImportError:
    torch = None

if mxnet is None:
    import gguf
    import ml_dtypes
    import safetensors
    import safetensors.numpy
    from safetensors.numpy import save_file

KVCTL = os.path.abspath(sys.argv[1])
NAMES = {np.dtype(d): n for n, d in {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "F16": np.float16, "I32": np.int32, "F32": np.float32,
    "F64": np.float64, "I64": np.int64}.items()} if mxnet else {np.dtype(d): n for n, d in {
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


def of_gguf_blocks(rng, folder):
    """Every block format whose numbers gguf-py knows, of random bytes: its numbers, bit by bit."""
    path, out, kinds = os.path.join(folder, "q.gguf"), os.path.join(folder, "q.safetensors"), []
    writer = gguf.GGUFWriter(path, "llama")
    want = {}
    for kind in gguf.GGMLQuantizationType:
        if kind.name in ("F32", "F16", "BF16") or kind.name.startswith(("IQ1", "IQ2", "IQ3", "Q8_1", "Q8_K", "Q1_0")):
            continue
        block, size = gguf.GGML_QUANT_SIZES[kind]
        raw = np.frombuffer(rng.bytes(3 * 4 * size), np.uint8).reshape(3, 4 * size).copy()
        try:
            with np.errstate(all="ignore"):
                want[kind.name] = gguf.quants.dequantize(raw, kind).astype(np.float32)
        except (NotImplementedError, KeyError):
            continue
        writer.add_tensor(kind.name, raw, raw_dtype=kind)
        kinds.append(kind.name)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    kvctl("convert", path, out)
    got = safetensors.numpy.load_file(out)
    check("kinds of blocks", (sorted(got), len(kinds) >= 16), (sorted(want), True))
    for name, x in want.items():
        check(f"shape of {name}", got[name].shape, x.shape)
        same = (got[name].view(np.uint32) == x.view(np.uint32)) | (np.isnan(x) & np.isnan(got[name]))
        check(f"numbers of {name}", int((~same).sum()), 0)


def of_torch(rng, folder):
    """Files of torch.save: views, shared storages, dicts in dicts, every dtype; and what comes out of them, loaded."""
    from safetensors.torch import load_file
    path, out = os.path.join(folder, "py.pt"), os.path.join(folder, "pt.safetensors")
    kinds = [d for d in vars(torch).values() if isinstance(d, torch.dtype) and not d.is_complex and d.itemsize
             and not str(d).startswith(("torch.q", "torch.bits", "torch.int1", "torch.int2", "torch.int3", "torch.int4",
                                        "torch.int5", "torch.int6", "torch.int7", "torch.uint1", "torch.uint2", "torch.uint3",
                                        "torch.uint4", "torch.uint5", "torch.uint6", "torch.uint7", "torch.float4"))
             or d in (torch.uint16, torch.uint32, torch.int16, torch.int32, torch.int64)]
    model = {}
    for d in dict.fromkeys(kinds):
        raw = torch.from_numpy(np.frombuffer(rng.bytes(12 * d.itemsize), np.uint8).copy())
        model[str(d)] = (raw % 2 if d == torch.bool else raw).view(d).reshape(3, 4)
    base = torch.from_numpy(rng.standard_normal((50, 70)).astype(np.float32))
    model.update(base=base, turned=base.t(), part=base[3:40:5, 2:9], one=base[4, 5], wide=base[:, :1].expand(50, 6),
                 parameter=torch.nn.Parameter(base * 2), none=torch.zeros(0, 4), channels=base[None, None].to(
                     memory_format=torch.channels_last))
    for protocol in 2, 4, 5:
        torch.save({"model": model, "epoch": 3, "optimizer": {"state": {0: {"step": torch.tensor(1.0)}}}}, path,
                   pickle_protocol=protocol)
        kvctl("convert", path + "#model", out)
        got = load_file(out)
        check("names", sorted(got), sorted(model))
        for name, x in model.items():
            a, b = x.detach().contiguous(), got[name]
            check(f"{name} of protocol {protocol}", (a.dtype, a.shape), (b.dtype, b.shape))
            check(name, a.reshape(-1).view(torch.uint8).tolist(), b.reshape(-1).view(torch.uint8).tolist())
        check("all", set(hashes(path)), {"model." + k for k in model} | {"optimizer.state.0.step"})


def of_transformers(folder):
    """A model of transformers goes through kvctl and is loaded again, as bfloat16 what config.json says."""
    import transformers
    model, out = os.path.join(folder, "hf"), os.path.join(folder, "hf-bf16")
    config = transformers.LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, vocab_size=128)
    one = transformers.LlamaForCausalLM(config)
    one.save_pretrained(model, max_shard_size="40KB")
    kvctl("convert", model, out + "/", "--dtype", "bf16", "--shard-size", "30K")
    two = transformers.AutoModelForCausalLM.from_pretrained(out, dtype="auto")
    check("dtype of the model", two.dtype, torch.bfloat16)
    for (name, a), (_, b) in zip(one.state_dict().items(), two.state_dict().items()):
        check(name, torch.equal(a.to(torch.bfloat16), b), True)
    kvctl("merge", "average", model, model, "--out", os.path.join(folder, "soup/"))
    three = transformers.AutoModelForCausalLM.from_pretrained(os.path.join(folder, "soup"))
    for (name, a), (_, b) in zip(one.state_dict().items(), three.state_dict().items()):
        check(f"{name} of a merge", torch.allclose(a, b.to(a.dtype), rtol=1e-6), True)
    torch.save(one.state_dict(), os.path.join(folder, "pytorch_model.bin"))
    kvctl("diff", os.path.join(folder, "pytorch_model.bin"), model, "*layers*")


def of_mxnet(rng, folder):
    """Files of nd.save, dense and sparse; what kvctl writes is what MXNet writes, and MXNet loads it."""
    path, out = os.path.join(folder, "mx.params"), os.path.join(folder, "ours.params")
    arrays = {f"arg:{np.dtype(d).name}.{i}": (rng.random(s) * 100).astype(d) for d in NAMES
              for i, s in enumerate([(1,), (7,), (3, 5), (4, 3, 2), (300, 257)])}
    mxnet.nd.save(path, {k: mxnet.nd.array(x, dtype=x.dtype) for k, x in arrays.items()})
    check("hash of .params", hashes(path), {k: of_array(x) for k, x in arrays.items()})
    kvctl("convert", path, out)
    with open(path, "rb") as a, open(out, "rb") as b:
        check("bytes of .params", b.read(), a.read())
    dense = rng.standard_normal((400, 30)).astype(np.float32)
    dense[rng.random(400) < 0.9] = 0
    few = np.where(rng.random((70, 900)) < 0.01, rng.standard_normal((70, 900)), 0).astype(np.float32)
    some = {"rows": mxnet.nd.array(dense).tostype("row_sparse"), "csr": mxnet.nd.array(few).tostype("csr"),
            "no.rows": mxnet.nd.sparse.zeros("row_sparse", (5, 3)), "no.csr": mxnet.nd.sparse.zeros("csr", (5, 3))}
    mxnet.nd.waitall()
    mxnet.nd.save(path, some)
    check("sparse", hashes(path), {k: of_array(x.asnumpy()) for k, x in some.items()})
    kvctl("convert", path, out)
    for name, x in mxnet.nd.load(out).items():
        check(name, x.asnumpy().tolist(), some[name].asnumpy().tolist())


def main():
    rng = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as folder:
        if mxnet:
            of_mxnet(rng, folder)
            print(f"{checks} checks, all equal")
            return
        if torch:
            of_torch(rng, folder)
            of_transformers(folder)
        of_gguf_blocks(rng, folder)
        of_safetensors(rng, folder)
        all_types(folder)
        of_npz(rng, folder)
        of_gguf(rng, folder)
        conversions(rng, folder)
    print(f"{checks} checks, all equal")


main()
