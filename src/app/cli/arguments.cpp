// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include <CLI/CLI.hpp>

#include <distdl/app/cli/arguments.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>

namespace distdl::app {

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::show_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}

Option& Option::not_negative() {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

template <typename T>
Option& Option::within(T least, T most) {
  option_->check(CLI::Range(least, most));
  return *this;
}
template Option& Option::within(int, int);
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
  return Command(app_->add_subcommand(name, help));
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
  return Option(app_->add_option(names, value, help));
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

void Command::footer(const std::string& text) {
  app_->footer(text);
}

void Command::allow_unknown() {
  app_->allow_extras();
}

std::vector<std::string> Command::unknown() const {
  return app_->remaining();
}

void Command::callback(const std::function<void()>& work) {
  app_->callback(work);
}

CommandLine::CommandLine(const std::string& name, const std::string& help)
    : Command(nullptr), whole_(std::make_unique<CLI::App>(help, name)) {
  app_ = whole_.get();
  app_->require_subcommand(1);
  app_->set_help_all_flag("--help-all", "Print the help of every subcommand");
  app_->failure_message([](const CLI::App* app, const CLI::Error& error) {
    const std::string what = error.what();
    return printable(what) + CLI::FailureMessage::simple(app, error).substr(what.size());
  });
}

CommandLine::~CommandLine() = default;

std::string CommandLine::help(const std::string& subcommand) const {
  auto named = app_->get_subcommands([&](const CLI::App* each) { return each->get_name() == subcommand; });
  require<UsageError>(subcommand.empty() || !named.empty(), "there is no subcommand \"{}\"; \"distdl help\" lists them",
                      subcommand);
  const CLI::App* about = subcommand.empty() ? app_ : named.front();  // App::help() would explain "help"
  auto title = subcommand.empty() ? app_->get_name() : app_->get_name() + " " + subcommand;
  return app_->get_formatter()->make_help(about, title, CLI::AppFormatMode::Normal);
}

int CommandLine::run(int argc, char** argv) {
  std::vector<char*> words(argv, argv + argc);
  // CLI11 would leave a command at "--"; one that passes unknown words on means those behind it, too.
  const auto passing = app_->get_subcommands(
      [&](const CLI::App* each) { return argc > 1 && each->get_name() == argv[1] && each->get_allow_extras(); });
  if (!passing.empty())
    words.erase(std::remove_if(words.begin(), words.end(), [](const char* word) { return std::string(word) == "--"; }),
                words.end());
  try {
    app_->parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::Success& help) {
    return app_->exit(help);
  } catch (const CLI::ParseError& error) {
    app_->exit(error);
    return static_cast<int>(ExitCode::usage);
  } catch (const Ended& end) {
    return end.code();
  }
  return 0;
}

void CommandLine::call(const std::string& words) {
  try {
    app_->parse(words);
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
}

}  // namespace distdl::app
