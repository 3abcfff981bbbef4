// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <distdl/base/errors.hpp>
#include <distdl/parallel/server/messages.hpp>

namespace distdl::parallel::server {
namespace {
class Checking {
 public:
  explicit Checking(const Rules& rules) : rules_(rules) {}

  void operator()(const Lead& /*m*/) {}
  void operator()(const Ask& m) {
    microbatch(m.microbatch);
    within(static_cast<std::int64_t>(m.phase), 0, static_cast<std::int64_t>(Phase::working), "as its phase");
  }
  void operator()(const Lease& m) {
    microbatch(m.microbatch);
    within(std::ssize(m.directory.primaries), rules_.ranges, rules_.ranges, "primaries");
  }
  void operator()(const Finish& m) const { within(m.steps, 1, rules_.steps, "steps"); }
  void operator()(const End& /*m*/) {}
  void operator()(const EndsEarly& /*m*/) {}
  void operator()(const Ended& /*m*/) {}
  void operator()(const AllEnded& /*m*/) {}
  void operator()(const Pull& m) {
    range(m.range);
    microbatch(m.microbatch);
    piece(m.piece);
    version(m.version);
  }
  void operator()(const Pulled& m) {
    range(m.range);
    piece(m.piece);
    if (m.version) version(*m.version);
    complete(m.complete);
  }
  void operator()(const Push& m) {
    range(m.range);
    microbatch(m.microbatch);
    version(m.version);
    complete(m.complete);
  }
  void operator()(const Pushed& m) {
    range(m.range);
    microbatch(m.microbatch);
  }
  void operator()(const Replicate& m) {
    range(m.range);
    within(m.position, 0, rules_.total() - 1, "position");
    microbatch(m.microbatch);
    version(m.version);
  }
  void operator()(const Copy& m) {
    range(m.range);
    ledger(m.state.committed);
    within(std::ssize(m.state.versions), 1, rules_.total() + 1, "versions");
    within(std::ssize(m.state.complete), std::ssize(m.state.versions), std::ssize(m.state.versions),
           "steps of versions");
    std::ranges::for_each(m.state.versions, [this](Version one) { version(one); });
    std::ranges::for_each(m.state.complete, [this](std::int64_t one) { complete(one); });
  }
  void operator()(const Replicated& m) {
    range(m.range);
    within(m.updates, 0, rules_.total(), "updates");
  }
  void operator()(const Assign& m) { range(m.range); }
  void operator()(const Holding& m) { range(m.range); }
  void operator()(const Inventory& m) {
    for (const Inventory::Held& held : m.ranges) {
      range(held.range);
      ledger(held.committed);
    }
  }

 private:
  static void within(std::int64_t value, std::int64_t least, std::int64_t most, const char* what) {
    require<CommError>(value >= least && value <= most,
                       "a message of the parameter server has {} {}, but {} to {} are possible here: its sender has "
                       "another job file or version of the program, or is no rank of this run",
                       value, what, least, most);
  }
  void range(int value) const { within(value, 0, rules_.ranges - 1, "as its range"); }
  void piece(int value) const { within(value, 0, rules_.pieces - 1, "as its piece"); }
  void microbatch(Microbatch value) const { within(value.value, 0, rules_.total() - 1, "as its microbatch"); }
  void version(Version value) const { within(value.value, 0, rules_.total(), "as its version"); }
  void complete(std::int64_t value) const { within(value, 0, rules_.steps, "complete steps"); }
  void ledger(const MicrobatchSet& set) const {
    within(set.below().value, 0, rules_.total(), "microbatches in a row");
    for (const Microbatch one : set.beyond()) microbatch(one);
  }

  const Rules& rules_;
};
}  // namespace

void check(const Rules& rules, const Message& message) {
  std::visit(Checking(rules), message);
}

}  // namespace distdl::parallel::server
