// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include <distdl/data/data_set.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {

/// How often each value of pixels occurs.
using PixelCounts = std::array<std::uint64_t, 256>;

/// Writes a set from beginning to end. The file appears under its name only after commit(). Example: SetWriter
/// writer("a.h5", {.kind = "images", ...}, Overwrite::refuse); writer.append(pixels, labels); writer.commit();
class SetWriter {
 public:
  /// The description contains kind, origin, samples, shape, classes and encoded_bytes; the rest is computed while
  /// writing. Throws ConfigError (impossible description, existing file), StorageError.
  SetWriter(const std::filesystem::path& file, Description description, Overwrite overwrite);
  ~SetWriter();

  /// Appends any number of whole images, (n, C, H, W), with a label each. Throws ConfigError for a label outside the
  /// classes or too many samples, and StorageError.
  void append(std::span<const std::uint8_t> pixels, std::span<const std::int32_t> labels);
  /// For a caller that has counted the values of `pixels`.
  void append(std::span<const std::uint8_t> pixels, std::span<const std::int32_t> labels, const PixelCounts& counts);
  /// Appends an encoded image. `pixels`: values of some of its pixels, for mean and deviation.
  void append_encoded(std::span<const std::byte> image, std::int32_t label, const PixelCounts& pixels);
  /// Appends tokens of a vocabulary of up to 256.
  void append(std::span<const std::uint8_t> tokens);
  /// Appends tokens of any vocabulary. Throws ConfigError for a token outside it.
  void append_tokens(std::span<const std::int64_t> tokens);
  /// Writes the content of the tokenizer, of Description::tokenizer_bytes bytes.
  void write_tokenizer(std::string_view json);
  /// Appends whole rows to one of the datasets of the kind.
  void append(std::string_view dataset, std::span<const std::byte> rows);
  /// Returns the stored description. Throws ConfigError if samples are missing, and StorageError.
  Description commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distdl::data
