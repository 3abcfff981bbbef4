// SPDX-License-Identifier: Apache-2.0
// Numbers of fields and types: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#include <algorithm>
#include <optional>

#include <distdl/base/errors.hpp>
#include <distdl/base/wire.hpp>
#include <distdl/checkpoint/exchange/export.hpp>
#include <distdl/files/whole_file.hpp>
#include <distdl/version.hpp>

namespace distdl::checkpoint {
namespace {
using tensor::DataType;

constexpr int kModelFormat = 1, kModelProducer = 2, kModelProducerVersion = 3, kModelGraph = 7, kModelOperators = 8,
              kModelMetadata = 14;
constexpr int kGraphNode = 1, kGraphName = 2, kGraphTensor = 5, kGraphInput = 11, kGraphOutput = 12;
constexpr int kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeKind = 4, kNodeAttribute = 5;
constexpr int kAttributeName = 1, kAttributeReal = 2, kAttributeNumber = 3, kAttributeNumbers = 8, kAttributeType = 20;
constexpr int kTensorExtent = 1, kTensorType = 2, kTensorName = 8, kTensorBytes = 9, kTensorElsewhere = 13,
              kTensorLocation = 14;
constexpr int kValueName = 1, kValueType = 2, kTypeOfTensor = 1, kElementType = 1, kShape = 2, kShapeExtent = 1,
              kExtentNumber = 1, kExtentName = 2;
constexpr int kOperatorsVersion = 2, kPairKey = 1, kPairValue = 2;
constexpr std::uint64_t kExternal = 1;
/// Places of tensors in a file of their own, which readers map into memory.
constexpr std::uint64_t kOnnxPage = 4096;

std::uint64_t onnx_type(const TensorEntry& entry) {
  switch (entry.dtype) {
    case DataType::float32:
      return 1;
    case DataType::byte:
      return 2;
    case DataType::int8:
      return 3;
    case DataType::int16:
      return 5;
    case DataType::int32:
      return 6;
    case DataType::int64:
      return 7;
    case DataType::boolean:
      return 9;
    case DataType::float16:
      return 10;
    case DataType::float64:
      return 11;
    case DataType::complex64:
      return 14;
    case DataType::complex128:
      return 15;
    case DataType::bfloat16:
      return 16;
  }
  throw InternalError("a data type without an ONNX type");
}

std::uint64_t size_in_onnx(const TensorEntry& entry) {
  return static_cast<std::uint64_t>(tensor::element_count(entry.shape)) * tensor::size_of(entry.dtype);
}

WireMessage pair_of(std::string_view key, std::string_view value) {
  return WireMessage().text(kPairKey, key).text(kPairValue, value);
}

WireMessage attribute_message(const std::string& name, const OnnxAttribute& value) {
  constexpr std::uint64_t kReal = 1, kNumber = 2, kNumbers = 7;
  WireMessage message;
  message.text(kAttributeName, name);
  if (const auto* number = std::get_if<std::int64_t>(&value))
    return message.number(kAttributeNumber, static_cast<std::uint64_t>(*number)).number(kAttributeType, kNumber);
  if (const auto* real = std::get_if<float>(&value))
    return message.real_32(kAttributeReal, *real).number(kAttributeType, kReal);
  for (const std::int64_t number : std::get<std::vector<std::int64_t>>(value))
    message.number(kAttributeNumbers, static_cast<std::uint64_t>(number));
  return message.number(kAttributeType, kNumbers);
}

WireMessage node_message(const OnnxNode& node) {
  WireMessage message;
  for (const auto& name : node.inputs) message.text(kNodeInput, name);
  for (const auto& name : node.outputs) message.text(kNodeOutput, name);
  message.text(kNodeName, node.name).text(kNodeKind, node.kind);
  for (const auto& [name, value] : node.attributes) message.message(kNodeAttribute, attribute_message(name, value));
  return message;
}

WireMessage value_message(const OnnxValue& value) {
  WireMessage shape, of_tensor, type;
  for (const auto& extent : value.shape) {
    WireMessage one;
    if (const auto* number = std::get_if<std::int64_t>(&extent))
      one.number(kExtentNumber, static_cast<std::uint64_t>(*number));
    else
      one.text(kExtentName, std::get<std::string>(extent));
    shape.message(kShapeExtent, one);
  }
  of_tensor.number(kElementType, onnx_type({{}, value.dtype, {}})).message(kShape, shape);
  type.message(kTypeOfTensor, of_tensor);
  return WireMessage().text(kValueName, value.name).message(kValueType, type);
}

WireMessage tensor_message(const TensorEntry& entry) {
  WireMessage message;
  for (const std::int64_t extent : entry.shape) message.number(kTensorExtent, static_cast<std::uint64_t>(extent));
  return message.number(kTensorType, onnx_type(entry)).text(kTensorName, entry.name);
}

/// The field of the graph that is a tensor of the checkpoint, up to the elements.
std::string before_elements(const TensorEntry& entry) {
  auto message = tensor_message(entry);
  message.announce(kTensorBytes, size_in_onnx(entry));
  return WireMessage().announce(kGraphTensor, message.bytes().size() + size_in_onnx(entry)).bytes() + message.bytes();
}

/// Likewise, with the elements at this place of another file.
std::string tensor_elsewhere(const TensorEntry& entry, const std::string& file, std::uint64_t place) {
  auto message = tensor_message(entry);
  message.message(kTensorElsewhere, pair_of("location", file))
      .message(kTensorElsewhere, pair_of("offset", std::to_string(place)))
      .message(kTensorElsewhere, pair_of("length", std::to_string(size_in_onnx(entry))))
      .number(kTensorLocation, kExternal);
  return WireMessage().message(kGraphTensor, message).bytes();
}

/// All of the graph but the tensors of the checkpoint.
std::string small_fields(const OnnxGraph& graph) {
  WireMessage message;
  for (const auto& node : graph.nodes) message.message(kGraphNode, node_message(node));
  message.text(kGraphName, graph.name);
  for (const auto& [entry, bytes] : graph.constants)
    message.message(kGraphTensor, tensor_message(entry).text(kTensorBytes, bytes));
  for (const auto& value : graph.inputs) message.message(kGraphInput, value_message(value));
  for (const auto& value : graph.outputs) message.message(kGraphOutput, value_message(value));
  return message.bytes();
}

std::string head_of_model(const OnnxGraph& graph) {
  WireMessage message;
  message.number(kModelFormat, kOnnxFormat).text(kModelProducer, "distdl").text(kModelProducerVersion, version());
  message.message(kModelOperators, WireMessage().number(kOperatorsVersion, kOnnxOperators));
  for (const auto& [key, value] : graph.metadata) message.message(kModelMetadata, pair_of(key, value));
  return message.bytes();
}

/// The beginning of the field of the model that is a graph of so many bytes.
std::string before_graph(std::uint64_t bytes) {
  return WireMessage().announce(kModelGraph, bytes).bytes();
}

std::uint64_t next_page(std::uint64_t place) {
  return (place + kOnnxPage - 1) / kOnnxPage * kOnnxPage;
}
}  // namespace

std::vector<TensorEntry> export_onnx(const Summary& checkpoint, const std::filesystem::path& file,
                                     const OnnxGraph& graph, Overwrite overwrite, std::uint64_t most_bytes) {
  auto entries = entries_of(graph.weights);
  const std::string head = head_of_model(graph), fields = small_fields(graph);
  const std::filesystem::path beside = file.string() + ".data";
  std::vector<std::string> tensors;
  std::uint64_t graph_bytes = fields.size(), place = 0;
  for (const TensorEntry& entry : entries) {
    tensors.push_back(before_elements(entry));
    graph_bytes += tensors.back().size() + size_in_onnx(entry);
  }
  const bool apart = head.size() + before_graph(graph_bytes).size() + graph_bytes > most_bytes;
  if (apart) {
    graph_bytes = fields.size();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      tensors[i] = tensor_elsewhere(entries[i], beside.filename().string(), place);
      graph_bytes += tensors[i].size();
      place = next_page(place + size_in_onnx(entries[i]));
    }
  }
  TensorReader reader(real_file_system(), checkpoint.folder);
  WholeFile model(real_file_system(), file, overwrite);
  std::optional<WholeFile> data;
  if (apart) data.emplace(real_file_system(), beside, overwrite);
  model.append(head);
  model.append(before_graph(graph_bytes));
  model.append(fields);
  WholeFile& elements = apart ? *data : model;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    model.append(tensors[i]);
    if (apart) elements.append(std::string(next_page(elements.size()) - elements.size(), '\0'));
    for_each_piece(reader, graph.weights[i], [&](std::span<std::byte> piece) { elements.append(piece); });
  }
  if (apart) data->publish();
  model.publish();
  return entries;
}

}  // namespace distdl::checkpoint
