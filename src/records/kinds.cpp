// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include <distdl/records/kinds.hpp>

namespace distdl::records {
namespace {
constexpr std::array kCommon{
    Field{"event", "", "kind of the row; rows of metrics.jsonl have none"},
    Field{"time", "seconds since 1970, UTC", "when the row was written; of a `failure`: when the fault was found",
          "distdl_time_seconds"},
    Field{"start", "",
          "number of the start of the run, from 1: each time that ranks begin anew. Checkpoints of this start have the "
          "same `start`. Rows of `health/HOST.jsonl`, and those that other processes than ranks write, have none",
          "distdl_start"},
    Field{"version", "",
          "of these rows, in the first row of each start in metrics.jsonl, in the first that a process writes in a "
          "node's file, and in `started`: 2"}};

std::string_view name_of(File file) {
  static constexpr std::array<std::string_view, 4> kNames{"metrics.jsonl", "journal.jsonl", "health/HOST.jsonl",
                                                          "bad-nodes.jsonl"};
  return kNames[static_cast<std::size_t>(file)];
}

/// Visitor of describe().
struct FieldList {
  std::vector<Field> fields;
  template <class T>
  void operator()(const char* name, const T& /*member*/, const char* unit, const char* meaning,
                  const char* metric = "") {
    fields.push_back({name, unit, meaning, metric});
  }
};

template <class Kind>
std::span<const Field> fields_of() {
  static const std::vector<Field> fields = [] {
    FieldList list;
    const Kind none{};
    describe(none, list);
    return list.fields;
  }();
  return fields;
}

template <std::size_t... I>
std::vector<RecordKind> all_kinds(std::index_sequence<I...> /*kinds but Other*/) {
  std::vector<RecordKind> kinds;
  const auto add = [&kinds]<class Kind>(const Kind* /*type*/) {
    const auto& [name, meaning, traits, file] = Kind::kKind;
    if (file != File::bad_nodes) kinds.push_back({name_of(file), name, meaning, fields_of<Kind>(), traits});
  };
  (add(static_cast<std::variant_alternative_t<I + 1, Record>*>(nullptr)), ...);
  return kinds;
}

void add_rows(std::string& text, std::string_view kind, std::span<const Field> fields) {
  for (const Field& field : fields)
    text += fmt::format("| {} | `{}` | {} | {} | {} |\n", kind, field.name, field.unit, field.meaning,
                        field.metric.empty() ? "" : fmt::format("`{}`", field.metric));
}

/// The value of a member, if it is a number that the row has.
template <class T>
std::optional<double> number_in(const T& member) {
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
    return static_cast<double>(member);
  else if constexpr (std::is_same_v<T, Step>)
    return member == kNoStep ? std::nullopt : std::optional(static_cast<double>(member.value));
  else
    return std::nullopt;
}
template <class T>
std::optional<double> number_in(const std::optional<T>& member) {
  return member ? number_in(*member) : std::nullopt;
}
template <class T>
std::optional<double> number_in(const WrittenIf<T>& member) {
  return member.is_written ? number_in(member.value) : std::nullopt;
}

/// Visitor of describe().
struct Numbers {
  const std::function<void(const Field& field, double value)>& visit;
  template <class T>
  void operator()(const char* name, const T& member, const char* unit, const char* meaning, const char* metric) const {
    const auto value = number_in(member);
    if (value && std::isfinite(*value)) visit({name, unit, meaning, metric}, *value);
  }
  template <class T>
  void operator()(const char*, const T&, const char*, const char*) const {}
};
}  // namespace

std::span<const Field> common_fields() {
  return kCommon;
}

std::span<const RecordKind> record_kinds() {
  static const std::vector<RecordKind> kinds = all_kinds(std::make_index_sequence<std::variant_size_v<Record> - 1>());
  return kinds;
}

std::string records_as_markdown() {
  std::string text = fmt::format(
      "Version {}. Each row is one JSON object on a line of its own. A later version may add fields and kinds of rows; "
      "readers\n"
      "pass over what they do not know. A field whose value is not known is missing, unless its meaning says null.\n",
      kRecordVersion);
  constexpr std::string_view kHead = "| record | field | unit | meaning | OpenMetrics |\n|---|---|---|---|---|\n";
  text += fmt::format("\n## All rows\n\n{}", kHead);
  add_rows(text, "", kCommon);
  for (const File file : {File::metrics, File::journal, File::health}) {
    text += fmt::format("\n## {}\n\n{}", name_of(file), kHead);
    for (const RecordKind& kind : record_kinds()) {
      if (kind.file != name_of(file)) continue;
      text += fmt::format("| **{}** | | | {} | |\n", kind.name, kind.meaning);
      add_rows(text, kind.name, kind.fields);
    }
  }
  text += "\n## Codes of causes\n\n| `cause_code` | meaning |\n|---|---|\n";
  for (const CauseEntry& entry : kCauses) text += fmt::format("| `{}` | {} |\n", entry.code, entry.meaning);
  return text;
}

void for_each_number(const Record& record, const std::function<void(const Field& field, double value)>& visit) {
  std::visit(
      [&visit](const auto& each) {
        if constexpr (requires { describe(each, Numbers{visit}); }) describe(each, Numbers{visit});
      },
      record);
}

}  // namespace distdl::records
