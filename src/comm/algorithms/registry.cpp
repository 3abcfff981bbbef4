// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/comm/algorithms/registry.hpp>

namespace distdl::comm {

// One line per algorithm, in the order of preference where two should take equally long.
#define DISTDL_ALGORITHMS(ROW) \
  ROW(kSharedShort)            \
  ROW(kSharedDirect)           \
  ROW(kSharedStaged)           \
  ROW(kHierarchical)           \
  ROW(kRecursiveHalving)       \
  ROW(kRecursiveDoubling)      \
  ROW(kPairwise)               \
  ROW(kBinomial)               \
  ROW(kDoubleTree)             \
  ROW(kRing)                   \
  ROW(kDissemination)

#define DECLARE(algorithm) extern const Algorithm algorithm;
#define ADDRESS(algorithm) &algorithm,
DISTDL_ALGORITHMS(DECLARE)

namespace {
constexpr const Algorithm* kAll[] = {DISTDL_ALGORITHMS(ADDRESS)};
}  // namespace

std::span<const Algorithm* const> algorithms() {
  return kAll;
}

const Algorithm* algorithm_of(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Algorithm* each : kAll) {
    if (each->name == name) return each;
    names.push_back(each->name);
  }
  throw ConfigError(fmt::format("there is no algorithm \"{}\", only {}", name, fmt::join(names, ", ")));
}

std::string_view name_of(const Algorithm& algorithm) {
  return algorithm.name;
}

int place_of(const Algorithm* algorithm) {
  return static_cast<int>(std::find(std::begin(kAll), std::end(kAll), algorithm) - std::begin(kAll));
}

bool is_possible(const Problem& problem, const Choice& choice) {
  return choice.algorithm != nullptr && choice.algorithm->generator(problem, choice) != nullptr;
}

Schedule make_schedule(const Problem& problem, const Choice& choice) {
  check(problem);
  require<InternalError>(choice.algorithm != nullptr, "the choice names no algorithm");
  const Generator generator = choice.algorithm->generator(problem, choice);
  require(generator != nullptr,
          "the algorithm {} cannot do {} of {} ranks; without a choice the fastest possible one is used",
          choice.algorithm->name, name_of(problem.collective), problem.size);
  ScheduleBuilder build(problem, choice);
  generator(build);
  return build.take();
}

}  // namespace distdl::comm
