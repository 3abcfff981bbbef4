// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <distdl/base/ids.hpp>

// How a kind of record is described: a plain struct, its `kKind`, and one describe(record, visit), which calls
//   visit(name, member, unit, meaning)            or, for a gauge of OpenMetrics,
//   visit(name, member, unit, meaning, metric)
// for each field in the order of the row. A member without a field is for the observers of the run alone. The writer,
// the reader, the table of docs/metrics.md, OpenMetrics and TensorBoard follow from it.
namespace distdl::records {

/// The files that have the rows of a kind.
enum class File { metrics, journal, health, bad_nodes };

/// Whether the rows of a file have the name of their kind, as `event`.
constexpr bool has_event(File file) {
  return file == File::journal || file == File::bad_nodes;
}

/// How rows of a kind differ from most others of the journal.
struct RowTraits {
  bool is_of_training = false;  ///< rank 0 writes such rows while it trains: the time between two of them is training
  bool is_frequent = false;     ///< a long journal gets such a row only now and then, because a resume reads none
  bool is_replaced = false;     ///< only the newest one tells what a run does now
};

struct Kind {
  std::string_view name, meaning;
  RowTraits traits = {};
  File file = File::journal;
};

/// The step of a row that has none, though all of its kind have one: it is damaged.
inline constexpr Step kNoStep{-1};

/// `R` is `Record` or a const one: describe() takes both.
template <class R, class Record>
concept Is = std::same_as<std::remove_const_t<R>, Record>;

/// A field that rows have only where `is_written`. Readers take it wherever it is.
template <class T>
struct WrittenIf {
  T& value;
  bool is_written;
};

template <class T>
WrittenIf<T> written_if(bool is_written, T& value) {
  return {value, is_written};
}

inline bool is_any(bool value) {
  return value;
}
inline bool is_any(double value) {
  return value > 0;
}
inline bool is_any(const std::string& value) {
  return !value.empty();
}
template <class T>
bool is_any(const std::vector<T>& value) {
  return !value.empty();
}

/// A field that rows lack if it is empty, false, or not above 0.
template <class T>
WrittenIf<T> if_any(T& value) {
  return {value, is_any(value)};
}

/// An optional that is null in the row, not missing, if it has no value.
template <class T>
struct OrNull {
  T& value;
};

template <class T>
OrNull<T> or_null(T& value) {
  return {value};
}

/// A list of names as one text, separated by commas.
template <class T>
struct Joined {
  T& value;
};

template <class T>
Joined<T> joined(T& value) {
  return {value};
}

// Meanings of fields that many kinds have.
inline constexpr const char *kStepMeaning = "optimizer steps done when it happened", *kReasonMeaning = "why, in words",
                            *kCauseMeaning = "why, in words",
                            *kCauseCodeMeaning = "the same as a code of the table below",
                            *kCodeMeaning = "exit code, see docs/exit-codes.md; 128 + n: ended by signal n",
                            *kJobMeaning = "id of the Slurm job; missing without Slurm",
                            *kChainMeaning = "id of the chain of jobs that it is a link of",
                            *kRanksMeaning = "number of ranks",
                            *kNodesMeaning = "names of the nodes, separated by commas",
                            *kWentBackMeaning = "why the last move is taken back, in words; missing: it is not";

}  // namespace distdl::records
