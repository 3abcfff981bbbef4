// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/data/data_set.hpp>
#include <distdl/data/options.hpp>

namespace distdl::data {

class Source;
struct DatasetSpec;

/// How training or evaluation reads a set.
struct SetUse {
  std::string file;
  const Options& options;
  std::int64_t context = 1;           ///< elements per sample of a sequence
  std::int64_t first = 0, count = 0;  ///< the part of the set: images, or tokens
  bool trains = false;                ///< samples may differ from epoch to epoch
  std::uint64_t seed = 0;
};

/// A kind of data set. What only this kind knows is in its own file, for example images.cpp.
struct Kind {
  std::string_view name;  ///< as files and messages name it: a plural, for example "images"
  /// The set is one sequence, of which each sample is a window of model.context elements. Its classes are those of its
  /// elements: a vocabulary.
  bool is_sequence;
  bool is_normalized;  ///< its values are numbers of 0 to 255, and readers use Description::mean and deviation
  /// The datasets in the file of such a set. Throws ConfigError if the format cannot represent the description.
  std::vector<DatasetSpec> (*datasets)(const Description& description);
  /// Throws as describe_file() does, and ConfigError for invalid options.
  std::unique_ptr<Source> (*open)(const SetUse& use);
};

/// All kinds of data sets.
std::span<const Kind> kinds();
/// The kind with this name. Throws ConfigError, which names all kinds, if there is none.
const Kind& find_kind(std::string_view name);

}  // namespace distdl::data
