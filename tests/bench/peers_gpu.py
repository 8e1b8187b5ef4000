"""The store on gpu(0) beside PyTorch on the same GPU: rows of the table of tests/device/bars.

    peers_gpu.py LIBRARY [--device cuda|cpu] [--mb N]

Both sides are in this process and work on the same tensors, ours wrapped as arrays of the store; they
take turns, and a time ends when the device is at rest. A row is the median of the ratios of the turns,
PyTorch's time by ours. PyTorch is run in its best form: a loop or its functions for lists, the
optimizers with fused=True. --device cpu shows on any machine that everything runs, and no more;
--mb is the size of the large array (1024), below 64 the others are small too.
"""
import argparse
import ctypes
import statistics
import sys
import time

from library import Library
from peers import shapes_of, value_of

RUNS, WARM, MOST = 15, 3, 8


class Ours:
    """A store, and pushes of n values of each key."""

    def __init__(self, library, device, values, optimizer, params):
        self.lib = Library(library, "device" if device == "cuda" else "local")
        gpu = 0 if device == "cuda" else None
        count, n = len(values[0]), len(values)
        self.arrays = [self.lib.wrap(v[i].data_ptr(), v[i].shape, gpu)
                       for i in range(count) for v in values]
        self.shape = values[0][0].shape
        self.keys, self.handles = self.lib.key_list(count, n), self.pointers(self.arrays)
        self.lib.call("kv_init", self.lib.store, self.lib.key_list(count, 1), ctypes.c_int64(count),
                      self.pointers(self.arrays[::n]), None)
        if optimizer:
            self.lib.options("kv_set_optimizer", optimizer, **params)

    @staticmethod
    def pointers(handles):
        return (ctypes.c_void_p * len(handles))(*handles)

    def run(self):
        self.lib.call("kv_push", self.lib.store, self.keys, ctypes.c_int64(len(self.keys)),
                      self.handles, None)
        self.lib.call("kv_wait", self.lib.store)

    def result(self):
        """Element 0 of key 0."""
        out = self.lib.array(self.shape, 0)
        self.arrays.append(out)
        self.lib.call("kv_pull", self.lib.store, self.keys, ctypes.c_int64(1),
                      self.pointers([out]), None)
        return self.lib.number(self.lib.read(out, 1))

    def release(self):
        self.lib.release(self.arrays)


class PyTorch:
    """The sum of the values into `sums`, and a step of an optimizer with them as gradients."""

    def __init__(self, torch, values, optimizer, params):
        self.torch, self.values = torch, values
        self.sums = [torch.zeros_like(t) for t in values[0]]
        self.step = None
        if optimizer:
            weights = [torch.zeros_like(t) for t in values[0]]
            for weight, t in zip(weights, values[0] if len(values) == 1 else self.sums):
                weight.grad = t
            self.step = getattr(torch.optim, optimizer)(weights, fused=True, **params).step
        self.adds = self.loop

    def loop(self):
        for total, *values in zip(self.sums, *self.values):
            self.torch.add(values[0], values[1], out=total)
            for value in values[2:]:
                total.add_(value)

    def lists(self):
        self.torch._foreach_copy_(self.sums, self.values[0])
        for values in self.values[1:]:
            self.torch._foreach_add_(self.sums, values)

    def run(self):
        if len(self.values) > 1:
            self.adds()
        if self.step:
            self.step()


class Bench:
    def __init__(self, torch, asked):
        self.torch, self.asked = torch, asked
        self.rest = torch.cuda.synchronize if asked.device == "cuda" else lambda: None

    def time(self, run):
        self.rest()
        begun = time.perf_counter()
        run()
        self.rest()
        return time.perf_counter() - begun

    def best_adds(self, theirs):
        """Chooses the faster form of the sums."""
        forms = [theirs.loop, theirs.lists]
        times = [min(self.time(form) for _ in range(WARM)) for form in forms]
        theirs.adds = forms[times.index(min(times))]
        return f" ({theirs.adds.__name__})"

    def row(self, what, bar, values, ours_is=None, theirs_is=None):
        """ours_is, theirs_is: an optimizer and its parameters."""
        name, params = ours_is or (None, {})
        ours = Ours(self.asked.library, self.asked.device, values, name, params)
        name, params = theirs_is or (None, {})
        theirs = PyTorch(self.torch, values, name, params)
        form = self.best_adds(theirs) if len(values) > 1 else ""
        for _ in range(WARM):
            self.time(ours.run)
            self.time(theirs.run)
        pairs = [(self.time(ours.run), self.time(theirs.run)) for _ in range(RUNS)]
        ratio = statistics.median(b / a for a, b in pairs)
        if not ours_is:
            mine, other = ours.result(), float(theirs.sums[0].flatten()[0])
            if mine != other:
                sys.exit(f"{what}: the store has {mine}, PyTorch {other}")
        ours.release()
        verdict = "" if bar is None else "met" if ratio >= bar else "missed"
        print(f"| {what}{form} | {statistics.median(a for a, _ in pairs) * 1e3:.3f} | | {ratio:.2f} × "
              f"| {'' if bar is None else f'{bar:.2f}'} | {verdict} |", flush=True)

    def rows(self, name, shapes):
        torch = self.torch
        values = [[torch.full(s, value_of(v), device=self.asked.device) for s in shapes]
                  for v in range(MOST)]
        for n, bar in (2, None), (4, 1.7), (8, 2.2):
            self.row(f"push of {n}, {name}; PyTorch's adds", bar, values[:n])
        optimizers = [("sgd", ("sgd", {}), ("SGD", {"lr": 0.01})),
                      ("momentum", ("sgd", {"momentum": "0.9"}),
                       ("SGD", {"lr": 0.01, "momentum": 0.9})),
                      ("adam", ("adam", {}), ("Adam", {"lr": 0.001}))]
        for what, ours, theirs in optimizers:
            self.row(f"{what}, {name}; PyTorch, fused", 1.0, values[:1], ours, theirs)
        for n in 4, 8:
            self.row(f"push of {n} with adam, {name}; adds and adam, fused", 1.3, values[:n],
                     *optimizers[-1][1:])


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--mb", type=int, default=1024)
    return parser.parse_args()


def main():
    asked = arguments()
    try:
        import torch
    except ImportError as why:
        print(f"PyTorch is not compared: {why}", file=sys.stderr)
        return
    if asked.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch is not compared: it finds no GPU", file=sys.stderr)
        return
    torch.set_grad_enabled(False)
    bench = Bench(torch, asked)
    bench.rows("one array", [(asked.mb << 18,)])
    bench.rows("W1", shapes_of("W1", asked.mb < 64))


if __name__ == "__main__":
    main()
