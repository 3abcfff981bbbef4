/* SPDX-License-Identifier: Apache-2.0 */
/* Samples from a shared object of one's own: data.source names it, and data.train and data.validation are texts that it
 * gets. C, so that any compiler and language can make one; it is linked with nothing of distdl. examples/source has
 * one.
 *
 * distdl opens it in each rank, and reads samples in any order: `epoch` and `index` are those of the sampler, so that
 * each sample comes once in an epoch. What a sample holds must depend on the text, the epoch and the index only. Then
 * runs have the same bytes on any number of ranks, and resume. An object is used by one thread at a time, but several
 * objects may be used at once.
 *
 * Functions return 0, or another number after they wrote the reason, with its zero byte, to `error`.
 */
#ifndef DISTDL_SOURCE_H
#define DISTDL_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. distdl refuses an object of another one. */
#define DISTDL_SOURCE_ABI 1
#define DISTDL_SOURCE_AXES 4

typedef struct distdl_source_description {
  int64_t samples;                     /* of an epoch; at least 1 */
  int64_t shape[DISTDL_SOURCE_AXES];   /* of a sample: channels, height, width, 0; or with depth before height */
  int64_t classes;                     /* at least 2, labels are 0 .. classes - 1; 0: there are targets */
  int64_t targets[DISTDL_SOURCE_AXES]; /* shape of the numbers to predict from a sample, then zeros */
  char digest[65]; /* changes if the samples do, for checkpoints: printing characters, and a zero byte */
} distdl_source_description;

typedef struct distdl_source_batch {
  int64_t count;
  const int64_t* epochs;  /* (count); 0 for evaluation */
  const int64_t* indices; /* (count), each 0 .. samples - 1 */
  float* values;          /* (count, shape): to write */
  int32_t* labels;        /* (count): to write; null where there are targets */
  float* targets;         /* (count, targets): likewise; null where there are labels */
} distdl_source_batch;

typedef struct distdl_source_functions {
  uint32_t abi; /* DISTDL_SOURCE_ABI */
  /* `text`: data.train or data.validation. *source: whatever the other functions want, null too; close() gets it in the
   * end, once. An open() that returns another number than 0 has nothing to close. */
  int (*open)(const char* text, void** source, distdl_source_description* description, char* error, size_t error_bytes);
  int (*read)(void* source, const distdl_source_batch* batch, char* error, size_t error_bytes);
  void (*close)(void* source);
} distdl_source_functions;

/* The one function that the shared object has under a name. What it points to must stay as it is. */
const distdl_source_functions* distdl_source(void);

#ifdef __cplusplus
}
#endif
#endif
