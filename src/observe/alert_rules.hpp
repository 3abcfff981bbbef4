// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <distdl/base/one_of.hpp>

namespace distdl::observe {

enum class AlertKind { loss_not_finite, loss_rising, throughput_halved, goodput_low, disk_filling };
constexpr std::array<Named<AlertKind>, 5> choices_of(AlertKind) {
  return {{
      {AlertKind::loss_not_finite, "loss not finite", "the ranks ended because a loss was infinite or not a number"},
      {AlertKind::loss_rising, "loss rising", "the mean loss of the newest steps is higher than the lowest such mean"},
      {AlertKind::throughput_halved, "throughput halved",
       "the median of samples/s of the newest steps is below half of the highest such median"},
      {AlertKind::goodput_low, "goodput low", "the share of the jobs' time that training lasts, after ten minutes"},
      {AlertKind::disk_filling, "disk filling", "little of the file system of the run folder is free"},
  }};
}

/// A table [[alert]] of a job file: when to alert, and what to do then.
struct AlertRule {
  OneOf<AlertKind> when = AlertKind::loss_not_finite;
  double limit = 0;                   ///< a share, see limit_of(); 0: the usual one
  std::int64_t steps = 100;           ///< number of newest steps, for losses and throughput
  std::vector<std::string> run = {};  ///< a command and its arguments; empty: none
  std::string file = {};              ///< gets a line; empty: none
  double timeout_seconds = 60;        ///< after which the command is ended
};

/// A loss is rising when the mean is higher by this share; throughput has halved below this share of the highest;
/// goodput is low below this share; a disk is filling when less than this share is free.
double limit_of(const AlertRule& rule);

/// Throws ConfigError for invalid values. `where`: begins the message: "job.toml:3: ".
void check(const AlertRule& rule, const std::string& where);

/// Like describe() of a library's Options; a key is "alert.when".
template <class Visitor>
void describe(AlertRule& rule, Visitor&& visit) {
  visit("alert.when", rule.when, OneOf<AlertKind>::help("in each table [[alert]]: when to alert"));
  visit("alert.limit", rule.limit,
        "share above which a rise of the loss counts (0.5), or below which throughput (0.5 of the highest), goodput "
        "(0.5) or the free part of the disk (0.05) does; 0: the value in brackets");
  visit("alert.steps", rule.steps, "number of newest steps whose losses or samples/s count together");
  visit("alert.run", rule.run,
        "command that is run, with its arguments, once for each cause: [\"mail\", \"-s\", \"my run\", \"me\"]; it gets "
        "DISTDL_ALERT, DISTDL_ALERT_CAUSE, DISTDL_ALERT_STEP and DISTDL_RUN as variables");
  visit("alert.file", rule.file, "file that gets a line for each alert");
  visit("alert.timeout_seconds", rule.timeout_seconds, "seconds after which the command is ended");
}

}  // namespace distdl::observe
