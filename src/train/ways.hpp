// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

namespace distdl::train {

class Engine;
struct EngineSetup;

/// Not collective. Makes the engine of the recipe's way of training (parallel.strategy), which does its steps.
std::unique_ptr<Engine> make_engine(const EngineSetup& setup);

}  // namespace distdl::train
