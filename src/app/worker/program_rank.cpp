// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <csignal>
#include <memory>
#include <sstream>
#include <utility>

#include <fmt/ranges.h>
#include <unistd.h>

#include <distdl/app/cli/arguments.hpp>
#include <distdl/app/runs/job_log.hpp>
#include <distdl/app/worker/failure.hpp>
#include <distdl/app/worker/program_placement.hpp>
#include <distdl/app/worker/program_rank.hpp>
#include <distdl/app/worker/program_records.hpp>
#include <distdl/base/activity.hpp>
#include <distdl/base/console.hpp>
#include <distdl/base/env.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/base/processors.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/files/file_operations.hpp>
#include <distdl/launch/requeue.hpp>
#include <distdl/observe/journal.hpp>
#include <distdl/program/container.hpp>
#include <distdl/program/contract_server.hpp>
#include <distdl/program/error_file.hpp>
#include <distdl/program/mpi_library.hpp>
#include <distdl/program/patterns.hpp>
#include <distdl/program/program_process.hpp>
#include <distdl/program/program_variables.hpp>
#include <distdl/program/progress_file.hpp>
#include <distdl/program/rounds.hpp>
#include <distdl/slurm/job_limits.hpp>

namespace distdl::app {
namespace {
using namespace std::chrono_literals;

constexpr int kSignal = 128;
constexpr int kRequeue = static_cast<int>(ExitCode::requeue);
constexpr auto kTick = 50ms;
constexpr auto kLastSeconds = 4s;         ///< before the end of the job, for us
constexpr auto kMostForStop = 10min;      ///< for a program to save and stop, where the job has no end
constexpr auto kEndOfOthers = 1s;         ///< for a program to end after another rank has failed
constexpr auto kCausesComeLater = 300ms;  ///< than their consequences in other ranks
constexpr auto kAfterADeath = 10s;        ///< for the other programs in a stop
constexpr auto kSilence = 60s;            ///< without progress, before the log says that there is none to be seen

/// "signal SIGTERM"
std::string name_of_signal(int number) {
  const char* name = sigabbrev_np(number);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

std::string text_of_code(int code) {
  if (code > kSignal && sigabbrev_np(code - kSignal)) return "was killed by " + name_of_signal(code - kSignal);
  if (code == 127) return "ended with code 127: there is no such program";
  if (code == 126) return "ended with code 126: it cannot be run";
  return fmt::format("ended with code {}", code);
}

/// Whether a program may mean it: a number of steps.
bool is_count(std::int64_t steps) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  return steps >= 0 && steps <= kMost;
}

class ProgramRank {
 public:
  ProgramRank(const config::Job& job, std::unique_ptr<comm::Communicator> communicator, WorkerSignals& signals)
      : job_(job),
        signals_(signals),
        place_(placement_of(*communicator)),
        patterns_(job.program),
        console_out_(STDOUT_FILENO),
        console_error_(STDERR_FILENO),
        output_(resolved(job.run_dir) / "logs", slurm::name_of_node(), place_.rank),
        end_(slurm::limits_from(&env)) {
    if (!end_.end) end_.end = slurm::end_of_job_by_variable();
    if (place_.rank == 0) port_.emplace();
    complete_placement(place_, job, *communicator, port_ ? port_->number() : 0, server_, keeps_pmix());
    if (place_.rank == 0) records_.emplace(job, place_.size, place_.start, signals.beats.get());
    if (const auto& file = job.program.progress_file; records_ && !file.empty())
      progress_file_.emplace(resolved(job.run_dir) / file, patterns_);
    signals_.watch.end();
    start();
    rounds_.emplace(std::move(communicator));
    enter_phase(RankPhase::idle);  // until the program tells of its progress, nobody expects any
  }

  int run() {
    while (true) {
      wait();
      process_->read();
      take(server_.poll());
      look_at_progress_file();
      look_for_stop();
      look_at_program();
      rounds_->set(mine_);
      if (const auto code = conclude()) return *code;
      try {
        rounds_->check();
      } catch (const comm::PeerLost&) {  // by ranks that have seen this one's failure a moment earlier
        if (!failure_) throw;
        throw Error(static_cast<ExitCode>(program::code_of_failure(mine_.code)), *failure_);
      }
    }
  }

  /// After a failure of another rank or of this one: nothing of the program is left.
  void end_program(const std::exception& error) noexcept {
    try {
      if (rounds_) rounds_->abort(message_of(error), exit_code_of(error));
      process_->signal(SIGTERM);
      for (const auto deadline = Deadline::after(kEndOfOthers); !process_->reap() && !deadline.expired();) {
        process_->read();
        ::usleep(2000);
      }
      process_->end();
      if (records_) records_->failed(error);
    } catch (const std::exception& other) {
      log(Severity::warning, "{}", other.what());
    }
  }

 private:
  /// srun has started this process as a rank of its own: an MPI program takes that place.
  bool keeps_pmix() const { return !signals_.beats && env("PMIX_RANK").has_value(); }

  std::vector<std::string> words_of_container(const std::map<std::string, std::string>& variables) const {
    std::vector<std::string> names, folders{place_.run_folder, server_.path().parent_path().string()};
    for (const auto& variable : variables) names.push_back(variable.first);
    if (keeps_pmix()) names.insert(names.end(), {"PMIX_*", "PMI_*"});
    if (const auto folder = env("PMIX_SERVER_TMPDIR"); folder && keeps_pmix()) folders.push_back(*folder);
    return program::words_of_container(job_.program.container, names, folders);
  }

  void start() {
    const auto variables = program::program_variables(place_, static_cast<int>(usable_processors().size()));
    auto command = words_of_container(variables);
    for (auto& word : program::command_of(job_.program)) command.push_back(std::move(word));
    log(Severity::debug, "rank {} runs {}", place_.rank, fmt::join(command, " "));
    process_.emplace(
        command, program::program_environment(variables, keeps_pmix()),
        [this](std::string_view line, bool is_error, bool stays) { take_line(line, is_error, stays); },
        program::number_of(job_.program.stop_signal));
  }

  void wait() {
    std::vector<pollfd> polled{{signals_.stop.descriptor(), POLLIN, 0}, {rounds_->descriptor(), POLLIN, 0}};
    process_->add_to(polled);
    server_.add_to(polled);
    const bool failed =
        ::poll(polled.data(), polled.size(), static_cast<int>(Milliseconds(kTick).count())) < 0 && errno != EINTR;
    require<InternalError>(!failed, "cannot wait for the program: {}", errno_text(errno));
  }

  void take_line(std::string_view line, bool is_error, bool stays) {
    if (records_ && !patterns_.is_empty()) {
      auto facts = patterns_.look(line);
      std::vector<program::NamedValue> evaluation;  // of the last step, where others belong to the next one
      for (auto& metric : facts.metrics)
        (is_of_evaluation(metric.first) ? evaluation : metrics_).push_back(std::move(metric));
      if (facts.step) note_progress(*facts.step, facts.steps, std::exchange(metrics_, {}));
      records_->evaluated(evaluation);
    }
    const auto shown = job_.program.output;
    const bool is_shown = shown == program::ShownOutput::all || (shown == program::ShownOutput::first && records_);
    const Console& console = is_error ? console_error_ : console_out_;
    const auto text = place_.size == 1 ? std::string(line) : fmt::format("[{}] {}", place_.rank, line);
    if (is_shown) stays ? console.line(text) : console.status(text);
    if (!stays) return;
    output_.write(line);
    if (is_error && !line.empty()) last_error_ = std::string(line.substr(0, 1000));
  }

  void note_progress(std::int64_t step, std::optional<std::int64_t> steps,
                     const std::vector<program::NamedValue>& metrics) {
    if (!is_count(step)) return;
    if (steps && !is_count(*steps)) steps.reset();
    has_progress_ = true;
    if (!stop_reason_) enter_phase(RankPhase::compute);
    show_step(Step(step));
    if (records_) records_->progress(step, steps, metrics);
  }

  void look_at_progress_file() {
    constexpr auto kEvery = 500ms;
    if (!progress_file_ || Clock::now() < next_file_look_) return;
    next_file_look_ = Clock::now() + kEvery;
    const auto seen = progress_file_->look();
    for (const auto& facts : seen.facts)
      if (facts.step) note_progress(*facts.step, facts.steps, facts.metrics);
    if (!seen.has_changed) return;
    has_progress_ = true;
    if (!stop_reason_) enter_phase(RankPhase::compute);
  }

  void take(const std::vector<program::FromProgram>& messages) {
    for (const auto& message : messages) {
      if (message.asks) mine_.asks = 1;
      if (message.step) note_progress(*message.step, message.steps, message.metrics);
      if (message.saved && is_count(*message.saved) && records_) records_->saved(*message.saved, message.save_seconds);
      if (message.finished) mine_.says_finished = 1;
      if (message.asks_left) server_.tell_left(seconds_left());
    }
    mine_.call = server_.last_question().value_or(-1);
  }

  std::optional<slurm::Time> end_of_job() const { return records_ ? records_->end_of_job() : end_.end; }
  std::optional<double> seconds_left() const {
    const auto end = end_of_job();
    if (!end) return std::nullopt;
    return std::chrono::duration<double>(*end - std::chrono::system_clock::now()).count();
  }

  void look_for_stop() {
    ++signals_.looks;
    auto reason = signals_.stop.poll();  // also of later signals, or wait() would not wait
    if (reason && !std::exchange(has_signal_, true)) limit_to_grace();
    if (mine_.wants_stop != 0) return;
    const bool is_own = !reason && records_;
    if (is_own) reason = records_->stop_request();
    if (!reason) return;
    mine_.wants_stop = is_own && records_->is_part_done() ? program::kPartIsDone : 1;
    own_reason_ = *reason;
    if (stop_reason_) stop_reason_ = own_reason_;  // that of another rank was heard of first
  }

  /// MPI that a program loads later, as Python does, may also be there for nothing.
  void look_for_mpi() {
    if (!records_ || !next_mpi_look_.expired()) return;
    next_mpi_look_ = Deadline::after(mpi_looks_.next());
    const bool may_be_alone = place_.size > 1 && !keeps_pmix() && job_.launch.mpi != launch::Mpi::none;
    const auto library = may_be_alone && !has_told_mpi_ ? program::mpi_library_in(process_->pid()) : "";
    if (library.empty()) return;
    has_told_mpi_ = true;
    log(Severity::warning,
        "the program has loaded MPI ({}), in which each of its ranks is alone here: if they are to meet by MPI, run it "
        "in a Slurm job with run.recovery = \"relaunch\" (docs/programs.md)",
        library);
  }

  void look_at_program() {
    if (mine_.has_ended != 0) return;
    look_at_suspension();
    look_for_mpi();
    if (stop_limit_ && Clock::now() >= *stop_limit_) {
      log(Severity::warning, "the program of rank {} has not ended in time after it was asked to stop: it is killed",
          place_.rank);
      stop_limit_.reset();
      process_->end();
    }
    if (!has_told_silence_ && records_ && !has_progress_ && Clock::now() - began_ > kSilence) {
      has_told_silence_ = true;
      log(Severity::info,
          "the program tells nothing of its progress, so a hang cannot be noticed: run.progress_pattern, "
          "run.progress_file, or distdl_progress() (docs/programs.md)");
    }
    const auto code = process_->reap();
    if (!code) return;
    mine_.has_ended = 1;
    mine_.ended_at = seconds_since_1970();
    mine_.code = *code;
    next_file_look_ = {};
    look_at_progress_file();
    if (records_ && records_->is_complete()) mine_.says_finished = 1;
    if (records_) records_->last(std::exchange(metrics_, {}));
    enter_phase(RankPhase::idle);
    if (*code != 0 && *code != kRequeue && !program::is_stop_signal(*code) && !stop_reason_)
      failure_ = fmt::format("the program of rank {} {}{}", place_.rank, text_of_code(*code), text_of_error());
    if (program::is_stop_signal(*code) && mine_.wants_stop == 0) {  // as Slurm sends to all processes of a job
      mine_.wants_stop = 1;
      own_reason_ = "signal " + name_of_signal(*code - kSignal);
    }
    if (stop_reason_ && records_)
      records_->stop_took(std::chrono::duration<double>(Clock::now() - stopped_at_).count());
  }

  /// ": ValueError: wrong", as the program's exception says, or else the last line of its stderr; or empty.
  std::string text_of_error() {
    const auto error = program::read_error(server_.folder());
    if (!error) return last_error_.empty() ? "" : ": " + printable(last_error_);
    const bool is_in_log = last_error_.ends_with(error->message.substr(error->message.rfind('\n') + 1));
    if (!is_in_log) {
      std::istringstream stack(error->stack);
      for (std::string line; std::getline(stack, line);) output_.write(printable(line));
    }
    return ": " + printable(error->message);
  }

  /// A program that a signal has stopped, and nobody continues, hangs. This process is stopped too when a whole job is
  /// suspended.
  void look_at_suspension() {
    const auto now = Clock::now();
    const bool was_late = now - std::exchange(looked_at_, now) > 1s;
    if (now < next_suspension_look_) return;
    next_suspension_look_ = now + 500ms;
    if (!process_->is_suspended() || was_late) {
      suspended_at_.reset();
      return;
    }
    suspended_at_ = suspended_at_.value_or(now);
    if (std::chrono::duration<double>(now - *suspended_at_).count() < job_.agent.rank_frozen_seconds) return;
    process_->end();
    throw Error(ExitCode::program,
                fmt::format("the program of rank {} was frozen: a signal has stopped its process {} for {:.1f} s",
                            place_.rank, process_->pid(), std::chrono::duration<double>(now - *suspended_at_).count()));
  }

  /// The program of `rank` has failed first. A program whose end shows a little later may be the cause all the same, so
  /// that the first few tell theirs.
  [[noreturn]] void fail(int rank, int code, std::span<const program::RankReport> reports) const {
    constexpr int kMostCauses = 4;
    const auto before = std::ranges::count_if(reports, [this](const auto& one) {
      return one.has_ended != 0 && one.code != 0 && one.ended_at < mine_.ended_at;
    });
    if (!failure_ || before >= kMostCauses)
      throw Error(ExitCode::peer_lost, fmt::format("the program of rank {} {}", rank, text_of_code(code)));
    throw Error(static_cast<ExitCode>(program::code_of_failure(mine_.code)), *failure_);  // 128 + n stays what it is
  }

  std::optional<int> conclude() {
    const auto reports = rounds_->newest();
    if (reports.empty()) return std::nullopt;
    const auto found = program::conclude(reports);
    if (found.failed) {
      failed_at_ = failed_at_.value_or(Clock::now());
      const bool is_time = found.all_ended || Clock::now() - *failed_at_ > kCausesComeLater;
      if (is_time) fail(*found.failed, reports[static_cast<std::size_t>(*found.failed)].code, reports);
      return std::nullopt;
    }
    if (found.stops && !stop_reason_) begin_stop(found.any_asks);
    if (found.stop_at && !has_told_stop_) {
      has_told_stop_ = true;
      server_.tell_stop_at(*found.stop_at);
    }
    // One that has died of the signal takes part in no save: the others wait for it in vain.
    const bool any_died = std::ranges::any_of(
        reports, [](const auto& one) { return one.has_ended != 0 && program::is_stop_signal(one.code); });
    if (found.stops && any_died && stop_limit_)
      stop_limit_ = std::min(*stop_limit_, (died_at_ = died_at_.value_or(Clock::now())).value() + kAfterADeath);
    if (!found.all_ended) return std::nullopt;
    const bool is_complete = std::ranges::any_of(reports, [](const auto& one) { return one.says_finished != 0; });
    const int code = program::code_of_run(reports, found.stops, is_complete);
    if (records_) end_records(code, found.stops, program::ends_part(reports) && !is_complete);
    return code;
  }

  void begin_stop(bool any_asks) {
    stop_reason_ = own_reason_.empty() ? "another rank was asked to stop" : own_reason_;
    stopped_at_ = Clock::now();
    enter_phase(RankPhase::last_save);
    if (records_)
      log(Severity::info, "{}: the programs are asked to save and stop, by {}", *stop_reason_,
          any_asks ? "their own question" : "SIG" + std::string(job_.program.stop_signal.name()));
    if (any_asks)
      server_.tell_asked();
    else
      process_->signal(program::number_of(job_.program.stop_signal));
    auto most = std::chrono::duration_cast<Clock::duration>(kMostForStop);
    if (const auto left = seconds_left())
      most = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::max(0.0, *left))) -
             kLastSeconds;
    stop_limit_ = stopped_at_ + std::max<Clock::duration>(most, 1s);
    limit_to_grace();
  }

  /// A signal may be that of a preemption, and then so much time is left. The file STOP and the end of the job are
  /// none.
  void limit_to_grace() {
    if (!stop_limit_ || !end_.grace || !has_signal_) return;
    stop_limit_ = std::min(*stop_limit_, Clock::now() + std::max<Clock::duration>(*end_.grace - kLastSeconds, 1s));
  }

  void end_records(int code, bool stops, bool is_part) {
    if (code == 0) {
      records_->finished(is_part ? *stop_reason_ : "");
    } else if (code == kRequeue) {
      if (stops && !records_->has_saved())
        log(Severity::warning,
            "the program has told of no save in this start: unless it saves by itself, the next start repeats what "
            "this "
            "one has done in {:.1f} s{}",
            std::chrono::duration<double>(Clock::now() - began_).count(),
            has_progress_ ? fmt::format(", up to step {}", records_->step()) : "");
      records_->stopped(stop_reason_.value_or("the program ended with code 75"));
    }
  }

  const config::Job& job_;
  WorkerSignals& signals_;
  program::Placement place_;
  program::Patterns patterns_;
  Console console_out_, console_error_;
  program::OutputFile output_;
  slurm::JobLimits end_;
  std::optional<HeldPort> port_;
  std::optional<program::ProgressFile> progress_file_;
  program::ContractServer server_;
  std::optional<ProgramRecords> records_;
  std::optional<program::ProgramProcess> process_;
  std::optional<program::Rounds> rounds_;
  program::RankReport mine_;
  std::vector<program::NamedValue> metrics_;  ///< since the last step
  std::string own_reason_, last_error_;
  std::optional<std::string> stop_reason_;
  Clock::time_point began_ = Clock::now(), stopped_at_{}, looked_at_ = Clock::now(), next_suspension_look_{},
                    next_file_look_{};
  std::optional<Clock::time_point> stop_limit_, suspended_at_, failed_at_, died_at_;
  std::optional<std::string> failure_;  ///< what ended the program, if that was no stop
  launch::BackOff mpi_looks_{1s, 600s};
  Deadline next_mpi_look_ = Deadline::after(mpi_looks_.next());
  bool has_progress_ = false, has_signal_ = false, has_told_stop_ = false, has_told_silence_ = false,
       has_told_mpi_ = false;
};

/// For whoever reads the journal; a rank other than 0 has no other records.
void note_failure(const config::Job& job, Rank rank, const std::exception& error) try {
  if (rank == Rank(0)) return;
  observe::Journal(job.run_dir)
      .append(records::RankFailed{{}, static_cast<int>(exit_code_of(error)), message_of(error), ""});
} catch (const std::exception& other) {
  log(Severity::debug, "{}", other.what());
}
}  // namespace

int run_program(const config::Job& job, world::World& world, WorkerSignals& signals) {
  enter_phase(RankPhase::connect);
  auto communicator = comm::Communicator::connect(world, job.comm);
  const Rank self = communicator->rank();
  log(Severity::debug, "rank {} of {} by {}, {}", self, communicator->size(), world.description(),
      communicator->description());
  std::optional<ProgramRank> rank;
  try {
    rank.emplace(job, std::move(communicator), signals);
    return rank->run();
  } catch (const std::exception& error) {
    signals.watch.end();
    if (rank) rank->end_program(error);
    if (gone(error).empty()) {
      note_failure(job, self, error);
    } else if (const auto& reason = signals.stop.poll()) {
      // A rank that was starting has left at once, on a signal that this one got too.
      log(Severity::info, "{}; another rank has stopped before its program began", *reason);
      return kRequeue;
    }
    throw;
  }
}

}  // namespace distdl::app
