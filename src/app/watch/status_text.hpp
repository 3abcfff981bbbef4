// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <distdl/app/watch/run_view.hpp>

namespace distdl::app {

/// Contents of "distdl status" and of "distdl watch --once": a line for each of state, job, step, speed, loss, goodput,
/// checkpoint and restarts, and lines for what is wrong. `is_verbose`: with all that is known. `columns`: lines are
/// broken to this width; 0: they are not.
std::string status_text(const RunView& view, bool is_verbose, int columns = 0);
nlohmann::ordered_json status_json(const RunView& view);

/// The most important in a sentence: "finished: all steps are done; step 917 of 917 (100%); loss 0.02,
/// validation 0.03, accuracy 0.99 at step 917; 4827 samples/s; goodput 93.1%, ...; 2 restarts".
std::string verdict_text(const RunView& view);

/// "4827 samples/s, 19.9 ms per step"; empty: not known. The speed of a run that has ended is that of its result.json.
std::string speed_text(const RunView& view);
/// "0.2189, validation 0.2301, accuracy 0.9664 at step 480".
std::string loss_text(const RunView& view);
/// "93.1%, without the queue 95.0%; lost work 1 min, queued 2 min": the largest parts of the rest.
std::string goodput_text(const observe::Ledger& ledger);
/// "12 min left, done at 21:05", or why there is no estimate; empty: the run does not go on.
std::string estimate_text(const RunView& view);

}  // namespace distdl::app
