// SPDX-License-Identifier: Apache-2.0
#pragma once

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

struct CommandGroup {
  const char* name;  ///< in the help; empty: commands that others run, which are not shown
  void (*add)(Command);
};

/// The subcommands in the order of the help, before "help" and "completion", which read all others.
inline constexpr CommandGroup kCommands[] = {
    {"Begin", add_init_command},       {"Begin", add_data_command},      {"Begin", add_config_command},
    {"Begin", add_plan_command},       {"Begin", add_doctor_command},    {"Train", add_run_command},
    {"Train", add_submit_command},     {"Train", add_join_command},      {"Train", add_sweep_command},
    {"Train", add_cancel_command},     {"Train", add_requeue_command},   {"Look", add_status_command},
    {"Look", add_watch_command},       {"Look", add_log_command},        {"Look", add_ls_command},
    {"Look", add_why_command},         {"Look", add_report_command},     {"Look", add_compare_command},
    {"Look", add_trace_command},       {"Look", add_metrics_command},    {"Look", add_health_command},
    {"Models", add_evaluate_commands}, {"Models", add_generate_command}, {"Models", add_checkpoint_command},
    {"More", add_bench_command},       {"More", add_version_command},    {"", add_preflight_command},
    {"", add_agent_command},           {"", add_worker_command},
};
inline constexpr const char* kLastGroup = "More";  ///< also of "help" and "completion"

/// The version and the built-in backends, for people.
std::string version_text();

}  // namespace distdl::app
