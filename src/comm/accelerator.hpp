// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <distdl/tensor/accelerator.hpp>

namespace distdl::comm {

/// A device whose memory collectives can use, see Communicator::use(). The interface is declared in tensor, so that the
/// backends can implement it.
using tensor::Accelerator;

}  // namespace distdl::comm
