// SPDX-License-Identifier: Apache-2.0
// Any bytes as what lies in a run folder and beside its checkpoints: names, OWNER, HISTORY, tags, LOCK, journal.jsonl,
// metrics.jsonl, result.json, RUN, logs. (LATEST is for people; distdl does not read it.)
#include <algorithm>
#include <cmath>

#include "target.hpp"
#include <distdl/checkpoint/commit/history.hpp>
#include <distdl/checkpoint/commit/ownership.hpp>
#include <distdl/checkpoint/commit/tags.hpp>
#include <distdl/checkpoint/disk_snapshots.hpp>
#include <distdl/checkpoint/format/layout.hpp>
#include <distdl/launch/folder_lock.hpp>
#include <distdl/observe/record_lines.hpp>
#include <distdl/observe/run/ledger.hpp>
#include <distdl/observe/run/run_folder.hpp>
#include <distdl/observe/run/run_identity.hpp>
#include <distdl/observe/run/run_summary.hpp>
#include <distdl/observe/trace/log_merge.hpp>

namespace {
using namespace distdl;
using namespace distdl::checkpoint;

bool is_plain(std::string_view name) {
  return name.find('/') == name.npos && name.find('\0') == name.npos && name != "." && name != "..";
}

/// An entry of a checkpoint root, of its quarantine, of a checkpoint, of a local disk.
void read_name(std::string_view name) {
  using Kind = EntryName::Kind;
  const EntryName entry = parse_entry_name(name);
  fuzz::demand(entry.kind == Kind::unknown || is_plain(name), "what is distdl's stays in its folder");
  if (entry.kind == Kind::checkpoint) fuzz::demand(name == step_folder_name(entry.step.value()), "a step has one name");
  if (entry.step) {
    const std::string folder = step_folder_name(*entry.step);
    fuzz::demand(parse_entry_name(folder).step == entry.step, "a step can be written and read again");
    fuzz::demand(parse_entry_name(folder + ".0123abcd").kind == Kind::quarantined, "it can be set aside");
  }
  fuzz::demand(!is_data_file_name(name) || is_plain(name), "a file of a checkpoint stays in its folder");
  fuzz::demand(!is_tag_name(name) || is_plain(name), "a tag stays in its folder");
  if (is_valid_name(name)) fuzz::demand(("/" + std::string(name) + "/").find("/../") == name.npos, "no way out");
  if (const auto label = parse_disk_snapshot_name(name, "run")) {
    fuzz::demand(label->rank >= 0 && label->rank < label->world, "a rank is one of its world");
    fuzz::demand(parse_disk_snapshot_name(disk_snapshot_name(*label, "run") + "0123abcd", "run") == label,
                 "a buffer's name can be written and read again");
  }
}

/// Input: two bytes with the length of the name, the name, what is in the file.
void read_tag(std::string_view input) {
  fuzz::Input rest(input);
  const std::string_view name = rest.text();
  if (const auto step = tagged_step(name, rest.rest()))
    fuzz::demand(step_folder_name(*step) + "\n" == rest.rest(), "a tag is what add_tag() makes");
}

void read_owner(std::string_view input) {
  const std::string text = to_text(owner_from(std::string(input)));
  fuzz::demand(to_text(owner_from(text)) == text, "an owner can be written and read again");
}

void read_history(std::string_view input) {
  std::vector<Event> events = events_in(std::string(input));
  std::string text;
  for (Event& event : events) {
    event.time = std::max<std::int64_t>(event.time, 1);  // 0 is now
    event.reason.resize(std::min<std::size_t>(event.reason.size(), 2000));
    text += to_text(event);
  }
  const std::vector<Event> again = events_in(text);
  fuzz::demand(again.size() == events.size(), "a history can be written and read again");
  for (std::size_t i = 0; i < events.size(); ++i)
    fuzz::demand(again[i].fate == events[i].fate && again[i].step == events[i].step && again[i].time == events[i].time,
                 "an event can be written and read again");
}

void read_lock(std::string_view input) {
  const auto holder = launch::holder_from(std::string(input));
  if (!holder) return;
  const std::string text = to_text(*holder);
  const auto again = launch::holder_from(text);
  fuzz::demand(again && to_text(*again) == text, "a lock can be written and read again");
}

std::vector<records::Row> records_in(std::string_view text, std::size_t piece) {
  std::vector<records::Row> rows;
  observe::RecordLines lines([&](const records::Row& row) { rows.push_back(row); });
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) lines.take(text.substr(0, piece));
  lines.finish();
  return rows;
}

/// Input: a byte with the length of the pieces, the lines.
void read_records(std::string_view input) {
  fuzz::Input rest(input);
  const std::size_t piece = 1 + rest.number<unsigned char>();
  const auto whole = records_in(rest.rest(), input.size()), cut = records_in(rest.rest(), piece);
  fuzz::demand(whole.size() == cut.size(), "the same records come in pieces");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    fuzz::demand(text_of(whole[i]) == text_of(cut[i]), "a record is the same in pieces");
    const auto* const started = whole[i].as<records::Started>();
    fuzz::demand((!started || started->steps_repeated >= 0) && whole[i].time >= 0 &&
                     step_of(whole[i].record).value_or(Step(0)) >= Step(0),
                 "numbers beyond all reason are left out");
    if (whole[i].is<records::Other>()) continue;
    const auto again = records::parse_row(text_of(whole[i]));
    fuzz::demand(again && text_of(*again) == text_of(whole[i]), "a record can be written and read again");
  }
}

/// Input: two bytes with the length of the journal, the journal, the metrics.
void read_ledger(std::string_view input) {
  fuzz::Input rest(input);
  const auto journal = records_in(rest.text(), input.size()), metrics = records_in(rest.rest(), input.size());
  const observe::Ledger ledger = observe::ledger_of(journal, metrics, 2e9);
  double sum = 0;
  for (const auto& entry : observe::kBuckets) {
    const double seconds = ledger[entry.bucket];
    fuzz::demand(seconds >= -1e-3, "no bucket has less than nothing");
    sum += seconds;
  }
  fuzz::demand(std::abs(sum - ledger.wall()) <= 0.01 * ledger.wall() + 1e-3, "each second is in one bucket");
  const auto summary = observe::summarize(journal, metrics);
  fuzz::demand(summary.restarts.size() <= journal.size() && summary.steps_per_second >= 0, "a run goes forward");
}

void read_identity(std::string_view input) {
  const auto identity = observe::identity_from(std::string(input));
  if (!identity) return;
  const auto again = observe::identity_from(observe::to_text(*identity));
  fuzz::demand(again && again->id == identity->id, "an identity can be written and read again");
}

void read_log_line(std::string_view input) {
  const auto line = observe::parse_log_line(input, "n1", {});
  fuzz::demand(line.text.size() <= input.size() && (line.time.empty() || input.starts_with(line.time)),
               "a line has the time that it begins with");
}

void read_result(std::string_view input) {
  const std::string text = to_text(observe::result_from(std::string(input), "result.json"));
  fuzz::demand(to_text(observe::result_from(text, "result.json")) == text, "a result can be written and read again");
}

const fuzz::Target name("name", &read_name), tag("tag", &read_tag), owner("owner", &read_owner),
    history("history", &read_history), lock("lock", &read_lock), record("record", &read_records),
    result("result", &read_result), ledger("ledger", &read_ledger), identity("run_identity", &read_identity),
    log_line("log_line", &read_log_line);
}  // namespace
