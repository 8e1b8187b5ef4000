"""Contexts: which device holds an array."""
import contextvars
import warnings

from . import _kvstore
from .errors import KVError, NoSuchDeviceError

VIRTUAL_GPUS = 8  # where the machine has none, as kvctl has it


class Context:
    """cpu(i) or gpu(i); several cpu(i) are names for one memory. `with mx.cpu(1):` makes it that of the arrays made within."""

    __slots__ = ("device_type", "device_id", "_before")

    def __init__(self, device_type="cpu", device_id=0):
        if isinstance(device_type, Context):
            device_type, device_id = device_type.device_type, device_type.device_id
        if device_type not in ("cpu", "gpu", "cpu_pinned", "cpu_shared"):
            raise NoSuchDeviceError(f"there is no device {device_type}", "value", "cpu and gpu")
        self.device_type, self.device_id = device_type.partition("_")[0], device_id
        self._before = []

    def __enter__(self):
        self._before.append(_current.set(self._pair))
        return self

    def __exit__(self, *error):
        _current.reset(self._before.pop())

    def __eq__(self, other):
        return isinstance(other, Context) and self._pair == other._pair

    def __hash__(self):
        return hash(self._pair)

    def __repr__(self):
        return f"{self.device_type}({self.device_id})"

    @property
    def _pair(self):
        return self.device_type, self.device_id


def cpu(device_id=0):
    """The context cpu(i)."""
    return Context("cpu", device_id)


def gpu(device_id=0):
    """The context gpu(i): a GPU, or on a machine without one memory of the CPU under that name."""
    return Context("gpu", device_id)


def cpu_pinned(device_id=0):
    """cpu(i): the library pins memory where it has a GPU."""
    return Context("cpu", device_id)


_current = contextvars.ContextVar("context", default=("cpu", 0))


def current():
    """What pair() gives for the context of `with`."""
    return _current.get()


def current_context():
    """The context of arrays that are made without one: cpu(0), or that of `with`."""
    return Context(*current())


def num_gpus():
    """How many GPUs this machine has that can be used, virtual ones not counted."""
    return sum("device" in row and row.get("reason", "") == "" for row in _kvstore.describe("gpus"))


_announced = False
_virtual = False
_usable = set()  # pairs that the library knows


def gpus_are_virtual():
    """Whether gpu(i) is memory of the CPU."""
    return _virtual


def pair(ctx):
    """What the extension takes for a context, None: that of `with`. The first gpu(i) of a machine without GPUs makes
    virtual ones."""
    global _announced
    if ctx is None:
        return current()
    if isinstance(ctx, str):
        raise KVError(f"a context is cpu(i) or gpu(i), not {ctx!r}", "usage")
    ctx = Context(ctx) if isinstance(ctx, Context) else Context(*ctx)
    if ctx.device_type == "gpu" and not _announced:
        usable = any(row.get("usable") for row in _kvstore.describe("gpus"))
        if not usable and ctx.device_id < VIRTUAL_GPUS:
            set_virtual_gpus(VIRTUAL_GPUS)
            warnings.warn(f"no GPU here: gpu(0) to gpu({VIRTUAL_GPUS - 1}) are virtual, in the memory of the CPU",
                          stacklevel=3)
        _announced = True
    if ctx._pair not in _usable:
        _kvstore.zeros(_kvstore.Array, (0,), "float32", ctx._pair)  # raises for one that is not there
        _usable.add(ctx._pair)
    return ctx._pair


def set_virtual_gpus(n):
    """gpu(0) to gpu(n - 1) are memory of the CPU from now on; 0: no more."""
    global _announced, _virtual
    _kvstore.set_virtual_gpus(n)
    _announced = _virtual = n > 0
    _usable.clear()
