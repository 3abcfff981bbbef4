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

/// Some samples in host memory, one after the other.
struct Batch {
  std::vector<float> values;         ///< of images
  std::vector<std::int32_t> tokens;  ///< of sequences
  std::vector<std::int32_t> labels;
  const void* samples() const { return tokens.empty() ? static_cast<const void*>(values.data()) : tokens.data(); }
};

/// A source of samples of one kind. Not thread-safe.
class Source {
 public:
  virtual ~Source() = default;
  /// For messages: `"train.h5"`.
  virtual const std::string& name() const = 0;
  /// Of one sample: (C, H, W) of floats, or (T) of int32 tokens.
  virtual const tensor::Shape& shape() const = 0;
  virtual std::int64_t classes() const = 0;
  virtual std::int64_t labels_per_sample() const = 0;
  /// Per epoch.
  virtual std::int64_t samples() const = 0;
  /// Digest of the whole set, as of when it was opened. Sets with equal digests hold the same samples.
  virtual const std::string& digest() const = 0;
  /// Sample `index` as it is seen in an epoch.
  struct Pick {
    std::int64_t epoch = 0, index = 0;
  };
  /// Replaces what the batch holds. Throws StorageError corrupt, naming file and chunk.
  virtual void read(std::span<const Pick> picks, Batch& batch) = 0;
};

struct Sources {
  std::unique_ptr<Source> training;
  std::unique_ptr<Source> validation;  ///< nullptr: nothing to evaluate on
  std::vector<SetWatch> files;         ///< that they read
  /// Throws as SetWatch::require_unchanged().
  void require_unchanged();
};

/// Throws ConfigError for values that make no sense, whatever the data set.
void check(const Options& options);

/// Images: augmented as Options say, but not those of evaluation. Tokens: sample i of an epoch is the i-th window of
/// `context` tokens, and each token's label is the one that follows it; windows of a training set begin at
/// another place in each epoch, so that a token is seen in changing contexts, once per epoch but for a few at the ends.
/// The two sources open their files separately, so that two threads may use them. Throws StorageError or ConfigError:
/// no data set, sets that do not agree, nothing left to train on.
Sources open_sources(const Options& options, std::int64_t context, std::uint64_t seed);

}  // namespace distdl::data
