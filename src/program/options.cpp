// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <map>
#include <string_view>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/program/options.hpp>
#include <distdl/program/patterns.hpp>

namespace distdl::program {

int number_of(StopSignal signal) {
  switch (signal) {
    case StopSignal::usr1:
      return SIGUSR1;
    case StopSignal::usr2:
      return SIGUSR2;
    case StopSignal::interrupt:
      return SIGINT;
    case StopSignal::hangup:
      return SIGHUP;
    case StopSignal::term:
      break;
  }
  return SIGTERM;
}

namespace {
/// Name and value.
std::pair<std::string, std::string> parts_of(const std::string& parameter) {
  const auto equals = parameter.find('=');
  require(equals != std::string::npos && equals > 0, "run.parameters has \"{}\", but must have NAME=VALUE",
          printable(parameter));
  return {parameter.substr(0, equals), parameter.substr(equals + 1)};
}

/// One word with the parameters' values. A value is not looked at again.
std::string filled(std::string_view word, const std::map<std::string, std::string>& values) {
  std::string text;
  for (std::size_t open; (open = word.find('{')) != std::string_view::npos;) {
    const auto close = word.find('}', open);
    const auto found = close == std::string_view::npos
                           ? values.end()
                           : values.find(std::string(word.substr(open + 1, close - open - 1)));
    const auto end = found == values.end() ? open + 1 : close + 1;
    text +=
        found == values.end() ? std::string(word.substr(0, end)) : std::string(word.substr(0, open)) + found->second;
    word.remove_prefix(end);
  }
  return text + std::string(word);
}

void check_parameters(const Options& options) {
  for (const auto& parameter : options.parameters) {
    const auto place = "{" + parts_of(parameter).first + "}";
    const bool is_used = std::ranges::any_of(
        options.command, [&](const std::string& word) { return word.find(place) != std::string::npos; });
    require(is_used, "run.parameters has \"{}\", but run.command has no {} for it", printable(parameter),
            printable(place));
  }
}

constexpr std::string_view kParameters = "run.parameters.";
}  // namespace

std::vector<std::string> command_of(const Options& options) {
  std::map<std::string, std::string> values;
  for (const auto& parameter : options.parameters)
    values.insert_or_assign(parts_of(parameter).first, parts_of(parameter).second);
  auto command = options.command;
  for (auto& word : command) word = filled(word, values);
  return command;
}

std::string parameter_named(const std::string& key) {
  return key.starts_with(kParameters) ? key.substr(kParameters.size()) : "";
}

void set_parameter(Options& options, const std::string& name, const std::string& value) {
  std::erase_if(options.parameters, [&](const std::string& one) { return one.starts_with(name + "="); });
  options.parameters.push_back(name + "=" + value);
}

void check(const Options& options) {
  Patterns patterns(options);  // throws
  require(options.command.empty() || !options.command.front().empty(),
          "run.command begins with an empty text, but must begin with a program");
  check_parameters(options);
  require(options.container.empty() || options.is_given(), "run.container is given, but run.command is not");
}

}  // namespace distdl::program
