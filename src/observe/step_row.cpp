// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/observe/records.hpp>
#include <distdl/observe/step_row.hpp>

namespace distdl::observe {
namespace {
/// One JSON object. Numbers have as many digits as give the same number again.
class StepText {
 public:
  StepText() { text_.reserve(512); }
  void add(std::string_view key, std::int64_t value) { fmt::format_to(member(key), "{}", value); }
  void add(std::string_view key, double value) {
    if (!std::isfinite(value)) return add_text(key, "null");
    std::array<char, 32> digits{};
    const auto* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    const std::string_view number(digits.data(), end);
    add_text(key, number);
    if (number.find_first_of(".e") == std::string_view::npos) text_ += ".0";
  }
  void add(std::string_view key, const std::optional<double>& value) {
    if (value) add(key, *value);
  }
  /// `value`: JSON, as it is to stand there.
  void add_text(std::string_view key, std::string_view value) { fmt::format_to(member(key), "{}", value); }
  std::string take() { return std::move(text_ += '}'); }

 private:
  std::back_insert_iterator<std::string> member(std::string_view key) {
    text_ += text_.empty() ? "{\"" : ",\"";
    text_ += key;
    text_ += "\":";
    return std::back_inserter(text_);
  }

  std::string text_;
};
}  // namespace

std::string step_row(const train::StepDone& event, double time, std::int64_t start, bool has_version) {
  StepText row;
  row.add("time", time);
  if (start > 0) row.add("start", start);
  row.add("step", event.step.value);
  row.add("epoch", event.epoch);
  row.add("loss", event.loss);
  row.add("accuracy", event.accuracy);
  row.add("learning_rate", event.learning_rate);
  row.add("samples_per_s", event.samples_per_s);
  row.add("waited_seconds", event.waited_seconds);
  row.add("gradient_norm", event.gradient_norm);
  row.add("loss_scale", event.loss_scale);
  if (event.skipped) row.add_text("skipped", "true");
  row.add("sum_seconds", event.sum_seconds);
  row.add("sum_waited_seconds", event.sum_waited_seconds);
  row.add("pipeline_seconds", event.pipeline_seconds);
  row.add("pipeline_waited_seconds", event.pipeline_waited_seconds);
  row.add("pipeline_busiest_seconds", event.pipeline_busiest_seconds);
  if (!event.compression.empty()) row.add_text("compression", nlohmann::json(event.compression).dump());
  row.add("mfu", event.mfu);
  row.add("hfu", event.hfu);
  if (!event.staleness.empty()) row.add_text("staleness", fmt::format("[{}]", fmt::join(event.staleness, ",")));
  if (has_version) row.add("version", std::int64_t{kRecordVersion});
  return row.take();
}

}  // namespace distdl::observe
