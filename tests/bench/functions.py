#!/usr/bin/env python3
"""Functions of the language beside NumPy, in turns: kvctl runs as one process that reads entries.

    python3 tests/bench/functions.py [KVCTL] [ROUNDS] [WORD]      WORD: only rows that hold it

A row is the median of the ratios of the pairs, NumPy's time divided by kvctl's, so that 1 is as fast
and larger is faster. kvctl has the threads that $KVSTORE_THREADS says, NumPy's functions have one.
"""
import statistics
import subprocess
import sys
import time

import numpy as np

KVCTL = sys.argv[1] if len(sys.argv) > 1 else 'build/kvctl'
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 9
WORD = sys.argv[3] if len(sys.argv) > 3 else ''

PREPARE = '''
rows = normal(1000000, 64, seed=1)
ids = randint(100000, low=0, high=1000000, seed=2)
many = randint(10000000, low=0, high=10000000, seed=3)
x = normal(10000000, seed=4)
small = normal(1000000, seed=5)
wide = normal(1000000, seed=5, dtype="float64")
whole = randint(1000000, low=0, high=1000000, seed=6)
grid = normal(1000, 10000, seed=7)
'''

# What, kvctl's expression, NumPy's.
CASES = [
    ('rows of (1e6, 64) by 1e5 ids', 'rows[ids]', 'rows[ids]'),
    ('take of the same', 'take(rows, ids, axis=0)', 'np.take(rows, ids, axis=0)'),
    ('1e7 elements by 1e7 ids', 'x[many]', 'x[many]'),
    ('1e7 elements by a mask', 'x[mask]', 'x[mask]'),
    ('some columns of rows', 'grid[:, ids10]', 'grid[:, ids10]'),
    ('sum of 1e7', 'sum(x)', 'x.sum()'),
    ('sum of (1000, 1e4), axis 0', 'sum(grid, axis=0)', 'grid.sum(axis=0)'),
    ('sum of (1000, 1e4), axis 1', 'sum(grid, axis=1)', 'grid.sum(axis=1)'),
    ('sum of 1e6 int32', 'sum(whole)', 'whole.sum()'),
    ('mean of 1e7', 'mean(x)', 'x.mean()'),
    ('std of 1e7', 'std(x)', 'x.std()'),
    ('var of (1000, 1e4), axis 0', 'var(grid, axis=0)', 'grid.var(axis=0)'),
    ('argmax of 1e7', 'argmax(x)', 'x.argmax()'),
    ('max of 1e7', 'max(x)', 'x.max()'),
    ('any of 1e7', 'any(x > 100)', '(x > 100).any()'),
    ('sort of 1e7 float32', 'sort(x)', 'np.sort(x)'),
    ('sort of 1e6 float32', 'sort(small)', 'np.sort(small)'),
    ('sort of 1e6 float64', 'sort(wide)', 'np.sort(wide)'),
    ('sort of 1e6 int32', 'sort(whole)', 'np.sort(whole)'),
    ('sort of (1000, 1e4), axis 1', 'sort(grid)', 'np.sort(grid)'),
    ('sort of (1000, 1e4), axis 0', 'sort(grid, axis=0)', 'np.sort(grid, axis=0)'),
    ('argsort of 1e6 float32', 'argsort(small)', 'np.argsort(small)'),
    ('argsort of 1e6 float64', 'argsort(wide)', 'np.argsort(wide)'),
    ('argsort of (1000, 1e4)', 'argsort(grid)', 'np.argsort(grid)'),
    ('unique of 1e6 int32', 'unique(whole)', 'np.unique(whole)'),
    ('median of 1e6', 'median(small)', 'np.median(small)'),
    ('cumsum of 1e7', 'cumsum(x)', 'np.cumsum(x)'),
    ('cumsum of (1000, 1e4), axis 0', 'cumsum(grid, axis=0)', 'np.cumsum(grid, axis=0)'),
    ('cumsum of (1000, 1e4), axis 1', 'cumsum(grid, axis=1)', 'np.cumsum(grid, axis=1)'),
]


class Session:
    def __init__(self):
        self.p = subprocess.Popen([KVCTL, '-i', '-q'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.run(PREPARE + 'mask = x > 0\nids10 = array([9,1,5000,77,3,2222,9999,4,8,6], dtype="int64")')

    def run(self, text):
        begin = time.perf_counter()
        self.p.stdin.write(text + '\nprint "done"\n')
        self.p.stdin.flush()
        while self.p.stdout.readline().strip() != 'done':
            pass
        return time.perf_counter() - begin


def main():
    ours = Session()
    g = np.random.default_rng(1)
    names = dict(np=np, rows=g.standard_normal((1000000, 64), dtype='float32'),
                 ids=g.integers(0, 1000000, 100000, dtype='int32'),
                 many=g.integers(0, 10000000, 10000000, dtype='int32'),
                 x=g.standard_normal(10000000, dtype='float32'),
                 small=g.standard_normal(1000000, dtype='float32'), wide=g.standard_normal(1000000),
                 whole=g.integers(0, 1000000, 1000000, dtype='int32'),
                 grid=g.standard_normal((1000, 10000), dtype='float32'),
                 ids10=np.array([9, 1, 5000, 77, 3, 2222, 9999, 4, 8, 6]))
    names['mask'] = names['x'] > 0
    print(f'| what | kvctl, ms | NumPy, ms | × |\n|---|---:|---:|---:|')
    for what, mine, theirs in CASES:
        if WORD not in what:
            continue
        code = compile(theirs, what, 'eval')
        times = []
        for i in range(ROUNDS + 1):
            begin = time.perf_counter()
            eval(code, names)
            middle = time.perf_counter() - begin
            times.append((ours.run('r = ' + mine), middle))
        times = times[1:]
        ratio = statistics.median(b / a for a, b in times)
        print(f'| {what} | {1e3 * statistics.median(a for a, b in times):.2f} | '
              f'{1e3 * statistics.median(b for a, b in times):.2f} | {ratio:.2f} |', flush=True)


main()
