// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace distdl::slurm {

/// The names in one of Slurm's lists of hosts, as "scontrol show hostnames" prints them: in the order of the list, with
/// repetitions. Brackets hold numbers and ranges, with leading zeros kept; a name may have several, and text behind
/// them: "n[1-3,007-009],rack[0-1]-n[1-2]ib,login". Throws SchedulerError for anything else, for an unclosed bracket, a
/// range that ends before it begins, names with characters that no host's has, and more than 65,536 names.
std::vector<std::string> expand_host_list(std::string_view list);

}  // namespace distdl::slurm
