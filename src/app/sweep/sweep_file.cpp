// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <sstream>

#include <toml++/toml.h>

#include <distdl/app/sweep/sweep.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/near_word.hpp>
#include <distdl/base/regular_file.hpp>

namespace distdl::app {
namespace {
constexpr std::int64_t kMostRuns = 10000, kMostAtOnce = 1000;

bool assign(std::string& field, const toml::node& node) {
  const auto value = node.value_exact<std::string>();
  if (value) field = *value;
  return value.has_value();
}
bool assign(std::int64_t& field, const toml::node& node) {
  const auto value = node.value_exact<std::int64_t>();
  if (value) field = *value;
  return value.has_value();
}
template <class Enum>
bool assign(OneOf<Enum>& field, const toml::node& node) {
  const auto name = node.value_exact<std::string>();
  const auto value = name ? OneOf<Enum>::find(*name) : std::nullopt;
  if (value) field = *value;
  return value.has_value();
}

std::string type_named(const std::string&) {
  return "a text in quotes";
}
std::string type_named(std::int64_t) {
  return "a whole number";
}
template <class Enum>
std::string type_named(OneOf<Enum>) {
  return OneOf<Enum>::names();
}

std::string toml_of(const toml::node& node) {
  if (const auto number = node.value_exact<double>()) return fmt::format("{}", *number);  // toml++ prints 17 digits
  std::ostringstream text;
  node.visit([&text](const auto& value) { text << value; });
  return text.str();
}

/// Reads a sweep from the tables of its file.
class SweepReader {
 public:
  SweepReader(const toml::table& file, std::string name) : file_(file), name_(std::move(name)) {}

  Sweep read() {
    for (const auto& [key, node] : file_)
      require(key.str() == "sweep" || key.str() == "vary", "{}unknown table [{}]; a sweep file has [sweep] and [vary]",
              at(node), key.str());
    const auto* const table = file_["sweep"].as_table();
    require(table != nullptr, "{}: there is no table [sweep]", name_);
    for (const auto& [key, node] : *table) set(std::string(key.str()), node);
    const auto* const vary = file_["vary"].as_table();
    require(vary != nullptr && !vary->empty(),
            "{}: there is no table [vary] with the keys that differ, as in: optim.learning_rate = [0.1, 0.01]", name_);
    add_keys(*vary, "");
    check();
    return sweep_;
  }

 private:
  std::string at(const toml::node& node) const { return fmt::format("{}:{}: ", name_, node.source().begin.line); }

  void set(const std::string& key, const toml::node& node) {
    bool is_known = false;
    std::vector<std::string> names;
    describe(sweep_, [&](const std::string& name, auto& field, const char*) {
      names.push_back(name);
      if (name != key) return;
      is_known = true;
      require(assign(field, node), "{}key \"sweep.{}\" must be {}", at(node), key, type_named(field));
    });
    if (is_known) return;
    const auto near = near_word(names, key);
    throw ConfigError(fmt::format("{}unknown key \"sweep.{}\"{}", at(node), key,
                                  near.empty() ? "" : fmt::format("; did you mean \"sweep.{}\"?", near)));
  }

  void add_keys(const toml::table& table, const std::string& prefix) {
    for (const auto& [name, node] : table) {
      const auto key = prefix + std::string(name.str());
      const auto* const inner = node.as_table();
      if (const auto* const list = node.as_array())
        add_list(key, *list);
      else if (inner && inner->contains("min") && inner->contains("max"))
        add_range(key, *inner);
      else if (inner)
        add_keys(*inner, key + ".");
      else
        throw ConfigError(
            fmt::format("{}key \"{}\" must have a list of values, or a range {{ min = 1, max = 10 }}; "
                        "what is the same for all runs belongs into the job file",
                        at(node), key));
    }
  }

  void add_list(const std::string& key, const toml::array& list) {
    SweptKey swept{key};
    for (const auto& value : list) {
      require(!value.is_table(), "{}key \"{}\" has a table among its values", at(value), key);
      swept.values.push_back(toml_of(value));
    }
    require(!swept.values.empty(), "{}key \"{}\" has no values", at(list), key);
    sweep_.keys.push_back(std::move(swept));
  }

  void add_range(const std::string& key, const toml::table& table) {
    SweptKey swept{key};
    for (const auto& [name, node] : table)
      require(name.str() == "min" || name.str() == "max" || name.str() == "log",
              "{}unknown key \"{}\" in the range of \"{}\"; a range has min, max and log", at(node), name.str(), key);
    const auto &least = *table.get("min"), &most = *table.get("max");
    require(least.is_number() && most.is_number(), "{}min and max of \"{}\" must be numbers", at(table), key);
    swept.is_whole = least.is_integer() && most.is_integer();
    swept.least = *least.value<double>(), swept.most = *most.value<double>();
    if (const auto* const log = table.get("log")) {
      require(log->is_boolean(), "{}log of \"{}\" must be true or false", at(*log), key);
      swept.is_log = *log->value<bool>();
    }
    require(std::isfinite(swept.least) && std::isfinite(swept.most) && swept.least < swept.most,
            "{}min of \"{}\" must be below max", at(table), key);
    require(!swept.is_log || swept.least > 0, "{}min of \"{}\" must be above 0, because of log = true", at(table), key);
    sweep_.keys.push_back(std::move(swept));
  }

  void check() const {
    const auto check_range = [this](const char* key, std::int64_t value, std::int64_t least, std::int64_t most) {
      require(value >= least && value <= most, "{}: sweep.{} is {}, but must be between {} and {}", name_, key, value,
              least, most);
    };
    for (const auto& [key, text] : {std::pair("job", sweep_.job), std::pair("folder", sweep_.folder)})
      require(!text.empty(), "{}: sweep.{} is missing", name_, key);
    check_range("at_once", sweep_.at_once, 1, kMostAtOnce);
    check_range("ranks", sweep_.ranks, 1, kMostAtOnce);
    const bool is_grid = sweep_.method == SweepMethod::grid;
    require(!is_grid || sweep_.runs == 0, "{}: sweep.runs has no meaning for a grid, whose values tell how many",
            name_);
    if (!is_grid) check_range("runs", sweep_.runs, 1, kMostRuns);
    const bool is_tournament = sweep_.method == SweepMethod::tournament;
    const bool has_parts = is_tournament || sweep_.method == SweepMethod::halving;
    require(has_parts || sweep_.first_steps == 0, "{}: sweep.first_steps needs method = \"halving\" or \"tournament\"",
            name_);
    require(is_tournament || sweep_.rounds == 0, "{}: sweep.rounds needs method = \"tournament\"", name_);
    if (has_parts) check_range("first_steps", sweep_.first_steps, 1, std::int64_t{1} << 40);
    if (is_tournament) check_range("rounds", sweep_.rounds, 1, kMostRuns);
    check_range("keep_one_in", sweep_.keep_one_in, 2, 100);
    check_keys(is_grid);
  }

  void check_keys(bool is_grid) const {
    std::int64_t runs = 1;
    for (const SweptKey& key : sweep_.keys) {
      require(key.key != "run.dir", "{}: each run of a sweep has a folder of its own; leave out run.dir", name_);
      require(key.key != "train.end_at_step", "{}: train.end_at_step is set by the sweep", name_);
      const bool fits_all = !key.key.starts_with("model.") && !key.key.starts_with("data.") && key.key != "optim.name";
      require(fits_all || sweep_.method != SweepMethod::tournament,
              "{}: \"{}\" must be the same for all runs of a tournament, which take over each other's models", name_,
              key.key);
      require(!is_grid || !key.values.empty(), "{}: \"{}\" has a range, but a grid needs a list of values", name_,
              key.key);
      if (!is_grid) continue;
      runs *= static_cast<std::int64_t>(key.values.size());
      require(runs <= kMostRuns, "{}: the grid has more than {} runs", name_, kMostRuns);
    }
  }

  const toml::table& file_;
  const std::string name_;
  Sweep sweep_;
};
}  // namespace

Sweep sweep_from(const std::string& text, const std::string& name) try {
  const toml::table file = toml::parse(text, name);
  return SweepReader(file, name).read();
} catch (const toml::parse_error& error) {
  throw ConfigError(fmt::format("{}:{}: {}", name, error.source().begin.line, error.description()));
}

Sweep read_sweep(const std::filesystem::path& file) {
  constexpr std::size_t kMost = 64 << 10;  // bytes: toml++ recurses over what is nested
  return sweep_from(read_regular(file, kMost), file.string());
}

}  // namespace distdl::app
