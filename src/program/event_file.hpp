// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include <distdl/program/contract.hpp>

// Event files of TensorBoard, as programs write them: messages of tensorboard/compat/proto/event.proto, each framed as
// a TFRecord (https://www.tensorflow.org/tutorials/load_data/tfrecord). Only steps and scalars are read.
namespace distdl::program {

/// The scalars of one record. Names are tags in which "/" became "_": "eval/loss" is the metric eval_loss.
struct EventScalars {
  std::int64_t step = 0;
  std::vector<NamedValue> values = {};
};

/// The step and the scalars (Summary.Value.simple_value) of a message; nothing if it is no message, or has no scalar.
/// At most 1,000 scalars, with tags of at most 200 bytes.
std::optional<EventScalars> scalars_of(std::string_view message);

/// Visits the scalars of the whole records at the front of `bytes`, which is a piece of a file. Returns how many bytes
/// of the file are done, which are more than `bytes` if that is shorter than a record larger than kLargestEvent.
/// Nothing if the bytes are no records: a length has another checksum.
inline constexpr std::size_t kLargestEvent = 1 << 20;
std::optional<std::uint64_t> read_events(std::string_view bytes, const std::function<void(const EventScalars&)>& visit);

}  // namespace distdl::program
