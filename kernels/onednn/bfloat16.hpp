// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace distdl::kernels::onednn {

/// Whether the processor multiplies bfloat16. oneDNN takes it from AVX512 on, but then by way of floats.
bool has_bfloat16();

/// Whether it does so faster than floats; not where AMX is to do it, but is hidden, by a virtual machine say.
bool has_fast_bfloat16();

}  // namespace distdl::kernels::onednn
