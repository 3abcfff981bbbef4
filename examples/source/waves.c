/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of one's own in one file: waves of two forms, made while training. Nothing is stored, so there is no data
 * set. cc -shared -fPIC -I$DISTDL_ROOT/include waves.c -o waves.so -lm distdl run --local -n 2 job.toml --set
 * data.source=waves.so --set data.train=600 --set data.validation=+100 The text is a number of samples; after "+" other
 * ones, to evaluate on. */
#include <distdl_source.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 32 };

struct waves {
  int64_t samples;
  int64_t first; /* apart from the samples of another text */
};

static int open_waves(const char* text, void** source, distdl_source_description* about, char* error,
                      size_t error_bytes) {
  char* end = NULL;
  errno = 0;
  long long samples = strtoll(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || samples < 1) {
    snprintf(error, error_bytes, "\"%s\" is not a number of waves", text);
    return 1;
  }
  struct waves* waves = malloc(sizeof *waves);
  if (waves == NULL) {
    snprintf(error, error_bytes, "no memory");
    return 1;
  }
  waves->samples = samples;
  waves->first = text[0] == '+' ? 1000000000 : 0;
  about->samples = samples;
  about->shape[0] = about->shape[1] = 1;
  about->shape[2] = LENGTH;
  about->classes = 2;
  snprintf(about->digest, sizeof about->digest, "waves-1-%lld-%lld", (long long)waves->first, samples);
  *source = waves;
  return 0;
}

/* Bits that look random, the same for the same number: splitmix64, by Sebastiano Vigna. */
static uint64_t bits_of(uint64_t number) {
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
  return number ^ (number >> 31);
}

/* Each sample depends on its index only, and the noise also on the epoch. */
static int read_waves(void* source, const distdl_source_batch* batch, char* error, size_t error_bytes) {
  const struct waves* waves = source;
  (void)error, (void)error_bytes; /* nothing can fail */
  for (int64_t n = 0; n < batch->count; ++n) {
    const uint64_t sample = (uint64_t)(waves->first + batch->indices[n]) * 0x9e3779b97f4a7c15u;
    const double phase = (double)(bits_of(sample) % 1000) / 1000;
    const int is_square = (int)(bits_of(sample + 1) & 1);
    float* values = batch->values + n * LENGTH;
    for (int i = 0; i < LENGTH; ++i) {
      const double at = phase + 3.0 * i / LENGTH, place = at - floor(at);
      const double wave = is_square ? (place < 0.5 ? 1 : -1) : 4 * fabs(place - 0.5) - 1;
      const uint64_t noise = bits_of(sample ^ ((uint64_t)batch->epochs[n] << 40) ^ (uint64_t)(i + 2));
      values[i] = (float)(wave + (double)(noise % 1000) / 5000);
    }
    batch->labels[n] = is_square;
  }
  return 0;
}

static void close_waves(void* source) {
  free(source);
}

const distdl_source_functions* distdl_source(void) {
  static const distdl_source_functions functions = {DISTDL_SOURCE_ABI, open_waves, read_waves, close_waves};
  return &functions;
}
