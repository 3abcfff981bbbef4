// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <distdl/tensor/buffer.hpp>

namespace distdl::parallel::server {

/// The floats of a version of a range, or their code. The memory is used again when nobody has it any more.
using Values = std::shared_ptr<const tensor::Buffer>;

/// A fixed number of places for versions, in one block of memory that other ranks may read. They take memory of the
/// machine when they are first used. One thread at a time.
class VersionMemory {
 public:
  VersionMemory() = default;
  /// Makes places for versions with so many floats each.
  VersionMemory(std::size_t places, std::size_t floats);

  std::span<std::byte> all() const { return block_ ? block_->as<std::byte>() : std::span<std::byte>(); }
  /// Memory for a version, in a place if one is free that has room.
  std::shared_ptr<tensor::Buffer> take(std::size_t bytes) const;
  /// Returns where in all() such memory begins, in bytes. Empty: it is in no place.
  std::optional<std::size_t> place_of(const std::byte* memory) const;

 private:
  std::size_t place_bytes_ = 0;
  std::shared_ptr<tensor::Buffer> block_;
  std::shared_ptr<std::vector<std::byte*>> free_;  ///< the place that was used last is the next one
};

}  // namespace distdl::parallel::server
