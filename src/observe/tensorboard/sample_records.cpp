// SPDX-License-Identifier: Apache-2.0
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/base/errors.hpp>
#include <distdl/data/data_set.hpp>
#include <distdl/data/kinds.hpp>
#include <distdl/observe/kept_job.hpp>
#include <distdl/observe/tensorboard/job_values.hpp>
#include <distdl/observe/tensorboard/png.hpp>
#include <distdl/observe/tensorboard/sample_records.hpp>

namespace distdl::observe {
namespace {
/// As text where each token is a byte, else as numbers; indented, so that Markdown leaves it alone.
std::string text_of(const data::Passage& passage) {
  constexpr std::int64_t kBytes = 256;
  std::string text = "    ";
  if (passage.vocabulary > kBytes) return text + fmt::format("{}", fmt::join(passage.tokens, " "));
  for (const std::int32_t token : passage.tokens) {
    const bool is_plain = token >= ' ' && token < 0x7f;
    text += token == '\n' ? "\n    " : is_plain ? std::string(1, static_cast<char>(token)) : ".";
  }
  return text;
}

std::string record_of(const EventPlace& place, std::int64_t index, const data::ShownSample& sample) {
  if (const auto* const passage = std::get_if<data::Passage>(&sample))
    return text_record(place, fmt::format("samples/{}", index), text_of(*passage));
  const auto& [shape, pixels, label] = std::get<data::Picture>(sample);
  return image_record(place, fmt::format("samples/{} class {}", index, label), shape, png(pixels, shape));
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
  std::string records;
  std::int64_t index = 0;
  data::find_kind(data::describe_file(data_set).kind).show(data_set, count, [&](const data::ShownSample& sample) {
    records += record_of(place, index++, sample);
  });
  return records;
}

}  // namespace distdl::observe
