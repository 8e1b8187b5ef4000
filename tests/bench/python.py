"""What Python adds to a call: the module beside the C function, in turn, in one process.

    PYTHONPATH=build/python /usr/bin/python3 tests/bench/python.py [build/libkvstore.so.0]

C's time is that of the same call through ctypes, with arrays wrapped before over the same memory, less what ctypes
takes for a call of no pairs. The two run in turn. Times are those of the processors, of all threads, and
the lower quartile of the runs of each counts: others on the machine only make them slower. Bars: a push of one
small array 1 us above C, a push of the arrays of ResNet-50 (102 MB) within 2 % of C, 100,000 keys of 4 elements in one
call 100 ns a key above C.
"""
import ctypes
import sys
import time

import numpy as np

import kvstore as mx
from library import Library

PATH = sys.argv[1] if len(sys.argv) > 1 else "build/libkvstore.so.0"


def resnet50():
    """The shapes of the 161 arrays of ResNet-50."""
    shapes = [(64, 3, 7, 7), (64,), (64,)]
    width, planes = 64, 64
    for blocks in (3, 4, 6, 3):
        for block in range(blocks):
            shapes += [(planes, width, 1, 1), (planes,), (planes,), (planes, planes, 3, 3), (planes,), (planes,),
                       (planes * 4, planes, 1, 1), (planes * 4,), (planes * 4,)]
            if block == 0:
                shapes += [(planes * 4, width, 1, 1), (planes * 4,), (planes * 4,)]
            width = planes * 4
        planes *= 2
    return shapes + [(1000, 2048), (1000,)]


class C:
    """The arrays of one call, through ctypes, for the same store: another one has memory elsewhere, which alone makes a
    difference of some per cent."""

    def __init__(self, kv, values):
        self.l = Library(PATH, "local")
        self.l.store = ctypes.c_void_p.from_address(id(kv) + object.__basicsize__)  # the first field of py_store
        self.n = len(values)
        self.keys = (Library.Key * self.n)(*[(i, None) for i in range(self.n)])
        self.arrays = (ctypes.c_void_p * self.n)(*[self.l.wrap(v.ctypes.data, v.shape, None) for v in values])
        self.none, self.all = ctypes.c_int64(0), ctypes.c_int64(self.n)
        self.f = self.l.lib.kv_push
        self.wait = self.l.lib.kv_wait

    def push(self):
        self.f(self.l.store, self.keys, self.all, self.arrays, None, self.l.err)

    def push_and_wait(self):
        self.push()
        self.wait(self.l.store, self.l.err)

    def nothing(self):
        self.f(self.l.store, self.keys, self.none, self.arrays, None, self.l.err)


def seconds(f, times):
    begin = time.process_time()
    for _ in range(times):
        f()
    return (time.process_time() - begin) / times


def quartiles(rounds, times, *calls):
    """The time of each call: the lower quartile of so many rounds, in which they run one after the other."""
    return [sorted(column)[rounds // 4] for column in zip(*[[seconds(f, times) for f in calls] for _ in range(rounds)])]


def make(shapes):
    values = [np.ones(s, "float32") for s in shapes]
    kv, keys = mx.kv.create("local"), list(range(len(shapes)))
    kv.init(keys, values)
    return C(kv, values), kv, keys, values


def one_small(pairs=31, times=20000):
    c, kv, keys, values = make([(4,)])
    value = values[0]
    python, loop, plain, nothing = quartiles(pairs, times, lambda: kv.push(0, value), lambda: None, c.push, c.nothing)
    return python - loop - (plain - nothing)


def many_small(n=100000, pairs=25):
    c, kv, keys, values = make([(4,)] * n)
    python, plain = quartiles(pairs, 1, lambda: kv.push(keys, values), c.push_and_wait)
    return (python - plain) / n


def large(pairs=40):
    c, kv, keys, values = make(resnet50())
    python, plain = quartiles(pairs, 1, lambda: kv.push(keys, values), c.push_and_wait)
    return python / plain


def main():
    print(f"push of one array of 4 elements:    {one_small() * 1e9:7.0f} ns above C (bar 1000)")
    print(f"push of 100,000 keys in one call:   {many_small() * 1e9:7.1f} ns a key above C (bar 100)")
    print(f"push of ResNet-50's 161 arrays:     {(large() - 1) * 100:7.2f} % above C (bar 2)")


if __name__ == "__main__":
    main()
