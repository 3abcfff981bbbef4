// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <distdl/agent/meeting/ledger_thread.hpp>
#include <distdl/base/end_limit.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/shortage.hpp>

namespace distdl::agent {

LedgerThread::LedgerThread(const Ledger& ledger)
    : ledger_(ledger), answered_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
  require_call<SchedulerError>(static_cast<bool>(answered_), "cannot wait for the ledger");
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

/// The last call may be a requeue of the job: five tries of up to 50 s each, see requeue_if_script_lost().
LedgerThread::~LedgerThread() {
  const EndLimit limit(fmt::format("the thread that reads and writes \"{}\"", ledger_.file("").parent_path().string()),
                       Milliseconds(300000));
  thread_.request_stop();
  thread_.join();
}

void LedgerThread::ask(Question question) {
  const std::lock_guard lock(mutex_);
  questions_.push_back(std::move(question));
  asked_.notify_one();
}

std::optional<LedgerThread::Answer> LedgerThread::poll() {
  std::uint64_t one = 0;
  (void)!::read(answered_.get(), &one, sizeof one);  // nothing to read where there is no answer
  const std::lock_guard lock(mutex_);
  if (answers_.empty()) return std::nullopt;
  Answer answer = std::move(answers_.front());
  answers_.pop_front();
  return answer;
}

void LedgerThread::work(const std::stop_token& stop) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!asked_.wait(lock, stop, [this] { return !questions_.empty(); })) return;
    const Question question = std::move(questions_.front());
    questions_.pop_front();
    lock.unlock();
    if (question.act) {
      question.act();
      continue;
    }
    Answer found = answer(question);
    lock.lock();
    answers_.push_back(std::move(found));
    const std::uint64_t one = 1;
    while (::write(answered_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }
}

LedgerThread::Answer LedgerThread::answer(const Question& question) const {
  Answer answer{question.name};
  try {
    answer.text = question.text ? ledger_.create(question.name, *question.text) : ledger_.read(question.name);
  } catch (const StorageError& error) {
    answer.error = error.what();
  }
  answer.is_gone = !answer.text && !ledger_.exists();
  return answer;
}

}  // namespace distdl::agent
