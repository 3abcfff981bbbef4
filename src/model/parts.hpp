// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <distdl/model/description.hpp>

namespace distdl::model {

/// Returns the tensors of a part of the model, with the names, shapes and initial values that they have in the whole
/// one.
ModelTensors tensors_of(const Description& model, const LayerRange& layers);

/// Returns the tensors of several parts in one arena: first those that they own, part by part, then borrowed ones. The
/// totals are the last part's. Throws ConfigError if two of them share a tensor.
std::vector<ModelTensors> tensors_of(const Description& model, std::span<const LayerRange> parts);
std::vector<ModelTensors> tensors_of(const ModelTensors& whole, std::span<const LayerRange> parts);

/// Returns the layers at which a part of the model may begin, ascending, from 0. The layers from there on read nothing
/// from before but the output of the layer before, and no backend computes the first of them together with that or in
/// its memory. So the parts, one after the other, compute the same bits as the whole.
std::vector<std::size_t> first_layers(const Description& model);

}  // namespace distdl::model
