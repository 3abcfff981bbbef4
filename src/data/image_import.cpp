// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/processors.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/data/codecs/framed_image.hpp>
#include <distdl/data/codecs/workers.hpp>
#include <distdl/data/encoded_images.hpp>
#include <distdl/data/image_import.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/listing/image_files.hpp>
#include <distdl/data/set_writer.hpp>

namespace distdl::data {
namespace {
constexpr std::int64_t kUsualSize = 224, kMostSize = 1 << 14;
constexpr std::size_t kBlockPerWorker = 32;  // images of a block, which are decoded while the one before is written

/// An image on its way from its file to the set.
struct Image {
  std::size_t number = 0;
  std::vector<std::byte> encoded;
  std::vector<std::uint8_t> pixels;
  PixelCounts counts{};
  std::string broken;  ///< why it cannot be decoded
};

std::size_t import_threads_of(const ImageImport& import) {
  return import.threads > 0 ? static_cast<std::size_t>(import.threads)
                            : std::max<std::size_t>(1, usable_processors().size());
}

}  // namespace

class ImageImporter::Impl {
 public:
  explicit Impl(ImageImport given)
      : import_(std::move(given)),
        listing_(listing_of(import_.sources)),
        files_(listing_.list(import_.sources)),
        framers_(import_threads_of(import_)),
        checks_(framers_.size()),
        workers_(framers_.size()),
        size_(import_.size > 0    ? import_.size
              : listing_.size > 0 ? listing_.size
                                  : kUsualSize),
        resize_(import_.resize > 0 ? import_.resize : size_),
        classes_(import_.classes > 0 ? import_.classes : files_->classes()) {
    require(size_ <= kMostSize, "--size is {}, but must be at most {}", size_, kMostSize);
    require(resize_ >= size_ && resize_ <= kMostSize, "--resize is {}, but must be from --size, {}, to {}", resize_,
            size_, kMostSize);
    require(!import_.is_encoded || import_.channels == 3, "encoded images are used in 3 channels, not {}",
            import_.channels);
    require(!import_.is_encoded || !import_.is_upright,
            "--encoded keeps images as they are: set data.upright for training instead of --upright");
    for (const ListedImage& image : images())
      require(image.label < classes_, "\"{}\" has the label {}, but --classes {} allows 0 to {}", image.name,
              image.label, classes_, classes_ - 1);
  }
  const std::vector<ListedImage>& images() const { return files_->images(); }

  /// Writes the set without the images that are known to be broken. Nothing, if more of them are found.
  std::optional<Description> write_all() {
    const std::size_t known = broken_.size();
    SetWriter writer(import_.output, description(), import_.overwrite);
    std::vector<Image> decoding, done;
    for (std::size_t next = 0; next < images().size() || !decoding.empty();) {
      std::swap(decoding, done);
      decoding.clear();
      fill(decoding, next);
      workers_.start(decoding.size(), [&](std::size_t item, std::size_t worker) { decode(decoding[item], worker); });
      try {
        for (const Image& image : done) take(image, writer, known);
      } catch (...) {
        stop();
        throw;
      }
      workers_.finish();
      if (next == images().size() && !decoding.empty()) {
        for (const Image& image : decoding) take(image, writer, known);
        decoding.clear();
      }
    }
    if (broken_.size() > known) return std::nullopt;
    return writer.commit();
  }
  std::vector<std::string> broken() const {
    std::vector<std::string> all;
    for (const auto& [number, why] : broken_) all.push_back(fmt::format("\"{}\": {}", images()[number].name, why));
    return all;
  }

 private:
  Description description() const {
    const auto& all = images();
    require(broken_.size() < all.size(), "all {} images are broken, as \"{}\": {}", all.size(), all.front().name,
            broken_.empty() ? "" : broken_.begin()->second);
    Description about{.kind = import_.is_encoded ? kEncodedImages : kImages,
                      .origin = fmt::format("images {}", import_.sources.front().filename().string()),
                      .samples = static_cast<std::int64_t>(all.size() - broken_.size()),
                      .shape = {import_.channels, size_, size_},
                      .classes = classes_};
    for (std::size_t i = 0; i < all.size() && import_.is_encoded; ++i)
      if (!broken_.contains(i)) about.encoded_bytes += static_cast<std::int64_t>(all[i].bytes);
    return about;
  }

  /// The next images that are not known to be broken; those of a stream are read here.
  void fill(std::vector<Image>& block, std::size_t& next) {
    for (; next < images().size() && block.size() < kBlockPerWorker * workers_.count(); ++next) {
      if (broken_.contains(next)) continue;
      Image image;
      image.number = next;
      if (files_->is_stream()) image.encoded = files_->read(next);
      block.push_back(std::move(image));
    }
  }

  void decode(Image& image, std::size_t worker) try {
    if (!files_->is_stream()) image.encoded = files_->read(image.number);
    if (import_.is_encoded) return check_image(image.encoded, checks_[worker], image.counts);
    ImageFramer& framer = framers_[worker];
    framer.decode(
        image.encoded, [&](auto width, auto height) { return centre_frame(width, height, size_, resize_); }, size_,
        import_.is_upright);
    image.pixels.resize(static_cast<std::size_t>(import_.channels * size_ * size_));
    framer.write(import_.channels, image.pixels.data());
    for (const std::uint8_t pixel : image.pixels) ++image.counts[pixel];
  } catch (const BrokenImage& error) {
    image.broken = error.what();
  }

  void take(const Image& image, SetWriter& writer, std::size_t known) {
    const ListedImage& listed = images()[image.number];
    if (!image.broken.empty() && !import_.skips_broken)
      throw StorageError(fmt::format("\"{}\" is broken: {}; replace it, or pass over broken images with --skip-broken",
                                     listed.name, image.broken),
                         ExitCode::corrupt);
    if (!image.broken.empty()) broken_[image.number] = image.broken;
    work_done(WorkUnit::samples, 1);
    if (broken_.size() > known) return;  // the number of samples was wrong: all is written once more
    if (import_.is_encoded) {
      require<StorageError>(image.encoded.size() == listed.bytes, "\"{}\" was changed while it was imported",
                            listed.name);
      writer.append_encoded(image.encoded, listed.label, image.counts);
    } else {
      writer.append(image.pixels, {&listed.label, 1}, image.counts);
    }
  }

  void stop() {
    try {
      workers_.finish();
    } catch (const std::exception&) {  // the first error is told
    }
  }

  ImageImport import_;
  const Listing& listing_;
  std::unique_ptr<ImageFiles> files_;
  std::vector<ImageFramer> framers_;  // one for each worker
  std::vector<DecodedPart> checks_;   // likewise
  Workers workers_;
  std::int64_t size_ = 0, resize_ = 0, classes_ = 0;
  std::map<std::size_t, std::string> broken_;
};

ImageImporter::ImageImporter(ImageImport import) : impl_(std::make_unique<Impl>(std::move(import))) {}
ImageImporter::~ImageImporter() = default;

std::size_t ImageImporter::images() const {
  return impl_->images().size();
}

ImportedImages ImageImporter::write() {
  for (;;)
    if (auto description = impl_->write_all()) return {*description, impl_->broken()};
}

}  // namespace distdl::data
