// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <distdl/app/sweep/sweep_plan.hpp>

// Rounds of a tournament, as LBANN's LTFB: after some steps runs meet in pairs, and both go on with the model of the
// better one, each with its own keys. Jacobs et al., "Parallelizing training of deep generative models on massive
// scientific datasets", CLUSTER 2019; Van Essen et al., "LBANN", MLHPC 2015.
namespace distdl::app {

/// A pair of a round.
struct Meeting {
  std::size_t winner = 0, loser = 0;
  bool operator==(const Meeting&) const = default;
};

struct TournamentRound {
  std::int64_t round = 1;
  std::int64_t step = 0;  ///< step of the models
  std::vector<Meeting> meetings = {};
  bool is_held = false;  ///< all losers have the models of their winners
};

/// Draws pairs among the runs that have a value at the end of the round and have steps left. Who is drawn depends on
/// seed and round; of an odd number, one meets nobody. Of equal values the lower number wins.
TournamentRound draw_round(const Sweep& sweep, const std::vector<SweptRun>& runs, std::int64_t round);

std::string to_text(const TournamentRound& round);
/// Throws StorageError (corrupt) that names the file `name` if to_text() did not make the text.
TournamentRound round_from(const std::string& text, const std::string& name);

/// How many rounds have been held in the folder of a sweep, by the files round-0001.json ... there.
std::int64_t rounds_held(const std::filesystem::path& folder);

/// Holds the next round: notes who meets, unless an earlier start has, gives the losers the checkpoints of the winners,
/// and notes that. No run may be at work. Throws StorageError.
TournamentRound hold_round(const Sweep& sweep, const std::vector<SweptRun>& runs, std::int64_t round);

}  // namespace distdl::app
