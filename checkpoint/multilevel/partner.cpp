// SPDX-License-Identifier: Apache-2.0
#include <distdl/checkpoint/multilevel/level.hpp>

namespace distdl::checkpoint {

extern const Level kPartner;
const Level kPartner{
    .name = "partner", .in_memory = true, .key = "checkpoint.partner_every", .every = &Options::partner_every};

}  // namespace distdl::checkpoint
