"""The functions that make arrays, for kvstore.nd and kvstore.np, which differ in the class."""
import numpy

from . import _kvstore
from .adopt import dtype_name
from .context import pair


def _shape(shape):
    return (int(shape),) if numpy.ndim(shape) == 0 and not isinstance(shape, (tuple, list)) else tuple(int(n) for n in shape)


def functions(cls):
    """{name: function} of the functions that make arrays of a class."""

    def zeros(shape, ctx=None, dtype=None):
        """An array of zeros."""
        return _kvstore.zeros(cls, _shape(shape), dtype_name(dtype), pair(ctx))

    def full(shape, val, ctx=None, dtype=None):
        """An array with one number everywhere."""
        return cls._copy_of(numpy.full(_shape(shape), val), None, None)._dup(dtype_name(dtype), pair(ctx))

    def ones(shape, ctx=None, dtype=None):
        """An array of ones."""
        return full(shape, 1, ctx, dtype)

    def array(source, ctx=None, dtype=None):
        """An array with the elements of an array, a list or a number; float32 unless it comes from an array of the
        store, or dtype says otherwise."""
        if dtype is None and not isinstance(source, _kvstore.Array):
            dtype = "float32"
        return cls._copy_of(source, dtype, ctx)

    def arange(start, stop=None, step=1.0, ctx=None, dtype=None):
        """Numbers from start up to, not including, stop."""
        return cls._copy_of(numpy.arange(*((0, start) if stop is None else (start, stop)), step), dtype_name(dtype), ctx)

    def zeros_like(a):
        """An array of zeros of the shape, dtype and context of a."""
        return zeros(a.shape, a.context, a._dtype)

    def ones_like(a):
        """An array of ones of the shape, dtype and context of a."""
        return ones(a.shape, a.context, a._dtype)

    made = {f.__name__: f for f in (zeros, ones, full, array, arange, zeros_like, ones_like)}
    made["empty"] = zeros
    return made


def waitall():
    """Waits for all that stores of this process were asked to do."""
    from .store import open_stores
    for store in open_stores():
        store.wait()
