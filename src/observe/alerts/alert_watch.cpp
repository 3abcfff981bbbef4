// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/statvfs.h>
#include <unistd.h>

#include <distdl/base/end_limit.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/process.hpp>
#include <distdl/base/regular_file.hpp>
#include <distdl/base/signals.hpp>
#include <distdl/base/slurm_variables.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/observe/alerts/alert_watch.hpp>
#include <distdl/observe/run/ledger.hpp>

namespace distdl::observe {
namespace {
/// Nothing where the file system does not tell.
std::optional<double> free_share_of(const std::filesystem::path& folder) {
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0 || info.f_blocks == 0) return std::nullopt;
  return static_cast<double>(info.f_bavail) / static_cast<double>(info.f_blocks);
}

std::string name_of(const AlertRule& rule) {
  return std::string(rule.when.name());
}
}  // namespace

AlertWatch::AlertWatch(std::filesystem::path run_folder, const std::vector<AlertRule>& rules)
    : run_folder_(std::move(run_folder)), follower_(run_folder_), journal_(run_folder_) {
  for (const AlertRule& rule : rules) watched_.push_back({rule, AlertCondition(rule)});
}

AlertWatch::~AlertWatch() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  const EndLimit limit("the watch for alerts", limit_of_end());
  if (thread_.joinable()) thread_.join();
}

/// Its last look may run the command of each rule.
Milliseconds AlertWatch::limit_of_end() const {
  double seconds = 10;
  for (const Watched& watched : watched_) seconds += watched.rule.timeout_seconds + 1;
  return std::chrono::ceil<Milliseconds>(std::chrono::duration<double>(seconds));
}

void AlertWatch::start() {
  constexpr long long kPeriod = 10000, kShortest = 10;
  const Milliseconds period(std::max(kShortest, env_integer("DISTDL_ALERT_MS").value_or(kPeriod)));
  const SignalsBlocked blocked;
  thread_ = std::thread([this, period] {
    std::unique_lock lock(mutex_);
    for (bool is_last = false; !is_last;) {
      is_last = ends_;
      lock.unlock();
      look();
      lock.lock();
      if (!is_last) changed_.wait_for(lock, period, [this] { return ends_; });
    }
  });
}

void AlertWatch::look() {
  read_news();
  const AlertFacts known = facts();
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    Watched& watched = watched_[i];
    const auto cause = watched.condition.cause(known);
    if (cause.has_value() == watched.is_raised) continue;
    watched.is_raised = cause.has_value();
    if (cause)
      raise(i, *cause);
    else
      journal_.append(records::AlertCleared{static_cast<std::int64_t>(i) + 1, name_of(watched.rule)});
  }
}

void AlertWatch::read_news() {
  const auto news = follower_.poll();
  for (std::size_t i = 0; i < watched_.size(); ++i) {
    Watched& watched = watched_[i];
    if (news.begins_again) watched.condition = AlertCondition(watched.rule);
    for (const auto& row : news.metrics) watched.condition.take(row);
    const auto is_own = [&](const auto& alert) {
      return alert.rule == static_cast<std::int64_t>(i) + 1 && alert.when == name_of(watched.rule);
    };
    for (const records::Row& row : news.journal) {
      watched.condition.take(row);
      if (const auto* const alert = row.as<records::AlertRaised>(); alert && is_own(*alert)) watched.is_raised = true;
      if (const auto* const alert = row.as<records::AlertCleared>(); alert && is_own(*alert)) watched.is_raised = false;
    }
  }
}

AlertFacts AlertWatch::facts() {
  const auto asks = [this](AlertKind kind) {
    return std::ranges::any_of(watched_, [kind](const Watched& each) { return each.rule.when == kind; });
  };
  AlertFacts known;
  if (asks(AlertKind::disk_filling)) known.free_share = free_share_of(run_folder_);
  if (asks(AlertKind::goodput_low)) follow_goodput();
  known.goodput = goodput_;
  return known;
}

/// The ledger reads the records as a whole.
void AlertWatch::follow_goodput() {
  constexpr std::chrono::minutes kEvery{1};
  constexpr double kEarly = 600;  // seconds in which the start of a job is most of its time
  if (Clock::now() < next_goodput_) return;
  next_goodput_ = Clock::now() + kEvery;
  const Ledger ledger = read_ledger(run_folder_, seconds_since_1970());
  const double in_jobs = ledger.wall() - ledger[Bucket::queued];
  goodput_ = in_jobs >= kEarly ? std::optional(ledger.goodput_in_jobs()) : std::nullopt;
}

void AlertWatch::raise(std::size_t number, const std::string& cause) {
  const auto& [rule, condition, is_raised] = watched_[number];
  const auto step = condition.step();
  log(Severity::warning, "alert: {}: {}", rule.when, cause);
  journal_.append(records::AlertRaised{static_cast<std::int64_t>(number) + 1, name_of(rule), cause, step});
  if (!rule.file.empty()) write_file_of(rule, cause);
  if (!rule.run.empty()) run_command_of(rule, cause, step ? std::to_string(step->value) : "");
}

void AlertWatch::run_command_of(const AlertRule& rule, const std::string& cause, const std::string& step) const try {
  constexpr Milliseconds kGrace{1000};
  std::error_code ignored;
  const auto folder = std::filesystem::absolute(run_folder_, ignored);
  auto variables = slurm_variables();  // a user's command may use them, as in a message about job $SLURM_JOB_ID
  variables["DISTDL_ALERT"] = name_of(rule);
  variables["DISTDL_ALERT_CAUSE"] = cause;
  variables["DISTDL_ALERT_STEP"] = step;
  variables["DISTDL_RUN"] = folder.string();
  const auto result =
      run_command(rule.run, std::chrono::ceil<Milliseconds>(std::chrono::duration<double>(rule.timeout_seconds)),
                  kGrace, "", variables);
  if (result.exit_code == 0) return;
  log(Severity::warning, "the command of the alert \"{}\", \"{}\", ended with code {}: {}", rule.when,
      printable(rule.run.front()), result.exit_code, printable(result.errors));
} catch (const Error& error) {
  log(Severity::warning, "the command of the alert \"{}\" could not be started: {}", rule.when, error.what());
}

void AlertWatch::write_file_of(const AlertRule& rule, const std::string& cause) const try {
  const auto line = fmt::format("{} {}: {}: {}\n", whole_seconds_since_1970(), run_folder_.string(), rule.when, cause);
  const FileDescriptor file = open_to_append(resolved_place(rule.file));
  if (::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    log(Severity::warning, "cannot write the alert to \"{}\": {}", rule.file, errno_text(errno));
} catch (const Error& error) {
  log(Severity::warning, "the alert \"{}\" is not in a file: {}", rule.when, error.what());
}

}  // namespace distdl::observe
