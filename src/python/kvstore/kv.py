"""mx.kv and mx.kvstore: stores."""
from . import _kvstore
from .base import KVStoreBase, register
from .errors import KVError
from .store import BytePS, Horovod, KVStore, TestStore, create, load


def rank() -> int:
    """The number of this process among the workers of its job, before any store: of mpirun or kvctl launch; else 0."""
    return _kvstore.job()[0]


def num_workers() -> int:
    """How many workers the job of this process has, before any store; 1 where it is in none."""
    return _kvstore.job()[1]


__all__ = ["KVStore", "KVStoreBase", "TestStore", "Horovod", "BytePS", "KVError", "create", "load", "rank", "num_workers", "register"]


def __dir__():
    return __all__
