// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <charconv>
#include <cstddef>

#include <fmt/ranges.h>
#include <sched.h>

#include <distdl/agent/cpu_binding.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/processors.hpp>

namespace distdl::agent {
namespace {
/// Parses a list such as "0,1,5". Returns an empty list if the text is none.
std::vector<int> parse(const std::string& text) {
  std::vector<int> processors;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    int cpu = -1;
    const auto [next, error] = std::from_chars(at, end, cpu);
    if (error != std::errc{} || cpu < 0 || cpu >= CPU_SETSIZE) return {};
    processors.push_back(cpu);
    if (next == end) return processors;
    if (*next != ',') return {};
    at = next + 1;
  }
}
}  // namespace

std::vector<std::string> processors_of_ranks(int ranks) {
  std::vector<std::string> parts;
  for (const auto& part : equal_parts(usable_processors(), static_cast<std::size_t>(ranks)))
    parts.push_back(fmt::format("{}", fmt::join(part, ",")));
  return parts;
}

void bind_to_processors() {
  const auto text = env("DISTDL_PROCESSORS");
  if (!text) return;
  const auto processors = parse(*text);
  require(!processors.empty(), "environment variable DISTDL_PROCESSORS=\"{}\": expected numbers with commas", *text);
  if (!bind_this_thread(processors))
    log(Severity::warning, "cannot bind this rank to the processors {}: {}", *text, errno_text(errno));
}

}  // namespace distdl::agent
