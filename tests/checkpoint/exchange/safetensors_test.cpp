// SPDX-License-Identifier: Apache-2.0
// Hostile and damaged safetensors files get a clear refusal.
#include <algorithm>
#include <ctime>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/sample.hpp"
#include <distdl/checkpoint/exchange/safetensors.hpp>

namespace distdl::checkpoint {
namespace {
using testing::HasSubstr;

std::string with_length(const std::string& header, const std::string& data = "") {
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return length + header + data;
}

/// What reading a file of these bytes throws; its code.
std::pair<ExitCode, std::string> refusal_of_bytes(const std::string& bytes) {
  TemporaryFolder folder;
  auto path = folder.path() / "x.safetensors";
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    OpenFile file(real_file_system(), path, OpenFile::Mode::read);
    require_known_types(read_safetensors(file), path);
    return {ExitCode::ok, ""};
  } catch (const StorageError& error) {
    return {error.exit_code(), error.what()};
  }
}

TEST(Safetensors, WhatIsWrittenIsUnderstood) {
  std::vector<TensorEntry> entries{{"b", tensor::DataType::float64, {2}},
                                   {"a", tensor::DataType::bfloat16, {}},
                                   {"c", tensor::DataType::byte, {0, 3}}};
  std::string header = safetensors_header(entries, {{"key", "value"}});
  EXPECT_EQ(header.size() % 8, 0u);
  TemporaryFolder folder;
  auto path = folder.path() / "x";
  std::ofstream(path, std::ios::binary) << header << std::string(18, 'x');
  OpenFile file(real_file_system(), path, OpenFile::Mode::read);
  auto found = read_safetensors(file);
  ASSERT_EQ(found.tensors.size(), 3u);
  EXPECT_EQ(found.tensors[0].entry, entries[0]);
  EXPECT_EQ(found.tensors[0].offset, header.size());
  EXPECT_EQ(found.tensors[1].offset, header.size() + 16);
  EXPECT_EQ(found.metadata.at("key"), "value");
  EXPECT_EQ(refusal_of_bytes(header + std::string(17, 'x')).first, ExitCode::corrupt);
  EXPECT_EQ(refusal_of_bytes(header + std::string(19, 'x')).first, ExitCode::corrupt);
}

TEST(Safetensors, ImpossibleHeadersAreRefused) {
  std::string four(4, 'x');
  auto one = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return with_length(fmt::format(R"({{"t":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype, shape, offsets),
                       four);
  };
  EXPECT_EQ(refusal_of_bytes(one(R"("F32")", "[1]", "[0,4]")).first, ExitCode::ok);
  for (
      const std::string& bytes : {
          std::string(),
          std::string("1234567"),
          with_length(""),
          with_length("[]"),
          with_length("null"),
          with_length("{"),
          std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10),
          one(R"("F32")", "[2]", "[0,4]"),
          one(R"("F32")", "[1]", "[0,8]"),
          one(R"("F32")", "[1]", "[4,0]"),
          one(R"("F32")", "[1]", "[-4,0]"),
          one(R"("F32")", "[1]", "[0]"),
          one(R"("F32")", "[-1]", "[0,4]"),
          one(R"("F32")", "[1e400]", "[0,4]"),
          one(R"("F32")", "[NaN]", "[0,4]"),
          one(R"("F32")", "[4611686018427387905]", "[0,4]"),
          one(R"("F32")", "[4611686018427387904,4611686018427387904]", "[0,4]"),
          one(R"("F32")", "[4294967296,4294967296]", "[0,0]"),
          one(R"("F32")", "{}", "[0,4]"),
          one(R"("F32")", "[1.5]", "[0,4]"),
          one(R"("U8")", "[3]", "[1,4]"),
          one(R"("U8")", "[3]", "[0,3]"),
          one("7", "[1]", "[0,4]"),
          with_length(
              R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
              four),
          with_length(
              R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[3],"data_offsets":[1,4]}})",
              four),
          with_length(R"({"__metadata__":{"a":1}})"),
          with_length(R"({"__metadata__":[]})"),
          with_length(std::string(100'000, '[')),
          with_length("{\"a\":" + std::string(100'000, '[')),
      }) {
    auto [code, message] = refusal_of_bytes(bytes);
    EXPECT_EQ(code, ExitCode::corrupt) << bytes.substr(0, 100);
    EXPECT_THAT(message, HasSubstr("is not a complete safetensors file"));
  }
}

TEST(Safetensors, TypesThatCheckpointsDoNotHaveAreNamed) {
  auto [code, message] =
      refusal_of_bytes(with_length(R"({"flags":{"dtype":"F8_E5M2","shape":[4],"data_offsets":[0,4]}})", "1234"));
  EXPECT_EQ(code, ExitCode::incompatible);
  EXPECT_THAT(message, testing::AllOf(HasSubstr("\"flags\""), HasSubstr("F8_E5M2")));
}

TEST(Safetensors, TensorsOfOtherTypesCoverTheFileToo) {
  const std::string flags = R"("flags":{"dtype":"F8_E5M2","shape":[4],"data_offsets":[0,4]})";
  TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  std::ofstream(path, std::ios::binary) << with_length(
      "{" + flags + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})", "123456");
  OpenFile file(real_file_system(), path, OpenFile::Mode::read);
  const auto content = read_safetensors(file);
  EXPECT_THAT(content.others, testing::ElementsAre(testing::Pair("flags", "F8_E5M2")));
  ASSERT_EQ(content.tensors.size(), 1u);
  EXPECT_EQ(content.tensors[0].entry.name, "b");
  EXPECT_EQ(refusal_of_bytes(with_length("{" + flags + "}", "12345")).first, ExitCode::corrupt);
}

TEST(Safetensors, MetadataMayBeNull) {
  EXPECT_EQ(
      refusal_of_bytes(with_length(R"({"__metadata__":null,"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1"))
          .first,
      ExitCode::ok);
}

TEST(Safetensors, OtherFormatsAreNamed) {
  const std::string rest(200, ' ');
  for (const auto& [begin, name] :
       {std::pair<std::string, std::string>("version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        {"<!DOCTYPE html><html>", "web page"},
        {"GGUF\3", "llama.cpp"},
        {"\x08\x08\x12\x06"
         "distdl",
         "ONNX model"},
        {std::string("PK\3\4\0", 5), "zip archive"},
        {"\x80\2\x8a\nl", "PyTorch"}}) {
    const auto [code, message] = refusal_of_bytes(begin + rest);
    EXPECT_EQ(code, ExitCode::incompatible) << begin;
    EXPECT_THAT(message, testing::AllOf(HasSubstr("is not a safetensors file: it is a"), HasSubstr(name)));
  }
  std::string header = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.resize(0x88b1f, ' ');  // whose length begins as gzip does
  EXPECT_EQ(refusal_of_bytes(with_length(header, "1")).first, ExitCode::ok);
}

TEST(Safetensors, AHeaderCostsTimeThatGrowsWithItsTensorsOnly) {
  // Processor time, which another program on this machine does not lengthen: 8 times the tensors, once 50 times as
  // long.
  auto seconds = [](int count) {
    std::vector<TensorEntry> entries;
    for (int i = 0; i < count; ++i) entries.push_back({fmt::format("tensor{:06}", i), tensor::DataType::byte, {0}});
    const std::clock_t begin = std::clock();
    EXPECT_EQ(refusal_of_bytes(safetensors_header(entries, {})).first, ExitCode::ok);
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  auto least = [&](auto count) { return std::min({seconds(count), seconds(count), seconds(count)}); };
  EXPECT_LT(least(40'000), 24 * least(5'000));
}

TEST(Safetensors, HasSmallIntegersAndBooleansButNoComplexNumbers) {
  std::vector<TensorEntry> entries{{"a", tensor::DataType::int16, {2}},
                                   {"b", tensor::DataType::int8, {3}},
                                   {"c", tensor::DataType::boolean, {1}},
                                   {"d", tensor::DataType::boolean, {0, 4}}};
  const auto bytes = safetensors_header(entries, {}) + "12345678";
  for (const char* name : {"I16", "I8", "BOOL"}) EXPECT_THAT(bytes, HasSubstr(name));
  TemporaryFolder folder;
  const auto path = folder.path() / "x.safetensors";
  spill(path, bytes);
  OpenFile file(real_file_system(), path, OpenFile::Mode::read);
  const auto content = read_safetensors(file);
  ASSERT_EQ(content.tensors.size(), entries.size());
  for (const auto& each : content.tensors) EXPECT_THAT(entries, testing::Contains(each.entry));
  try {
    safetensors_header({{"z", tensor::DataType::complex64, {2}}}, {});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("array \"z\" is of type c64, which safetensors does not have"));
  }
}

TEST(Safetensors, RandomChangesOfAHeaderNeverCrash) {
  std::vector<TensorEntry> entries{{"b", tensor::DataType::float64, {2}}, {"a", tensor::DataType::bfloat16, {3, 1}}};
  std::string good = safetensors_header(entries, {{"key", "value"}}) + std::string(22, 'x');
  std::mt19937 random(7);
  for (int trial = 0; trial < 500; ++trial) {
    std::string bad = good;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
      bad[random() % bad.size()] = static_cast<char>(random() % 128);
    auto code = refusal_of_bytes(bad).first;
    EXPECT_TRUE(code == ExitCode::ok || code == ExitCode::corrupt || code == ExitCode::incompatible);
  }
}
}  // namespace
}  // namespace distdl::checkpoint
