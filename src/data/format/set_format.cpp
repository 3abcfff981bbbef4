// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <limits>
#include <system_error>
#include <type_traits>

#include <distdl/base/activity.hpp>
#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/data/format/hdf5_attributes.hpp>
#include <distdl/data/format/set_format.hpp>
#include <distdl/data/kinds.hpp>

namespace distdl::data {
namespace {
/// An attribute that older versions do not read, and so not a part of the checksum: the dataset has its length, too.
constexpr const char* kTokenizerBytes = "tokenizer_bytes";
constexpr const char *kTargetShape = "targets", *kNamesBytes = "names_bytes";  ///< for arrays only

/// CRC32C over the attributes in the order of docs/data-format.md: texts with a final zero byte, numbers as stored.
class DescriptionChecksum {
 public:
  void add(const std::string& text) {
    value_ = crc32c(std::as_bytes(std::span(text.c_str(), text.size() + 1)), value_);
  }
  template <class Number>
  void add(const Number& number) requires std::is_arithmetic_v<Number> {
    value_ = crc32c(std::as_bytes(std::span(&number, 1)), value_);
  }
  std::int64_t value() const { return value_; }

 private:
  std::uint32_t value_ = 0;
};

std::int64_t checksum_of(const Description& description, std::int64_t version) {
  DescriptionChecksum checksum;
  checksum.add(std::string(kFormatName));
  checksum.add(version);
  checksum.add(description.kind);
  checksum.add(description.origin);
  checksum.add(description.samples);
  for (std::int64_t extent : description.shape) checksum.add(extent);
  checksum.add(description.classes);
  checksum.add(description.mean);
  checksum.add(description.deviation);
  if (description.encoded_bytes != 0) checksum.add(description.encoded_bytes);
  for (const std::int64_t extent : description.targets) checksum.add(extent);
  if (description.names_bytes != 0) checksum.add(description.names_bytes);
  return checksum.value();
}

[[noreturn]] void damaged(const std::string& file, const std::string& why) {
  throw StorageError(fmt::format("\"{}\" is damaged: {}; create or copy the file again", file, why), ExitCode::corrupt);
}

Description read_attributes(hid_t root) {
  Description description;
  description.kind = read_text(root, "kind");
  description.origin = read_text(root, "origin");
  description.samples = read_integer(root, "samples");
  if (has_attribute(root, "shape")) description.shape = read_shape(root, "shape");
  description.classes = read_integer(root, "classes");
  description.mean = read_real(root, "mean");
  description.deviation = read_real(root, "deviation");
  if (has_attribute(root, "encoded_bytes")) description.encoded_bytes = read_integer(root, "encoded_bytes");
  if (has_attribute(root, kTokenizerBytes)) description.tokenizer_bytes = read_integer(root, kTokenizerBytes);
  if (has_attribute(root, kTargetShape)) description.targets = read_shape(root, kTargetShape);
  if (has_attribute(root, kNamesBytes)) description.names_bytes = read_integer(root, kNamesBytes);
  return description;
}

/// Other programs' files may have an attribute of this name and any type.
bool has_our_format(hid_t root) try {
  return has_attribute(root, "format") && read_text(root, "format") == kFormatName;
} catch (const StorageError& error) {
  pass_on_shortage(error);
  return false;
}

void require_known_format(hid_t root, const std::string& path) {
  if (!has_our_format(root))
    throw StorageError(
        fmt::format("\"{}\" is an HDF5 file, but not a distdl data set; make one with \"distdl data\"", path),
        ExitCode::incompatible);
  if (std::int64_t version = read_integer(root, "version"); version != kFormatVersion)
    throw StorageError(
        fmt::format("\"{}\" has version {} of the data set format, but this distdl reads version {}; use the "
                    "distdl that wrote it, or create the file again",
                    path, version, kFormatVersion),
        ExitCode::incompatible);
}

}  // namespace

std::size_t cache_bytes(std::int64_t cache_mib) {
  require(cache_mib >= 0 && cache_mib <= (std::int64_t{1} << 40), "data.cache_mib is {}, but must not be negative",
          cache_mib);
  return static_cast<std::size_t>(cache_mib) << 20;
}

std::vector<DatasetSpec> datasets_of(const Description& description) {
  require(description.samples >= 1, "a data set needs at least one sample, but this one has {}", description.samples);
  require(description.classes >= 1 && description.classes <= std::numeric_limits<std::int32_t>::max(),
          "a data set cannot have {} classes", description.classes);
  require(std::isfinite(description.mean) && std::isfinite(description.deviation) && description.deviation > 0,
          "mean {} and deviation {} cannot normalize pixels", description.mean, description.deviation);
  return find_kind(description.kind).datasets(description);
}

void write_description(const hdf5::File& file, const Description& description) {
  hid_t root = file.get();
  write_attribute(root, "format", std::string_view(kFormatName));
  write_attribute(root, "version", kFormatVersion);
  write_attribute(root, "kind", std::string_view(description.kind));
  write_attribute(root, "origin", std::string_view(description.origin));
  write_attribute(root, "samples", description.samples);
  if (!description.shape.empty()) write_attribute(root, "shape", description.shape);
  write_attribute(root, "classes", description.classes);
  write_attribute(root, "mean", description.mean);
  write_attribute(root, "deviation", description.deviation);
  if (description.encoded_bytes != 0) write_attribute(root, "encoded_bytes", description.encoded_bytes);
  if (description.tokenizer_bytes > 0) write_attribute(root, kTokenizerBytes, description.tokenizer_bytes);
  if (!description.targets.empty()) write_attribute(root, kTargetShape, description.targets);
  if (description.names_bytes != 0) write_attribute(root, kNamesBytes, description.names_bytes);
  write_attribute(root, "description_crc32c", checksum_of(description, kFormatVersion));
}

OpenSet open_set(const std::filesystem::path& path, Metadata metadata) {
  const ShownFile shown(fmt::format("\"{}\"", path.string()));
  OpenSet set{open_hdf5_file(path, metadata), {}};
  hid_t root = set.file.get();
  require_known_format(root, path.string());
  set.description = read_attributes(root);
  auto found = checksum_of(set.description, kFormatVersion), expected = read_integer(root, "description_crc32c");
  if (found != expected)
    damaged(path.string(),
            fmt::format("its description (the attributes of /) has CRC32C {:08x}, expected {:08x}", found, expected));
  try {
    datasets_of(set.description);
  } catch (const ConfigError& error) {
    damaged(path.string(), error.what());
  }
  std::error_code error;
  set.description.stored_bytes = std::filesystem::file_size(path, error);
  if (error) throw StorageError(fmt::format("cannot access \"{}\": {}", path.string(), error.message()));
  return set;
}

ChunkReader open_chunks(const OpenSet& set, const std::filesystem::path& path, const DatasetSpec& spec,
                        std::size_t cache_bytes) {
  return ChunkReader(set.file, path.string(), spec.name, spec.type, spec.shape, cache_bytes);
}

std::string digest_of(const Description& description, std::span<const ChunkReader* const> datasets) {
  constexpr std::size_t kDigits = 16;
  Sha256 sum;
  std::string text =
      fmt::format("{} {} {} {} {:08x} {:08x}", description.kind, description.samples,
                  tensor::to_string(description.shape), description.classes,
                  std::bit_cast<std::uint32_t>(description.mean), std::bit_cast<std::uint32_t>(description.deviation));
  if (!description.targets.empty()) text += " " + tensor::to_string(description.targets);
  sum.update(std::as_bytes(std::span(text)));
  for (const ChunkReader* chunks : datasets) sum.update(std::as_bytes(chunks->checksums()));
  return sum.hex().substr(0, kDigits);
}

}  // namespace distdl::data
