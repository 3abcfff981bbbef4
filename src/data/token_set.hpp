// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include <distdl/data/data_set.hpp>

namespace distdl::data {

/// Text as one long row of tokens in one HDF5 file (docs/data-format.md), read and checked chunk by chunk as an
/// ImageSet. Not thread-safe; one per rank.
class TokenSet {
 public:
  /// Throws as ImageSet::open, for a set that holds something other than tokens.
  static TokenSet open(const std::filesystem::path& file, std::int64_t cache_mib);
  TokenSet(TokenSet&&) noexcept;
  TokenSet& operator=(TokenSet&&) noexcept;
  ~TokenSet();

  const Description& description() const noexcept;
  /// Tokens first .. first + count - 1. Throws StorageError corrupt naming file and chunk, ConfigError for tokens
  /// outside the set.
  void read(std::int64_t first, std::int64_t count, std::int32_t* tokens);

 private:
  struct Impl;
  explicit TokenSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distdl::data
