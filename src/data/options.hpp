// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace distdl::data {

struct Options {
  std::string train;         ///< HDF5 data set to train on
  std::string validation;    ///< HDF5 data set to judge on; empty: see holdout
  std::int64_t holdout = 0;  ///< without data.validation: the last so many samples of data.train are kept to judge on
  std::int64_t cache_mib = 1024;  ///< decoded chunks kept in memory per rank, in MiB
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("data.train", options.train,
        "HDF5 data set to train on, of images, or of text for gpt; make one with \"distdl data\"");
  visit("data.validation", options.validation, "HDF5 data set to judge on; empty: see data.holdout");
  visit("data.holdout", options.holdout,
        "without data.validation: the last so many samples of data.train are not trained on but judge the model; a "
        "sample of "
        "text is model.context tokens");
  visit("data.cache_mib", options.cache_mib, "decoded chunks kept in memory per rank, in MiB");
}

}  // namespace distdl::data
