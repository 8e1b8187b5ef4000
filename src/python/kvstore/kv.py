"""mx.kv and mx.kvstore: stores."""
from .base import KVStoreBase, register
from .errors import KVError
from .store import KVStore, create, load

__all__ = ["KVStore", "KVStoreBase", "KVError", "create", "load", "register"]
