// SPDX-License-Identifier: Apache-2.0
// Version 3 of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#include <bit>

#include <distdl/base/errors.hpp>
#include <distdl/base/wire.hpp>
#include <distdl/checkpoint/exchange/export.hpp>
#include <distdl/files/whole_file.hpp>

namespace distdl::checkpoint {
namespace {
using tensor::DataType;

constexpr std::uint64_t kAlignment = 32;  // the format's default
enum class GgufType { uint32 = 4, int32 = 5, float32 = 6, boolean = 7, text = 8, list = 9 };

std::string gguf_text(std::string_view value) {
  return little_endian(value.size(), 8) + std::string(value);
}
std::string gguf_type(GgufType type) {
  return little_endian(static_cast<std::uint64_t>(type), 4);
}
template <class Value, class Write>
std::string gguf_list(GgufType type, const std::vector<Value>& values, Write&& write) {
  std::string bytes = gguf_type(GgufType::list) + gguf_type(type) + little_endian(values.size(), 8);
  for (const Value& value : values) bytes += write(value);
  return bytes;
}

/// The type of a value, and the value.
struct GgufBytes {
  std::string operator()(std::uint32_t value) const { return gguf_type(GgufType::uint32) + little_endian(value, 4); }
  std::string operator()(float value) const {
    return gguf_type(GgufType::float32) + little_endian(std::bit_cast<std::uint32_t>(value), 4);
  }
  std::string operator()(bool value) const { return gguf_type(GgufType::boolean) + little_endian(value ? 1 : 0, 1); }
  std::string operator()(const std::string& value) const { return gguf_type(GgufType::text) + gguf_text(value); }
  std::string operator()(const std::vector<std::string>& values) const {
    return gguf_list(GgufType::text, values, gguf_text);
  }
  std::string operator()(const std::vector<std::int32_t>& values) const {
    return gguf_list(GgufType::int32, values,
                     [](std::int32_t value) { return little_endian(static_cast<std::uint32_t>(value), 4); });
  }
  std::string operator()(const std::vector<float>& values) const {
    return gguf_list(GgufType::float32, values,
                     [](float value) { return little_endian(std::bit_cast<std::uint32_t>(value), 4); });
  }
};

/// A number of ggml_type.
std::uint64_t ggml_type(const TensorEntry& entry) {
  switch (entry.dtype) {
    case DataType::float32:
      return 0;
    case DataType::float16:
      return 1;
    case DataType::int8:
      return 24;
    case DataType::int16:
      return 25;
    case DataType::int32:
      return 26;
    case DataType::int64:
      return 27;
    case DataType::float64:
      return 28;
    case DataType::bfloat16:
      return 30;
    default:
      throw UsageError(fmt::format("tensor \"{}\" is of type {}, which GGUF does not have", entry.name,
                                   tensor::code_of(entry.dtype)));
  }
}

std::string padding_to_alignment(std::uint64_t size) {
  return std::string((kAlignment - size % kAlignment) % kAlignment, '\0');
}
}  // namespace

std::vector<TensorEntry> export_gguf(const Summary& checkpoint, const std::filesystem::path& file,
                                     const GgufMetadata& metadata, const std::vector<ExportedTensor>& tensors,
                                     Overwrite overwrite) {
  auto entries = entries_of(tensors);
  std::string head =
      "GGUF" + little_endian(3, 4) + little_endian(entries.size(), 8) + little_endian(metadata.size(), 8);
  for (const auto& [key, value] : metadata) head += gguf_text(key) + std::visit(GgufBytes{}, value);
  std::uint64_t place = 0;
  for (const TensorEntry& entry : entries) {
    head += gguf_text(entry.name) + little_endian(entry.shape.size(), 4);
    for (auto extent = entry.shape.rbegin(); extent != entry.shape.rend(); ++extent)
      head += little_endian(static_cast<std::uint64_t>(*extent), 8);
    head += little_endian(ggml_type(entry), 4) + little_endian(place, 8);
    place += static_cast<std::uint64_t>(tensor::element_count(entry.shape)) * tensor::size_of(entry.dtype);
    place += padding_to_alignment(place).size();
  }
  TensorReader reader(real_file_system(), checkpoint.folder);
  WholeFile out(real_file_system(), file, overwrite);
  out.append(head);
  out.append(padding_to_alignment(out.size()));
  for (const ExportedTensor& tensor : tensors) {
    for_each_piece(reader, tensor, [&](std::span<std::byte> piece) { out.append(piece); });
    out.append(padding_to_alignment(out.size()));
  }
  out.publish();
  return entries;
}

}  // namespace distdl::checkpoint
