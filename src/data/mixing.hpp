// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include <distdl/data/options.hpp>
#include <distdl/data/source.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::data {

/// Mixes each image with the one before it in its batch, the first one with the last, as torchvision does. One share is
/// drawn for a batch. With both ways each batch uses one of them at random.
///
/// A batch here is a microbatch, which is the same on any number of ranks. So the result is a pure function of seed,
/// epoch and position.
class Mixing {
 public:
  /// Mixes nothing.
  Mixing() = default;
  Mixing(Options options, std::uint64_t seed) : options_(std::move(options)), seed_(seed) {}
  /// `sample`: number in its epoch of the first sample of the batch. The labels become targets of kernels::CrossEntropy
  /// that are mixed: those of the samples, those of the others, and the shares of the first as floats.
  void operator()(std::int64_t epoch, std::int64_t sample, const tensor::Shape& image, Batch& batch) const;

 private:
  Options options_;
  std::uint64_t seed_ = 0;
};

/// Whether the options mix images.
bool mixes_images(const Options& options);

/// Gives the labels of a batch the same format, each with the whole share.
void with_whole_shares(Batch& batch);

}  // namespace distdl::data
