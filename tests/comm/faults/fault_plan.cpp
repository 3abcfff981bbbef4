// SPDX-License-Identifier: Apache-2.0
#include "tests/comm/faults/fault_plan.hpp"

#include <array>
#include <random>

#include <fmt/format.h>

#include "tests/pace.hpp"

namespace distdl::comm::faults {
namespace {

constexpr int kLeast = 2, kMost = 6;  // ranks of a start
constexpr std::array kKinds{Kind::kill,   Kind::kill,   Kind::kill,  Kind::kill,
                            Kind::freeze, Kind::freeze, Kind::abort, Kind::desert};
constexpr std::array kTimes{When::before_exchange, When::after_exchange, When::connecting, When::before,
                            When::middle,          When::middle,         When::middle,     When::middle,
                            When::between,         When::between,        When::closing,    When::amid_closing};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int below(int bound) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(bound)); }
  template <class Array>
  auto one_of(const Array& values) {
    return values[static_cast<std::size_t>(below(static_cast<int>(values.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

Round make_round(Random& random, int size) {
  Round round;
  round.size = size;
  round.victim = random.below(size);
  round.when = random.one_of(kTimes);
  round.kind = random.one_of(kKinds);
  // Only with a communicator can a rank tell others, or be unfaithful to them; and not from a signal's handler.
  while ((round.kind == Kind::abort || round.kind == Kind::desert) &&
         (round.at_bootstrap() || round.when == When::amid_closing))
    round.kind = random.one_of(kKinds);
  round.operation = round.when == When::before ? 0 : random.below(8);
  if (round.when == When::between) ++round.operation;
  // Most delays are short: an operation takes microseconds to milliseconds.
  round.delay_us = 1 + static_cast<std::uint32_t>(random.below(1 << (4 + random.below(12))));
  round.shared_memory_ranks = random.one_of(std::array{0, 1, 2, 3});
  const int kinds = 1 + random.below(3);
  for (int i = 0; i < kinds; ++i) round.works.push_back(static_cast<Work>(random.below(12)));
  return round;
}

}  // namespace

bool Round::at_bootstrap() const {
  return when == When::before_exchange || when == When::after_exchange || when == When::connecting;
}

double Round::timeout_seconds() const {
  return paced(kind == Kind::kill || kind == Kind::abort ? 10 : 0.5);
}

double Round::connect_timeout_seconds() const {
  return paced(at_bootstrap() ? 1 : 20);
}

/// After its deadline a rank asks the others, and takes leave of them: of one that is frozen, for 0.7 s.
double Round::allowed_seconds() const {
  const double more = 0.7 + paced(1.5);
  if (at_bootstrap()) return connect_timeout_seconds() + more;
  // The others hear of a death or a farewell at once; all else only the deadline tells.
  return kind == Kind::kill || kind == Kind::abort ? more : timeout_seconds() + more;
}

Plan make_plan(std::uint64_t seed) {
  Random random(seed * 0x9E3779B97F4A7C15);
  Plan plan;
  for (int size = kLeast + static_cast<int>(seed % (kMost - kLeast + 1)); size > 1; --size)
    plan.rounds.push_back(make_round(random, size));
  return plan;
}

const char* name_of(Kind kind) {
  constexpr std::array kNames{"killed", "frozen", "aborting", "deserting"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string describe(const Round& round) {
  constexpr std::array kNames{
      "before the exchange", "after the exchange",        "while connecting", "before", "in the middle of", "between",
      "at the close",        "in the middle of the close"};
  constexpr std::array kWorks{"small sum",  "large sum", "shared sum", "network sum", "reduce-scatter", "all-gather",
                              "all-to-all", "broadcast", "barrier",    "ring",        "several",        "part"};
  std::string text = fmt::format("{} ranks, {} sharing memory, rank {} {} {}, operation {}, {} us later, doing",
                                 round.size, round.shared_memory_ranks, round.victim, name_of(round.kind),
                                 kNames[static_cast<std::size_t>(round.when)], round.operation, round.delay_us);
  for (Work work : round.works) text += fmt::format(" [{}]", kWorks[static_cast<std::size_t>(work)]);
  return text;
}

}  // namespace distdl::comm::faults
