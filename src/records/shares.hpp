// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <distdl/base/ids.hpp>
#include <distdl/records/field.hpp>

// How work and parameters are divided among the ranks, and how gradients are sent.
namespace distdl::records {

/// With parallel.compression = "auto": another compression of the gradients from now on.
struct CompressionChosen {
  static constexpr Kind kKind{"compression", "another compression of what is summed", {.is_of_training = true}};

  Step step;                     ///< steps done before
  std::string compression = {};  ///< "int8"
  std::string reason = {};       ///< "the sums of a step: none 310 ms, int8 80 ms predicted"
};

void describe(Is<CompressionChosen> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("compression", r.compression, "", "from now on");
  visit("reason", r.reason, "", kReasonMeaning);
}

/// How fast the ranks are, and how the microbatches are divided among them: at first, when they move, and when a rank
/// has become much slower or faster. The lists have one entry per rank.
struct SharesKnown {
  static constexpr Kind kKind{
      "shares", "how microbatches are divided among the ranks", {.is_of_training = true, .is_replaced = true}};

  Step step;
  bool moved = false;  ///< after this step
  std::vector<int> shares = {};
  std::vector<double> microbatch_seconds = {};
  std::vector<std::string> hosts = {};
  std::int64_t microbatch_size = 0;  ///< 0: rows of older versions do not tell
  bool recomputes = false;           ///< activations: such a microbatch takes longer
  std::string went_back = {};        ///< why the last move was taken back, in words; empty: it was not
};

void describe(Is<SharesKnown> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("moved", r.moved, "", "true: microbatches move after this step");
  visit("shares", r.shares, "microbatches", "a list: of each rank");
  visit("microbatch_seconds", r.microbatch_seconds, "seconds", "a list: what one takes on each rank");
  visit("hosts", r.hosts, "", "a list: of each rank");
  visit("microbatch_size", r.microbatch_size, "samples", "of one microbatch");
  visit("recomputes", r.recomputes, "", "true: activations are computed again, which takes longer");
  visit("went_back", if_any(r.went_back), "", kWentBackMeaning);
}

/// How the parameters are divided among the servers, and what they cost: at first, and when they move. The lists have
/// one entry per server.
struct RangesKnown {
  static constexpr Kind kKind{
      "ranges", "how parameters are divided among the servers", {.is_of_training = true, .is_replaced = true}};

  Step step;
  bool moved = false;                        ///< after this step
  std::vector<std::int64_t> elements = {};   ///< parameters of each server
  std::vector<double> element_seconds = {};  ///< what a step takes of one
  std::vector<std::string> hosts = {};
  std::string went_back = {};  ///< why the last move was taken back, in words; empty: it was not
};

void describe(Is<RangesKnown> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("moved", r.moved, "", "true: parameters move to other servers after this step");
  visit("elements", r.elements, "", "a list: parameters of each server");
  visit("element_seconds", r.element_seconds, "seconds", "a list: what a step takes of one at each server");
  visit("hosts", r.hosts, "", "a list: of each server");
  visit("went_back", if_any(r.went_back), "", kWentBackMeaning);
}

/// How many measurements count for nothing, because a rank was suspended meanwhile. At first, and once a minute when
/// there are more. The lists have one entry per rank.
struct RanksDisturbed {
  static constexpr Kind kKind{"disturbed",
                              "measurements of ranks that were suspended meanwhile: they count for nothing",
                              {.is_of_training = true, .is_replaced = true}};

  Step step;
  std::vector<std::int64_t> measurements = {};  ///< since this start, of about a second each
  std::vector<std::string> hosts = {};
};

void describe(Is<RanksDisturbed> auto& r, auto&& visit) {
  visit("step", r.step, "steps", kStepMeaning);
  visit("measurements", r.measurements, "", "a list: of each rank, since this start, of about a second each");
  visit("hosts", r.hosts, "", "a list: of each rank");
}

/// Where the lists differ in length, or have values beyond all reason, nothing is left of the division.
void mend(SharesKnown& shares);
void mend(RangesKnown& ranges);
void mend(RanksDisturbed& disturbed);

}  // namespace distdl::records
