"""NDArray: arrays of the store's own, as MXNet's mx.nd and mx.np have them, as far as a store needs them.

Arithmetic is NumPy's, on the elements where they lie. numpy.asarray(a) is a view of them.
"""
import operator

import numpy

from . import _kvstore
from .adopt import dtype_name, numpy_dtype, refuse_masked
from .context import Context, gpus_are_virtual, pair
from .errors import KVError


def _plain(x):
    """NumPy's view of an operand."""
    refuse_masked(x)
    return x._numbers(False) if isinstance(x, NDArray) else x


def _binary(op, swapped=False):
    def method(self, other):
        if isinstance(other, (str, bytes, list, tuple, dict)) or other is None:
            return NotImplemented
        a, b = self._numbers(False), _plain(other)
        return self._make(op(b, a) if swapped else op(a, b))
    return method


def _in_place(op):
    def method(self, other):
        other = _plain(other)
        view = self._numbers(True)
        op(view, other, out=view, casting="same_kind")
        return self
    return method


class NDArray(_kvstore.Array):
    """An array of the store: shape, dtype, context and elements."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy's operators leave mixed operands to ours
    __hash__ = object.__hash__

    # ---- Making ----

    @classmethod
    def _copy_of(cls, values, dtype=None, ctx=None):
        """A new array with the elements of an array, list or number."""
        refuse_masked(values)
        if isinstance(values, _kvstore.Array):
            name, where = values._dtype if dtype is None else dtype_name(dtype), pair(ctx or values.context)
            dense = values.stype == "default" or issubclass(cls, RowSparseNDArray)
            return (values if dense else values._dense())._dup(name, where)._as(cls)
        if dtype is not None and dtype_name(dtype) == "bfloat16":
            if numpy_dtype("bfloat16").kind == "u":  # without ml_dtypes the store converts
                values = _kvstore.array(cls, numpy.array(values, "float32", order="C"), None)
                return values._dup("bfloat16", pair(ctx))
        values = numpy.array(values, None if dtype is None else numpy_dtype(dtype_name(dtype)), order="C")
        return _kvstore.array(cls, values, pair(ctx))

    def _make(self, values):
        return type(self)._copy_of(values, None, self.context)

    def _view(self, write):
        """The elements as an array of NumPy, without a copy. Waits for what the store does with them."""
        view = numpy.asarray(self._host(write))
        return view.view(numpy_dtype("bfloat16")) if self._dtype == "bfloat16" else view

    def _numbers(self, write):
        """The same for what computes, which bits cannot."""
        if self._dtype == "bfloat16" and numpy_dtype("bfloat16").kind == "u":
            raise KVError("without ml_dtypes NumPy has no numbers of bfloat16", "unsupported",
                          "astype('float32') gives them, and so does pip install ml_dtypes")
        return self._view(write)

    # ---- What it is ----

    @property
    def dtype(self):
        """The dtype as NumPy has it; it is equal to numpy.float32, where MXNet gives that itself."""
        return numpy_dtype(self._dtype)

    @property
    def context(self):
        """The context that holds the elements."""
        return Context(*self._ctx)

    ctx = context
    device = context

    def __len__(self):
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __repr__(self):
        return f"<{type(self).__name__} {'x'.join(map(str, self.shape))} @{self.context}>"

    def __str__(self):
        return f"\n{self.asnumpy()}\n{self!r}"

    # ---- Elements ----

    def asnumpy(self):
        """A copy of the elements as an array of NumPy; of bfloat16 the bits, uint16, where ml_dtypes is not installed."""
        return self._view(False).copy()

    def __array__(self, dtype=None, copy=None):
        view = self._view(True)
        if copy or (dtype is not None and numpy.dtype(dtype) != view.dtype):
            return view.astype(dtype or view.dtype)
        return view

    def item(self):
        """The number of an array of one element."""
        return self._numbers(False).item()

    asscalar = item

    def tolist(self):
        """The elements as lists of numbers."""
        return self._numbers(False).tolist()

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __bool__(self):
        return bool(self._numbers(False))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index):
        """The elements at an index: rows and other parts that lie one behind the other share the memory of this array, as
        in MXNet; others are a copy."""
        words = index if isinstance(index, tuple) else (index,)
        basic = all(i is None or i is Ellipsis or isinstance(i, (int, numpy.integer, slice)) and not isinstance(i, bool)
                    for i in words)
        if not basic:
            return self._make(self._numbers(False)[_plain(index)])
        view = self._view(False)
        return self._shared(view, view[words if Ellipsis in words else (*words, Ellipsis)])

    def _shared(self, view, part):
        """An array of a part of `view`, the elements of this one."""
        elsewhere = self.context.device_type == "gpu" and not gpus_are_virtual()
        if self.stype != "default" or not part.flags.c_contiguous or elsewhere:
            self._numbers(False)  # raises for bits, whose copy would be of uint16
            return self._make(part)._of_part()
        begin = (part.__array_interface__["data"][0] - view.__array_interface__["data"][0]) // part.itemsize
        return self._part(begin if part.size else 0, part.shape)

    def __setitem__(self, index, value):
        self._numbers(True)[_plain(index)] = _plain(value)

    # ---- Other arrays ----

    def copy(self):
        """A new array with the same elements."""
        return self._dup(self._dtype, pair(self.context))

    def copyto(self, other):
        """Fills the array `other`, or gives a new array in the context `other`."""
        if isinstance(other, Context):
            return self._dup(self._dtype, pair(other))
        other._copy_from(self)
        return other

    def astype(self, dtype, copy=True):
        """A new array with the elements in another dtype, converted as the store does."""
        name = dtype_name(dtype)
        return self if name == self._dtype and not copy else self._dup(name, pair(self.context))

    def as_in_context(self, ctx):
        """This array, if it is in that context, else a copy there."""
        return self if ctx == self.context else self._dup(self._dtype, pair(ctx))

    as_in_ctx = to_device = as_in_context

    def reshape(self, *shape):
        """The elements under another shape, in the memory of this array."""
        view = self._view(False)
        return self._shared(view, view.reshape(*shape))

    def __dlpack__(self, *, copy=None, **how):
        return _kvstore.Array.__dlpack__(self._dup(self._dtype, pair(self.context)) if copy else self, **how)

    def tostype(self, stype):
        """The same array in another storage, "default" or "row_sparse"."""
        if stype == self.stype:
            return self
        if stype == "row_sparse":
            return self._sparse()._as(RowSparseNDArray)
        if stype == "default":
            return self._dense()._as(NDArray)
        raise KVError(f"an array is default or row_sparse, not {stype!r}", "value")

    def as_nd_ndarray(self):
        """This array, or a copy of it, as one of mx.nd."""
        return self if type(self) is NDArray else NDArray._copy_of(self)

    def as_np_ndarray(self):
        """This array, or a copy of it, as one of mx.np."""
        return self if type(self) is ndarray else ndarray._copy_of(self)

    @property
    def T(self):
        """A copy with the axes in the other order."""
        return self._make(self._numbers(False).T)

    def sum(self, axis=None):
        """The sum over an axis, or of all elements: int64 of integers, of bool how many are True."""
        view = self._numbers(False)
        return self._make(view.sum(axis=axis, dtype="int64" if view.dtype.kind in "biu" else view.dtype))

    def mean(self, axis=None):
        """The mean over an axis, or of all elements."""
        return self._make(self._numbers(False).mean(axis=axis))

    def __neg__(self):
        return self._make(-self._numbers(False))

    def __abs__(self):
        return self._make(abs(self._numbers(False)))


for _name in "add sub mul truediv floordiv mod pow matmul".split():
    _op = getattr(operator, _name)
    setattr(NDArray, f"__{_name}__", _binary(_op))
    setattr(NDArray, f"__r{_name}__", _binary(_op, swapped=True))
for _name in "eq ne lt le gt ge".split():
    setattr(NDArray, f"__{_name}__", _binary(getattr(operator, _name)))
for _name, _ufunc in {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide",
                       "floordiv": "floor_divide", "mod": "remainder", "pow": "power"}.items():
    setattr(NDArray, f"__i{_name}__", _in_place(getattr(numpy, _ufunc)))


class ndarray(NDArray):
    """An array that is shown as mx.np shows it."""

    __slots__ = ()

    def __repr__(self):
        text = repr(self.asnumpy()).replace(", dtype=float32", "")  # the default here, where NumPy's is float64
        if self._dtype == "float64":
            text = text[:-1] + ", dtype=float64)"
        return text if self.context.device_type == "cpu" else f"{text[:-1]}, ctx={self.context})"

    def __str__(self):
        return str(self.asnumpy())


class RowSparseNDArray(NDArray):
    """An array that holds some rows, `indices`; all others are zeros."""

    __slots__ = ()

    def _view(self, write):
        """Of an array that holds all its rows as of any other; else a copy, to read."""
        if not write and self._nrows < self.shape[0]:
            return self._dense()._as(NDArray)._view(False)
        return super()._view(write)

    def _make(self, values):
        return NDArray._copy_of(values, None, self.context)

    @property
    def indices(self):
        """The ids of the rows that it holds, ascending: an array of int64."""
        return NDArray._copy_of(numpy.frombuffer(self._rows()[0], "int64"), ctx=self.context)

    @property
    def data(self):
        """The rows that it holds, in the order of `indices`."""
        wide = self.astype("float32") if self._dtype == "bfloat16" else self  # NumPy may have no bfloat16
        rows = numpy.frombuffer(wide._rows()[1], numpy_dtype(wide._dtype)).reshape(-1, *self.shape[1:])
        return NDArray._copy_of(rows, self._dtype, self.context)

    __str__ = NDArray.__repr__

    def copyto(self, other):
        return other._copy_from(self) or other if isinstance(other, _kvstore.Array) else super().copyto(other)

    def astype(self, dtype, copy=True):
        return self._dup(dtype_name(dtype), pair(self.context))

    def __array__(self, dtype=None, copy=None):
        view = self._view(False)
        return view.astype(dtype) if dtype else view


def row_sparse(rows, indices, shape, dtype="float32", ctx=None):
    """A row_sparse array: rows[i] is its row indices[i]; the ids may come in any order, each once."""
    given = numpy.asarray(_plain(indices))
    ids = given.astype("int64")
    if ids.ndim != 1 or (ids != given).any():
        raise KVError("row ids are whole numbers, in one axis", "value")
    if rows is not None and len(rows) != len(ids):
        raise KVError(f"{len(rows)} rows and {len(ids)} row ids", "shape")
    order = numpy.argsort(ids, kind="stable")
    if rows is None:
        data = None
    elif dtype == "bfloat16" and numpy_dtype("bfloat16").kind == "u":
        data = NDArray._copy_of(numpy.asarray(_plain(rows), "float32")[order], dtype)._host(False).tobytes()
    else:
        data = numpy.ascontiguousarray(numpy.asarray(_plain(rows), numpy_dtype(dtype))[order]).tobytes()
    return _kvstore.sparse(RowSparseNDArray, tuple(shape), dtype, pair(ctx), ids[order].tobytes(), data)
