// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>
#include <string_view>

#include <unistd.h>

#include <distdl/base/console.hpp>
#include <distdl/files/unfinished_file.hpp>

namespace distdl {
namespace {
constexpr std::size_t kSlots = 8, kNone = kSlots;
constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

/// Name of an unfinished file, which a signal handler may read: without lock, in static memory.
struct Slot {
  enum State { free, changing, ready };
  std::atomic<State> state{free};
  std::array<char, PATH_MAX> name{};
};
std::array<Slot, kSlots> slots;
std::array<struct sigaction, kSignals.size()> before;
std::atomic<bool> on_terminal{false};
static_assert(std::atomic<Slot::State>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void write_text(std::string_view text) noexcept {
  if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;  // nobody reads it
}

void remove_and_end(int number) {
  for (auto& slot : slots)
    if (slot.state == Slot::ready) ::unlink(slot.name.data());
  if (on_terminal) write_text("\r\033[K");
  write_text("distdl: interrupted; unfinished files are removed\n");
  ::signal(number, SIG_DFL);
  ::raise(number);  // at the end of this handler
}
}  // namespace

UnfinishedFile::UnfinishedFile(const std::filesystem::path& file) noexcept : slot_(kNone) {
  const auto& name = file.native();
  for (std::size_t i = 0; i < kSlots && name.size() < PATH_MAX; ++i) {
    auto expected = Slot::free;
    if (!slots[i].state.compare_exchange_strong(expected, Slot::changing)) continue;
    std::memcpy(slots[i].name.data(), name.c_str(), name.size() + 1);
    slots[i].state = Slot::ready;
    slot_ = i;
    return;
  }
}

UnfinishedFile::~UnfinishedFile() {
  if (slot_ != kNone) slots[slot_].state = Slot::free;
}

RemovesUnfinishedFiles::RemovesUnfinishedFiles() noexcept {
  on_terminal = Console(STDERR_FILENO).is_terminal();
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = remove_and_end;
    ::sigemptyset(&action.sa_mask);
    if (::sigaction(kSignals[i], nullptr, &before[i]) != 0 || before[i].sa_handler == SIG_IGN) continue;
    ::sigaction(kSignals[i], &action, nullptr);
  }
}

RemovesUnfinishedFiles::~RemovesUnfinishedFiles() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
}

}  // namespace distdl
