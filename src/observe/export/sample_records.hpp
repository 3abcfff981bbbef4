// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <distdl/observe/export/event_records.hpp>

namespace distdl::observe {

/// Records of TensorBoard with the first `count` images of a data set, or as many passages of a text. Throws as
/// data::ImageSet::open() does.
std::string sample_records(const EventPlace& place, const std::string& data_set, std::int64_t count);

}  // namespace distdl::observe
