// SPDX-License-Identifier: Apache-2.0
// How a manifest is written and parsed; docs/checkpoint-format.md describes the text.
#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include <distdl/base/checksum.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/format/json_outline.hpp>
#include <distdl/checkpoint/format/manifest.hpp>

namespace distdl::checkpoint {
namespace {
using nlohmann::json;

constexpr std::int64_t kManifestFormat = 3;
constexpr std::size_t kDeepest = 8;
constexpr std::string_view kHashTag = "sha256 ";
constexpr std::size_t kHashLine = kHashTag.size() + 64 + 1;

std::string hash_of(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

/// `line`: the last one of a manifest; `right`: what it should be.
std::string wrong_hash(std::string_view line, std::string_view right) {
  auto digits = [](std::string_view hash) { return hash.substr(kHashTag.size(), kHashLine - kHashTag.size() - 1); };
  bool is_hash =
      line.starts_with(kHashTag) && digits(line).find_first_not_of("0123456789abcdef") == std::string_view::npos;
  if (!is_hash) return "its last line is not a checksum: it is incomplete";
  return fmt::format("its checksum is wrong: sha256 {} expected, {} found", digits(line), digits(right));
}

std::string to_hex(const std::string& bytes) {
  std::string text;
  for (unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  throw std::invalid_argument(fmt::format("'{}' is not a hexadecimal digit", c));
}

std::string from_hex(const std::string& text) {
  if (text.size() % 2 != 0) throw std::invalid_argument("odd number of hexadecimal digits");
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes += static_cast<char>(hex_digit(text[i]) * 16 + hex_digit(text[i + 1]));
  return bytes;
}

json to_json(const StoredBox& box) {
  json value{{"at", box.box.offset}, {"extent", box.box.extent}, {"file", box.file}, {"crc32c", box.checksums}};
  if (box.chunks.empty()) {
    value["offset"] = box.offset;
    return value;
  }
  value["compression"] = name_of(box.codec);
  json& chunks = value["chunks"] = json::array();
  for (const StoredChunk& chunk : box.chunks) chunks.push_back({chunk.offset, chunk.bytes, chunk.checksum});
  return value;
}

json to_json(const StoredTensor& stored) {
  json boxes = json::array();
  for (const StoredBox& box : stored.boxes) boxes.push_back(to_json(box));
  return {{"name", stored.entry.name},
          {"dtype", tensor::code_of(stored.entry.dtype)},
          {"shape", stored.entry.shape},
          {"boxes", std::move(boxes)}};
}

/// json's own conversions wrap around and truncate silently.
std::int64_t integer(const json& value) {
  if (!value.is_number_integer()) throw std::invalid_argument("a whole number was expected");
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    throw std::invalid_argument("a number is too large");
  return value.get<std::int64_t>();
}

template <class T>
T unsigned_integer(const json& value) {
  std::int64_t number = integer(value);
  if (number < 0 || static_cast<std::uint64_t>(number) > std::numeric_limits<T>::max())
    throw std::invalid_argument(fmt::format("{} is out of range", number));
  return static_cast<T>(number);
}

const json& list(const json& value) {
  if (!value.is_array()) throw std::invalid_argument("a list was expected");
  return value;
}

tensor::Shape shape_from(const json& value) {
  tensor::Shape shape;
  for (const json& extent : list(value)) shape.push_back(integer(extent));
  return shape;
}

StoredBox box_from(const json& value) {
  StoredBox box{{shape_from(value.at("at")), shape_from(value.at("extent"))},
                unsigned_integer<std::size_t>(value.at("file")),
                0,
                {}};
  for (const json& crc : list(value.at("crc32c"))) box.checksums.push_back(unsigned_integer<std::uint32_t>(crc));
  if (!value.contains("compression")) {
    box.offset = unsigned_integer<std::uint64_t>(value.at("offset"));
    return box;
  }
  auto codec = codec_called(value.at("compression").get<std::string>());
  if (!codec || *codec == Codec::none || list(value.at("chunks")).empty())
    throw std::invalid_argument("a box is compressed in an unknown way");
  box.codec = *codec;
  for (const json& chunk : list(value.at("chunks")))
    box.chunks.push_back({unsigned_integer<std::uint64_t>(list(chunk).at(0)),
                          unsigned_integer<std::uint64_t>(chunk.at(1)), unsigned_integer<std::uint32_t>(chunk.at(2))});
  return box;
}

StoredTensor tensor_from(const json& value) {
  StoredTensor stored{
      {value.at("name").get<std::string>(), tensor::data_type_from_code(value.at("dtype").get<std::string>()),
       shape_from(value.at("shape"))},
      {}};
  for (const json& box : list(value.at("boxes"))) stored.boxes.push_back(box_from(box));
  return stored;
}

Manifest manifest_from(const json& document) {
  Manifest manifest;
  manifest.step = Step(integer(document.at("step")));
  manifest.written_at = integer(document.at("written_at"));
  manifest.world_size = unsigned_integer<int>(document.at("world"));
  if (document.contains("start")) manifest.start = unsigned_integer<std::uint64_t>(document.at("start"));
  for (const json& file : list(document.at("files")))
    manifest.files.push_back({file.at("name").get<std::string>(), unsigned_integer<std::uint64_t>(file.at("bytes")),
                              unsigned_integer<std::uint32_t>(file.at("rest"))});
  for (const json& value : list(document.at("tensors"))) manifest.tensors.push_back(tensor_from(value));
  for (const auto& [key, value] : document.at("state").items())
    manifest.state[key] = value.is_object() ? from_hex(value.at("hex").get<std::string>()) : value.get<std::string>();
  return manifest;
}
}  // namespace

/// The oldest one that has it all, for programs that know no other.
std::int64_t format_of(const Manifest& manifest) {
  const auto is_new = [](const StoredTensor& stored) { return stored.entry.dtype > tensor::DataType::int64; };
  if (std::ranges::any_of(manifest.tensors, is_new)) return kManifestFormat;
  return std::ranges::any_of(manifest.tensors, &is_compressed) ? 2 : 1;
}

std::string to_text(const Manifest& manifest) {
  json files = json::array(), tensors = json::array(), state = json::object();
  for (const StoredFile& file : manifest.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"rest", file.rest}});
  for (const StoredTensor& stored : manifest.tensors) tensors.push_back(to_json(stored));
  for (const auto& [key, value] : manifest.state)
    state[key] = is_utf8(value) ? json(value) : json{{"hex", to_hex(value)}};
  json document{{"format", format_of(manifest)}, {"step", manifest.step.value}, {"written_at", manifest.written_at},
                {"world", manifest.world_size},  {"files", std::move(files)},   {"tensors", std::move(tensors)},
                {"state", std::move(state)}};
  if (manifest.start > 0) document["start"] = manifest.start;
  std::string text = document.dump() + "\n";
  if (text.size() + kHashLine > kLargestManifest)
    throw StorageError(
        fmt::format("the manifest of step {} would be {} bytes long, but {} is the limit: the tensors are "
                    "cut into too many parts",
                    manifest.step, text.size(), kLargestManifest),
        ExitCode::incompatible);
  return fmt::format("{}{}{}\n", text, kHashTag, hash_of(text));
}

Manifest parse_manifest(const std::string& text, const std::string& origin) {
  auto bad = [&](const std::string& why) { return StorageError(origin + ": " + why, ExitCode::corrupt); };
  if (text.size() <= kHashLine) throw bad(fmt::format("{} bytes are too short for a manifest", text.size()));
  std::string_view body(text.data(), text.size() - kHashLine);
  std::string expected = fmt::format("{}{}\n", kHashTag, hash_of(body));
  if (text.substr(body.size()) != expected) throw bad(wrong_hash(std::string_view(text).substr(body.size()), expected));
  try {
    if (outline_of(body).depth > kDeepest) throw std::invalid_argument("it is nested too deeply");
    json document = json::parse(body);
    std::int64_t format = integer(document.at("format"));
    if (format < 1 || format > kManifestFormat)
      throw StorageError(
          fmt::format("{}: it has format {}, but this program reads formats up to {}; use the distdl that wrote it",
                      origin, format, kManifestFormat),
          ExitCode::incompatible);
    return manifest_from(document);
  } catch (const StorageError&) {
    throw;
  } catch (const std::exception& error) {
    pass_on_shortage(error);
    throw bad(fmt::format("it cannot be understood ({})", error.what()));
  }
}

}  // namespace distdl::checkpoint
