// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <type_traits>

#include <nlohmann/json.hpp>

#include <distdl/records/row_text.hpp>

namespace distdl::records {
namespace {
using json = nlohmann::ordered_json;
constexpr std::int64_t kMostCount = std::numeric_limits<std::int64_t>::max() >> 10;

/// The range of a number by its unit: no time is negative or beyond the year 5138, only losses may be negative.
bool is_in_range(double value, std::string_view unit) {
  constexpr double kMostSeconds = 1e11;
  const double most = unit.starts_with("seconds") ? kMostSeconds : std::numeric_limits<double>::max();
  return value <= most && value >= (unit == "nats per label" ? -most : 0);
}

/// Each take() returns whether the value is one of its type and in its range; else it leaves the target alone.
bool take(const json& value, bool& target, std::string_view /*unit*/) {
  if (!value.is_boolean()) return false;
  target = value.get<bool>();
  return true;
}

bool take(const json& value, std::string& target, std::string_view /*unit*/) {
  if (!value.is_string()) return false;
  target = value.get_ref<const std::string&>();
  return true;
}

bool take(const json& value, double& target, std::string_view unit) {
  if (!value.is_number()) return false;
  const auto number = value.get<double>();
  if (!is_in_range(number, unit)) return false;
  target = number;
  return true;
}

template <std::integral Number>
bool take(const json& value, Number& target, std::string_view /*unit*/) {
  constexpr auto kMost = std::is_same_v<Number, std::int64_t> ? static_cast<std::uint64_t>(kMostCount)
                                                              : std::uint64_t{std::numeric_limits<Number>::max()};
  const bool is_counted = value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  if (!is_counted || value.get<std::uint64_t>() > kMost) return false;
  target = value.get<Number>();
  return true;
}

template <class Tag, class Value>
bool take(const json& value, StrongId<Tag, Value>& target, std::string_view unit) {
  return take(value, target.value, unit);
}

template <class T>
bool take(const json& value, std::vector<T>& target, std::string_view unit) {
  if (!value.is_array()) return false;
  std::vector<T> list(value.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!take(value[i], list[i], unit)) return false;
  target = std::move(list);
  return true;
}

bool take(const json& value, GpuHealth& target, std::string_view unit);

template <class T>
bool take(const json& value, std::optional<T>& target, std::string_view unit) {
  T found{};
  if (!take(value, found, unit)) return false;
  target = std::move(found);
  return true;
}

template <class T>
bool take(const json& value, const WrittenIf<T>& target, std::string_view unit) {
  return take(value, target.value, unit);
}

template <class T>
bool take(const json& value, const OrNull<T>& target, std::string_view unit) {
  return take(value, target.value, unit);
}

template <class T>
bool take(const json& value, const Joined<T>& target, std::string_view /*unit*/) {
  if (!value.is_string()) return false;
  std::string_view rest = value.get_ref<const std::string&>();
  target.value.clear();
  while (!rest.empty()) {
    const auto end = std::min(rest.find(','), rest.size());
    target.value.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return true;
}

/// Visitor of describe(): takes each field from a row. Rows have their fields in this order, so that the next one is
/// most often where the search begins.
class FieldReader {
 public:
  explicit FieldReader(const json& row) : fields_(row.get_ref<const json::object_t&>()), next_(fields_.begin()) {}

  template <class T, class... Rest>
  void operator()(std::string_view key, T&& target, std::string_view unit, const Rest&...) {
    if (const json* value = find(key)) take(*value, target, unit);
  }
  /// Null if there is no such field.
  const json* find(std::string_view key) {
    const auto has_key = [key](const auto& field) { return field.first == key; };
    auto found = std::find_if(next_, fields_.end(), has_key);
    if (found == fields_.end()) found = std::find_if(fields_.begin(), next_, has_key);
    if (found == fields_.end() || !has_key(*found)) return nullptr;
    next_ = std::next(found);
    return &found->second;
  }

 private:
  const json::object_t& fields_;
  json::object_t::const_iterator next_;
};

bool take(const json& value, GpuHealth& target, std::string_view /*unit*/) {
  if (!value.is_object()) return false;
  describe(target, FieldReader(value));
  return true;
}

/// Reads the fields that rows of kinds that this version does not know may have in common with others.
void read_other(const json& row, std::string_view event, Record& record) {
  Other& other = record.emplace<Other>();
  other.event = event;
  FieldReader read(row);
  read("step", other.step, "steps");
  read("job", other.job, "");
  read("cause", other.cause, "");
  read("cause_code", other.cause_code, "");
}

template <class Kind>
void read(const json& row, Record& record) {
  Kind& kind = record.emplace<Kind>();
  if constexpr (requires { kind.step.value; }) kind.step = kNoStep;
  describe(kind, FieldReader(row));
  if constexpr (requires { mend(kind); }) mend(kind);
  if constexpr (requires { complete(kind); }) complete(kind);
}

struct Reader {
  Kind kind;
  void (*read)(const json& row, Record& record) = nullptr;
};

template <std::size_t... I>
constexpr auto readers_of(std::index_sequence<I...> /*kinds but Other*/) {
  return std::array{
      Reader{std::variant_alternative_t<I + 1, Record>::kKind, &read<std::variant_alternative_t<I + 1, Record>>}...};
}
constexpr auto kReaders = readers_of(std::make_index_sequence<std::variant_size_v<Record> - 1>());

void read_event(const json& row, const std::string& event, Record& record) {
  for (const auto& [kind, read_kind] : kReaders)
    if (kind.name == event && has_event(kind.file)) return read_kind(row, record);
  read_other(row, event, record);
}

/// A row of metrics.jsonl, or of a node's file.
void read_without_event(const json& row, Record& record) {
  FieldReader reader(row);
  std::optional<Step> step;
  reader("step", step, "steps");
  if (!step) {
    if (reader.find("host")) read<NodeHealth>(row, record);
    return;
  }
  if (reader.find("loss")) return read<StepDone>(row, record);
  const bool is_evaluation = reader.find("validation_loss") || reader.find("validation_accuracy");
  is_evaluation ? read<Evaluated>(row, record) : read<StepDone>(row, record);
}

/// An object in the order of its text takes time that grows with the square of its fields: other lines than rows of
/// distdl are sorted first. To put them in another object takes a call for each object in an object: those that lie
/// deeper than in any row are left out.
json parse(std::string_view line) {
  constexpr std::ptrdiff_t kMostFields = 100;
  if (std::ranges::count(line, ':') <= kMostFields) return json::parse(line, nullptr, false);
  const auto is_near = [](int depth, auto /*event*/, const auto& /*value*/) {
    constexpr int kDeepest = 4;
    return depth <= kDeepest;
  };
  return json(nlohmann::json::parse(line, is_near, false));
}
}  // namespace

std::optional<Row> parse_row(std::string_view line) {
  std::optional<Row> row;
  if (line.empty() || line.size() > kLongestLine) return row;
  const json object = parse(line);
  if (!object.is_object()) return row;
  row.emplace();
  std::string event;
  FieldReader reader(object);
  reader("event", event, "");
  reader("time", row->time, "seconds since 1970");
  reader("start", row->start, "");
  event.empty() ? read_without_event(object, row->record) : read_event(object, event, row->record);
  return row;
}

}  // namespace distdl::records
