// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <latch>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include <boost/system/system_error.hpp>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <distdl/base/console.hpp>
#include <distdl/base/shortage.hpp>

namespace distdl {
namespace {
std::atomic<void*> reserve{nullptr};

/// Gives the reserve back and lets the allocation fail.
void use_reserve() {
  std::free(reserve.exchange(nullptr));
  throw std::bad_alloc();
}

/// Each thread that allocates may get an arena, which takes 64 MiB of addresses (glibc, mallopt(3)). With a limit of
/// addresses a process would come close to it by chance, so there all threads use one arena.
void use_one_arena() noexcept {
  rlimit addresses{};
  if (::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY)
    ::mallopt(M_ARENA_MAX, 1);  // NOLINT(concurrency-mt-unsafe): the program has no other threads yet
}

std::terminate_handler terminate_of_others = nullptr;

void show(const std::exception& error) noexcept {
  try {
    write_console(STDERR_FILENO, fmt::format("distdl: {}\n", message_of(error)));
  } catch (const std::exception&) {
    write_console(STDERR_FILENO, "distdl: no memory is left\n");
  }
}

[[noreturn]] void end_by_shortage() {
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    if (is_shortage(error)) {
      show(error);
      ::_exit(static_cast<int>(ExitCode::config));
    }
  } catch (...) {  // the handler below shows it
  }
  if (terminate_of_others != nullptr) terminate_of_others();
  std::abort();
}

/// The errno of an exception of the standard library or of Boost about a system call; 0 for all others.
int errno_of(const std::exception& error) noexcept {
  if (const auto* const standard = dynamic_cast<const std::system_error*>(&error)) {
    const auto& category = standard->code().category();
    return category == std::generic_category() || category == std::system_category() ? standard->code().value() : 0;
  }
  const auto* const of_boost = dynamic_cast<const boost::system::system_error*>(&error);
  return of_boost != nullptr && of_boost->code().category() == boost::system::system_category()
             ? of_boost->code().value()
             : 0;
}
}  // namespace

bool is_shortage(int number) noexcept {
  return number == ENOMEM || number == EMFILE || number == ENFILE;
}

bool is_shortage(const std::exception& error) noexcept {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (const auto* const known = dynamic_cast<const StorageError*>(&error))
    return known->exit_code() == ExitCode::config;
  if (dynamic_cast<const ResourceError*>(&error) != nullptr) return true;
  const auto number = errno_of(error);
  return is_shortage(number) || number == EAGAIN;
}

void pass_on_shortage(const std::exception& error) {
  if (is_shortage(error)) throw;
}

std::string process_limits() {
  std::string text = limit_text(RLIMIT_NPROC, "this user may have {} processes and threads (ulimit -u)");
  const std::string addresses = limit_text(RLIMIT_AS, "a process may use {} KiB of addresses (ulimit -v)", 1024);
  if (!addresses.empty()) text += (text.empty() ? "" : ", ") + addresses;
  return text + (text.empty() ? "the control group may limit them, too (pids.max)"
                              : ", and the control group may limit them, too (pids.max)");
}

std::string message_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return fmt::format("no memory is left: {}", errno_text(ENOMEM));
  if (const auto* const about = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return about->path1().empty()
               ? fmt::format("cannot find the current folder: {}; it may have been removed",
                             errno_text(about->code().value()))
               : fmt::format("cannot look at \"{}\": {}", about->path1().string(), errno_text(about->code().value()));
  const int number = errno_of(error);
  if (number == 0 || !is_shortage(error)) return error.what();
  if (number != EAGAIN) return errno_text(number);
  return fmt::format("no thread can be started: {}; {}", errno_text(EAGAIN), process_limits());
}

void handle_shortages() noexcept {
  use_one_arena();
  constexpr std::size_t kReserve = 512 << 10;
  std::free(reserve.exchange(std::malloc(kReserve)));
  std::set_new_handler(&use_reserve);
  if (const auto others = std::set_terminate(&end_by_shortage); others != &end_by_shortage)
    terminate_of_others = others;
}

void end_without_thread() noexcept {
  show(std::system_error(EAGAIN, std::generic_category()));
  ::_exit(static_cast<int>(ExitCode::config));
}

void require_threads(int count) {
  std::latch all(1);
  std::vector<std::jthread> threads;  // they end before the latch
  try {
    threads.reserve(static_cast<std::size_t>(std::max(count, 0)));
    while (std::ssize(threads) < count) threads.emplace_back([&all] { all.wait(); });
  } catch (const std::exception& error) {
    all.count_down();
    if (!is_shortage(error)) throw;
    throw ResourceError(fmt::format("{} threads are needed beside this one: {}", count, message_of(error)));
  }
  all.count_down();
}

}  // namespace distdl
