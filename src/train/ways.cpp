// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <distdl/train/engine/engine.hpp>
#include <distdl/train/local_sgd/local_sgd_way.hpp>
#include <distdl/train/server/server_way.hpp>
#include <distdl/train/sync/sync_way.hpp>
#include <distdl/train/ways.hpp>

namespace distdl::train {

std::span<const Way> ways() {
  using parallel::Strategy;
  static const std::array all{sync_way(Strategy::replicas),
                              sync_way(Strategy::sharded),
                              sync_way(Strategy::sharded_gradients),
                              sync_way(Strategy::sharded_parameters),
                              local_sgd_way(),
                              server_way()};
  return all;
}

const Way& way_of(parallel::Strategy strategy) {
  const auto all = ways();
  const auto way = std::ranges::find(all, strategy, &Way::strategy);
  return way != all.end() ? *way : all.front();
}

}  // namespace distdl::train
