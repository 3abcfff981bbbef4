// SPDX-License-Identifier: Apache-2.0
#include "target.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>

namespace distdl::fuzz {
namespace {
std::vector<std::pair<std::string, Run>>& known() {
  static std::vector<std::pair<std::string, Run>> all;
  return all;
}
}  // namespace

Target::Target(std::string name, Run run) {
  known().emplace_back(std::move(name), run);
}

const std::vector<std::pair<std::string, Run>>& targets() {
  return known();
}

void run(Run target, std::string_view input) {
  static const bool quiet = [] {
    start_logging({.level = Severity::error, .console = false, .file = {}, .host = ""});
    return true;
  }();
  static_cast<void>(quiet);
  try {
    target(input);
  } catch (const Error& error) {
    demand(error.exit_code() != ExitCode::internal, error.what());
  }
}

void demand(bool promise, const char* what) {
  if (promise) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

std::string_view Input::take(std::size_t bytes) {
  const auto taken = rest_.substr(0, bytes);
  rest_.remove_prefix(taken.size());
  return taken;
}

std::string_view Input::text() {
  return take(number<std::uint16_t>());
}

}  // namespace distdl::fuzz
