// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace distdl::config {

/// The key that a user meant who wrote `key`, which is none: a known key under another heading, one that other programs
/// call so ("lr", "batch_size"), or one with a typing error. Returns an empty text if no key is near.
std::string nearest_key(const std::vector<std::string>& known, const std::string& key);

}  // namespace distdl::config
