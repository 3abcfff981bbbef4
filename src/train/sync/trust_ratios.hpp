// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <distdl/comm/communicator.hpp>
#include <distdl/kernels/backend.hpp>
#include <distdl/optim/optimizer.hpp>
#include <distdl/parallel/piece_sums.hpp>
#include <distdl/train/ranks/owned_model.hpp>
#include <distdl/train/state/state.hpp>

namespace distdl::train {

/// The rates of LAMB and LARS for tensors of which several ranks have some elements each, with the bits that one rank
/// with whole tensors would get.
class TrustRatios {
 public:
  /// Collective. `told`: the elements that this rank tells the others of, see OwnedModel::reported_elements(). The
  /// references must outlive this object.
  TrustRatios(const optim::Options& options, const OwnedModel& held, const std::vector<parallel::OwnedElements>& told,
              comm::Communicator& ranks, kernels::Backend& backend, optim::Rule& rule);
  /// Collective. Between Optimizer::prepare() and apply(). Changes the moments. Throws comm::PeerLost.
  void operator()(const TrainingState& state, const float* gradients);

 private:
  kernels::Backend& backend_;
  optim::Rule& rule_;
  optim::SpreadTensors tensors_;
  parallel::PieceSums pieces_;
};

}  // namespace distdl::train
