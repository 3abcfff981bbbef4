// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/observe/tensorboard/histogram.hpp>
#include <distdl/observe/tensorboard/scalars.hpp>
#include <distdl/tensor/shape.hpp>

// Records of TensorBoard's event files: messages of tensorboard/compat/proto/event.proto, each framed as a TFRecord
// (https://www.tensorflow.org/tutorials/load_data/tfrecord). A file is a concatenation of them, the version first.
namespace distdl::observe {

/// length (8 bytes), masked CRC-32C of these 8 bytes, data, masked CRC-32C of the data.
std::string tf_record(std::string_view data);

/// Time of a record, seconds since 1970, and number of steps done.
struct EventPlace {
  double time;
  std::int64_t step;
};

std::string version_record(double time);
/// SessionLog START: readers forget what earlier files have of this step and of later ones.
std::string start_record(const EventPlace& place);
std::string scalars_record(const EventPlace& place, const std::vector<Scalar>& scalars);
/// Records for the tabs TEXT and HPARAMS: all keys of a job, and those that decide what is trained. `job`: as job.toml
/// of a run folder; no records if it is empty.
std::string job_records(const EventPlace& place, const std::string& job);
/// A record for the tab TEXT.
std::string text_record(const EventPlace& place, std::string_view tag, const std::string& markdown);
/// A record for the tab IMAGES. `shape`: (C, H, W). `file`: contents of a PNG file.
std::string image_record(const EventPlace& place, std::string_view tag, const tensor::Shape& shape,
                         std::string_view file);
/// A record for the tabs HISTOGRAMS and DISTRIBUTIONS.
std::string histogram_record(const EventPlace& place, std::string_view tag, const Histogram& histogram);
/// A record for the tab HPARAMS: the run has finished.
std::string end_record(const EventPlace& place);

/// Name of the file with the records of one start, or of all starts if `start` is 0. Names have the order of the
/// starts.
std::string event_file_name(std::int64_t start);

}  // namespace distdl::observe
