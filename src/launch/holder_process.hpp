// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include <sys/types.h>

#include <distdl/launch/folder_lock.hpp>

namespace distdl::launch {

/// The holder of a run folder, as far as a signal may follow from what LOCK says.
struct TrustedHolder {
  Holder holder;
  uid_t user = 0;  ///< the owner of LOCK

  /// Whether the process is, or was, on this machine.
  bool is_here() const;
};

/// Nothing if there is no LOCK, or it is damaged. Throws StorageError if it is a link, a FIFO or the like, or belongs
/// neither to the owner of the run folder nor to this user: whoever may write to the folder can forge it.
std::optional<TrustedHolder> trusted_holder(const std::filesystem::path& run_folder);

/// Sends a signal to the process, which must be on this machine. Throws StorageError, and sends nothing, unless it is
/// the process of then, runs distdl, belongs to the owner of LOCK, and has this run folder open. No other process can
/// get the signal, even if this one ends meanwhile and its number is given away again.
void signal_holder(const std::filesystem::path& run_folder, const TrustedHolder& trusted, int number);

}  // namespace distdl::launch
