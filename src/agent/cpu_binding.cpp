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

namespace distdl::agent {
namespace {
std::vector<int> processors_of_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return processors;  // more than 1024: bind nothing
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) processors.push_back(cpu);
  return processors;
}

/// Of "0,1,5". False if it is no such list.
bool parse(const std::string& text, cpu_set_t& set) {
  CPU_ZERO(&set);
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    int cpu = -1;
    const auto [next, error] = std::from_chars(at, end, cpu);
    if (error != std::errc{} || cpu < 0 || cpu >= CPU_SETSIZE) return false;
    CPU_SET(cpu, &set);
    if (next == end) return true;
    if (*next != ',') return false;
    at = next + 1;
  }
}
}  // namespace

std::vector<std::string> processors_of_ranks(int ranks) {
  std::vector<std::string> parts(static_cast<std::size_t>(ranks));
  const auto all = processors_of_process();
  const std::size_t share = all.size() / parts.size();
  if (share == 0) return parts;
  for (std::size_t r = 0; r < parts.size(); ++r)
    parts[r] = fmt::format("{}", fmt::join(all.begin() + static_cast<std::ptrdiff_t>(r * share),
                                           all.begin() + static_cast<std::ptrdiff_t>((r + 1) * share), ","));
  return parts;
}

void bind_to_processors() {
  const auto text = env("DISTDL_PROCESSORS");
  if (!text) return;
  cpu_set_t set;
  require(parse(*text, set), "environment variable DISTDL_PROCESSORS=\"{}\": expected numbers with commas", *text);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    log(Severity::warning, "cannot bind this rank to the processors {}: {}", *text, errno_text(errno));
}

}  // namespace distdl::agent
