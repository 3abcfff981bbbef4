// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <vector>

#include <distdl/base/ids.hpp>

namespace distdl::app {

/// Returns the ranks that are gone without a word, as far as `error` knows.
std::vector<Rank> gone(const std::exception& error);

/// True if rank `self` says on the console why the run failed: the lowest rank that is left does. The others write to
/// their log only, or the user would read the same sentence from each of a thousand ranks.
bool speaks(Rank self, const std::exception& error);

/// Returns the exit code of a rank that failed with `error`. A rank that hears of wrong bits in another one has none
/// itself: agents leave out the node of each that says so.
int own_exit_code(const std::exception& error);

/// Which ranks write an error to the console.
enum class Speakers {
  lowest_rank,  ///< see speaks()
  this_rank,    ///< no other rank knows of the error, and this one may end before rank 0 has begun
};

/// Reports `error` and ends the rank: throws Ended with own_exit_code().
[[noreturn]] void fail(Rank self, const std::exception& error, Speakers speakers = Speakers::lowest_rank);

}  // namespace distdl::app
