// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>
#include <type_traits>

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/one_of.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/comm/check_options.hpp>
#include <distdl/config/effects.hpp>
#include <distdl/config/job.hpp>
#include <distdl/config/nearest_key.hpp>
#include <distdl/launch/supervisor.hpp>
#include <distdl/train/trace.hpp>

namespace distdl::config {
namespace {
template <class T>
constexpr bool kIsChoice = false;
template <class Enum>
constexpr bool kIsChoice<OneOf<Enum>> = true;

template <class T>
std::string type_name() {
  if constexpr (kIsChoice<T>) return T::names();
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  if constexpr (std::is_same_v<T, std::int64_t>) return "a whole number";
  if constexpr (std::is_same_v<T, double>) return "a number";
  if constexpr (std::is_same_v<T, std::string>) return "a text in quotes";
  if constexpr (std::is_same_v<T, checkpoint::Interval>) return "a whole number or \"auto\"";
  if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) return "a list of whole numbers, e.g. [128, 64]";
  if constexpr (std::is_same_v<T, std::vector<double>>) return "a list of numbers, e.g. [0.4, 0.1]";
  if constexpr (std::is_same_v<T, std::vector<std::string>>) return "a list of texts in quotes";
}

/// Each false if the node is of another type.
bool assign(checkpoint::Interval& field, const toml::node& node) {
  const auto number = node.value_exact<std::int64_t>();
  const bool automatic = node.value_exact<std::string>() == "auto";
  if (number) field = *number;
  if (automatic) field = checkpoint::Interval::by_cost();
  return number || automatic;
}
template <class T>
bool assign_known(T& field, const std::optional<T>& value) {
  if (value) field = *value;
  return value.has_value();
}
bool assign(double& field, const toml::node& node) {
  return assign_known(field, node.is_number() ? node.value<double>() : std::nullopt);
}
template <class Enum>
bool assign(OneOf<Enum>& field, const toml::node& node) {
  const auto name = node.value_exact<std::string>();
  const auto value = name ? OneOf<Enum>::find(*name) : std::nullopt;
  if (value) field = *value;
  return value.has_value();
}
/// A job is written to the run folder: its texts must be what TOML can hold. toml++ has checked those of a file.
bool assign(std::string& field, const toml::node& node) {
  const auto text = node.value_exact<std::string>();
  require(!text || is_utf8(*text), "\"{}\" is not UTF-8, as all values of a job must be; rename the file or folder",
          printable(text.value_or("")));
  return assign_known(field, text);
}
template <class T>
bool assign(T& field, const toml::node& node) {
  return assign_known(field, node.value_exact<T>());
}

template <class Element>
bool assign(std::vector<Element>& field, const toml::node& node) {
  const auto* array = node.as_array();
  if (!array) return false;
  std::vector<Element> values;
  for (const auto& element : *array) {
    Element value{};
    if (!assign(value, element)) return false;
    values.push_back(value);
  }
  field = values;
  return true;
}

/// For the error.
template <class T>
std::string got(const toml::node& node) {
  const auto text = node.value_exact<std::string>();
  return kIsChoice<T> && text ? fmt::format(", not \"{}\"", printable(*text)) : "";
}

/// The name that a key has now. `where` as in set().
std::string present_name(Job& job, const std::string& key, const std::vector<RenamedKey>& renamed,
                         const std::string& where) {
  const auto found = std::ranges::find(renamed, key, &RenamedKey::former);
  if (found == renamed.end()) return key;
  job.warnings.push_back(fmt::format("{}key \"{}\" is called \"{}\" now; the next version will not know the old name",
                                     where, key, found->present));
  return found->present;
}

/// Sets one key of what describe() describes. False if it has none of this name.
template <class Described>
bool set_known(Described& described, const std::string& key, const toml::node& node, const std::string& where) {
  bool known = false;
  describe(described, [&](const std::string& name, auto& field, const char*) {
    if (name != key) return;
    known = true;
    using T = std::decay_t<decltype(field)>;
    require(assign(field, node), "{}key \"{}\" must be {}{}", where, key, type_name<T>(), got<T>(node));
  });
  return known;
}

/// The text of a single value, as it stands in a command.
std::string text_of(const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return *text;
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);  // toml++ prints 17 digits
  std::ostringstream out;
  node.visit([&out](const auto& value) { out << value; });
  return out.str();
}

/// Sets one key. `where` begins the error message: `job.toml:3: ` or `--set: `.
void set(Job& job, const std::string& key, const toml::node& node, const std::string& where) {
  if (set_known(job, key, node, where)) return;
  if (const auto parameter = program::parameter_named(key); !parameter.empty()) {
    require(node.is_value(), "{}key \"{}\" must be a text, a number, true or false", where, key);
    return program::set_parameter(job.program, parameter, text_of(node));
  }
  constexpr std::size_t kLongest = 100;
  require(key.size() <= kLongest, "{}unknown key \"{}...\"; \"distdl config --defaults\" lists all keys", where,
          key.substr(0, kLongest));
  const auto nearest = nearest_key(keys(), key);
  const auto hint = nearest.empty() ? std::string() : fmt::format("; did you mean \"{}\"?", nearest);
  throw ConfigError(fmt::format("{}unknown key \"{}\"{} \"distdl config --defaults\" lists all keys", where, key,
                                nearest.empty() ? ";" : hint));
}

/// The tables [[alert]].
void add_alerts(Job& job, const toml::node& node, const std::string& file) {
  const auto at = [&file](const toml::node& found) { return fmt::format("{}:{}: ", file, found.source().begin.line); };
  const auto* const tables = node.as_array();
  if (tables == nullptr || !tables->is_homogeneous(toml::node_type::table))
    throw ConfigError(fmt::format("{}write [[alert]] above the keys of each alert", at(node)));
  for (const auto& each : *tables) {
    const auto& table = *each.as_table();
    observe::AlertRule rule;
    for (const auto& [name, value] : table)
      require(set_known(rule, "alert." + std::string(name.str()), value, at(value)),
              "{}unknown key \"{}\" in [[alert]]; the keys of an alert are: when, limit, steps, run, file, "
              "timeout_seconds",
              at(value), name.str());
    require(table.contains("when"), "{}the alert has no key \"when\", which must be {}", at(each),
            OneOf<observe::AlertKind>::names());
    observe::check(rule, at(each));
    job.alerts.push_back(std::move(rule));
  }
}

/// Whether keys lie under this heading.
bool is_section(Job& job, const std::string& name) {
  bool found = false;
  describe(job, [&](const std::string& key, auto&, const char*) { found |= key.starts_with(name + "."); });
  return found;
}

void set_all(Job& job, const toml::table& table, const std::string& prefix, const std::string& file,
             const std::vector<RenamedKey>& renamed) {
  for (const auto& [name, node] : table) {
    std::string key = prefix + std::string(name.str());
    if (key == "alert") {
      add_alerts(job, node, file);
      continue;
    }
    const auto* inner = node.as_table();
    if (inner && (!inner->empty() || is_section(job, key)))
      set_all(job, *inner, key + ".", file, renamed);
    else {
      const auto where = fmt::format("{}:{}: ", file, node.source().begin.line);
      set(job, present_name(job, key, renamed, where), node, where);
    }
  }
}

/// Checks a text for what toml++ cannot handle. toml++ recurses over nested tables, one for each part of a key, and
/// requires that a heading's name begins like a name. Like toml++, which stops at the first error, the check skips
/// texts and comments.
class Outline {
 public:
  Outline(std::string_view text, const std::string& file) : rest_(text), file_(file) {}
  void check() {
    if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
    for (bool line_begins = true; !rest_.empty();) {
      const char c = rest_.front();
      if (c == '"' || c == '\'') {
        skip_text(c);
      } else if (c == '#') {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else {
        if (c == '[' && line_begins) check_heading();
        require(c != '.' || ++dots_ <= kMost,
                "{}:{}: there are more than {} dots; keys have two parts, such as train.epochs", file_, line_, kMost);
        rest_.remove_prefix(1);
      }
      line_ += c == '\n';
      line_begins = c == '\n' || (line_begins && (c == ' ' || c == '\t' || c == '\r'));
    }
  }

 private:
  static constexpr int kMost = 1000;  // the longest sensible file has some dozens

  /// One in quotes, or in three of them; in one quote's it ends with the line at the latest.
  void skip_text(char quote) {
    const std::string three(3, quote);
    const bool is_long = rest_.starts_with(three);
    rest_.remove_prefix(is_long ? 3 : 1);
    while (!rest_.empty()) {
      if (is_long ? rest_.starts_with(three) : rest_.front() == quote || rest_.front() == '\n') break;
      line_ += rest_.front() == '\n';
      const bool is_escape = rest_.front() == '\\' && quote == '"' && rest_.size() > 1 && rest_[1] != '\n';
      rest_.remove_prefix(is_escape ? 2 : 1);
    }
    const std::size_t most = is_long ? 5 : rest_.starts_with(quote) ? 1 : 0;  // two more may be its last characters
    rest_.remove_prefix(std::min(rest_.substr(0, most).find_first_not_of(quote), std::min(most, rest_.size())));
  }
  void check_heading() const {
    std::string_view name = rest_.substr(rest_.starts_with("[[") ? 2 : 1);
    name.remove_prefix(std::min(name.find_first_not_of(" \t"), name.size()));
    const bool is_name = name.empty() || std::isalnum(static_cast<unsigned char>(name.front())) ||
                         std::string_view("_-\"']").find(name.front()) != std::string_view::npos;
    require(is_name, "{}:{}: expected a name after the bracket, as in [train]", file_, line_);
  }

  std::string_view rest_;
  const std::string& file_;
  int line_ = 1, dots_ = 0;
};

toml::table parse(const std::string& text, const std::string& file) {
  Outline(text, file).check();
  return toml::parse(text, file);
}

/// A value on the command line is TOML, or, where a text is wanted, just the text.
void apply_override(Job& job, const std::string& text, const std::vector<RenamedKey>& renamed) {
  auto equals = text.find('=');
  require(equals != std::string::npos && equals > 0, "--set \"{}\": expected KEY=VALUE, e.g. --set train.epochs=3",
          text);
  const std::string key = present_name(job, text.substr(0, equals), renamed, "--set: ");
  const std::string value = text.substr(equals + 1);
  bool is_text = !program::parameter_named(key).empty();
  describe(job, [&](const std::string& name, auto& field, const char*) {
    if (name == key) {
      using T = std::decay_t<decltype(field)>;
      is_text = std::is_same_v<T, std::string> || kIsChoice<T>;
    }
  });
  if (is_text && !value.starts_with('"') && !value.starts_with('\'')) {  // the quotes that TOML has
    set(job, key, toml::value<std::string>(value), "--set: ");
    return;
  }
  try {
    toml::table table = parse("value = " + value, "--set");
    require(table.size() == 1, "--set \"{}\": expected one key; repeat --set for each", printable(text));
    set(job, key, *table.get("value"), "--set: ");
  } catch (const toml::parse_error&) {
    set(job, key, toml::value<std::string>(value), "--set: ");  // says unknown key, or what type it must be
  }
}

std::string read(const std::filesystem::path& file) {
  constexpr std::size_t kMost = 1 << 20;  // bytes
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string text(kMost + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  require(!in.bad() && in.gcount() >= 0 && (in || in.eof()), "cannot read the job file \"{}\": {}", file.string(),
          errno_text(errno));
  text.resize(static_cast<std::size_t>(in.gcount()));
  require(text.size() <= kMost, "the job file \"{}\" has more than {} bytes; is it a job file?", file.string(), kMost);
  return text;
}

std::string as_toml(bool value) {
  return value ? "true" : "false";
}
std::string as_toml(std::int64_t value) {
  return std::to_string(value);
}
std::string as_toml(double value) {
  auto text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}
std::string as_toml(const std::string& value) {
  std::string text = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    if ((c >= 0 && c < ' ') || c == 0x7f)
      text += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      text += c;
  }
  return text + '"';
}
template <class Enum>
std::string as_toml(OneOf<Enum> value) {
  return as_toml(std::string(value.name()));
}
std::string as_toml(checkpoint::Interval interval) {
  return interval.automatic ? "\"auto\"" : std::to_string(interval.steps);
}
template <class Element>
std::string as_toml(const std::vector<Element>& values) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : ", ") + as_toml(value);
  return "[" + text + "]";
}

/// A table [[alert]]. With `comments` it is one, too.
std::string write(observe::AlertRule rule, bool comments) {
  const char* const mark = comments ? "# " : "";
  std::string text = fmt::format("\n{}[[alert]]\n", mark);
  describe(rule, [&](const std::string& key, auto& field, const char* help) {
    if (comments) text += fmt::format("# # {}\n", help);
    text += fmt::format("{}{} = {}\n", mark, key.substr(key.find('.') + 1), as_toml(field));
  });
  return text;
}

/// The lines above a key in a file that explains itself.
std::string comment_on(const std::string& key, const char* help) {
  const auto need = need_of(key);
  return fmt::format("# {}\n{}", help, need.empty() ? "" : fmt::format("# only with {}\n", need));
}

std::string write(Job job, bool comments) {
  std::string text, for_experts, section;
  const auto end_section = [&] {
    if (!for_experts.empty()) text += "# For experts:\n" + for_experts;
    for_experts.clear();
  };
  describe(job, [&](const std::string& key, auto& field, const char* help) {
    auto dot = key.find('.');
    if (key.substr(0, dot) != section) {
      end_section();
      section = key.substr(0, dot);
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    (comments && is_for_experts(key) ? for_experts : text) +=
        fmt::format("{}{} = {}\n", comments ? comment_on(key, help) : "", key.substr(dot + 1), as_toml(field));
  });
  end_section();
  for (const auto& rule : job.alerts) text += write(rule, false);
  if (comments) text += write(observe::AlertRule{}, true);
  return text;
}
}  // namespace

namespace {
/// Unchecked; the defaults if there is no file.
Job read_job(const std::filesystem::path& file, const std::vector<RenamedKey>& renamed) {
  Job job;
  if (file.empty()) return job;
  std::error_code unknown;  // read() reports files that cannot be inspected
  require(std::filesystem::exists(file, unknown) || unknown, "there is no job file \"{}\"; ready ones lie in examples/",
          file.string());
  const std::string text = read(file);
  try {
    const toml::table table = parse(text, file.string());
    for (const auto& [former, present] : renamed)
      require(!table.at_path(former) || !table.at_path(present),
              "{}: \"{}\" is the old name of \"{}\"; give one of them", file.string(), former, present);
    set_all(job, table, "", file.string(), renamed);
  } catch (const toml::parse_error& error) {
    throw ConfigError(fmt::format("{}:{}: {}", file.string(), error.source().begin.line, error.description()));
  }
  return job;
}
}  // namespace

Job load(const std::filesystem::path& file, const std::vector<std::string>& overrides,
         const std::vector<RenamedKey>& renamed) {
  const Job written = read_job(file, renamed);
  Job job = written;
  apply(job, overrides, renamed);
  check(job);
  Job named;  // the names have been complained of
  std::set<std::string> overridden;
  for (const auto& text : overrides)
    overridden.insert(present_name(named, text.substr(0, text.find('=')), renamed, ""));
  for (auto& warning : check_effects(job, {}, excused_keys(job, written, file, overridden)))
    job.warnings.push_back(std::move(warning));
  return job;
}

void check(const Job& job) {
  require(!job.run_dir.empty(), "run.dir is empty, but the name of a folder is expected, such as \"run\"");
  launch::check(job.launch);
  agent::check(job.agent);
  program::check(job.program);
  train::check(job.recipe);
  train::check_devices(job.recipe, job.devices_per_rank);
  comm::check(job.comm);
  observe::check(job.observe);
  train::traced_steps_or_off(job.observe.trace, "log.trace");
}

void log_warnings(const Job& job) {
  for (const auto& warning : job.warnings) log(Severity::warning, "{}", warning);
}

void apply(Job& job, const std::vector<std::string>& overrides, const std::vector<RenamedKey>& renamed) {
  for (const auto& text : overrides) apply_override(job, text, renamed);
}

Values values_of(const Job& job) {
  Values values;
  Job copy = job;
  describe(copy, [&](const std::string& key, auto& field, const char*) { values[key] = as_toml(field); });
  return values;
}

Values values_of(const observe::AlertRule& rule) {
  Values values;
  auto copy = rule;
  describe(copy, [&](const std::string& key, auto& field, const char*) { values[key] = as_toml(field); });
  return values;
}

std::vector<std::string> keys() {
  std::vector<std::string> names;
  Job job;
  describe(job, [&](const std::string& key, auto&, const char*) { names.push_back(key); });
  return names;
}

std::string override_for(const std::vector<std::string>& program) {
  auto text = "run.command=" + as_toml(program);
  Job job;
  apply(job, {text});
  require(job.program.command == program, "the command \"{}\" is not UTF-8: put it into a script",
          printable(fmt::format("{}", fmt::join(program, " "))));
  return text;
}

std::string defaults_as_toml() {
  return write(Job{}, true);
}
std::string to_toml(const Job& job) {
  return write(job, false);
}

std::string reference_as_markdown() {
  const std::string head = "| key | default | meaning | only with |\n|---|---|---|---|\n";
  std::string usual = head, for_experts = head;
  const auto add_row = [&](const std::string& key, auto& field, const char* help) {
    (is_for_experts(key) ? for_experts : usual) +=
        fmt::format("| `{}` | `{}` | {} | {} |\n", key, as_toml(field), help, need_of(key));
  };
  Job job;
  describe(job, add_row);
  observe::AlertRule rule;
  describe(rule, add_row);
  return usual + "\n## Keys for experts\n\nTheir defaults suit nearly all jobs.\n\n" + for_experts;
}

}  // namespace distdl::config
