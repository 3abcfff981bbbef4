# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: one class for each reaction of a program."""
from __future__ import annotations


class Error(RuntimeError):
    """An error that libdistdl.so has told.

    exit_code: the code with which a program ends because of it, by which "distdl run" decides how to go on.
    """

    exit_code: int = 70


class PeerLost(Error):
    """Another rank ended, froze or cannot be reached. The communicator can only be closed."""


class Corrupt(Error):
    """A checkpoint is damaged, or files of it are missing."""


class Incompatible(Error):
    """Arrays do not form a whole one, or are not those of the checkpoint."""


class SchedulerError(Error):
    """The ranks did not find each other."""


class Superseded(Error):
    """Another start has taken the folder: this process must end."""


class StorageError(Error):
    """The file system refused; a later try may succeed."""


class ConfigError(Error, ValueError):
    """Options or variables are wrong, or a limit of the process is too low."""


class Misuse(Error, ValueError):
    """An argument is wrong, or the call does not fit to earlier ones."""


class Timeout(Error, TimeoutError):
    """An operation is not done yet. It goes on."""


class NotFound(Error, LookupError):
    """There is no checkpoint yet, or no array of that name."""


class Busy(Error):
    """A save is still being written, so this one was left out."""


class LibraryNotFound(Error, ImportError):
    """libdistdl.so cannot be loaded."""

    exit_code = 78


BY_CODE: dict[int, type[Error]] = {
    2: Corrupt,
    3: Corrupt,
    4: Incompatible,
    69: PeerLost,
    71: SchedulerError,
    73: Superseded,
    74: StorageError,
    78: ConfigError,
    100: Misuse,
    101: Misuse,
    102: Timeout,
    104: NotFound,
    105: Busy,
}
