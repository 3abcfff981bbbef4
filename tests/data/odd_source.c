/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object whose text says what is wrong with it. */
#include <distdl_source.h>
#include <stdio.h>
#include <string.h>

#ifndef ODD_ABI
#define ODD_ABI DISTDL_SOURCE_ABI
#endif

static int closed_nulls = 0;

static int open_odd(const char* text, void** source, distdl_source_description* about, char* error,
                    size_t error_bytes) {
  if (strcmp(text, "closed") == 0) {
    snprintf(error, error_bytes, "it is locked");
    return 5;
  }
  about->samples = strcmp(text, "empty") == 0 ? 0 : 10;
  if (strcmp(text, "nulls") == 0) about->samples += closed_nulls;
  about->shape[0] = 3;
  about->shape[1] = about->shape[2] = strcmp(text, "flat") == 0 ? 0 : 1;
  if (strcmp(text, "huge") == 0) about->shape[1] = about->shape[2] = INT64_C(1) << 40;
  about->classes = strcmp(text, "both") == 0 ? 4 : strcmp(text, "numbers") == 0 ? 0 : 2;
  if (strcmp(text, "both") == 0 || strcmp(text, "numbers") == 0) about->targets[0] = 2;
  if (strcmp(text, "nameless") != 0) snprintf(about->digest, sizeof about->digest, "odd-%s", text);
  *source = strcmp(text, "label") == 0 ? "label" : strcmp(text, "unreadable") == 0 ? "unreadable" : "";
  if (strcmp(text, "null") == 0) *source = NULL;
  return 0;
}

static int read_odd(void* source, const distdl_source_batch* batch, char* error, size_t error_bytes) {
  (void)error, (void)error_bytes;
  if (strcmp(source, "unreadable") == 0) return 1; /* and does not say why */
  for (int64_t i = 0; i < batch->count; ++i) {
    batch->values[3 * i] = (float)batch->indices[i];
    batch->values[3 * i + 1] = (float)batch->epochs[i];
    if (batch->labels != NULL) batch->labels[i] = strcmp(source, "label") == 0 ? 2 : 1;
    if (batch->targets != NULL) batch->targets[2 * i + 1] = 7;
  }
  return 0;
}

static void close_odd(void* source) {
  if (source == NULL) ++closed_nulls;
}

const distdl_source_functions* distdl_source(void) {
  static const distdl_source_functions functions = {ODD_ABI, open_odd, read_odd, close_odd};
  return &functions;
}
