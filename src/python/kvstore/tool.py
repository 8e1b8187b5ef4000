"""kvctl, the tool beside the library, which works on checkpoints and draws: run with --json, whose records are read."""
import functools
import json
import os
import shutil
import subprocess
import sysconfig

from .errors import KVError, log

_HERE = os.path.dirname(os.path.abspath(__file__))
_WORDS = {1: "assert", 2: "usage", 3: "value", 4: "unsupported", 5: "io", 6: "timeout"}


@functools.cache
def path():
    """The kvctl of this build or installation, else the one on $PATH, if it has the version of the module."""
    from . import _kvstore
    library = os.path.dirname(os.path.abspath(_kvstore.__file__))
    places = [os.path.join(library, at, "kvctl") for at in ("../..", "../../../../bin", "../bin")]
    places.append(os.path.join(sysconfig.get_path("scripts"), "kvctl"))
    found = next((os.path.normpath(p) for p in places if os.access(p, os.X_OK) and os.path.isfile(p)), shutil.which("kvctl"))
    if not found:
        raise KVError("there is no kvctl, which works on checkpoints", "unsupported",
                      "make install and a wheel put it beside the module, else $PATH finds one")
    version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout.split()
    version = version[1].rstrip(",") if len(version) > 1 else "?"
    if version != _kvstore.version:
        raise KVError(f"{found} is kvctl {version}, and this module is {_kvstore.version}", "unsupported",
                      "make install and a wheel put the right one beside the module")
    return found


def word(value):
    """A word of a command line for a value of Python."""
    value = value.tolist() if hasattr(value, "tolist") else value  # of NumPy
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(word, value))
    if isinstance(value, float):
        return repr(value)
    text = os.fspath(value) if hasattr(value, "__fspath__") else str(value)
    return "./" + text if text.startswith("-") else text


def options(params):
    """--name value, of parameters; True stands for a flag, and None is left out."""
    words = []
    for name, value in params.items():
        option = "--" + name.replace("_", "-")
        value = value.tolist() if hasattr(value, "tolist") else value
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            words += [option, repr(value) if isinstance(value, (int, float)) else word(value)]
    return words


def run(*words, answers=False, cwd=None):
    """Runs a command of kvctl and gives its record, the last line. answers: an exit status of 1 is the answer no. Notes and
    warnings of it go where those of the library go."""
    done = subprocess.run([path(), "--json", *words], capture_output=True, text=True, cwd=cwd, stdin=subprocess.DEVNULL)
    lines = done.stdout.splitlines()
    record = json.loads(lines[-1]) if lines else {}
    for line in done.stderr.splitlines():
        where, is_warning, what = line.partition(" warning: ")
        if line.startswith("note: ") or (is_warning and where.startswith("<cmd>:")):
            log(what if is_warning else line)
    if done.returncode == 0 or (answers and done.returncode == 1):
        return record
    error = record.get("error") or {}
    text = error.get("message") or done.stderr.strip() or f"kvctl ended with exit status {done.returncode}"
    raise KVError(text, error.get("code") or _WORDS.get(done.returncode, "internal"), error.get("hint") or "")
