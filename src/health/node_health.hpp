// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include <distdl/health/gpu_health.hpp>
#include <distdl/records/nodes.hpp>

namespace distdl::health {

using records::NodeHealth;

/// Reads /proc and /sys below `root`, which tests replace: some dozen small files. The GPUs are not asked, nor is the
/// energy. The host stays empty.
NodeHealth read_node_health(const std::filesystem::path& root = "/");

}  // namespace distdl::health
