// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <map>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <distdl/base/checksum.hpp>
#include <distdl/base/wire.hpp>
#include <distdl/observe/kept_job.hpp>
#include <distdl/observe/tensorboard/event_records.hpp>
#include <distdl/observe/tensorboard/job_values.hpp>

namespace distdl::observe {
namespace {
// Field numbers of an Event (only those that are used):
constexpr int kEventTime = 1, kEventStep = 2, kEventVersion = 3, kEventSummary = 5, kEventSessionLog = 7;
// Field numbers of a Summary, and of its Value with SummaryMetadata:
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1, kValueNumber = 2, kValueImage = 4, kValueHistogram = 5, kValueTensor = 8,
              kValueMetadata = 9;
constexpr int kPluginData = 1, kPluginName = 1, kPluginContent = 2;
// Field numbers of a TensorProto:
constexpr int kTensorType = 1, kTensorShape = 2, kTensorStrings = 8, kShapeDimension = 2, kDimensionSize = 1;
constexpr std::uint64_t kTypeFloat = 1, kTypeString = 7;
// Field numbers of HParamsPluginData, and of google.protobuf.Value:
constexpr int kSessionStart = 3, kSessionEnd = 4, kStartValues = 1, kStartTime = 5, kEndStatus = 1, kEndTime = 2;
constexpr int kEntryKey = 1, kEntryValue = 2, kAnyNumber = 2, kAnyText = 3, kAnyBoolean = 4;

std::string masked_crc(std::string_view data) {
  constexpr std::uint32_t kDelta = 0xa282ead8;
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(data)));
  return little_endian(((crc >> 15) | (crc << 17)) + kDelta, 4);
}

WireMessage event_at(const EventPlace& place) {
  WireMessage message;
  message.real(kEventTime, place.time);
  if (place.step > 0) message.number(kEventStep, static_cast<std::uint64_t>(place.step));
  return message;
}

/// Metadata of a value that a plug-in of TensorBoard shows.
WireMessage metadata_of(std::string_view plugin, std::string_view content) {
  WireMessage data;
  data.text(kPluginName, plugin);
  if (!content.empty()) data.text(kPluginContent, content);
  WireMessage metadata;
  metadata.message(kPluginData, data);
  return metadata;
}

std::string plugin_record(const EventPlace& place, std::string_view tag, const WireMessage& metadata,
                          const WireMessage& tensor) {
  WireMessage value, values;
  value.text(kValueTag, tag).message(kValueTensor, tensor).message(kValueMetadata, metadata);
  values.message(kSummaryValue, value);
  return tf_record(event_at(place).message(kEventSummary, values).bytes());
}

WireMessage value_of(const nlohmann::json& value) {
  WireMessage message;
  if (value.is_number()) return message.real(kAnyNumber, value.get<double>());
  if (value.is_boolean()) return message.number(kAnyBoolean, value.get<bool>() ? 1 : 0);
  return message.text(kAnyText, value.is_string() ? value.get<std::string>() : value.dump());
}

std::string session_record(const EventPlace& place, std::string_view tag, int field, const WireMessage& session) {
  WireMessage nothing, content;
  nothing.number(kTensorType, kTypeFloat).message(kTensorShape, {});
  content.message(field, session);
  return plugin_record(place, tag, metadata_of("hparams", content.bytes()), nothing);
}

/// `keys`: of a job, with their values as TOML has them.
std::string start_of_session(const EventPlace& place, const std::map<std::string, std::string>& keys) {
  WireMessage session;
  for (const auto& [key, value] : keys) {
    WireMessage entry;
    entry.text(kEntryKey, key).message(kEntryValue, value_of(json_of(value)));
    session.message(kStartValues, entry);
  }
  session.real(kStartTime, place.time);
  return session_record(place, "_hparams_/session_start_info", kSessionStart, session);
}
}  // namespace

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(data.size(), 8);
  return length + masked_crc(length) + std::string(data) + masked_crc(data);
}

std::string version_record(double time) {
  WireMessage message;
  message.real(kEventTime, time).text(kEventVersion, "brain.Event:2");
  return tf_record(message.bytes());
}

std::string start_record(const EventPlace& place) {
  constexpr int kStateOfRun = 1;
  constexpr std::uint64_t kStart = 1;
  WireMessage log;
  log.number(kStateOfRun, kStart);
  return tf_record(event_at(place).message(kEventSessionLog, log).bytes());
}

std::string scalars_record(const EventPlace& place, const std::vector<Scalar>& scalars) {
  WireMessage values;
  for (const Scalar& scalar : scalars) {
    WireMessage value;
    value.text(kValueTag, scalar.tag).real_32(kValueNumber, static_cast<float>(scalar.value));
    values.message(kSummaryValue, value);
  }
  return tf_record(event_at(place).message(kEventSummary, values).bytes());
}

std::string job_records(const EventPlace& place, const std::string& job) {
  if (job.empty()) return "";
  return text_record(place, "job", "```toml\n" + job + "\n```\n") +
         start_of_session(place, hyperparameters(keys_of_job(job)));
}

std::string text_record(const EventPlace& place, std::string_view tag, const std::string& markdown) {
  WireMessage dimension, shape, text;
  dimension.number(kDimensionSize, 1);
  shape.message(kShapeDimension, dimension);
  text.number(kTensorType, kTypeString).message(kTensorShape, shape).text(kTensorStrings, markdown);
  return plugin_record(place, tag, metadata_of("text", ""), text);
}

std::string image_record(const EventPlace& place, std::string_view tag, const tensor::Shape& shape,
                         std::string_view file) {
  WireMessage image, value, values;
  image.number(1, static_cast<std::uint64_t>(shape[1])).number(2, static_cast<std::uint64_t>(shape[2]));
  image.number(3, shape[0] >= 3 ? 3 : 1).text(4, file);  // colours, file
  value.text(kValueTag, tag).message(kValueImage, image);
  values.message(kSummaryValue, value);
  return tf_record(event_at(place).message(kEventSummary, values).bytes());
}

std::string histogram_record(const EventPlace& place, std::string_view tag, const Histogram& histogram) {
  WireMessage value, values;
  value.text(kValueTag, tag).message(kValueHistogram, histogram.message());
  values.message(kSummaryValue, value);
  return tf_record(event_at(place).message(kEventSummary, values).bytes());
}

std::string end_record(const EventPlace& place) {
  constexpr std::uint64_t kSuccess = 1;
  WireMessage session;
  session.number(kEndStatus, kSuccess).real(kEndTime, place.time);
  return session_record(place, "_hparams_/session_end_info", kSessionEnd, session);
}

std::string event_file_name(std::int64_t start) {
  return fmt::format("events.out.tfevents.{:010}.distdl", start);
}

}  // namespace distdl::observe
