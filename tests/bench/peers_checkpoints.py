"""The commands on checkpoints beside scripts that do the same with NumPy and with PyTorch, in turns.

    peers_checkpoints.py LIBRARY KVCTL [--mb N] [--runs N] [--folder F] [--quick]

Ours is a whole process, from its start on. A peer's script is timed inside a Python that has imported
what it needs and has done the job once, so its start costs nothing. Files lie in memory (/dev/shm).
scripts/peers installs the peers; one that is missing is named with the reason.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time

KEYS = 64


def make(path, mb, kind, changed=False):
    import ml_dtypes
    import numpy as np
    from safetensors.numpy import save_file
    dtype = ml_dtypes.bfloat16 if kind == "bf16" else np.float32
    n = (mb << 20) // KEYS // np.dtype(dtype).itemsize
    rng = np.random.default_rng(1)
    block = rng.standard_normal(n).astype(dtype)
    arrays = {}
    for i in range(KEYS):
        a = block.copy()
        if changed:
            a[:: 100] *= 2
        arrays[f"layers.{i}.weight"] = a
    save_file(arrays, path)


# ---- NumPy ----------------------------------------------------------------------------------------


class NumPy:
    name = "NumPy"

    def __init__(self):
        import ml_dtypes
        import numpy
        from safetensors import numpy as io
        self.np, self.io, self.bf16 = numpy, io, ml_dtypes.bfloat16

    def stat(self, a, **_):
        np, rows = self.np, []
        for name, x in self.io.load_file(a).items():
            x = x.astype(np.float32)
            rows.append((name, x.min(), x.max(), x.mean(dtype=np.float64), x.std(dtype=np.float64),
                         np.abs(x).max(), np.count_nonzero(x == 0), np.isnan(x).sum(),
                         np.isinf(x).sum()))
        return rows

    def diff(self, a, b, **_):
        np, rows = self.np, []
        other = self.io.load_file(b)
        for name, x in self.io.load_file(a).items():
            y = other[name]
            if (x.view(np.uint16) == y.view(np.uint16)).all():
                continue
            d = np.abs(x.astype(np.float32) - y.astype(np.float32))
            rows.append((name, d.max(), np.count_nonzero(d == 0), d.argmax()))
        return rows

    def hash(self, a, **_):
        import hashlib
        return {name: hashlib.sha256(x.tobytes()).hexdigest()
                for name, x in self.io.load_file(a).items()}

    def widen(self, a, out, **_):
        self.io.save_file({k: x.astype(self.np.float32) for k, x in self.io.load_file(a).items()},
                          out)

    def narrow(self, f, out, **_):
        self.io.save_file({k: x.astype(self.bf16) for k, x in self.io.load_file(f).items()}, out)


# ---- PyTorch --------------------------------------------------------------------------------------


class PyTorch:
    name = "PyTorch"

    def __init__(self):
        import torch
        from safetensors import safe_open, torch as io
        self.torch, self.open, self.io = torch, safe_open, io

    def tensors(self, path):
        with self.open(path, framework="pt") as f:
            for name in f.keys():
                yield name, f.get_tensor(name)

    def stat(self, a, **_):
        torch, rows = self.torch, []
        for name, x in self.tensors(a):
            x = x.float()
            low, high = torch.aminmax(x)
            std, mean = torch.std_mean(x, correction=0)
            rows.append((name, low, high, mean, std, max(-low, high), (x == 0).sum(),
                         torch.isnan(x).sum(), torch.isinf(x).sum()))
        return rows

    def diff(self, a, b, **_):
        torch, rows = self.torch, []
        with self.open(b, framework="pt") as other:
            for name, x in self.tensors(a):
                y = other.get_tensor(name)
                if torch.equal(x, y):
                    continue
                d = (x.float() - y.float()).abs()
                rows.append((name, d.max(), (d == 0).sum(), d.argmax()))
        return rows

    def widen(self, a, out, **_):
        self.io.save_file({k: x.float() for k, x in self.tensors(a)}, out)

    def narrow(self, f, out, **_):
        self.io.save_file({k: x.bfloat16() for k, x in self.tensors(f)}, out)


# ---- Jobs -----------------------------------------------------------------------------------------

# The words of ours, with the exit status, and how many times quicker it has to be.
JOBS = {
    "stat": (["stat", "a"], 0, {"NumPy": 3, "PyTorch": 2}),
    "diff": (["diff", "a", "b"], 1, {"NumPy": 3, "PyTorch": 2}),
    "hash": (["hash", "a", "--sha256"], 0, {}),
    "widen": (["convert", "a", "out", "--dtype", "f32"], 0, {"NumPy": 3, "PyTorch": 2}),
    "narrow": (["convert", "f", "out", "--dtype", "bf16"], 0, {"NumPy": 3, "PyTorch": 2}),
}


def seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def ours(kvctl, files, words, status):
    argv = [kvctl] + [files.get(word, word) for word in words]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    if done.returncode != status:
        raise SystemExit(f"{' '.join(argv)}: exit status {done.returncode}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("kvctl")
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--quick", action="store_true")
    o = parser.parse_args()
    if o.quick:
        o.mb, o.runs = 16, 3
    peers = []
    for peer in NumPy, PyTorch:
        try:
            peers.append(peer())
        except ImportError as why:
            print(f"{peer.name} is left out: {why}")
    folder = tempfile.mkdtemp(dir=o.folder)
    try:
        files = {name: os.path.join(folder, f"{name}.safetensors") for name in ("a", "b", "f", "out")}
        make(files["a"], o.mb, "bf16")
        make(files["b"], o.mb, "bf16", changed=True)
        make(files["f"], o.mb, "f32")
        print(f"{o.mb} MB, {o.runs} pairs; theirs / ours, above 1 ours is quicker")
        print("| job | peer | ours ms | theirs ms | ratio | bar |")
        print("|---|---|---|---|---|---|")
        for job, (words, status, bars) in JOBS.items():
            for peer in peers:
                work = getattr(peer, job, None)
                if not work:
                    continue
                mine, theirs = [], []
                work(**files)
                for _ in range(o.runs):
                    mine.append(seconds(lambda: ours(o.kvctl, files, words, status)))
                    theirs.append(seconds(lambda: work(**files)))
                ratio = statistics.median(t / m for m, t in zip(mine, theirs))
                print(f"| {job} | {peer.name} | {statistics.median(mine) * 1e3:.0f} "
                      f"| {statistics.median(theirs) * 1e3:.0f} | {ratio:.2f} "
                      f"| {bars.get(peer.name, '')} |")
    finally:
        shutil.rmtree(folder)


main()
