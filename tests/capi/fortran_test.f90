! SPDX-License-Identifier: Apache-2.0
! What a Fortran program does with the module distdl: fortran_test FOLDER.
program fortran_test
  use distdl
  implicit none
  type(c_ptr) :: comm, sum, store, handle, name, request
  integer(c_int) :: rank, ranks, number, first, own, dimensions, done
  integer(c_int64_t) :: shape(2), step
  integer(c_size_t) :: count
  real(c_float), asynchronous :: values(4)
  real(c_double) :: matrix(3, 2), column(3), seconds
  type(distdl_outcome) :: outcome
  character(len=4096) :: folder
  integer :: i

  call get_command_argument(1, folder)
  call expect(distdl_comm_create('comm.interface=lo'//c_null_char, comm))
  call expect(distdl_comm_rank(comm, rank))
  call expect(distdl_comm_size(comm, ranks))
  values = real(rank + 1)
  call expect(distdl_all_reduce(comm, result=values, count=4_c_size_t, type=DISTDL_F32, reduction=DISTDL_SUM))
  call require(all(values == real(ranks * (ranks + 1)) / 2), 'a sum')
  call expect(distdl_all_reduce(comm, values, values, 4_c_size_t, DISTDL_F32, DISTDL_MAX, request))
  done = 0
  do while (done == 0)
    call expect(distdl_test(request, done))
  end do
  call require(.not. c_associated(request), 'a request that is done')

  call expect(distdl_sum_create(comm, 4_c_size_t, DISTDL_F32, DISTDL_AVERAGE, 6, 0, -1, sum))
  call expect(distdl_sum_leaves(sum, first, own))
  do i = first, first + own - 1
    values = real(i)
    call expect(distdl_sum_add(sum, values))
  end do
  call expect(distdl_sum_all_reduce(sum, values))
  call require(all(values == 2.5), 'an average over leaves')
  call expect(distdl_sum_close(sum))

  matrix = reshape([(real(i, c_double), i=1, 6)], [3, 2])
  call expect(distdl_store_open(trim(folder)//c_null_char, comm, 'checkpoint.keep=2'//c_null_char, store))
  call require(distdl_load_begin(store, -1_c_int64_t, handle) == DISTDL_NOT_FOUND, 'an empty folder')
  call require(index(distdl_error(), 'distdl_load_begin: there is no checkpoint') == 1, distdl_error())
  call expect(distdl_save_begin(store, 5_c_int64_t, handle))
  call expect(distdl_save_add_replicated(handle, 'matrix'//c_null_char, DISTDL_F64, 2, [2_c_int64_t, 3_c_int64_t], matrix))
  call expect(distdl_save_commit(handle, DISTDL_BESIDE))
  call expect(distdl_store_wait(store))
  call expect(distdl_store_outcome(store, outcome))
  call require(outcome%step == 5 .and. outcome%code == DISTDL_OK .and. outcome%is_checkpoint == 1, 'an outcome')
  call require(storage_size(outcome) == 8 * outcome%size, 'the size of an outcome')

  call expect(distdl_load_begin(store, -1_c_int64_t, handle))
  call expect(distdl_load_step(handle, step))
  call expect(distdl_load_count(handle, count))
  call expect(distdl_load_array(handle, 0_c_size_t, name, number, dimensions, shape, 2))
  call require(step == 5 .and. count == 1 .and. distdl_text(name) == 'matrix' .and. number == DISTDL_F64 .and. &
      dimensions == 2 .and. all(shape == [2, 3]), 'the description of an array')
  call expect(distdl_load_add(handle, 'matrix'//c_null_char, DISTDL_F64, [1_c_int64_t, 0_c_int64_t], &
      [1_c_int64_t, 3_c_int64_t], column))
  call expect(distdl_load_read(handle))
  call require(all(column == matrix(:, 2)), 'a column of the matrix')
  call expect(distdl_load_close(handle))
  call expect(distdl_store_close(store))

  call expect(distdl_seconds_left(seconds))
  call require(seconds > huge(seconds), 'no end of the job')
  call require(distdl_barrier(c_null_ptr) == DISTDL_INVALID, 'a null handle')
  call require(distdl_error() == 'distdl_barrier: comm is null', distdl_error())
  call expect(distdl_comm_close(comm))
  if (rank == 0) print '(a)', 'Fortran: all right'

contains

  subroutine expect(code)
    integer(c_int), intent(in) :: code
    call require(code == DISTDL_OK, distdl_error())
  end subroutine

  subroutine require(is_right, what)
    logical, intent(in) :: is_right
    character(len=*), intent(in) :: what
    if (is_right) return
    print '(2a)', 'wrong: ', what
    stop 1
  end subroutine
end program
