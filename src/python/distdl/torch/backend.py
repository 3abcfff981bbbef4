# SPDX-License-Identifier: Apache-2.0
"""The backend "distdl" of torch.distributed, for CPU tensors."""
from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import Any, Optional, Sequence

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from ..communicator import Communicator
from ..errors import Error, Misuse
from . import operations
from .engine import Engine
from .meeting import Meeting, meet
from .operations import Operation
from .shared import SharedBuffers

NAME = "distdl"
_SHRINK_FLAGS = 1  # SHRINK_ABORT
_connected: "set[Any]" = set()  # torch keeps the part in C++ alone


def _kind(opts: Any) -> Any:
    return getattr(opts.reduceOp, "op", opts.reduceOp)


class _Done(c10d.Work):
    """An operation that is done. A future takes as long as a small sum: it is made for who asks for it."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self._result = result

    def wait(self, timeout: Any = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    done: Any = None  #: a future of None, or of an exception as a value; None: it is done

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(self._result)
        return future


class _Work(_Done):
    """An operation that goes on. wait() raises its error, which that of torch's work of a future does not."""

    def __init__(self, result: Any, done: Any) -> None:
        super().__init__(result)
        self.done = done
        self._future = done.then(lambda done: _result_of(done, result))

    def wait(self, timeout: Any = None) -> bool:
        error = self.done.wait()
        if error is not None:
            raise error
        self._future.wait()  # gets its value a little later
        return True

    def is_completed(self) -> bool:
        return bool(self._future.done())

    def get_future(self) -> Any:
        return self._future

    def _source_rank(self) -> int:
        return int(self._result.source)


class _Collectives:
    """What torch calls, old versions also without options. Tensors are lists of one, but for coalesced operations.

    An operation that the caller waits for is done when the call returns; others go on in the thread of an Engine. All raise
    PeerLost, or give it to those who wait, if another rank does not answer within the timeout of the process group.
    """

    _keeps_work = True  # whether torch keeps a Work of Python while C++ has it

    _communicator: Optional[Communicator]
    _engine: Engine
    _buffers: SharedBuffers
    _meeting: Meeting
    _timeout: Optional[timedelta]
    _window: "Optional[list[Operation]]" = None  #: operations that are to begin together
    _window_done: Any = None

    def _connect(self, meeting: Meeting, rank: int, size: int) -> None:
        self._meeting = meeting
        self._communicator = meeting.connect(rank, size, self._timeout)
        self._engine = Engine(self._communicator)
        self._buffers = SharedBuffers(self._communicator)
        self._rank, self._size = rank, size
        _connected.add(self)

    @property
    def communicator(self) -> Communicator:
        """The ranks that take part. Raises Misuse before reconfigure() and after shutdown()."""
        if self._communicator is None:
            raise Misuse("the process group is not connected")
        return self._communicator

    def _do(self, todo: "list[Operation]", result: Any, opts: Any = None, goes_on: bool = False) -> Any:
        """goes_on: with all versions of torch the caller goes on before it is done."""
        comm = self.communicator
        if self._window is not None:
            self._window.extend(todo)
            return _Work(result, self._window_done)
        if goes_on or self._is_deferred(opts):
            future: Any = torch.futures.Future()
            self._engine.submit(todo, future)
            return _Work(result, future)
        for operation in todo:
            operations.complete(comm.pointer, operation)
        done = _Done(result)
        return done if self._keeps_work else c10d._create_work_from_future(done.get_future())

    def broadcast(self, tensors: Any, opts: Any) -> Any:
        return self._do([operations.broadcast(tensors[0], opts.rootRank)], tensors, opts)

    def allreduce(self, tensors: Any, opts: Any) -> Any:
        todo = [operations.all_reduce(each, _kind(opts), self._size) for each in tensors]
        bytes_ = tensors[0].numel() * tensors[0].element_size()
        if len(todo) > 1 or todo[0].name != "all_reduce" or self._window is not None:
            return self._do(todo, tensors, opts)
        buffer = self._buffers.reserve(bytes_, self._is_deferred(opts))
        work = self._do([buffer.sum_of(todo[0], tensors[0])] if buffer else todo, tensors, opts)
        if buffer:
            buffer.user = getattr(work, "done", None)  # older versions of torch have waited
        return work

    def _is_deferred(self, opts: Any) -> bool:
        return self._window is not None or (self._keeps_work and bool(getattr(opts, "asyncOp", True)))

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Any, opts: Any) -> Any:
        return self._do([operations.reduce(tensors[0], _kind(opts), opts.rootRank, self._rank, self._size)], tensors, opts)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return self._do([operations.all_gather(outputs[0], inputs[0])], outputs, opts)

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """outputs[r][i]: a tensor for inputs[i] of rank r."""
        todo = [operations.all_gather([each[place] for each in outputs], tensor) for place, tensor in enumerate(inputs)]
        return self._do(todo, outputs, opts)

    def all_gather_single(self, output: Any, tensor: Any, opts: Any = None) -> Any:
        return self._do([operations.all_gather_flat(output, tensor, self._size)], [output], opts)

    def all_gather_single_coalesced(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        todo = [operations.all_gather_flat(output, tensor, self._size) for output, tensor in zip(outputs, inputs)]
        return self._do(todo, outputs, opts)

    def gather(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        return self._do([operations.gather(outputs[0] if outputs else [], inputs[0], opts.rootRank)], outputs, opts)

    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        return self._do([operations.scatter(outputs[0], inputs[0] if inputs else [], opts.rootRank)], outputs, opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        counts = [each.numel() for each in inputs[0]]
        flat = operations.joined(inputs[0])
        return self._do([operations.reduce_scatter(outputs[0], flat, counts, _kind(opts), self._rank)], outputs, opts)

    def _reduce_scatter_flat(self, output: Any, tensor: Any, opts: Any) -> Operation:
        return operations.reduce_scatter(output, tensor, [output.numel()] * self._size, _kind(opts), self._rank)

    def reduce_scatter_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        return self._do([self._reduce_scatter_flat(output, tensor, opts)], [output], opts)

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any) -> Any:
        todo = [self._reduce_scatter_flat(output, tensor, opts) for output, tensor in zip(outputs, inputs)]
        return self._do(todo, outputs, opts)

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        return self._do([operations.all_to_all(outputs, inputs)], outputs, opts)

    def all_to_all_single(self, output: Any, tensor: Any, output_splits: Sequence[int], input_splits: Sequence[int],
                          opts: Any = None) -> Any:
        targets, sources = operations.rows(output, output_splits, self._size), operations.rows(tensor, input_splits, self._size)
        return self._do([operations.all_to_all(targets, sources)], [output], opts)

    def barrier(self, opts: Any = None) -> Any:
        return self._do([operations.barrier()], [], opts)

    def send(self, tensors: Any, to: int, tag: int) -> Any:
        return self._do([operations.send(tensors[0], to, tag)], tensors, goes_on=True)

    def recv(self, tensors: Any, source: int, tag: int) -> Any:
        return self._do([operations.receive(tensors[0], source, tag)], tensors, goes_on=True)

    def recv_anysource(self, tensors: Any, tag: int) -> Any:
        result = operations.Received(tensors)
        return self._do([operations.receive_any(tensors[0], tag, result)], result, goes_on=True)

    def start_coalescing(self) -> None:
        """What is called from now on begins in end_coalescing()."""
        self._window, self._window_done = [], torch.futures.Future()

    def end_coalescing(self) -> Any:
        todo, self._window = self._window or [], None
        try:
            self._engine.submit(todo, self._window_done)
        except Exception as error:
            self._window_done.set_result(error)  # for all who wait for one of the operations
        return _Work([], self._window_done)

    # Names that older versions of torch call.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single
    recvAnysource = recv_anysource

    def abort(self) -> None:
        """Ends what is under way; the operations of the other ranks fail."""
        if self._communicator is not None:
            self._communicator.abort("the process group was aborted")

    def shutdown(self) -> None:
        """Collective, unless a rank was lost: waits until all is done, and disconnects."""
        if self._communicator is not None:
            self._engine.close()
            communicator, self._communicator = self._communicator, None
            _connected.discard(self)
            communicator.close()

    def getBackendName(self) -> str:
        return NAME

    def _set_sequence_number_for_group(self) -> None:
        """Operations have no numbers of torch's."""

    def _get_sequence_number_for_group(self) -> int:
        return 0


class _Recovery(_Collectives):
    """Goes on without lost ranks, or with other ones."""

    supports_shrinking = property(lambda self: True)
    supports_reconfigure = property(lambda self: True)
    # In torch 2.15 an inherited property of these asks this object for it, without end.
    supports_splitting = supports_coalescing = property(lambda self: True)
    supports_window = property(lambda self: False)
    _supports_time_estimate = property(lambda self: False)

    @property
    def options(self) -> Any:
        made: Any = c10d.Backend.Options(NAME)
        if self._timeout is not None:
            made._timeout = self._timeout
        return made

    def split(self, store: Any, ranks: Sequence[int], opts: Any) -> Any:
        """Collective of these ranks. Returns their backend. Raises Misuse on others, where torch 2.15 crashes if it gets none."""
        if self._rank not in ranks:
            raise Misuse(f"rank {self._rank} is in no group of split_ranks: torch needs one for each rank")
        rank, timeout = list(ranks).index(self._rank), getattr(opts, "_timeout", None) or self._timeout
        return Backend(meet(store, rank, len(ranks)), rank, len(ranks), timeout)

    def perform_nocolor_split(self, _device: Any) -> None:
        """Ranks outside a new group have nothing to do."""

    def shrink(self, ranks_to_exclude: Sequence[int], shrink_flags: int = 0, opts_override: Any = None) -> Any:
        """Collective of the other ranks. Returns the backend of these; this one can then only be shut down."""
        left = [rank for rank in range(self._size) if rank not in ranks_to_exclude]
        meeting, timeout = self._meeting, getattr(opts_override, "_timeout", None) or self._timeout
        self._leave()
        return Backend(meeting.after(f"without {sorted(ranks_to_exclude)}"), left.index(self._rank), len(left), timeout)

    def get_reconfigure_handle(self) -> str:
        """Names this process to the others, for reconfigure()."""
        return json.dumps([self._meeting.folder, self._meeting.name, self._rank])

    def reconfigure(self, opts: Any) -> Any:
        """Collective of those with one of opts.handles: from now on they are this group.

        The k-th handle of a list is that of rank k. torch's own rank() and size() of the process group stay as they were.
        """
        handles = list(opts.handles) if isinstance(opts.handles, list) else sorted(opts.handles)
        own = self.get_reconfigure_handle()
        if own not in handles:
            raise Misuse(f"this process's handle {own} is not among those of the new group")
        self._leave()
        if opts.timeout is not None:
            self._timeout = opts.timeout
        folder = json.loads(handles[0])[0]
        name = hashlib.sha256(json.dumps([opts.uuid, handles]).encode()).hexdigest()[:32]
        self._connect(Meeting(folder, name), handles.index(own), len(handles))
        return self._do([operations.barrier()], [])

    def _leave(self) -> None:
        """Leaves the old communicator without the others."""
        if self._communicator is None:
            return
        try:
            self._communicator.abort("the process group is changed")
        except Error:
            pass  # it has failed before
        self.shutdown()


class Backend(_Recovery, getattr(c10d, "Backend", object)):  # type: ignore[misc]  # torch 1.13 has none
    """For torch 2.15 and later, which let Python derive from it."""

    def __init__(self, meeting: Meeting, rank: int, size: int, timeout: Optional[timedelta], connects: bool = True) -> None:
        c10d.Backend.__init__(self, rank, size)
        self._timeout, self._communicator, self._meeting = timeout, None, meeting
        self._rank, self._size = rank, size
        if connects:
            self._connect(meeting, rank, size)

    def set_timeout(self, timeout: timedelta) -> None:
        """Of the next communicator: that of this one is fixed."""
        self._timeout = timeout

    _set_default_timeout = set_timeout


class Group(_Collectives, dist.ProcessGroup):  # type: ignore[misc]
    """For older versions of torch: a whole process group. Its collectives are done when the call returns."""

    _keeps_work = False

    def __init__(self, meeting: Meeting, rank: int, size: int, timeout: Optional[timedelta]) -> None:
        dist.ProcessGroup.__init__(self, rank, size)
        self._timeout, self._name = timeout, ""
        self._connect(meeting, rank, size)

    supports_coalescing = property(lambda self: False)

    def _get_backend(self, _device: Any) -> Any:
        return self

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._size

    def _set_group_name(self, name: str) -> None:
        self._name = name

    setGroupName = _set_group_name

    def getGroupName(self) -> str:
        return self._name

    @property
    def group_name(self) -> Any:
        return self._name


def _result_of(done: Any, result: Any) -> Any:
    error = done.value()
    if error is not None:
        raise error
    return result


def complete_works() -> None:
    """torch 2.15 wraps the Work of a backend in Python: the wrapper knows nothing but the future, so that a loop until
    is_completed() would not end. Here the future answers for it."""
    is_completed, source_rank = c10d.Work.is_completed, c10d.Work._source_rank

    def is_really_completed(work: Any) -> bool:
        if is_completed(work):
            return True
        try:
            return bool(work.get_future().done())
        except RuntimeError:  # one of another backend, without a future
            return False

    def true_source_rank(work: Any) -> int:
        try:
            return int(source_rank(work))
        except RuntimeError:
            received = work.get_future().value()
            if not isinstance(received, operations.Received):
                raise
            return received.source

    setattr(c10d.Work, "is_completed", is_really_completed)
    setattr(c10d.Work, "_source_rank", true_source_rank)


def has_backends() -> bool:
    """Whether Python can derive from torch's Backend."""
    return hasattr(getattr(c10d, "Backend", None), "reconfigure")


def create(options: Any, _backend_options: Any = None) -> Any:
    """Collective: what torch calls for a new process group. options: torch's DistributedBackendOptions."""
    meeting = meet(options.store, options.group_rank, options.group_size)
    connects = not getattr(options, "enable_reconfigure", False)
    if has_backends():
        return Backend(meeting, options.group_rank, options.group_size, options.timeout, connects)
    return Group(meeting, options.group_rank, options.group_size, options.timeout)
