// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <distdl/base/ids.hpp>

// Names of the files and folders of a checkpoint root. See docs/checkpoint-format.md.
namespace distdl::checkpoint {

inline constexpr std::size_t kBlockBytes = std::size_t{4} << 20;  ///< bytes with a CRC-32C of their own
inline constexpr const char* kManifestName = "MANIFEST";
inline constexpr const char* kOwnerName = "OWNER";
inline constexpr const char* kLatestName = "LATEST";
inline constexpr const char* kHistoryName = "HISTORY";
inline constexpr const char* kTagsName = "tags";
inline constexpr const char* kQuarantineName = "quarantine";
inline constexpr const char* kReasonName = "REASON";  ///< in each folder in quarantine
inline constexpr const char* kStagePrefix = ".stage-";
inline constexpr const char* kTrashPrefix = ".trash-";
inline constexpr const char* kViewName = "view.h5";  ///< in a step's folder: its export_view()

/// "step-000000001200"
std::string step_folder_name(Step step);
/// The step of such a name. Returns nothing for any other name.
std::optional<Step> step_of_folder(std::string_view name);
/// "node0003.h5"
std::string data_file_name(int writer);
/// Whether a manifest may name this file. Only results of data_file_name() are allowed, so a path cannot leave the
/// folder.
bool is_data_file_name(std::string_view name);
/// Whether a tensor or a state key may have this name: parts of printable ASCII joined by '/', none of them empty, "."
/// or "..".
bool is_valid_name(std::string_view name);
/// A name that begins with another name and a '/', as "x/0" beside "x"; HDF5 cannot contain both. Empty if there is
/// none.
std::string_view name_within_another(const std::set<std::string_view>& names);

/// The kind of an entry of a root, or of its quarantine, according to its name. parse_entry_name() is the only place
/// that distinguishes these names. An `unknown` entry belongs to the user, and is never moved or removed.
struct EntryName {
  enum class Kind {
    checkpoint,   ///< "step-000000001200"
    stage,        ///< ".stage-1200.<random>"
    trash,        ///< ".trash-<random>" or ".trash-<the name before>.<random>"
    quarantined,  ///< "step-000000001200.<random>"
    half,         ///< ".OWNER.<random>", of OWNER, LATEST or HISTORY: being written
    own,          ///< OWNER, LATEST, HISTORY, tags or quarantine
    unknown
  };
  Kind kind = Kind::unknown;
  std::optional<Step> step{};  ///< for checkpoints, stages, quarantined checkpoints, and trash of checkpoints
};
/// Accepts any bytes. <random> stands for 4 to 64 lower-case hexadecimal digits.
EntryName parse_entry_name(std::string_view name);
/// Names that are not in use yet.
std::string stage_name(Step step);
std::string trash_name(std::string_view name_before);
std::string quarantined_name(std::string_view label);

/// The checkpoints in a root by step, intact or not. Throws StorageError if the folder cannot be read.
std::map<Step, std::filesystem::path> step_folders(const std::filesystem::path& root);
/// The entries of a folder whose names begin with `prefix`.
std::vector<std::filesystem::path> entries_with_prefix(const std::filesystem::path& root, std::string_view prefix);
/// The entries of a root whose names are of this kind.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& root, EntryName::Kind kind);

}  // namespace distdl::checkpoint
