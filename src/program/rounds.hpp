// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include <distdl/base/clock.hpp>
#include <distdl/base/file_descriptor.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/program/stop_agreement.hpp>

namespace distdl::program {

/// The ranks' processes tell each other what their programs do, in rounds: in each, every rank gets the reports of all.
/// A thread of its own communicates, and sleeps in between.
class Rounds {
 public:
  static constexpr Milliseconds kPeriod{100};

  explicit Rounds(std::unique_ptr<comm::Communicator> communicator);
  /// Leaves without the others, unless the last round was one in which all programs had ended.
  ~Rounds();
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  /// The report of this rank in the next rounds.
  void set(const RankReport& mine);
  /// The reports of the newest round by rank; empty before the first one.
  std::vector<RankReport> newest() const;
  /// Readable after a new round or a failure; cleared by newest().
  int descriptor() const { return news_.get(); }
  /// Throws what has ended the rounds: PeerLost if another rank's process is gone.
  void check() const;
  /// Tells the others why this rank ends, and leaves.
  void abort(const std::string& reason, ExitCode code);

 private:
  void run(const std::stop_token& stop);
  bool pause();
  void tell();

  std::unique_ptr<comm::Communicator> communicator_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  RankReport mine_;
  std::vector<RankReport> newest_;
  std::exception_ptr failure_;
  bool leaves_ = false;
  std::string reason_;
  ExitCode code_ = ExitCode::peer_lost;
  FileDescriptor news_;
  std::jthread thread_;
};

}  // namespace distdl::program
