// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
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

/// A sample for people to look at, valid until the next one is shown.
struct Picture {
  tensor::Shape shape;                     ///< (C, H, W)
  std::span<const std::uint8_t> pixels{};  ///< (C, H, W)
  std::int32_t label = 0;
};
struct Passage {
  std::span<const std::int32_t> tokens{};
  std::int64_t vocabulary = 0;
};
struct Numbers {
  std::span<const float> inputs{}, targets{};  ///< targets: none where there is a label
  std::optional<std::int32_t> label{};
};
using ShownSample = std::variant<Picture, Passage, Numbers>;

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
  /// Returns the label of each sample in the order of the file, or nothing if the set has targets; null if samples have
  /// no labels of their own. Throws as
  /// describe_file() does.
  std::vector<std::int32_t> (*labels)(const std::filesystem::path& file);
  /// Shows the first `count` samples, or all if there are fewer. Throws as describe_file() does.
  void (*show)(const std::filesystem::path& file, std::int64_t count,
               const std::function<void(const ShownSample&)>& look);
};

/// All kinds of data sets.
std::span<const Kind> kinds();
/// The kind with this name. Throws ConfigError, which names all kinds, if there is none.
const Kind& find_kind(std::string_view name);

}  // namespace distdl::data
