// SPDX-License-Identifier: Apache-2.0
// One rank of the fault tests: fault_program SEED, started by fault_test.cpp. All ranks make the same plan of the seed;
// in each round one of them fails. The others must detect that in time, name the rank, leave nothing behind, and be
// able to continue as the next generation. Prints "case ..." for each round it survives; else what is wrong, to stderr,
// and exits 1.
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/comm/faults/fault_work.hpp"
#include "tests/comm/faults/leftovers.hpp"
#include <distdl/base/env.hpp>
#include <distdl/world/folder_world.hpp>

namespace distdl::comm::faults {
namespace {
namespace fs = std::filesystem;

constexpr const char* kReason = "cannot open \"x.h5\": no such file";

/// The moment of the fault, for the survivors, who have the same clock. Written from a signal's handler.
int stamp_file = -1;
int stop_signal = SIGKILL;

std::int64_t nanoseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void stamp() {
  const std::int64_t now = nanoseconds();
  if (::write(stamp_file, &now, sizeof now) != sizeof now) std::abort();
}

void strike(int = 0) {
  stamp();
  ::kill(::getpid(), stop_signal);
}

void strike_later(std::uint32_t delay_us) {
  std::signal(SIGALRM, strike);
  const itimerval timer{{0, 0}, {0, static_cast<suseconds_t>(delay_us)}};
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

[[noreturn]] void sleep_for_ever() {
  while (true) ::pause();
}

/// Fails, if it is this rank's turn, at its bootstrap.
class FaultyWorld : public world::World {
 public:
  FaultyWorld(std::unique_ptr<World> world, const Round& round) : world_(std::move(world)), round_(round) {}
  Rank rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }
  std::string description() const override { return world_->description(); }
  std::vector<std::string> all_gather_strings(const std::string& mine, Milliseconds timeout) override {
    const bool victim = rank() == Rank(round_.victim);
    if (victim && round_.when == When::before_exchange) strike();
    auto all = world_->all_gather_strings(mine, timeout);
    if (victim && round_.when == When::after_exchange) strike();
    return all;
  }

 private:
  std::unique_ptr<World> world_;
  const Round& round_;
};

class Member {
 public:
  Member(Rank rank, int size, fs::path folder) : rank_(rank), size_(size), folder_(std::move(folder)) {}

  void play(const Plan& plan) {
    be_healthy();
    before_ = Holdings::now();
    for (std::size_t i = 0; i < plan.rounds.size(); ++i) {
      const Round& round = plan.rounds[i];
      const fs::path stamps = folder_ / fmt::format("fault-{}", i);
      if (rank_ == Rank(round.victim)) return fail(round, stamps);
      survive(round, stamps);
      check_leftovers();
      rank_ = Rank(rank_.value - (rank_.value > round.victim ? 1 : 0));
      --size_;
      be_healthy();
      std::cout << fmt::format("case {}: {}; {}", i, describe(round), story_) << std::endl;
    }
  }

 private:
  std::unique_ptr<world::World> meet() {
    const world::FolderMeeting meeting{folder_ / "meet", fmt::format("generation-{}", generation_), rank_, size_};
    return world::make_folder_world(meeting);
  }

  Options options(const Round& round) {
    Options options;
    options.timeout_seconds = round.timeout_seconds();
    options.connect_timeout_seconds = round.connect_timeout_seconds();
    options.interface = "lo";
    options.shared_memory_ranks = round.shared_memory_ranks;
    options.generation = static_cast<std::uint32_t>(generation_);
    return options;
  }

  /// The generation after a loss.
  void be_healthy() {
    Round calm;
    calm.shared_memory_ranks = generation_ % 3;
    const auto world = meet();
    Session session(*world, options(calm), {});
    for (Work work : {Work::small_sum, Work::large_sum, Work::barrier}) {
      session.begin(work);
      session.finish();
    }
    session.close();
    ++generation_;
  }

  void fail(const Round& round, const fs::path& stamps) {
    stamp_file = ::open(stamps.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    stop_signal = round.kind == Kind::kill ? SIGKILL : SIGSTOP;
    FaultyWorld world(meet(), round);
    if (round.when == When::connecting) strike_later(round.delay_us);
    auto session = std::make_unique<Session>(world, options(round), round.works);
    for (int i = 0;; ++i) {
      const bool here = i == round.operation;
      if (here && round.when == When::amid_closing) {
        strike_later(round.delay_us);
        session->close();
        sleep_for_ever();
      }
      const bool at_once = round.when == When::before || round.when == When::between || round.when == When::closing;
      if (here && at_once) return leave(session, round);
      const bool talks = round.kind == Kind::abort || round.kind == Kind::desert;
      if (here && round.when == When::middle && !talks) strike_later(round.delay_us);
      session->begin(round.works[static_cast<std::size_t>(i) % round.works.size()]);
      if (here && round.when == When::middle && talks) {
        for (std::uint32_t k = 0; k < round.delay_us % 7; ++k) session->advance();
        return leave(session, round);
      }
      session->finish();
    }
  }

  void leave(std::unique_ptr<Session>& session, const Round& round) {
    if (round.kind == Kind::kill || round.kind == Kind::freeze) strike();
    stamp();
    if (round.kind == Kind::abort) return session->comm().abort(kReason, ExitCode::config);
    session.reset();
    sleep_for_ever();
  }

  void survive(const Round& round, const fs::path& stamps) {
    Stopwatch stopwatch;
    std::int64_t begun = nanoseconds();
    const auto verdict = [&](int lost, const std::string& message) {
      std::int64_t fault = 0;
      std::ifstream(stamps, std::ios::binary).read(reinterpret_cast<char*>(&fault), sizeof fault);
      require<InternalError>(fault != 0, "a loss before the fault: {}", message);
      const double seconds = static_cast<double>(nanoseconds() - std::max(fault, begun)) * 1e-9;
      require<InternalError>(lost == round.victim, "rank {} was named: {}", lost, message);
      require<InternalError>(seconds <= round.allowed_seconds(), "known after {:.3f} s only: {}", seconds, message);
      story_ = fmt::format("after {:.3f} s: {}", seconds, message);
    };
    try {
      const auto world = std::make_unique<FaultyWorld>(meet(), round);
      Session session(*world, options(round), round.works);
      for (int i = 0;; ++i) {
        begun = nanoseconds();
        const bool closes = round.when == When::closing || round.when == When::amid_closing;
        if (closes && i == round.operation) {
          session.close();
          require<InternalError>(round.may_pass(), "the close passed without rank {}", round.victim);
          story_ = "closed";
          break;
        }
        session.begin(round.works[static_cast<std::size_t>(i) % round.works.size()]);
        session.finish();
      }
    } catch (const PeerLost& lost) {
      verdict(lost.rank().value, lost.what());
      if (round.kind == Kind::abort) check_reason(lost);
    } catch (const world::RanksMissing& missing) {
      require<InternalError>(missing.ranks().size() == 1, "not one rank was missing: {}", missing.what());
      verdict(missing.ranks()[0].value, missing.what());
    }
    ++generation_;
  }

  static void check_reason(const PeerLost& lost) {
    const std::string text = lost.what();
    require<InternalError>(text.find(kReason) != std::string::npos && lost.exit_code() == ExitCode::config,
                           "the reason did not arrive: {}", text);
  }

  void check_leftovers() {
    const std::string more = Holdings::left_since(before_);
    require<InternalError>(more.empty(), "left behind: {}", more);
  }

  Rank rank_;
  int size_;
  const fs::path folder_;
  int generation_ = 0;
  Holdings before_;
  std::string story_;
};

int run(int argc, char** argv) {
  require(argc == 2, "usage: fault_program SEED");
  const Plan plan = make_plan(std::strtoull(argv[1], nullptr, 10));
  const Rank rank(static_cast<int>(env_integer("DISTDL_RANK").value()));
  const int size = static_cast<int>(env_integer("DISTDL_WORLD_SIZE").value());
  Member(rank, size, fs::path(env("DISTDL_RENDEZVOUS").value()).parent_path()).play(plan);
  return 0;
}

}  // namespace
}  // namespace distdl::comm::faults

int main(int argc, char** argv) {
  try {
    return distdl::comm::faults::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
