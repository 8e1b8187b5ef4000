"""What goes wrong: one class of exceptions, with the fields that the library gives."""


class KVError(RuntimeError):
    """An error of the store. Nothing was changed by the call that raised it, but where an updater that is a function, or a GPU,
    failed in the middle: then other keys may be updated.

    code   a word: "key", "shape", "dtype", "value", "usage", "unsupported", "io", "peer", ...
    text   what is wrong, a sentence
    hint   what to do about it, or ""
    key    the key that it is about, or None
    rank   the rank that it is about, or None
    place  (file, line, column, end) in the text of a rule, or None
    """

    def __init__(self, text, code="value", hint="", key=None, rank=None, place=None):
        super().__init__(text)
        self.text, self.code, self.hint = text, code, hint
        self.key, self.rank, self.place = key, rank, place

    def __str__(self):
        at = ":".join(str(x) for x in self.place[:3] if x != "") + ": " if self.place else ""
        return at + self.text + (f"\nhint: {self.hint}" if self.hint else "")

    def __reduce__(self):
        return type(self), (self.text, self.code, self.hint, self.key, self.rank, self.place)


class NotCapableError(KVError, NotImplementedError):
    """What stores of this type do not do, where MXNet raises NotImplementedError."""


class NoSuchNameError(KVError, ValueError):
    """A name of an optimizer that does not exist, where MXNet raises ValueError."""


class NoSuchDtypeError(KVError, TypeError):
    """A name that is not one of a dtype, where NumPy raises TypeError."""


class NoSuchDeviceError(KVError, KeyError):
    """A name that is not one of a device, where MXNet raises KeyError."""


def no_attribute(o, name, parameters):
    """The exception for an attribute that an object does not have."""
    kind = type(o).__name__
    return AttributeError(f"{kind} has no {name}: its parameters are {', '.join(parameters)}", name=name, obj=o)


class CopyWarning(UserWarning):
    """An array whose elements do not lie one behind the other was copied."""


def log(text):
    """A warning of the library or of kvctl, or a note, which is not a fault."""
    import logging
    is_note = text.startswith("note: ")
    logging.getLogger("kvstore").log(logging.INFO if is_note else logging.WARNING, "%s", text.removeprefix("note: "))
