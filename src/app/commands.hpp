// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>

namespace distdl::app {

// One function per subcommand; each adds its options and a callback, which throws distdl::Error on failure.
void add_run_command(CLI::App& app);
void add_worker_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_checkpoint_command(CLI::App& app);
void add_config_command(CLI::App& app);
void add_evaluate_commands(CLI::App& app);  // evaluate and predict
void add_generate_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_version_command(CLI::App& app);

}  // namespace distdl::app
