// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <distdl/data/data_set.hpp>

namespace distdl::data {

/// A new folder, removed with all that is in it.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  /// Entries, hidden ones too.
  std::size_t entries() const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& content);

/// The folder with MNIST and a text, $DISTDL_TEST_DATA or ../shared/data beside the sources; nothing if absent.
std::optional<std::filesystem::path> test_data();

/// Pixels and labels that differ from sample to sample: (3, 5, 7) bytes each, 4 classes.
Description write_small_images(const std::filesystem::path& file, std::int64_t samples);
std::uint8_t small_pixel(std::int64_t sample, std::int64_t place);

}  // namespace distdl::data
