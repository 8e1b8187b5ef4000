"""KVStore: a store, with the methods of MXNet's and those that this library adds."""
import atexit
import json
import os
import re
import sys
import warnings
import weakref
from typing import Any, Callable, Iterator, Union

from . import _kvstore
from .adopt import readable
from .array import NDArray, RowSparseNDArray, make
from .base import KVStoreBase
from .context import Context, current
from .errors import KVError, NotCapableError
from .explain import explain
from .optimizer import Optimizer, look_at_rate, option_text, options
from .table import Table

_open = weakref.WeakSet()


def open_stores():
    """The stores of this process that are open."""
    return [store for store in _open if not store.closed]


def _optimizer_in(path):
    """The name and the parameters of the optimizer in a file of states, which is a safetensors file; or None."""
    try:
        with open(path, "rb") as f:
            texts = json.loads(f.read(int.from_bytes(f.read(8), "little")))["__metadata__"]
        if "kvstore.rule" in texts:
            begin = "kvstore.param."
            return texts["kvstore.optimizer"], {k[len(begin):]: v for k, v in texts.items() if k.startswith(begin)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError):
        pass  # the library says what is wrong
    return None


class _Capable:
    """is_capable of a store asks the store, that of a class says what all of its stores have."""

    def __get__(self, store, cls):
        return _kvstore.Store.is_capable.__get__(store) if store is not None else cls._is_capable


class KVStore(_kvstore.Store, KVStoreBase):
    """A store of arrays by key: kvstore.create() makes one.

    A key is an int or a str, one kind a store. Arrays are NumPy's, tensors of PyTorch, CuPy and JAX, or NDArrays. Calls
    return when they are done with the arrays of others; threads may share a store, and the GIL is free while it works.
    """

    # Of an optimizer that is an object: what the library has of it, and the pushes of each key before it.
    __slots__ = ("__weakref__", "_optimizer", "_sent", "_pushed", "_begun")

    is_capable = _Capable()

    @classmethod
    def _is_capable(cls, capability):
        """Whether the stores of this class have a capability, such as "optimizer"."""
        return create("local").is_capable(capability)

    def _or_not_capable(self, capability, call, *args):
        """Calls; what stores of this type cannot is a NotImplementedError, as in MXNet."""
        try:
            return call(*args)
        except KVError as e:
            if e.code != "unsupported" or self.is_capable(capability):
                raise
            raise NotCapableError(e.text, e.code, e.hint, e.key, e.rank, e.place) from None

    # ---- Updaters ----

    def set_updater(self, rule: Union[str, Callable[[Any, NDArray, NDArray], Any], None], **params: Any) -> None:
        """Sets what a push does with the sum: a rule as text, "stored += input * 2", with its parameters by name, or a
        function(key, input, stored). A rule runs in the library, on all processors. None: a push stores the sum."""
        if rule is None or callable(rule):
            if params:
                raise KVError("parameters are those of a rule", "usage")
            self._set_updater(rule)
            return self._use(None)
        if not isinstance(rule, str):
            raise KVError(f"{rule!r} is not an updater", "usage",
                          'a rule as text, "stored += input", or a function(key, input, stored)')
        text = rule.strip()
        begin = re.sub(r"\A(\s*#[^\n]*\n)*\s*", "", text)  # behind comments
        if not begin.startswith(("{", "updater", "def ")):
            text = "{ " + text + ("\n}" if "#" in text.rpartition("\n")[2] else " }")  # behind a comment
        self._set("rule", text, options(params))
        self._use(None)

    def set_optimizer(self, optimizer: Union[Optimizer, str], **params: Any) -> None:
        """Sets an optimizer, an object such as mx.optimizer.SGD(learning_rate=0.1), or its name and parameters."""
        if isinstance(optimizer, Optimizer):
            if params:
                raise KVError("the parameters of an optimizer stand in its own call", "usage")
            if optimizer.name is None or optimizer._is_changed():
                raise KVError(f"{type(optimizer).__name__} is not an optimizer of the library", "unsupported",
                              "set_updater(mx.optimizer.get_updater(optimizer)) makes its steps in Python")
            if optimizer._calls and self._is_of_many:
                raise KVError("a schedule that is a class of Python runs in a store of one process only", "unsupported",
                              "FactorScheduler, MultiFactorScheduler, PolyScheduler and CosineScheduler run on servers, too")
            self._or_not_capable("optimizer", self._set, "optimizer", optimizer.name, optimizer.options())
            return self._use(optimizer)
        is_rule = isinstance(optimizer, str) and any(sign in optimizer for sign in "{=")
        if is_rule or (callable(optimizer) and not isinstance(optimizer, type)):
            raise KVError(f"{optimizer!r} is not an optimizer", "usage", "set_updater takes a rule, or a function(key, input, stored)")
        if not isinstance(optimizer, str):
            raise KVError(f"{optimizer!r} is not an optimizer", "usage", "mx.optimizer.SGD(learning_rate=0.1), or a name and parameters")
        look_at_rate(optimizer.lower(), params.get("learning_rate"), params.get("lr_scheduler"))
        self._or_not_capable("optimizer", self._set, "optimizer", optimizer, options(params))
        return self._use(None)

    def update_optimizer(self, **params: Any) -> None:
        """Changes parameters of the optimizer or rule in use, also those of the object that set_optimizer was given; states
        and counts stay."""
        self._sync()
        names = {"param_idx2name": "names"}
        rate = params.get("learning_rate")
        if rate is not None and self._used is not None:
            in_use = self.describe("optimizer")[0]
            look_at_rate(in_use["optimizer"], rate, params.get("lr_scheduler", in_use.get("schedule")), 3)
        self._set("update", "", options({names.get(k, k): v for k, v in params.items()}))
        if self._used is not None:
            self._used._follow(params)
            self._sent = self._used._sent()

    # ---- The object of set_optimizer ----

    @property
    def _used(self):
        return getattr(self, "_optimizer", None)

    def _use(self, optimizer):
        """What is used from now on: an optimizer that is an object, or None."""
        if self._used is not None:
            self._used._stores.discard(self)
        self._optimizer = optimizer
        if optimizer is not None:
            optimizer._stores.add(self)
            self._sent = optimizer._sent()
            self._pushed = self._counts_before()
        self._watch(optimizer is not None, optimizer is not None and optimizer._calls is not None)

    def _counts_before(self):
        """{key: its pushes that the optimizer has not counted}, of those that have any, for a schedule of Python."""
        if self._used._calls is None:
            return {}
        counts = {row["key"]: row["t"] - self._used.begin_num_update for row in self.describe("states")}
        return {row["key"]: row["pushes"] - max(counts[row["key"]], 0) for row in self._keys() if row["pushes"]}

    def _sync(self, keys=None):
        """Takes what was changed of the optimizer, before a push of `keys`."""
        optimizer = self._used
        if optimizer is None:
            return
        now = optimizer._sent()
        changes = {k: v for k, v in now["options"].items() if self._sent["options"].get(k) != v}
        changes.update({k: "none" for k in self._sent["options"] if k not in now["options"]})
        if now["schedule"] == self._sent["schedule"]:  # its text changes as it goes on
            changes.pop("lr_scheduler", None)
        elif "lr_scheduler" not in now["options"]:
            changes["lr_scheduler"] = "none"
        if optimizer._calls and keys is not None:
            changes["learning_rate"] = option_text(float(optimizer._calls(self._next_update(keys))))
        if changes:
            self._set("update", "", changes)
        if (optimizer._calls is None) != (self._sent["calls"] is None):
            self._pushed = self._counts_before()
        self._sent = now
        self._watch(True, optimizer._calls is not None)

    def _next_update(self, keys):
        """The number of the update that a push of keys makes."""
        if isinstance(keys, (list, tuple)):
            return max(map(self._next_update, keys), default=self._used.num_update)
        t = self._used.begin_num_update + self._find(keys)["pushes"] - self._pushed.get(keys, 0) + 1
        return max(t, self._used.num_update)

    def _num_update(self, optimizer):
        """The count of an optimizer, if this store uses it."""
        if self.closed or self._used is not optimizer:
            return 0
        return self.describe("optimizer")[0]["num_update"]

    # ---- The job ----

    @property
    def local_rank(self) -> int:
        """The number of this worker among those of its host, from 0: which GPU it takes."""
        workers = [row for row in self._ranks() if row["role"] != "server"]
        before = workers[:self.rank]
        return sum(row["host"] == workers[self.rank]["host"] for row in before) if before else 0

    def get_num_dead_node(self, node_id: int = 0, timeout: float = 60) -> int:
        """How many ranks have been silent for `timeout` seconds, of those of node_id: workers (4), servers (2) and
        schedulers (1, of which there are none), or a sum of these."""
        roles = {"worker": 4, "server": 2, "both": 6}
        return sum(bool(roles[row["role"]] & int(node_id)) and row["heard_ms"] > timeout * 1000 for row in self._ranks())

    def _ranks(self):
        """A row for each rank of the job; none in a store of one process."""
        return self.describe("cluster") if self._is_of_many else []

    @property
    def _is_of_many(self):
        return self.type.startswith("dist") or self.type in ("horovod", "byteps")

    def set_gradient_compression(self, compression_params: dict[str, Any]) -> None:
        """Compresses what is pushed: {"type": "2bit", "threshold": 0.5}, or "1bit", or "none"."""
        if not isinstance(compression_params, dict):
            raise KVError("the parameters of a compression are a dict", "usage", '{"type": "2bit", "threshold": 0.5}')
        return self._set("compression", "", options(compression_params))

    # ---- Files ----

    def save_optimizer_states(self, fname: Union[str, os.PathLike], dump_optimizer: bool = False) -> None:
        """Writes what the optimizer keeps to a safetensors file; with dump_optimizer also its parameters."""
        self._sync()
        self._or_not_capable("states", self._file, "save_optimizer" if dump_optimizer else "save_states", os.fsdecode(fname))

    def load_optimizer_states(self, fname: Union[str, os.PathLike]) -> None:
        """Reads what save_optimizer_states wrote: training goes on as if it had not stopped. A file with an optimizer brings
        its parameters, too: if they are other ones, the object of set_optimizer is no longer in use, and a UserWarning
        says so."""
        self._sync()
        brought = _optimizer_in(fname) if self._used is not None else None
        other = brought is not None and brought != (self._used.name, self._sent["options"])
        self._or_not_capable("states", self._file, "load_states", os.fsdecode(fname))
        if other:
            warnings.warn(f"{fname} has an optimizer of its own: {self._used!r} is no longer in use", UserWarning, 2)
            self._use(None)
        elif self._used is not None:
            self._pushed = self._counts_before()

    def save(self, path: Union[str, os.PathLike], arrays_only: bool = False) -> None:
        """Writes the whole store to a safetensors file, which appears whole or not at all. arrays_only: the keys alone,
        as another tool's file."""
        self._sync()
        self._file("save_arrays" if arrays_only else "save", os.fsdecode(path))

    # ---- Order and others ----

    def barrier(self) -> None:
        """Waits until every worker has called it."""
        self._do("barrier")

    _barrier = barrier

    def done(self) -> None:
        """Says that this worker pushes no more: rounds of the others are complete without it."""
        self._do("done")

    def begin(self) -> None:
        """Opens a transaction: commit() keeps what follows, rollback() takes it back."""
        self._sync()
        self._do("begin")
        self._begun = self._used and (self._used, self._used._mark())

    def commit(self) -> None:
        """Keeps what happened since begin()."""
        self._do("commit")

    def rollback(self) -> None:
        """Puts the store back to where it was at begin(), and the parameters of the optimizer."""
        self._do("rollback")
        optimizer, mark = self._begun or (None, None)
        self._use(optimizer)
        if optimizer is not None:
            optimizer._back(mark)
            self._sent = optimizer._sent()

    # ---- What there is ----

    def info(self) -> Table:
        """A row for each key: key, dtype, shape, ctx, bytes, pushes, pending, stype."""
        return Table(dict(row, ctx=repr(Context(*row["ctx"]))) for row in self._keys())

    def explain(self, call: str, key: Union[int, str], value: Any = None) -> str:
        """What a "push", "pull" or "pushpull" of a key would do, step by step, in words; nothing is changed. kvctl tells it
        of a copy of the store, so one whose updater is a function of Python, or of several machines, is refused."""
        return explain(self, call, key, value)

    def rounds(self) -> int:
        """How often the key that is pushed most was pushed: where a job that begins again from a checkpoint goes on."""
        return max((row["pushes"] for row in self._keys()), default=0)

    def keys(self) -> list[Union[int, str]]:
        """The keys, in the order of updates."""
        return [row["key"] for row in self._keys()]

    def __len__(self) -> int:
        return len(self._keys())

    def __bool__(self):
        return True

    def __iter__(self) -> Iterator[Union[int, str]]:
        return iter(self.keys())

    def __contains__(self, key: Any) -> bool:
        return key in self.keys()

    def __getitem__(self, key: Union[int, str]) -> NDArray:
        """A new array with the value of a key; of bfloat16 in float32, exactly, where ml_dtypes is not installed."""
        about = self._find(key)
        dtype = readable(about["dtype"])
        sparse = about["stype"] == "row_sparse"
        if sparse:
            out = _kvstore.sparse(RowSparseNDArray, about["shape"], dtype, None, b"", b"")
        else:
            out = make(NDArray, about["shape"], dtype, current())
        self.pull(key, out, 0, not sparse)
        return out

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __repr__(self):
        return "<KVStore, closed>" if self.closed else f"<KVStore {self.type}>"

    def _repr_html_(self):
        return f"<p>KVStore <code>{self.type}</code>, worker {self.rank} of {self.num_workers}</p>{self.info()._repr_html_()}"


class _OfType(KVStore):
    """A class of the stores of one type, without updaters and states."""

    __slots__ = ()

    def __new__(cls, **opts):
        return create(cls.__name__, **opts)

    @classmethod
    def _is_capable(cls, capability):
        return create("teststore").is_capable(capability)  # it can the least, as the others of these


class TestStore(_OfType):
    """The type "teststore", which keeps nothing: broadcast copies a value, pushpull sums values."""

    __slots__ = ()
    __test__ = False  # no class of tests, whatever pytest thinks


class Horovod(_OfType):
    """The type "horovod": sums over the ranks of a job, which keeps nothing."""

    __slots__ = ()


class BytePS(_OfType):
    """The type "byteps": sums over the ranks of a job, which keeps nothing."""

    __slots__ = ()


_CLASSES = {cls.__name__.lower(): cls for cls in (TestStore, Horovod, BytePS)}


def _note_alone() -> None:
    rank, workers, joined = _kvstore.job()
    if rank == 0 and workers > 1 and not joined and not hasattr(sys, "last_type"):
        print(f"note: {workers} ranks ran alone: create('dist_sync') joins them", file=sys.stderr)


def create(name: str = "local", **opts: Any) -> KVStore:
    """A new store. name: "local", "device", "nccl", "teststore"; "dist_sync", "dist_async", "dist_device_sync",
    "dist_device_async", "horovod", "byteps" in a job of several ranks; or a registered class, in any case."""
    if not isinstance(name, str):
        raise TypeError("the name of a store type is a str")
    klass = KVStoreBase.kv_registry.get(name.lower())
    if klass:
        return klass(**opts)
    store = _kvstore.create(_CLASSES.get(name.lower(), KVStore), name, {k: option_text(v) for k, v in opts.items()})
    atexit.unregister(_note_alone)
    atexit.register(_note_alone)
    _open.add(store)
    return store


def load(path: Union[str, os.PathLike]) -> KVStore:
    """A store of a file of KVStore.save, with its updater and states, or of the tensors of any safetensors file."""
    store = _kvstore.load(KVStore, os.fsdecode(path))
    _open.add(store)
    return store
