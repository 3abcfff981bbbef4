// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include <distdl/tensor/element.hpp>
#include <distdl/tensor/shape.hpp>

namespace distdl::checkpoint {

/// A box of a tensor in this process's memory, dense row-major.
struct Slice {
  std::string name;  ///< "parameter/conv1.weight", "momentum/conv1.weight"
  tensor::DataType dtype = tensor::DataType::float32;
  tensor::Shape shape;  ///< of the whole tensor
  tensor::Box box;
  const std::byte* bytes = nullptr;
  /// CRC-32C of each 4 MiB of the bytes (the last may be shorter), if they were computed before. They are then written
  /// as they are, so that a read detects bytes that have changed since. Empty: they are computed while writing.
  std::span<const std::uint32_t> checksums = {};
};

/// A box to fill on restore.
struct Target {
  std::string name;
  tensor::DataType dtype = tensor::DataType::float32;
  tensor::Shape shape;
  tensor::Box box;
  std::byte* bytes = nullptr;
};

/// `passed`: read past the page cache where file system and alignment allow it. That is faster, but other readers on
/// this node have to fetch the same bytes again.
enum class PageCache { used, passed };

/// Small named texts or bytes, equal on all ranks: configuration, position, backend. A key is a valid tensor name other
/// than "distdl.parity", which distdl uses itself.
using State = std::map<std::string, std::string>;

}  // namespace distdl::checkpoint
