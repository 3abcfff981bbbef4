// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

#include <distdl/base/file_descriptor.hpp>

namespace distdl::data {

/// Tokens on disk, until it is known how many there are: a file without a name, beside the set that they will be in.
class TokenSpool {
 public:
  /// Throws StorageError.
  explicit TokenSpool(const std::filesystem::path& output);
  void append(std::span<const std::uint32_t> tokens);
  std::int64_t size() const { return count_; }  ///< number of tokens
  /// Gives all of them to `take`, from the first on.
  void read(const std::function<void(std::span<const std::int64_t>)>& take);

 private:
  std::filesystem::path path_;  ///< for messages
  FileDescriptor file_;
  std::int64_t count_ = 0;
};

}  // namespace distdl::data
