// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>

#include <distdl/base/errors.hpp>
#include <distdl/base/processors.hpp>
#include <distdl/data/codecs/framed_image.hpp>
#include <distdl/data/codecs/workers.hpp>
#include <distdl/data/encoded_images.hpp>
#include <distdl/data/format/labels.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/normalization.hpp>
#include <distdl/data/source.hpp>
#include <distdl/data/transforms/transform.hpp>

namespace distdl::data {

struct EncodedSet::Impl {
  std::string file;
  Description description;
  std::vector<std::int32_t> labels;
  std::vector<std::int64_t> ends;  ///< where each image ends in /encoded
  ChunkReader bytes;
  std::string digest;
};

EncodedSet::EncodedSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EncodedSet::EncodedSet(EncodedSet&&) noexcept = default;
EncodedSet& EncodedSet::operator=(EncodedSet&&) noexcept = default;
EncodedSet::~EncodedSet() = default;

EncodedSet EncodedSet::open(const std::filesystem::path& file, std::int64_t cache_mib) {
  OpenSet set = open_set(file);
  require(set.description.kind == kEncodedImages,
          "\"{}\" contains {}, but encoded images are expected; make such a set with \"distdl data import images "
          "--encoded\"",
          file.string(), set.description.kind);
  const auto specs = datasets_of(set.description);
  auto length_chunks = open_chunks(set, file, specs[1], 0), label_chunks = open_chunks(set, file, specs[2], 0);
  auto labels = read_labels(label_chunks, file.string(), set.description.classes);
  const auto lengths = read_integers(length_chunks);
  std::vector<std::int64_t> ends(lengths.begin(), lengths.end());
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  if (ends.back() != set.description.encoded_bytes || *std::ranges::min_element(lengths) < 1)
    throw StorageError(fmt::format("\"{}\" is damaged: its images have {} bytes together, but the description says {}; "
                                   "create the file again",
                                   file.string(), ends.back(), set.description.encoded_bytes),
                       ExitCode::corrupt);
  auto bytes = open_chunks(set, file, specs[0], cache_bytes(cache_mib));
  auto digest = digest_of(set.description, std::array<const ChunkReader*, 3>{&bytes, &length_chunks, &label_chunks});
  return EncodedSet(std::make_unique<Impl>(Impl{file.string(), std::move(set.description), std::move(labels),
                                                std::move(ends), std::move(bytes), std::move(digest)}));
}

const Description& EncodedSet::description() const noexcept {
  return impl_->description;
}
const std::string& EncodedSet::digest() const noexcept {
  return impl_->digest;
}
std::span<const std::int32_t> EncodedSet::labels() const noexcept {
  return impl_->labels;
}

void EncodedSet::read(std::int64_t index, std::vector<std::byte>& bytes) {
  const auto& ends = impl_->ends;
  require(index >= 0 && index < static_cast<std::int64_t>(ends.size()), "sample {} is outside the data set of {}",
          index, ends.size());
  const auto place = static_cast<std::size_t>(index);
  auto& chunks = impl_->bytes;
  bytes.clear();
  for (std::int64_t at = place == 0 ? 0 : ends[place - 1]; at < ends[place];) {
    const auto chunk = chunks.chunk(at / chunks.rows_per_chunk());
    const auto skip = static_cast<std::size_t>(at % chunks.rows_per_chunk());
    const auto piece = chunk.subspan(skip, std::min(chunk.size() - skip, static_cast<std::size_t>(ends[place] - at)));
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    at += static_cast<std::int64_t>(piece.size());
  }
}

namespace {
constexpr std::int64_t kMostExtent = 1 << 14;  // of the images that are made from encoded ones

[[noreturn]] void cannot_decode(std::int64_t sample, const std::string& set, const BrokenImage& error) {
  throw StorageError(
      fmt::format("sample {} of {} cannot be decoded: {}; import the images again", sample, set, error.what()),
      ExitCode::corrupt);
}

/// torchvision's recipe resizes to 256 for 224.
std::int64_t resize_of(const Options& options, std::int64_t size) {
  return options.resize > 0 ? options.resize : (size * 8 + 3) / 7;
}

std::size_t decode_threads_of(const Options& options) {
  return options.decode_threads > 0 ? static_cast<std::size_t>(options.decode_threads)
                                    : std::max<std::size_t>(1, usable_processors().size());
}

/// Reads in one thread, and decodes in several.
class EncodedImages final : public Source {
 public:
  explicit EncodedImages(const SetUse& use)
      : set_(EncodedSet::open(use.file, use.options.cache_mib)),
        options_(use.options),
        name_(fmt::format("\"{}\"", use.file)),
        tables_(pixel_tables(set_.description(), use.options.normalize)),
        first_(use.first),
        count_(use.count),
        size_(set_.description().shape[1]),
        resize_(resize_of(use.options, size_)),
        transforms_(use.options, use.seed, use.trains),
        framers_(decode_threads_of(use.options)),
        pixels_(framers_.size()),
        workers_(framers_.size()) {
    if (transforms_.changes_pixels())
      for (auto& pixels : pixels_) pixels.resize(static_cast<std::size_t>(tensor::element_count(shape())));
    require(resize_ >= size_ && resize_ <= kMostExtent,
            "data.resize is {}, but must be 0 or {} (the size of the images of {}) to {}", resize_, size_, name_,
            kMostExtent);
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
    encoded_.resize(std::max(encoded_.size(), picks.size()));
    for (std::size_t i = 0; i < picks.size(); ++i) {
      set_.read(first_ + picks[i].index, encoded_[i]);
      batch.labels[i] = set_.labels()[static_cast<std::size_t>(first_ + picks[i].index)];
    }
    workers_.start(picks.size(), [&](std::size_t item, std::size_t worker) {
      decode(picks[item], encoded_[item], worker, batch.values.data() + item * image);
    });
    workers_.finish();
  }

 private:
  void decode(const Pick& pick, std::span<const std::byte> bytes, std::size_t worker, float* out) try {
    ImageFramer& framer = framers_[worker];
    framer.decode(
        bytes, [&](std::int64_t width, std::int64_t height) { return frame_of(pick, width, height); }, size_,
        options_.upright);
    if (transforms_.changes_pixels()) {
      const Pixels pixels{kColours, size_, size_, pixels_[worker].data()};
      framer.write(kColours, pixels.bytes);
      transforms_.pixels(pick.epoch, pick.index, pixels);
      normalize({pixels.bytes, pixels_[worker].size()}, tables_, out);
    } else {
      framer.write(tables_, out);
    }
    transforms_.values(pick.epoch, pick.index, {kColours, size_, size_, out});
  } catch (const BrokenImage& error) {
    cannot_decode(first_ + pick.index, name_, error);
  }

  Frame frame_of(const Pick& pick, std::int64_t width, std::int64_t height) const {
    Frame frame = centre_frame(width, height, size_, resize_);
    transforms_.frame(pick.epoch, pick.index, width, height, size_, frame);
    return frame;
  }

  EncodedSet set_;
  Options options_;
  std::string name_;
  PixelTables tables_;
  std::int64_t first_, count_, size_, resize_;
  SampleTransforms transforms_;
  std::vector<std::vector<std::byte>> encoded_;
  std::vector<ImageFramer> framers_;               ///< one for each worker
  std::vector<std::vector<std::uint8_t>> pixels_;  ///< likewise, if transforms change them
  Workers workers_;
};

std::vector<DatasetSpec> encoded_datasets(const Description& description) {
  const auto& shape = description.shape;
  require(shape.size() == 3 && shape[0] == kColours && shape[1] == shape[2] && shape[1] >= 1 && shape[1] <= kMostExtent,
          "encoded images are used in the shape (3, N, N) with N from 1 to {}, not {}", kMostExtent,
          tensor::to_string(shape));
  require(description.encoded_bytes >= description.samples, "{} encoded images cannot have {} bytes",
          description.samples, description.encoded_bytes);
  return {{"encoded", StoredNumber::u8, {description.encoded_bytes}},
          {"lengths", StoredNumber::i32, {description.samples}},
          {"labels", StoredNumber::i32, {description.samples}}};
}

std::vector<std::int32_t> encoded_labels(const std::filesystem::path& file) {
  const auto set = EncodedSet::open(file, 0);
  return {set.labels().begin(), set.labels().end()};
}

void show_encoded_images(const std::filesystem::path& file, std::int64_t count,
                         const std::function<void(const ShownSample&)>& look) {
  auto set = EncodedSet::open(file, 1);
  const Description& about = set.description();
  const std::int64_t size = about.shape[1];
  ImageFramer framer;
  std::vector<std::byte> bytes;
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(tensor::element_count(about.shape)));
  for (std::int64_t i = 0; i < std::min(count, about.samples); ++i) {
    set.read(i, bytes);
    try {
      framer.decode(
          bytes, [&](auto width, auto height) { return centre_frame(width, height, size, resize_of({}, size)); }, size,
          false);
    } catch (const BrokenImage& error) {
      cannot_decode(i, fmt::format("\"{}\"", file.string()), error);
    }
    framer.write(kColours, pixels.data());
    look(Picture{about.shape, pixels, set.labels()[static_cast<std::size_t>(i)]});
  }
}
}  // namespace

Kind encoded_images_kind() {
  return {.name = kEncodedImages,
          .is_sequence = false,
          .is_normalized = true,
          .datasets = &encoded_datasets,
          .open = [](const SetUse& use) -> std::unique_ptr<Source> { return std::make_unique<EncodedImages>(use); },
          .labels = &encoded_labels,
          .show = &show_encoded_images};
}

}  // namespace distdl::data
