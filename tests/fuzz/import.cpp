// SPDX-License-Identifier: Apache-2.0
// Any bytes as what "distdl data import" reads, plain, gzip or zstd.
#include "memory_files.hpp"
#include "target.hpp"
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/idx_import.hpp>
#include <distdl/data/text_import.hpp>

namespace {
using namespace distdl;

/// Input: two bytes with the length of the file of labels, that file, the file of images.
void read_idx(std::string_view input) {
  static fuzz::MemoryFile images, labels;
  fuzz::Input rest(input);
  labels.put(rest.text());
  images.put(rest.rest());
  std::int64_t announced = 0, count = 0;
  std::size_t bytes = 0;
  data::read_idx(
      {.images = images.path(), .labels = labels.path(), .output = {}},
      [&](const data::Description& description) {
        data::datasets_of(description);
        announced = description.samples;
        bytes = static_cast<std::size_t>(tensor::element_count(description.shape));
      },
      [&](std::span<const std::uint8_t> pixels, std::int32_t label) {
        fuzz::demand(pixels.size() == bytes && label >= 0 && label < 256, "an image is whole");
        ++count;
      });
  fuzz::demand(announced == count && count > 0, "as many images come as were announced");
}

/// Input: two bytes with the vocabulary, the file.
void count_tokens(std::string_view input) {
  static fuzz::MemoryFile file;
  fuzz::Input rest(input);
  const std::int64_t vocabulary = rest.number<std::uint16_t>();
  file.put(rest.rest());
  fuzz::demand(data::count_tokens({file.path(), vocabulary}) > 0, "a set of tokens is never empty");
}

const fuzz::Target idx("idx", &read_idx), tokens("tokens", &count_tokens);
}  // namespace
