// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/base/known_formats.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/exchange/safetensors.hpp>
#include <distdl/checkpoint/format/json_outline.hpp>

namespace distdl::checkpoint {
namespace {
using nlohmann::json;
using tensor::DataType;

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the limit of the reference reader
constexpr std::size_t kMostShapeNumbers = 32;
constexpr const char* kMetadata = "__metadata__";

struct TypeName {
  DataType dtype;
  const char* name;
};
constexpr std::array kTypes{TypeName{DataType::float32, "F32"}, TypeName{DataType::float64, "F64"},
                            TypeName{DataType::float16, "F16"}, TypeName{DataType::bfloat16, "BF16"},
                            TypeName{DataType::int32, "I32"},   TypeName{DataType::int64, "I64"},
                            TypeName{DataType::byte, "U8"},     TypeName{DataType::int8, "I8"},
                            TypeName{DataType::int16, "I16"},   TypeName{DataType::boolean, "BOOL"}};

const char* type_name(const TensorEntry& entry) {
  const auto* const found = std::ranges::find(kTypes, entry.dtype, &TypeName::dtype);
  require<UsageError>(found != kTypes.end(),
                      "array \"{}\" is of type {}, which safetensors does not have: export it as .npz or .h5, or the "
                      "others with --tensors",
                      entry.name, tensor::code_of(entry.dtype));
  return found->name;
}

std::uint64_t bytes_of(const TensorEntry& entry) {
  return static_cast<std::uint64_t>(tensor::element_count(entry.shape)) * tensor::size_of(entry.dtype);
}

template <class... Args>
void demand_header(bool condition, const OpenFile& file, fmt::format_string<Args...> message, Args&&... args) {
  if (condition) return;
  throw StorageError(fmt::format("\"{}\" is not a complete safetensors file: {}", file.path().string(),
                                 fmt::format(message, std::forward<Args>(args)...)),
                     ExitCode::corrupt);
}

/// Refuses what nests deeper than a header can, and two tensors of one name.
json parse(const std::string& text, const OpenFile& file) {
  const JsonOutline outline = outline_of(text);
  demand_header(outline.depth <= 4, file, "its header is nested too deeply");
  try {
    json header = json::parse(text);
    demand_header(header.size() == outline.members, file, "it has {} names, but only {} different ones",
                  outline.members, header.size());
    return header;
  } catch (const json::exception& error) {
    demand_header(false, file, "its header cannot be understood ({})", error.what());
    throw;
  }
}

std::uint64_t whole_number(const json& value) {
  if (!value.is_number_unsigned()) throw std::invalid_argument("a whole number was expected");
  return value.get<std::uint64_t>();
}

tensor::Shape shape_in_header(const json& value) {
  tensor::Shape shape;
  if (!value.is_array() || value.size() > kMostShapeNumbers) throw std::invalid_argument("a shape was expected");
  for (const json& extent : value) {
    std::uint64_t number = whole_number(extent);
    if (number > std::uint64_t{1} << 62) throw std::invalid_argument("an extent is too large");
    shape.push_back(static_cast<std::int64_t>(number));
  }
  (void)tensor::element_count(shape);  // throws if that is too large
  return shape;
}

/// The place of a tensor of any type. Offsets are from the start of the file.
struct Place {
  std::uint64_t begin, end;
  std::string name;
};

Place place_from(const std::string& name, const json& value, std::uint64_t data, const OpenFile& file) {
  const json& offsets = value.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) throw std::invalid_argument("two offsets were expected");
  std::uint64_t begin = whole_number(offsets[0]), end = whole_number(offsets[1]);
  demand_header(begin <= end && end <= file.size() - data, file, "tensor \"{}\" extends beyond the end of the file",
                name);
  return {data + begin, data + end, name};
}

SafetensorsTensor tensor_from(const Place& place, DataType dtype, const json& value, const OpenFile& file) {
  SafetensorsTensor tensor{{place.name, dtype, shape_in_header(value.at("shape"))}, place.begin};
  const std::uint64_t bytes = place.end - place.begin, elements = bytes / tensor::size_of(dtype);
  demand_header(elements == static_cast<std::uint64_t>(tensor::element_count(tensor.entry.shape)) &&
                    bytes == bytes_of(tensor.entry),
                file, "tensor \"{}\" of shape {} has {} bytes", place.name, tensor::to_string(tensor.entry.shape),
                bytes);
  return tensor;
}

void check_gapless(std::vector<Place> places, std::uint64_t data, const OpenFile& file) {
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t at = data;
  for (const Place& place : places) {
    demand_header(place.begin == at, file, "tensor \"{}\" begins at byte {}, but the previous one ends at {}",
                  place.name, place.begin, at);
    at = place.end;
  }
  demand_header(at == file.size(), file, "it has {} bytes, but its tensors end at byte {}", file.size(), at);
}
void refuse_known_format(OpenFile& file) {
  std::array<std::byte, kFormatHead> head{};
  const auto bytes = std::span(head).first(std::min<std::size_t>(head.size(), file.size()));
  file.read_at(bytes, 0);
  const auto format = known_format(bytes);
  if (format.empty()) return;
  throw StorageError(fmt::format("\"{}\" is not a safetensors file: it is {}", file.path().string(), format),
                     ExitCode::incompatible);
}
}  // namespace

void require_known_types(const SafetensorsFile& content, const Path& file) {
  if (content.others.empty()) return;
  const auto& [name, type] = content.others.front();
  throw StorageError(fmt::format("tensor \"{}\" of \"{}\" is of type {}; checkpoints hold F32, F64, F16, BF16, I64, "
                                 "I32, I16, I8, U8 and BOOL: convert it first",
                                 name, file.string(), type),
                     ExitCode::incompatible);
}

std::string safetensors_header(const std::vector<TensorEntry>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  header[kMetadata] = metadata;
  // Not by operator[], which searches through all that are in it.
  auto& members = header.get_ref<nlohmann::ordered_json::object_t&>();
  std::uint64_t at = 0;
  for (const TensorEntry& entry : tensors) {
    std::uint64_t end = at + bytes_of(entry);
    nlohmann::ordered_json value{{"dtype", type_name(entry)}, {"shape", entry.shape}, {"data_offsets", {at, end}}};
    members.push_back({entry.name, std::move(value)});
    at = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text;
}

SafetensorsFile read_safetensors(OpenFile& file) {
  demand_header(file.size() >= 8, file, "it has {} bytes", file.size());
  std::array<std::byte, 8> bytes{};
  file.read_at(bytes, 0);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  const bool fits = length <= kLongestHeader && length <= file.size() - 8;
  std::string text(fits ? length : 0, '\0');
  file.read_at(std::as_writable_bytes(std::span(text)), 8);
  if (!text.starts_with('{')) refuse_known_format(file);  // a length, too, may be any bytes
  demand_header(fits, file, "its header cannot be {} bytes long", length);
  demand_header(text.starts_with('{'), file, "its header does not begin with '{{'");
  json header = parse(text, file);
  SafetensorsFile content;
  std::vector<Place> places;
  try {
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        if (!value.is_null()) content.metadata = value.get<std::map<std::string, std::string>>();
        continue;
      }
      places.push_back(place_from(name, value, 8 + length, file));
      const auto type = value.at("dtype").get<std::string>();
      const auto* known =
          std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& each) { return type == each.name; });
      if (known == kTypes.end())
        content.others.emplace_back(name, type);
      else
        content.tensors.push_back(tensor_from(places.back(), known->dtype, value, file));
    }
  } catch (const StorageError&) {
    throw;
  } catch (const std::exception& error) {
    pass_on_shortage(error);
    demand_header(false, file, "its header cannot be understood ({})", error.what());
  }
  std::sort(content.tensors.begin(), content.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, bytes_of(a.entry)) < std::pair(b.offset, bytes_of(b.entry));
  });
  check_gapless(std::move(places), 8 + length, file);
  return content;
}

}  // namespace distdl::checkpoint
