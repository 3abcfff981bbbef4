// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl::kernels::onednn {

/// Whether the processor multiplies bfloat16. oneDNN accepts it from AVX512 on, but then converts it to floats.
bool has_bfloat16();

/// Whether products of bfloat16 are faster than those of floats. They are not if they need AMX and a virtual machine
/// hides it.
bool has_fast_bfloat16();

}  // namespace distdl::kernels::onednn
