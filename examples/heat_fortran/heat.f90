! SPDX-License-Identifier: Apache-2.0
! Heat spreads in a square plate whose edges keep their temperature, the first column at 100 degrees, the others at 0. Each rank has
! some columns. Whatever interrupts the run, it resumes from its last checkpoint, on any number of ranks, with the same bytes.
!   distdl run -- build/heat_fortran [FOLDER [SIZE [STEPS [STEPS_BETWEEN_CHECKPOINTS]]]]
!   srun --mpi=pmix build/heat_fortran FOLDER
program heat
  use, intrinsic :: iso_fortran_env, only: error_unit
  use distdl
  implicit none
  type(c_ptr) :: comm, store
  integer(c_int) :: rank, ranks, stops = 0
  integer(c_int64_t) :: plate, steps, save_every, step, first, last
  integer :: n
  character(len=4096) :: folder
  real(c_double), allocatable, asynchronous :: now(:, :)
  real(c_double), allocatable :: next(:, :)

  call check(distdl_comm_create(comm=comm))
  call check(distdl_comm_rank(comm, rank))
  call check(distdl_comm_size(comm, ranks))
  plate = number(2, 512)
  steps = number(3, 5000)
  save_every = number(4, 1000)
  call get_command_argument(1, folder)
  if (folder == '') then
    call check(distdl_store_open(comm=comm, store=store))  ! in the run folder of distdl run
  else
    call check(distdl_store_open(trim(folder)//c_null_char, comm, store=store))
  end if

  n = int(plate)
  first = plate * rank / ranks + 1
  last = plate * (rank + 1) / ranks
  allocate(now(n, first - 1:last + 1), next(n, first - 1:last + 1))  ! with a column of each neighbour
  now = 0
  if (rank == 0) now(:, 1) = 100
  step = loaded()
  if (rank == 0) print '(i0, a, i0, a, i0)', ranks, ' ranks, from step ', step, ' of ', steps
  do while (step < steps .and. stops == 0)
    call advance()
    step = step + 1
    call check(distdl_progress(step, steps))
    call check(distdl_should_stop(stops))  ! the same answer on all ranks
    if (mod(step, save_every) == 0 .or. step == steps .or. stops /= 0) call save()
  end do
  if (step == steps) call check(distdl_finished())
  call check(distdl_store_close(store))
  call check(distdl_comm_close(comm))
  if (step < steps) stop DISTDL_REQUEUE, quiet=.true.

contains

  subroutine advance()
    integer(c_int64_t) :: j
    integer :: i
    type(c_ptr) :: requests(4)
    requests = c_null_ptr
    if (rank > 0) call trade(rank - 1, now(:, first), now(:, first - 1), requests(1:2))
    if (rank < ranks - 1) call trade(rank + 1, now(:, last), now(:, last + 1), requests(3:4))
    do i = 1, 4
      call check(distdl_wait(requests(i), -1.0_c_double))
    end do
    next = now
    do j = max(first, 2_c_int64_t), min(last, plate - 1)
      next(2:n - 1, j) = now(2:n - 1, j) + 0.2d0 * (now(1:n - 2, j) + now(3:n, j) + now(2:n - 1, j - 1) &
          + now(2:n - 1, j + 1) - 4 * now(2:n - 1, j))
    end do
    now = next
  end subroutine

  subroutine trade(neighbour, mine, theirs, requests)
    integer(c_int), intent(in) :: neighbour
    real(c_double), contiguous, asynchronous :: mine(:), theirs(:)
    type(c_ptr), intent(inout) :: requests(2)
    call check(distdl_receive(comm, theirs, 8 * size(theirs, kind=c_size_t), neighbour, 0, requests(1)))
    call check(distdl_send(comm, mine, 8 * size(mine, kind=c_size_t), neighbour, 0, requests(2)))
  end subroutine

  ! C has the dimensions the other way round: columns, rows.
  subroutine save()
    type(c_ptr) :: handle
    call check(distdl_save_begin(store, step, handle))
    call check(distdl_save_add(handle, 'temperature'//c_null_char, DISTDL_F64, 2, [plate, plate], &
        [first - 1, 0_c_int64_t], [last - first + 1, plate], now(:, first:last)))
    call check(distdl_save_commit(handle, DISTDL_NOW))
    call check(distdl_saved(step, -1.0_c_double))
  end subroutine

  ! The step of the newest checkpoint; 0 if there is none.
  integer(c_int64_t) function loaded() result(found)
    type(c_ptr) :: handle
    integer(c_int) :: code
    found = 0
    code = distdl_load_begin(store, -1_c_int64_t, handle)
    if (code == DISTDL_NOT_FOUND) return
    call check(code)
    call check(distdl_load_step(handle, found))
    call check(distdl_load_add(handle, 'temperature'//c_null_char, DISTDL_F64, [first - 1, 0_c_int64_t], &
        [last - first + 1, plate], now(:, first:last)))
    call check(distdl_load_read(handle))
    call check(distdl_load_close(handle))
  end function

  ! A number of the command line, or what it is without.
  integer(c_int64_t) function number(place, otherwise)
    integer, intent(in) :: place, otherwise
    character(len=20) :: text
    number = otherwise
    call get_command_argument(place, text)
    if (text /= '') read (text, *) number
  end function

  subroutine check(code)
    integer(c_int), intent(in) :: code
    if (code == DISTDL_OK) return
    write (error_unit, '(2a)') 'heat: ', distdl_error()
    stop distdl_error_exit_code(), quiet=.true.
  end subroutine
end program
