// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <distdl/tensor/shape.hpp>

namespace distdl::data {

/// The contents of a data set, as `distdl data info` prints them.
struct Description {
  std::string kind{};        ///< a name of the table in kinds.hpp: "images", "encoded images", "tokens" or "arrays"
  std::string origin{};      ///< how it was made: "shapes seed=1", "idx train-images..."
  std::int64_t samples = 0;  ///< number of images, tokens or arrays
  tensor::Shape shape{};     ///< shape of one image: (C, H, W), or of one array; empty for tokens
  std::int64_t classes = 0;  ///< labels are 0 .. classes-1; for tokens this is the vocabulary
  tensor::Shape targets{};   ///< shape of the numbers to predict from one array; then classes is their count
  float mean = 0, deviation = 1;     ///< statistics of pixels / 255 over the whole set, for normalization by readers
  std::int64_t encoded_bytes = 0;    ///< all encoded images together; 0 for other kinds
  std::uint64_t stored_bytes = 0;    ///< size of the file
  std::int64_t tokenizer_bytes = 0;  ///< length of the tokenizer in the set; 0: there is none
  std::int64_t names_bytes = 0;      ///< length of the names of an array's columns; 0 for other kinds
};

/// The description of any kind of set. Throws StorageError: incomplete (no such file), corrupt, or incompatible (not a
/// distdl data set).
Description describe_file(const std::filesystem::path& file);

/// The digest of any kind of set from the present contents of its file, even if other handles have it open. Throws as
/// describe_file() does.
std::string digest_of_file(const std::filesystem::path& file);

struct Verification {
  std::int64_t chunks = 0;          ///< chunks read from all datasets
  std::vector<std::string> damage;  ///< one line per damaged chunk or checksum table, with file, dataset and chunk
};

/// Reads every chunk of any kind of set. Throws as describe_file() does if the description itself cannot be read.
Verification verify_file(const std::filesystem::path& file);

}  // namespace distdl::data
