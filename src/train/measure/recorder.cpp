// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <exception>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/train/measure/recorder.hpp>

namespace distdl::train {
namespace {
constexpr std::uint32_t kQuestion = 0x5452, kAnswer = 0x5453, kResult = 0x5454;  ///< tags
constexpr int kQuestions = 8;                                                    ///< per rank

struct Result {
  std::int64_t offset, error;
  std::uint64_t start;
};

template <class Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class Value>
std::span<std::byte> bytes_of(Value& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

Result ask(comm::Communicator& communicator, Rank rank, std::uint64_t start) {
  Result best{0, std::numeric_limits<std::int64_t>::max(), start};
  for (int i = 0; i < kQuestions; ++i) {
    const std::int64_t begin = span_clock();
    std::int64_t theirs = 0;
    communicator.send(bytes_of(begin), rank, kQuestion).wait();
    communicator.receive(bytes_of(theirs), rank, kAnswer).wait();
    const std::int64_t error = (span_clock() - begin + 1) / 2;
    if (error < best.error) best.offset = theirs - (begin + error), best.error = error;
  }
  communicator.send(bytes_of(best), rank, kResult).wait();
  return best;
}

Result answer(comm::Communicator& communicator) {
  for (int i = 0; i < kQuestions; ++i) {
    std::int64_t question = 0;
    communicator.receive(bytes_of(question), Rank(0), kQuestion).wait();
    const std::int64_t now = span_clock();
    communicator.send(bytes_of(now), Rank(0), kAnswer).wait();
  }
  Result result{};
  communicator.receive(bytes_of(result), Rank(0), kResult).wait();
  return result;
}

std::optional<std::int64_t> step_in(std::string_view text) {
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && step >= 1 ? std::optional(step) : std::nullopt;
}
}  // namespace

TracedSteps traced_steps_from(const std::string& text, const std::string& what) {
  const auto colon = text.find(':');
  const auto first = step_in(std::string_view(text).substr(0, colon));
  const auto last = colon == std::string::npos ? first : step_in(std::string_view(text).substr(colon + 1));
  require(
      first && last && *first <= *last,
      "{} is \"{}\", but must be the first and the last step to trace, such as \"100:110\", or one step; steps count "
      "from 1, as in metrics.jsonl",
      what, text);
  return {*first, *last};
}

std::optional<TracedSteps> traced_steps_or_off(const std::string& text, const std::string& what) {
  if (text == "off") return std::nullopt;
  return traced_steps_from(text, what);
}

std::pair<ClockOffset, std::uint64_t> measure_clocks(comm::Communicator& communicator, std::uint64_t start) {
  Result own{0, 0, start};
  if (communicator.rank() != Rank(0))
    own = answer(communicator);
  else
    for (Rank rank(1); rank.value < communicator.size(); ++rank.value) ask(communicator, rank, start);
  return {{span_clock(), own.offset, own.error}, own.start};
}

Tracing::Tracing(const std::optional<TraceSetting>& setting, comm::Communicator& communicator)
    : setting_(setting), communicator_(communicator) {
  if (!setting) return;
  recorder_ = std::make_shared<SpanRecorder>();
  thread_.emplace(recorder_, "train");
}

Tracing::~Tracing() {
  if (!writer_) return;
  recorder_->set_on(false);
  if (span_track != nullptr) span_track->split_phase();
  try {
    keep();
    writer_->end();
  } catch (const std::exception& error) {  // there is no memory left: what was written counts
    log(Severity::warning, "the last spans of this rank are lost: {}", error.what());
  }
}

void Tracing::start() {
  const double time = seconds_since_1970();
  const auto [offset, start] = measure_clocks(communicator_, static_cast<std::uint64_t>(time * 1000));
  const Rank rank = communicator_.rank();
  const TraceHeader header{.start = fmt::format("{:015}", start),
                           .rank = rank.value,
                           .ranks = communicator_.size(),
                           .host = communicator_.host(rank),
                           .steps = setting_->steps,
                           .time = seconds_since_1970(),
                           .clock = span_clock(),
                           .layers = layers_};
  writer_ = std::make_unique<TraceWriter>(setting_->folder / header.start / fmt::format("rank-{:05}.spans", rank.value),
                                          header);
  writer_->add(offset);
  writer_->flush();
  recorder_->set_on(true);
  if (span_track != nullptr) span_track->split_phase();
}

void Tracing::keep() {
  for (SpanTrack* const track : recorder_->tracks()) writer_->add(*track);
  writer_->flush();
}

void Tracing::before_step(Step step) {
  constexpr std::chrono::seconds kEvery{1};
  if (!recorder_) return;
  if (!writer_) {
    if (setting_->steps.has(step.value)) start();
    return;
  }
  if (!recorder_->is_on()) return;
  if (step.value > setting_->steps.last) return end();
  if (Clock::now() < next_keep_ && !recorder_->any_is_full_to_a_quarter()) return;
  next_keep_ = Clock::now() + kEvery;
  keep();
}

void Tracing::end() {
  if (!writer_ || !recorder_->is_on()) return;
  recorder_->set_on(false);
  if (span_track != nullptr) span_track->split_phase();
  writer_->add(measure_clocks(communicator_, 0).first);
  keep();
  writer_->end();
  if (communicator_.rank() == Rank(0))
    log(Severity::info, "the steps {}:{} were traced; \"distdl trace\" shows them", setting_->steps.first,
        setting_->steps.last);
}

}  // namespace distdl::train
