// SPDX-License-Identifier: Apache-2.0
// Shards of WebDataset: tar archives in which the files of a sample follow each other and have the same path up to the
// first dot of their name; .cls is the label. https://github.com/webdataset/webdataset
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <distdl/base/errors.hpp>
#include <distdl/data/codecs/codec.hpp>
#include <distdl/data/listing/image_files.hpp>
#include <distdl/files/archive_reader.hpp>

namespace distdl::data {
namespace {
namespace fs = std::filesystem;
constexpr std::size_t kMostLabel = 64;  // bytes of a .cls

/// A name's end after the first dot of its last part.
std::size_t dot_of(const std::string& name) {
  const std::size_t slash = name.rfind('/'), dot = name.find('.', slash == std::string::npos ? 0 : slash + 1);
  return dot == std::string::npos ? name.size() : dot;
}

/// Whether a file is the image of a sample: "a.jpg", but neither "a.mask.png" nor the "._a.jpg" of macOS.
bool is_image_of_sample(const std::string& name) {
  const std::size_t dot = dot_of(name);
  const bool is_hidden = dot == 0 || (dot < name.size() && name[dot - 1] == '/');
  return !is_hidden && is_image_name(name) && name.find('.', dot + 1) == std::string::npos;
}

class Shards final : public ImageFiles {
 public:
  explicit Shards(std::vector<fs::path> sources) : sources_(std::move(sources)) {
    for (const fs::path& source : sources_) list(source);
    for (const ListedImage& image : images_) classes_ = std::max<std::int64_t>(classes_, std::int64_t{image.label} + 1);
    require(!images_.empty(), "\"{}\" has no images", sources_.front().string());
  }
  bool is_stream() const override { return true; }
  std::vector<std::byte> read(std::size_t number) override {
    if (number == 0 || number < next_) source_ = next_ = 0, reader_.reset();
    for (;;) {
      if (!reader_) {
        require<StorageError>(source_ < sources_.size(), "the archives have changed while they are read");
        reader_.emplace(sources_[source_++], ArchiveReader::Format::tar);
      }
      if (!reader_->next()) {
        reader_.reset();
        continue;
      }
      if (!is_image_of_sample(reader_->name())) continue;
      if (next_++ == number) return reader_->read(kMostImageBytes);
    }
  }

 private:
  struct Sample {
    std::string key;
    bool has_image = false;
    std::optional<std::int32_t> label;
  };

  void list(const fs::path& source) {
    ArchiveReader reader(source, ArchiveReader::Format::tar);
    Sample sample;
    const auto finish = [&] {
      require(!sample.has_image || sample.label,
              "the image \"{}\" in \"{}\" has no label: \"{}.cls\" is expected beside it", sample.key, source.string(),
              sample.key);
      if (sample.has_image) images_.back().label = *sample.label;
    };
    while (reader.next()) {
      const std::string& name = reader.name();
      const std::size_t dot = dot_of(name);
      if (name.substr(0, dot) != sample.key) {
        finish();
        sample = {name.substr(0, dot), false, std::nullopt};
      }
      if (name.substr(dot) == ".cls") sample.label = label_in(reader, source);
      if (!is_image_of_sample(name)) continue;
      require(!sample.has_image, "the sample \"{}\" in \"{}\" has two images", sample.key, source.string());
      sample.has_image = true;
      images_.push_back({fmt::format("{}: {}", source.string(), name), 0, reader.bytes()});
    }
    finish();
  }

  static std::int32_t label_in(ArchiveReader& reader, const fs::path& source) {
    const auto content = reader.read(kMostLabel);
    const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
    std::int32_t label = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
    const bool is_whole =
        std::all_of(end, text.data() + text.size(), [](char c) { return c == '\n' || c == ' ' || c == '\r'; });
    require(error == std::errc() && is_whole && label >= 0,
            "\"{}\" in \"{}\" is \"{}\", but a number of a class is expected", reader.name(), source.string(), text);
    return label;
  }

  std::vector<fs::path> sources_;
  std::size_t source_ = 0, next_ = 0;  ///< what read() comes to
  std::optional<ArchiveReader> reader_;
};
}  // namespace

Listing webdataset_shards() {
  return {.what = "shards of WebDataset, .tar, .tar.gz, .tgz or .tar.zst",
          .is_of =
              [](const fs::path& source) {
                constexpr std::array<std::string_view, 4> kEnds{".tar", ".tar.gz", ".tgz", ".tar.zst"};
                const std::string name = source.filename().string();
                return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
              },
          .list = [](const std::vector<fs::path>& sources) -> std::unique_ptr<ImageFiles> {
            return std::make_unique<Shards>(sources);
          }};
}

}  // namespace distdl::data
