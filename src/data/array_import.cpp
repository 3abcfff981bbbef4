// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/work_progress.hpp>
#include <distdl/data/array_import.hpp>
#include <distdl/data/arrays.hpp>
#include <distdl/data/format/number_array.hpp>
#include <distdl/data/format/text_records.hpp>

namespace distdl::data {
namespace {
namespace fs = std::filesystem;
constexpr std::size_t kMostClasses = 1 << 20;
constexpr std::ptrdiff_t kMostColumns = 1 << 16;  // of a table of arrays, and channels of an array

std::optional<double> number_in(std::string_view text) {
  const auto first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  if (first == std::string_view::npos) return std::nullopt;
  text = text.substr(first, last - first + 1);
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// Whether it is a number as float32, too.
bool is_finite(double value) {
  return std::abs(value) <= std::numeric_limits<float>::max();  // false for NaN
}

/// A table in memory. Places of rows are as the file tells them.
struct NumberTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> texts;  ///< columns that are labels
  std::vector<std::vector<float>> numbers;      ///< all other columns that are wanted
};

/// Which columns of a table are wanted, and for what.
struct Wanted {
  std::vector<std::size_t> inputs, targets;
  std::optional<std::size_t> label;
  std::vector<std::size_t> numbers() const {
    auto all = inputs;
    all.insert(all.end(), targets.begin(), targets.end());
    return all;
  }
};

std::size_t column_at(const std::vector<std::string>& columns, const std::string& name, const fs::path& table) {
  const auto found = std::ranges::find(columns, name);
  require(found != columns.end(), "\"{}\" has no column \"{}\"; its columns are {}", table.string(), name,
          fmt::join(columns, ", "));
  return static_cast<std::size_t>(found - columns.begin());
}

Wanted wanted_of(const TableImport& import, const std::vector<std::string>& columns,
                 const std::optional<ArrayNames>& like) {
  const auto at = [&](const std::string& name) { return column_at(columns, name, import.table); };
  const std::set<std::string> different(columns.begin(), columns.end());
  require(different.size() == columns.size(), "\"{}\" has two columns of one name; its columns are {}",
          import.table.string(), fmt::join(columns, ", "));
  Wanted wanted;
  if (!import.label.empty()) wanted.label = at(import.label);
  for (const auto& name : import.targets) wanted.targets.push_back(at(name));
  for (const auto& name : import.without) at(name);
  for (const auto& name : like ? like->inputs : import.columns) wanted.inputs.push_back(at(name));
  const bool takes_others = !like && import.columns.empty();
  for (std::size_t i = 0; takes_others && i < columns.size(); ++i)
    if (wanted.label != i && std::ranges::find(wanted.targets, i) == wanted.targets.end() &&
        std::ranges::find(import.without, columns[i]) == import.without.end())
      wanted.inputs.push_back(i);
  require(!wanted.inputs.empty(), "\"{}\" has no columns to predict from beside {}", import.table.string(),
          fmt::join(import.label.empty() ? import.targets : std::vector{import.label}, ", "));
  auto all = wanted.numbers();
  if (wanted.label) all.push_back(*wanted.label);
  std::ranges::sort(all);
  const auto twice = std::ranges::adjacent_find(all);
  require(twice == all.end(), "column \"{}\" is named twice: as one to predict from, and as label or target, or so",
          twice == all.end() ? "" : columns[*twice]);
  return wanted;
}

TextFormat table_format(fs::path file) {
  if (file.extension() == ".gz" || file.extension() == ".zst") file = file.stem();
  return file.extension() == ".tsv" ? TextFormat::tsv : TextFormat::csv;
}

/// Reads the wanted columns of CSV or TSV; `choose` is told all columns.
template <class Choose>
NumberTable read_csv(const fs::path& file, Choose&& choose) {
  TextRecordReader reader(file, table_format(file), "", {});
  NumberTable table{.columns = reader.columns(), .texts = {}, .numbers = {}};
  require(!std::ranges::all_of(table.columns, [](const auto& name) { return number_in(name).has_value(); }),
          "\"{}\" begins with numbers, but a line with the names of its columns is expected; add one", file.string());
  const Wanted wanted = choose(table.columns);
  const auto numbers = wanted.numbers();
  table.numbers.resize(numbers.size());
  table.texts.resize(wanted.label ? 1 : 0);
  while (const auto records = reader.next()) {
    for (std::size_t i = 0; i < records->ends.size(); ++i) {
      const auto row = row_of_record(*records, i);
      if (!row) continue;
      const auto refuse = [&](const std::string& why) {
        throw ConfigError(fmt::format("\"{}\", line {}{}", file.string(), line_of_record(*records, i), why));
      };
      if (row->size() != table.columns.size())
        refuse(fmt::format(": it has {} columns, but the first line names {}", row->size(), table.columns.size()));
      for (std::size_t k = 0; k < numbers.size(); ++k) {
        const auto& text = (*row)[numbers[k]];
        const auto value = number_in(text);
        if (!value || !is_finite(*value))
          refuse(
              fmt::format(", column \"{}\": \"{}\" is not a finite number; mend the file, or leave the column out by "
                          "--without",
                          table.columns[numbers[k]], text));
        table.numbers[k].push_back(static_cast<float>(*value));
      }
      if (wanted.label) {
        const auto& text = (*row)[*wanted.label];
        if (text.empty()) refuse(fmt::format(", column \"{}\": the class is missing", table.columns[*wanted.label]));
        table.texts[0].push_back(text);
      }
    }
  }
  return table;
}

std::string text_of_label(double value, const std::string& array, std::int64_t row) {
  require(is_finite(value) && value == std::floor(value),
          "row {} of {} is {}, but a label is a whole number; is it a target?", row, array, value);
  return fmt::format("{:.0f}", value);
}

/// The names of the columns of arrays: each array is one column, or as many as it is wide.
std::vector<std::string> columns_of(const fs::path& file, const std::vector<std::string>& arrays) {
  std::vector<std::string> columns;
  std::optional<std::int64_t> rows;
  for (const std::string& name : arrays) {
    const auto array = open_array(file, name);
    const auto& shape = array->shape();
    require(shape.size() <= 2 && shape[0] == rows.value_or(shape[0]),
            "{} has the shape {}, but those of a table have one or two dimensions, and {} rows; import fields by "
            "\"distdl data import fields\"",
            array->name(), tensor::to_string(shape), rows.value_or(shape[0]));
    rows = shape[0];
    const std::int64_t width = shape.size() == 2 ? shape[1] : 1;
    require(width <= kMostColumns - std::ssize(columns), "{} has the shape {}, but a table may have at most {} columns",
            array->name(), tensor::to_string(shape), kMostColumns);
    for (std::int64_t i = 0; i < width; ++i)
      columns.push_back(shape.size() == 2 ? fmt::format("{}[{}]", name, i) : name);
  }
  return columns;
}

/// Reads the wanted columns of arrays. Each array is read once.
template <class Choose>
NumberTable read_npz_table(const fs::path& file, Choose&& choose) {
  NumberTable table;
  const std::vector<std::string> arrays = arrays_in(file);
  table.columns = columns_of(file, arrays);
  const Wanted wanted = choose(table.columns);
  const auto numbers = wanted.numbers();
  table.numbers.resize(numbers.size());
  table.texts.resize(wanted.label ? 1 : 0);
  std::size_t first = 0;  // column of the array
  for (const std::string& name : arrays) {
    const auto array = open_array(file, name);
    std::vector<double> values(array->shape().size() == 2 ? static_cast<std::size_t>(array->shape()[1]) : 1);
    const auto is_here = [&](std::size_t column) { return column >= first && column - first < values.size(); };
    if (std::ranges::any_of(numbers, is_here) || (wanted.label && is_here(*wanted.label)))
      for (std::int64_t row = 0; row < array->shape()[0]; ++row) {
        array->read(values);
        for (std::size_t k = 0; k < numbers.size(); ++k) {
          if (!is_here(numbers[k])) continue;
          const double value = values[numbers[k] - first];
          require(is_finite(value), "row {} of column \"{}\" in {} is {}, which is not a finite number", row,
                  table.columns[numbers[k]], array->name(), value);
          table.numbers[k].push_back(static_cast<float>(value));
        }
        if (wanted.label && is_here(*wanted.label))
          table.texts[0].push_back(text_of_label(values[*wanted.label - first], array->name(), row));
      }
    first += values.size();
  }
  return table;
}

bool is_npz(const fs::path& file) {
  return file.extension() == ".npz" || file.extension() == ".npy";
}

/// Labels by the classes of another set.
std::vector<std::int32_t> labels_like(const std::vector<std::string>& values, const std::vector<std::string>& classes,
                                      const std::string& column, const fs::path& like) {
  std::map<std::string, std::int32_t> in_order;
  for (std::size_t i = 0; i < classes.size(); ++i) in_order[classes[i]] = static_cast<std::int32_t>(i);
  std::vector<std::int32_t> labels;
  for (const auto& value : values) {
    const auto found = in_order.find(value);
    require(found != in_order.end(),
            "column \"{}\" has the class \"{}\", which \"{}\" does not have; its classes are {}", column, value,
            like.string(), fmt::join(classes, ", "));
    labels.push_back(found->second);
  }
  return labels;
}

/// The set of --like, and that it has the same kind of answers.
struct Like {
  ArrayNames names;
  ArrayScale scale;
};
std::optional<Like> read_like(const fs::path& file, bool has_targets) {
  if (file.empty()) return std::nullopt;
  const auto set = ArraySet::open(file, 0);
  require(set.description().targets.empty() != has_targets, "\"{}\" has {}, unlike what is imported; name the same",
          file.string(), has_targets ? "classes, but no targets" : "targets, but no classes");
  return Like{set.names(), set.scale()};
}

void require_like(const std::vector<std::string>& found, const std::vector<std::string>& expected, const char* what,
                  const fs::path& like) {
  require(found == expected, "the {} are {}, but those of \"{}\" are {}; import the same", what, fmt::join(found, ", "),
          like.string(), fmt::join(expected, ", "));
}

std::string base_name(const fs::path& file) {
  return file.filename().string();
}
}  // namespace

Classes classes_of(const std::vector<std::string>& values, const std::string& column) {
  const std::set<std::string> different(values.begin(), values.end());
  require(different.size() <= kMostClasses,
          "column \"{}\" has {} classes, but at most {} are possible; is it a target?", column, different.size(),
          kMostClasses);
  Classes classes{{different.begin(), different.end()}, {}};
  bool are_numbers = true;
  for (const auto& name : classes.names) {
    const auto number = number_in(name);
    are_numbers = are_numbers && number.has_value();
    require(!number || *number == std::floor(*number),
            "column \"{}\" has the class \"{}\", which is no whole number; numbers to predict are named by --target",
            column, name);
  }
  if (are_numbers)
    std::ranges::stable_sort(classes.names, {}, [](const std::string& name) { return number_in(name).value_or(0); });
  require(classes.names.size() >= 2, "column \"{}\" has only one class, \"{}\"; at least two are expected", column,
          classes.names.empty() ? "" : classes.names[0]);
  std::map<std::string_view, std::int32_t> numbers;
  for (std::size_t i = 0; i < classes.names.size(); ++i) numbers[classes.names[i]] = static_cast<std::int32_t>(i);
  for (const auto& value : values) classes.labels.push_back(numbers.at(value));
  return classes;
}

Description import_table(const TableImport& import, const fs::path& output, Overwrite overwrite) {
  require(import.label.empty() != import.targets.empty(),
          "a table needs either the column of its classes (--label) or those to predict (--target)");
  require(import.like.empty() || (import.columns.empty() && import.without.empty()),
          "--like says which columns are taken, so --columns and --without have no place beside it");
  { const StagedFile refuses_early(output, overwrite); }
  const auto like = read_like(import.like, !import.targets.empty());
  Wanted wanted;
  const auto choose = [&](const std::vector<std::string>& columns) {
    return wanted = wanted_of(import, columns, like ? std::optional(like->names) : std::nullopt);
  };
  const NumberTable table =
      is_npz(import.table) ? read_npz_table(import.table, choose) : read_csv(import.table, choose);
  const std::size_t rows = table.numbers[0].size(), inputs = wanted.inputs.size();
  require(rows > 0, "\"{}\" has no rows", import.table.string());
  ArrayNames names;
  for (const std::size_t column : wanted.inputs) names.inputs.push_back(table.columns[column]);
  for (const std::size_t column : wanted.targets) names.targets.push_back(table.columns[column]);
  Classes classes;
  if (wanted.label && like)
    classes = {like->names.classes, labels_like(table.texts[0], like->names.classes, import.label, import.like)};
  else if (wanted.label)
    classes = classes_of(table.texts[0], import.label);
  names.classes = classes.names;
  if (like) require_like(names.targets, like->names.targets, "targets", import.like);
  Description about{.origin = fmt::format("table {}", base_name(import.table)),
                    .samples = static_cast<std::int64_t>(rows),
                    .shape = {static_cast<std::int64_t>(inputs), 1, 1}};
  if (!wanted.targets.empty()) about.targets = {std::ssize(wanted.targets)};
  ArraySetWriter writer(output, about, names, like ? &like->scale : nullptr, overwrite);
  std::vector<float> row;
  for (std::size_t i = 0; i < rows; ++i) {
    row.clear();
    for (const auto& column : table.numbers) row.push_back(column[i]);
    writer.append_inputs(std::span(row).first(inputs));
    if (!wanted.targets.empty()) writer.append_targets(std::span(row).subspan(inputs));
  }
  if (wanted.label) writer.append_labels(classes.labels);
  return writer.commit();
}

namespace {
/// An array as the channels of samples.
struct Channels {
  std::unique_ptr<NumberArray> array;
  std::int64_t channels = 1;
  tensor::Shape extents;  ///< those of one channel
};

Channels channels_in(const fs::path& file, const std::string& name, std::int64_t dimensions) {
  Channels result{open_array(file, name), 1, {}};
  const auto& shape = result.array->shape();
  const auto axes = std::ssize(shape);
  if (dimensions < 0) dimensions = std::max<std::int64_t>(0, axes - 2);
  require(axes == dimensions + 1 || axes == dimensions + 2,
          "{} has the shape {}, but (samples{}) or (samples, channels{}) is expected; --dimensions says how many a "
          "sample has",
          result.array->name(), tensor::to_string(shape), dimensions > 0 ? ", ..." : "", dimensions > 0 ? ", ..." : "");
  require(dimensions <= 3, "{} has {} dimensions, but at most 3 are possible", result.array->name(), dimensions);
  if (axes == dimensions + 2) result.channels = shape[1];
  require(result.channels <= kMostColumns, "{} has {} channels, but at most {} are possible; is --dimensions missing?",
          result.array->name(), result.channels, kMostColumns);
  result.extents.assign(shape.end() - dimensions, shape.end());
  require(result.channels >= 1 && std::ranges::all_of(result.extents, [](auto extent) { return extent >= 1; }),
          "{} is empty: its shape is {}", result.array->name(), tensor::to_string(shape));
  return result;
}

/// Several arrays, the channels of which follow each other.
struct Group {
  std::vector<Channels> parts;
  std::vector<std::string> names;  ///< one for each channel
  tensor::Shape shape;             ///< channels, and then the extents of a sample
  std::int64_t samples = 0;
};

Group group_of(const fs::path& file, const std::vector<std::string>& arrays, std::int64_t dimensions) {
  Group group;
  std::int64_t channels = 0;
  for (const std::string& name : arrays) {
    auto part = channels_in(file, name, dimensions);
    const auto rows = part.array->shape()[0];
    if (group.parts.empty()) group.samples = rows;
    require(rows == group.samples && (group.parts.empty() || part.extents == group.parts[0].extents),
            "{} has {} samples of the extents {}, but array \"{}\" has {} of {}", part.array->name(), rows,
            tensor::to_string(part.extents), arrays[0], group.samples,
            group.parts.empty() ? "" : tensor::to_string(group.parts[0].extents));
    for (std::int64_t i = 0; i < part.channels; ++i)
      group.names.push_back(part.channels == 1 ? name : fmt::format("{}[{}]", name, i));
    channels += part.channels;
    group.parts.push_back(std::move(part));
  }
  group.shape = {channels};
  const auto& extents = group.parts[0].extents;
  group.shape.insert(group.shape.end(), extents.begin(), extents.end());
  return group;
}

/// Hands the samples of a group to `take`, some at a time.
template <class Take>
void read_group(Group& group, Take&& take) {
  constexpr std::int64_t kValuesAtOnce = 1 << 20;
  const std::int64_t size = tensor::element_count(group.shape);
  const std::int64_t extent = size / group.shape[0];
  const std::int64_t most = std::max<std::int64_t>(1, kValuesAtOnce / size);
  std::vector<float> samples;
  std::vector<double> numbers;
  for (std::int64_t first = 0; first < group.samples; first += most) {
    const std::int64_t count = std::min(most, group.samples - first);
    samples.resize(static_cast<std::size_t>(count * size));
    std::int64_t before = 0;  // values of a sample
    for (const auto& part : group.parts) {
      const std::int64_t own = part.channels * extent;
      numbers.resize(static_cast<std::size_t>(count * own));
      part.array->read(numbers);
      const auto wrong = std::ranges::find_if_not(numbers, &is_finite);
      require(wrong == numbers.end(), "{} has the value {} in sample {}, which is not a finite number",
              part.array->name(), wrong == numbers.end() ? 0 : *wrong, first + (wrong - numbers.begin()) / own);
      for (std::int64_t i = 0; i < count; ++i)
        std::transform(numbers.begin() + i * own, numbers.begin() + (i + 1) * own, samples.begin() + i * size + before,
                       [](double value) { return static_cast<float>(value); });
      before += own;
    }
    take(std::span<const float>(samples));
    work_done(WorkUnit::samples, static_cast<std::uint64_t>(count));
  }
}

std::vector<std::string> labels_in(const fs::path& file, const std::string& name, std::int64_t samples) {
  const auto array = open_array(file, name);
  require(array->shape() == tensor::Shape{samples},
          "{} has the shape {}, but ({}) is expected for a label of each sample", array->name(),
          tensor::to_string(array->shape()), samples);
  constexpr std::size_t kAtOnce = 8192;
  std::vector<std::string> labels;
  std::vector<double> values;
  const auto count = static_cast<std::size_t>(samples);
  while (labels.size() < count) {
    values.resize(std::min(kAtOnce, count - labels.size()));
    array->read(values);
    for (const double value : values)
      labels.push_back(text_of_label(value, array->name(), static_cast<std::int64_t>(labels.size())));
  }
  return labels;
}
}  // namespace

Description import_fields(const FieldImport& import, const fs::path& output, Overwrite overwrite) {
  require(!import.inputs.empty(), "name the arrays to predict from by --input; \"{}\" has {}", import.file.string(),
          fmt::join(arrays_in(import.file), ", "));
  require(import.label.empty() != import.targets.empty(),
          "name either the array of classes (--label) or those to predict (--target); \"{}\" has {}",
          import.file.string(), fmt::join(arrays_in(import.file), ", "));
  require(import.dimensions >= -1 && import.dimensions <= 3, "--dimensions is {}, but must be 0 to 3",
          import.dimensions);
  { const StagedFile refuses_early(output, overwrite); }
  const auto like = read_like(import.like, !import.targets.empty());
  Group inputs = group_of(import.file, import.inputs, import.dimensions);
  require(inputs.samples > 0, "\"{}\" has no samples", import.file.string());
  Description about{
      .origin = fmt::format("fields {}", base_name(import.file)), .samples = inputs.samples, .shape = inputs.shape};
  // Two-dimensional layers take (C, H, W): a line is a field of height 1, and a column one of a single value.
  while (about.shape.size() < 3) about.shape.insert(about.shape.begin() + 1, 1);
  ArrayNames names{inputs.names, {}, {}};
  Classes classes;
  Group targets;
  if (!import.targets.empty()) {
    // One number for each sample is a target of no dimension.
    const auto axes = std::ssize(open_array(import.file, import.targets[0])->shape());
    targets = group_of(import.file, import.targets,
                       axes == 1 || (axes == 2 && import.dimensions != 1) ? 0 : import.dimensions);
    require(targets.samples == inputs.samples, "the targets have {} samples, but the inputs {}", targets.samples,
            inputs.samples);
    about.targets = targets.shape;
    if (about.targets.size() == 2) about.targets.insert(about.targets.begin() + 1, 1);  // as the inputs
    names.targets = targets.names;
  } else {
    const auto values = labels_in(import.file, import.label, inputs.samples);
    if (like)
      classes = {like->names.classes, labels_like(values, like->names.classes, import.label, import.like)};
    else
      classes = classes_of(values, import.label);
    names.classes = classes.names;
  }
  if (like) {
    require_like(names.inputs, like->names.inputs, "inputs", import.like);
    require_like(names.targets, like->names.targets, "targets", import.like);
  }
  ArraySetWriter writer(output, about, names, like ? &like->scale : nullptr, overwrite);
  read_group(inputs, [&](std::span<const float> values) { writer.append_inputs(values); });
  if (!import.targets.empty())
    read_group(targets, [&](std::span<const float> values) { writer.append_targets(values); });
  else
    writer.append_labels(classes.labels);
  return writer.commit();
}

}  // namespace distdl::data
