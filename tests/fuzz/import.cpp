// SPDX-License-Identifier: Apache-2.0
// Any bytes as what "distdl data import" reads, plain, gzip or zstd.
#include "memory_files.hpp"
#include "target.hpp"
#include <distdl/data/array_import.hpp>
#include <distdl/data/format/number_array.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/format/text_records.hpp>
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

/// Input: a byte with the format, the file. What is imported is whole, and its values are finite.
void read_table(std::string_view input) {
  static fuzz::MemoryFile file;
  fuzz::Input rest(input);
  const bool has_tabs = rest.number<std::uint8_t>() % 2 == 1;
  file.put(rest.rest());
  data::TextRecordReader reader(file.path(), has_tabs ? data::TextFormat::tsv : data::TextFormat::csv, "", {});
  std::int64_t line = 1;
  while (const auto records = reader.next())
    for (std::size_t i = 0; i < records->ends.size(); ++i) {
      const auto row = data::row_of_record(*records, i);
      fuzz::demand(!row || !row->empty(), "a row has columns");
      fuzz::demand(data::line_of_record(*records, i) >= line, "lines follow each other");
      line = data::line_of_record(*records, i);
      if (row) data::classes_of(*row, "fuzz");
    }
}

/// Input: the file, .npz or .npy.
void read_arrays(std::string_view input) {
  constexpr std::int64_t kMostRead = 1 << 16;
  static fuzz::MemoryFile file;
  file.put(input);
  if (input.starts_with("\x89HDF")) return;  // whose files the target "data_set" reads
  for (const auto& name : data::arrays_in(file.path())) {
    const auto array = data::open_array(file.path(), name);
    std::int64_t count = 1;
    for (const auto extent : array->shape()) fuzz::demand(!__builtin_mul_overflow(count, extent, &count), "a size");
    std::vector<double> numbers(static_cast<std::size_t>(std::min(count, kMostRead)));
    array->read(numbers);
  }
}

const fuzz::Target table("table", &read_table), arrays("arrays", &read_arrays);
const fuzz::Target idx("idx", &read_idx), tokens("tokens", &count_tokens);
}  // namespace
