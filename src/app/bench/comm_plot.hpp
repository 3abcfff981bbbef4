// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <distdl/app/bench/comm_report.hpp>

namespace distdl::app {

/// An SVG document with latency and bus bandwidth over size. Both axes are logarithmic; there is one line per library,
/// and one for the measured limit. Each operation has a row of two diagrams. Points of size 0 are left out.
std::string plot(const CommReport& report);

}  // namespace distdl::app
