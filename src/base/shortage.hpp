// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include <distdl/base/errors.hpp>

// A process may run out of memory, descriptors, processes or threads. Such a shortage says nothing about the file that
// is being read or the rank that is being talked to, and the next process under the same limit fails in the same way.
namespace distdl {

/// This process gets no more memory, descriptors, processes or threads: the user must raise a limit. A StorageError
/// with the code `config` says the same of a call on a file, and nothing about that file.
class ResourceError : public Error {
 public:
  explicit ResourceError(const std::string& message) : Error(ExitCode::config, message) {}
};

/// Whether this errno says that memory or descriptors have run out: ENOMEM, EMFILE, ENFILE.
bool is_shortage(int number) noexcept;
/// Whether an exception stands for a shortage: std::bad_alloc, a std::system_error of a thread that could not be
/// started, a ResourceError, or a StorageError with the code `config`.
bool is_shortage(const std::exception& error) noexcept;

/// To be called first by a handler that takes exceptions for damage of what was read. Throws the exception that is
/// being handled again if it stands for a shortage.
void pass_on_shortage(const std::exception& error);

/// The message of an exception. For those of the standard library that are no defect, a text of our own: of a shortage
/// with the limits of this process, of a std::filesystem::filesystem_error with the path.
std::string message_of(const std::exception& error);

/// `format` with a limit of this process (RLIMIT_...) divided by `unit`, or nothing if there is no limit.
std::string limit_text(int resource, const char* format, unsigned long unit = 1);
/// errno, for templates in headers.
int last_errno() noexcept;
/// The limits that a failed fork() or a thread that cannot be started may have met.
std::string process_limits();

/// Throws for a system call that failed with errno `number`: E; for a shortage a StorageError with the code `config` if
/// E is StorageError, else a ResourceError.
template <class E>
[[noreturn]] void fail_call(const std::string& purpose, int number) {
  const std::string message = purpose + ": " + errno_text(number);
  if (!is_shortage(number)) throw E(message);
  if constexpr (std::is_same_v<E, StorageError>)
    throw StorageError(message, ExitCode::config);
  else
    throw ResourceError(message);
}

/// fail_call() unless the call succeeded. To be used directly after it, because it reads errno.
template <class E, class... Args>
void require_call(bool succeeded, fmt::format_string<Args...> message, Args&&... args) {
  if (succeeded) return;
  const int number = last_errno();
  fail_call<E>(fmt::format(message, std::forward<Args>(args)...), number);
}

/// For the start of a program. Keeps some memory back for the time when there is no more, so that the error can be
/// reported, and lets malloc take few addresses where these are limited. A shortage that no handler catches, in a
/// thread or a noexcept function, ends the program with the code `config` and a message instead of abort().
void handle_shortages() noexcept;

/// Throws ResourceError unless this process can start so many more threads. For libraries that end the program if they
/// cannot, such as OpenMP's.
void require_threads(int count);
/// Ends the program with the code `config` and a message: no thread could be started, and the library that tried would
/// abort the program.
[[noreturn]] void end_without_thread() noexcept;

}  // namespace distdl
