// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>

#include <nlohmann/json.hpp>

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
                            TypeName{DataType::byte, "U8"}};

const char* type_name(DataType dtype) {
  return std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& type) { return type.dtype == dtype; })->name;
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

SafetensorsTensor tensor_from(const std::string& name, const json& value, std::uint64_t data, const OpenFile& file) {
  auto type = value.at("dtype").get<std::string>();
  const auto* known =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& each) { return type == each.name; });
  if (known == kTypes.end())
    throw StorageError(fmt::format("tensor \"{}\" of \"{}\" is of type {}; checkpoints hold F32, F64, F16, BF16, I32, "
                                   "I64 and U8: convert it first",
                                   name, file.path().string(), type),
                       ExitCode::incompatible);
  SafetensorsTensor tensor{{name, known->dtype, shape_in_header(value.at("shape"))}, 0};
  const json& offsets = value.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) throw std::invalid_argument("two offsets were expected");
  std::uint64_t begin = whole_number(offsets[0]), end = whole_number(offsets[1]);
  demand_header(begin <= end && end <= file.size() - data, file, "tensor \"{}\" extends beyond the end of the file",
                name);
  std::uint64_t elements = (end - begin) / tensor::size_of(known->dtype);
  demand_header(elements == static_cast<std::uint64_t>(tensor::element_count(tensor.entry.shape)) &&
                    end - begin == bytes_of(tensor.entry),
                file, "tensor \"{}\" of shape {} has {} bytes", name, tensor::to_string(tensor.entry.shape),
                end - begin);
  tensor.offset = data + begin;
  return tensor;
}

void check_gapless(const SafetensorsFile& content, std::uint64_t data, const OpenFile& file) {
  std::uint64_t at = data;
  for (const SafetensorsTensor& tensor : content.tensors) {
    demand_header(tensor.offset == at, file, "tensor \"{}\" begins at byte {}, but the previous one ends at {}",
                  tensor.entry.name, tensor.offset, at);
    at += bytes_of(tensor.entry);
  }
  demand_header(at == file.size(), file, "it has {} bytes, but its tensors end at byte {}", file.size(), at);
}
}  // namespace

std::string safetensors_header(const std::vector<TensorEntry>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  header[kMetadata] = metadata;
  // Not by operator[], which searches through all that are in it.
  auto& members = header.get_ref<nlohmann::ordered_json::object_t&>();
  std::uint64_t at = 0;
  for (const TensorEntry& entry : tensors) {
    std::uint64_t end = at + bytes_of(entry);
    nlohmann::ordered_json value{
        {"dtype", type_name(entry.dtype)}, {"shape", entry.shape}, {"data_offsets", {at, end}}};
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
  demand_header(length <= kLongestHeader && length <= file.size() - 8, file, "its header cannot be {} bytes long",
                length);
  std::string text(length, '\0');
  file.read_at(std::as_writable_bytes(std::span(text)), 8);
  demand_header(text.starts_with('{'), file, "its header does not begin with '{{'");
  json header = parse(text, file);
  SafetensorsFile content;
  try {
    for (const auto& [name, value] : header.items())
      if (name == kMetadata)
        content.metadata = value.get<std::map<std::string, std::string>>();
      else
        content.tensors.push_back(tensor_from(name, value, 8 + length, file));
  } catch (const StorageError&) {
    throw;
  } catch (const std::exception& error) {
    pass_on_shortage(error);
    demand_header(false, file, "its header cannot be understood ({})", error.what());
  }
  std::sort(content.tensors.begin(), content.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, bytes_of(a.entry)) < std::pair(b.offset, bytes_of(b.entry));
  });
  check_gapless(content, 8 + length, file);
  return content;
}

}  // namespace distdl::checkpoint
