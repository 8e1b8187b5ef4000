"""mx.nd.sparse: row_sparse arrays. The store has no csr ones."""
import numpy

from . import _make
from .adopt import dtype_name
from .array import NDArray, RowSparseNDArray, copy_of, plain, row_sparse
from .errors import KVError


def row_sparse_array(arg, shape=None, ctx=None, dtype=None):
    """A row_sparse array of (rows, indices), or of the rows of a dense array that are not zero."""
    if isinstance(arg, tuple) and len(arg) == 2:
        rows, indices = arg
        if shape is None:
            raise KVError("row_sparse_array((rows, indices)) needs shape=", "usage")
        name = dtype_name(dtype if dtype is not None else getattr(rows, "_dtype", None))
        return row_sparse(rows, indices, shape, name, ctx)
    dense = copy_of(NDArray, arg, dtype_name(dtype if dtype is not None else getattr(arg, "_dtype", None)), ctx)
    return dense.tostype("row_sparse")


def zeros(stype, shape, ctx=None, dtype=None):
    """An array of zeros in a storage: of "row_sparse" one without rows."""
    if stype == "default":
        from . import nd
        return nd.zeros(shape, ctx, dtype)
    if stype != "row_sparse":
        raise KVError(f"an array is default or row_sparse, not {stype!r}", "value")
    return row_sparse(None, [], (shape,) if isinstance(shape, int) else shape, dtype_name(dtype), ctx)


def array(source, ctx=None, dtype=None):
    """A copy of a row_sparse array."""
    return source.copy() if dtype is None and ctx is None else row_sparse_array(source.tostype("default"), ctx=ctx, dtype=dtype)


def retain(data, indices):
    """The rows of these ids that a row_sparse array holds."""
    kept = numpy.isin(data.indices.asnumpy(), numpy.asarray(plain(indices)).astype("int64"))
    return row_sparse(data.data[kept], data.indices[kept], data.shape, data._dtype, data.context)


__all__ = ["RowSparseNDArray", "row_sparse_array", "zeros", "array", "retain"]


def __dir__():
    return __all__


def __getattr__(name):
    raise _make.missing("kvstore.nd.sparse", name, __all__, f"it has {', '.join(__all__)}; the store has no csr arrays")
