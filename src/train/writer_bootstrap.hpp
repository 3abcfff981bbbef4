// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <future>
#include <memory>
#include <string>
#include <vector>

#include <distdl/checkpoint/saver.hpp>
#include <distdl/comm/communicator.hpp>

namespace distdl::train {

/// Connects the threads that write checkpoints. Only one thread may use a Communicator, so the writing threads get one
/// of their own. The training threads' Communicator exchanges their addresses.
class WriterBootstrap {
 public:
  /// `options`: of the training threads' communicator.
  WriterBootstrap(Rank rank, int size, comm::Options options, Clock::duration patience);
  /// For checkpoint::Saver, which calls it in its writing thread.
  std::unique_ptr<checkpoint::Group> connect();
  /// Collective, once, in the training threads: exchanges the writing threads' addresses. Rethrows a writing thread's
  /// error.
  void exchange_addresses(comm::Communicator& training);

 private:
  class AddressExchange;

  Rank rank_;
  int size_;
  comm::Options options_;
  Clock::duration patience_;
  std::promise<std::string> mine_;
  std::promise<std::vector<std::string>> all_;
};

}  // namespace distdl::train
