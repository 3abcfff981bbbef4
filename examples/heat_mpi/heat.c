/* SPDX-License-Identifier: Apache-2.0 */
/* Heat spreads in a square plate whose edges keep their temperature, the upper one at 100 degrees, the others at 0.
 * Plain MPI: each rank has some rows, and MPI-IO writes all of them to one file, which any number of ranks can read.
 * The lines marked "distdl" are all that distdl asks for.
 *   mpicc -O2 heat.c -o heat -lm
 *   distdl submit --nodes=2-3 --set run.recovery=relaunch -- ./heat FILE [SIZE [STEPS [STEPS_BETWEEN_SAVES]]] */
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static long size, first, count; /* the plate has size x size points; this rank has `count` rows, from `first` on */
static double *now, *next;      /* its rows, with a row of each neighbour */

static volatile sig_atomic_t asked; /* distdl */
static void ask(int number) {       /* distdl */
  (void)number;
  asked = 1; /* distdl */
}

static double* row(double* rows, long i) {
  return rows + (i - first + 1) * size;
}

/* MPI-IO returns its errors, where the rest of MPI ends the program. */
static void check(int code, const char* file) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, text, &length);
  fprintf(stderr, "heat: \"%s\": %s\n", file, text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The file has the number of steps, then the plate. A new one takes the place of the old one when it is whole. */
static void save(const char* file, long step) {
  char fresh[4096];
  MPI_File handle;
  snprintf(fresh, sizeof fresh, "%s.new", file);
  check(MPI_File_open(MPI_COMM_WORLD, fresh, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &handle), fresh);
  if (rank == 0) check(MPI_File_write_at(handle, 0, &step, 1, MPI_LONG, MPI_STATUS_IGNORE), fresh);
  check(MPI_File_write_at_all(handle, (MPI_Offset)(sizeof step + 8 * first * size), row(now, first),
                              (int)(count * size), MPI_DOUBLE, MPI_STATUS_IGNORE),
        fresh);
  check(MPI_File_sync(handle), fresh);
  check(MPI_File_close(&handle), fresh);
  if (rank == 0 && rename(fresh, file) != 0) {
    perror(file);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (rank == 0) printf("saved step %ld\n", step);
}

/* The number of steps in the file; 0 without one. */
static long load(const char* file) {
  long step = 0;
  MPI_File handle;
  int code = MPI_File_open(MPI_COMM_WORLD, file, MPI_MODE_RDONLY, MPI_INFO_NULL, &handle), kind = MPI_SUCCESS;
  if (code != MPI_SUCCESS) MPI_Error_class(code, &kind);
  if (kind == MPI_ERR_NO_SUCH_FILE) return 0;
  check(code, file);
  check(MPI_File_read_at_all(handle, 0, &step, 1, MPI_LONG, MPI_STATUS_IGNORE), file);
  check(MPI_File_read_at_all(handle, (MPI_Offset)(sizeof step + 8 * first * size), row(now, first), (int)(count * size),
                             MPI_DOUBLE, MPI_STATUS_IGNORE),
        file);
  check(MPI_File_close(&handle), file);
  return step;
}

/* One step in time; the largest change. */
static double advance(void) {
  const int above = rank > 0 ? rank - 1 : MPI_PROC_NULL, below = rank < ranks - 1 ? rank + 1 : MPI_PROC_NULL;
  const long last = first + count - 1;
  double change = 0, *swapped = now;
  MPI_Sendrecv(row(now, first), (int)size, MPI_DOUBLE, above, 0, row(now, last + 1), (int)size, MPI_DOUBLE, below, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(row(now, last), (int)size, MPI_DOUBLE, below, 0, row(now, first - 1), (int)size, MPI_DOUBLE, above, 0,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  memcpy(row(next, first), row(now, first), (size_t)(count * size) * sizeof *now);
  for (long i = first > 1 ? first : 1; i <= last && i < size - 1; ++i) {
    const double *up = row(now, i - 1), *here = row(now, i), *down = row(now, i + 1);
    for (long j = 1; j < size - 1; ++j) {
      const double found = here[j] + 0.2 * (up[j] + down[j] + here[j - 1] + here[j + 1] - 4 * here[j]);
      row(next, i)[j] = found;
      change = fmax(change, fabs(found - here[j]));
    }
  }
  now = next, next = swapped;
  return change;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  signal(SIGTERM, ask);                  /* distdl */
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* distdl: lines come when they are written */
  const char* file = argc > 1 ? argv[1] : "plate";
  size = argc > 2 ? atol(argv[2]) : 512;
  const long steps = argc > 3 ? atol(argv[3]) : 5000, save_every = argc > 4 ? atol(argv[4]) : 1000;
  first = size * rank / ranks, count = size * (rank + 1) / ranks - first;
  now = calloc((size_t)((count + 2) * size), sizeof *now), next = calloc((size_t)((count + 2) * size), sizeof *now);
  if (!now || !next || size < ranks) MPI_Abort(MPI_COMM_WORLD, 1);
  for (long j = 0; rank == 0 && j < size; ++j) row(now, 0)[j] = 100;
  long step = load(file);
  if (rank == 0) printf("%d ranks, from step %ld of %ld\n", ranks, step, steps);
  for (double all[2] = {0, 0}; step < steps && all[1] == 0;) {
    double mine[2] = {advance(), asked};                              /* distdl: asked */
    MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD); /* all ranks stop at the same step */
    ++step;
    if (rank == 0) printf("step %ld/%ld change %.6e\n", step, steps, all[0]); /* distdl: run.progress_pattern */
    if (step % save_every == 0 || step == steps || all[1] > 0) save(file, step);
  }
  MPI_Finalize();
  return step < steps ? 75 : 0; /* distdl: it has saved, and wants to go on */
}
