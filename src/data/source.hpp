// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <distdl/data/options.hpp>
#include <distdl/data/set_watch.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::data {

/// Some consecutive samples in host memory.
struct Batch {
  std::vector<float> values;         ///< for images
  std::vector<std::int32_t> tokens;  ///< for sequences
  std::vector<std::int32_t> labels;  ///< where images are mixed: then another label of each, then shares, see Mixing
  const void* samples() const { return tokens.empty() ? static_cast<const void*>(values.data()) : tokens.data(); }
};

/// A source of samples of one kind. Not thread-safe.
class Source {
 public:
  virtual ~Source() = default;
  /// The name for messages, such as `"train.h5"`.
  virtual const std::string& name() const = 0;
  /// The shape of one sample: (C, H, W) of floats, or (T) of int32 tokens.
  virtual const tensor::Shape& shape() const = 0;
  virtual std::int64_t classes() const = 0;
  virtual std::int64_t labels_per_sample() const = 0;
  /// The number of samples per epoch.
  virtual std::int64_t samples() const = 0;
  /// Digest of the whole set at the time when it was opened. Sets with equal digests have the same samples.
  virtual const std::string& digest() const = 0;
  /// The tokenizer.json of its tokens; empty: none is known. Throws StorageError (corrupt).
  virtual std::string tokenizer() const { return {}; }
  /// Sample `index` as it is used in an epoch.
  struct Pick {
    std::int64_t epoch = 0, index = 0;
  };
  /// Replaces the contents of the batch. Throws StorageError (corrupt) that names file and chunk.
  virtual void read(std::span<const Pick> picks, Batch& batch) = 0;
};

struct Sources {
  std::unique_ptr<Source> training;
  std::unique_ptr<Source> validation;  ///< nullptr: there is no evaluation data
  std::vector<SetWatch> files;         ///< the files that they read
  /// Throws as SetWatch::require_unchanged() does.
  void require_unchanged();
};

/// Throws ConfigError for values that are invalid for any data set.
void check(const Options& options);

/// Images: those for training are augmented according to Options, those for evaluation are not. Tokens: sample i of an
/// epoch is the i-th window of `context` tokens, and the label of a token is the next one. Windows of a training set
/// begin at another offset in each epoch, so tokens are used in changing contexts, once per epoch except for a few at
/// the ends. The two sources open their files separately, so that two threads may use them. Throws StorageError or
/// ConfigError: there is no data set, the sets do not match, or there are no training samples.
Sources open_sources(const Options& options, std::int64_t context, std::uint64_t seed);

}  // namespace distdl::data
