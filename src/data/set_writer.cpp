// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <system_error>

#include <distdl/base/errors.hpp>
#include <distdl/data/format/chunk_writer.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/data/set_writer.hpp>
#include <distdl/data/tokens.hpp>

namespace distdl::data {
namespace {

/// Mean and deviation of pixels / 255, exact up to the final rounding: the histogram holds whole numbers.
void set_moments(const PixelCounts& histogram, Description& description) {
  double count = 0, sum = 0, squares = 0;
  for (std::size_t value = 0; value < histogram.size(); ++value) {
    auto times = static_cast<double>(histogram[value]), pixel = static_cast<double>(value) / 255;
    count += times;
    sum += times * pixel;
    squares += times * pixel * pixel;
  }
  double mean = sum / count, variance = squares / count - mean * mean;
  description.mean = static_cast<float>(mean);
  // A set of one colour: anything but zero, which would divide.
  description.deviation = variance > 1e-12 ? static_cast<float>(std::sqrt(variance)) : 1.0f;
}

/// Checks the space for the payload first: HDF5 allocates it at creation, and takes hours for sizes that no disk has.
hdf5::File create_file(const std::filesystem::path& path, const std::vector<DatasetSpec>& specs) {
  std::uint64_t bytes = 0;
  for (const DatasetSpec& spec : specs)
    bytes += static_cast<std::uint64_t>(tensor::element_count(spec.shape)) * size_of(spec.type);
  constexpr double kMebibyte = 1 << 20;
  std::error_code unknown;
  const auto space = std::filesystem::space(path.has_parent_path() ? path.parent_path() : ".", unknown);
  require<StorageError>(
      unknown || bytes <= space.available,
      "\"{}\" needs {:.1f} MiB, but its file system has {:.1f} MiB free: free some space or write elsewhere",
      path.string(), static_cast<double>(bytes) / kMebibyte, static_cast<double>(space.available) / kMebibyte);
  return create_hdf5_file(path);
}

}  // namespace

struct SetWriter::Impl {
  Impl(const std::filesystem::path& target, Description given, Overwrite overwrite)
      : description(std::move(given)),
        specs(datasets_of(description)),
        staged(target, overwrite),
        file(create_file(staged.temporary(), specs)) {
    for (const auto& spec : specs) writers.emplace_back(file, spec.name, spec.type, spec.shape);
  }

  Description description;
  std::vector<DatasetSpec> specs;
  StagedFile staged;
  hdf5::File file;
  std::vector<ChunkWriter> writers;  // as datasets_of: images and labels, or tokens
  PixelCounts histogram{};
};

SetWriter::SetWriter(const std::filesystem::path& file, Description description, Overwrite overwrite)
    : impl_(std::make_unique<Impl>(file, std::move(description), overwrite)) {}
SetWriter::~SetWriter() = default;

void SetWriter::append(std::span<const std::uint8_t> pixels, std::span<const std::int32_t> labels) {
  PixelCounts counts{};
  for (const std::uint8_t pixel : pixels) ++counts[pixel];
  append(pixels, labels, counts);
}

void SetWriter::append(std::span<const std::uint8_t> pixels, std::span<const std::int32_t> labels,
                       const PixelCounts& counts) {
  assert(impl_->specs.size() == 2);
  auto image = static_cast<std::size_t>(tensor::element_count(impl_->description.shape));
  require(pixels.size() == labels.size() * image, "{} labels do not match {} pixels of images {}", labels.size(),
          pixels.size(), tensor::to_string(impl_->description.shape));
  for (std::int32_t label : labels)
    require(label >= 0 && label < impl_->description.classes, "label {} is outside the {} classes 0 to {}", label,
            impl_->description.classes, impl_->description.classes - 1);
  for (std::size_t value = 0; value < counts.size(); ++value) impl_->histogram[value] += counts[value];
  impl_->writers[0].append(std::as_bytes(pixels));
  impl_->writers[1].append(std::as_bytes(labels));
}

void SetWriter::append(std::span<const std::uint8_t> tokens) {
  assert(impl_->specs[0].name == kTokens && impl_->specs[0].type == StoredNumber::u8);
  impl_->writers[0].append(std::as_bytes(tokens));
}

void SetWriter::append_encoded(std::span<const std::byte> image, std::int32_t label, const PixelCounts& pixels) {
  assert(impl_->specs.size() == 3);
  require(label >= 0 && label < impl_->description.classes, "label {} is outside the {} classes 0 to {}", label,
          impl_->description.classes, impl_->description.classes - 1);
  const auto length = static_cast<std::int32_t>(image.size());  // at most kMostImageBytes
  for (std::size_t value = 0; value < pixels.size(); ++value) impl_->histogram[value] += pixels[value];
  impl_->writers[0].append(image);
  impl_->writers[1].append(std::as_bytes(std::span(&length, 1)));
  impl_->writers[2].append(std::as_bytes(std::span(&label, 1)));
}

void SetWriter::append_tokens(std::span<const std::int64_t> tokens) {
  assert(impl_->specs[0].name == kTokens);
  for (const std::int64_t token : tokens)
    require(token >= 0 && token < impl_->description.classes, "token {} is outside the vocabulary 0 to {}", token,
            impl_->description.classes - 1);
  const auto narrow = [&](auto zero) {
    const std::vector<decltype(zero)> stored(tokens.begin(), tokens.end());
    impl_->writers[0].append(std::as_bytes(std::span(stored)));
  };
  switch (impl_->specs[0].type) {
    case StoredNumber::u8:
      return narrow(std::uint8_t{});
    case StoredNumber::u16:
      return narrow(std::uint16_t{});
    default:
      return narrow(std::uint32_t{});
  }
}

void SetWriter::write_tokenizer(std::string_view json) {
  assert(static_cast<std::int64_t>(json.size()) == impl_->description.tokenizer_bytes);
  if (impl_->specs.back().name == kTokenizer) impl_->writers.back().append(std::as_bytes(std::span(json)));
}

void SetWriter::append(std::string_view dataset, std::span<const std::byte> rows) {
  const auto found = std::ranges::find(impl_->specs, dataset, &DatasetSpec::name);
  assert(found != impl_->specs.end());
  impl_->writers[static_cast<std::size_t>(found - impl_->specs.begin())].append(rows);
}

Description SetWriter::commit() {
  for (auto& writer : impl_->writers) writer.finish(impl_->file);
  if (find_kind(impl_->description.kind).is_normalized) set_moments(impl_->histogram, impl_->description);
  write_description(impl_->file, impl_->description);
  close_and_check(std::move(impl_->file));
  std::error_code error;
  impl_->description.stored_bytes = std::filesystem::file_size(impl_->staged.temporary(), error);
  impl_->staged.publish();
  return impl_->description;
}

}  // namespace distdl::data
