#!/usr/bin/env python3
"""Writes tests/cli/numpy-functions.kv.gz and numpy-index.kv.gz: what NumPy gives for functions and indices.

    python3 tests/conformance/numpy_functions.py tests/cli

Every line of the two scripts checks one expression, which Python and kvctl read alike, against the
elements, dtype and shape that NumPy gave. The product and its tests do not need Python; this file is
run when a function is added. It was last run with NumPy 2.4.6.

Where the language differs by design, the expectation is made to: `/`, mean, std, var and quantiles of
integers are float32; sums, products and means are those of float64, rounded once; topk is MXNet's.
"""
import gzip
import io
import random
import sys

import numpy as np

rng = np.random.default_rng(7)
random.seed(7)

HEAD = '''# {what} Written by tests/conformance/numpy_functions.py.
def check(got, want, dtype, shape):
    rtol = 2e-6
    if dtype == "float16":
        rtol = 1e-3
    got = array(got)
    assert got.dtype == dtype, f"{{got.dtype}}, not {{dtype}}"
    assert got.shape == shape, f"{{got.shape}}, not {{shape}}"
    want = reshape(array(want, dtype=dtype), shape)
    assert array_equal(isnan(got), isnan(want)), f"{{got}}, not {{want}}"
    assert allclose(where(isnan(got), 0, got), where(isnan(want), 0, want), rtol), f"{{got}}, not {{want}}"

'''



def written(path):
    """The same text gives the same bytes: the file has no name and no time."""
    return io.TextIOWrapper(gzip.GzipFile('', 'wb', 9, open(path, 'wb'), mtime=0))


FLOATS = ['float16', 'float32', 'float64']
WHOLES = ['int8', 'uint8', 'int32', 'int64', 'bool']
SHAPES = [(), (0,), (1,), (7,), (3, 4), (2, 0, 3), (2, 3, 4)]


def number(x):
    x = x.item() if hasattr(x, 'item') else x
    if isinstance(x, (bool, int)):
        return repr(x)
    text = repr(float(x))
    return text[:-2] if text.endswith('.0') else text


def numbers(a):
    return '[' + ','.join(number(x) for x in np.asarray(a).ravel()) + ']'


def shape_text(shape):
    return '()' if shape == () else '(' + ','.join(map(str, shape)) + (',)' if len(shape) == 1 else ')')


def check(text, want, dtype=None):
    want = np.asarray(want)
    dtype = dtype or str(want.dtype)
    with np.errstate(all='ignore'):
        want = want.astype(dtype)
    return f'check({text}, {numbers(want)}, "{dtype}", {shape_text(want.shape)})'


def make(dtype, shape, nan=False):
    if dtype == 'bool':
        return rng.integers(0, 2, shape).astype(bool)
    if dtype == 'uint8':
        return rng.integers(0, 9, shape).astype(dtype)
    if dtype in WHOLES:
        return rng.integers(-9, 9, shape).astype(dtype)
    a = (rng.integers(-40, 40, shape) / 8).astype(dtype)
    if nan and a.size:
        a.ravel()[rng.integers(0, a.size)] = np.nan
    return a


def assign(name, a):
    flat = f'array({numbers(a)}, dtype="{a.dtype}")'
    return f'{name} = {flat}' if a.ndim == 1 else f'{name} = reshape({flat}, {shape_text(a.shape)})'


def axes_of(a):
    return [None] + list(range(-a.ndim, a.ndim))


def attempt(f):
    """What f gives, or None where NumPy refuses."""
    try:
        with np.errstate(all='ignore'):
            return f()
    except (ValueError, IndexError, TypeError, ZeroDivisionError):
        return None


def functions(a, name):
    """Lines of checks of every function over one array."""
    real = a.dtype.kind == 'f'
    mean_type = str(a.dtype) if real else 'float32'
    sum_type = str(a.dtype) if real else 'int64'
    wide = a.astype('float64' if real else 'int64')
    out = []

    def add(text, f, dtype=None):
        want = attempt(f)
        if want is not None:
            out.append(check(text, want, dtype))

    for axis in axes_of(a):
        for keep in (False, True):
            tail = ('' if axis is None else f', axis={axis}') + (', keepdims=True' if keep else '')
            how = dict(axis=axis, keepdims=keep)
            add(f'sum({name}{tail})', lambda: wide.sum(**how), sum_type)
            if a.size < 10:
                add(f'prod({name}{tail})', lambda: wide.prod(**how), sum_type)
            add(f'{name}.max({tail[2:]})' if a.ndim else f'max({name}{tail})', lambda: a.max(**how))
            add(f'min({name}{tail})', lambda: a.min(**how))
            add(f'argmax({name}{tail})', lambda: a.argmax(**how))
            add(f'argmin({name}{tail})', lambda: a.argmin(**how))
            add(f'any({name}{tail})', lambda: a.any(**how))
            add(f'all({name}{tail})', lambda: a.all(**how))
            if a.size:
                add(f'mean({name}{tail})', lambda: wide.mean(**how), mean_type)
                add(f'std({name}{tail})', lambda: wide.std(**how), mean_type)
                add(f'np.var({name}{tail}, ddof=1)', lambda: wide.var(ddof=1, **how), mean_type)
                add(f'median({name}{tail})', lambda: np.median(wide, **how), mean_type)
                if a.dtype != bool:
                    add(f'quantile({name}, [0, 0.3, 1]{tail})',
                        lambda: np.quantile(wide, [0, 0.3, 1], **how), mean_type)
                add(f'norm({name}{tail})',
                    lambda: np.sqrt((wide.astype('float64')**2).sum(**how)), mean_type)
    for axis in axes_of(a):
        tail = f', axis={axis}'
        add(f'sort({name}{tail})', lambda: np.sort(a, axis=axis))
        add(f'argsort({name}{tail})', lambda: np.argsort(a, axis=axis, kind='stable'))
        add(f'cumsum({name}{tail})', lambda: wide.cumsum(axis=axis), sum_type)
        add(f'flip({name}{tail})', lambda: np.flip(a, axis=axis))
        add(f'roll({name}, 2{tail})', lambda: np.roll(a, 2, axis=axis))
        add(f'repeat({name}, 2{tail})', lambda: np.repeat(a, 2, axis=axis))
        if axis is not None:
            if a.dtype not in ('uint8', 'int8'):
                add(f'diff({name}{tail})', lambda: np.diff(a, axis=axis))
            add(f'take({name}, [0, -1, 0]{tail})', lambda: np.take(a, [0, -1, 0], axis=axis))
            add(f'concatenate([{name}, {name}]{tail})', lambda: np.concatenate([a, a], axis=axis))
            add(f'swapaxes({name}, {axis}, 0)', lambda: np.swapaxes(a, axis, 0))
            add(f'moveaxis({name}, {axis}, 0)', lambda: np.moveaxis(a, axis, 0))
            add(f'average({name}{tail})', lambda: np.average(wide, axis=axis), mean_type)
    add(f'take({name}, [[0, -1]])', lambda: np.take(a, [[0, -1]]))
    add(f'take({name}, [9, -9], mode="clip")', lambda: np.take(a, [9, -9], mode='clip'))
    add(f'take({name}, [9, -9], mode="wrap")', lambda: np.take(a, [9, -9], mode='wrap'))
    add(f'unique({name})', lambda: np.unique(a))
    for i in range(1, 4):
        add(f'unique({name}, True, True, True)[{i}]', lambda: np.unique(a, True, True, True)[i])
    for i in range(a.ndim):
        add(f'nonzero({name})[{i}]', lambda: np.nonzero(a)[i])
    if a.ndim:
        add(f'argwhere({name})', lambda: np.argwhere(a))
    add(f'transpose({name})', lambda: a.T)
    add(f'squeeze({name})', lambda: np.squeeze(a))
    add(f'expand_dims({name}, -1)', lambda: np.expand_dims(a, -1))
    add(f'ravel({name})', lambda: a.ravel())
    add(f'stack([{name}, {name}], axis=-1)', lambda: np.stack([a, a], axis=-1))
    add(f'vstack([{name}, {name}])', lambda: np.vstack([a, a]))
    add(f'hstack([{name}, {name}])', lambda: np.hstack([a, a]))
    add(f'tile({name}, 2)', lambda: np.tile(a, 2))
    add(f'broadcast_to({name}, {shape_text((2,) + a.shape)})', lambda: np.broadcast_to(a, (2,) + a.shape))
    add(f'outer({name}, {name})', lambda: np.outer(a, a) if a.dtype not in ('int8', 'uint8') else None)
    add(f'ones_like({name})', lambda: np.ones_like(a))
    add(f'full_like({name}, 3)', lambda: np.full_like(a, 3))
    add(f'isinf({name})', lambda: np.isinf(a))
    if a.ndim == 1 and a.dtype.kind in 'iu' and a.size and a.min() >= 0:
        add(f'bincount({name}, minlength=12)', lambda: np.bincount(a, minlength=12))
    if a.ndim and a.size:
        order = np.argsort(-wide, axis=-1, kind='stable')
        add(f'topk({name}, 1)', lambda: order[..., :1].astype('float32'))
        add(f'topk({name}, 1, ret_typ="value")', lambda: np.take_along_axis(a, order, -1)[..., :1])
    return out


def write_functions(path):
    lines = []
    for dtype in FLOATS + WHOLES:
        for shape in SHAPES:
            small = dtype not in ('float32', 'int64')
            if small and shape not in ((7,), (2, 3, 4)):
                continue
            a = make(dtype, shape)
            some = functions(a, 'a')
            # Of the further dtypes, and of integers, a part is enough.
            if dtype != 'float32':
                some = random.sample(some, len(some) // 3)
            lines += [assign('a', a)] + some
    for shape in ((7,), (3, 4)):
        a = make('float32', shape, nan=True)
        keep = ('sort', 'argsort', 'unique', 'median', 'quantile', 'arg', 'max', 'min', 'sum', 'std', 'any', 'all')
        lines += [assign('a', a)]
        lines += [x for x in functions(a, 'a') if x[6:].startswith(keep) or '.max' in x]
    for n, dtype in ((300, 'float32'), (300, 'int64'), (90, 'float64')):
        a = (rng.integers(-2000, 2000, n) / (8 if dtype[0] == 'f' else 1)).astype(dtype)
        lines += [assign('a', a), check('sort(a)', np.sort(a)),
                  check('argsort(a)', np.argsort(a, kind='stable')), check('unique(a)', np.unique(a))]
    with written(path) as f:
        f.write(HEAD.format(what='Functions as NumPy has them.'))
        f.write('\n'.join(lines) + '\n')


def index_of(n):
    """An index of an axis of n, as Python and kvctl write it."""
    kind = random.choice(['int', 'slice', 'slice', 'ids', 'ids', 'mask', 'none'])
    if kind == 'int' and n:
        return str(random.randrange(-n, n)), 1
    if kind == 'ids':
        ids = [random.randrange(-n, n) for _ in range(random.choice([0, 1, 2, 2, 2, 3]))] if n else []
        if len(ids) == 2 and random.random() < 0.2:
            return str([[ids[0]], [ids[1]]]), 1
        return str(ids), 1
    if kind == 'mask':
        return str([random.random() < 0.5 for _ in range(n)]) if n else '[]', 1
    if kind == 'none':
        return 'None', 0
    bound = lambda: random.choice(['', str(random.randrange(-n - 1, n + 2))])
    step = random.choice(['', '', ':-1', ':2', ':-2'])
    return f'{bound()}:{bound()}{step}', 1


def random_index(shape):
    parts, axis = [], 0
    stop = random.randrange(1, len(shape) + 1)
    while axis < stop:
        text, used = index_of(shape[axis])
        parts.append(text)
        axis += used
    if random.random() < 0.2:
        parts.insert(random.randrange(len(parts) + 1), '...')
    return ', '.join(parts)


def write_index(path):
    lines = []
    for shape in ((5,), (4, 3), (2, 3, 4), (3, 0, 2), (2, 2, 2, 3)):
        a = np.arange(np.prod(shape), dtype='float32').reshape(shape)
        ids = rng.integers(0, shape[0], (2, 2))
        mask = a % 3 == 1
        scope = dict(a=a, ids=ids, mask=mask, array=np.array, nonzero=np.nonzero)
        lines += [assign('a', a), assign('ids', ids), 'mask = a % 3 == 1' if a.size else assign('mask', mask)]
        texts = ['ids', 'mask', 'nonzero(mask)', 'None', '...', 'ids, ...', '..., None']
        texts += [random_index(shape) for _ in range(45)]
        for text in texts:
            part = attempt(lambda: eval(f'a[{text}]', scope))
            if part is None or np.asarray(part).ndim > 8:
                continue
            lines.append(check(f'a[{text}]', part))
            for how in ('= 50', '+= 1', '= v'):
                b = a.copy()
                v = 100 + np.arange(part.size, dtype='float32').reshape(part.shape)
                if how == '= v' and (part.size == 0 or random.random() < 0.5):
                    continue
                exec(f'b[{text}] {how}', dict(scope, b=b, v=v))
                lines.append(f'b = copy(a); b[{text}] {how}' if how != '= v' else
                             f'b = copy(a); b[{text}] = reshape(arange({v.size}) + 100, {shape_text(v.shape)})')
                lines.append(check('b', b))
    with written(path) as f:
        f.write(HEAD.format(what='Indices as NumPy has them, read and written.'))
        f.write('\n'.join(lines) + '\n')


write_functions(sys.argv[1] + '/numpy-functions.kv.gz')
write_index(sys.argv[1] + '/numpy-index.kv.gz')
