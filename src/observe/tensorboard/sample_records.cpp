// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/images.hpp>
#include <distdl/data/tokens.hpp>
#include <distdl/observe/kept_job.hpp>
#include <distdl/observe/tensorboard/job_values.hpp>
#include <distdl/observe/tensorboard/png.hpp>
#include <distdl/observe/tensorboard/sample_records.hpp>

namespace distdl::observe {
namespace {
std::string image_samples(const EventPlace& place, const std::string& file, std::int64_t count) {
  constexpr std::int64_t kCacheMib = 1;
  auto set = data::ImageSet::open(file, kCacheMib);
  const auto& shape = set.description().shape;
  std::string records;
  for (std::int64_t i = 0; i < std::min(count, set.description().samples); ++i)
    records += image_record(place, fmt::format("samples/{} class {}", i, set.labels()[static_cast<std::size_t>(i)]),
                            shape, png(set.pixels(i), shape));
  return records;
}

/// As text where each token is a byte, else as numbers; indented, so that Markdown leaves it alone.
std::string passage(const std::vector<std::int32_t>& tokens, std::int64_t classes) {
  constexpr std::int64_t kBytes = 256;
  std::string text = "    ";
  if (classes > kBytes) return text + fmt::format("{}", fmt::join(tokens, " "));
  for (const std::int32_t token : tokens) {
    const bool is_plain = token >= ' ' && token < 0x7f;
    text += token == '\n' ? "\n    " : is_plain ? std::string(1, static_cast<char>(token)) : ".";
  }
  return text;
}

std::string text_samples(const EventPlace& place, const std::string& file, std::int64_t count) {
  constexpr std::int64_t kTokens = 400;
  auto set = data::TokenSet::open(file);
  std::string records;
  for (std::int64_t i = 0, first = 0; i < count && first < set.description().samples; ++i, first += kTokens) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(std::min(kTokens, set.description().samples - first)));
    set.read(first, tokens);
    records += text_record(place, fmt::format("samples/{}", i), passage(tokens, set.description().classes));
  }
  return records;
}

std::string training_set(const std::string& job) {
  const auto keys = keys_of_job(job);
  const auto found = keys.find("data.train");
  require<StorageError>(found != keys.end(), "{}", "job.toml names no data set: an older distdl made the run");
  const auto value = json_of(found->second);
  return value.is_string() ? value.get<std::string>() : found->second;
}
}  // namespace

std::string sample_records(const EventPlace& place, const std::string& job, std::int64_t count) {
  const auto data_set = training_set(job);
  const bool has_images = data::describe_file(data_set).kind == "images";
  return has_images ? image_samples(place, data_set, count) : text_samples(place, data_set, count);
}

}  // namespace distdl::observe
