"""Arrays of others for the store: NumPy's, tensors that know DLPack, and whatever has the buffer protocol.

The extension wraps a dense array of NumPy by itself. All others come to adopt(), which says how they are wrapped.
Nothing is copied but what does not lie dense in memory, and of that CopyWarning tells.
"""
import warnings

import numpy

from . import _kvstore
from .context import gpus_are_virtual
from .errors import CopyWarning, KVError, NoSuchDtypeError

# The numbers of dtypes are those of kv_dtype.h.
DTYPES = {0: "float32", 1: "float64", 2: "float16", 3: "uint8", 4: "int32", 5: "int8", 6: "int64", 7: "bool"}
BFLOAT16 = 12

try:
    from ml_dtypes import bfloat16
    bfloat16, BITS = numpy.dtype(bfloat16), None
except ImportError:
    # Two bytes that NumPy calculates nothing with, as in a file .npy of bfloat16: as uint16 the bits would pass for numbers.
    bfloat16, BITS = None, numpy.dtype("V2", metadata={"kvstore": "bfloat16"})


def known_dtypes():
    """{number: dtype of NumPy} of those that the store has."""
    known = {number: numpy.dtype(name) for number, name in DTYPES.items()}
    known[BFLOAT16] = numpy_dtype("bfloat16")
    return known


def dtype_name(dtype):
    """The store's name of a dtype, which may be given as a name, a type or a dtype of NumPy."""
    if dtype is None:
        return "float32"
    if isinstance(dtype, str) and dtype == "bfloat16":
        return dtype
    try:
        return numpy.dtype(dtype).name
    except TypeError:
        raise NoSuchDtypeError(f"{dtype!r} is not a dtype", "dtype") from None


def numpy_dtype(name):
    """NumPy's dtype for a name of the store's; BITS for bfloat16 where ml_dtypes is not installed."""
    if name == "bfloat16":
        return bfloat16 or BITS
    return numpy.dtype(name)


def readable(name):
    """The name of the dtype in which NumPy has the numbers of another: float32 for bfloat16 where ml_dtypes is not installed."""
    return "float32" if name == "bfloat16" and BITS is not None else name


def numbers(array):
    """The numbers of an array of NumPy: of BITS a copy in float32, which holds each bfloat16 exactly."""
    if array.dtype is not BITS:
        return array
    return numpy.asarray(numpy.left_shift(array.view(numpy.ndarray).view("uint16"), 16, dtype="uint32")).view("float32")


_CANONICAL = {(numpy.dtype(name).kind, numpy.dtype(name).itemsize): numpy.dtype(name) for name in DTYPES.values()}


def refuse_masked(value):
    """Raises for an array of numpy.ma: nothing here would look at its mask."""
    if isinstance(value, numpy.ma.MaskedArray):
        raise KVError("a masked array: its mask would be lost", "usage", "filled(0) gives an array")


def adopt(value, write):
    """What the extension wraps in the place of `value`, see py_pairs.h. write: results go into it."""
    refuse_masked(value)
    if isinstance(value, numpy.ndarray):
        if not write and getattr(value, "_ctx", ("cpu",))[0] == "gpu":
            return _kvstore.dup(_kvstore.Array, numpy.asarray(value.view(numpy.ndarray), order="C"), None, value._ctx)
        return _numpy(value, write)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack(value, write)
    if isinstance(value, numpy.generic) and not write:
        return _numpy(numpy.asarray(value), False)
    try:
        view = memoryview(value)
    except TypeError:
        hint = "numpy.asarray(x, dtype='float32') makes one of numbers and lists"
        if isinstance(value, (list, tuple)):  # of MXNet's list of arrays
            hint = "a list holds arrays, whose sum counts: numpy.array([[1, 2], [3, 4]], 'float32') is one of numbers"
        raise KVError(f"an object of type {type(value).__name__} is not an array", "usage", hint) from None
    return _numpy(numpy.asarray(view), write)


def canonical(array):
    """The dtype object by which the extension knows the dtype of an array."""
    dtype = array.dtype
    known = BITS if dtype is BITS else bfloat16 if bfloat16 is not None and dtype == bfloat16 else \
        _CANONICAL.get((dtype.kind, dtype.itemsize)) if dtype.kind in "fiub" else None
    if known is None:
        raise KVError(f"the store has no dtype {dtype}", "dtype",
                      f"it has {', '.join(DTYPES.values())} and bfloat16; astype makes one of these")
    return known


def _note(array, why):
    warnings.warn(f"an array of shape {array.shape} {why} is copied", CopyWarning, stacklevel=4)


def _overlaps(array):
    """Whether two elements lie at one place, so that a write to one changes the other."""
    covered = array.itemsize
    for stride, n in sorted((abs(stride), n) for stride, n in zip(array.strides, array.shape) if n > 1):
        if stride < covered:
            return array.size > 0
        covered = stride * (n - 1) + covered
    return False


def _numpy(array, write):
    dtype = canonical(array)
    swapped = not array.dtype.isnative
    dense = array.flags.c_contiguous and array.flags.aligned and not swapped
    if write and not array.flags.writeable:
        raise KVError(f"out, an array of shape {array.shape}, is read-only", "usage")
    if write and not dense and _overlaps(array):
        raise KVError(f"out, an array of shape {array.shape}, has elements that share memory", "usage")
    if dense:
        return array.view(numpy.ndarray).view(dtype)
    _note(array, "and the other byte order" if swapped else f"with strides {array.strides}")
    # With its elements also where it is written: a pushpull in place reads them first.
    temporary = numpy.array(array, dtype, order="C", subok=False)
    return (temporary, array) if write else temporary


def copy_back(temporary, out):
    """The end of a call whose out was not dense."""
    out[...] = temporary


# DLPack's numbers of devices.
_CPU, _GPU, _PINNED = 1, 2, 3


def _dlpack(tensor, write):
    library = type(tensor).__module__.partition(".")[0]
    try:
        return _exported(tensor, library, write)
    except (BufferError, ValueError, TypeError, NotImplementedError) as e:  # of the library
        raise KVError(f"{library} does not hand out this tensor: {e}", "unsupported") from e


def _exported(tensor, library, write):
    device, number = (int(x) for x in tensor.__dlpack_device__())
    if write and library in ("jax", "jaxlib"):
        raise KVError("an array of JAX is never written", "usage", "kv[key] gives a new array, jax.numpy.asarray takes it")
    if library == "torch" and (tensor.is_nested or str(tensor.layout) != "torch.strided"):
        raise KVError(f"a tensor of PyTorch that is {'nested' if tensor.is_nested else tensor.layout} is not dense", "unsupported",
                      "x.to_dense() is; mx.nd.sparse.row_sparse_array((rows, ids), shape=x.shape) is one with some rows")
    if getattr(tensor, "requires_grad", False):
        tensor = tensor.detach()
    if library == "torch" and tensor.is_neg():  # its memory has the numbers with the other sign, and DLPack does not say so
        if write:
            raise KVError("a tensor of PyTorch whose memory has its numbers with the other sign is never written", "unsupported",
                          "resolve_neg() gives one that can be")
        warnings.warn(f"a tensor of shape {tuple(tensor.shape)} with the other sign in memory is copied", CopyWarning, stacklevel=3)
        tensor = tensor.resolve_neg()
    if hasattr(tensor, "is_contiguous") and not tensor.is_contiguous() and not write:
        warnings.warn(f"a tensor of shape {tuple(tensor.shape)} that is not contiguous is copied", CopyWarning, stacklevel=3)
        tensor = tensor.contiguous()
    if device == _GPU:
        if gpus_are_virtual():
            raise KVError("a tensor of a GPU, where gpu(i) is memory of the CPU", "unsupported",
                          "kvstore.set_virtual_gpus(0) ends that, where kvstore has its plugin for GPUs")
        _finish(tensor, library)
        return tensor.__dlpack__(stream=-1), device, number
    return tensor.__dlpack__(), device, number


def _finish(tensor, library):
    """Waits for the work of another library on the GPU of a tensor."""
    if library == "torch":
        import torch
        torch.cuda.synchronize(tensor.device)
    elif library == "cupy":
        tensor.device.synchronize()
    elif library in ("jax", "jaxlib"):
        tensor.block_until_ready()
    else:
        raise KVError(f"kvstore does not know how {library} is waited for", "unsupported",
                      "tensors of PyTorch, CuPy and JAX on a GPU are taken")
