! SPDX-License-Identifier: Apache-2.0
!
! distdl for Fortran: the functions and constants of distdl.h, which says what they do. Compile this file with the program, and link
! libdistdl.so. Guide: docs/c-api.md.
!
! What may be null in C is an optional argument here. Texts end with c_null_char. Arrays are passed as they lie in memory, so
! they must be contiguous; one of an operation with a request needs the attribute "asynchronous" or "target". Fortran's first dimension is C's
! last one: give shape, offset and extent in reverse order, and offsets from 0.
module distdl
  use, intrinsic :: iso_c_binding
  implicit none
  public

  integer(c_int), parameter :: DISTDL_OK = 0, DISTDL_CORRUPT = 2, DISTDL_INCOMPLETE = 3, DISTDL_INCOMPATIBLE = 4, &
      DISTDL_PEER_LOST = 69, DISTDL_INTERNAL = 70, DISTDL_SCHEDULER = 71, DISTDL_SUPERSEDED = 73, &
      DISTDL_STORAGE = 74, DISTDL_REQUEUE = 75, DISTDL_CONFIG = 78, DISTDL_INVALID = 100, DISTDL_STATE = 101, &
      DISTDL_TIMEOUT = 102, DISTDL_NO_MEMORY = 103, DISTDL_NOT_FOUND = 104, DISTDL_BUSY = 105, DISTDL_U8 = 0, &
      DISTDL_F32 = 1, DISTDL_F64 = 2, DISTDL_F16 = 3, DISTDL_BF16 = 4, DISTDL_I32 = 5, DISTDL_I64 = 6, &
      DISTDL_I8 = 7, DISTDL_I16 = 8, DISTDL_BOOL = 9, DISTDL_C64 = 10, DISTDL_C128 = 11, &
      DISTDL_SUM = 0, DISTDL_MAX = 1, DISTDL_MIN = 2, DISTDL_AVERAGE = 3, DISTDL_NOW = 1, DISTDL_BESIDE = 2, &
      DISTDL_SNAPSHOT = 3

  type, bind(c) :: distdl_outcome
    integer(c_size_t) :: size = 48  ! storage_size(distdl_outcome) / 8
    integer(c_int64_t) :: step = 0, bytes = 0
    real(c_double) :: stall_seconds = 0, durable_seconds = 0
    integer(c_int) :: code = 0, is_checkpoint = 0
  end type

  interface
    type(c_ptr) function distdl_version() bind(c); import
    end function
    type(c_ptr) function distdl_code_name(code) bind(c); import
      integer(c_int), value :: code
    end function
    type(c_ptr) function distdl_error_text() bind(c); import
    end function
    integer(c_int) function distdl_error_exit_code() bind(c); import
    end function
    integer(c_size_t) function distdl_type_size(type) bind(c); import
      integer(c_int), value :: type
    end function
    integer(c_int) function distdl_started(started) bind(c); import
      integer(c_int), intent(out) :: started
    end function
    integer(c_int) function distdl_should_stop(stop) bind(c); import
      integer(c_int), intent(out) :: stop
    end function
    integer(c_int) function distdl_progress(step, steps) bind(c); import
      integer(c_int64_t), value :: step, steps
    end function
    integer(c_int) function distdl_progress_with(step, steps, count, names, values) bind(c); import
      integer(c_int64_t), value :: step, steps
      integer(c_size_t), value :: count
      type(c_ptr), dimension(*), intent(in) :: names
      real(c_double), dimension(*), intent(in) :: values
    end function
    integer(c_int) function distdl_saved(step, seconds) bind(c); import
      integer(c_int64_t), value :: step
      real(c_double), value :: seconds
    end function
    integer(c_int) function distdl_finished() bind(c); import
    end function
    integer(c_int) function distdl_seconds_left(seconds) bind(c); import
      real(c_double), intent(out) :: seconds
    end function
    integer(c_int) function distdl_comm_create(options, comm) bind(c); import
      character(kind=c_char), dimension(*), intent(in), optional :: options
      type(c_ptr), intent(out) :: comm
    end function
    integer(c_int) function distdl_comm_create_folder(folder, id, rank, size, options, comm) bind(c); import
      character(kind=c_char), dimension(*), intent(in) :: folder, id
      integer(c_int), value :: rank, size
      character(kind=c_char), dimension(*), intent(in), optional :: options
      type(c_ptr), intent(out) :: comm
    end function
    integer(c_int) function distdl_comm_create_exchange(exchange, context, rank, size, options, comm) bind(c); import
      type(c_funptr), value :: exchange
      type(c_ptr), value :: context
      integer(c_int), value :: rank, size
      character(kind=c_char), dimension(*), intent(in), optional :: options
      type(c_ptr), intent(out) :: comm
    end function
    integer(c_int) function distdl_comm_split(comm, color, key, part) bind(c); import
      type(c_ptr), value :: comm
      integer(c_int), value :: color, key
      type(c_ptr), intent(out) :: part
    end function
    integer(c_int) function distdl_comm_close(comm) bind(c); import
      type(c_ptr), value :: comm
    end function
    integer(c_int) function distdl_comm_abort(comm, code, reason) bind(c); import
      type(c_ptr), value :: comm
      integer(c_int), value :: code
      character(kind=c_char), dimension(*), intent(in) :: reason
    end function
    integer(c_int) function distdl_comm_rank(comm, rank) bind(c); import
      type(c_ptr), value :: comm
      integer(c_int), intent(out) :: rank
    end function
    integer(c_int) function distdl_comm_size(comm, size) bind(c); import
      type(c_ptr), value :: comm
      integer(c_int), intent(out) :: size
    end function
    integer(c_int) function distdl_comm_host(comm, rank, host) bind(c); import
      type(c_ptr), value :: comm
      integer(c_int), value :: rank
      type(c_ptr), intent(out) :: host
    end function
    integer(c_int) function distdl_comm_local_rank(comm, local_rank, local_size) bind(c); import
      type(c_ptr), value :: comm
      integer(c_int), intent(out), optional :: local_rank, local_size
    end function
    integer(c_int) function distdl_comm_allocate(comm, bytes, memory) bind(c); import
      type(c_ptr), value :: comm
      integer(c_size_t), value :: bytes
      type(c_ptr), intent(out) :: memory
    end function
    integer(c_int) function distdl_comm_free(comm, memory) bind(c); import
      type(c_ptr), value :: comm, memory
    end function
    integer(c_int) function distdl_wait(request, seconds) bind(c); import
      type(c_ptr), intent(inout) :: request
      real(c_double), value :: seconds
    end function
    integer(c_int) function distdl_test(request, done) bind(c); import
      type(c_ptr), intent(inout) :: request
      integer(c_int), intent(out) :: done
    end function
    integer(c_int) function distdl_cancel(request) bind(c); import
      type(c_ptr), intent(inout) :: request
    end function
    integer(c_int) function distdl_barrier(comm, request) bind(c); import
      type(c_ptr), value :: comm
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_broadcast(comm, values, count, type, root, request) bind(c); import
      type(c_ptr), value :: comm
      type(*), dimension(*), optional :: values
      integer(c_size_t), value :: count
      integer(c_int), value :: type, root
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_reduce(comm, values, result, count, type, reduction, root, request) bind(c); import
      type(c_ptr), value :: comm
      type(*), dimension(*), intent(in), optional :: values
      type(*), dimension(*), optional :: result
      integer(c_size_t), value :: count
      integer(c_int), value :: type, reduction, root
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_all_reduce(comm, values, result, count, type, reduction, request) bind(c); import
      type(c_ptr), value :: comm
      type(*), dimension(*), intent(in), optional :: values
      type(*), dimension(*), optional :: result
      integer(c_size_t), value :: count
      integer(c_int), value :: type, reduction
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_reduce_scatter(comm, values, result, count, counts, type, reduction, request) bind(c); import
      type(c_ptr), value :: comm
      type(*), dimension(*), intent(in), optional :: values
      type(*), dimension(*), optional :: result
      integer(c_size_t), value :: count
      integer(c_size_t), dimension(*), intent(in), optional :: counts
      integer(c_int), value :: type, reduction
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_all_gather(comm, values, result, count, counts, type, request) bind(c); import
      type(c_ptr), value :: comm
      type(*), dimension(*), intent(in), optional :: values
      type(*), dimension(*), optional :: result
      integer(c_size_t), value :: count
      integer(c_size_t), dimension(*), intent(in), optional :: counts
      integer(c_int), value :: type
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_gather(comm, values, result, count, counts, type, root, request) bind(c); import
      type(c_ptr), value :: comm
      type(*), dimension(*), intent(in), optional :: values
      type(*), dimension(*), optional :: result
      integer(c_size_t), value :: count
      integer(c_size_t), dimension(*), intent(in), optional :: counts
      integer(c_int), value :: type, root
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_scatter(comm, values, result, count, counts, type, root, request) bind(c); import
      type(c_ptr), value :: comm
      type(*), dimension(*), intent(in), optional :: values
      type(*), dimension(*), optional :: result
      integer(c_size_t), value :: count
      integer(c_size_t), dimension(*), intent(in), optional :: counts
      integer(c_int), value :: type, root
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_all_to_all(comm, values, result, count, &
        send_counts, receive_counts, type, request) bind(c); import
      type(c_ptr), value :: comm
      type(*), dimension(*), intent(in), optional :: values
      type(*), dimension(*), optional :: result
      integer(c_size_t), value :: count
      integer(c_size_t), dimension(*), intent(in), optional :: send_counts, receive_counts
      integer(c_int), value :: type
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_send(comm, data, bytes, to, tag, request) bind(c); import
      type(c_ptr), value :: comm
      type(*), dimension(*), intent(in) :: data
      integer(c_size_t), value :: bytes
      integer(c_int), value :: to, tag
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_receive(comm, data, bytes, from, tag, request) bind(c); import
      type(c_ptr), value :: comm
      type(*), dimension(*) :: data
      integer(c_size_t), value :: bytes
      integer(c_int), value :: from, tag
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_receive_any(comm, data, bytes, tag, from, request) bind(c); import
      type(c_ptr), value :: comm
      type(*), dimension(*) :: data
      integer(c_size_t), value :: bytes
      integer(c_int), value :: tag
      integer(c_int), optional :: from
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_sum_create(comm, count, type, reduction, leaves, first, own, sum) bind(c); import
      type(c_ptr), value :: comm
      integer(c_size_t), value :: count
      integer(c_int), value :: type, reduction, leaves, first, own
      type(c_ptr), intent(out) :: sum
    end function
    integer(c_int) function distdl_sum_leaves(sum, first, own) bind(c); import
      type(c_ptr), value :: sum
      integer(c_int), intent(out), optional :: first, own
    end function
    integer(c_int) function distdl_sum_add(sum, values) bind(c); import
      type(c_ptr), value :: sum
      type(*), dimension(*), intent(in) :: values
    end function
    integer(c_int) function distdl_sum_all_reduce(sum, result, request) bind(c); import
      type(c_ptr), value :: sum
      type(*), dimension(*), optional :: result
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_sum_reduce_scatter(sum, result, counts, request) bind(c); import
      type(c_ptr), value :: sum
      type(*), dimension(*), optional :: result
      integer(c_size_t), dimension(*), intent(in), optional :: counts
      type(c_ptr), intent(inout), optional :: request
    end function
    integer(c_int) function distdl_sum_close(sum) bind(c); import
      type(c_ptr), value :: sum
    end function
    integer(c_int) function distdl_store_open(folder, comm, options, store) bind(c); import
      character(kind=c_char), dimension(*), intent(in), optional :: folder, options
      type(c_ptr), value :: comm
      type(c_ptr), intent(out) :: store
    end function
    integer(c_int) function distdl_store_close(store) bind(c); import
      type(c_ptr), value :: store
    end function
    integer(c_int) function distdl_store_due(store, step, how) bind(c); import
      type(c_ptr), value :: store
      integer(c_int64_t), value :: step
      integer(c_int), intent(out) :: how
    end function
    integer(c_int) function distdl_store_steps(store, steps, capacity, count) bind(c); import
      type(c_ptr), value :: store
      integer(c_int64_t), dimension(*), intent(out) :: steps
      integer(c_size_t), value :: capacity
      integer(c_size_t), intent(out) :: count
    end function
    integer(c_int) function distdl_store_wait(store) bind(c); import
      type(c_ptr), value :: store
    end function
    integer(c_int) function distdl_store_busy(store, busy) bind(c); import
      type(c_ptr), value :: store
      integer(c_int), intent(out) :: busy
    end function
    integer(c_int) function distdl_store_outcome(store, outcome) bind(c); import
      type(c_ptr), value :: store
      type(distdl_outcome), intent(inout) :: outcome
    end function
    integer(c_int) function distdl_save_begin(store, step, save) bind(c); import
      type(c_ptr), value :: store
      integer(c_int64_t), value :: step
      type(c_ptr), intent(out) :: save
    end function
    integer(c_int) function distdl_save_add(save, name, type, dimensions, shape, offset, extent, data) bind(c); import
      type(c_ptr), value :: save
      character(kind=c_char), dimension(*), intent(in) :: name
      integer(c_int), value :: type, dimensions
      integer(c_int64_t), dimension(*), intent(in), optional :: shape, offset, extent
      type(*), dimension(*), intent(in) :: data
    end function
    integer(c_int) function distdl_save_add_replicated(save, name, type, dimensions, shape, data) bind(c); import
      type(c_ptr), value :: save
      character(kind=c_char), dimension(*), intent(in) :: name
      integer(c_int), value :: type, dimensions
      integer(c_int64_t), dimension(*), intent(in), optional :: shape
      type(*), dimension(*), intent(in) :: data
    end function
    integer(c_int) function distdl_save_add_bytes(save, name, bytes, count) bind(c); import
      type(c_ptr), value :: save
      character(kind=c_char), dimension(*), intent(in) :: name
      type(*), dimension(*), intent(in) :: bytes
      integer(c_size_t), value :: count
    end function
    integer(c_int) function distdl_save_commit(save, how) bind(c); import
      type(c_ptr), value :: save
      integer(c_int), value :: how
    end function
    integer(c_int) function distdl_save_discard(save) bind(c); import
      type(c_ptr), value :: save
    end function
    integer(c_int) function distdl_save_prepare(save) bind(c); import
      type(c_ptr), value :: save
    end function
    integer(c_int) function distdl_load_begin(store, before, load) bind(c); import
      type(c_ptr), value :: store
      integer(c_int64_t), value :: before
      type(c_ptr), intent(out) :: load
    end function
    integer(c_int) function distdl_load_open(folder, step, load) bind(c); import
      character(kind=c_char), dimension(*), intent(in), optional :: folder
      integer(c_int64_t), value :: step
      type(c_ptr), intent(out) :: load
    end function
    integer(c_int) function distdl_load_step(load, step) bind(c); import
      type(c_ptr), value :: load
      integer(c_int64_t), intent(out) :: step
    end function
    integer(c_int) function distdl_load_source(load, source) bind(c); import
      type(c_ptr), value :: load
      type(c_ptr), intent(out) :: source
    end function
    integer(c_int) function distdl_load_count(load, count) bind(c); import
      type(c_ptr), value :: load
      integer(c_size_t), intent(out) :: count
    end function
    integer(c_int) function distdl_load_array(load, number, name, type, dimensions, shape, capacity) bind(c); import
      type(c_ptr), value :: load
      integer(c_size_t), value :: number
      type(c_ptr), intent(out), optional :: name
      integer(c_int), intent(out), optional :: type, dimensions
      integer(c_int64_t), dimension(*), intent(out), optional :: shape
      integer(c_int), value :: capacity
    end function
    integer(c_int) function distdl_load_find(load, name, number) bind(c); import
      type(c_ptr), value :: load
      character(kind=c_char), dimension(*), intent(in) :: name
      integer(c_size_t), intent(out) :: number
    end function
    integer(c_int) function distdl_load_add(load, name, type, offset, extent, data) bind(c); import
      type(c_ptr), value :: load
      character(kind=c_char), dimension(*), intent(in) :: name
      integer(c_int), value :: type
      integer(c_int64_t), dimension(*), intent(in), optional :: offset, extent
      type(*), dimension(*) :: data
    end function
    integer(c_int) function distdl_load_read(load) bind(c); import
      type(c_ptr), value :: load
    end function
    integer(c_int) function distdl_load_close(load) bind(c); import
      type(c_ptr), value :: load
    end function
  end interface

contains

  ! A text of C, such as that of distdl_comm_host().
  function distdl_text(text) result(copy)
    type(c_ptr), intent(in) :: text
    character(len=:), allocatable :: copy
    character(kind=c_char), pointer :: letters(:)
    integer :: length, i
    interface
      integer(c_size_t) function c_strlen(text) bind(c, name="strlen")
        import
        type(c_ptr), value :: text
      end function
    end interface
    length = 0
    if (c_associated(text)) length = int(c_strlen(text))
    allocate(character(len=length) :: copy)
    if (length == 0) return
    call c_f_pointer(text, letters, [length])
    do i = 1, length
      copy(i:i) = letters(i)
    end do
  end function

  ! What went wrong in the last call that failed.
  function distdl_error() result(text)
    character(len=:), allocatable :: text
    text = distdl_text(distdl_error_text())
  end function

end module
