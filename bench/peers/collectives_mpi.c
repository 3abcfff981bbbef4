/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI's side of "distdl bench comm --peers openmpi,mpich". Rank 0 reads lines
 *     measure OPERATION TYPE BYTES SECONDS
 * and answers "times T1 T2 ..." (seconds of a call, the slowest rank's; each the mean of a block of calls that follows
 * a barrier) or "refused WHY"; it ends with its input. Between commands nobody spins, so that the other side can be
 * measured in turn. All data are in place, verified once before they are timed.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kBlocks = 500 };
static const double kBlockSeconds = 200e-6;

enum operation {
  barrier,
  broadcast,
  reduce,
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  gather,
  scatter,
  send_receive,
  operations
};
static const char* const kNames[] = {"barrier",    "broadcast",  "reduce", "all_reduce", "reduce_scatter",
                                     "all_gather", "all_to_all", "gather", "scatter",    "send_receive"};

struct task {
  int operation;
  MPI_Datatype type;
  int element;    /* bytes */
  int count;      /* elements of the whole vector */
  int slice;      /* of one rank's part of it */
  double seconds; /* to spend */
};

static int rank, size;
static char *values, *others; /* others: where all_to_all takes its operand from */

static void check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  fprintf(stderr, "%s failed\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void call(const struct task* t) {
  char* own = values + (size_t)rank * (size_t)t->slice * (size_t)t->element;
  MPI_Comm w = MPI_COMM_WORLD;
  int status = MPI_SUCCESS;
  switch (t->operation) {
    case barrier:
      status = MPI_Barrier(w);
      break;
    case broadcast:
      status = MPI_Bcast(values, t->count, t->type, 0, w);
      break;
    case reduce:
      status = MPI_Reduce(rank == 0 ? MPI_IN_PLACE : values, values, t->count, t->type, MPI_SUM, 0, w);
      break;
    case all_reduce:
      status = MPI_Allreduce(MPI_IN_PLACE, values, t->count, t->type, MPI_SUM, w);
      break;
    case reduce_scatter:
      status = MPI_Reduce_scatter_block(MPI_IN_PLACE, values, t->slice, t->type, MPI_SUM, w);
      break;
    case all_gather:
      status = MPI_Allgather(MPI_IN_PLACE, 0, t->type, values, t->slice, t->type, w);
      break;
    case all_to_all:
      status = MPI_Alltoall(others, t->slice, t->type, values, t->slice, t->type, w);
      break;
    case gather:
      status = MPI_Gather(rank == 0 ? MPI_IN_PLACE : own, t->slice, t->type, values, t->slice, t->type, 0, w);
      break;
    case scatter:
      status = MPI_Scatter(values, t->slice, t->type, rank == 0 ? MPI_IN_PLACE : own, t->slice, t->type, 0, w);
      break;
    case send_receive: /* there and back between the first and the last rank */
      if (rank == 0) {
        status = MPI_Send(values, t->count, t->type, size - 1, 1, w);
        if (status == MPI_SUCCESS) status = MPI_Recv(values, t->count, t->type, size - 1, 1, w, MPI_STATUS_IGNORE);
      } else if (rank == size - 1) {
        status = MPI_Recv(values, t->count, t->type, 0, 1, w, MPI_STATUS_IGNORE);
        if (status == MPI_SUCCESS) status = MPI_Send(values, t->count, t->type, 0, 1, w);
      }
      break;
  }
  check(status, kNames[t->operation]);
}

static double timed(const struct task* t, int calls) {
  check(MPI_Barrier(MPI_COMM_WORLD), "barrier");
  double start = MPI_Wtime();
  for (int i = 0; i < calls; ++i) call(t);
  return (MPI_Wtime() - start) / calls;
}

/* Of element i of rank r: small, so that sums are exact. */
static double pattern(int r, long i) {
  return (double)((i + r) % 5);
}

static void store(const struct task* t, char* at, long i, double value) {
  if (t->type == MPI_FLOAT)
    ((float*)at)[i] = (float)value;
  else if (t->type == MPI_DOUBLE)
    ((double*)at)[i] = value;
  else if (t->type == MPI_INT)
    ((int*)at)[i] = (int)value;
  else
    ((long long*)at)[i] = (long long)value;
}
static double load(const struct task* t, const char* at, long i) {
  if (t->type == MPI_FLOAT) return ((const float*)at)[i];
  if (t->type == MPI_DOUBLE) return ((const double*)at)[i];
  if (t->type == MPI_INT) return ((const int*)at)[i];
  return (double)((const long long*)at)[i];
}

/* What element i of this rank's vector must be after the call; -1: anything. */
static double expected(const struct task* t, long i) {
  double sum = 0;
  for (int r = 0; r < size; ++r) sum += pattern(r, i);
  long slice = t->slice;
  switch (t->operation) {
    case broadcast:
      return pattern(0, i);
    case reduce:
      return rank == 0 ? sum : -1;
    case all_reduce:
      return sum;
    case reduce_scatter: /* the own slice comes to the front */
      if (i >= slice) return -1;
      sum = 0;
      for (int r = 0; r < size; ++r) sum += pattern(r, i + rank * slice);
      return sum;
    case all_gather:
      return pattern((int)(i / slice), i);
    case all_to_all:
      return pattern((int)(i / slice), i % slice + rank * slice);
    case gather:
      return rank == 0 ? pattern((int)(i / slice), i) : -1;
    case scatter:
      return i / slice == rank ? pattern(0, i) : -1;
    case send_receive:
      return rank == size - 1 || rank == 0 ? pattern(0, i) : -1;
    default:
      return -1;
  }
}

static int right(const struct task* t) {
  for (long i = 0; i < t->count; ++i) {
    store(t, values, i, pattern(rank, i));
    store(t, others, i, pattern(rank, i));
  }
  call(t);
  long wrong = 0;
  for (long i = 0; i < t->count; ++i) {
    double want = expected(t, i);
    wrong += want >= 0 && load(t, values, i) != want;
  }
  check(MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD), "count of errors");
  return wrong == 0;
}

static void measure(const struct task* t) {
  static double times[kBlocks];
  int ok = right(t);
  memset(values, 0, (size_t)t->count * (size_t)t->element);
  int calls = 1, blocks = 0;
  double block;
  for (;; calls *= 2) {
    block = timed(t, calls) * calls;
    check(MPI_Bcast(&block, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD), "broadcast of a time");
    if (block >= kBlockSeconds) break;
  }
  blocks = (int)(t->seconds / block);
  blocks = blocks < 3 ? 3 : blocks > kBlocks ? kBlocks : blocks;
  for (int i = 0; i < blocks; ++i) times[i] = timed(t, calls);
  check(MPI_Reduce(rank == 0 ? MPI_IN_PLACE : times, times, blocks, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD), "maximum");
  if (rank != 0) return;
  if (!ok) {
    printf("refused wrong result\n");
  } else {
    printf("times");
    for (int i = 0; i < blocks; ++i) printf(" %.9g", t->operation == send_receive ? times[i] / 2 : times[i]);
    printf("\n");
  }
  fflush(stdout);
}

static const char* parse(const char* line, struct task* t) {
  char operation[32], type[32];
  double bytes;
  if (sscanf(line, "measure %31s %31s %lf %lf", operation, type, &bytes, &t->seconds) != 4) return "no such command";
  for (t->operation = 0; t->operation < operations && strcmp(operation, kNames[t->operation]) != 0;) ++t->operation;
  if (t->operation == operations) return "no such operation";
  if (strcmp(type, "float32") == 0)
    t->type = MPI_FLOAT, t->element = 4;
  else if (strcmp(type, "float64") == 0)
    t->type = MPI_DOUBLE, t->element = 8;
  else if (strcmp(type, "int32") == 0)
    t->type = MPI_INT, t->element = 4;
  else if (strcmp(type, "int64") == 0)
    t->type = MPI_LONG_LONG, t->element = 8;
  else
    return "MPI has no such type";
  if (bytes / t->element > 2147483647.0) return "too many elements";
  t->count = (int)(bytes / t->element);
  t->slice = t->count / size;
  if (t->operation >= reduce_scatter && t->operation <= scatter) t->count = t->slice * size;
  return NULL;
}

/* Rank 0's command reaches the others without their spinning for it. */
static int next_command(char* line, int length) {
  if (rank == 0) {
    if (!fgets(line, length, stdin)) line[0] = '\0';
    for (int r = 1; r < size; ++r) check(MPI_Send(line, length, MPI_CHAR, r, 0, MPI_COMM_WORLD), "command");
  } else {
    for (int there = 0; !there;) {
      check(MPI_Iprobe(0, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE), "probe");
      if (!there) usleep(1000);
    }
    check(MPI_Recv(line, length, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "command");
  }
  return line[0] != '\0';
}

int main(int argc, char** argv) {
  check(MPI_Init(&argc, &argv), "MPI_Init");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  char line[256], version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\n")] = '\0';
  if (rank == 0) printf("ready %s\n", version), fflush(stdout);
  size_t have = 0;
  while (next_command(line, sizeof line)) {
    struct task t;
    const char* refused = parse(line, &t);
    if (refused) {
      if (rank == 0) printf("refused %s\n", refused), fflush(stdout);
      continue;
    }
    size_t bytes = (size_t)t.count * (size_t)t.element + 64;
    if (bytes > have) {
      free(values), free(others);
      have = bytes;
      if (posix_memalign((void**)&values, 4096, have) != 0 || posix_memalign((void**)&others, 4096, have) != 0) {
        fprintf(stderr, "no memory for %zu bytes\n", have);
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
    }
    measure(&t);
  }
  MPI_Finalize();
  return 0;
}
