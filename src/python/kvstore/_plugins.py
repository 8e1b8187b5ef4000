"""Where plugins are: beside the library, else where the Debian package has put them."""
import os
import sysconfig

_here = os.path.dirname(os.path.abspath(__file__))
_places = [os.path.join("/usr/lib", sysconfig.get_config_var("MULTIARCH") or ""), "/usr/local/lib"]

if os.path.exists(os.path.join(_here, "libkvstore.so.0")):  # a wheel, which has no plugins
    _found = [p for p in _places if any(os.path.exists(os.path.join(p, f"kvstore_{x}.so")) for x in ("mpi", "cuda"))]
    os.environ["KVSTORE_PLUGINS"] = ":".join(filter(None, [os.environ.get("KVSTORE_PLUGINS"), *_found]))
