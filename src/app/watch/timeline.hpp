// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <distdl/app/watch/run_view.hpp>
#include <distdl/records/record.hpp>

namespace distdl::app {

/// What a row of the journal says to somebody who asks what happened to the run. Nothing for rows of everyday work.
std::optional<TimelineEntry> timeline_entry_of(const records::Row& row);

}  // namespace distdl::app
