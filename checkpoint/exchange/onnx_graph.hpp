// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <distdl/checkpoint/exchange/exported_tensor.hpp>
#include <distdl/tensor/element.hpp>

// The content of an ONNX file, as plain values. Operators and their attributes: https://onnx.ai/onnx/operators
namespace distdl::checkpoint {

/// The operators are those of version 17, in files of IR version 8. onnx 1.12, which is Debian 12's, and onnxruntime
/// 1.12, and all later ones, know them.
inline constexpr int kOnnxOperators = 17, kOnnxFormat = 8;

using OnnxAttribute = std::variant<std::int64_t, float, std::vector<std::int64_t>>;

/// An operator and the names of its inputs and outputs.
struct OnnxNode {
  std::string kind;  ///< "Conv"
  std::string name;
  std::vector<std::string> inputs, outputs;
  std::vector<std::pair<std::string, OnnxAttribute>> attributes{};
};

/// An input or output of the graph. An extent has a number, or a name if it may be any.
struct OnnxValue {
  std::string name;
  tensor::DataType dtype = tensor::DataType::float32;
  std::vector<std::variant<std::int64_t, std::string>> shape{};
};

/// A tensor that does not come from the checkpoint.
struct OnnxConstant {
  TensorEntry entry;
  std::string bytes;  ///< little-endian
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes{};  ///< each behind those whose outputs it takes
  std::vector<OnnxValue> inputs{}, outputs{};
  std::vector<OnnxConstant> constants{};
  std::vector<ExportedTensor> weights{};
  std::map<std::string, std::string> metadata{};
};

}  // namespace distdl::checkpoint
