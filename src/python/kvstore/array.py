"""NDArray: the arrays of mx.nd and mx.np. They are NumPy's, by inheritance: slices and shapes are views, NumPy's functions
work on them, and a call of a store reads and fills them where they lie. Each has the name of a context, which its slices,
copies and results take over.

mx.nd differs from NumPy as MXNet does: comparisons are 0 and 1 in the dtype of the array, one element has the shape (1,),
reductions keep the dtype. ops.py has its functions, which are methods, too.
"""
import numpy

from . import _kvstore
from .adopt import BITS, bfloat16, canonical, dtype_name, numbers, numpy_dtype, refuse_masked
from .context import Context, current, pair
from .errors import KVError

_BITWISE = {numpy.bitwise_or: numpy.logical_or, numpy.bitwise_and: numpy.logical_and, numpy.bitwise_xor: numpy.logical_xor,
            numpy.invert: numpy.logical_not}


def make(cls, shape, dtype, ctx):
    """A new array of zeros, in a block of the library. ctx: a pair."""
    return of(cls, numpy.asarray(_kvstore.zeros(_kvstore.Array, shape, dtype, None)), ctx, dtype)


def of(cls, values, ctx, dtype=None):
    """An array of NumPy as one of a class, in the same memory."""
    if dtype == "bfloat16":
        values = values.view(numpy_dtype(dtype))
    values = values.view(cls)
    values._ctx = ctx
    return values


def convert(values, dtype):
    """A copy of an array of NumPy in another dtype, converted as a store does."""
    canonical(values)
    if dtype_of(values) == dtype:
        return numpy.array(values, order="C", subok=False)
    made = numpy.asarray(_kvstore.dup(_kvstore.Array, numpy.asarray(values, order="C"), dtype, None))
    return made.view(numpy_dtype(dtype)) if dtype == "bfloat16" else made


def copy_of(cls, values, dtype=None, ctx=None):
    """A new array with the elements of an array, list or number."""
    refuse_masked(values)
    ctx = pair(ctx) if ctx is not None else values._ctx if isinstance(values, NDArray) else current()
    if isinstance(values, _kvstore.Array):
        values = values.tostype("default")
    if not issubclass(type(values), numpy.ndarray):
        wide = "float64" if dtype is not None and dtype_name(dtype) == "bfloat16" else dtype
        values = numpy.array(values, None if wide is None else numpy_dtype(dtype_name(wide)))
    values = values.view(numpy.ndarray)
    name = dtype_of(values) if dtype is None else dtype_name(dtype)
    return of(cls, convert(values, name), ctx)


def dtype_of(values):
    """The store's name of the dtype of an array of NumPy."""
    return "bfloat16" if values.dtype is BITS else values.dtype.name


def plain(x, calculates=True):
    """An operand as NumPy's functions take it, in the same memory; calculates=False: for what only moves elements."""
    if issubclass(type(x), NDArray):
        if x.dtype is BITS and calculates:
            raise KVError("without ml_dtypes NumPy has no numbers of bfloat16", "unsupported",
                          "astype('float32') gives them, and so does pip install ml_dtypes")
        return x.view(numpy.ndarray)
    if isinstance(x, _kvstore.Array):
        return plain(x.tostype("default"), calculates)
    refuse_masked(x)
    if type(x) in (list, tuple):
        return type(x)(plain(y, calculates) for y in x)
    return x


def fill(out, values):
    """Writes elements into an array of their shape; numbers are not repeated to fill it."""
    if numpy.shape(values) != out.shape and not numpy.size(values) == out.size == 1:
        raise KVError(f"elements of shape {numpy.shape(values)} do not fill an array of shape {out.shape}", "shape")
    out[...] = values


def like(*operands):
    """The first NDArray of operands, also within lists; or None."""
    for x in operands:
        if type(x) in (list, tuple):
            x = like(*x)
        if isinstance(x, NDArray):
            return x
    return None


def result(values, first):
    """What a function of NumPy gave, of operands the first NDArray of which is `first`."""
    if type(values) in (list, tuple):
        return type(values)(result(v, first) for v in values)
    cls = ndarray if isinstance(first, ndarray) else NDArray
    if cls is ndarray and isinstance(values, (numpy.generic, float, int)) and not isinstance(values, bool):
        values = numpy.asarray(values)
    return of(cls, values, first._ctx) if type(values) is numpy.ndarray else values


class _WithSparse(type):
    """RowSparseNDArrays are instances of NDArray, too, as in MXNet."""

    def __instancecheck__(cls, o):
        return type.__instancecheck__(cls, o) or (cls is NDArray and isinstance(o, _kvstore.Array))


class NDArray(numpy.ndarray, metaclass=_WithSparse):
    """An array of mx.nd."""

    __slots__ = ("_ctx",)
    __array_priority__ = 1000
    __hash__ = object.__hash__
    stype = "default"
    _one = (1,)  # the shape of one element

    def __array_finalize__(self, other):
        self._ctx = getattr(other, "_ctx", None) or ("cpu", 0)

    # ---- NumPy's functions ----

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), where=True, **how):
        first = like(*inputs, *out)
        given = [plain(x) for x in inputs]
        arrays = [x for x in given if isinstance(x, numpy.ndarray)]
        if ufunc in _BITWISE and any(x.dtype.kind not in "biu" for x in arrays):  # of comparisons, as NumPy's own tests do
            ufunc = _BITWISE[ufunc]
        elif len(arrays) < len(given) and ufunc is not numpy.ldexp:  # which takes a whole number
            given = [_scalar(x, arrays) for x in given]
        if where is not True:
            how["where"] = plain(where) != 0
        if out:
            how["out"] = tuple(plain(o) for o in out)
        values = getattr(ufunc, method)(*given, **how)
        if not out:
            return result(values, first)
        return out[0] if len(out) == 1 else out

    def __array_function__(self, func, types, args, kwargs):
        out = kwargs.get("out")
        values = func(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})
        return out if out is not None else result(values, like(*args, *kwargs.values()))

    # ---- What it is ----

    @property
    def _dtype(self):
        return dtype_of(self)

    @property
    def context(self):
        """The context whose name it has; its elements lie in the memory of the host."""
        return Context(*self._ctx)

    ctx = context
    device = context

    def __repr__(self):
        return f"\n{numbers(numpy.asarray(self))}\n<{type(self).__name__} {'x'.join(map(str, self.shape))} @{self.context}>"

    __str__ = __repr__

    def __format__(self, spec):
        return format(self.item(), spec) if spec else str(self)

    # ---- Elements ----

    def asnumpy(self):
        """A copy of the elements as an array of NumPy; of bfloat16 as float32, exactly, where ml_dtypes is not installed."""
        return numpy.array(numbers(self.view(numpy.ndarray)), order="C")

    def item(self, *at):
        """The number of an array of one element, or of the one at an index."""
        if not at and self.size != 1:
            raise ValueError(f"this array has {self.size} elements, not one")
        return numbers(self.view(numpy.ndarray)).item(*at)

    def asscalar(self):
        """The number of an array of one element, as NumPy has it."""
        self.item()
        return numbers(self.view(numpy.ndarray)).reshape(-1)[0]

    def tolist(self):
        """The elements as lists of numbers."""
        return numbers(self.view(numpy.ndarray)).tolist()

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        if self.dtype.kind not in "iu" or self.size != 1:
            raise TypeError("only an array of one whole number is an index")
        return self.item()

    def __iter__(self):
        if not self.ndim:
            raise TypeError("an array without axes has no rows")
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index):
        """A view of the elements at an index; of those that a list or an array of indices selects, a copy."""
        words = index if type(index) is tuple else (index,)
        of_one = len(words) == self.ndim and all(isinstance(i, (int, numpy.integer)) for i in words)
        part = self.view(numpy.ndarray)[(*words, ...) if of_one else tuple(map(_index, words))]
        return of(type(self), part.reshape(self._one) if not part.ndim and self.ndim else part, self._ctx)

    def __setitem__(self, index, value):
        words = index if type(index) is tuple else (index,)
        value = value.tostype("default") if isinstance(value, _kvstore.Array) else value
        refuse_masked(value)
        if (self.dtype is BITS) != (getattr(value, "dtype", None) is BITS):
            value = convert(numpy.asarray(value) if self.dtype is not BITS else numpy.asarray(value, "float64"), self._dtype)
        self.view(numpy.ndarray)[tuple(map(_index, words))] = value

    # ---- Other arrays ----

    def copyto(self, other):
        """Fills the array `other`, or gives a new array in the context `other`."""
        if isinstance(other, Context):
            return of(type(self), numpy.array(self, order="C", subok=False), pair(other))
        if isinstance(other, _kvstore.Array):
            other._copy_from(self)
        else:
            fill(other, convert(self.view(numpy.ndarray), dtype_of(other)))
        return other

    def astype(self, dtype, copy=True, **ignored):
        """A new array with the elements in another dtype, converted as the store does."""
        name = dtype_name(dtype)
        return self if name == self._dtype and not copy else of(type(self), convert(self.view(numpy.ndarray), name), self._ctx)

    def as_in_context(self, ctx):
        """This array, if it is in that context, else a copy there."""
        return self if pair(ctx) == self._ctx else self.copyto(ctx)

    as_in_ctx = to_device = as_in_context

    def tostype(self, stype):
        """The same array in another storage, "default" or "row_sparse"."""
        if stype == "default":
            return self
        if stype != "row_sparse":
            raise KVError(f"an array is default or row_sparse, not {stype!r}", "value")
        return _kvstore.dup(RowSparseNDArray, numpy.asarray(self.view(numpy.ndarray), order="C"), self._dtype, self._ctx)._sparse()

    def as_nd_ndarray(self):
        """This array, or a copy of it, as one of mx.nd."""
        return self if type(self) is NDArray else copy_of(NDArray, self)

    def as_np_ndarray(self):
        """This array, or a copy of it, as one of mx.np."""
        return self if type(self) is ndarray else copy_of(ndarray, self)

    def detach(self):
        """This array: there are no gradients that it could be part of."""
        return self

    def wait_to_read(self):
        """Waits for the calls of wait=False that use its memory."""
        _kvstore.settle(self)

    def __dlpack__(self, *, copy=None, **how):
        values = numpy.array(self, order="C", subok=False) if copy else self.view(numpy.ndarray)
        if self._dtype == "bfloat16":
            return _kvstore.dlpack(values.view("uint16"), "bfloat16")
        return _kvstore.dlpack(values, self._dtype)

    def __dlpack_device__(self):
        return 1, 0  # the memory of the CPU

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __reduce_ex__(self, protocol):
        bits = self.view("uint16") if self._dtype == "bfloat16" else self
        return _unpickled, (type(self), numpy.array(bits, order="C", subok=False), self._ctx, self._dtype)


def _unpickled(cls, values, ctx, dtype):
    return of(cls, values, ctx, dtype)


def _scalar(x, arrays):
    """A number beside arrays: it never widens their dtype."""
    if isinstance(x, numpy.generic):
        x = x.item()
    kind = arrays[0].dtype if len(arrays) == 1 else numpy.result_type(*arrays)
    if type(x) is int and kind.kind in "iu":
        if not numpy.iinfo(kind).min <= x <= numpy.iinfo(kind).max:
            raise OverflowError(f"{kind} does not hold {x}")
        return kind.type(x)
    return kind.type(x) if type(x) in (int, float) and (kind.kind == "f" or kind == bfloat16) else x


def _index(word):
    """An index as NumPy takes it: arrays and lists of numbers are whole numbers."""
    if isinstance(word, (NDArray, list, numpy.ndarray)):
        word = numpy.asarray(plain(word))
        return word if word.dtype.kind == "b" else word.astype("int64")
    return word


def _comparison(ufunc):
    def method(self, other):
        if other is None or isinstance(other, (str, bytes)):
            return NotImplemented
        return of(type(self), numpy.asarray(ufunc(self, other)).astype(self.dtype), self._ctx)
    return method


for _name in "equal not_equal less less_equal greater greater_equal".split():
    _short = "".join(word[0] for word in _name.split("_"))
    setattr(NDArray, {"e": "__eq__", "ne": "__ne__", "l": "__lt__", "le": "__le__", "g": "__gt__", "ge": "__ge__"}[_short],
            _comparison(getattr(numpy, _name)))


class ndarray(NDArray):
    """An array of mx.np: NumPy's in everything but that a single number is an array without axes."""

    __slots__ = ()
    __hash__ = object.__hash__
    _one = ()

    def __repr__(self):
        text = repr(numbers(numpy.asarray(self))).replace(", dtype=float32", "")  # the default here, where NumPy's is float64
        if self.dtype == "float64" or self.dtype is BITS:
            text = text[:-1] + f", dtype={self._dtype})"
        return text if self._ctx[0] == "cpu" else f"{text[:-1]}, ctx={self.context})"

    def __str__(self):
        return str(numbers(numpy.asarray(self)))

    def sum(self, axis=None, dtype=None, **how):
        """The sum over an axis, or of all elements: int64 of integers, of bool how many are True."""
        if dtype is None and self.dtype.kind in "biu":
            dtype = "int64"  # NumPy's uint64 is not a dtype of the store
        return result(plain(self).sum(axis, dtype, **how), self)


def as_numpy(names):
    """Gives mx.np's arrays NumPy's methods, where those of mx.nd are others."""
    for name in names:
        if hasattr(numpy.ndarray, name) and name not in vars(ndarray):
            setattr(ndarray, name, getattr(numpy.ndarray, name))


as_numpy("__eq__ __ne__ __lt__ __le__ __gt__ __ge__".split())


def _of_numbers(name):
    def method(self, *args, **how):
        plain(self)  # NumPy would compare BITS byte by byte
        return getattr(numpy.ndarray, name)(self, *args, **how)
    return method


if BITS is not None:
    for _name in "sort argsort partition argpartition searchsorted nonzero __bool__".split():
        setattr(NDArray, _name, _of_numbers(_name))  # ops.py replaces those that MXNet has
        setattr(ndarray, _name, _of_numbers(_name))


class RowSparseNDArray(_kvstore.Array):
    """An array that holds some rows, `indices`; all others are zeros. What computes works on a dense copy."""

    __slots__ = ()
    __array_priority__ = 1000
    __hash__ = object.__hash__

    def _elements(self, write=False):
        """The elements as a dense array: those of an array that holds all its rows, else a copy, which is only read."""
        if write or self._nrows == self.shape[0]:
            return of(NDArray, numpy.asarray(self._host(write)), self._ctx, self._dtype)
        dense = self.tostype("default")
        dense.flags.writeable = False
        return dense

    @property
    def dtype(self):
        """The dtype as NumPy has it."""
        return numpy_dtype(self._dtype)

    @property
    def context(self):
        """The context that holds the elements."""
        return Context(*self._ctx)

    ctx = device = context

    @property
    def indices(self):
        """The ids of the rows that it holds, ascending: an array of int64."""
        return of(NDArray, numpy.frombuffer(self._rows()[0], "int64").copy(), self._ctx)

    @property
    def data(self):
        """The rows that it holds, in the order of `indices`."""
        bits = "uint16" if self._dtype == "bfloat16" else self._dtype
        rows = numpy.frombuffer(self._rows()[1], bits).reshape(self._nrows, *self.shape[1:]).copy()
        return of(NDArray, rows, self._ctx, self._dtype)

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"\n<{type(self).__name__} {'x'.join(map(str, self.shape))} @{self.context}>"

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no {name}", name=name, obj=self)
        return getattr(self.tostype("default"), name)

    def __array__(self, dtype=None, copy=None):
        return numpy.array(numbers(self._elements().view(numpy.ndarray)), dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **how):
        return getattr(ufunc, method)(*(x.tostype("default") if isinstance(x, _kvstore.Array) else x for x in inputs), **how)

    def __getitem__(self, index):
        return self._elements()[index]

    def __setitem__(self, index, value):
        self._elements(True)[index] = value

    def copy(self):
        """A new array with the same rows."""
        return _kvstore.dup(type(self), self, None, self._ctx)

    __copy__ = copy

    def __deepcopy__(self, memo):
        return self.copy()

    def __reduce__(self):
        return row_sparse, (self.data, self.indices, self.shape, self._dtype, self.context)

    def astype(self, dtype, copy=True):
        """A new array with the rows in another dtype."""
        return _kvstore.dup(type(self), self, dtype_name(dtype), self._ctx)

    def copyto(self, other):
        """Fills the array `other`, or gives a new array in the context `other`."""
        if isinstance(other, Context):
            return _kvstore.dup(type(self), self, None, pair(other))
        return other._copy_from(self) or other if isinstance(other, _kvstore.Array) else self.tostype("default").copyto(other)

    def as_in_context(self, ctx):
        """This array, if it is in that context, else a copy there."""
        return self if pair(ctx) == self._ctx else self.copyto(ctx)

    def tostype(self, stype):
        """The same array in another storage, "default" or "row_sparse"."""
        if stype == "row_sparse":
            return self
        if stype != "default":
            raise KVError(f"an array is default or row_sparse, not {stype!r}", "value")
        return of(NDArray, numpy.asarray(self._dense()._host(True)), self._ctx, self._dtype)


def _of_dense(name):
    def method(self, *other):
        return getattr(self.tostype("default"), name)(*map(_dense, other))
    return method


def _in_place(name):
    def method(self, other):
        getattr(self._elements(True), name)(_dense(other))
        return self
    return method


def _dense(x):
    return x.tostype("default") if isinstance(x, _kvstore.Array) else x


for _name in "add sub mul truediv floordiv mod pow matmul".split():
    for _side in "", "r":
        setattr(RowSparseNDArray, f"__{_side}{_name}__", _of_dense(f"__{_side}{_name}__"))
    setattr(RowSparseNDArray, f"__i{_name}__", _in_place(f"__i{_name}__"))
for _name in "eq ne lt le gt ge neg abs bool float int iter".split():
    setattr(RowSparseNDArray, f"__{_name}__", _of_dense(f"__{_name}__"))


def row_sparse(rows, indices, shape, dtype="float32", ctx=None):
    """A row_sparse array: rows[i] is its row indices[i]; the ids may come in any order, each once."""
    given = numpy.asarray(plain(indices))
    ids = given.astype("int64")
    if ids.ndim != 1 or (ids != given).any():
        raise KVError("row ids are whole numbers, in one axis", "value")
    if rows is not None and len(rows) != len(ids):
        raise KVError(f"{len(rows)} rows and {len(ids)} row ids", "shape")
    order = numpy.argsort(ids, kind="stable")
    data = None if rows is None else numpy.asarray(copy_of(NDArray, rows, dtype))
    whole = len(ids), *shape[1:]
    if data is not None and len(ids) and data.shape != whole:
        raise KVError(f"{len(ids)} rows of an array of shape {tuple(shape)} have shape {whole}, not {data.shape}", "shape")
    return _kvstore.sparse(RowSparseNDArray, tuple(shape), dtype, pair(ctx), ids[order].tobytes(),
                           None if data is None else data[order].tobytes())


def lent(view, dtype, ctx):
    """An array of the store, given as a memoryview, as an updater sees it."""
    return of(NDArray, numpy.asarray(view), ctx, dtype)
