// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <distdl/checkpoint/exchange/pickle.hpp>
#include <distdl/checkpoint/exchange/safetensors.hpp>

namespace distdl::checkpoint {

/// A file of torch.save(), since torch 1.6: a zip archive with the pickle data.pkl and a file for each storage. Nothing
/// in it is executed.
class PytorchFile {
 public:
  /// Whether a file begins as such a one. Throws StorageError (incompatible) for the format of older versions of torch.
  static bool is_one(OpenFile& file);

  /// Throws StorageError: corrupt, or incompatible for what is no state_dict.
  explicit PytorchFile(const Path& file);

  /// The offset of a tensor is its place in the list.
  const SafetensorsFile& content() const { return content_; }
  /// Fills `out` with the first elements of a tensor, in row-major order. Throws StorageError.
  void read(const SafetensorsTensor& tensor, std::span<std::byte> out) const;

 private:
  Path file_;
  std::string prefix_;  ///< beginning of all names in the archive: "archive/"
  std::vector<PickledTensor> tensors_;
  SafetensorsFile content_;
};

}  // namespace distdl::checkpoint
