// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/checkpoint/slice.hpp>
#include <distdl/tensor/element.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::checkpoint {

struct TensorEntry {
  std::string name;
  tensor::DataType dtype = tensor::DataType::float32;
  tensor::Shape shape;
  bool operator==(const TensorEntry&) const = default;
};

/// The contents of the manifest of a committed checkpoint.
struct Summary {
  Step step;
  std::filesystem::path folder;
  std::uint64_t bytes = 0;      ///< bytes of all files
  std::int64_t written_at = 0;  ///< seconds since 1970
  int world_size = 0;
  std::vector<TensorEntry> tensors;  ///< in name order
  State state;
  std::uint64_t plain_bytes = 0;   ///< bytes of all tensors
  std::uint64_t stored_bytes = 0;  ///< bytes of all tensors in the files; fewer if they are compressed
  std::uint64_t start = 0;         ///< Owner::start of the run that saved; 0: unknown
};

struct SaveReport {
  Step step;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

}  // namespace distdl::checkpoint
