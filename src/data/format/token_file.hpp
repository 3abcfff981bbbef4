// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include <distdl/data/format/decompressing_reader.hpp>
#include <distdl/data/text_import.hpp>

namespace distdl::data {

struct TokenNumber;

/// Token numbers as other programs' tokenizers write them, plain, gzip or zstd. A file is
/// - that of llm.c: 256 int32, of which the first are 20240520, 1 and the number of tokens, and then uint16; or
/// 20240801, 7,
///   the number, and then uint32;
/// - an array of NumPy (.npy, format versions 1 to 3) of whole numbers, little-endian, of one dimension;
/// - or has no header, as for nanoGPT.
class TokenFile {
 public:
  /// Throws StorageError, and ConfigError if the file is known to be something else, such as a text.
  TokenFile(const std::filesystem::path& path, TokenType type);

  std::optional<std::int64_t> announced() const { return announced_; }  ///< number of tokens, by the header
  /// The next tokens, of any value; nothing at the end. Throws StorageError, and ConfigError if the file ends within a
  /// token.
  std::span<const std::int64_t> next();

 private:
  bool read_llm_c();
  bool read_npy();
  void take_raw(TokenType type);
  std::size_t fetch(std::size_t bytes);

  DecompressingReader file_;
  const TokenNumber* number_ = nullptr;  ///< how each token is stored
  std::optional<std::int64_t> announced_;
  std::vector<std::byte> ahead_;
  std::vector<std::int64_t> piece_;
};

}  // namespace distdl::data
