// SPDX-License-Identifier: Apache-2.0
#include "tests/data/scratch_folder.hpp"

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>
#include <stdlib.h>

#include <distdl/base/env.hpp>
#include <distdl/data/set_writer.hpp>

namespace distdl::data {

ScratchFolder::ScratchFolder() {
  std::string name = (std::filesystem::path(::testing::TempDir()) / "distdl-data-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make a folder " + name);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::size_t ScratchFolder::entries() const {
  std::filesystem::directory_iterator all(path_);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::remove(path);  // truncating instead makes some file systems flush
  std::ofstream(path, std::ios::binary) << content;
}

std::optional<std::filesystem::path> test_data() {
  std::filesystem::path folder = env("DISTDL_TEST_DATA").value_or(DISTDL_SOURCE_DIR "/../shared/data");
  if (std::filesystem::is_directory(folder)) return folder;
  return std::nullopt;
}

std::uint8_t small_pixel(std::int64_t sample, std::int64_t place) {
  return static_cast<std::uint8_t>(sample * 31 + place * 7 + sample * place);
}

Description write_small_images(const std::filesystem::path& file, std::int64_t samples) {
  SetWriter writer(file, {.kind = "images", .origin = "test", .samples = samples, .shape = {3, 5, 7}, .classes = 4},
                   Overwrite::refuse);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    std::vector<std::uint8_t> pixels;
    for (std::int64_t place = 0; place < 3 * 5 * 7; ++place) pixels.push_back(small_pixel(sample, place));
    auto label = static_cast<std::int32_t>(sample % 4);
    writer.append(pixels, {&label, 1});
  }
  return writer.commit();
}

}  // namespace distdl::data
