// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <distdl/comm/algorithms/algorithm.hpp>
#include <distdl/comm/algorithms/dissemination.hpp>

namespace distdl::comm {
namespace {

void dissemination_barrier(ScheduleBuilder& build) {
  std::vector<int> everyone(build.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  disseminate(build, everyone);
}

Generator generator(const Problem& problem, const Choice&) {
  return problem.collective == Collective::barrier ? dissemination_barrier : nullptr;
}

double predicted_seconds(const CostModel& model) {
  double seconds = 0;
  for (int k = 0; k < model.at.rounds(); ++k) seconds += model.hop(0, model.at.shifting(k));
  return seconds;
}

}  // namespace

void disseminate(ScheduleBuilder& build, const std::vector<int>& members) {
  const auto self = std::find(members.begin(), members.end(), build.rank()) - members.begin();
  const std::size_t size = members.size();
  const int group = build.new_group();
  for (std::size_t distance = 1; distance < size; distance *= 2) {
    build.receive(members[(self + size - distance) % size], build.scratch({}), group);
    build.send(members[(self + distance) % size], build.scratch({}), group);
    build.wait(group);
  }
}

extern const Algorithm kDissemination{
    .name = "dissemination",
    .tries_segments = false,
    .generator = generator,
    .predicted_seconds = predicted_seconds,
};

}  // namespace distdl::comm
