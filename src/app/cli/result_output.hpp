// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/base/clock.hpp>

// For commands that print bit by bit: what is printed is lost if stdout is full, or its reader has gone.
namespace distdl::app {

/// Writes what was printed so far. If that is not possible, throws StorageError; or Ended, with code 0 and without
/// a message, if the reader has closed the pipe: it has what it wanted.
void flush_output();

/// Waits so long, or not at all, but for no reader that has closed its pipe: throws Ended then.
void pause_output(Milliseconds pause);

}  // namespace distdl::app
