// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include <distdl/parallel/options.hpp>

namespace distdl::forecast {

/// A way to divide training among the ranks, and what of it a forecast must know.
struct Product {
  parallel::Strategy strategy;  ///< its name is the name of the product
  bool shards_moments = false;  ///< a rank updates its part, and gathers the parameters that others have updated
};

/// All that training can do, the simplest first: of equally good ones, the first is chosen. Each forecast looks only
/// here for what there is.
inline constexpr std::array kProducts{
    Product{parallel::Strategy::replicas, false},
    Product{parallel::Strategy::sharded, true},
};

}  // namespace distdl::forecast
