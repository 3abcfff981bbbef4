// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>

#include <distdl/app/cli/arguments.hpp>

namespace distdl::app {

// One function per subcommand. It adds the options and a callback, which throws distdl::Error on failure.
void add_run_command(Command app);
void add_submit_command(Command app);
void add_join_command(Command app);
void add_status_command(Command app);
void add_watch_command(Command app);
void add_why_command(Command app);
void add_log_command(Command app);
void add_metrics_command(Command app);
void add_trace_command(Command app);
void add_cancel_command(Command app);
void add_requeue_command(Command app);
void add_ls_command(Command app);
void add_compare_command(Command app);
void add_report_command(Command app);
void add_sweep_command(Command app);
void add_health_command(Command app);
void add_data_command(Command app);
void add_checkpoint_command(Command app);
void add_evaluate_commands(Command app);  // evaluate and predict
void add_generate_command(Command app);
void add_init_command(Command app);
void add_config_command(Command app);
void add_plan_command(Command app);
void add_bench_command(Command app);
void add_doctor_command(Command app);
void add_preflight_command(Command app);
void add_agent_command(Command app);
void add_worker_command(Command app);
void add_version_command(Command app);
void add_help_command(CommandLine& line);
void add_completion_command(CommandLine& line);

/// The subcommands in the order of the help, before "help" and "completion", which read all others.
inline constexpr std::array kCommands{
    add_run_command,       add_submit_command, add_join_command,       add_status_command,    add_watch_command,
    add_why_command,       add_log_command,    add_metrics_command,    add_trace_command,     add_cancel_command,
    add_requeue_command,   add_ls_command,     add_compare_command,    add_report_command,    add_sweep_command,
    add_health_command,    add_data_command,   add_checkpoint_command, add_evaluate_commands, add_generate_command,
    add_init_command,      add_config_command, add_plan_command,       add_bench_command,     add_doctor_command,
    add_preflight_command, add_agent_command,  add_worker_command,     add_version_command,
};

/// The version and the built-in backends, for people.
std::string version_text();

}  // namespace distdl::app
