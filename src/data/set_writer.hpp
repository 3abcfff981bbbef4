// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include <distdl/data/data_set.hpp>
#include <distdl/data/staged_file.hpp>

namespace distdl::data {

/// Writes a set from front to back; it appears under its name with commit(), complete, or not at all.
/// Example: SetWriter writer("a.h5", {.kind = "images", ...}, Overwrite::refuse); writer.append(pixels, labels);
/// writer.commit();
class SetWriter {
 public:
  /// Kind, origin, samples, shape and classes are given; the rest of the description is found while writing.
  /// Throws ConfigError (impossible description, file exists), StorageError.
  SetWriter(const std::filesystem::path& file, Description description, Overwrite overwrite);
  ~SetWriter();

  /// Images: any number of whole ones, (n, C, H, W), and a label each. Throws ConfigError for a label outside the
  /// classes or more samples than announced, StorageError.
  void append(std::span<const std::uint8_t> pixels, std::span<const std::int32_t> labels);
  /// Tokens of a vocabulary of up to 256.
  void append(std::span<const std::uint8_t> tokens);
  /// Tokens of a larger one. Throws ConfigError for a token outside of it.
  void append(std::span<const std::uint16_t> tokens);
  /// The description as stored. Throws ConfigError if samples are missing, StorageError.
  Description commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace distdl::data
