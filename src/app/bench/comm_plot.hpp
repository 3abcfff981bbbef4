// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <distdl/app/bench/comm_report.hpp>

namespace distdl::app {

/// An SVG document: latency and bus bandwidth over size, both axes logarithmic, one line per library, and the measured
/// limit; one row of two diagrams per operation. Points of size 0 are left out.
std::string plot(const CommReport& report);

}  // namespace distdl::app
