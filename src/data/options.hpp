// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace distdl::data {

struct Options {
  std::string train;              ///< HDF5 data set to train on
  std::string validation;         ///< HDF5 data set to evaluate on; empty: see holdout
  std::int64_t holdout = 0;       ///< if validation is empty: last images or tokens of data.train, for evaluation
  std::int64_t cache_mib = 1024;  ///< decoded chunks kept in memory per rank, in MiB
  std::int64_t crop = 0;          ///< training images are shifted by up to so many pixels; new pixels are black
  bool mirror = false;            ///< every other training image is mirrored
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("data.train", options.train,
        "HDF5 data set to train on, of images, or of text for gpt; make one with \"distdl data\"");
  visit("data.validation", options.validation, "HDF5 data set to evaluate on; empty: see data.holdout");
  visit(
      "data.holdout", options.holdout,
      "if data.validation is empty: number of images or tokens at the end of data.train that are used for evaluation, "
      "not for training");
  visit("data.cache_mib", options.cache_mib, "decoded chunks of images kept in memory per rank, in MiB");
  visit("data.crop", options.crop,
        "training images are shifted at random by up to this number of pixels up, down and to the sides (random crop "
        "of the padded image)");
  visit("data.mirror", options.mirror, "training images are mirrored left to right at random");
}

}  // namespace distdl::data
