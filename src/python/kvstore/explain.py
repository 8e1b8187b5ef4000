"""What a call would do, step by step, as kvctl's `explain` tells it of a copy of the store."""
import json
import os
import tempfile

import numpy

from . import tool
from .array import NDArray
from .errors import KVError


def explain(store, call, key, value=None):
    """The text for a push, pull or pushpull of one key; nothing is changed."""
    if call not in ("push", "pull", "pushpull"):
        raise KVError(f'"{call}" is not explained', "usage", "push, pull and pushpull are")
    if (value is None) != (call == "pull"):
        raise KVError(f"explain({call!r}, key) " + ("takes no value" if call == "pull" else "needs a value"), "usage")
    word = json.dumps(key) if isinstance(key, str) else str(int(key))
    with tempfile.TemporaryDirectory() as folder:
        store.save(os.path.join(folder, "store.kvs"))
        text = f"explain {call} {word}"
        if value is not None:
            values = value if isinstance(value, (list, tuple)) else [value]
            names = [_write(folder, i, v) for i, v in enumerate(values)]
            text = "; ".join(f"a{i} = {name}" for i, name in enumerate(names)) + \
                f"; {text} [{', '.join(f'a{i}' for i in range(len(names)))}]"
        return "\n".join(tool.run("-s", "store.kvs", "-c", text, cwd=folder)["out"])


def _write(folder, i, value):
    """A file with the elements; as kvctl reads it, with the context."""
    if isinstance(value, NDArray) and value.stype != "default":
        raise KVError("explain() takes no row_sparse values", "unsupported")
    array = value.astype("float32") if getattr(value, "_dtype", "") == "bfloat16" else value
    numpy.save(os.path.join(folder, f"a{i}.npy"), numpy.asarray(array))
    return f"@a{i}.npy" + (f"@{value.context}" if isinstance(value, NDArray) else "")
