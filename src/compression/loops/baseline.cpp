// SPDX-License-Identifier: Apache-2.0
#include <distdl/compression/loops/codec_loops.hpp>

namespace distdl::compression {

struct BaselineProcessor;
constexpr Loops kBaseline = CodecLoops<BaselineProcessor>::all();

}  // namespace distdl::compression
