"""A key-value store of arrays, with the names of MXNet's KVStore.

    import kvstore as mx
    kv = mx.kv.create("local")
    kv.init("w", numpy.zeros((2, 3), "float32"))
    kv.push("w", [gradient_0, gradient_1])          # summed, then the updater
    kv.pull("w", out=weight)                        # newest value

Arrays are NumPy's, or tensors of PyTorch, CuPy and JAX. Dense ones are read and written where they lie; another dtype is
converted to that of the key. Arrays of numpy.ma are refused.
"""
import atexit
import os
import sys

import numpy

from . import _kvstore, adopt as _adopt
from .array import NDArray, RowSparseNDArray, lent as _lent
from .context import Context, cpu, cpu_pinned, current_context, gpu, num_gpus, set_virtual_gpus
from .errors import CopyWarning, KVError, log as _log


class _Configuration:
    """What the extension needs of Python."""

    error, handed, handed_sparse, ndarray = KVError, NDArray, RowSparseNDArray, numpy.ndarray
    lent = staticmethod(_lent)
    adopt, copy_back = staticmethod(_adopt.adopt), staticmethod(_adopt.copy_back)
    dtypes = _adopt.known_dtypes()

    log = staticmethod(_log)

    @staticmethod
    def write(line):
        """A line that a rule prints."""
        print(line)


_probe = numpy.zeros((2, 3), "int32")
_kvstore.configure(_Configuration, _probe, _probe.ctypes.data)
os.register_at_fork(before=_kvstore.before_fork, after_in_child=_kvstore.after_fork)
atexit.register(_kvstore.end)

from . import checkpoint, kv, lr_scheduler, nd, np, npx, optimizer, random  # noqa: E402
from .checkpoint import open, plot  # noqa: E402,A004
from .kv import KVStore, KVStoreBase, create, load, register  # noqa: E402

kvstore = kv
ndarray = nd
opt = optimizer
device, current_device = Context, current_context
MXNetError = KVError
base = sys.modules[__name__ + ".base"]
base.MXNetError = KVError
context = sys.modules[__name__ + ".context"]
__version__ = _kvstore.version
describe = _kvstore.describe
load_plugin = _kvstore.load_plugin

__all__ = ["KVError", "KVStore", "KVStoreBase", "NDArray", "RowSparseNDArray", "Context", "CopyWarning", "MXNetError",
           "create", "load", "register", "describe", "load_plugin", "cpu", "gpu", "cpu_pinned", "current_context",
           "num_gpus", "set_virtual_gpus", "kv", "kvstore", "nd", "ndarray", "np", "npx", "random", "optimizer", "lr_scheduler", "checkpoint", "plot"]

# Parts of MXNet by what does their work here.
_INSTEAD = {
    "gluon": "a Trainer is kv.set_optimizer(o), and its step kv.pushpull(key, grad, out=weight); networks are PyTorch's or JAX's",
    "autograd sym symbol Symbol executor rnn operator contrib amp": "PyTorch, JAX or NumPy compute gradients; kv.push(key, grad) takes their arrays",
    "mod module": "fit is a loop: kv.pull(key, out=weight), a gradient, kv.push(key, grad)",
    "model": "mx.nd.save(file, dict) and mx.nd.load(file) keep arrays, kv.save_optimizer_states(file) states",
    "metric": "the accuracy is (pred.argmax(axis=1) == label).mean()",
    "io image recordio": "a batch is a slice of arrays: x[i:i + 32]",
    "callback monitor mon": "print() in the loop, every n batches",
    "init initializer": "mx.nd.random.uniform(-0.07, 0.07, shape=(2, 3)), mx.nd.random.normal(0, 0.01, shape=(2, 3))",
    "viz visualization attribute AttrScope engine library notebook profiler registry rtc test_utils util": "help(mx) lists what is",
}
_ELSEWHERE = {name: instead for names, instead in _INSTEAD.items() for name in names.split()}


def _elsewhere(name):
    return f"kvstore is the store of MXNet; {name} is not here: {_ELSEWHERE[name.partition('.')[0]]}"


class _Finder:
    """`from kvstore import gluon` asks for a module once the attribute is not there, and drops the text of that error."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        package, _, part = name.partition(".")
        if package == __name__ and part.partition(".")[0] in _ELSEWHERE:
            raise ImportError(_elsewhere(part), name=name)


sys.meta_path.append(_Finder)


def __getattr__(name):
    if name in _ELSEWHERE:
        raise AttributeError(_elsewhere(name))
    raise nd._make.missing("kvstore", name, __all__, "its parts are " + ", ".join(__all__))


def __dir__():
    return [*__all__, "open", "opt", "device", "current_device", "base", "context", "__version__"]
