// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <distdl/app/watch/run_view.hpp>
#include <distdl/records/record.hpp>

namespace distdl::app {

/// Entry of the timeline for a row of the journal, in words for people. Nothing for rows of everyday work.
std::optional<TimelineEntry> timeline_entry_of(const records::Row& row);

}  // namespace distdl::app
