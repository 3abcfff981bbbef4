/* SPDX-License-Identifier: Apache-2.0
 * A program in C99 that saves each of its steps, to be killed: steps FOLDER STEPS [OPTIONS [STEP]]. It prints where it
 * begins and what is durable, and fails if what it loads is not what it saved. At STEP it ends without closing
 * anything.
 */
#include <distdl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 96, COLUMNS = 4096 };

static int rank, size;
static distdl_comm* comm;
static distdl_store* store;

static void check(int code) {
  if (code == DISTDL_OK) return;
  fprintf(stderr, "rank %d: %s\n", rank, distdl_error_text());
  exit(distdl_error_exit_code());
}

static float value(int64_t step, int64_t row, int64_t column) {
  return (float)((step * 7919 + row * COLUMNS + column) % 1000003);
}

/* This rank's rows. */
static void rows_of(int64_t* offset, int64_t* extent) {
  offset[0] = (int64_t)ROWS * rank / size;
  offset[1] = 0;
  extent[0] = (int64_t)ROWS * (rank + 1) / size - offset[0];
  extent[1] = COLUMNS;
}

static void save(int64_t step, float* rows, int how) {
  const int64_t shape[2] = {ROWS, COLUMNS};
  int64_t offset[2], extent[2], i, j;
  distdl_save* handle;
  int code;
  rows_of(offset, extent);
  for (i = 0; i < extent[0]; ++i)
    for (j = 0; j < COLUMNS; ++j) rows[i * COLUMNS + j] = value(step, offset[0] + i, j);
  check(distdl_save_begin(store, step, &handle));
  check(distdl_save_add(handle, "rows", DISTDL_F32, 2, shape, offset, extent, rows));
  check(distdl_save_add_replicated(handle, "step", DISTDL_I64, 0, NULL, &step));
  code = distdl_save_commit(handle, how);
  if (code != DISTDL_BUSY) check(code);
  memset(rows, 0, (size_t)(extent[0] * COLUMNS) * sizeof *rows); /* the copy is taken */
}

static int64_t load(float* rows) {
  int64_t offset[2], extent[2], i, j, step = 0, saved = -1;
  const char* source = NULL;
  distdl_load* handle;
  int code = distdl_load_begin(store, -1, &handle);
  if (code == DISTDL_NOT_FOUND) return 0;
  check(code);
  rows_of(offset, extent);
  check(distdl_load_step(handle, &step));
  check(distdl_load_source(handle, &source));
  check(distdl_load_add(handle, "rows", DISTDL_F32, offset, extent, rows));
  check(distdl_load_add(handle, "step", DISTDL_I64, NULL, NULL, &saved));
  check(distdl_load_read(handle));
  check(distdl_load_close(handle));
  for (i = 0; i < extent[0]; ++i)
    for (j = 0; j < COLUMNS; ++j)
      if (saved != step || rows[i * COLUMNS + j] != value(step, offset[0] + i, j)) {
        fprintf(stderr, "rank %d: step %ld is wrong at row %ld, column %ld\n", rank, (long)step, (long)i, (long)j);
        exit(1);
      }
  if (rank == 0) printf("from %s\n", source);
  return step;
}

static void tell_outcomes(void) {
  distdl_outcome outcome;
  memset(&outcome, 0, sizeof outcome);
  outcome.size = sizeof outcome;
  while (distdl_store_outcome(store, &outcome) == DISTDL_OK)
    if (rank == 0 && outcome.code == DISTDL_OK) printf("durable %ld\n", (long)outcome.step);
}

int main(int argc, char** argv) {
  int64_t step, steps;
  float* rows = malloc(sizeof(float) * ROWS * COLUMNS);
  int stop = 0;
  if (argc < 3 || !rows) return 64;
  setvbuf(stdout, NULL, _IOLBF, 0);
  steps = atol(argv[2]);
  check(distdl_comm_create(NULL, &comm));
  check(distdl_comm_rank(comm, &rank));
  check(distdl_comm_size(comm, &size));
  check(distdl_store_open(argv[1], comm, argc > 3 ? argv[3] : NULL, &store));
  step = load(rows);
  if (rank == 0) printf("begin %ld\n", (long)step);
  while (step < steps && !stop) {
    ++step;
    save(step, rows, step == steps ? DISTDL_NOW : DISTDL_BESIDE);
    check(distdl_barrier(comm, NULL));
    check(distdl_progress(step, steps));
    check(distdl_should_stop(&stop));
    tell_outcomes();
    if (stop && step < steps) {
      save(step, rows, DISTDL_NOW);
      check(distdl_saved(step, -1));
    }
    if (argc > 4 && step == atol(argv[4])) {
      check(distdl_store_wait(store)); /* on a busy machine no save may be done yet */
      return 5;
    }
  }
  check(distdl_store_wait(store));
  tell_outcomes();
  if (step >= steps) check(distdl_finished());
  check(distdl_store_close(store));
  check(distdl_comm_close(comm));
  free(rows);
  return step >= steps ? 0 : DISTDL_REQUEUE;
}
