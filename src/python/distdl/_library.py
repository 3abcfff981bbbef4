# SPDX-License-Identifier: Apache-2.0
"""libdistdl.so by ctypes: where it is, its functions, and its codes as exceptions."""
from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from typing import Any

from ._version import VERSION
from .errors import BY_CODE, Error, LibraryNotFound

_INTERFACE = VERSION.split(".")[:2]  # of the functions: a patch version changes none
NAME = "libdistdl.so." + ".".join(_INTERFACE)
VARIABLE = "DISTDL_LIBRARY"
U8, F32, F64, F16, BF16, I32, I64, I8, I16, BOOL, C64, C128 = range(12)
SUM, MAX, MIN, AVERAGE = range(4)
NOW, BESIDE, SNAPSHOT = 1, 2, 3


class Outcome(ctypes.Structure):
    """distdl_outcome."""

    _fields_ = [("size", c_size_t), ("step", c_int64), ("bytes", c_int64), ("stall_seconds", c_double),
                ("durable_seconds", c_double), ("code", c_int), ("is_checkpoint", c_int)]


#: distdl_exchange: context, mine, bytes, all.
Exchange = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)

_handle_out = POINTER(c_void_p)
_ints, _sizes = POINTER(c_int64), POINTER(c_size_t)
_operation_end = [c_int, c_void_p]  # type, request

# The arguments of each function that returns a code. Requests and memory are addresses.
_FUNCTIONS: dict[str, list[Any]] = {
    "started": [POINTER(c_int)],
    "should_stop": [POINTER(c_int)],
    "progress_with": [c_int64, c_int64, c_size_t, POINTER(c_char_p), POINTER(c_double)],
    "saved": [c_int64, c_double],
    "finished": [],
    "seconds_left": [POINTER(c_double)],
    "comm_create": [c_char_p, _handle_out],
    "comm_create_folder": [c_char_p, c_char_p, c_int, c_int, c_char_p, _handle_out],
    "comm_create_exchange": [Exchange, c_void_p, c_int, c_int, c_char_p, _handle_out],
    "comm_split": [c_void_p, c_int, c_int, _handle_out],
    "comm_close": [c_void_p],
    "comm_abort": [c_void_p, c_int, c_char_p],
    "comm_rank": [c_void_p, POINTER(c_int)],
    "comm_size": [c_void_p, POINTER(c_int)],
    "comm_host": [c_void_p, c_int, POINTER(c_char_p)],
    "comm_local_rank": [c_void_p, POINTER(c_int), POINTER(c_int)],
    "comm_allocate": [c_void_p, c_size_t, _handle_out],
    "comm_free": [c_void_p, c_void_p],
    "wait": [_handle_out, c_double],
    "test": [_handle_out, POINTER(c_int)],
    "cancel": [_handle_out],
    "barrier": [c_void_p, c_void_p],
    "broadcast": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p],
    "reduce": [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p],
    "all_reduce": [c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p],
    "reduce_scatter": [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_int, c_int, c_void_p],
    "all_gather": [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_int, c_void_p],
    "gather": [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_int, c_int, c_void_p],
    "scatter": [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_int, c_int, c_void_p],
    "all_to_all": [c_void_p, c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_int, c_void_p],
    "send": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p],
    "receive": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p],
    "receive_any": [c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p],
    "sum_create": [c_void_p, c_size_t, c_int, c_int, c_int, c_int, c_int, _handle_out],
    "sum_leaves": [c_void_p, POINTER(c_int), POINTER(c_int)],
    "sum_add": [c_void_p, c_void_p],
    "sum_all_reduce": [c_void_p, c_void_p, c_void_p],
    "sum_reduce_scatter": [c_void_p, c_void_p, c_void_p, c_void_p],
    "sum_close": [c_void_p],
    "store_open": [c_char_p, c_void_p, c_char_p, _handle_out],
    "store_close": [c_void_p],
    "store_due": [c_void_p, c_int64, POINTER(c_int)],
    "store_steps": [c_void_p, _ints, c_size_t, _sizes],
    "store_wait": [c_void_p],
    "store_busy": [c_void_p, POINTER(c_int)],
    "store_outcome": [c_void_p, POINTER(Outcome)],
    "save_begin": [c_void_p, c_int64, _handle_out],
    "save_add": [c_void_p, c_char_p, c_int, c_int, _ints, _ints, _ints, c_void_p],
    "save_add_replicated": [c_void_p, c_char_p, c_int, c_int, _ints, c_void_p],
    "save_add_bytes": [c_void_p, c_char_p, c_char_p, c_size_t],
    "save_commit": [c_void_p, c_int],
    "save_discard": [c_void_p],
    "save_prepare": [c_void_p],
    "load_begin": [c_void_p, c_int64, _handle_out],
    "load_open": [c_char_p, c_int64, _handle_out],
    "load_step": [c_void_p, _ints],
    "load_count": [c_void_p, _sizes],
    "load_array": [c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_int), POINTER(c_int), _ints, c_int],
    "load_find": [c_void_p, c_char_p, _sizes],
    "load_add": [c_void_p, c_char_p, c_int, _ints, _ints, c_void_p],
    "load_read": [c_void_p],
    "load_close": [c_void_p],
}


class Library:
    """The functions of libdistdl.so without the prefix "distdl_". They raise an Error in place of returning a code."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._cdll = ctypes.CDLL(path)
        self._cdll.distdl_version.restype = c_char_p
        if self.version().split(".")[:2] != _INTERFACE:
            raise LibraryNotFound(f"{path} is of distdl {self.version()}, this Python package of distdl {VERSION}: install both of "
                                  f"one version, or set {VARIABLE} to the path of {NAME}")
        self._cdll.distdl_error_text.restype = c_char_p
        for name, arguments in _FUNCTIONS.items():
            function = getattr(self._cdll, "distdl_" + name)
            function.argtypes = arguments
            function.errcheck = self._check
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:  # the functions, for type checkers
        raise AttributeError(name)

    def version(self) -> str:
        return str(self._cdll.distdl_version().decode())

    def _check(self, code: int, _function: Any, _arguments: Any) -> None:
        if code == 0:
            return
        error = BY_CODE.get(code, Error)(self._cdll.distdl_error_text().decode(errors="replace"))
        error.exit_code = self._cdll.distdl_error_exit_code()
        raise error


def candidates() -> list[str]:
    """Where the library is looked for: $DISTDL_LIBRARY alone; or in the package, as a wheel has it, in the prefix into which CMake
    has installed the package, and on the loader's path."""
    if VARIABLE in os.environ:
        return [os.environ[VARIABLE]]
    package = pathlib.Path(__file__).resolve().parent
    places = [package / "lib" / NAME]
    if (package / "library_path").exists():
        places.append(package / (package / "library_path").read_text().strip())
    return [*(str(place.resolve()) for place in places if place.exists()), NAME]


@functools.lru_cache(maxsize=None)
def library() -> Library:
    """The library, loaded once. Raises LibraryNotFound."""
    failures = []
    for path in candidates():
        try:
            return Library(path)
        except (OSError, AttributeError) as error:
            failures.append(str(error))
    raise LibraryNotFound(f"cannot load {NAME} ({'; '.join(failures)}): install distdl, or set {VARIABLE} to the path of the library")


def handle(function: Any, *arguments: Any) -> c_void_p:
    """Calls a function that writes a new handle to its last argument."""
    made = c_void_p()
    function(*arguments, ctypes.byref(made))
    return made


def number(function: Any, *arguments: Any, kind: Any = c_int) -> Any:
    """Calls a function that writes a number to its last argument."""
    value = kind()
    function(*arguments, ctypes.byref(value))
    return value.value


def int64s(values: Any) -> Any:
    """An array of int64_t, or null for None."""
    return None if values is None else (c_int64 * len(values))(*values)


def sizes(values: Any) -> Any:
    """An array of size_t, or null for None."""
    return None if values is None else (c_size_t * len(values))(*values)
