"""The store beside PyTorch, MXNet and NumPy on the same workloads, in turns.

    peers.py LIBRARY [--workloads W1,W4] [--runs N] [--quick]

Each side is a process of its own that keeps its arrays and does one timed call whenever it is told
to; so ours, theirs, ours, theirs ... share whatever else the machine does, and only the ratio of a
pair says something. Every form of a peer (a loop, its list functions, a fused optimizer) is tried,
and the fastest is the one that is compared. The library is called through its C interface.

A peer that cannot be imported is named with the reason. scripts/peers installs them.
"""
import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time

# ---- Workloads ------------------------------------------------------------------------------------


def resnet50():
    shapes, wide_in = [(64, 3, 7, 7), (64,), (64,)], 64
    for narrow, blocks in (64, 3), (128, 4), (256, 6), (512, 3):
        for block in range(blocks):
            convs = [(narrow, wide_in, 1, 1), (narrow, narrow, 3, 3), (4 * narrow, narrow, 1, 1)]
            if block == 0:
                convs.append((4 * narrow, wide_in, 1, 1))
            for conv in convs:
                shapes += [conv, conv[:1], conv[:1]]
            wide_in = 4 * narrow
    return shapes + [(1000, 2048), (1000,)]


def shapes_of(workload, quick):
    if workload == "W1":
        shapes = resnet50()
        return [(max(1, size(s) // 64),) for s in shapes] if quick else shapes
    if workload == "W4":
        return [(16,)] * (1000 if quick else 100000)
    if workload == "W5":
        return [(1 << 20 if quick else 1 << 26,)]
    sys.exit(f"peers: there is no workload {workload} here: W1, W4, W5")


def size(shape):
    n = 1
    for d in shape:
        n *= d
    return n


# What is compared: operation, number of values.
CASES = {
    "W1": [("push", 2), ("push", 4), ("push", 8), ("pull", 2), ("pull", 4), ("pull", 8),
           ("pushpull", 2), ("pushpull", 4), ("momentum", 1), ("adam", 1), ("lamb", 1),
           ("nadam", 1), ("push+adam+pull", 2)],
    "W4": [("push", 2), ("pull", 2)],
    "W5": [("push", 2), ("pull", 2)],
}

# ---- Sides ----------------------------------------------------------------------------------------
# A side makes its arrays in its constructor and gives from forms() the ways to do the operation: name
# and function. A result is one float: element 0 of what array 0 holds afterwards.


class Ours:
    """libkvstore through ctypes: the lists of a call are made once."""

    class Key(ctypes.Structure):
        _fields_ = [("id", ctypes.c_int64), ("name", ctypes.c_char_p)]

    class Ctx(ctypes.Structure):
        _fields_ = [("device", ctypes.c_int32), ("id", ctypes.c_int32)]

    class Opt(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]

    def __init__(self, shapes, op, n):
        self.lib = ctypes.CDLL(os.environ["PEERS_LIBRARY"])
        self.err = ctypes.create_string_buffer(4096)  # larger than a kv_err
        self.store = ctypes.c_void_p()
        self.op, self.n, self.shapes = op, n, shapes
        self.call("kv_create", b"local", None, 0, ctypes.byref(self.store))
        self.keys = (self.Key * len(shapes))(*[(i, None) for i in range(len(shapes))])
        values = [self.arrays(v + 1) for v in range(n)]
        outs = [self.arrays(0) for v in range(n)]
        self.init(values[0])
        self.set_optimizer()
        self.many = (self.Key * (len(shapes) * n))(
            *[(i, None) for i in range(len(shapes)) for v in range(n)])
        self.values = self.pairs(values)
        self.outs = self.pairs(outs)

    def call(self, name, *args):
        function = getattr(self.lib, name)
        if function(*args, self.err):
            sys.exit(f"peers: {name}: {self.err.raw!r}")

    def arrays(self, x):
        handles = []
        for shape in self.shapes:
            a, data = ctypes.c_void_p(), ctypes.c_void_p()
            dims = (ctypes.c_int64 * len(shape))(*shape)
            self.call("kv_array_new", ctypes.byref(a), 0, len(shape), dims, self.Ctx(0, 0))
            self.call("kv_array_write", a, ctypes.byref(data))
            view = (ctypes.c_float * size(shape)).from_address(data.value)
            view[0] = x / 8
            done = 1
            while done < len(view):
                some = min(done, len(view) - done)
                ctypes.memmove(data.value + 4 * done, data.value, 4 * some)
                done += some
            handles.append(a.value)
        return handles

    def init(self, first):
        self.call("kv_init", self.store, self.keys, ctypes.c_int64(len(first)),
                  (ctypes.c_void_p * len(first))(*first), None)

    def set_optimizer(self):
        name = self.op.split("+")[1] if "+" in self.op else self.op
        params = {"momentum": [(b"momentum", b"0.9")]}.get(name, [])
        name = "sgd" if name == "momentum" else name
        if name in ("push", "pull", "pushpull"):
            return
        params = (self.Opt * (len(params) + 1))(*params)
        self.call("kv_set_optimizer", self.store, name.encode(), params,
                  1 if self.op == "momentum" else 0)

    def pairs(self, sets):
        handles = [s[i] for i in range(len(self.shapes)) for s in sets]
        return (ctypes.c_void_p * len(handles))(*handles)

    def push(self):
        self.call("kv_push", self.store, self.many, ctypes.c_int64(len(self.many)), self.values,
                  None)

    def pull(self):
        self.call("kv_pull", self.store, self.many, ctypes.c_int64(len(self.many)), self.outs,
                  None)

    def pushpull(self):
        count = ctypes.c_int64(len(self.many))
        self.call("kv_pushpull", self.store, self.many, count, self.values, self.many, count,
                  self.outs, None)

    def forms(self):
        joined = self.op == "pushpull" and hasattr(self.lib, "kv_pushpull")

        def run():
            if joined:
                self.pushpull()
            else:
                if self.op != "pull":
                    self.push()
                if "pull" in self.op:
                    self.pull()
            self.call("kv_wait", self.store)
        return [("pushpull" if joined else "calls", run)]

    def result(self):
        data = ctypes.c_void_p()
        one = ctypes.c_void_p(self.outs[0])
        if "pull" not in self.op:
            self.call("kv_pull", self.store, self.keys, ctypes.c_int64(1),
                      (ctypes.c_void_p * 1)(one.value), None)
        self.call("kv_array_read", one, ctypes.byref(data))
        return ctypes.c_float.from_address(data.value).value


class NumPy:
    def __init__(self, shapes, op, n):
        import numpy
        self.np, self.op, self.n = numpy, op, n
        self.values = [[numpy.full(s, (v + 1) / 8, "float32") for s in shapes] for v in range(n)]
        self.outs = [[numpy.zeros(s, "float32") for s in shapes] for v in range(n)]
        self.stored = [a.copy() for a in self.values[0]]

    def push(self):
        for stored, *values in zip(self.stored, *self.values):
            self.np.add(values[0], values[1], out=stored)
            for value in values[2:]:
                self.np.add(stored, value, out=stored)

    def pull(self):
        for stored, *outs in zip(self.stored, *self.outs):
            for out in outs:
                self.np.copyto(out, stored)

    def forms(self):
        if self.op == "push":
            return [("loop", self.push)]
        if self.op == "pull":
            return [("loop", self.pull)]
        if self.op == "pushpull":
            return [("loop", lambda: (self.push(), self.pull()))]
        return []

    def result(self):
        return float((self.outs[0] if "pull" in self.op else self.stored)[0].flat[0])


class PyTorch:
    def __init__(self, shapes, op, n):
        import torch
        torch.set_grad_enabled(False)
        self.torch, self.op, self.n = torch, op, n
        self.values = [[torch.full(s, (v + 1) / 8) for s in shapes] for v in range(n)]
        self.outs = [[torch.zeros(s) for s in shapes] for v in range(n)]
        self.stored = [a.clone() for a in self.values[0]]
        self.grads = [torch.zeros(s) for s in shapes] if "+" in op else self.values[0]

    def push_loop(self, into):
        torch = self.torch
        for stored, *values in zip(into, *self.values):
            torch.add(values[0], values[1], out=stored)
            for value in values[2:]:
                stored.add_(value)

    def push_lists(self, into):
        torch = self.torch
        torch._foreach_copy_(into, self.values[0])
        for values in self.values[1:]:
            torch._foreach_add_(into, values)

    def pull_loop(self):
        for stored, *outs in zip(self.stored, *self.outs):
            for out in outs:
                out.copy_(stored)

    def pull_lists(self):
        for outs in self.outs:
            self.torch._foreach_copy_(outs, self.stored)

    def optimizers(self):
        torch, name = self.torch, self.op.split("+")[1] if "+" in self.op else self.op
        forms = []
        for form in "default", "foreach", "fused":
            how = {} if form == "default" else {form: True}
            params = [torch.nn.Parameter(a) for a in self.stored]
            for p, g in zip(params, self.grads):
                p.grad = g
            if name == "momentum":
                step = torch.optim.SGD(params, lr=0.01, momentum=0.9, **how).step
            elif name == "adam":
                step = torch.optim.Adam(params, lr=0.001, **how).step
            elif name == "nadam" and form != "fused":
                step = torch.optim.NAdam(params, lr=0.001, **how).step
            else:
                continue
            forms.append((form, step))
        return forms

    def forms(self):
        into = self.stored
        if self.op == "push":
            return [("loop", lambda: self.push_loop(into)), ("lists", lambda: self.push_lists(into))]
        if self.op == "pull":
            return [("loop", self.pull_loop), ("lists", self.pull_lists)]
        if self.op == "pushpull":
            return [("loop", lambda: (self.push_loop(into), self.pull_loop())),
                    ("lists", lambda: (self.push_lists(into), self.pull_lists()))]
        if "+" in self.op:
            return [(name, lambda step=step: (self.push_loop(self.grads), step(), self.pull_loop()))
                    for name, step in self.optimizers()]
        return self.optimizers()

    def result(self):
        return float((self.outs[0] if "pull" in self.op else self.stored)[0].flatten()[0])


class MXNet:
    def __init__(self, shapes, op, n):
        import mxnet
        self.mx, self.op, self.n = mxnet, op, n
        nd = mxnet.nd
        self.values = [[nd.full(s, (v + 1) / 8) for v in range(n)] for s in shapes]
        self.outs = [[nd.zeros(s) for v in range(n)] for s in shapes]
        self.keys = list(range(len(shapes)))
        self.kv = mxnet.kv.create("local")
        self.kv.init(self.keys, [v[0] for v in self.values])
        name = op.split("+")[1] if "+" in op else op
        if name == "momentum":
            self.kv.set_optimizer(mxnet.optimizer.SGD(momentum=0.9))
        elif name not in ("push", "pull", "pushpull"):
            self.kv.set_optimizer(mxnet.optimizer.create(name))

    def forms(self):
        def run():
            if self.op == "pushpull":
                self.kv.pushpull(self.keys, self.values, out=self.outs)
            else:
                if self.op != "pull":
                    self.kv.push(self.keys, self.values)
                if "pull" in self.op:
                    self.kv.pull(self.keys, out=self.outs)
            self.mx.nd.waitall()
        return [("local", run)]

    def result(self):
        if "pull" not in self.op:
            self.kv.pull(self.keys[0], out=self.outs[0])
        return float(self.outs[0][0].asnumpy().flat[0])


SIDES = {"ours": Ours, "NumPy": NumPy, "PyTorch": PyTorch, "MXNet": MXNet}
MODULES = {"NumPy": "numpy", "PyTorch": "torch", "MXNet": "mxnet"}

# ---- A side's process -----------------------------------------------------------------------------


def serve(name, workload, op, n, quick):
    """Answers each line on stdin, the number of a form, with the seconds of one call."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    side = SIDES[name](shapes_of(workload, quick), op, n)
    forms = side.forms()
    print(*[form for form, _ in forms], file=out, flush=True)
    for line in sys.stdin:
        if line.strip() == "result":
            print(side.result(), file=out, flush=True)
            continue
        run = forms[int(line)][1]
        begun = time.perf_counter()
        run()
        print(time.perf_counter() - begun, file=out, flush=True)


class Side:
    def __init__(self, name, workload, op, n, quick):
        words = [sys.executable, __file__, "--serve", name, workload, op, str(n)]
        self.process = subprocess.Popen(words + (["--quick"] if quick else []), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL if name == "MXNet" else None)
        self.forms = self.process.stdout.readline().split()

    def ask(self, text):
        print(text, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"peers: a process ended: {self.process.args[3:]}")
        return float(answer)

    def best_form(self):
        for form in range(len(self.forms)):
            self.ask(form)
        times = [min(self.ask(form) for _ in range(2)) for form in range(len(self.forms))]
        return times.index(min(times))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- Comparing ------------------------------------------------------------------------------------


def compare(peer, workload, op, n, runs, quick):
    """The ratios theirs / ours of the pairs, the median times, the peer's form; None without one."""
    theirs = Side(peer, workload, op, n, quick)
    if not theirs.forms:
        theirs.close()
        return None
    ours = Side("ours", workload, op, n, quick)
    form, pairs = theirs.best_form(), []
    ours.ask(0)
    for _ in range(runs):
        pairs.append((ours.ask(0), theirs.ask(form)))
    if op in ("push", "pull", "pushpull") and ours.ask("result") != theirs.ask("result"):
        sys.exit(f"peers: {workload} {op} of {n}: ours and {peer} have different results")
    ours.close()
    theirs.close()
    return ([b / a for a, b in pairs], statistics.median(a for a, _ in pairs),
            statistics.median(b for _, b in pairs), theirs.forms[form])


def available(peers):
    there = []
    for peer in peers:
        found = subprocess.run([sys.executable, "-c",
                                f"import {MODULES[peer]} as m; print(m.__version__)"],
                               capture_output=True, text=True)
        if found.returncode == 0:
            there.append(peer)
            print(f"{peer} {found.stdout.split()[-1]}")
        else:
            lines = found.stderr.strip().splitlines()
            print(f"{peer} is not compared: {lines[-1] if lines else 'it cannot be imported'}")
    return there


def table(rows, peers):
    print()
    print("| workload | operation | values | ours ms |" + "".join(f" {p} |" for p in peers))
    print("|---|---|---|---|" + "---|" * len(peers))
    for (workload, op, n), found in rows:
        ours = [f"{found[p][1] * 1e3:.2f}" for p in peers if found[p]]
        cells = [f"{statistics.median(found[p][0]):.2f} ({found[p][3]})" if found[p] else "-"
                 for p in peers]
        print(f"| {workload} | {op} | {n} | {ours[0] if ours else '-'} | " + " | ".join(cells) + " |")


def main():
    if sys.argv[1] == "--serve":
        name, workload, op, n = sys.argv[2:6]
        serve(name, workload, op, int(n), "--quick" in sys.argv[6:])
        return
    parser = argparse.ArgumentParser(prog="scripts/peers")
    parser.add_argument("library")
    parser.add_argument("--workloads", default="W1,W4")
    parser.add_argument("--ops", help="only these operations, with commas")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="small arrays: shows that it runs")
    asked = parser.parse_args()
    os.environ["PEERS_LIBRARY"] = os.path.abspath(asked.library)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # who waits leaves the processors to others
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    peers, rows = available(MODULES), []
    for workload in asked.workloads.split(","):
        shapes_of(workload, True)
        for op, n in CASES[workload]:
            if asked.ops and op not in asked.ops.split(","):
                continue
            found = {}
            for peer in peers:
                found[peer] = compare(peer, workload, op, n, asked.runs, asked.quick)
                if found[peer]:
                    ratios = " ".join(f"{r:.2f}" for r in found[peer][0])
                    print(f"{workload} {op} of {n}, {peer} ({found[peer][3]}): {ratios}", flush=True)
            rows.append(((workload, op, n), found))
    table(rows, peers)


main()
