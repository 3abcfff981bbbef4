// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <distdl/app/watch/run_view.hpp>

namespace distdl::app {

/// The charts that the curves of some runs fill: [{"title", "unit", "lines": [{"run", "name", "pattern", "steps",
/// "values"}]}]. `run` is an index of `views`; `pattern` is the number of the line among those of its run in the chart,
/// from 0. Curves without a value other than 0 are left out. The charts have about `most_points` points together, at
/// most.
nlohmann::ordered_json charts_of(const std::vector<const RunView*>& views, std::size_t most_points = 150'000);

}  // namespace distdl::app
