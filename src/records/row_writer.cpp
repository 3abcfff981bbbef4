// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/records/kinds.hpp>
#include <distdl/records/row_text.hpp>

namespace distdl::records {
namespace {
/// A step of some milliseconds is long enough to drop from the caches whatever builds trees of JSON values, so that
/// rows are written as text at once. Numbers of a step's row are those of std::to_chars, all others are written as
/// nlohmann::json does: "1e+16" and "10000000000000000.0".
template <bool is_step>
class RowText {
 public:
  explicit RowText(std::size_t bytes) { text_.reserve(bytes); }

  /// Visitor of describe().
  template <class T, class... Rest>
  void operator()(std::string_view key, const T& value, const Rest&...) {
    member(key, value);
  }
  std::string take() {
    close();
    return std::move(text_);
  }

  template <class T>
  void member(std::string_view key, const T& value) {
    text_ += text_.back() == '{' ? "\"" : ",\"";
    text_ += key;
    text_ += "\":";
    add(value);
  }

 private:
  template <class T>
  void member(std::string_view key, const std::optional<T>& value) {
    if (value) member(key, *value);
  }
  template <class T>
  void member(std::string_view key, const WrittenIf<T>& value) {
    if (value.is_written) member(key, value.value);
  }
  template <class T>
  void member(std::string_view key, const OrNull<T>& value) {
    if (value.value) return member(key, *value.value);
    member(key, nullptr);
  }
  template <class T>
  void member(std::string_view key, const Joined<T>& value) {
    member(key, fmt::format("{}", fmt::join(value.value, ",")));
  }
  void add(std::nullptr_t) { text_ += "null"; }
  void add(bool value) { text_ += value ? "true" : "false"; }
  void add(std::integral auto value) { fmt::format_to(std::back_inserter(text_), "{}", value); }
  template <class Tag, class Value>
  void add(const StrongId<Tag, Value>& id) {
    add(id.value);
  }
  void add(double value) {
    if (!std::isfinite(value)) return add(nullptr);
    if constexpr (!is_step) {
      text_ += nlohmann::json(value).dump();
    } else {
      std::array<char, 32> digits{};
      const auto* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
      const std::string_view number(digits.data(), end);
      text_ += number;
      if (number.find_first_of(".e") == std::string_view::npos) text_ += ".0";
    }
  }
  void add(std::string_view text) {
    text_ += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  template <class T>
  void add(const std::vector<T>& list) {
    text_ += '[';
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) text_ += ',';
      add(list[i]);
    }
    text_ += ']';
  }
  void add(const GpuHealth& gpus) {
    text_ += '{';
    describe(gpus, *this);
    close();
  }
  void close() { text_ += '}'; }

  std::string text_ = "{";
};

template <class Kind>
std::string text_of(const Row& row, const Kind& record) {
  constexpr std::size_t kUsual = 512;  // bytes
  RowText<std::is_same_v<Kind, StepDone>> text(kUsual);
  constexpr bool kHasEvent = has_event(Kind::kKind.file);
  if (kHasEvent) text.member("event", Kind::kKind.name);
  text.member("time", row.time);
  if (row.start.value_or(0) > 0) text.member("start", *row.start);
  if (row.has_version && kHasEvent) text.member("version", kRecordVersion);
  describe(record, text);
  if (row.has_version && !kHasEvent) text.member("version", kRecordVersion);
  return text.take();
}
}  // namespace

std::string text_of(const Row& row) {
  return std::visit(
      [&row]<class Kind>(const Kind& record) -> std::string {
        if constexpr (std::is_same_v<Kind, Other>) {
          return "{}";
        } else if constexpr (requires(Kind & whole) { complete(whole); }) {
          Kind whole = record;
          complete(whole);
          return text_of(row, whole);
        } else {
          return text_of(row, record);
        }
      },
      row.record);
}

}  // namespace distdl::records
