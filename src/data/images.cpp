// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/images.hpp>

namespace distdl::data {
namespace {

std::array<float, 256> normalized_values(const Description& description) {
  std::array<float, 256> values{};
  for (std::size_t pixel = 0; pixel < values.size(); ++pixel)
    values[pixel] = (static_cast<float>(pixel) / 255.0f - description.mean) / description.deviation;
  return values;
}

std::vector<std::int32_t> read_labels(ChunkReader& chunks, const std::string& file, std::int64_t classes) {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(chunks.rows()));
  auto rest = std::as_writable_bytes(std::span(labels));
  for (std::int64_t number = 0; number < chunks.chunks(); ++number) {
    auto bytes = chunks.chunk(number);
    std::copy(bytes.begin(), bytes.end(), rest.begin());
    rest = rest.subspan(bytes.size());
  }
  auto wrong = std::find_if(labels.begin(), labels.end(), [&](auto label) { return label < 0 || label >= classes; });
  if (wrong != labels.end())
    throw StorageError(
        fmt::format("\"{}\" is damaged: sample {} has the label {}, outside the classes 0 to {}; create the "
                    "file again",
                    file, wrong - labels.begin(), *wrong, classes - 1),
        ExitCode::corrupt);
  return labels;
}

}  // namespace

struct ImageSet::Impl {
  Description description;
  std::vector<std::int32_t> labels;
  ChunkReader images;
  std::array<float, 256> values;
  std::string digest;
};

ImageSet::ImageSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ImageSet::ImageSet(ImageSet&&) noexcept = default;
ImageSet& ImageSet::operator=(ImageSet&&) noexcept = default;
ImageSet::~ImageSet() = default;

ImageSet ImageSet::open(const std::filesystem::path& file, std::int64_t cache_mib) {
  OpenSet set = open_set(file);
  require(set.description.kind == kImages,
          "\"{}\" contains {}, but images are expected; "
          "make an image set with \"distdl data make shapes\" or \"distdl data import idx\"",
          file.string(), set.description.kind);
  auto specs = datasets_of(set.description);
  auto label_chunks = open_chunks(set, file, specs[1], 0);
  auto labels = read_labels(label_chunks, file.string(), set.description.classes);
  auto images = open_chunks(set, file, specs[0], cache_bytes(cache_mib));
  auto values = normalized_values(set.description);
  auto digest = digest_of(set.description, std::array<const ChunkReader*, 2>{&images, &label_chunks});
  return ImageSet(std::make_unique<Impl>(
      Impl{std::move(set.description), std::move(labels), std::move(images), values, std::move(digest)}));
}

const std::string& ImageSet::digest() const noexcept {
  return impl_->digest;
}

const Description& ImageSet::description() const noexcept {
  return impl_->description;
}
std::span<const std::int32_t> ImageSet::labels() const noexcept {
  return impl_->labels;
}
const std::array<float, 256>& ImageSet::normalized() const noexcept {
  return impl_->values;
}
std::int64_t ImageSet::chunk_reads() const noexcept {
  return impl_->images.reads();
}

std::span<const std::uint8_t> ImageSet::pixels(std::int64_t index) {
  auto& chunks = impl_->images;
  require(index >= 0 && index < chunks.rows(), "sample {} is outside the data set of {}", index, chunks.rows());
  auto bytes = chunks.chunk(index / chunks.rows_per_chunk());
  auto offset = static_cast<std::size_t>(index % chunks.rows_per_chunk()) * chunks.row_bytes();
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()) + offset, chunks.row_bytes()};
}

void ImageSet::read(std::span<const std::int64_t> indices, float* images, std::int32_t* labels) {
  const float* values = impl_->values.data();
  for (std::int64_t index : indices) {
    auto stored = pixels(index);
    for (std::size_t i = 0; i < stored.size(); ++i) images[i] = values[stored[i]];
    images += stored.size();
    *labels++ = impl_->labels[static_cast<std::size_t>(index)];
  }
}

}  // namespace distdl::data
