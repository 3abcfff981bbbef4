// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <distdl/app/sweep/sweep_array.hpp>
#include <distdl/app/sweep/sweep_driver.hpp>
#include <distdl/base/process.hpp>
#include <distdl/config/job.hpp>
#include <distdl/submit/write_script.hpp>

namespace distdl::app {

std::string array_script(const Sweep& sweep, const std::vector<std::size_t>& runs, const std::string& made_by) {
  const auto points = points_of(sweep);
  const config::Job job = config::load(sweep.job, points.front());
  submit::ScriptRequest request{submit::merge_options(job.submit, {})};
  for (const std::size_t run : runs) request.tasks.emplace_back(run, words_of_run(sweep, run, points[run], 0));
  request.options.set("array", fmt::format("{}%{}", fmt::join(runs, ","), sweep.at_once));
  const auto folder = std::filesystem::absolute(sweep.folder).lexically_normal();
  request.options.set("output", submit::escape_pattern((folder / "slurm-").string()) + "%A_%a.log");
  request.options.set("chdir", std::filesystem::current_path().string());
  request.program = own_program();
  request.setup = job.submit.setup;
  request.made_by = made_by;
  return submit::write_script(request);
}

}  // namespace distdl::app
