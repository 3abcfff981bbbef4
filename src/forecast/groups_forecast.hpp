// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/forecast/product_forecast.hpp>

namespace distdl::forecast {

/// Returns memory, the mean step of a round and traffic of local SGD. A group trains as replicas do; all of them meet
/// after each step for their figures, and at the end of a round for their parameters.
ProductForecast forecast_groups(const Basis& basis, const Product& product);

}  // namespace distdl::forecast
