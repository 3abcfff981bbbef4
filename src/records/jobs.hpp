// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <distdl/base/ids.hpp>
#include <distdl/records/causes.hpp>
#include <distdl/records/field.hpp>

// The jobs of a run.
namespace distdl::records {

/// A job was given to Slurm for the run.
struct Submitted {
  static constexpr Kind kKind{"submitted", "a job was given to Slurm"};

  std::string job = {};    ///< Slurm's id
  std::string chain = {};  ///< id of the chain that it is a link of; empty: none
  int link = 1, links = 1;
};

void describe(Is<Submitted> auto& r, auto&& visit) {
  const bool is_link = r.links > 1;
  visit("job", r.job, "", kJobMeaning);
  visit("chain", if_any(r.chain), "", kChainMeaning);
  visit("link", written_if(is_link, r.link), "", "its place in the chain, from 1");
  visit("links", written_if(is_link, r.links), "", "of the chain");
}

/// "distdl run" begins, in a job or on a machine of its own.
struct JobStarted {
  static constexpr Kind kKind{"job_started", "`distdl run` begins"};

  std::string job = {};  ///< empty: none
  std::int64_t restart = 0;
  std::string host = {}, chain = {};
  int ranks = 0, nodes = 0;                 ///< 0: not known
  double submit_time = 0;                   ///< seconds since 1970, of the last (re)submission; 0: not known
  std::string distdl = {}, processor = {};  ///< version of the program, kind of the host's processor
};

void describe(Is<JobStarted> auto& r, auto&& visit) {
  visit("job", if_any(r.job), "", kJobMeaning);
  visit("restart", r.restart, "", "how often Slurm has restarted the job");
  visit("host", if_any(r.host), "", "of \"distdl run\"");
  visit("chain", if_any(r.chain), "", kChainMeaning);
  visit("ranks", r.ranks, "ranks", kRanksMeaning);
  visit("node_count", r.nodes, "nodes", "of the job");
  visit("submit_time", if_any(r.submit_time), "seconds since 1970", "of the last submission or requeue");
  visit("distdl", if_any(r.distdl), "", "version of the program");
  visit("processor", if_any(r.processor), "", "kind of the host's processor");
}

/// The job was put back into Slurm's queue.
struct Requeued {
  static constexpr Kind kKind{"requeued", "the job was put back into the queue"};

  std::string job = {};
};

void describe(Is<Requeued> auto& r, auto&& visit) {
  visit("job", r.job, "", kJobMeaning);
}

/// "distdl run" gives the run up, for this job or for good.
struct RunFailed {
  static constexpr Kind kKind{"failed", "the run fails: `distdl run` gives it up, for this job or for good"};

  std::string job = {};
  std::optional<Step> step = {};  ///< done last
  std::optional<int> code = {};
  std::string cause = {}, cause_code = {};  ///< in words, and of causes.hpp
};

void describe(Is<RunFailed> auto& r, auto&& visit) {
  visit("job", if_any(r.job), "", kJobMeaning);
  visit("step", r.step, "steps", kStepMeaning);
  visit("code", r.code, "", kCodeMeaning);
  visit("cause", if_any(r.cause), "", kCauseMeaning);
  visit("cause_code", if_any(r.cause_code), "", kCauseCodeMeaning);
}

inline void complete(RunFailed& r) {
  if (r.cause_code.empty()) r.cause_code = cause_of_exit(r.code.value_or(0));
}

/// "distdl run" ends.
struct JobEnded {
  static constexpr Kind kKind{"job_ended", "`distdl run` ends"};

  std::string job = {}, chain = {};
  std::optional<int> code = {};
  bool is_final = false;        ///< the run must not be started again by itself: what follows in the chain is cancelled
  bool has_progressed = false;  ///< a rank trained further in this job than any before
  bool is_refused = false;      ///< the job is not possible in this folder, which stays as the job before has left it
};

void describe(Is<JobEnded> auto& r, auto&& visit) {
  visit("job", if_any(r.job), "", kJobMeaning);
  visit("chain", if_any(r.chain), "", kChainMeaning);
  visit("code", r.code, "", kCodeMeaning);
  visit("final", r.is_final, "", "true: the run must not be started again by itself");
  visit("progressed", r.has_progressed, "", "true: a rank trained further than any before");
  visit("refused", if_any(r.is_refused), "",
        "true: its ranks refused the job before a step, and the run is still as the job before has left it");
}

/// A user asked for an end of the run.
struct CancelRequested {
  static constexpr Kind kKind{"cancel_requested", "a user asked for the end"};

  std::string job = {};
  std::string reason = {};  ///< "distdl cancel", "the file STOP"
};

void describe(Is<CancelRequested> auto& r, auto&& visit) {
  visit("job", if_any(r.job), "", kJobMeaning);
  visit("reason", if_any(r.reason), "", kReasonMeaning);
}

/// A user asked that the job of the run saves and goes back to the queue.
struct RequeueRequested {
  static constexpr Kind kKind{"requeue_requested", "a user asked that the job saves and goes back to the queue"};

  std::string job = {};
  std::string reason = {};  ///< "distdl requeue"
};

void describe(Is<RequeueRequested> auto& r, auto&& visit) {
  visit("job", if_any(r.job), "", kJobMeaning);
  visit("reason", if_any(r.reason), "", kReasonMeaning);
}

}  // namespace distdl::records
