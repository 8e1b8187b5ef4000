"""mx.kvstore.KVStoreBase: what every store has, and classes of Python as store types."""
import warnings

from .errors import KVError


class KVStoreBase:
    """The interface of a store. A class that inherits from it and is registered is a store type."""

    __slots__ = ()
    kv_registry = {}

    def broadcast(self, key, value, out, priority=0):
        """Puts a value under a new key, and the value of rank 0 into `out` everywhere."""
        raise NotImplementedError

    def pushpull(self, key, value, out=None, priority=0):
        """Sums values and writes the result into `out`, or into them."""
        raise NotImplementedError

    def set_optimizer(self, optimizer):
        """Sets the optimizer that makes the step of a push."""
        raise NotImplementedError

    @staticmethod
    def is_capable(capability):
        """Whether the store has a capability, such as "optimizer"."""
        raise NotImplementedError

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Writes what the optimizer keeps to a file."""
        raise NotImplementedError

    def load_optimizer_states(self, fname):
        """Reads what save_optimizer_states wrote."""
        raise NotImplementedError

    @property
    def type(self):
        """The name of the type."""
        raise NotImplementedError

    @property
    def rank(self):
        """The number of this worker, from 0."""
        raise NotImplementedError

    @property
    def num_workers(self):
        """How many workers there are."""
        raise NotImplementedError

    @staticmethod
    def register(klass):
        """Makes a class a store type: create(its name, in any case) makes an instance. For use as a decorator."""
        if not isinstance(klass, type):
            raise KVError(f"{klass!r} is not a class", "usage")
        name = klass.__name__.lower()
        if name in KVStoreBase.kv_registry:
            warnings.warn(f"the store type {name} is another class from now on", stacklevel=2)
        KVStoreBase.kv_registry[name] = klass
        return klass


register = KVStoreBase.register
