// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include <distdl/app/sweep/tournament.hpp>
#include <distdl/base/errors.hpp>
#include <distdl/base/json/numbers.hpp>
#include <distdl/base/log.hpp>
#include <distdl/base/philox.hpp>
#include <distdl/base/shortage.hpp>
#include <distdl/checkpoint/commit/adoption.hpp>
#include <distdl/checkpoint/commit/tags.hpp>

namespace distdl::app {
namespace {
using RoundJson = nlohmann::ordered_json;

constexpr std::uint64_t kLongestRound = 1 << 20;  ///< bytes of a file
constexpr std::uint64_t kPairs = 0x70616972;      ///< keeps these draws apart from those of the keys

std::filesystem::path file_of_round(const std::filesystem::path& folder, std::int64_t round) {
  return folder / fmt::format("round-{:04}.json", round);
}

/// In an order that is drawn.
std::vector<std::size_t> shuffled(std::vector<std::size_t> runs, std::int64_t seed, std::int64_t round) {
  std::vector<std::pair<std::uint64_t, std::size_t>> drawn;
  for (const std::size_t run : runs) {
    const auto block =
        Philox::block(static_cast<std::uint64_t>(seed) ^ kPairs << 32, static_cast<std::uint64_t>(round), run);
    drawn.emplace_back(std::uint64_t{block[0]} << 32 | block[1], run);
  }
  std::sort(drawn.begin(), drawn.end());
  std::transform(drawn.begin(), drawn.end(), runs.begin(), [](const auto& each) { return each.second; });
  return runs;
}

std::optional<TournamentRound> read_round(const std::filesystem::path& folder, std::int64_t round) {
  const auto file = file_of_round(folder, round);
  const auto text = read_text(real_file_system(), file, kLongestRound);
  return text ? std::optional(round_from(*text, file.string())) : std::nullopt;
}

/// The model of another run, and its best one: the tag "best" is that of the evaluations which go on in the model's
/// state.
void take_over_model(const std::filesystem::path& from, const std::filesystem::path& root, Step step) {
  auto& files = real_file_system();
  checkpoint::adopt_checkpoint(files, from, root, step);
  const auto theirs = checkpoint::read_tags(files, from), own = checkpoint::read_tags(files, root);
  if (const auto best = theirs.find("best"); best != theirs.end()) {
    if (best->second != step) checkpoint::adopt_checkpoint(files, from, root, best->second);
    checkpoint::add_tag(files, root, best->second, "best", true);
  } else if (const auto old = own.find("best"); old != own.end()) {
    checkpoint::remove_tag(files, root, old->second, "best");
  }
}

void write_round(const std::filesystem::path& folder, const TournamentRound& round) {
  replace_text(real_file_system(), file_of_round(resolved(folder), round.round), to_text(round));
}
}  // namespace

TournamentRound draw_round(const Sweep& sweep, const std::vector<SweptRun>& runs, std::int64_t round) {
  TournamentRound drawn{round, round * sweep.first_steps, {}, false};
  std::vector<std::size_t> present;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const bool has_steps_left = runs[run].state == SweptRun::State::paused && runs[run].steps == drawn.step;
    if (has_steps_left && runs[run].value) present.push_back(run);
  }
  present = shuffled(std::move(present), sweep.seed, round);
  for (std::size_t i = 0; i + 1 < present.size(); i += 2) {
    auto [one, other] = std::minmax(present[i], present[i + 1]);
    const bool other_wins = is_better_value(sweep.metric, runs[other].value, runs[one].value);
    drawn.meetings.push_back(other_wins ? Meeting{other, one} : Meeting{one, other});
  }
  return drawn;
}

std::string to_text(const TournamentRound& round) {
  RoundJson meetings = RoundJson::array();
  for (const Meeting& each : round.meetings) meetings.push_back({{"winner", each.winner}, {"loser", each.loser}});
  return RoundJson{{"round", round.round}, {"step", round.step}, {"meetings", meetings}, {"held", round.is_held}}.dump(
             2) +
         "\n";
}

TournamentRound round_from(const std::string& text, const std::string& name) try {
  const auto row = nlohmann::json::parse(text);
  TournamentRound round{whole_in<std::int64_t>(row, "round"), whole_in<std::int64_t>(row, "step"), {}, row.at("held")};
  for (const auto& each : row.at("meetings"))
    round.meetings.push_back({whole_in<std::uint32_t>(each, "winner"), whole_in<std::uint32_t>(each, "loser")});
  return round;
} catch (const std::exception& error) {
  pass_on_shortage(error);
  throw StorageError(fmt::format("\"{}\" is damaged: {}; remove it, and the round is held anew", name, error.what()),
                     ExitCode::corrupt);
}

std::int64_t rounds_held(const std::filesystem::path& folder) {
  std::int64_t held = 0;
  while (true) {
    const auto next = read_round(folder, held + 1);
    if (!next || !next->is_held) return held;
    ++held;
  }
}

TournamentRound hold_round(const Sweep& sweep, const std::vector<SweptRun>& runs, std::int64_t round) {
  const std::filesystem::path folder = sweep.folder;
  auto now = read_round(folder, round);
  if (!now) {
    now = draw_round(sweep, runs, round);
    write_round(folder, *now);
  }
  for (const auto& [winner, loser] : now->meetings) {
    require<StorageError>(winner < runs.size() && loser < runs.size(), "\"{}\" names a run that the sweep lacks",
                          file_of_round(folder, round).string());
    take_over_model(folder / name_of_run(winner) / "checkpoints", folder / name_of_run(loser) / "checkpoints",
                    Step(now->step));
    log(Severity::info, "round {}: run {} goes on with the model of run {}", round, name_of_run(loser),
        name_of_run(winner));
  }
  now->is_held = true;
  write_round(folder, *now);
  return *now;
}

}  // namespace distdl::app
