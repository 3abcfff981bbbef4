// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <nlohmann/json.hpp>

#include <distdl/program/contract_lines.hpp>

namespace distdl::program {
namespace {
using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// An object, or null.
Json parse(std::string_view line) {
  auto json = Json::parse(line, nullptr, false);
  return json.is_object() ? json : Json();
}

template <class Number>
std::optional<Number> number(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return std::nullopt;
  if constexpr (std::is_integral_v<Number>) {
    if (!found->is_number_integer() || (found->is_number_unsigned() && found->get<std::uint64_t>() > INT64_MAX))
      return std::nullopt;
  } else if (!found->is_number()) {
    return std::nullopt;
  }
  return found->get<Number>();
}

bool is_true(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && *found == true;
}

/// JSON has no NaN.
Json value_of(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

std::optional<double> value_from(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json == "nan") return NAN;
  if (json == "inf") return INFINITY;
  if (json == "-inf") return -INFINITY;
  return std::nullopt;
}
}  // namespace

std::string to_line(const FromProgram& message) {
  Json json = Json::object();
  if (message.asks) json["asks"] = true;
  if (message.call) json["call"] = *message.call;
  if (message.step) json["step"] = *message.step;
  if (message.steps) json["steps"] = *message.steps;
  for (const auto& [name, value] : message.metrics) json["metrics"][name] = value_of(value);
  if (message.saved) json["saved"] = *message.saved;
  if (message.save_seconds) json["save_seconds"] = *message.save_seconds;
  if (message.finished) json["finished"] = true;
  if (message.asks_left) json["asks_left"] = true;
  return text_of(json);
}

std::optional<FromProgram> from_program(std::string_view line) {
  const Json json = parse(line);
  if (!json.is_object()) return std::nullopt;
  FromProgram message{.asks = is_true(json, "asks"),
                      .call = number<std::int64_t>(json, "call"),
                      .step = number<std::int64_t>(json, "step"),
                      .steps = number<std::int64_t>(json, "steps"),
                      .saved = number<std::int64_t>(json, "saved"),
                      .save_seconds = number<double>(json, "save_seconds"),
                      .finished = is_true(json, "finished"),
                      .asks_left = is_true(json, "asks_left")};
  if (const auto metrics = json.find("metrics"); metrics != json.end() && metrics->is_object())
    for (const auto& [name, value] : metrics->items())
      if (const auto known = value_from(value)) message.metrics.emplace_back(name, *known);
  return message;
}

std::string to_line(const ToProgram& message) {
  Json json = Json::object();
  if (message.is_asked) json["asked"] = true;
  if (message.stop_at) json["stop_at"] = *message.stop_at;
  if (message.tells_left) json["left"] = message.left ? Json(*message.left) : Json();
  return text_of(json);
}

std::optional<ToProgram> to_program(std::string_view line) {
  const Json json = parse(line);
  if (!json.is_object()) return std::nullopt;
  return ToProgram{.is_asked = is_true(json, "asked"),
                   .stop_at = number<std::int64_t>(json, "stop_at"),
                   .tells_left = json.contains("left"),
                   .left = number<double>(json, "left")};
}

}  // namespace distdl::program
