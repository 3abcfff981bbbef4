// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include <distdl/agent/ledger.hpp>
#include <distdl/base/file_descriptor.hpp>

namespace distdl::agent {

/// Uses a ledger on a thread of its own: a file system that does not answer for a while must not keep an agent from its
/// heartbeats.
class LedgerThread {
 public:
  struct Answer {
    std::string name;                      ///< name of the record
    std::optional<std::string> text = {};  ///< text of the record; nothing if there is no such record
    std::string error = {};                ///< what the file system refused; empty: nothing
    bool is_gone = false;                  ///< the ledger itself was removed: the launch has ended
  };

  /// `ledger` must outlive this object. Throws SchedulerError.
  explicit LedgerThread(const Ledger& ledger);
  ~LedgerThread();
  LedgerThread(const LedgerThread&) = delete;
  LedgerThread& operator=(const LedgerThread&) = delete;

  void create(const std::string& name, const std::string& text) { ask({name, text}); }
  void read(const std::string& name) { ask({name, std::nullopt}); }
  /// Calls `act` in its turn, on the thread, for other work that may have to wait for a file system. It must not throw.
  /// The destructor waits for it.
  void call(std::function<void()> act) { ask({"", std::nullopt, std::move(act)}); }
  /// Readable while there are answers.
  int descriptor() const { return answered_.get(); }
  /// The next answer, in the order of the questions; nothing if there is none yet.
  std::optional<Answer> poll();

 private:
  struct Question {
    std::string name;
    std::optional<std::string> text;  ///< text to create; nothing: the record is only read
    std::function<void()> act = {};   ///< instead; there is no answer
  };
  void ask(Question question);
  void work(const std::stop_token& stop);
  Answer answer(const Question& question) const;

  const Ledger& ledger_;
  FileDescriptor answered_;
  std::mutex mutex_;
  std::condition_variable_any asked_;
  std::deque<Question> questions_;
  std::deque<Answer> answers_;
  std::jthread thread_;
};

}  // namespace distdl::agent
