// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <distdl/config/job.hpp>
#include <distdl/data/data_set.hpp>

namespace distdl::app {

/// A data set that a job is written for.
struct NewJobData {
  std::string train;                       ///< the file, as the job names it
  std::string validation;                  ///< likewise; empty: the end of `train`
  data::Description set;                   ///< description of `train`
  std::span<const std::int32_t> labels{};  ///< labels of the images, in their order
};

/// A job file for a data set.
struct NewJob {
  config::Job job;
  std::string text;  ///< in TOML, with the reason for each value
};

/// Chooses model, batch, learning rate and length of the training by what is in the set. `model`: a value of
/// model.name; empty: the one that fits. `file`: the name of the job file, for its comments. Throws
/// ConfigError if the model does not take such samples.
NewJob new_job(const NewJobData& data, const std::string& model, const std::string& file);

}  // namespace distdl::app
