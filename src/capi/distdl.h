/* SPDX-License-Identifier: Apache-2.0
 *
 * distdl for C, and for all that can call C: the run contract, communicators, sums with fixed bits, checkpoints.
 * Guide: docs/c-api.md. The functions and constants here stay as they are in all versions 0.x from 0.2 on.
 *
 * Errors. Functions that can fail return one of the codes DISTDL_..., 0 if all is well. distdl_error_text() then has
 * the problem in words. No function throws or ends the process; warnings go to stderr. All may return DISTDL_INVALID,
 * for an argument that is null, out of its range, or a closed handle; DISTDL_NO_MEMORY; DISTDL_INTERNAL; and
 * DISTDL_STATE, for a call that is wrong after earlier ones. The text names the function and the argument. The comments
 * list the other codes. Unless they say otherwise, a failed call has changed nothing but what it was to write.
 *
 * Handles. A function that makes a handle writes it to its last argument, or null if it fails. The caller owns it, and
 * closes it with the function that the comment names. A closed handle may be passed on: the call is then refused.
 *
 * Memory. Arrays are dense, in row-major order, and without alignment of their own. Texts end with a zero byte. The
 * library keeps no text or shape that it is given. Data must stay as long as the comment says.
 *
 * Threads. All functions may be called by any thread. One call at a time uses a communicator, those that were split
 * from it, and the sums, stores, saves and loads that belong to them: a second one waits until the first has returned.
 * "Collective" means: all ranks of the communicator call it, in the same order. After fork() the child may use nothing
 * that the parent has opened.
 */
#ifndef DISTDL_H
#define DISTDL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DISTDL_API
#define DISTDL_API __attribute__((visibility("default")))
#endif

/* ---- Codes and texts ---- */

/* Codes below 100 are also exit codes of distdl's programs (docs/exit-codes.md): a program may end with them. */
enum {
  DISTDL_OK = 0,
  DISTDL_CORRUPT = 2,      /* a checkpoint is damaged */
  DISTDL_INCOMPLETE = 3,   /* files of a checkpoint are missing */
  DISTDL_INCOMPATIBLE = 4, /* arrays do not form a whole one, or are not those of the checkpoint */
  DISTDL_PEER_LOST = 69,   /* another rank ended, froze or cannot be reached: the communicator can only be closed */
  DISTDL_INTERNAL = 70,    /* a defect of distdl */
  DISTDL_SCHEDULER = 71,   /* Slurm, PMIx or the rendezvous failed: the ranks did not find each other */
  DISTDL_SUPERSEDED = 73,  /* another start has taken the folder: this process must end */
  DISTDL_STORAGE = 74,     /* the file system refused; a later try may succeed */
  DISTDL_REQUEUE = 75,     /* never returned: a program that has saved and stopped ends with it, to be resumed */
  DISTDL_CONFIG = 78,      /* options or variables are wrong, or a limit of the process is too low */
  DISTDL_INVALID = 100,    /* an argument is wrong */
  DISTDL_STATE = 101,      /* the call is wrong after earlier ones */
  DISTDL_TIMEOUT = 102,    /* not done yet; it is still under way */
  DISTDL_NO_MEMORY = 103,
  DISTDL_NOT_FOUND = 104, /* there is no such thing: no checkpoint yet, no array of that name */
  DISTDL_BUSY = 105       /* a save is still being written, so this one was left out */
};

/* The version of the library, such as "0.2.0". Static text. */
DISTDL_API const char* distdl_version(void);
/* The name of a code, such as "peer lost"; "unknown" for others. Static text. */
DISTDL_API const char* distdl_code_name(int code);
/* What went wrong in the last call of this thread that failed; "" if none has. Never null. Valid until the next call of
 * this thread that fails. */
DISTDL_API const char* distdl_error_text(void);
/* The exit code for a program that ends because of that error, such as 69, or that of the rank that was lost, if it
 * could tell it; 0 if no call of this thread has failed. distdl decides by it how to go on: docs/exit-codes.md. */
DISTDL_API int distdl_error_exit_code(void);

/* ---- Types and reductions ---- */

enum {
  DISTDL_U8 = 0, /* an unsigned integer; also bytes of any meaning */
  DISTDL_F32 = 1,
  DISTDL_F64 = 2,
  DISTDL_F16 = 3,  /* IEEE 754 binary16 */
  DISTDL_BF16 = 4, /* the upper half of an F32 */
  DISTDL_I32 = 5,
  DISTDL_I64 = 6,
  DISTDL_I8 = 7,
  DISTDL_I16 = 8,
  DISTDL_BOOL = 9, /* one byte, 0 is false: a sum and a maximum are "or", a minimum is "and" */
  DISTDL_C64 = 10, /* real and imaginary part, F32 each: no maximum and minimum */
  DISTDL_C128 = 11 /* F64 each */
};

enum {
  DISTDL_SUM = 0, /* of integers: modulo 2^bits */
  DISTDL_MAX = 1, /* NaN if an operand is NaN */
  DISTDL_MIN = 2,
  DISTDL_AVERAGE = 3 /* of floating types: the sum, multiplied once */
};

/* The bytes of an element; 0 if there is no such type. */
DISTDL_API size_t distdl_type_size(int type);

/* ---- The run contract: docs/programs.md ---- */

/* What "distdl run -- program" and a rank of the program tell each other. A program that was started in another way may
 * call them as well: it is never to stop, and what it tells is dropped. All may return DISTDL_CONFIG if
 * DISTDL_CONTRACT names a socket at which nobody answers. Quick, unless it says otherwise. */

/* 1 if "distdl run" has started this process, else 0. */
DISTDL_API int distdl_started(int* started);
/* Whether the program is to save and stop: 1 or 0. All ranks call it at the same places of their work, once per step:
 * the k-th call has the same answer on all. It may wait for other ranks, for at most a minute, in the two calls after a
 * request to stop. */
DISTDL_API int distdl_should_stop(int* stop);
/* Tells that `step` is done, of `steps` in all (0: not known). */
DISTDL_API int distdl_progress(int64_t step, int64_t steps);
/* The same with measured values of the step, which rank 0 tells: names[i] has values[i]. */
DISTDL_API int distdl_progress_with(int64_t step, int64_t steps, size_t count, const char* const* names,
                                    const double* values);
/* Tells that all of the program's state as of `step` is saved, which took so many seconds (negative: not measured). */
DISTDL_API int distdl_saved(int64_t step, double seconds);
/* Tells that the program has done all its work. */
DISTDL_API int distdl_finished(void);
/* Seconds until the job ends; infinity if that is not known. */
DISTDL_API int distdl_seconds_left(double* seconds);

/* ---- Communicators: docs/communication.md ---- */

/* Ranks that exchange arrays in host memory. */
typedef struct distdl_comm distdl_comm;
/* An operation under way. */
typedef struct distdl_request distdl_request;

/* Options of a communicator, here and below: lines or ";"-separated parts "key=value", where a key is one of a job
 * file's section [comm], such as "comm.timeout_seconds=60; comm.interface=ib0" (docs/configuration.md). Null or "": all
 * have their defaults. DISTDL_CONFIG for others. */

/* Collective. Connects the ranks that were started together: by "distdl run", by "srun --mpi=pmix", or by another
 * launcher with PMIx; without one, this process is a single rank. DISTDL_SCHEDULER, DISTDL_PEER_LOST, DISTDL_CONFIG.
 * Close it with distdl_comm_close(). */
DISTDL_API int distdl_comm_create(const char* options, distdl_comm** comm);
/* Collective. The same for ranks that know their number: they meet in `folder`, which all of them see. `id` is the same
 * on all ranks and new for each meeting; of letters, digits, ".", "_" and "-". Ranks may be threads of one process.
 * DISTDL_STORAGE as well. */
DISTDL_API int distdl_comm_create_folder(const char* folder, const char* id, int rank, int size, const char* options,
                                         distdl_comm** comm);
/* Gets `bytes` bytes of each rank, in the order of ranks, into `all`: the caller's own all-gather, by MPI or a store of
 * keys and values, say. Returns 0, or another number if it has failed. */
typedef int (*distdl_exchange)(void* context, const void* mine, size_t bytes, void* all);
/* Collective. The same for ranks that can already tell each other something: `exchange` is called with `context` some
 * times in this call, by this thread, and not after it. If it fails on a rank it has to fail on all. */
DISTDL_API int distdl_comm_create_exchange(distdl_exchange exchange, void* context, int rank, int size,
                                           const char* options, distdl_comm** comm);
/* Collective. Ranks with the same `color` form a communicator, ordered by `key`, then by rank. A rank with a negative
 * color gets none: null. DISTDL_PEER_LOST. Close it before `comm`. */
DISTDL_API int distdl_comm_split(distdl_comm* comm, int color, int key, distdl_comm** part);
/* Collective. Ends a communicator. Stores, sums and parts of it are closed before, and its requests are done or
 * cancelled: else DISTDL_STATE, unless it has failed or was aborted; then it does not communicate, ends requests, and
 * returns DISTDL_OK. The handle is closed in all other cases, also with DISTDL_PEER_LOST. */
DISTDL_API int distdl_comm_close(distdl_comm* comm);
/* Tells the other ranks that this one ends, and why: their operations then fail with DISTDL_PEER_LOST and this text.
 * `code`: the exit code that they are to report; DISTDL_PEER_LOST if in doubt. Returns within a second. */
DISTDL_API int distdl_comm_abort(distdl_comm* comm, int code, const char* reason);

DISTDL_API int distdl_comm_rank(distdl_comm* comm, int* rank);
DISTDL_API int distdl_comm_size(distdl_comm* comm, int* size);
/* The host of a rank. The text is valid as long as the communicator. */
DISTDL_API int distdl_comm_host(distdl_comm* comm, int rank, const char** host);
/* This rank's number among those on its host, and how many these are. */
DISTDL_API int distdl_comm_local_rank(distdl_comm* comm, int* local_rank, int* local_size);

/* Collective. Zeroed memory that the other ranks of the host also map: collectives on it are several times faster
 * within a host. `bytes` may differ between ranks. DISTDL_NO_MEMORY on all ranks if one has none. It is freed with the
 * communicator at the latest. */
DISTDL_API int distdl_comm_allocate(distdl_comm* comm, size_t bytes, void** memory);
DISTDL_API int distdl_comm_free(distdl_comm* comm, void* memory);

/* ---- Operations ---- */

/* With a null `request` an operation is done when the call returns. Else it has begun, and *request is a handle, which
 * distdl_wait(), distdl_test() or distdl_cancel() closes: they set it to null. Until then the memory of the operation
 * must stay, and may not be changed, nor read where the result goes. Several may be under way.
 *
 * All return DISTDL_PEER_LOST if another rank does not answer within comm.timeout_seconds or has ended; the text names
 * it. The communicator can then only be closed. They return DISTDL_INVALID for types and reductions that do not go
 * together, and DISTDL_PEER_LOST if ranks have called different operations.
 *
 * `count`: elements, not bytes. `values` and `result` may be the same memory; a null `values` means the same. Sums,
 * averages, maxima and minima are added along a fixed tree over ranks, so their bits do not depend on where ranks run.
 */

/* Waits until it is done, at most for so many seconds, then DISTDL_TIMEOUT: it goes on. Negative: no limit but that of
 * comm.timeout_seconds. A request that is null is done. */
DISTDL_API int distdl_wait(distdl_request** request, double seconds);
/* Sets `done` to 1 or 0. What is under way advances in waits and tests only. */
DISTDL_API int distdl_test(distdl_request** request, int* done);
/* Gives it up. A collective then fails on the other ranks. */
DISTDL_API int distdl_cancel(distdl_request** request);

DISTDL_API int distdl_barrier(distdl_comm* comm, distdl_request** request);
/* Sends the values of `root` to all ranks. */
DISTDL_API int distdl_broadcast(distdl_comm* comm, void* values, size_t count, int type, int root,
                                distdl_request** request);
/* Only `root` needs `result`; a null one elsewhere is right. */
DISTDL_API int distdl_reduce(distdl_comm* comm, const void* values, void* result, size_t count, int type, int reduction,
                             int root, distdl_request** request);
DISTDL_API int distdl_all_reduce(distdl_comm* comm, const void* values, void* result, size_t count, int type,
                                 int reduction, distdl_request** request);

/* With `counts`, rank r has counts[r] elements, and `count` is not used; the array need not stay. With null `counts`
 * all have `count`. `values` and `result` may be the same address only where the comment says so. */

/* Rank r gets the reduction over its slice of the values, which have the elements of all slices. In place: `result` is
 * the own slice of `values`. */
DISTDL_API int distdl_reduce_scatter(distdl_comm* comm, const void* values, void* result, size_t count,
                                     const size_t* counts, int type, int reduction, distdl_request** request);
/* All ranks get the values of all, in the order of ranks. In place: `values` is null or the own slice of `result`. */
DISTDL_API int distdl_all_gather(distdl_comm* comm, const void* values, void* result, size_t count,
                                 const size_t* counts, int type, distdl_request** request);
/* The same for `root` only; `result` may be null elsewhere. */
DISTDL_API int distdl_gather(distdl_comm* comm, const void* values, void* result, size_t count, const size_t* counts,
                             int type, int root, distdl_request** request);
/* Rank r gets its slice of root's values, which may be null elsewhere. */
DISTDL_API int distdl_scatter(distdl_comm* comm, const void* values, void* result, size_t count, const size_t* counts,
                              int type, int root, distdl_request** request);
/* Sends the r-th slice to rank r and receives one from each. Either all ranks give both counts, or none does, and each
 * slice has `count` elements. In place if a rank's counts are equal. */
DISTDL_API int distdl_all_to_all(distdl_comm* comm, const void* values, void* result, size_t count,
                                 const size_t* send_counts, const size_t* receive_counts, int type,
                                 distdl_request** request);

/* Messages of `bytes` bytes; both sides give the same size. Those with equal tags (0 to 2^28-1) arrive in order. */
DISTDL_API int distdl_send(distdl_comm* comm, const void* data, size_t bytes, int to, int tag,
                           distdl_request** request);
DISTDL_API int distdl_receive(distdl_comm* comm, void* data, size_t bytes, int from, int tag, distdl_request** request);
/* Receives the next message with this tag that no other receive awaits, whichever rank has sent it. `from` gets that
 * rank, and stays like `data`; it may be null. */
DISTDL_API int distdl_receive_any(distdl_comm* comm, void* data, size_t bytes, int tag, int* from,
                                  distdl_request** request);

/* ---- Sums with the same bits on any number of ranks ---- */

/* A step's values are the sum over a fixed number of microbatches, the leaves. They are added along one tree over
 * leaves, so the bits depend neither on the number of ranks nor on who has which leaves. */
typedef struct distdl_sum distdl_sum;

/* Collective. A sum of arrays of `count` elements over `leaves` leaves, of which this rank has `own`, from number
 * `first` on. The ranks' leaves follow each other in any order, and are all leaves together. A negative `own`: they are
 * divided evenly, see distdl_sum_leaves(). `type`: not U8, I8, I16 and
 * BOOL. `reduction`: DISTDL_SUM, or DISTDL_AVERAGE over the leaves. `comm` may be null for one process. The sum takes
 * memory for at most log2(own) + 2 arrays. May be used for many steps, one after the other. DISTDL_PEER_LOST. Close it
 * before the communicator. */
DISTDL_API int distdl_sum_create(distdl_comm* comm, size_t count, int type, int reduction, int leaves, int first,
                                 int own, distdl_sum** sum);
/* The leaves of this rank. */
DISTDL_API int distdl_sum_leaves(distdl_sum* sum, int* first, int* own);
/* Adds the array of the next own leaf, in the order of leaves. The array may change afterwards. DISTDL_STATE after the
 * last one. */
DISTDL_API int distdl_sum_add(distdl_sum* sum, const void* values);
/* Collective, when all own leaves are added. All ranks get the sum over all leaves; then the next step begins. Returns
 * what operations return. With a `request`, distdl_sum_add() has to wait until it is done. */
DISTDL_API int distdl_sum_all_reduce(distdl_sum* sum, void* result, distdl_request** request);
/* The same, but rank r gets its slice of counts[r] elements; null: equal slices. */
DISTDL_API int distdl_sum_reduce_scatter(distdl_sum* sum, void* result, const size_t* counts, distdl_request** request);
DISTDL_API int distdl_sum_close(distdl_sum* sum);

/* ---- Checkpoints: docs/checkpoint-format.md ---- */

/* A folder of checkpoints, which this start writes. A checkpoint has named arrays of which each rank has boxes. It
 * exists as a whole or not at all, whenever a process is killed. */
typedef struct distdl_store distdl_store;
/* A checkpoint that is being composed. */
typedef struct distdl_save distdl_save;
/* A checkpoint that is being read. */
typedef struct distdl_load distdl_load;

/* Collective. Takes the folder: from now on no earlier start can write to it. `folder` null: "checkpoints" in the run
 * folder that "distdl run" names in DISTDL_RUN_DIR. `comm` null: this process alone. `options`: keys of the section
 * [checkpoint], such as "checkpoint.keep=5; checkpoint.memory_every=10". Close it with distdl_store_close().
 * DISTDL_CONFIG, DISTDL_STORAGE, DISTDL_SUPERSEDED, DISTDL_PEER_LOST. */
DISTDL_API int distdl_store_open(const char* folder, distdl_comm* comm, const char* options, distdl_store** store);
/* Collective. Waits for the save that is under way, and ends. Copies in memory and on nodes' disks are removed.
 * Saves and loads are closed before, else DISTDL_STATE. The handle is closed in all other cases, also if the last save
 * has failed: DISTDL_STORAGE, DISTDL_SUPERSEDED, DISTDL_PEER_LOST. */
DISTDL_API int distdl_store_close(distdl_store* store);
/* What to save after this step by the keys checkpoint.every, memory_every, partner_every, parity_every and disk_every:
 * 0 nothing, DISTDL_SNAPSHOT, or DISTDL_BESIDE. */
DISTDL_API int distdl_store_due(distdl_store* store, int64_t step, int* how);
/* The steps of the checkpoints in the folder, ascending: the first `capacity` of them, and their number. */
DISTDL_API int distdl_store_steps(distdl_store* store, int64_t* steps, size_t capacity, size_t* count);
/* Collective. Waits until no save is under way. DISTDL_STORAGE if the last one failed; DISTDL_SUPERSEDED,
 * DISTDL_PEER_LOST. */
DISTDL_API int distdl_store_wait(distdl_store* store);
/* 1 while a save is being written. */
DISTDL_API int distdl_store_busy(distdl_store* store, int* busy);

/* What became of a save. The caller sets `size` to sizeof(distdl_outcome); later versions may have more members. */
typedef struct distdl_outcome {
  size_t size;
  int64_t step;
  int64_t bytes;          /* of the checkpoint's files */
  double stall_seconds;   /* for which the program waited */
  double durable_seconds; /* from the begin of the copy to the commit */
  int code;               /* DISTDL_OK, or DISTDL_STORAGE; distdl_error_text() then says why */
  int is_checkpoint;      /* 0: a snapshot only */
} distdl_outcome;
/* The next save that has ended, in their order. DISTDL_NOT_FOUND: none has since. */
DISTDL_API int distdl_store_outcome(distdl_store* store, distdl_outcome* outcome);

/* ---- Saving ---- */

/* When distdl_save_commit() returns. */
enum {
  DISTDL_NOW = 1,     /* when the checkpoint is durable */
  DISTDL_BESIDE = 2,  /* when the arrays are copied; the rest happens beside the program, in a thread */
  DISTDL_SNAPSHOT = 3 /* the same, but in memory and on nodes' disks only, as the options of the store say */
};

/* Begins a save of `step`, at least 0. distdl_save_commit() or distdl_save_discard() closes it. */
DISTDL_API int distdl_save_begin(distdl_store* store, int64_t step, distdl_save** save);
/* Adds this rank's box of an array of `dimensions` dimensions: it begins at `offset` and has `extent` elements in each,
 * outermost first. The boxes of all ranks are disjoint and form the whole of `shape`. Null `offset` and `extent`: the
 * whole. A rank may add no box, an empty one, or several; no array is empty. `data` must stay unchanged until
 * distdl_save_commit() returns. Names: parts of printable ASCII, separated by "/"; none is empty, "." or "..", and no
 * array has the name "x" beside "x/y".
 */
DISTDL_API int distdl_save_add(distdl_save* save, const char* name, int type, int dimensions, const int64_t* shape,
                               const int64_t* offset, const int64_t* extent, const void* data);
/* Adds an array that all ranks have, and add, with the same values. Each element is written once, by some rank. */
DISTDL_API int distdl_save_add_replicated(distdl_save* save, const char* name, int type, int dimensions,
                                          const int64_t* shape, const void* data);
/* The same for at least one byte of any meaning, such as JSON: an array of U8 with one dimension. */
DISTDL_API int distdl_save_add_bytes(distdl_save* save, const char* name, const void* bytes, size_t count);
/* Collective. Saves, and closes the handle but with DISTDL_INVALID. `how`: DISTDL_NOW, DISTDL_BESIDE or
 * DISTDL_SNAPSHOT. DISTDL_BUSY: the save before is still being written, and this one was left out; never with
 * DISTDL_NOW, which waits for it. DISTDL_STORAGE: earlier checkpoints are unchanged, and a later save may succeed.
 * DISTDL_INCOMPATIBLE, DISTDL_SUPERSEDED, DISTDL_PEER_LOST. A failure that happens beside the program is told by
 * distdl_store_outcome(), distdl_store_wait() and the next commit. */
DISTDL_API int distdl_save_commit(distdl_save* save, int how);
DISTDL_API int distdl_save_discard(distdl_save* save);
/* Collective. Closes it without saving, as distdl_save_discard() does, and makes the memory for saves of these arrays
 * beside the program, so that the first save is no slower than later ones. The arrays' values are not read. Call it
 * after loading and before the first save; later it only closes. DISTDL_STORAGE, DISTDL_PEER_LOST. */
DISTDL_API int distdl_save_prepare(distdl_save* save);

/* ---- Loading ---- */

/* Collective. Finds the newest whole checkpoint or snapshot of a step below `before` (negative: of any step), and
 * verifies its checksums; damaged ones are moved aside. Call it before the first save. DISTDL_NOT_FOUND: there is none
 * yet. Close it with distdl_load_close(). DISTDL_INCOMPATIBLE, DISTDL_STORAGE, DISTDL_PEER_LOST. */
DISTDL_API int distdl_load_begin(distdl_store* store, int64_t before, distdl_load** load);
/* The same for a process that only reads. `folder`: of checkpoints, or null as in distdl_store_open(); `step` negative:
 * the newest. Nothing is written or verified yet. DISTDL_NOT_FOUND, DISTDL_CORRUPT, DISTDL_INCOMPLETE, DISTDL_STORAGE.
 */
DISTDL_API int distdl_load_open(const char* folder, int64_t step, distdl_load** load);
DISTDL_API int distdl_load_step(distdl_load* load, int64_t* step);
/* Where it is: "the file system", or "snapshots". Static text. */
DISTDL_API int distdl_load_source(distdl_load* load, const char** source);
/* The number of its arrays. */
DISTDL_API int distdl_load_count(distdl_load* load, size_t* count);
/* An array by its number, 0 to count-1, in the order of names. Null pointers: not wanted. `shape` gets the first
 * `capacity` of `dimensions` extents. The name is valid as long as the handle. */
DISTDL_API int distdl_load_array(distdl_load* load, size_t number, const char** name, int* type, int* dimensions,
                                 int64_t* shape, int capacity);
/* The number of an array by its name. DISTDL_NOT_FOUND. */
DISTDL_API int distdl_load_find(distdl_load* load, const char* name, size_t* number);
/* Asks for a box of an array: any box, whoever has saved what. Null `offset` and `extent`: the whole. `type` is that of
 * the array, and `data` has memory for the box, which the next distdl_load_read() fills. DISTDL_NOT_FOUND,
 * DISTDL_INCOMPATIBLE for another type. */
DISTDL_API int distdl_load_add(distdl_load* load, const char* name, int type, const int64_t* offset,
                               const int64_t* extent, void* data);
/* Fills what was asked for since the last call, and verifies its checksums. Collective, unless the handle is that of
 * distdl_load_open(). A failure leaves any values in `data`. DISTDL_CORRUPT, DISTDL_INCOMPLETE, DISTDL_STORAGE,
 * DISTDL_PEER_LOST. */
DISTDL_API int distdl_load_read(distdl_load* load);
DISTDL_API int distdl_load_close(distdl_load* load);

#ifdef __cplusplus
}
#endif

#endif
