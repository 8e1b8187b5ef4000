"""mx.kv and mx.kvstore: stores."""
from .base import KVStoreBase, register
from .errors import KVError
from .store import BytePS, Horovod, KVStore, TestStore, create, load

__all__ = ["KVStore", "KVStoreBase", "TestStore", "Horovod", "BytePS", "KVError", "create", "load", "register"]
