// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <distdl/base/log.hpp>
#include <distdl/train/ranks/same_ranks.hpp>

namespace distdl::train {

void check_same_samples(comm::Communicator& communicator, const std::string& digest) {
  const auto digests = communicator.all_gather_strings(digest);
  for (std::size_t r = 1; r < digests.size(); ++r)
    if (digests[r] != digests[0])
      throw StorageError(
          fmt::format(
              "rank {} ({}) reads a data set with the digest {}, but rank 0 ({}) reads one with {}: data.train must be "
              "the same file on all nodes",
              r, communicator.host(Rank(static_cast<int>(r))), digests[r], communicator.host(Rank(0)), digests[0]),
          ExitCode::incompatible);
}

void warn_of_different_backends(const std::vector<std::string>& backends, bool audits) {
  for (std::size_t r = 1; r < backends.size(); ++r)
    if (backends[r] != backends[0])
      return log(
          Severity::warning,
          "rank {} computes with \"{}\", but rank 0 with \"{}\": the result will depend on the number of ranks{}; "
          "use equal nodes or set kernels.backend",
          r, backends[r], backends[0], audits ? ", and there are no audits" : "");
}

void check_same_layouts(const std::vector<std::string>& backends, const parallel::Mesh& mesh) {
  for (std::size_t r = 1; r < backends.size() && mesh.has_parts(); ++r)
    require(
        backends[r] == backends[0],
        "rank {} computes with \"{}\", but rank 0 with \"{}\": ranks that hold a model together exchange activations "
        "in the layout of the backend; use equal nodes, or parallel.{} = 1",
        r, backends[r], backends[0],
        mesh.has_pipeline()  ? "pipeline_ranks"
        : mesh.has_context() ? "context_ranks"
                             : "tensor_ranks");
}
}  // namespace distdl::train
