// SPDX-License-Identifier: Apache-2.0
// Files for other programs, byte by byte. tests/app/onnx_test.py and gguf_test.py read them with the libraries of these
// programs.
#include <array>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/sample.hpp"
#include <distdl/base/wire.hpp>
#include <distdl/checkpoint/exchange/export.hpp>
#include <distdl/checkpoint/exchange/import.hpp>
#include <distdl/version.hpp>

namespace distdl::checkpoint {
namespace {
using tensor::DataType;

std::string floats(std::initializer_list<float> values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), std::data(values), bytes.size());
  return bytes;
}

class ProgramsFiles : public testing::Test {
 protected:
  /// (2, 2) and (4, 1) in rows.
  ProgramsFiles() {
    const auto slice = [](const char* name, const tensor::Shape& shape, const std::array<float, 4>& values) {
      return Slice{name, DataType::float32, shape, tensor::whole(shape),
                   reinterpret_cast<const std::byte*>(values.data())};
    };
    const std::array slices{slice("parameter/a", {2, 2}, a_), slice("parameter/b", {4, 1}, b_)};
    summary_ = save_imported(folder_.path() / "made", Step(3), slices, {}, false);
  }

  ExportedTensor exported(std::size_t index, const std::string& name) const {
    const auto& entry = summary_.tensors.at(index);
    return {entry, name, entry.shape};
  }
  std::filesystem::path file(const char* name) const { return folder_.path() / name; }

  OnnxGraph product() const {
    OnnxGraph graph{"product"};
    graph.nodes = {{"Gemm", "y", {"x", "a"}, {"y"}, {{"transB", std::int64_t{1}}, {"alpha", 0.5f}}},
                   {"Transpose", "z", {"y"}, {"z"}, {{"perm", std::vector<std::int64_t>{1, 0}}}},
                   {"Add", "sum", {"z", "one"}, {"sum"}}};
    graph.inputs = {{"x", DataType::float32, {"batch", 2}}};
    graph.outputs = {{"sum", DataType::float32, {2, "batch"}}};
    graph.constants = {{{"one", DataType::float32, {}}, floats({1})}};
    graph.weights = {exported(0, "a")};
    graph.metadata = {{"distdl.step", "3"}};
    return graph;
  }

  const std::array<float, 4> a_{1, 2, 3, 4}, b_{5, 6, 7, 8};
  TemporaryFolder folder_;
  Summary summary_;
};

/// The bytes of product(), by the numbers of onnx.proto. `tensor`: all fields of the weight.
std::string expected_product(const WireMessage& tensor) {
  const auto value = [](const char* name, const WireMessage& first, const WireMessage& second) {
    WireMessage shape, type;
    shape.message(1, first).message(1, second);
    type.message(1, WireMessage().number(1, 1).message(2, shape));
    return WireMessage().text(1, name).message(2, type);
  };
  const WireMessage any = WireMessage().text(2, "batch"), two = WireMessage().number(1, 2);
  WireMessage gemm, transpose, add, one, graph, model;
  gemm.text(1, "x").text(1, "a").text(2, "y").text(3, "y").text(4, "Gemm");
  gemm.message(5, WireMessage().text(1, "transB").number(3, 1).number(20, 2));
  gemm.message(5, WireMessage().text(1, "alpha").real_32(2, 0.5f).number(20, 1));
  transpose.text(1, "y").text(2, "z").text(3, "z").text(4, "Transpose");
  transpose.message(5, WireMessage().text(1, "perm").number(8, 1).number(8, 0).number(20, 7));
  add.text(1, "z").text(1, "one").text(2, "sum").text(3, "sum").text(4, "Add");
  one.number(2, 1).text(8, "one").text(9, floats({1}));
  graph.message(1, gemm).message(1, transpose).message(1, add).text(2, "product").message(5, one);
  graph.message(11, value("x", any, two)).message(12, value("sum", two, any)).message(5, tensor);
  model.number(1, 8).text(2, "distdl").text(3, version()).message(8, WireMessage().number(2, 17));
  model.message(14, WireMessage().text(1, "distdl.step").text(2, "3")).message(7, graph);
  return model.bytes();
}

WireMessage head_of_weight() {
  return WireMessage().number(1, 2).number(1, 2).number(2, 1).text(8, "a");
}

TEST_F(ProgramsFiles, OnnxHasTheNodesAndTheWeights) {
  export_onnx(summary_, file("x.onnx"), product(), Overwrite::refuse);
  EXPECT_EQ(slurp(file("x.onnx")), expected_product(head_of_weight().text(9, floats({1, 2, 3, 4}))));
  EXPECT_FALSE(std::filesystem::exists(file("x.onnx.data")));
  EXPECT_THROW(export_onnx(summary_, file("x.onnx"), product(), Overwrite::refuse), UsageError);
}

TEST_F(ProgramsFiles, WeightsBeyondTheLimitOfOnnxAreInAFileBeside) {
  auto graph = product();
  export_onnx(summary_, file("x.onnx"), graph, Overwrite::refuse);
  const auto whole = std::filesystem::file_size(file("x.onnx"));
  export_onnx(summary_, file("x.onnx"), graph, Overwrite::replace, whole);
  EXPECT_FALSE(std::filesystem::exists(file("x.onnx.data")));
  export_onnx(summary_, file("x.onnx"), graph, Overwrite::replace, whole - 1);
  const auto pair = [](const char* key, const char* value) { return WireMessage().text(1, key).text(2, value); };
  EXPECT_EQ(slurp(file("x.onnx")), expected_product(head_of_weight()
                                                        .message(13, pair("location", "x.onnx.data"))
                                                        .message(13, pair("offset", "0"))
                                                        .message(13, pair("length", "16"))
                                                        .number(14, 1)));
  EXPECT_EQ(slurp(file("x.onnx.data")), floats({1, 2, 3, 4}));
  EXPECT_THROW(export_onnx(summary_, file("x.onnx"), graph, Overwrite::refuse, 0), UsageError);

  graph.weights.push_back(exported(1, "b"));
  export_onnx(summary_, file("y.onnx"), graph, Overwrite::refuse, 0);
  EXPECT_EQ(slurp(file("y.onnx.data")), floats({1, 2, 3, 4}) + std::string(4080, '\0') + floats({5, 6, 7, 8}));
}

TEST_F(ProgramsFiles, GgufHasMetadataAndAlignedTensors) {
  auto a = exported(0, "a"), b = exported(1, "b");
  a.rounded = DataType::bfloat16;
  b.interleaved = 4;
  const GgufMetadata metadata{{"u", std::uint32_t{7}},
                              {"f", 0.5f},
                              {"t", true},
                              {"s", std::string("text")},
                              {"l", std::vector<std::string>{"x", ""}},
                              {"n", std::vector<std::int32_t>{-1}}};
  export_gguf(summary_, file("x.gguf"), metadata, {a, b}, Overwrite::refuse);
  const auto number = [](std::uint64_t value) { return little_endian(value, 8); };
  const auto text = [&](const std::string& value) { return number(value.size()) + value; };
  const auto type = [](std::uint64_t value) { return little_endian(value, 4); };
  std::string head = "GGUF" + type(3) + number(2) + number(6);
  head += text("u") + type(4) + type(7) + text("f") + type(6) + floats({0.5f}) + text("t") + type(7) + '\1';
  head += text("s") + type(8) + text("text") + text("l") + type(9) + type(8) + number(2) + text("x") + text("");
  head += text("n") + type(9) + type(5) + number(1) + type(0xffffffff);
  head += text("a") + type(2) + number(2) + number(2) + type(30) + number(0);
  head += text("b") + type(2) + number(1) + number(4) + type(0) + number(32);
  head.resize((head.size() + 31) / 32 * 32, '\0');
  const std::string halves("\x80\x3f\0\x40\x40\x40\x80\x40", 8);  // the upper halves of 1, 2, 3, 4
  EXPECT_EQ(slurp(file("x.gguf")),
            head + halves + std::string(24, '\0') + floats({5, 7, 6, 8}) + std::string(16, '\0'));
  a.from.dtype = DataType::boolean;
  a.rounded.reset();
  EXPECT_THROW(export_gguf(summary_, file("y.gguf"), {}, {a}, Overwrite::refuse), UsageError);
}

}  // namespace
}  // namespace distdl::checkpoint
