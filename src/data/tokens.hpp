// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <distdl/data/data_set.hpp>
#include <distdl/data/kinds.hpp>

namespace distdl::data {

inline constexpr std::int64_t kLargestVocabulary = (std::int64_t{1} << 31) - 1;  ///< tokens in memory are int32
inline constexpr const char* kTokens = "tokens";                                 ///< the name of this kind of data set

/// A sequence of tokens in one HDF5 file. Each chunk is verified each time it is read from the file. Not thread-safe;
/// each reading thread has one.
class TokenSet {
 public:
  /// Throws as describe_file() does. Throws ConfigError if the set has something other than tokens.
  static TokenSet open(const std::filesystem::path& file);
  TokenSet(TokenSet&&) noexcept;
  TokenSet& operator=(TokenSet&&) noexcept;
  ~TokenSet();

  const Description& description() const noexcept;
  const std::string& digest() const noexcept;  ///< see ImageSet
  /// The tokenizer in the set, for Tokenizer::parse(); empty: there is none. Throws StorageError (corrupt).
  std::string tokenizer() const;
  /// Reads tokens first .. first + tokens.size() - 1. Throws StorageError (corrupt) that names file and chunk, and
  /// ConfigError for positions outside the set.
  void read(std::int64_t first, std::span<std::int32_t> tokens);

 private:
  struct Impl;
  explicit TokenSet(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The row of the table of kinds.
Kind tokens_kind();

}  // namespace distdl::data
