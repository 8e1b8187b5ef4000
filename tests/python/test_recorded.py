"""The recorded runs of MXNet 1.9.1, tests/conformance/data/kvstore, through the module; its README.md says what is in
them. Updaters run twice, as functions of Python and as rules."""
import gzip
import itertools
import json
import pathlib
import unittest

import numpy as np

import kvstore as mx

FILE = pathlib.Path(__file__).parents[1] / "conformance" / "data" / "kvstore" / "records.json.gz"
RECORDS = json.loads(gzip.decompress(FILE.read_bytes()))


def context(x):
    return mx.cpu(int(x["ctx"][4:-1]))


def make(x, full=None, numpy=False):
    """The array of a record; full: a number for all elements instead."""
    if "ramp" in x:
        r = x["ramp"]
        i = np.arange(r["size"], dtype="int64")
        return (((i * r["mul"] + r["add"]) % r["mod"] - r["mod"] // 2) * r["scale"]).astype("float32")
    shape, dtype = x["shape"], x["dtype"]
    if x.get("stype") == "row_sparse":
        rows = np.array([] if full is not None else x["data"], dtype).reshape(-1, *shape[1:])
        return mx.nd.sparse.row_sparse_array((rows, [] if full is not None else x["row_ids"]), shape, context(x), dtype)
    data = np.full(shape, full, dtype) if full is not None else np.array(x["data"], dtype).reshape(shape)
    return data if numpy else mx.nd.array(data, context(x), dtype)


def each(f, x, *more):
    return [each(f, *y) for y in zip(x, *more)] if isinstance(x, list) else f(x, *more)


def flat(x):
    return [z for y in x for z in flat(y)] if isinstance(x, list) else [x]


class Replay:
    def __init__(self, test, run, as_rules):
        self.test, self.run, self.as_rules = test, run, as_rules
        self.kv, self.updates, self.number = mx.kv.create(run["type"]), [], 0

    def arrays(self, x, full=None):
        """Arrays of ours and of NumPy in turn."""
        self.number += 1
        return each(lambda y: make(y, full, self.number % 2 == 0 and "ctx" in y and y["ctx"] == "cpu(0)"), x)

    def updater(self, program):
        if self.as_rules:
            self.kv.set_updater(program)
            return
        code = compile(program.replace("stored =", "stored[:] ="), "program", "exec")

        def update(key, input, stored):
            self.updates.append(key)
            exec(code, {"where": np.where, "clip": np.clip, "sqrt": np.sqrt},
                 {"input": input.asnumpy(), "stored": np.asarray(stored)})
        self.kv._set_updater(update)

    def agrees(self, got, expected, tol):
        if "checksums" in expected:
            return
        if expected.get("stype") == "row_sparse":
            self.test.assertEqual(got.indices.asnumpy().tolist(), expected["row_ids"])
            got = got.data
        got = np.asarray(got)
        wanted = np.array(expected["data"], expected["dtype"]).reshape(got.shape)
        self.test.assertEqual(got.dtype, wanted.dtype)
        if got.dtype.kind == "f":
            bound = tol.get("abs", 0) + tol.get("atol", 0) + tol.get("ulp", 0) * np.finfo(got.dtype).eps * np.abs(wanted.astype("float64"))
            good = (np.abs(got.astype("float64") - wanted.astype("float64")) <= bound) | (got == wanted)
        else:
            good = got == wanted
        self.test.assertTrue(np.all(good), f"{self.run['id']}: {got} instead of {wanted}")

    def call(self, c):
        op, keys, options = c["op"], c["keys"], c.get("options", {})
        self.updates.clear()
        if op == "set_updater":
            return self.updater(options["program"])
        if op == "set_optimizer":
            return self.kv.set_optimizer(mx.optimizer.create(options["name"], **options["params"]))
        if op == "set_gradient_compression":
            return self.kv.set_gradient_compression(options)
        got = None
        if op == "row_sparse_pull":
            got, ids = each(lambda x: make(x, 0), c["result"]), c["row_ids"]
            if not ids or not isinstance(ids[0], list):
                ids = np.array(ids, "int64")  # one for all outs
            elif isinstance(got, list):
                ids = [np.array(i, "int64") for i in ids]
            else:
                ids = np.array(ids[0], "int64")
            self.kv.row_sparse_pull(keys, got, row_ids=ids)
        else:
            given = self.arrays(c["values"]) if "values" in c else None
            got = self.arrays(c["outs"], 7) if "outs" in c else None
            if op == "pull":
                self.kv.pull(keys, got)
            elif op in ("init", "push"):
                getattr(self.kv, op)(keys, given, **options)
            else:
                getattr(self.kv, op)(keys, given, out=got, **options)
                got = given if got is None else got
        if "updates" in c and not self.as_rules:
            self.test.assertEqual(self.updates, c["updates"])
        if "result" in c:
            for a, b in zip(flat(got), flat(c["result"]), strict=True):
                self.agrees(a, b, c.get("tol", self.run["tol"]))


class Recorded(unittest.TestCase):
    def replay(self, name, ways=(False,)):
        for run, as_rules in itertools.product(RECORDS[name], ways):
            r = Replay(self, run, as_rules)
            for call in run["calls"]:
                r.call(call)

    def test_dense(self):
        self.replay("dense")

    def test_inexact(self):
        self.replay("inexact")

    def test_sparse(self):
        self.replay("sparse", (False, True))

    def test_optimizer(self):
        self.replay("optimizer")

    def test_updaters(self):
        self.replay("updaters", (False, True))

    def test_compression(self):
        self.replay("compression", (False, True))
