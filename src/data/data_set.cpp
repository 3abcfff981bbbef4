// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/format/chunk_reader.hpp>
#include <distdl/data/format/set_format.hpp>

namespace distdl::data {
namespace {

std::array<float, 256> normalized_values(const Description& description) {
  std::array<float, 256> values{};
  for (std::size_t pixel = 0; pixel < values.size(); ++pixel)
    values[pixel] = (static_cast<float>(pixel) / 255.0f - description.mean) / description.deviation;
  return values;
}

ChunkReader open_chunks(const OpenSet& set, const std::filesystem::path& path, const DatasetSpec& spec,
                        std::size_t cache_bytes) {
  return ChunkReader(set.file, path.string(), spec.name, spec.type, spec.shape, cache_bytes);
}

/// See docs/data-format.md. Costs no reading: the checksums of the chunks stand for their bytes.
std::string digest_of(const Description& description, std::span<const ChunkReader* const> datasets) {
  constexpr std::size_t kDigits = 16;
  Sha256 sum;
  const std::string text =
      fmt::format("{} {} {} {} {:08x} {:08x}", description.kind, description.samples,
                  tensor::to_string(description.shape), description.classes,
                  std::bit_cast<std::uint32_t>(description.mean), std::bit_cast<std::uint32_t>(description.deviation));
  sum.update(std::as_bytes(std::span(text)));
  for (const ChunkReader* chunks : datasets) sum.update(std::as_bytes(chunks->checksums()));
  return sum.hex().substr(0, kDigits);
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

struct TokenSet::Impl {
  std::string file;
  Description description;
  StoredInteger type;
  ChunkReader tokens;
  std::string digest;
};

TokenSet::TokenSet(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TokenSet::TokenSet(TokenSet&&) noexcept = default;
TokenSet& TokenSet::operator=(TokenSet&&) noexcept = default;
TokenSet::~TokenSet() = default;

TokenSet TokenSet::open(const std::filesystem::path& file) {
  constexpr std::size_t kCache = 16 << 20;
  OpenSet set = open_set(file);
  require(set.description.kind == kTokens,
          "\"{}\" contains {}, but tokens are expected; make a set of them with \"distdl data import text\"",
          file.string(), set.description.kind);
  const auto spec = datasets_of(set.description)[0];
  auto chunks = open_chunks(set, file, spec, kCache);
  auto digest = digest_of(set.description, std::array<const ChunkReader*, 1>{&chunks});
  return TokenSet(std::make_unique<Impl>(
      Impl{file.string(), std::move(set.description), spec.type, std::move(chunks), std::move(digest)}));
}

const std::string& TokenSet::digest() const noexcept {
  return impl_->digest;
}

const Description& TokenSet::description() const noexcept {
  return impl_->description;
}

void TokenSet::read(std::int64_t first, std::span<std::int32_t> tokens) {
  auto& chunks = impl_->tokens;
  const auto count = static_cast<std::int64_t>(tokens.size());
  require(first >= 0 && count <= chunks.rows() && first <= chunks.rows() - count,
          "tokens {} to {} are outside the data set of {}", first, first + count - 1, chunks.rows());
  const auto classes = static_cast<std::int32_t>(impl_->description.classes);
  const auto widen = [&](auto stored) {
    std::copy(stored.begin(), stored.end(), tokens.begin());
    tokens = tokens.subspan(stored.size());
  };
  for (std::int64_t at = first; at < first + count;) {
    const auto bytes = chunks.chunk(at / chunks.rows_per_chunk());
    const auto skip = static_cast<std::size_t>(at % chunks.rows_per_chunk());
    const auto taken = std::min(bytes.size() / chunks.row_bytes() - skip, tokens.size());
    if (impl_->type == StoredInteger::u8)
      widen(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()) + skip, taken));
    else
      widen(std::span(reinterpret_cast<const std::uint16_t*>(bytes.data()) + skip, taken));
    auto* const got = tokens.data() - taken;
    const auto* wrong = std::find_if(got, tokens.data(), [&](std::int32_t token) { return token >= classes; });
    if (wrong != tokens.data())
      throw StorageError(
          fmt::format("\"{}\" is damaged: token {} is {}, outside the vocabulary 0 to {}; create the file "
                      "again",
                      impl_->file, at + (wrong - got), *wrong, classes - 1),
          ExitCode::corrupt);
    at += static_cast<std::int64_t>(taken);
  }
}

Description describe_file(const std::filesystem::path& file) {
  return open_set(file).description;
}

std::string digest_of_file(const std::filesystem::path& file) {
  const OpenSet set = open_set(file, Metadata::read_anew);
  std::vector<ChunkReader> datasets;
  for (const auto& spec : datasets_of(set.description)) datasets.push_back(open_chunks(set, file, spec, 0));
  std::vector<const ChunkReader*> in_order;
  in_order.reserve(datasets.size());
  for (const auto& chunks : datasets) in_order.push_back(&chunks);
  return digest_of(set.description, in_order);
}

Verification verify_file(const std::filesystem::path& file) {
  OpenSet set = open_set(file);
  Verification result;
  auto collect = [&](auto&& action) {
    try {
      action();
    } catch (const StorageError& error) {
      pass_on_shortage(error);
      result.damage.emplace_back(error.what());
    }
  };
  for (const auto& spec : datasets_of(set.description))
    collect([&] {
      ChunkReader chunks = open_chunks(set, file, spec, 0);
      for (std::int64_t number = 0; number < chunks.chunks(); ++number, ++result.chunks)
        collect([&] { work_done(WorkUnit::bytes, chunks.chunk(number).size()); });
    });
  return result;
}

}  // namespace distdl::data
