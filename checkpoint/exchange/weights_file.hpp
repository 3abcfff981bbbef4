// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include <distdl/checkpoint/exchange/pytorch_file.hpp>
#include <distdl/checkpoint/exchange/safetensors.hpp>

namespace distdl::checkpoint {

/// A file of weights that another program has written: safetensors, or of torch.save().
class WeightsFile {
 public:
  /// Reads and checks what is in it. Throws StorageError.
  explicit WeightsFile(const Path& file);

  const SafetensorsFile& content() const { return content_; }
  /// Fills `out` with the first elements of a tensor of content(), in row-major order. Throws StorageError.
  void read(const SafetensorsTensor& tensor, std::span<std::byte> out);

 private:
  OpenFile file_;
  std::optional<PytorchFile> pytorch_;
  SafetensorsFile content_;
};

}  // namespace distdl::checkpoint
