// SPDX-License-Identifier: Apache-2.0
// The table of ways to store labelled images.
#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>

#include <fcntl.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/data/codecs/codec.hpp>
#include <distdl/data/listing/image_files.hpp>

namespace distdl::data {

const Listing& listing_of(const std::vector<std::filesystem::path>& sources) {
  static const std::array all{class_folders(), cifar_files(), csv_tables(), webdataset_shards()};
  const Listing* chosen = nullptr;
  for (const auto& source : sources) {
    std::error_code error;
    require<StorageError>(std::filesystem::exists(source, error), "there is no \"{}\"{}{}", source.string(),
                          error ? ": " : "", error ? error.message() : "");
    const auto* const found = std::ranges::find_if(all, [&](const Listing& way) { return way.is_of(source); });
    std::string ways;
    for (const Listing& way : all) ways += fmt::format("{}{}", ways.empty() ? "" : "; ", way.what);
    require(found != all.end(), "\"{}\" is not known to hold labelled images; these are: {}", source.string(), ways);
    require(chosen == nullptr || chosen == found, "\"{}\" is not of the same kind as \"{}\"; import them apart",
            source.string(), sources.front().string());
    chosen = &*found;
  }
  require(chosen != nullptr, "no source of images is given");
  return *chosen;
}

std::vector<std::byte> read_image_file(const std::filesystem::path& file) {
  const FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor)
    throw StorageError(fmt::format("cannot open \"{}\": {}", file.string(), errno_text(errno)),
                       errno == ENOENT ? ExitCode::incomplete : ExitCode::storage);
  const std::string content = read_regular(descriptor, file, kMostImageBytes);
  const auto bytes = std::as_bytes(std::span(content));
  return {bytes.begin(), bytes.end()};
}

bool is_image_name(std::string_view name) {
  constexpr std::array<std::string_view, 9> kEnds{".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                                  ".pgm", ".tif",  ".tiff", ".webp"};
  std::string small(name);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return small.ends_with(end); });
}

}  // namespace distdl::data
