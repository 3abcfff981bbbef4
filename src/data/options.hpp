// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <distdl/base/one_of.hpp>

namespace distdl::data {

/// Whose mean and deviation normalize pixels.
enum class Normalization { set, imagenet, none };
constexpr std::array<Named<Normalization>, 3> choices_of(Normalization) {
  return {{{Normalization::set, "set", "those of the data set: of images for all channels, of arrays for each column"},
           {Normalization::imagenet, "imagenet", "ImageNet's, for each of 3 channels"},
           {Normalization::none, "none", "0 and 1: pixels are between 0 and 1, arrays as they are"}}};
}

struct Options {
  std::string train;                       ///< HDF5 data set to train on
  std::vector<std::string> sets = {};      ///< in place of train: a mixture of these
  std::vector<std::int64_t> weights = {};  ///< one for each set
  std::string source;             ///< a shared object that reads train and validation; empty: they are HDF5 data sets
  std::string validation;         ///< HDF5 data set to evaluate on; empty: see holdout
  std::int64_t holdout = 0;       ///< if validation is empty: last images or tokens of data.train, for evaluation
  std::string stage;              ///< folder of each node's own for copies of the sets; empty: none are made
  std::int64_t cache_mib = 1024;  ///< decoded chunks kept in memory per rank, in MiB
  std::int64_t crop = 0;          ///< training images are shifted by up to so many pixels; new pixels are black
  bool mirror = false;            ///< every other training image is mirrored
  OneOf<Normalization> normalize = Normalization::set;
  double crop_area = 0.08;  ///< encoded images: least share of the area of a random crop; 0: no random crops
  std::int64_t resize = 0;  ///< encoded images: shorter side before a central crop; 0: 8/7 of the set's size
  std::vector<double> color_jitter = {};    ///< brightness, contrast, saturation, hue; the last ones may be left out
  std::int64_t rand_augment = 0;            ///< operations of RandAugment per training image
  std::int64_t rand_augment_magnitude = 9;  ///< 0 to 30
  double random_erasing = 0;                ///< probability that a part of a training image is erased
  double mixup = 0, cutmix = 0;             ///< alpha of the Beta distribution of the share; 0: none
  bool upright = false;                     ///< encoded images: turned as their EXIF data say
  std::int64_t decode_threads = 0;          ///< per rank; 0: as many as processors that the rank may use
};

template <class Visitor>
void describe(Options& options, Visitor&& visit) {
  visit("data.train", options.train,
        "HDF5 data set to train on, of images, or of text for gpt; make one with \"distdl data\"");
  visit("data.validation", options.validation, "HDF5 data set to evaluate on; empty: see data.holdout");
  visit("data.sets", options.sets, "in place of data.train: HDF5 data sets to train on together, by data.weights");
  visit("data.weights", options.weights,
        "for each of data.sets a whole number: its share of all samples is this number in their sum; each set is gone "
        "through once in its own order, and then again");
  visit("data.source", options.source,
        "shared object of your own that gives the samples; data.train and data.validation are then texts for it "
        "(docs/data-arrays.md)");
  visit(
      "data.holdout", options.holdout,
      "if data.validation is empty: number of images or tokens at the end of data.train that are used for evaluation, "
      "not for training");
  visit(
      "data.stage", options.stage,
      "folder on each node's own disk, or in its memory (\"/dev/shm\"): the sets are read from the shared file system "
      "once per job and copied there, and kept for later jobs; empty: all ranks read the shared file");
  visit("data.cache_mib", options.cache_mib, "decoded chunks of images kept in memory per rank, in MiB");
  visit("data.crop", options.crop,
        "training images are shifted at random by up to this number of pixels up, down and to the sides (random crop "
        "of the padded image)");
  visit("data.mirror", options.mirror, "training images are mirrored left to right at random");
  visit(
      "data.color_jitter", options.color_jitter,
      "training images: strengths of random changes of brightness, contrast, saturation and hue, e.g. [0.4, 0.4, 0.4, "
      "0.1], of which the last ones may be left out; ColorJitter; empty: none");
  visit("data.rand_augment", options.rand_augment,
        "training images: number of random operations of RandAugment, 2 in its paper; 0: none");
  visit("data.rand_augment_magnitude", options.rand_augment_magnitude, "their magnitude, 0 to 30");
  visit("data.random_erasing", options.random_erasing,
        "training images: probability that a random rectangle is set to the mean, 0.1 to 0.5 is usual; 0: none");
  visit("data.mixup", options.mixup,
        "microbatches of training images: each image is mixed with the one before it in its microbatch, and its label "
        "too, in a share from Beta(mixup, mixup); 0.2 to 0.8 is usual; 0: none");
  visit("data.cutmix", options.cutmix,
        "the same, but a rectangle is taken from the other image; 1 is usual; with data.mixup each microbatch uses one "
        "of both at random; 0: none");
  visit("data.normalize", options.normalize,
        OneOf<Normalization>::help("mean and deviation that normalize pixels, columns and targets"));
  visit("data.crop_area", options.crop_area,
        "encoded images: a training image is a random part with at least this share of the area and with sides of 3:4 "
        "to 4:3, resized (random resized crop); 0: the centre, as for evaluation");
  visit("data.resize", options.resize,
        "encoded images: the shorter side is resized to this number of pixels before the centre is cropped, for "
        "evaluation; 0: 8/7 of the size of the set's images, as 256 for 224");
  visit("data.upright", options.upright, "encoded images are turned as the orientation in their EXIF data says");
  visit("data.decode_threads", options.decode_threads,
        "threads per rank that decode images; 0: as many as processors that the rank may use");
}

}  // namespace distdl::data
