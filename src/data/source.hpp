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
  std::vector<float> targets;        ///< in place of labels, see Source::targets()
  const void* samples() const { return tokens.empty() ? static_cast<const void*>(values.data()) : tokens.data(); }
  /// Labels, or targets: the model's loss compares with them.
  const void* wanted() const { return targets.empty() ? static_cast<const void*>(labels.data()) : targets.data(); }
};

/// A source of samples of one kind. Not thread-safe.
class Source {
 public:
  virtual ~Source() = default;
  /// The name for messages, such as `"train.h5"`.
  virtual const std::string& name() const = 0;
  /// The shape of one sample: (C, H, W) of floats, or (T) of int32 tokens.
  virtual const tensor::Shape& shape() const = 0;
  /// The number of classes or of entries of the vocabulary; with targets their number.
  virtual std::int64_t classes() const = 0;
  /// The number of labels or targets of a sample.
  virtual std::int64_t labels_per_sample() const = 0;
  /// The shape of the numbers to predict from a sample; empty: it has labels.
  virtual tensor::Shape targets() const { return {}; }
  /// The number of samples per epoch.
  virtual std::int64_t samples() const = 0;
  /// Digest of the whole set at the time when it was opened. Sets with equal digests have the same samples.
  virtual const std::string& digest() const = 0;
  /// The tokenizer of its tokens, for Tokenizer::parse(); empty: none is known. Throws StorageError (corrupt).
  virtual std::string tokenizer() const { return {}; }
  /// Tells what the numbers mean, by a digest: names of columns and of classes, means and deviations. Sets with another
  /// one cannot stand for each other. Empty: there is nothing to know.
  virtual std::string units() const { return {}; }
  /// Turns predictions of the targets of some samples into the units of the data set, where targets() are normalized.
  virtual void restore_units(std::span<float> predictions) const { static_cast<void>(predictions); }
  /// False: a Sampler orders the samples of an epoch. True: `index` is the place in the epoch.
  virtual bool has_own_order() const { return false; }
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
/// the ends. A mixture of sets: mixture.hpp; own_source.hpp: sources of the user's. The two sources open their files
/// separately, so that two threads may use them. Throws StorageError or ConfigError: there is no data set, the sets do
/// not match, or there are no training samples.
Sources open_sources(const Options& options, std::int64_t context, std::uint64_t seed);

}  // namespace distdl::data
