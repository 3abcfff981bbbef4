// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <distdl/base/activity_page.hpp>
#include <distdl/base/byte_text.hpp>
#include <distdl/base/median.hpp>
#include <distdl/base/printable.hpp>
#include <distdl/observe/trace/trace_summary.hpp>

namespace distdl::observe {
namespace {
using Json = nlohmann::ordered_json;
using train::TraceFile;
using Recorded = TraceFile::Recorded;

constexpr std::size_t kMostShown = 5;  ///< layers, pairs of ranks

double seconds_of(const Span& span) {
  return static_cast<double>(span.end - span.begin) / 1e9;
}

bool is_phase(const Span& span, RankPhase phase) {
  return span.kind == SpanKind::phase && span.number == static_cast<std::uint32_t>(phase);
}

bool is_wait(const Span& span) {
  return span.kind == SpanKind::collective_wait || span.kind == SpanKind::message_wait;
}

std::vector<TraceSummary::Share> sorted(const std::map<std::string, double>& seconds, double whole) {
  std::vector<TraceSummary::Share> shares;
  shares.reserve(seconds.size());
  for (const auto& [name, each] : seconds) shares.push_back({name, each, whole > 0 ? each / whole : 0});
  std::ranges::stable_sort(shares, std::greater<>(), &TraceSummary::Share::seconds);
  return shares;
}

/// Sums over ranks and steps, from which means are made.
class Summing {
 public:
  explicit Summing(const Trace& trace) : trace_(trace), ranks_(static_cast<double>(trace.ranks.size())) {
    summary_.steps = trace.steps;
    summary_.clock_error_seconds = static_cast<double>(trace.clock_error) / 1e9;
    summary_.missing = trace.missing;
  }

  TraceSummary operator()() {
    for (const TraceFile& rank : trace_.ranks) add(rank);
    summary_.count = static_cast<std::int64_t>(steps_.size());
    per_step_ = 1 / (ranks_ * static_cast<double>(std::max<std::size_t>(steps_.size(), 1)));
    summary_.step_seconds /= std::max(recorded_steps_, 1.0);
    double whole = 0;
    for (auto& [name, seconds] : phases_) whole += seconds *= per_step_;
    for (auto& [name, seconds] : layers_) seconds *= per_step_;
    summary_.period_seconds = std::max(whole, summary_.step_seconds);
    summary_.phases = sorted(phases_, whole);
    summary_.layers = sorted(layers_, whole);
    for (double* const seconds :
         {&summary_.sum_seconds, &summary_.exposed_seconds, &summary_.copy_seconds, &summary_.write_seconds})
      *seconds *= per_step_;
    add_waits();
    const auto messages = match_messages(trace_);
    summary_.messages = messages.pairs.size();
    summary_.unmatched = messages.unmatched;
    for (const auto& pair : messages.pairs)
      summary_.message_bytes += trace_.ranks[pair.from_rank].spans[pair.send].bytes;
    return std::move(summary_);
  }

 private:
  void add(const TraceFile& rank) {
    summary_.lost += rank.lost;
    if (rank.is_torn) summary_.torn.push_back(rank.header.rank);
    TraceSummary::OfRank own{rank.header.rank, rank.header.host};
    bool has_sums = false;
    double reduce = 0, sums = 0, waits = 0;
    for (const Recorded& span : rank.spans) {
      const bool trains = is_of_training_thread(rank, span);
      if (span.kind == SpanKind::bucket) sums += seconds_of(span), has_sums = true;
      add_of_any_thread(rank, span);
      if (!trains) continue;
      if (is_wait(span)) waits += seconds_of(span);
      if (span.kind == SpanKind::step) add_step(span);
      if (span.kind == SpanKind::phase) phases_[rank.name(span)] += seconds_of(span);
      if (span.kind == SpanKind::forward || span.kind == SpanKind::backward) add_layer(rank, span);
      if (is_phase(span, RankPhase::reduce)) reduce += seconds_of(span);
      if (span.kind != SpanKind::phase) continue;
      const double waited = std::exchange(waits, 0);  // within this phase, since spans come in the order of their ends
      if (is_phase(span, RankPhase::compute)) own.compute_seconds += std::max(0.0, seconds_of(span) - waited);
    }
    summary_.exposed_seconds += reduce;
    summary_.sum_seconds += has_sums ? sums : reduce;
    summary_.ranks.push_back(std::move(own));
  }

  void add_of_any_thread(const TraceFile& rank, const Recorded& span) {
    if (span.kind == SpanKind::copy) summary_.copy_seconds += seconds_of(span);
    if (is_phase(span, RankPhase::write)) summary_.write_seconds += seconds_of(span);
    if (is_wait(span)) note_wait(rank, span);
  }

  void add_step(const Recorded& span) {
    steps_.insert(span.number);
    recorded_steps_ += 1;
    summary_.step_seconds += seconds_of(span);
  }

  void add_layer(const TraceFile& rank, const Recorded& span) {
    const auto& layers = rank.header.layers;
    layers_[span.number < layers.size() ? layers[span.number] : fmt::format("layer {}", span.number)] +=
        seconds_of(span);
  }

  struct Arrival {
    int rank;
    const Recorded* span;
  };
  void note_wait(const TraceFile& rank, const Recorded& span) {
    if (rank.threads[span.thread] == "writer") return;
    if (span.kind == SpanKind::collective_wait)
      collectives_[{span.group, span.peer, span.number}].push_back({rank.header.rank, &span});
    else if (span.peer >= 0)
      waits_[{rank.header.rank, span.peer}] += seconds_of(span);
  }

  /// All wait for the rank that comes last to a collective.
  void add_waits() {
    for (const auto& [key, arrivals] : collectives_) {
      const auto begin_of = [](const Arrival& one) { return one.span->begin; };
      const auto& last = *std::ranges::max_element(arrivals, {}, begin_of);
      for (const Arrival& one : arrivals) {
        const auto until = std::min(one.span->end, last.span->begin);
        if (one.rank != last.rank && until > one.span->begin)
          waits_[{one.rank, last.rank}] += static_cast<double>(until - one.span->begin) / 1e9;
      }
    }
    const double steps = static_cast<double>(std::max<std::size_t>(steps_.size(), 1));
    for (auto& own : summary_.ranks) {
      own.compute_seconds /= steps;
      for (const auto& [pair, seconds] : waits_) {
        if (pair.first == own.rank) own.waited_seconds += seconds / steps;
        if (pair.second == own.rank) own.awaited_seconds += seconds / steps;
      }
    }
    for (const auto& [pair, seconds] : waits_) summary_.waits.push_back({pair.first, pair.second, seconds / steps});
    std::ranges::stable_sort(summary_.waits, std::greater<>(), &TraceSummary::Wait::seconds);
  }

  const Trace& trace_;
  double ranks_, per_step_ = 1, recorded_steps_ = 0;
  TraceSummary summary_;
  std::set<std::uint32_t> steps_;
  std::map<std::string, double> phases_, layers_;
  std::map<std::tuple<std::uint16_t, int, std::uint32_t>, std::vector<Arrival>> collectives_;
  std::map<std::pair<int, int>, double> waits_;
};

double share_of(const TraceSummary& summary, const char* phase) {
  const auto found = std::ranges::find(summary.phases, phase, &TraceSummary::Share::name);
  return found == summary.phases.end() ? 0 : found->share;
}

/// The rank to blame: that for which the others wait longest besides its own waiting, if that is more than half of all
/// such waiting. A rank that waits as long as others wait for it only passes the waiting on.
const TraceSummary::OfRank* most_awaited(const TraceSummary& summary) {
  if (summary.ranks.size() < 2) return nullptr;
  double all = 0;
  for (const auto& rank : summary.ranks) all += std::max(0.0, rank.net_awaited_seconds());
  const auto most = std::ranges::max_element(summary.ranks, {}, &TraceSummary::OfRank::net_awaited_seconds);
  return most->net_awaited_seconds() > all / 2 ? &*most : nullptr;
}

void advise(TraceSummary& summary) {
  constexpr double kWorthIt = 0.05;  ///< share of the time
  const double others = static_cast<double>(std::max<std::size_t>(summary.ranks.size(), 2) - 1);
  const auto share = [&](RankPhase phase) { return share_of(summary, name_of(phase)); };
  const auto add = [&](std::string text) { summary.advice.push_back(std::move(text)); };
  if (share(RankPhase::data) > kWorthIt)
    add("Ranks wait for samples: put the data set on a faster file system or a node's disk, or give each rank another "
        "processor for its reader.");
  if (const auto* const late = most_awaited(summary);
      late != nullptr && late->net_awaited_seconds() > kWorthIt * others * summary.period_seconds)
    add(fmt::format(
        "The others wait for rank {} ({}): \"distdl status --verbose\" tells whether its node is slow; train.balance "
        "moves microbatches away from it.",
        late->rank, printable(late->host)));
  else if (summary.exposed_seconds > kWorthIt * summary.period_seconds && summary.hidden_share() < 0.5)
    add("Most of the sums is not hidden behind the backward pass: more microbatches per rank, a smaller "
        "parallel.bucket_mib or parallel.compression = \"auto\" would help.");
  else if (summary.exposed_seconds > kWorthIt * summary.period_seconds)
    add("The network is the limit: parallel.compression = \"auto\", or more microbatches per step, send less.");
  if (share(RankPhase::copy) + share(RankPhase::snapshot) + share(RankPhase::save) > kWorthIt)
    add("Saves hold the training up: a larger checkpoint.every, or checkpoint.copy_threads, would help.");
  if (share(RankPhase::evaluate) > 4 * kWorthIt)
    add("Evaluations take much of the time: evaluate less often, or on fewer samples (data.holdout).");
  if (summary.advice.empty())
    add("Nearly all the time is computing: faster layers or more ranks would help, nothing else.");
}

std::string milliseconds(double seconds) {
  constexpr double kOneSecond = 0.9995;  // what three digits show as 1000 ms
  return seconds < kOneSecond ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.4g} s", seconds);
}

std::string line(const std::string& name, double seconds, double share) {
  return fmt::format("  {:<24}{:>12}  {:5.1f}%\n", name, milliseconds(seconds), 100 * share);
}

std::string text_of_ranks(const TraceSummary& summary) {
  std::string text;
  double slowest = 0;
  std::vector<double> all;
  for (const auto& rank : summary.ranks) all.push_back(rank.compute_seconds), slowest = std::max(slowest, all.back());
  const double middle = median(all);
  if (middle > 0)
    text += fmt::format("The slowest rank computes {} per step, the median rank {}.\n", milliseconds(slowest),
                        milliseconds(middle));
  if (summary.waits.empty()) return text;
  text += "Who waits for whom, per step:\n";
  for (std::size_t i = 0; i < std::min(kMostShown, summary.waits.size()); ++i) {
    const auto& wait = summary.waits[i];
    text += line(fmt::format("rank {} for rank {}", wait.rank, wait.awaited), wait.seconds,
                 wait.seconds / summary.period_seconds);
  }
  return text;
}

std::string text_of_sums(const TraceSummary& summary) {
  std::string text;
  if (summary.sum_seconds > 0)
    text += fmt::format("The sums over the ranks take {} per step, of which {:.0f}% are hidden.\n",
                        milliseconds(summary.sum_seconds), 100 * summary.hidden_share());
  if (summary.messages > 0)
    text += fmt::format("{} messages between ranks, {}.\n", summary.messages,
                        bytes_text(static_cast<double>(summary.message_bytes)));
  if (summary.copy_seconds + summary.write_seconds > 0)
    text += fmt::format("Saves: {} for copies, {} for writing, per step and rank.\n",
                        milliseconds(summary.copy_seconds), milliseconds(summary.write_seconds));
  return text;
}

std::string text_of_gaps(const TraceSummary& summary) {
  std::string text;
  if (!summary.missing.empty())
    text += fmt::format("There is no file of rank {}: it ended too early, or its node did not see the run folder.\n",
                        fmt::join(summary.missing, ", "));
  if (!summary.torn.empty())
    text += fmt::format("The file of rank {} ends in the middle of a record, as after a crash; the rest counts.\n",
                        fmt::join(summary.torn, ", "));
  if (summary.lost > 0)
    text += fmt::format("{} spans are missing, because there was no room for them: trace fewer steps.\n", summary.lost);
  if (summary.unmatched > 0)
    text +=
        fmt::format("{} messages have one side only, as at the ends of a trace or after a loss.\n", summary.unmatched);
  return text;
}
}  // namespace

double TraceSummary::hidden_share() const {
  return sum_seconds > 0 ? std::clamp(1 - exposed_seconds / sum_seconds, 0.0, 1.0) : 0;
}

TraceSummary summarize_trace(const Trace& trace) {
  TraceSummary summary = Summing(trace)();
  advise(summary);
  return summary;
}

std::string to_text(const TraceSummary& summary) {
  std::string text = fmt::format(
      "Steps {}:{} on {} rank{}: {} per step, {} with what lies between steps. Times of two ranks compare within "
      "{:.3g} us.\n",
      summary.steps.first, summary.steps.last, summary.ranks.size(), summary.ranks.size() == 1 ? "" : "s",
      milliseconds(summary.step_seconds), milliseconds(summary.period_seconds), summary.clock_error_seconds * 1e6);
  text += "Where the time goes, mean over the ranks:\n";
  for (const auto& phase : summary.phases) text += line(printable(phase.name), phase.seconds, phase.share);
  if (!summary.layers.empty()) text += "The layers that take longest, forward and backward:\n";
  for (std::size_t i = 0; i < std::min(kMostShown, summary.layers.size()); ++i)
    text += line(printable(summary.layers[i].name), summary.layers[i].seconds, summary.layers[i].share);
  text += text_of_ranks(summary) + text_of_sums(summary) + text_of_gaps(summary);
  for (const auto& advice : summary.advice) text += advice + "\n";
  return text;
}

std::string to_json_text(const TraceSummary& summary) {
  const auto shares = [](const std::vector<TraceSummary::Share>& all) {
    Json list = Json::array();
    for (const auto& one : all) list.push_back({{"name", one.name}, {"seconds", one.seconds}, {"share", one.share}});
    return list;
  };
  Json ranks = Json::array(), waits = Json::array();
  for (const auto& rank : summary.ranks)
    ranks.push_back({{"rank", rank.rank},
                     {"host", rank.host},
                     {"compute_seconds", rank.compute_seconds},
                     {"waited_seconds", rank.waited_seconds},
                     {"awaited_seconds", rank.awaited_seconds},
                     {"net_awaited_seconds", rank.net_awaited_seconds()}});
  for (const auto& wait : summary.waits)
    waits.push_back({{"rank", wait.rank}, {"awaited", wait.awaited}, {"seconds", wait.seconds}});
  const Json all{{"first_step", summary.steps.first},
                 {"last_step", summary.steps.last},
                 {"steps", summary.count},
                 {"step_seconds", summary.step_seconds},
                 {"period_seconds", summary.period_seconds},
                 {"clock_error_seconds", summary.clock_error_seconds},
                 {"phases", shares(summary.phases)},
                 {"layers", shares(summary.layers)},
                 {"ranks", ranks},
                 {"waits", waits},
                 {"sum_seconds", summary.sum_seconds},
                 {"exposed_seconds", summary.exposed_seconds},
                 {"hidden_share", summary.hidden_share()},
                 {"copy_seconds", summary.copy_seconds},
                 {"write_seconds", summary.write_seconds},
                 {"messages", summary.messages},
                 {"message_bytes", summary.message_bytes},
                 {"unmatched_messages", summary.unmatched},
                 {"lost_spans", summary.lost},
                 {"missing_ranks", summary.missing},
                 {"torn_ranks", summary.torn},
                 {"advice", summary.advice}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace distdl::observe
