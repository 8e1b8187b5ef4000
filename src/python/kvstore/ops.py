"""The functions of mx.nd: names, parameters and shapes are MXNet's, the numbers are NumPy's.

Each is written for arrays of NumPy; _published makes a function of NDArrays of it, which knows out=, and whose result has
the context of the first. METHODS are methods of NDArray, too.
"""
import functools

import numpy

from .adopt import dtype_name
from .array import NDArray, as_numpy, convert, fill, like, of, plain
from .context import current
from .errors import KVError

FUNCTIONS = {}


def _nd(values, ctx):
    if type(values) in (list, tuple):
        return [_nd(v, ctx) for v in values]
    values = numpy.asarray(values)
    return of(NDArray, values if values.ndim else values.reshape(1), ctx)


def _published(f, numbers):
    @functools.wraps(f)
    def call(*args, out=None, **params):
        first = like(*args, *params.values(), out)
        values = f(*(plain(a, numbers) for a in args), **{k: plain(v, numbers) for k, v in params.items()})
        if out is None:
            return _nd(values, first._ctx if first is not None else current())
        fill(out, values)
        return out
    return call


def _op(*names, numbers=True):
    """Publishes a function under its name, without a _ at its end, and under others. numbers=False: it gives views, also of
    the bits of bfloat16."""
    def publish(f):
        call = _published(f, numbers)
        for name in (f.__name__.rstrip("_"), *names):
            FUNCTIONS[name] = call
        return f
    return publish


def _array(x):
    return x if isinstance(x, numpy.ndarray) else numpy.asarray(x, "float32")


# ---- Element by element ----

def _elementwise(name, f):
    def call(data):
        return f(_array(data))
    call.__name__, call.__doc__ = name, f"{name} of each element."
    _op()(call)


def _as_before(f):
    return lambda x: f(x).astype(x.dtype)


def _sigmoid(x):
    return (0.5 * (1 + numpy.tanh(0.5 * x))).astype(x.dtype)


def _round(x):
    whole = numpy.trunc(x)
    return whole + numpy.where(numpy.abs(x - whole) >= 0.5, numpy.sign(x), 0).astype(x.dtype)


for _name in ("abs ceil floor rint trunc exp log log2 log10 log1p expm1 sqrt cbrt square sin cos tan arcsin arccos arctan sinh cosh "
              "tanh arcsinh arccosh arctanh degrees radians sign negative").split():
    _elementwise(_name, getattr(numpy, _name))
for _name, _f in {"fix": numpy.trunc, "round": _round, "sigmoid": _sigmoid, "reciprocal": lambda x: 1 / x,
                  "rsqrt": lambda x: 1 / numpy.sqrt(x), "rcbrt": lambda x: 1 / numpy.cbrt(x),
                  "relu": lambda x: numpy.maximum(x, x.dtype.type(0)), "softsign": lambda x: x / (1 + abs(x)),
                  "logical_not": _as_before(numpy.logical_not), "identity": numpy.copy, "stop_gradient": numpy.copy,
                  "zeros_like": numpy.zeros_like, "ones_like": numpy.ones_like}.items():
    _elementwise(_name, _f)


def _binary(name, ufunc, *names, test=False):
    def call(lhs, rhs):
        kind = next((x.dtype for x in (lhs, rhs) if isinstance(x, numpy.ndarray)), numpy.dtype("float32"))
        values = ufunc(_nd_operand(lhs), _nd_operand(rhs))
        return numpy.asarray(values).astype(kind) if test else values
    call.__name__, call.__doc__ = name, f"{name} of two arrays, or an array and a number."
    _op(*names)(call)


def _nd_operand(x):
    return of(NDArray, _array(x), ("cpu", 0)) if not isinstance(x, (int, float)) else x


for _name, _short in (("add", "plus"), ("subtract", "minus sub"), ("multiply", "mul"), ("true_divide", "divide div"), ("mod", "modulo"),
                      ("power", ""), ("maximum", ""), ("minimum", ""), ("hypot", "")):
    _all = [_name, *_short.split()]
    _binary(_name, getattr(numpy, _name), *_all[1:], *("broadcast_" + n for n in _all), *("elemwise_" + n for n in _all))
for _name in "equal not_equal greater greater_equal less less_equal logical_and logical_or logical_xor".split():
    _ufunc = getattr(numpy, _name)
    _binary(_name, _ufunc, "broadcast_" + _name.replace("less", "lesser"), _name.replace("less", "lesser"), test=True)


@_op("ElementWiseSum")
def add_n(*args):
    """The sum of arrays."""
    return functools.reduce(numpy.add, args[0] if len(args) == 1 and type(args[0]) is list else args)


@_op()
def clip(data, a_min, a_max):
    """Each element, brought between two numbers."""
    return numpy.clip(data, a_min, a_max).astype(data.dtype)


@_op("Cast")
def cast(data, dtype):
    """The elements in another dtype."""
    return convert(data, dtype_name(dtype))


@_op()
def where(condition, x, y):
    """x where the condition is not 0, else y; a condition of one axis selects rows."""
    chosen = condition != 0
    return numpy.where(chosen.reshape(-1, *(1,) * (x.ndim - 1)) if chosen.ndim < numpy.ndim(x) else chosen, x, y)


def _exponents(data, axis, temperature):
    data = data.astype("float32") if data.dtype.kind in "biu" else data
    data = data if temperature in (None, 1) else data / temperature
    return data - data.max(axis=axis, keepdims=True)


@_op()
def softmax(data, axis=-1, temperature=None):
    """exp of the elements, divided by its sum over an axis."""
    e = numpy.exp(_exponents(data, axis, temperature))
    return e / e.sum(axis=axis, keepdims=True)


@_op()
def log_softmax(data, axis=-1, temperature=None):
    """The logarithm of softmax."""
    x = _exponents(data, axis, temperature)
    return x - numpy.log(numpy.exp(x).sum(axis=axis, keepdims=True))


# ---- Over axes ----

def _axes(data, axis, exclude):
    if axis is None or axis == ():
        return None
    axes = tuple(a % data.ndim for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    return tuple(a for a in range(data.ndim) if a not in axes) if exclude else axes


def _reduction(name, f, of_bool):
    def call(data, axis=None, keepdims=False, exclude=False, dtype=None, **how):
        wide = name == "mean" and dtype is None  # the dtype of data may not hold the sum
        if dtype is None and name not in ("max", "min"):
            dtype = of_bool if data.dtype.kind == "b" else data.dtype
        if dtype is not None and not wide:
            how["dtype"] = dtype
        if how.get("where", True) is not True:
            how["where"] = how["where"] != 0
        made = f(data, axis=_axes(data, axis, exclude), keepdims=bool(keepdims), **how)
        return made.astype(dtype) if wide else made
    call.__name__, call.__doc__ = name, f"The {name} over an axis or several, all unless said; exclude: over the others. In the dtype of data."
    _op(*(["sum_axis"] if name == "sum" else [name + "_axis"] if name in ("max", "min") else []))(call)


for _name, _f, _kind in (("sum", numpy.sum, "int64"), ("nansum", numpy.nansum, "int64"), ("mean", numpy.mean, "float32"),
                         ("prod", numpy.prod, "int64"), ("nanprod", numpy.nanprod, "int64"), ("max", numpy.max, None),
                         ("min", numpy.min, None)):
    _reduction(_name, _f, _kind)


def _arg(name):
    find = getattr(numpy, name)

    def call(data, axis=None, keepdims=False):
        return find(data, axis=axis, keepdims=bool(keepdims)).astype("float32")
    call.__name__, call.__doc__ = name, "Where the first of them is along an axis, as float32."
    _op()(call)


_arg("argmax")
_arg("argmin")


@_op()
def norm(data, ord=2, axis=None, keepdims=False):
    """The root of the sum of the squares over an axis or several; ord=1: the sum of the absolute values."""
    if ord not in (1, 2):
        raise KVError(f"norm(ord={ord!r}): ord is 1 or 2", "value")
    a = data.astype("float64")
    a = (numpy.abs(a) if ord == 1 else numpy.square(a)).sum(axis=_axes(data, axis, False), keepdims=bool(keepdims))
    return (a if ord == 1 else numpy.sqrt(a)).astype(numpy.sqrt(numpy.zeros(0, data.dtype)).dtype)


@_op()
def sort(data, axis=-1, is_ascend=True):
    """A sorted copy along an axis; None: of all elements."""
    data = numpy.sort(data, axis=axis)
    return data if is_ascend else numpy.flip(data, -1 if axis is None else axis)


def _order(data, axis, is_ascend):
    if is_ascend:
        return numpy.argsort(data, axis=axis, kind="stable")
    n = data.shape[axis]
    return n - 1 - numpy.flip(numpy.argsort(numpy.flip(data, axis), axis=axis, kind="stable"), axis)  # equal ones stay in order


@_op()
def argsort(data, axis=-1, is_ascend=True, dtype="float32"):
    """The indices that sort along an axis."""
    data, axis = (data.reshape(-1), 0) if axis is None else (data, axis)
    return convert(_order(data, axis, is_ascend), dtype_name(dtype))


@_op()
def topk(data, axis=-1, k=1, ret_typ="indices", is_ascend=False, dtype="float32"):
    """The k largest along an axis: their indices, or ret_typ "value", "both", or "mask"."""
    data, axis = (data.reshape(-1), 0) if axis is None else (data, axis)
    at = numpy.take(_order(data, axis, is_ascend), numpy.arange(k or data.shape[axis]), axis)
    if ret_typ == "mask":
        mask = numpy.zeros_like(data)
        numpy.put_along_axis(mask, at, 1, axis)
        return mask
    values, at = numpy.take_along_axis(data, at, axis), convert(at, dtype_name(dtype))
    if ret_typ not in ("indices", "value", "both"):
        raise KVError(f'topk(ret_typ={ret_typ!r}): "indices", "value", "both" or "mask"', "value")
    return {"indices": at, "value": values, "both": [values, at]}[ret_typ]


# ---- Shapes ----

@_op("Reshape", numbers=False)
def reshape(data, *sizes, shape=None):
    """The elements under another shape; sizes of 0 keep an axis, -1 is what is left, -2 the axes that are left, -3 two in
    one, -4 one in two."""
    shape = shape if shape is not None else sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    made, left, codes = [], list(data.shape), [int(n) for n in shape]
    try:
        while codes:
            n = codes.pop(0)
            if n == -2:
                made, left = made + left, []
            elif n == -3:
                made.append(left.pop(0) * left.pop(0))
            elif n == -4:
                whole, a, b = left.pop(0), codes.pop(0), codes.pop(0)
                made += [whole // b if a == -1 else a, whole // a if b == -1 else b]
            else:
                size = left.pop(0) if left else None
                if n == 0 and data.size == 0 and size != 0:
                    size = 0
                made.append(size if n == 0 else n)
        return data.reshape(made)
    except (IndexError, TypeError, ValueError, ZeroDivisionError):
        raise KVError(f"an array of shape {data.shape} has no shape {tuple(shape)}", "shape") from None


@_op(numbers=False)
def reshape_like(lhs, rhs):
    """The elements under the shape of another array."""
    return reshape(lhs, rhs.shape) if lhs.size != 0 else lhs.reshape(rhs.shape)


@_op("Flatten", numbers=False)
def flatten(data):
    """All axes but the first in one."""
    return data.reshape(len(data), -1)


@_op(numbers=False)
def transpose(data, *axes, **named):
    """The axes in another order, reversed unless said."""
    axes = named.get("axes", axes)
    axes = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return data.transpose(axes or None)


@_op("SwapAxis", numbers=False)
def swapaxes(data, dim1=0, dim2=0):
    """Two axes in each other's place."""
    return data.swapaxes(dim1, dim2)


@_op(numbers=False)
def moveaxis(data, source, destination):
    """An axis in another place."""
    return numpy.moveaxis(data, source, destination)


@_op(numbers=False)
def expand_dims(data, axis):
    """One more axis, of size 1."""
    return numpy.expand_dims(data, axis)


@_op(numbers=False)
def squeeze(data, axis=None):
    """Without axes of size 1."""
    return numpy.squeeze(data, axis if axis is None or isinstance(axis, int) else tuple(axis))


@_op("reverse", numbers=False)
def flip(data, axis):
    """In the other order along an axis or several."""
    return numpy.flip(data, axis if isinstance(axis, int) else tuple(axis))


@_op()
def tile(data, reps):
    """The array several times along its axes."""
    return numpy.tile(data, reps)


@_op()
def repeat(data, repeats, axis=None):
    """Each element several times."""
    return numpy.repeat(data, repeats, axis)


@_op("Concat")
def concat(*data, dim=1):
    """Arrays behind each other along an axis."""
    return numpy.concatenate(data, dim)


@_op()
def concatenate(arrays, axis=0, always_copy=True):
    """A list of arrays behind each other along an axis."""
    return numpy.concatenate(arrays, axis)


@_op()
def stack(*data, axis=0):
    """Arrays along a new axis."""
    return numpy.stack(data[0] if len(data) == 1 and type(data[0]) in (list, tuple) else data, axis)


@_op("SliceChannel", numbers=False)
def split(data, num_outputs, axis=1, squeeze_axis=False):
    """Equal parts along an axis: a list of arrays, or one."""
    try:
        parts = numpy.split(data, num_outputs, axis)
    except ValueError:
        raise KVError(f"an axis of {data.shape[axis]} is not {num_outputs} equal parts", "shape") from None
    parts = [numpy.squeeze(p, axis) for p in parts] if squeeze_axis else parts
    return parts if num_outputs > 1 else parts[0]


@_op("crop", numbers=False)
def slice_(data, begin, end, step=()):
    """From begin to end along the first axes; None is the whole."""
    steps = [*(step or ()), *(None,) * len(begin)]
    return data[tuple(map(slice, begin, end, steps))]


@_op(numbers=False)
def slice_axis(data, axis, begin, end):
    """From begin to end along one axis."""
    return data[(slice(None),) * (axis % data.ndim) + (slice(begin, end),)]


@_op(numbers=False)
def slice_like(data, shape_like, axes=()):
    """The first elements, as many as another array has along its axes."""
    axes = [a % data.ndim for a in axes] or range(shape_like.ndim)
    return data[tuple(slice(shape_like.shape[i]) if i in axes else slice(None) for i in range(data.ndim))]


@_op()
def broadcast_to(data, shape):
    """The elements again along axes of size 1."""
    return numpy.broadcast_to(data, [n or m for n, m in zip(shape, data.shape)] if 0 in shape else shape).copy()


@_op()
def broadcast_like(lhs, rhs):
    """The elements again, to the shape of another array."""
    return numpy.broadcast_to(lhs, rhs.shape).copy()


@_op("broadcast_axes")
def broadcast_axis(data, axis, size):
    """The elements again along axes of size 1, as often as said."""
    shape = list(data.shape)
    for a, n in zip(numpy.atleast_1d(axis), numpy.atleast_1d(size)):
        shape[a] = int(n)
    return numpy.broadcast_to(data, shape).copy()


@_op()
def take(a, indices, axis=0, mode="clip"):
    """Elements by their indices along an axis; mode "clip", "wrap" or "raise" is for those out of range."""
    return numpy.take(a, _array(indices).astype("int64"), axis, mode=mode)


@_op()
def pick(data, index, axis=-1, keepdims=False, mode="clip"):
    """One element for each index along an axis."""
    n = data.shape[axis]
    at = _array(index).astype("int64")
    at = at % n if mode == "wrap" else numpy.clip(at, 0, n - 1)
    picked = numpy.take_along_axis(data, numpy.expand_dims(at, axis) if at.ndim < data.ndim else at, axis)
    return picked if keepdims else numpy.squeeze(picked, axis)


@_op()
def one_hot(indices, depth, on_value=1.0, off_value=0.0, dtype="float32"):
    """A row for each index: on_value there, off_value elsewhere."""
    hot = _array(indices)[..., None] == numpy.arange(depth)
    return convert(numpy.where(hot, on_value, off_value), dtype_name(dtype))


@_op()
def diag(data, k=0):
    """A diagonal, or a matrix with one."""
    return numpy.diag(data, k)


# ---- Matrices ----

@_op()
def dot(lhs, rhs, transpose_a=False, transpose_b=False):
    """The product over the last axis of one and the first of the other."""
    lhs, rhs = lhs.T if transpose_a else lhs, rhs.T if transpose_b else rhs
    try:
        return numpy.tensordot(lhs, rhs, 1)
    except ValueError:
        raise KVError(f"shapes {lhs.shape} and {rhs.shape} have no product", "shape") from None


@_op()
def batch_dot(lhs, rhs, transpose_a=False, transpose_b=False):
    """The products of the matrices along the first axis."""
    return (lhs.swapaxes(1, 2) if transpose_a else lhs) @ (rhs.swapaxes(1, 2) if transpose_b else rhs)


METHODS = ("abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmin argsort broadcast_axes broadcast_like broadcast_to cbrt "
           "ceil clip cos cosh degrees diag dot exp expand_dims expm1 fix flatten flip floor log log10 log1p log2 log_softmax max mean "
           "min nanprod nansum norm one_hot ones_like pick prod radians rcbrt reciprocal relu repeat reshape reshape_like rint round "
           "rsqrt sigmoid sign sin sinh slice slice_axis slice_like softmax sort split sqrt square squeeze sum swapaxes take tan tanh "
           "tile topk transpose trunc zeros_like").split()
for _name in METHODS:
    setattr(NDArray, _name, FUNCTIONS[_name])
as_numpy(METHODS)
