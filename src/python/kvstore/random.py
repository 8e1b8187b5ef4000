"""mx.random and mx.nd.random: random arrays, float32 unless dtype says otherwise. One generator a process, of NumPy's
(Philox), which begins from the system; a seed gives the same numbers on every rank. They are not those of MXNet."""
import numpy

from . import _make
from .adopt import dtype_name
from .array import NDArray, convert, fill, of, plain
from .context import current, pair

_generator = numpy.random.Generator(numpy.random.Philox())


def seed(seed_state, ctx="all"):
    """Begins the numbers anew, the same for the same seed."""
    global _generator
    _generator = numpy.random.Generator(numpy.random.Philox(seed_state))


def _shape(shape):
    return (1,) if shape is None else (shape,) if isinstance(shape, (int, numpy.integer)) else tuple(shape)


def _drawn(draw, params, shape, dtype, ctx, out, below=False):
    """Numbers for each element of the parameters, which are numbers or arrays of one shape; below: less than the last."""
    if out is not None and shape is None:
        shape = out.shape
    of_each = next((p.shape for p in params if isinstance(p, NDArray)), ())
    size = of_each + (() if of_each and shape is None else _shape(shape))
    params = [numpy.reshape(p, of_each + (1,) * (len(size) - len(of_each))) if numpy.ndim(p) else p for p in map(plain, params)]
    values = convert(numpy.asarray(draw(*params, size=size)), dtype_name(dtype))
    if below and numpy.all(params[0] < params[1]):  # rounding may have reached it
        plain(of(NDArray, values, ("cpu", 0)))  # raises where bfloat16 has no numbers
        values = numpy.minimum(values, numpy.nextafter(numpy.asarray(params[1], values.dtype), numpy.asarray(params[0], values.dtype)))
    if out is None:
        return of(NDArray, numpy.asarray(values), current() if ctx is None else pair(ctx))
    out[...] = values.reshape(out.shape)
    return out


def uniform(low=0, high=1, shape=None, dtype=None, ctx=None, out=None):
    """Numbers from low up to, not including, high."""
    return _drawn(lambda a, b, size: a + (b - a) * _generator.random(size), (low, high), shape, dtype, ctx, out, True)


def normal(loc=0, scale=1, shape=None, dtype=None, ctx=None, out=None):
    """Normal numbers with this mean and standard deviation."""
    return _drawn(_generator.normal, (loc, scale), shape, dtype, ctx, out)


def randn(*shape, loc=0, scale=1, dtype=None, ctx=None, out=None):
    """Normal numbers, the shape first."""
    return normal(loc, scale, shape or None, dtype, ctx, out)


def randint(low, high, shape=None, dtype="int32", ctx=None, out=None):
    """Whole numbers from low up to, not including, high."""
    return _drawn(_generator.integers, (low, high), shape, dtype, ctx, out)


def exponential(scale=1, shape=None, dtype=None, ctx=None, out=None):
    """Exponential numbers with this mean."""
    return _drawn(_generator.exponential, (scale,), shape, dtype, ctx, out)


def poisson(lam=1, shape=None, dtype=None, ctx=None, out=None):
    """Poisson numbers with this mean."""
    return _drawn(_generator.poisson, (lam,), shape, dtype, ctx, out)


def gamma(alpha=1, beta=1, shape=None, dtype=None, ctx=None, out=None):
    """Gamma numbers of this shape and scale."""
    return _drawn(_generator.gamma, (alpha, beta), shape, dtype, ctx, out)


def shuffle(data, out=None):
    """A copy in a random order of its rows."""
    values = of(type(data), _generator.permutation(plain(data)), data._ctx)
    if out is None:
        return values
    fill(out, values)
    return out


def multinomial(data, shape=None, dtype="int32"):
    """Indices, drawn by the probabilities along the last axis."""
    rows = plain(data).astype("float64").reshape(-1, data.shape[-1])
    n = int(numpy.prod(_shape(shape)))
    drawn = numpy.stack([_generator.choice(len(p), n, p=p / p.sum()) for p in rows])
    size = data.shape[:-1] + (() if shape is None else _shape(shape))
    return of(NDArray, convert(drawn.reshape(size or (1,)), dtype_name(dtype)), data._ctx)


def _with_size(f, *defaults):
    """A function of mx.np.random: NumPy's size= in the place of shape=."""
    def call(*params, size=(), dtype=None, ctx=None, **named):
        n = len(defaults)
        params, size = params[:n], params[n] if len(params) > n else size
        given = {**dict(defaults), **dict(zip((name for name, _ in defaults), params)), **named}
        return f(**given, shape=size, dtype=dtype, ctx=ctx).as_np_ndarray()
    call.__name__, call.__doc__ = f.__name__, f.__doc__
    return call


class np:
    """mx.np.random, with NumPy's parameters."""

    seed = staticmethod(seed)
    uniform = staticmethod(_with_size(uniform, ("low", 0), ("high", 1)))
    normal = staticmethod(_with_size(normal, ("loc", 0), ("scale", 1)))
    exponential = staticmethod(_with_size(exponential, ("scale", 1)))

    @staticmethod
    def randint(low, high=None, size=(), dtype="int64", ctx=None):
        """Whole numbers from low, or 0, up to, not including, high, or low."""
        return randint(*((0, low) if high is None else (low, high)), size, dtype, ctx).as_np_ndarray()

    @staticmethod
    def rand(*size):
        """Numbers from 0 up to, not including, 1, the shape first."""
        return uniform(0, 1, size).as_np_ndarray()


__all__ = ["seed", "uniform", "normal", "randn", "randint", "exponential", "poisson", "gamma", "shuffle", "multinomial"]


def __dir__():
    return __all__


def __getattr__(name):
    raise _make.missing("kvstore.random", name, __all__, f"it has {', '.join(__all__)}")
