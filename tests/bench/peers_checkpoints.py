"""The commands on checkpoints beside scripts that do the same with NumPy and with PyTorch, in turns.

    peers_checkpoints.py LIBRARY KVCTL [--merge] [--mb N] [--runs N] [--folder F] [--quick]

--merge: merges of models in BF16, also beside mergekit's own functions (merge_state_dicts of what
safetensors reads): its command would read a configuration and a tokenizer, too.

Ours is a whole process, from its start on. A peer's script is timed inside a Python that has imported
what it needs and has done the job once, so its start costs nothing. Files lie in memory (/dev/shm).
scripts/peers installs the peers; one that is missing is named with the reason.
"""
import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import tempfile
import time

KEYS = 64
MODELS = "m1", "m2", "m3", "m4"


def make(path, mb, kind, changed=False, seed=1):
    import ml_dtypes
    import numpy as np
    from safetensors.numpy import save_file
    dtype = ml_dtypes.bfloat16 if kind == "bf16" else np.float32
    n = (mb << 20) // KEYS // np.dtype(dtype).itemsize
    rng = np.random.default_rng(seed)
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

    def merged(self, paths, out, rule):
        """Writes what a rule makes of the float32 arrays of each key."""
        files = [self.io.load_file(path) for path in paths]
        self.io.save_file({k: rule(*(f[k].astype(self.np.float32) for f in files)).astype(self.bf16)
                           for k in files[0]}, out)

    def average(self, models, out, **_):
        self.merged(models, out, lambda *m: sum(m) / self.np.float32(len(m)))

    def slerp(self, models, out, **_):
        np, t = self.np, SLERP_T

        def rule(x, y):
            x1, y1 = x.ravel(), y.ravel()
            cosine = np.dot(x1, y1) / (np.linalg.norm(x1) * np.linalg.norm(y1))
            if abs(cosine) > 0.9995:
                return (1 - t) * x + t * y
            theta = np.arccos(cosine)
            a, b = np.sin((1 - t) * theta) / np.sin(theta), np.sin(t * theta) / np.sin(theta)
            return np.float32(a) * x + np.float32(b) * y

        self.merged(models[:2], out, rule)

    def ties(self, models, base, out, **_):
        np = self.np

        def rule(b, *m):
            trimmed = []
            for x in m:
                d = x - b
                size = np.abs(d)
                keep = int(DENSITY * d.size)
                least = np.partition(size.ravel(), d.size - keep)[d.size - keep]
                trimmed.append(np.where(size >= least, d, np.float32(0)))
            sign = np.where(sum(trimmed) >= 0, np.float32(1), np.float32(-1))
            agree = [np.where(d * sign > 0, d, np.float32(0)) for d in trimmed]
            count = sum((d != 0).astype(np.float32) for d in agree)
            return b + sum(agree) / np.maximum(count, 1)

        self.merged([base, *models[:3]], out, rule)


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

    def merged(self, paths, out, rule):
        """Writes what a rule makes of the float32 tensors of each key."""
        merged = {}
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(self.open(path, framework="pt")) for path in paths]
            for name in files[0].keys():
                merged[name] = rule(*(f.get_tensor(name).float() for f in files)).bfloat16()
        self.io.save_file(merged, out)

    def average(self, models, out, **_):
        def rule(first, *more):
            for x in more:
                first += x
            return first.div_(1 + len(more))

        self.merged(models, out, rule)

    def slerp(self, models, out, **_):
        torch, t = self.torch, SLERP_T

        def rule(x, y):
            cosine = torch.dot(x.ravel(), y.ravel()) / (x.norm() * y.norm())
            if cosine.abs() > 0.9995:
                return torch.lerp(x, y, t)
            theta = torch.acos(cosine)
            a, b = torch.sin((1 - t) * theta), torch.sin(t * theta)
            return (a * x).add_(b * y).div_(torch.sin(theta))

        self.merged(models[:2], out, rule)

    def ties(self, models, base, out, **_):
        torch = self.torch

        def rule(b, *m):
            d = torch.stack([x.sub_(b) for x in m])
            for x in d:
                size = x.abs()
                keep = int(DENSITY * x.numel())
                least = size.ravel().kthvalue(x.numel() - keep + 1).values
                x[size < least] = 0
            sign = torch.where(d.sum(0) >= 0, 1.0, -1.0)
            d[d * sign <= 0] = 0
            return b + d.sum(0) / (d != 0).sum(0).clamp(min=1)

        self.merged([base, *models[:3]], out, rule)


# ---- mergekit -------------------------------------------------------------------------------------


class Mergekit:
    name = "mergekit"

    def __init__(self):
        from mergekit.merge_methods import merge_state_dicts
        from safetensors import torch as io
        self.merge, self.io = merge_state_dicts, io

    def merged(self, paths, out, method, base=None, **parameters):
        self.io.save_file(self.merge([self.io.load_file(path) for path in paths], method, base=base,
                                     parameters=parameters), out)

    def average(self, models, out, **_):
        self.merged(models, out, "linear", weight=1.0)

    def slerp(self, models, out, **_):
        self.merged(models[:2], out, "slerp", base=0, t=SLERP_T)

    def ties(self, models, base, out, **_):
        self.merged([base, *models[:3]], out, "ties", base=0, weight=1.0, density=DENSITY)


# ---- Jobs -----------------------------------------------------------------------------------------

SLERP_T, DENSITY = 0.3, 0.2
# The words of ours, with the exit status, and how many times quicker it has to be.
JOBS = {
    "stat": (["stat", "a"], 0, {"NumPy": 3, "PyTorch": 2}),
    "diff": (["diff", "a", "b"], 1, {"NumPy": 3, "PyTorch": 2}),
    "hash": (["hash", "a", "--sha256"], 0, {}),
    "widen": (["convert", "a", "out", "--dtype", "f32"], 0, {"NumPy": 3, "PyTorch": 2}),
    "narrow": (["convert", "f", "out", "--dtype", "bf16"], 0, {"NumPy": 3, "PyTorch": 2}),
}
MERGE_BARS = {"NumPy": 3, "PyTorch": 2, "mergekit": 3}
MERGES = {
    "average": (["merge", "average", "m1", "m2", "m3", "m4", "--out", "out"], 0, MERGE_BARS),
    "slerp": (["merge", "slerp", "m1", "m2", "--t", str(SLERP_T), "--out", "out"], 0, MERGE_BARS),
    "ties": (["merge", "ties", "m1", "m2", "m3", "--base", "base", "--density", str(DENSITY),
              "--out", "out"], 0, MERGE_BARS),
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
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("--quick", action="store_true")
    o = parser.parse_args()
    if o.quick:
        o.mb, o.runs = 16, 3
    peers = []
    for peer in (NumPy, PyTorch, Mergekit) if o.merge else (NumPy, PyTorch):
        try:
            peers.append(peer())
        except ImportError as why:
            print(f"{peer.name} is left out: {why}")
    folder = tempfile.mkdtemp(dir=o.folder)
    try:
        files = {name: os.path.join(folder, f"{name}.safetensors")
                 for name in ("a", "b", "f", "base", *MODELS, "out")}
        given = dict(files, models=[files[name] for name in MODELS])
        if o.merge:
            for i, name in enumerate(("base", *MODELS)):
                make(files[name], o.mb, "bf16", seed=i)
        else:
            make(files["a"], o.mb, "bf16")
            make(files["b"], o.mb, "bf16", changed=True)
            make(files["f"], o.mb, "f32")
        print(f"{o.mb} MB, {o.runs} pairs; theirs / ours, above 1 ours is quicker")
        print("| job | peer | ours ms | theirs ms | ratio | bar |")
        print("|---|---|---|---|---|---|")
        for job, (words, status, bars) in (MERGES if o.merge else JOBS).items():
            for peer in peers:
                work = getattr(peer, job, None)
                if not work:
                    continue
                mine, theirs = [], []
                work(**given)
                for _ in range(o.runs):
                    mine.append(seconds(lambda: ours(o.kvctl, files, words, status)))
                    theirs.append(seconds(lambda: work(**given)))
                ratio = statistics.median(t / m for m, t in zip(mine, theirs))
                print(f"| {job} | {peer.name} | {statistics.median(mine) * 1e3:.0f} "
                      f"| {statistics.median(theirs) * 1e3:.0f} | {ratio:.2f} "
                      f"| {bars.get(peer.name, '')} |")
    finally:
        shutil.rmtree(folder)


main()
