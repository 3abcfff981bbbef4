// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include <distdl/app/checks/node_report.hpp>
#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/options.hpp>

namespace distdl::app {

/// Faults that a drill gives to nodes: DISTDL_PREFLIGHT_FAULTS="n2=digest,n3=slow".
///   digest  one bit of the gradients is wrong      file    one bit of the file is wrong when it is read back
///   slow    a tenth of the speed in computing      silent  the node does not report
bool has_fault(const std::string& node, const std::string& fault);

/// Computes the gradients of a small network twice on each of `devices` GPUs, or once more on the processor, and
/// multiplies matrices, for some tenths of a second.
void check_compute(NodeCheckReport& report, kernels::Options options, int devices);

/// Writes 4 MiB to the file in this folder, to the disk, reads them back from there as far as the system lets it, and
/// removes the file.
void check_file(NodeCheckReport& report, const std::filesystem::path& folder);

/// Collective, one rank a node: exchanges messages with the rank before and the next one.
void check_links(NodeCheckReport& report, comm::Communicator& communicator);

}  // namespace distdl::app
