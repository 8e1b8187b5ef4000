"""The functions that make arrays, for kvstore.nd and kvstore.np, which differ in the class."""
import numpy

from .adopt import dtype_name
from .array import NDArray, convert, copy_of, make, of
from .context import current, pair
from .errors import KVError


def _shape(shape):
    return (int(shape),) if numpy.ndim(shape) == 0 and not isinstance(shape, (tuple, list)) else tuple(int(n) for n in shape)


def functions(cls):
    """{name: function} of the functions that make arrays of a class."""

    def _from(values, ctx, dtype):
        return of(cls, convert(values, dtype_name(dtype)), current() if ctx is None else pair(ctx))

    def zeros(shape, ctx=None, dtype=None, stype=None):
        """An array of zeros; stype="row_sparse": one without rows."""
        if stype not in (None, "default"):
            from .nd_sparse import zeros as sparse_zeros
            return sparse_zeros(stype, shape, ctx, dtype)
        return make(cls, _shape(shape), dtype_name(dtype), pair(ctx))

    def full(shape, val, ctx=None, dtype=None):
        """An array with one number everywhere."""
        return _from(numpy.full(_shape(shape), val), ctx, dtype)

    def ones(shape, ctx=None, dtype=None):
        """An array of ones."""
        a = make(cls, _shape(shape), dtype_name(dtype), pair(ctx))
        a[...] = 1
        return a

    def array(source, ctx=None, dtype=None):
        """An array with the elements of an array, a list or a number; float32 unless it comes from an array of the
        store, or dtype says otherwise."""
        if dtype is None and not isinstance(source, NDArray):
            dtype = "float32"
        return copy_of(cls, source, dtype, ctx)

    def arange(start, stop=None, step=1.0, repeat=1, infer_range=None, ctx=None, dtype=None):
        """Numbers from start up to, not including, stop, each `repeat` times."""
        if not isinstance(repeat, int):
            raise KVError(f"arange(repeat={repeat!r}): a whole number", "value", "ctx= and dtype= are given by name")
        values = numpy.arange(*((0, start) if stop is None else (start, stop)), step)
        return _from(numpy.repeat(values, repeat) if repeat != 1 else values, ctx, dtype)

    def eye(N, M=0, k=0, ctx=None, dtype=None):
        """A matrix with ones on a diagonal; M=0: square."""
        return _from(numpy.eye(N, M or N, k), ctx, dtype)

    def linspace(start, stop, num=50, endpoint=True, ctx=None, dtype=None):
        """Numbers from start to stop, evenly spaced."""
        return _from(numpy.linspace(start, stop, num, endpoint), ctx, dtype)

    def zeros_like(a):
        """An array of zeros of the shape, dtype and context of a."""
        return zeros(a.shape, a.context, a._dtype)

    def ones_like(a):
        """An array of ones of the shape, dtype and context of a."""
        return ones(a.shape, a.context, a._dtype)

    made = {f.__name__: f for f in (zeros, ones, full, array, arange, eye, linspace, zeros_like, ones_like)}
    made["empty"] = zeros
    return made


def waitall():
    """Waits for all that stores of this process were asked to do."""
    from .store import open_stores
    for store in open_stores():
        store.wait()


def missing(module, name, names, more):
    """The exception for a name that a module does not have."""
    import difflib
    near = difflib.get_close_matches(name, names, 1)
    return AttributeError(f"{module} has no {name}: " + (f"did you mean {near[0]}?" if near else more))
