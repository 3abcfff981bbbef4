// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/data/augmentation.hpp>
#include <distdl/data/format/labels.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/source.hpp>
#include <distdl/data/transforms/transform.hpp>

namespace distdl::data {
namespace {

constexpr std::int64_t kMaxExtent = 1 << 16;
constexpr std::int64_t kMaxImageBytes = 1 << 30;  // one chunk of HDF5 holds less than 4 GiB

}  // namespace

struct ImageSet::Impl {
  Description description;
  std::vector<std::int32_t> labels;
  ChunkReader images;
  PixelTables values;
  std::string digest;
};

ImageSet::ImageSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ImageSet::ImageSet(ImageSet&&) noexcept = default;
ImageSet& ImageSet::operator=(ImageSet&&) noexcept = default;
ImageSet::~ImageSet() = default;

ImageSet ImageSet::open(const std::filesystem::path& file, std::int64_t cache_mib, Normalization normalization) {
  OpenSet set = open_set(file);
  require(set.description.kind == kImages,
          "\"{}\" contains {}, but images are expected; "
          "make an image set with \"distdl data make shapes\" or \"distdl data import idx\"",
          file.string(), set.description.kind);
  auto specs = datasets_of(set.description);
  auto label_chunks = open_chunks(set, file, specs[1], 0);
  auto labels = read_labels(label_chunks, file.string(), set.description.classes);
  auto images = open_chunks(set, file, specs[0], cache_bytes(cache_mib));
  auto values = pixel_tables(set.description, normalization);
  auto digest = digest_of(set.description, std::array<const ChunkReader*, 2>{&images, &label_chunks});
  return ImageSet(std::make_unique<Impl>(
      Impl{std::move(set.description), std::move(labels), std::move(images), std::move(values), std::move(digest)}));
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
const PixelTables& ImageSet::normalized() const noexcept {
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
  for (std::int64_t index : indices) {
    auto stored = pixels(index);
    render(stored, impl_->description.shape, View{}, impl_->values, images);
    images += stored.size();
    *labels++ = impl_->labels[static_cast<std::size_t>(index)];
  }
}

namespace {
class Images final : public Source {
 public:
  explicit Images(const SetUse& use)
      : set_(ImageSet::open(use.file, use.options.cache_mib, use.options.normalize)),
        name_(fmt::format("\"{}\"", use.file)),
        first_(use.first),
        count_(use.count),
        crop_(use.trains ? use.options.crop : 0),
        mirror_(use.trains && use.options.mirror),
        seed_(use.seed),
        transforms_(use.options, use.seed, use.trains) {
    const std::int64_t channels = shape()[0];
    require(!transforms_.changes_pixels() || channels == 1 || channels == kColours,
            "data.color_jitter and data.rand_augment are for images of 1 or {} channels, but those of {} have {}",
            kColours, name_, channels);
    if (transforms_.changes_pixels()) pixels_.resize(static_cast<std::size_t>(tensor::element_count(shape())));
  }
  const std::string& name() const override { return name_; }
  const tensor::Shape& shape() const override { return set_.description().shape; }
  std::int64_t classes() const override { return set_.description().classes; }
  std::int64_t labels_per_sample() const override { return 1; }
  std::int64_t samples() const override { return count_; }
  const std::string& digest() const override { return set_.digest(); }

  void read(std::span<const Pick> picks, Batch& batch) override {
    const auto image = static_cast<std::size_t>(tensor::element_count(shape()));
    batch.values.resize(picks.size() * image);
    batch.labels.resize(picks.size());
    for (std::size_t i = 0; i < picks.size(); ++i) {
      const auto [epoch, index] = picks[i];
      const View view = crop_ > 0 || mirror_ ? view_of(seed_, epoch, index, crop_, mirror_) : View{};
      float* const out = batch.values.data() + i * image;
      if (transforms_.changes_pixels()) {
        render(set_.pixels(first_ + index), shape(), view, pixels_.data());
        transforms_.pixels(epoch, index, {shape()[0], shape()[1], shape()[2], pixels_.data()});
        normalize(pixels_, set_.normalized(), out);
      } else {
        render(set_.pixels(first_ + index), shape(), view, set_.normalized(), out);
      }
      transforms_.values(epoch, index, {shape()[0], shape()[1], shape()[2], out});
      batch.labels[i] = set_.labels()[static_cast<std::size_t>(first_ + index)];
    }
  }

 private:
  ImageSet set_;
  std::string name_;
  std::int64_t first_, count_, crop_;
  bool mirror_;
  std::uint64_t seed_;
  SampleTransforms transforms_;
  std::vector<std::uint8_t> pixels_;  ///< those of one image, if transforms change them
};

std::vector<DatasetSpec> image_datasets(const Description& description) {
  require(description.shape.size() == 3, "images have the shape (C, H, W), not {}",
          tensor::to_string(description.shape));
  tensor::Shape all{description.samples};
  for (std::int64_t extent : description.shape) {
    require(extent >= 1 && extent <= kMaxExtent, "images cannot have the shape {}",
            tensor::to_string(description.shape));
    all.push_back(extent);
  }
  require(tensor::element_count(description.shape) <= kMaxImageBytes,
          "images of the shape {} are too large; each may have at most 1 "
          "GiB",
          tensor::to_string(description.shape));
  tensor::element_count(all);  // throws on overflow
  return {{kImages, StoredNumber::u8, all}, {"labels", StoredNumber::i32, {description.samples}}};
}

std::vector<std::int32_t> labels_of(const std::filesystem::path& file) {
  constexpr std::int64_t kNoCache = 0;
  const auto set = ImageSet::open(file, kNoCache);
  return {set.labels().begin(), set.labels().end()};
}

void show_images(const std::filesystem::path& file, std::int64_t count,
                 const std::function<void(const ShownSample&)>& look) {
  constexpr std::int64_t kCacheMib = 1;
  auto set = ImageSet::open(file, kCacheMib);
  const Description& about = set.description();
  for (std::int64_t i = 0; i < std::min(count, about.samples); ++i)
    look(Picture{about.shape, set.pixels(i), set.labels()[static_cast<std::size_t>(i)]});
}
}  // namespace

Kind images_kind() {
  return {.name = kImages,
          .is_sequence = false,
          .is_normalized = true,
          .datasets = &image_datasets,
          .open = [](const SetUse& use) -> std::unique_ptr<Source> { return std::make_unique<Images>(use); },
          .labels = &labels_of,
          .show = &show_images};
}

}  // namespace distdl::data
