"""Random calls beside a model of NumPy: N=100000 SEED=1 tests/python/run model."""
import os
import random
import unittest

import numpy as np

import kvstore as mx

DTYPES = ["float32", "float64", "float16", "int32", "int64", "uint8", "int8"]


class Model:
    """A store of values by key, in NumPy. Numbers are small and whole, so that every sum is exact in every dtype but for
    integers, which wrap."""

    def __init__(self, rng):
        self.rng, self.values, self.updater = rng, {}, None
        self.kv = mx.kv.create(rng.choice(["local", "device"]))
        self.text = rng.random() < 0.5
        self.calls = 0

    def key(self, new=False):
        i = len(self.values) if new else self.rng.choice(list(self.values.keys()) or [0])
        return (f"key{i}" if self.text else i * 3) if new else i

    def array(self, like):
        """An array of its shape, dense or not, of NumPy or ours, of this or another dtype."""
        rng, dtype = self.rng, like.dtype if self.rng.random() < 0.8 else self.rng.choice(["float32", "float64"])
        a = np.array([rng.randrange(4) for _ in range(like.size)], dtype).reshape(like.shape)
        kind = rng.randrange(10)
        if kind == 0 and a.ndim:
            return np.asfortranarray(a)
        if kind == 1 and a.ndim:
            wide = np.zeros((*a.shape[:-1], a.shape[-1] * 2), a.dtype)
            wide[..., ::2] = a
            return wide[..., ::2]
        if kind == 2:
            return mx.nd.array(a, dtype=a.dtype)
        return a

    def values_of(self, key):
        return [self.array(self.values[key]) for _ in range(self.rng.choice([1, 1, 2, 3, 5]))]

    def pushed(self, key, values):
        old = self.values[key]
        with np.errstate(all="ignore"):
            total = np.zeros_like(old)
            for v in values:
                total += np.asarray(v).astype(old.dtype)
            if self.updater == "add":
                total = (old + total).astype(old.dtype)
            elif self.updater == "twice":
                total = (old + total * np.asarray(2, old.dtype)).astype(old.dtype)
        self.values[key] = total

    def outs(self, key):
        return [np.zeros(self.values[key].shape, self.values[key].dtype) if self.rng.random() < 0.7 else
                mx.nd.zeros(self.values[key].shape, dtype=self.values[key].dtype) for _ in range(self.rng.choice([1, 1, 2]))]

    def agrees(self, key, outs):
        for o in outs:
            if not np.array_equal(np.asarray(o), self.values[key]):
                raise AssertionError(f"call {self.calls}: key {key} is {np.asarray(o)}, not {self.values[key]}")

    @staticmethod
    def one(rng, items):
        """A list of one as it is, or the item."""
        return items[0] if len(items) == 1 and rng.random() < 0.7 else items

    def init(self):
        n, keys = self.rng.choice([1, 1, 2, 4]), []
        for _ in range(n):
            key = self.key(new=True)
            shape = self.rng.choice([(), (1,), (3,), (2, 3), (0, 2), (65,), (4, 1, 3), (300,)])
            self.values[key] = np.full(shape, self.rng.randrange(5), self.rng.choice(DTYPES))
            keys.append(key)
        self.kv.init(keys if n > 1 else keys[0], [self.values[k] for k in keys] if n > 1 else self.values[keys[0]])

    def some(self):
        keys = self.rng.sample(list(self.values), min(len(self.values), self.rng.choice([1, 1, 2, 5])))
        return keys, len(keys) > 1 or self.rng.random() < 0.3

    def push(self):
        keys, listed = self.some()
        values = [self.values_of(k) for k in keys]
        given = [self.one(self.rng, v) for v in values]
        wait = self.rng.random() < 0.8
        self.kv.push(keys if listed else keys[0], given if listed else given[0], self.rng.randrange(-3, 3), wait)
        if not wait:
            self.kept = given  # they stay as they are until something waits
        for k, v in zip(keys, values):
            self.pushed(k, v)

    def pull(self):
        keys, listed = self.some()
        outs = [self.outs(k) for k in keys]
        given = [self.one(self.rng, o) for o in outs]
        self.kv.pull(keys if listed else keys[0], given if listed else given[0])
        for k, o in zip(keys, outs):
            self.agrees(k, o)

    def pushpull(self):
        key = self.key()
        values, outs = self.values_of(key), self.outs(key)
        if self.rng.random() < 0.5:
            self.kv.pushpull(key, values, out=outs)
            self.pushed(key, values)
            self.agrees(key, outs)
        else:
            values = [np.ascontiguousarray(v).reshape(self.values[key].shape).astype(self.values[key].dtype) for v in values]
            copies = [v.copy() for v in values]
            self.kv.pushpull(key, values)
            self.pushed(key, copies)
            self.agrees(key, values)

    def look(self):
        key = self.key()
        self.agrees(key, [self.kv[key]])
        assert self.kv.keys() == list(self.values) if self.text else sorted(self.values)

    def set_updater(self):
        self.updater = self.rng.choice([None, "add", "twice"])
        text = {"add": "stored += input", "twice": "stored += input * 2"}.get(self.updater)
        if self.updater and self.rng.random() < 0.5:
            def update(key, input, stored):
                view = np.asarray(stored)
                view += np.asarray(input) * np.asarray(2 if text.endswith("2") else 1, view.dtype)
            self.kv._set_updater(update)
        else:
            self.kv.set_updater(text)

    def refused(self):
        """A call that fails changes nothing."""
        key = self.key()
        wrong = self.rng.choice([
            lambda: self.kv.push(key, np.zeros((7, 7, 7), "float32")),
            lambda: self.kv.push([key, "nothing" if self.text else -1], [self.array(self.values[key])] * 2)
            if self.updater else self.kv.pull("nothing" if self.text else -1, np.zeros(1)),
            lambda: self.kv.init(key, self.values[key]),
            lambda: self.kv.pull(key, np.zeros((7, 7, 7), "float32")),
            lambda: self.kv.push(3 if self.text else "x", np.zeros(1, "float32")),
            lambda: self.kv.push(key, np.zeros(self.values[key].shape, "complex64"))])
        try:
            wrong()
        except mx.KVError:
            return
        raise AssertionError(f"call {self.calls}: a mistake was accepted")

    def step(self):
        self.calls += 1
        calls = [self.init] if not self.values else \
            [self.push] * 6 + [self.pull] * 5 + [self.pushpull] * 2 + [self.look, self.set_updater, self.refused] + \
            ([self.init] if len(self.values) < 20 else [])
        self.rng.choice(calls)()


class Random(unittest.TestCase):
    def test_random_calls(self):
        import warnings
        n, seed = int(os.environ.get("N", 4000)), int(os.environ.get("SEED", 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mx.CopyWarning)
            for part in range(max(1, n // 500)):
                model = Model(random.Random(seed * 1000 + part))
                try:
                    for _ in range(min(n, 500)):
                        model.step()
                    model.kv.wait()
                except BaseException as e:
                    e.add_note(f"SEED={seed}, part {part}")
                    raise
