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
  tensor::Shape shape;  ///< shape of the whole tensor
  tensor::Box box;
  const std::byte* bytes = nullptr;
  /// CRC-32C of each 4 MiB of the bytes (the last block may be shorter), if they were computed before. They are written
  /// unchanged, so that a read detects bytes that have changed since. Empty: they are computed during the write.
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

/// `passed`: read past the page cache if file system and alignment allow it. This is faster, but other readers on this
/// node must read the same bytes from the disk again.
enum class PageCache { used, passed };

/// Small named texts or bytes, equal on all ranks: configuration, position, backend. A key is a valid tensor name other
/// than "distdl.parity", which distdl itself uses.
using State = std::map<std::string, std::string>;
/// The key of the last step whose state has passed an audit before the save. Tools keep the newest checkpoint up to it.
inline constexpr const char* kAuditedState = "audited";

}  // namespace distdl::checkpoint
