// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <type_traits>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <distdl/app/cli/arguments.hpp>
#include <distdl/app/cli/mistakes.hpp>
#include <distdl/app/cli/pager.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/errors.hpp>

namespace distdl::app {
namespace {
/// A command with what CLI11 does not keep.
class Node : public CLI::App {
 public:
  Node(const std::string& help, const std::string& name) : App(help, name) {
    set_help_all_flag("--help-all", "Print the help of every subcommand");
    footer([this] { return ending(); });
  }

  /// --quiet and --verbose of a command that does something.
  void add_verbosity() {
    add_flag("--quiet", is_quiet_, "Say nothing but warnings, errors and the result");
    add_flag("--verbose", is_verbose_, "Also say details, as log.level = \"debug\" does in files");
  }
  void choose_verbosity() const {
    require<UsageError>(!is_quiet_ || !is_verbose_, "{}", "--quiet and --verbose exclude each other");
    if (is_quiet_) set_verbosity(Verbosity::quiet);
    if (is_verbose_) set_verbosity(Verbosity::verbose);
  }

  std::string notes;
  std::vector<Example> examples;
  std::vector<std::string>* program = nullptr;  ///< takes the words behind "--"

 private:
  std::string ending() const {
    const auto shown = examples.empty() ? examples_of_subcommands() : examples;
    std::string text = notes;
    if (!shown.empty()) text += text.empty() ? "Examples:\n" : "\n\nExamples:\n";
    for (const auto& each : shown) text += fmt::format("  {}:\n    {}\n", each.purpose, each.command);
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }
  /// The first of each.
  std::vector<Example> examples_of_subcommands() const {
    std::vector<Example> found;
    for (const CLI::App* each : get_subcommands([](const CLI::App*) { return true; })) {
      const auto* command = dynamic_cast<const Node*>(each);
      if (command == nullptr) continue;
      const auto some = command->examples.empty() ? command->examples_of_subcommands() : command->examples;
      if (!some.empty()) found.push_back(some.front());
    }
    return found;
  }

  bool is_quiet_ = false, is_verbose_ = false;
};

const Node* node(const CLI::App* app) {
  return dynamic_cast<const Node*>(app);
}

bool is_named(const CLI::App* app) {
  return !app->get_name().empty() && node(app) != nullptr;
}

/// Choices in the type of an option, as "TEXT:{npz,view}"; empty: it has none.
std::vector<std::string> choices_in(const std::string& type) {
  const auto begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

OptionEntry entry_of(const CLI::Option& option) {
  OptionEntry entry;
  entry.is_positional = option.get_positional();
  entry.is_required = option.get_required();
  entry.help = option.get_description();
  if (entry.is_positional) {
    entry.names.push_back(option.get_name(true, false));
  } else {
    for (const auto& letter : option.get_snames()) entry.names.push_back("-" + letter);
    for (const auto& word : option.get_lnames()) entry.names.push_back("--" + word);
  }
  if (option.get_items_expected_max() == 0) return entry;
  const auto type = option.get_type_name();
  entry.choices = choices_in(type);
  entry.value = type.substr(0, type.find(':'));
  return entry;
}

/// With those of its groups.
void add_options(const CLI::App* app, std::vector<OptionEntry>& entries) {
  for (const CLI::Option* option : app->get_options())
    if (!option->get_group().empty()) entries.push_back(entry_of(*option));
  for (const CLI::App* group : app->get_subcommands([](const CLI::App* each) { return each->get_name().empty(); }))
    add_options(group, entries);
}

/// The first line of its usage, without "Usage: ".
std::string usage_of(const CLI::App* app, const std::string& words) {
  auto text = CLI::Formatter().make_usage(app, words);
  text.erase(0, text.find_first_not_of('\n'));
  const auto begin = text.find(words);
  if (begin != std::string::npos) text.erase(0, begin);
  return text.substr(0, text.find('\n'));
}

CommandEntry entry_of(const CLI::App* app, const std::string& words) {
  CommandEntry entry;
  entry.name = app->get_name();
  entry.words = words;
  entry.help = app->get_description();
  entry.usage = usage_of(app, words);
  entry.notes = node(app)->notes;
  entry.examples = node(app)->examples;
  add_options(app, entry.options);
  for (const CLI::App* each :
       app->get_subcommands([](const CLI::App* one) { return is_named(one) && !one->get_group().empty(); }))
    entry.subcommands.push_back(entry_of(each, words + " " + each->get_name()));
  return entry;
}

/// For numbers from `least` on, or above it. CLI11's own messages name the greatest double.
CLI::Validator no_less_than(double least, bool may_be_equal, const char* name) {
  const auto check = [least, may_be_equal](const std::string& text) {
    double number = 0;
    const bool is_right =
        CLI::detail::lexical_cast(text, number) && (number > least || (may_be_equal && number == least));
    return is_right ? std::string()
                    : fmt::format("{} is not a number {} {}", text, may_be_equal ? "of at least" : "above", least);
  };
  return CLI::Validator(check, name);
}

/// The command that the words name, as far as they do.
struct Named {
  const CLI::App* app;
  std::string words;  ///< "distdl checkpoint ls"
  std::string wrong;  ///< the first word that names no command although one must; empty: none
};

Named command_in(const CLI::App* root, const std::vector<std::string>& words) {
  Named named{root, root->get_name(), ""};
  for (const auto& word : words) {
    const auto is_it = [&](const CLI::App* each) { return is_named(each) && each->get_name() == word; };
    const auto any = named.app->get_subcommands([](const CLI::App* each) { return is_named(each); });
    if (any.empty()) break;
    if (word.empty() || word.front() == '-') continue;
    const auto found = named.app->get_subcommands(is_it);
    if (found.empty()) {
      named.wrong = word;
      break;
    }
    named.app = found.front();
    named.words += " " + word;
  }
  return named;
}

/// The command that has been parsed last.
Named parsed_command(const CLI::App* root) {
  Named named{root, root->get_name(), ""};
  while (true) {
    const auto parsed = named.app->get_subcommands();
    const auto last = std::find_if(parsed.rbegin(), parsed.rend(), is_named);
    if (last == parsed.rend()) return named;
    named.app = *last;
    named.words += " " + named.app->get_name();
  }
}

std::vector<OptionEntry> missing_of(const CLI::App* app) {
  std::vector<OptionEntry> missing;
  for (const CLI::Option* option : app->get_options())
    if (option->get_required() && option->count() == 0) missing.push_back(entry_of(*option));
  return missing;
}

template <typename T>
struct NumberOf {
  using type = T;
};
template <typename T>
struct NumberOf<std::optional<T>> : NumberOf<T> {};
template <typename T>
struct NumberOf<std::vector<T>> : NumberOf<T> {};

/// CLI11 takes "" for 0, the largest number for one that is larger, and "nan" for a number within any limits.
template <typename T>
std::string problem_of_number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return fmt::format("{} is too large or too small", text);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  if constexpr (std::is_floating_point_v<T>) {
    if (!is_whole || !std::isfinite(value)) return fmt::format("\"{}\" is not a number", text);
  } else {
    if (!is_whole) return fmt::format("\"{}\" is not a whole number", text);
  }
  return "";
}

UsageError mistake(const CLI::App* root, const CLI::ParseError& error) {
  const Named named = parsed_command(root);
  const auto at = entry_of(named.app, named.words);
  // A wrong option is told before what is missing: it may be what was meant.
  const auto extras = root->remaining(true);
  if (std::ranges::any_of(extras, is_option)) return UsageError(unexpected_words(at, extras));
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    if (const auto missing = missing_of(named.app); !missing.empty()) return UsageError(missing_arguments(at, missing));
    if (!at.subcommands.empty()) return UsageError(no_subcommand(at));
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return UsageError(unexpected_words(at, extras));
  return UsageError(other_mistake(at, error.what()));
}
}  // namespace

std::vector<std::string> verbosity_words() {
  switch (verbosity()) {
    case Verbosity::quiet:
      return {"--quiet"};
    case Verbosity::verbose:
      return {"--verbose"};
    case Verbosity::normal:
      break;
  }
  return {};
}

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::show_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::positive() {
  option_->check(no_less_than(0, false, "POSITIVE"));
  return *this;
}

Option& Option::not_negative() {
  option_->check(no_less_than(0, true, "NONNEGATIVE"));
  return *this;
}

template <typename T>
Option& Option::within(T least, T most) {
  option_->check(CLI::Range(least, most));
  return *this;
}
template Option& Option::within(int, int);
template Option& Option::within(std::int64_t, std::int64_t);
template Option& Option::within(double, double);

Option& Option::one_of(const std::vector<std::string>& choices) {
  option_->check(CLI::IsMember(choices));
  return *this;
}

Option& Option::check(const std::function<std::string(const std::string&)>& validate) {
  option_->check(validate);
  return *this;
}

Option& Option::type_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Option& Option::repeatable(const std::string& name) {
  option_->type_name(name)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

Option& Option::list() {
  option_->delimiter(',');
  return *this;
}

Option& Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::needs(Option other) {
  option_->needs(other.option_);
  return *this;
}

bool Option::given() const {
  return option_->count() > 0;
}

Command Command::add_subcommand(const std::string& name, const std::string& help) {
  return Command(app_->add_subcommand(std::make_shared<Node>(help, name)));
}

void Command::require_subcommand() {
  app_->require_subcommand(1);
}

Command Command::add_choice(const std::string& name) {
  auto* group = app_->add_option_group(name);
  group->require_option(1);
  return Command(group);
}

template <typename T>
Option Command::add_option(const std::string& names, T& value, const std::string& help) {
  auto* const option = app_->add_option(names, value, help);
  using Number = typename NumberOf<T>::type;
  if constexpr (std::is_arithmetic_v<Number>) option->check(&problem_of_number<Number>);
  return Option(option);
}
template Option Command::add_option(const std::string&, int&, const std::string&);
template Option Command::add_option(const std::string&, std::int64_t&, const std::string&);
template Option Command::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option Command::add_option(const std::string&, double&, const std::string&);
template Option Command::add_option(const std::string&, std::string&, const std::string&);
template Option Command::add_option(const std::string&, std::filesystem::path&, const std::string&);
template Option Command::add_option(const std::string&, std::optional<std::int64_t>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<double>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::int64_t>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::int32_t>&, const std::string&);
template Option Command::add_option(const std::string&, std::vector<std::string>&, const std::string&);

Option Command::add_flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_->add_flag(names, value, help));
}

void Command::notes(const std::string& text) {
  dynamic_cast<Node&>(*app_).notes = text;
}

void Command::examples(std::vector<Example> examples) {
  dynamic_cast<Node&>(*app_).examples = std::move(examples);
}

void Command::allow_unknown() {
  app_->allow_extras();
}

std::vector<std::string> Command::unknown() const {
  return app_->remaining();
}

void Command::program_after_dashes(std::vector<std::string>& program) {
  dynamic_cast<Node&>(*app_).program = &program;
}

void Command::callback(const std::function<void()>& work) {
  auto& node = dynamic_cast<Node&>(*app_);
  node.add_verbosity();
  app_->callback([&node, work] {
    node.choose_verbosity();
    work();
  });
}

CommandLine::CommandLine(const std::string& name, const std::string& help)
    : Command(nullptr), whole_(std::make_unique<Node>(help, name)) {
  app_ = whole_.get();
  app_->require_subcommand(1);
}

CommandLine::~CommandLine() = default;

void CommandLine::group(const std::string& name) {
  const auto all = app_->get_subcommands([](const CLI::App*) { return true; });
  for (; grouped_ < all.size(); ++grouped_) all[grouped_]->group(name);
}

void CommandLine::version(const std::function<std::string()>& line) {
  app_->set_version_flag("-V,--version", line, "Print version, built-in backends, and how it was built");
}

std::string CommandLine::help(const std::vector<std::string>& words) const {
  const Named named = command_in(app_, words);
  const auto root = entry_of(app_, app_->get_name());
  if (!named.wrong.empty()) throw UsageError(no_such_command(root, entry_of(named.app, named.words), named.wrong));
  return app_->get_formatter()->make_help(named.app, named.words, CLI::AppFormatMode::Normal);
}

CommandEntry CommandLine::table() const {
  return entry_of(app_, app_->get_name());
}

int CommandLine::run(int argc, char** argv) {
  if (argc <= 1) {
    write_console(STDERR_FILENO, first_steps());
    return static_cast<int>(ExitCode::usage);
  }
  std::vector<char*> words(argv, argv + argc);
  const Named named = command_in(app_, {words.begin() + 1, words.end()});
  if (!named.wrong.empty()) throw UsageError(no_such_command(table(), entry_of(named.app, named.words), named.wrong));
  if (auto* const program = node(named.app)->program) {
    const auto dashes =
        std::ranges::find(words, std::string_view("--"), [](const char* word) { return std::string_view(word); });
    require<UsageError>(dashes == words.end() || dashes + 1 != words.end(), "there is no program behind \"--\"");
    if (dashes != words.end() && (*(dashes + 1))[0] != '-') {  // else options of sbatch
      program->assign(dashes + 1, words.end());
      words.erase(dashes, words.end());
    }
  }
  // CLI11 would leave a command at "--"; one that passes unknown words on means those behind it, too.
  if (named.app->get_allow_extras())
    words.erase(std::remove_if(words.begin(), words.end(), [](const char* word) { return std::string(word) == "--"; }),
                words.end());
  try {
    app_->parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::Success& help) {
    std::ostringstream text;
    const int code = app_->exit(help, text);
    print_columns(text.str());
    return code;
  } catch (const CLI::ParseError& error) {
    throw mistake(app_, error);
  } catch (const Ended& end) {
    return end.code();
  }
  return 0;
}

void CommandLine::call(const std::string& words) {
  try {
    app_->parse(words);
  } catch (const CLI::ParseError& error) {
    throw mistake(app_, error);
  }
}

}  // namespace distdl::app
