"""The store beside PyTorch, MXNet and NumPy on the same workloads, in turns.

    peers.py LIBRARY KVCTL [--only W1,W4] [--ops push,adam] [--runs N] [--quick]

Each side is a process of its own that keeps its arrays and does one timed call whenever it is told
to; so ours, theirs, ours, theirs ... share whatever else the machine does, and only the ratio of a
pair says something. Every form of a peer (a loop into arrays made before, its functions for lists, a
fused optimizer) is warmed up and tried, and the fastest is the one that is compared, with as many
threads as there are processors. The library is called through its C interface. What part of the
memory's limit ours reaches is what `kvbench bench` says, which runs just before.

A peer that cannot be imported, or cannot do a case, is named with the reason. scripts/peers installs
them.
"""
import argparse
import ctypes
import json
import os
import re
import statistics
import subprocess
import sys
import time

from library import Library, size

# ---- Workloads ------------------------------------------------------------------------------------


def resnet(counts, norm):
    """Shapes of a ResNet of bottleneck blocks, with or without its batch normalisations."""
    shapes, wide = [], 64

    def conv(to, source, k):
        shapes.extend([(to, source, k, k)] + [(to,), (to,)] * norm)
    conv(64, 3, 7)
    for stage, blocks in enumerate(counts):
        narrow = 64 << stage
        for block in range(blocks):
            conv(narrow, wide, 1)
            conv(narrow, narrow, 3)
            conv(4 * narrow, narrow, 1)
            if block == 0:
                conv(4 * narrow, wide, 1)
            wide = 4 * narrow
    return shapes + [(1000, wide), (1000,)]


def vgg16():
    shapes, wide = [], 3
    for to in 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512:
        shapes += [(to, wide, 3, 3), (to,)]
        wide = to
    for to, source in (4096, 25088), (4096, 4096), (1000, 4096):
        shapes += [(to, source), (to,)]
    return shapes


WIDTH, EVERY = 16, 10  # W6: floats of a row; one row of so many is pushed

SHAPES = {
    "W1": lambda: resnet((3, 4, 6, 3), 1),
    "W2": lambda: resnet((3, 24, 36, 3), 0),
    "W3": vgg16,
    "W4": lambda: [(WIDTH,)] * 100000,
    "W5": lambda: [(1 << 28,)],
    "W6": lambda: [(10000000, WIDTH)],
    "W7": lambda: resnet((3, 4, 6, 3), 1),
    "W8": lambda: resnet((3, 4, 6, 3), 1),
}


def shapes_of(workload, quick):
    shapes = SHAPES[workload]()
    if not quick:
        return shapes
    if workload == "W4":
        return shapes[:1000]
    if workload == "W6":
        return [(10000, WIDTH)]
    return [((size(s) + 63) // 64,) for s in shapes]


def row_ids(rows, value):
    """Ascending, at places that look random, other ones for each value."""
    return [i + (i * 7919 // EVERY + 3 * value) % EVERY for i in range(0, rows, EVERY)]


# ---- Cases ----------------------------------------------------------------------------------------


class Case:
    """One row of the table. Bars: of the limit, and times the speed of PyTorch and of MXNet."""

    def __init__(self, workload, data, op, n, *bars):
        self.workload, self.data, self.op, self.n = workload, data, op, n
        self.bars = dict(zip(("limit", "PyTorch", "MXNet"), bars))
        self.optimizer = op.split("+")[1] if "+" in op else op
        if self.optimizer in ("push", "pull", "pushpull"):
            self.optimizer = None
        self.pulls = "pull" in op

    def __str__(self):
        return f"{self.workload} {self.op} of {self.n}" + \
            ("" if self.data == "float32" else f" ({self.data})")


def make_cases():
    cases = []

    def add(workload, data, ops, values, *bars):
        cases.extend(Case(workload, data, op, n, *bars) for op in ops for n in values)
    add("W1", "float32", ["push"], [2, 4, 8], 0.92, 1.2, 3.3)
    add("W1", "float32", ["pull"], [2, 4, 8], 0.92, 1.45, 1.75)
    add("W1", "float32", ["pushpull"], [2, 4], 0.92, 2.0, 3.7)
    add("W1", "float32", ["momentum", "adam"], [1], 0.92, 0.97, 3.8)
    add("W1", "float32", ["push+adam+pull"], [2], 0.88, 1.45, 3.9)
    add("W1", "float32", ["lamb", "nadam"], [1], 0.6, None, 20)
    add("W2", "float32", ["push"], [2, 4, 8], 0.92, 1.2, 3.3)
    add("W3", "float32", ["push"], [2, 4, 8], 0.92, 1.2, 3.3)
    add("W4", "float32", ["push", "pull"], [2], 0.25, 12, 200)
    add("W5", "float32", ["push", "pull"], [2], 0.92, 1.2, 2)
    add("W6", "row_sparse", ["push"], [2], 0.6, 2, 2)
    add("W6", "row_sparse", ["sgd"], [1], 0.6, 2, 2)
    add("W7", "float16", ["push"], [2, 4, 8], 0.75, 2, 3)
    add("W7", "bfloat16", ["push"], [2, 4, 8], 0.9, 2, 3)
    add("W8", "2bit", ["push"], [1], 0.75, None, 3)
    add("W8", "2bit", ["push"], [2, 4], 0.75, None, 5)
    return cases


# ---- Sides ----------------------------------------------------------------------------------------
# A side makes its arrays in its constructor and gives from forms() the ways to do the operation: name
# and function; none where it has no such operation. A result is one float, or None: element 0 of what
# key 0 holds afterwards, or of what was pulled.


def value_of(v):
    return (v + 1) / 8


class Ours:
    """The lists of a call are made once."""

    def __init__(self, case, shapes):
        compressed, n = case.data == "2bit", case.n
        self.case, self.shapes = case, shapes
        self.lib = Library(os.environ["PEERS_LIBRARY"], "device" if compressed else "local",
                           case.data)
        self.call, self.store = self.lib.call, self.lib.store
        if compressed:
            self.lib.options("kv_set_gradient_compression", type="2bit", threshold="0.5")
        self.keys = self.lib.key_list(len(shapes), 1)
        values = [self.arrays(value_of(v), v) for v in range(n if case.op != "pull" else 1)]
        self.init(values[0])
        if case.optimizer:
            name = "sgd" if case.optimizer == "momentum" else case.optimizer
            how = {"momentum": "0.9"} if case.optimizer == "momentum" else {}
            self.lib.options("kv_set_optimizer", name, **how)
        self.many = self.lib.key_list(len(shapes), n)
        self.values = self.pairs(values)
        self.outs = self.pairs([self.arrays(0, 0) for v in range(n)]) if case.pulls else None

    def arrays(self, x, v):
        if self.case.data == "row_sparse":
            return [self.lib.array(s, x, row_ids(s[0], v)) for s in self.shapes]
        return [self.lib.array(s, x) for s in self.shapes]

    def init(self, first):
        if self.case.data == "row_sparse" and self.case.optimizer:
            # A table has all rows.
            first = [self.lib.array(s, 1, range(s[0])) for s in self.shapes]
        self.call("kv_init", self.store, self.keys, ctypes.c_int64(len(first)),
                  (ctypes.c_void_p * len(first))(*first), None)

    def pairs(self, sets):
        handles = [s[i] for i in range(len(self.shapes)) for s in sets]
        return (ctypes.c_void_p * len(handles))(*handles)

    def run(self):
        many, count, op = self.many, ctypes.c_int64(len(self.many)), self.case.op
        if op == "pushpull":
            self.call("kv_pushpull", self.store, many, count, self.values, many, count, self.outs,
                      None)
        if op not in ("pushpull", "pull"):
            self.call("kv_push", self.store, many, count, self.values, None)
        if op != "pushpull" and self.case.pulls:
            self.call("kv_pull", self.store, many, count, self.outs, None)
        self.call("kv_wait", self.store)

    def forms(self):
        return [("calls", self.run)]

    def result(self):
        if self.case.data in ("row_sparse", "2bit"):
            return None
        out = self.outs[0] if self.outs else self.lib.array(self.shapes[0], 0)
        if not self.outs:
            self.call("kv_pull", self.store, self.keys, ctypes.c_int64(1),
                      (ctypes.c_void_p * 1)(out), None)
        return self.lib.number(self.lib.read(out, 1))


class NumPy:
    def __init__(self, case, shapes):
        import numpy
        self.np, self.case, n = numpy, case, case.n
        if case.workload != "W1" or case.optimizer:
            return
        self.values = [[numpy.full(s, value_of(v), "float32") for s in shapes] for v in range(n)]
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
        if self.case.workload != "W1" or self.case.optimizer:
            return []
        return {"push": [("loop", self.push)], "pull": [("loop", self.pull)],
                "pushpull": [("loop", lambda: (self.push(), self.pull()))]}[self.case.op]

    def result(self):
        return float((self.outs[0] if self.case.pulls else self.stored)[0].flat[0])


class PyTorch:
    def __init__(self, case, shapes):
        import torch
        torch.set_grad_enabled(False)
        torch.set_num_threads(os.cpu_count())
        self.torch, self.case, self.shapes, n = torch, case, shapes, case.n
        self.grads = None
        if case.data == "2bit":
            return
        if case.data == "row_sparse":
            self.make_rows()
            return
        dtype = getattr(torch, case.data)
        self.values = [[torch.full(s, value_of(v), dtype=dtype) for s in shapes]
                       for v in range(n if case.op != "pull" else 1)]
        self.outs = [[torch.zeros(s, dtype=dtype) for s in shapes]
                     for v in range(n)] if case.pulls else []
        self.stored = [a.clone() for a in self.values[0]]
        self.grads = [torch.zeros(s) for s in shapes] if "+" in case.op else self.values[0]

    # Rows: sparse tensors, and the same sum into a table that is there, which is left as it is.

    def make_rows(self):
        torch, shape = self.torch, self.shapes[0]
        self.ids = [torch.tensor(row_ids(shape[0], v)) for v in range(self.case.n)]
        self.values = [torch.full((len(i), shape[1]), value_of(v)) for v, i in enumerate(self.ids)]
        self.table = torch.ones(shape)
        self.sparse = [torch.sparse_coo_tensor(i[None], v, shape, is_coalesced=True)
                       for i, v in zip(self.ids, self.values)]

    def sum_sparse(self):
        total = self.sparse[0]
        for value in self.sparse[1:]:
            total = total + value
        self.total = total.coalesce()

    def add_rows(self, scale):
        for ids, value in zip(self.ids, self.values):
            self.table.index_add_(0, ids, value, alpha=scale)

    def row_forms(self):
        if self.case.op == "push":
            return [("sparse", self.sum_sparse), ("index_add", lambda: self.add_rows(1.0))]
        param = self.torch.nn.Parameter(self.table)
        param.grad = self.sparse[0]
        return [("index_add", lambda: self.add_rows(-0.01)),
                ("SGD", self.torch.optim.SGD([param], lr=0.01).step)]

    # Dense arrays.

    def push_loop(self, into):
        torch = self.torch
        if len(self.values) == 1:
            torch._foreach_copy_(into, self.values[0])
            return
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
        optim, name, forms = self.torch.optim, self.case.optimizer, []
        make = {"momentum": lambda p, how: optim.SGD(p, lr=0.01, momentum=0.9, **how),
                "adam": lambda p, how: optim.Adam(p, lr=0.001, **how),
                "nadam": lambda p, how: optim.NAdam(p, lr=0.001, **how)}.get(name)
        for form in ("plain", "foreach", "fused") if make else ():
            if name == "nadam" and form == "fused":
                continue
            params = [self.torch.nn.Parameter(a) for a in self.stored]
            for p, g in zip(params, self.grads):
                p.grad = g
            forms.append((form, make(params, {"foreach": False} if form == "plain" else
                                     {form: True}).step))
        return forms

    def forms(self):
        op, into = self.case.op, self.stored if self.grads else None
        if self.case.data == "2bit":
            return []
        if self.case.data == "row_sparse":
            return self.row_forms()
        pushes = [("loop", self.push_loop), ("lists", self.push_lists)]
        pulls = [("loop", self.pull_loop), ("lists", self.pull_lists)]
        if op == "push":
            return [(name, lambda push=push: push(into)) for name, push in pushes]
        if op == "pull":
            return pulls
        if op == "pushpull":
            return [(name, lambda push=push, pull=pull: (push(into), pull()))
                    for (name, push), (_, pull) in zip(pushes, pulls)]
        if "+" in op:
            return [(f"{name},{how}",
                     lambda push=push, step=step, pull=pull: (push(self.grads), step(), pull()))
                    for name, step in self.optimizers()
                    for (how, push), (_, pull) in zip(pushes, pulls)]
        return self.optimizers()

    def result(self):
        if self.case.data == "row_sparse":
            return None
        return float((self.outs[0] if self.case.pulls else self.stored)[0].flatten()[0])


class MXNet:
    def __init__(self, case, shapes):
        import mxnet
        self.mx, self.case, n = mxnet, case, case.n
        nd = mxnet.nd
        if case.data == "bfloat16":
            return  # its CPU kernels have no sum of this type
        self.keys = list(range(len(shapes)))
        self.kv = mxnet.kv.create("device" if case.data == "2bit" else "local")
        if case.data == "2bit":
            self.kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
        if case.data == "row_sparse":
            self.values = [[self.rows(s, v) for v in range(n)] for s in shapes]
            first = [nd.ones(s).tostype("row_sparse") if case.optimizer else v[0]
                     for s, v in zip(shapes, self.values)]
        else:
            ctx = [mxnet.cpu(v) if case.data == "2bit" else mxnet.cpu() for v in range(n)]
            dtype = "float16" if case.data == "float16" else "float32"
            self.values = [[nd.full(s, value_of(v), ctx=ctx[v], dtype=dtype)
                            for v in range(n if case.op != "pull" else 1)] for s in shapes]
            first = [v[0] for v in self.values]
        self.outs = [[nd.zeros(s) for v in range(n)] for s in shapes] if case.pulls else None
        self.kv.init(self.keys, first)
        if case.optimizer == "momentum":
            self.kv.set_optimizer(mxnet.optimizer.SGD(momentum=0.9))
        elif case.optimizer:
            self.kv.set_optimizer(mxnet.optimizer.create(case.optimizer))

    def rows(self, shape, v):
        nd, ids = self.mx.nd, row_ids(shape[0], v)
        return nd.sparse.row_sparse_array((nd.full((len(ids), shape[1]), value_of(v)), ids),
                                          shape=shape)

    def run(self):
        if self.case.op == "pushpull":
            self.kv.pushpull(self.keys, self.values, out=self.outs)
        if self.case.op not in ("pushpull", "pull"):
            self.kv.push(self.keys, self.values)
        if self.case.op != "pushpull" and self.case.pulls:
            self.kv.pull(self.keys, out=self.outs)
        self.mx.nd.waitall()

    def forms(self):
        if self.case.data == "bfloat16":
            return []
        return [("device" if self.case.data == "2bit" else "local", self.run)]

    def result(self):
        if self.case.data in ("row_sparse", "2bit"):
            return None
        out = self.outs[0][0] if self.outs else self.values[0][0].copy()
        if not self.outs:
            self.kv.pull(self.keys[0], out=out)
        return float(out.asnumpy().flat[0])


SIDES = {"ours": Ours, "PyTorch": PyTorch, "MXNet": MXNet, "NumPy": NumPy}
MODULES = {"PyTorch": "torch", "MXNet": "mxnet", "NumPy": "numpy"}

# ---- A side's process -----------------------------------------------------------------------------


def serve(name, number, quick):
    """Answers each line on stdin, the number of a form, with the seconds of one call."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    case = make_cases()[number]
    side = SIDES[name](case, shapes_of(case.workload, quick))
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


class SideFailed(Exception):
    pass


PAUSE = 0.005  # threads of the other side that still look for work, go to sleep


class Side:
    def __init__(self, name, number, quick):
        self.name = name
        words = [sys.executable, __file__, "--serve", name, str(number)]
        self.process = subprocess.Popen(words + (["--quick"] if quick else []), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.forms = self.answer().split()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            said = self.process.stderr.read().strip().splitlines()
            status = self.process.wait()
            raise SideFailed(f"{self.name}: {said[-1] if said else f'it ended with {status}'}")
        return line.strip()

    def ask(self, text):
        try:
            print(text, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # the answer says why
        return self.answer()

    def time(self, form):
        time.sleep(PAUSE)
        return float(self.ask(form))

    def best_form(self):
        for form in range(len(self.forms)):
            self.time(form)
        if len(self.forms) == 1:
            return 0
        times = [min(self.time(form) for _ in range(2)) for form in range(len(self.forms))]
        return times.index(min(times))

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.stderr.close()
        self.process.wait()


# ---- Comparing ------------------------------------------------------------------------------------


class Pairs:
    """What a peer and ours took in turns."""

    def __init__(self, form, pairs):
        self.form = form
        self.ratios = [b / a for a, b in pairs]
        self.ratio = statistics.median(self.ratios)
        self.ours = statistics.median(a for a, _ in pairs)
        self.theirs = statistics.median(b for _, b in pairs)


# After so many pairs a comparison ends that has taken so many seconds: MXNet takes some for one call
# with 100,000 keys.
ENOUGH = (5, 4.0), (3, 12.0)


def take_turns(ours, theirs, runs):
    form, pairs, begun = theirs.best_form(), [], time.monotonic()
    ours.time(0)
    while len(pairs) < runs:
        taken = time.monotonic() - begun
        if any(len(pairs) >= n and taken > seconds for n, seconds in ENOUGH):
            break
        pairs.append((ours.time(0), theirs.time(form)))
    return Pairs(theirs.forms[form], pairs)


def same_result(case, theirs, ours):
    if case.optimizer:
        return
    other, mine = theirs.ask("result"), ours.ask("result")
    if "None" not in (mine, other) and mine != other:
        raise SideFailed(f"{theirs.name}: other results, {other}; ours {mine}")


def compare(peer, number, case, runs, quick):
    """The pairs, or None where the peer has no such operation or failed, which is said."""
    sides = []
    try:
        sides.append(Side(peer, number, quick))
        if not sides[0].forms:
            return None
        sides.append(Side("ours", number, quick))
        found = take_turns(sides[1], sides[0], runs)
        same_result(case, *sides)
    except SideFailed as why:
        print(f"{case}, {why}", flush=True)
        return None
    finally:
        for side in sides:
            side.close()
    print(f"{case}, {peer} ({found.form}): " + " ".join(f"{r:.2f}" for r in found.ratios),
          flush=True)
    return found


def row_fractions(kvctl, quick):
    """W6, whose loops are a program of their own: make bench-rows."""
    program = os.path.join(os.path.dirname(kvctl), "bench_rows")
    size = ["160000", "10", "3", "16"] if quick else ["160000000", "10", "5", "16"]
    ran = subprocess.run([program] + size, capture_output=True, text=True)
    if ran.returncode:
        print(f"W6, bench_rows: {ran.stderr.strip()}")
    rows = re.findall(r"^(\w+) of (\d+), .* ascending .* ([\d.]+)$", ran.stdout, re.MULTILINE)
    return {("W6", "row_sparse", op, int(n)): float(fraction) for op, n, fraction in rows}


def fractions(kvctl, cases, quick):
    """Of the limit, by workload, data, operation and values: one kvbench bench for each operation."""
    found = row_fractions(kvctl, quick) if any(c.workload == "W6" for c in cases) else {}
    cases = [c for c in cases if c.workload != "W6"]
    for workload, op in dict.fromkeys((c.workload, c.op) for c in cases):
        some = [c for c in cases if (c.workload, c.op) == (workload, op)]
        values = ",".join(str(n) for n in dict.fromkeys(c.n for c in some))
        words = [kvctl.replace("kvctl", "kvbench"), "--json", "bench", workload, "--op", op, "--values", values]
        ran = subprocess.run(words + (["--quick", "--runs", "3"] if quick else []),
                             capture_output=True, text=True)
        if ran.returncode:
            print(f"{workload} {op}, kvbench bench: {ran.stderr.strip() or ran.stdout.strip()}")
            continue
        for row in json.loads(ran.stdout)["rows"]:
            found[workload, row["data"], op, row["values"]] = row["fraction"]
    return found


# ---- The program ----------------------------------------------------------------------------------


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


class Table:
    """Cells with what was reached, the form it was compared with, and the bar; counts the bars."""

    def __init__(self, judge):
        self.judge, self.met, self.missed = judge, 0, []

    def cell(self, case, name, reached, form):
        bar = case.bars.get(name)
        if reached is None:
            return "-"
        if bar is None or not self.judge:
            return f"{reached:.2f}{form}"
        if reached >= bar:
            self.met += 1
        else:
            self.missed.append(f"{case}: {reached:.2f} {name}, bar {bar}")
        return f"{reached:.2f}{form} (≥ {bar}{'' if reached >= bar else ', missed'})"

    def row(self, case, fraction, found, peers):
        times = [found[p].ours for p in peers if found[p]]
        cells = [f"{times[0] * 1e3:.2f}" if times else "-",
                 self.cell(case, "limit", fraction, "")]
        cells += [self.cell(case, p, found[p].ratio, f" {found[p].form}") if found[p] else "-"
                  for p in peers]
        print(f"| {case} | " + " | ".join(cells) + " |")

    def show(self, rows, peers):
        print()
        print("| what | ours ms | of the limit |" + "".join(f" × {p} |" for p in peers))
        print("|---|---:|---|" + "---|" * len(peers))
        for row in rows:
            self.row(*row, peers)
        self.verdict()

    def verdict(self):
        print()
        for line in self.missed:
            print(f"missed: {line}")
        if self.judge:
            print(f"{self.met} bars met, {len(self.missed)} missed")


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/peers")
    parser.add_argument("library", help=argparse.SUPPRESS)
    parser.add_argument("kvctl", help=argparse.SUPPRESS)
    parser.add_argument("--only", default=",".join(SHAPES), help="workloads, with commas")
    parser.add_argument("--ops", help="only these operations, with commas")
    parser.add_argument("--runs", type=int, default=15, help="pairs at most, 15 without it")
    parser.add_argument("--quick", action="store_true", help="small arrays: shows that it runs")
    asked = parser.parse_args()
    asked.only = asked.only.upper().split(",")
    for workload in asked.only:
        if workload not in SHAPES:
            parser.error(f"there is no workload {workload}: {', '.join(SHAPES)}")
    if asked.runs < 1:
        parser.error("a comparison needs at least 1 run")
    return asked


def main():
    if sys.argv[1] == "--serve":
        serve(sys.argv[2], int(sys.argv[3]), "--quick" in sys.argv[4:])
        return
    asked = arguments()
    os.environ["PEERS_LIBRARY"] = os.path.abspath(asked.library)
    runs = 3 if asked.quick else asked.runs
    peers, rows = available(MODULES), []
    ops = asked.ops.split(",") if asked.ops else None
    cases = [(i, c) for i, c in enumerate(make_cases())
             if c.workload in asked.only and (ops is None or c.op in ops)]
    for workload in dict.fromkeys(c.workload for _, c in cases):
        some = [(i, c) for i, c in cases if c.workload == workload]
        limit = fractions(asked.kvctl, [c for _, c in some], asked.quick)
        for i, c in some:
            found = {p: compare(p, i, c, runs, asked.quick) for p in peers}
            rows.append((c, limit.get((workload, c.data, c.op, c.n)), found))
    Table(not asked.quick).show(rows, peers)


if __name__ == "__main__":
    main()
