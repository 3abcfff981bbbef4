// SPDX-License-Identifier: Apache-2.0
// The binary version of CIFAR-10 and CIFAR-100: https://www.cs.toronto.edu/~kriz/cifar.html
#include <algorithm>
#include <string>

#include <distdl/base/errors.hpp>
#include <distdl/data/listing/image_files.hpp>

namespace distdl::data {
namespace {
namespace fs = std::filesystem;
constexpr std::size_t kExtent = 32, kPlane = kExtent * kExtent, kPixels = 3 * kPlane;
constexpr std::size_t kRecord10 = 1 + kPixels, kRecord100 = 2 + kPixels;

class Cifar final : public ImageFiles {
 public:
  explicit Cifar(const std::vector<fs::path>& sources) {
    for (const fs::path& source : sources) {
      const auto file = read_image_file(source);
      const std::size_t record = file.size() % kRecord10 == 0 ? kRecord10 : kRecord100;
      require<StorageError>(!file.empty() && file.size() % record == 0,
                            "\"{}\" has {} bytes, but records of {} (CIFAR-10) or {} bytes (CIFAR-100) are expected",
                            source.string(), file.size(), kRecord10, kRecord100);
      const std::int32_t classes = record == kRecord10 ? 10 : 100;
      require(classes_ == 0 || classes_ == classes, "\"{}\" has {} classes, but \"{}\" has {}; import them apart",
              source.string(), classes, sources.front().string(), classes_);
      classes_ = classes;
      for (std::size_t at = 0; at < file.size(); at += record) {
        const auto label = std::to_integer<std::int32_t>(file[at + record - kPixels - 1]);  // the fine one
        const std::string name = fmt::format("{}: image {}", source.string(), at / record);
        require<StorageError>(label < classes, "\"{}\" has the label {}, but {} classes", name, label, classes);
        images_.push_back({name, label, kHead.size() + kPixels});
        pixels_.insert(pixels_.end(), file.begin() + static_cast<std::ptrdiff_t>(at + record - kPixels),
                       file.begin() + static_cast<std::ptrdiff_t>(at + record));
      }
    }
  }
  /// As a PPM image.
  std::vector<std::byte> read(std::size_t number) override {
    std::vector<std::byte> image(kHead.size() + kPixels);
    std::ranges::transform(kHead, image.begin(), [](char c) { return static_cast<std::byte>(c); });
    const std::byte* const planes = pixels_.data() + number * kPixels;
    for (std::size_t i = 0; i < kPixels; ++i) image[kHead.size() + i] = planes[i % 3 * kPlane + i / 3];
    return image;
  }

 private:
  static constexpr std::string_view kHead = "P6\n32 32\n255\n";
  std::vector<std::byte> pixels_;
};
}  // namespace

Listing cifar_files() {
  return {.what = "files of CIFAR-10 or CIFAR-100 in their binary version, .bin",
          .is_of = [](const fs::path& source) { return source.extension() == ".bin"; },
          .list = [](const std::vector<fs::path>& sources) -> std::unique_ptr<ImageFiles> {
            return std::make_unique<Cifar>(sources);
          },
          .size = kExtent};
}

}  // namespace distdl::data
