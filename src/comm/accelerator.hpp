// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/tensor/accelerator.hpp>

namespace distdl::comm {

/// A device whose memory collectives can work on: see Communicator::use(). The interface lies on a lower floor, where
/// the backends, which implement it, see it too.
using tensor::Accelerator;

}  // namespace distdl::comm
