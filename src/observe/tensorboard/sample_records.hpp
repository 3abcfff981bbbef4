// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <distdl/observe/tensorboard/event_records.hpp>

namespace distdl::observe {

/// Records of TensorBoard with the first `count` images of the training set of a job, or as many passages of its text.
/// `job`: as job.toml of a run folder. Throws as data::describe_file() does, and StorageError if the job names no set.
std::string sample_records(const EventPlace& place, const std::string& job, std::int64_t count);

}  // namespace distdl::observe
