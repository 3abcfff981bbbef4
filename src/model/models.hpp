// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <distdl/model/description.hpp>
#include <distdl/model/options.hpp>

namespace distdl::model {

/// Makes the description of a model for samples of one shape, (C, H, W) for images or (T) for tokens, and so many
/// classes or tokens. Throws ConfigError for options or samples that do not fit.
/// For targets, `classes` is the number of values to predict from a sample.
using Describe = std::function<Description(const Options& options, const tensor::Shape& sample, std::int64_t classes)>;

/// Throws ConfigError for values that are invalid for any model.
void check(const Options& options);

/// Returns the model named by the options. `targets`: the shape of the numbers to predict from a sample, which the loss
/// then compares by their mean squared error; empty: it tells classes. Throws ConfigError for an unknown name, or as
/// that model does.
Description describe_model(const Options& options, const tensor::Shape& sample, std::int64_t classes,
                           const tensor::Shape& targets = {});
/// Whether the model's loss compares classes, so that there is an accuracy.
bool tells_classes(const Description& model);

/// Registers a user's model under a value of model.name; see examples/own_model. Call it before any thread uses models.
/// Throws ConfigError if the name is taken.
void add_model(const std::string& name, Describe describe);

/// Returns the names of all models in alphabetical order.
std::vector<std::string> known_models();

/// Throws ConfigError unless samples are images (C, H, W).
void require_images(const std::string& model, const tensor::Shape& sample);

/// Fully connected: hidden layers with ReLU, followed by the logits. Takes arrays of any shape.
Description mlp(const Options& options, const tensor::Shape& sample, std::int64_t classes);
/// conv 32, pool, conv 64, pool, hidden linear layers, logits; the 3 x 3 convolutions keep the size.
Description lenet(const Options& options, const tensor::Shape& sample, std::int64_t classes);
/// Fully convolutional: 3 x 3 convolutions that keep the size, with ReLU; predicts fields of the extents of its
/// samples. Long, Shelhamer and Darrell, "Fully convolutional networks for semantic segmentation", CVPR 2015.
Description fcn(const Options& options, const tensor::Shape& sample, std::int64_t classes);
/// "resnet18", "resnet34" or "resnet50", with torchvision's names of tensors. He et al., "Deep residual learning for
/// image recognition", CVPR 2016; stride in the 3 x 3 convolution of a bottleneck (v1.5).
Description resnet(const Options& options, const tensor::Shape& sample, std::int64_t classes);
/// A decoder of tokens with GPT-2's names of tensors; the defaults are its 124 million parameters. Radford et al.,
/// "Language models are unsupervised multitask learners", 2019; variant "llama": Touvron et al., "LLaMA", 2023.
Description gpt(const Options& options, const tensor::Shape& sample, std::int64_t classes);
/// Hidden values of the MLP of each block of a gpt.
std::int64_t mlp_width_of_gpt(const Options& options);
/// A vision transformer with timm's names of tensors; the defaults are ViT-B/16. Dosovitskiy et al., "An image is worth
/// 16x16 words", ICLR 2021.
Description vit(const Options& options, const tensor::Shape& sample, std::int64_t classes);

}  // namespace distdl::model
