"""python -m kvstore WORD…: kvctl."""
import os
import sys

from .tool import path

os.execv(path(), ["kvctl", *sys.argv[1:]])
