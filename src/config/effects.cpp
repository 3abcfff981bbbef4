// SPDX-License-Identifier: Apache-2.0
// The table of what each key needs to have an effect: a new key has a word in one row. Checks and documents are made
// from it.
#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <tuple>

#include <fmt/ranges.h>

#include <distdl/base/errors.hpp>
#include <distdl/base/log.hpp>
#include <distdl/config/effects.hpp>

namespace distdl::config {
namespace {
enum class Holds { one_of, none_of, when_set };

/// Something about the value of another key, or about the surroundings.
struct Term {
  std::string key;
  Holds holds;
  std::vector<std::string> values = {};
};

/// One of the terms must hold.
struct Need {
  std::vector<Term> any;
  bool is_harmless = false;  ///< see IgnoredKeys

  Need operator||(const Need& other) const {
    Need both = *this;
    both.any.insert(both.any.end(), other.any.begin(), other.any.end());
    return both;
  }
  Need harmless() const { return {any, true}; }
};

Need with(const char* key, std::vector<std::string> values) {
  return {{{key, Holds::one_of, std::move(values)}}};
}
Need without(const char* key, std::vector<std::string> values) {
  return {{{key, Holds::none_of, std::move(values)}}};
}
/// The value is not the default.
Need when_set(const char* key) {
  return {{{key, Holds::when_set}}};
}

struct Row {
  const char* keys;  ///< separated by blanks
  std::vector<Need> needs = {};
};

constexpr const char *kLaunch = "launch", *kData = "data set";  // terms about the surroundings
constexpr const char* kModel = "model.name";

std::vector<Row> rows() {  // NOLINT(readability-function-size): it is one table
  const Need slurm = with(kLaunch, {"Slurm"}).harmless();
  const Need agents = with("run.recovery", {"agents"});
  const Need preflight = without("run.preflight", {"off"}).harmless();
  const Need program = when_set("run.command");
  const Need images = with(kData, {"images", "encoded images"});
  const Need pictures = without(kModel, {"gpt"});
  const Need encoded = with(kData, {"encoded images"});
  const Need gpt = with(kModel, {"gpt"}), blocks = with(kModel, {"gpt", "vit"});
  const Need compares = when_set("train.keep_best") || when_set("train.stop_early_patience");
  const Need gpu = with("kernels.backend", {"cuda", "auto"}).harmless();
  const Need pipeline = when_set("parallel.pipeline_ranks") || with("parallel.strategy", {"auto"});
  const Need groups = with("parallel.strategy", {"local_sgd"});
  const Need servers = with("parallel.strategy", {"parameter_server"});
  const Need nesterov = with("parallel.outer", {"nesterov"});
  const Need adam = with("optim.name", {"adamw", "lamb"});
  const Need losses = with("alert.when", {"loss rising", "throughput halved"});
  return {
      {"run.dir run.devices_per_rank run.relaunches run.grace_seconds run.hangup run.preflight run.failure_predictor "
       "run.rank_frozen_seconds run.stalled_seconds run.stalled_save_seconds run.stalled_stop_seconds "
       "run.stalled_at_most_seconds run.command"},
      {"run.requeue run.pause_seconds run.probe_seconds run.node_minutes run.scheduler_minutes run.mpi run.recovery "
       "run.node_lost_seconds",
       {slurm}},
      {"run.bad_node_hours", {preflight, slurm}},
      {"run.preflight_seconds run.slow_node_share", {preflight}},
      {"run.spares", {agents, slurm}},
      {"run.most_nodes run.regrow_seconds", {agents.harmless(), slurm}},
      {"run.container run.parameters run.stop_signal run.progress_pattern run.progress_file run.metrics run.output",
       {program}},
      {"slurm.nodes slurm.time slurm.partition slurm.account slurm.qos slurm.constraint slurm.tasks_per_node "
       "slurm.cpus_per_task slurm.gpus_per_node slurm.memory slurm.exclusive slurm.signal slurm.job_name slurm.options "
       "slurm.setup",
       {slurm}},

      {"data.train data.sets data.source data.validation"},
      {"data.weights", {when_set("data.sets")}},
      {"data.stage", {with("data.source", {""}).harmless()}},
      {"data.normalize", {pictures}},
      {"data.holdout", {with("data.validation", {""})}},
      {"data.cache_mib", {pictures.harmless()}},
      {"data.crop", {pictures, with(kData, {"images"})}},
      {"data.mirror data.color_jitter data.rand_augment data.random_erasing data.mixup data.cutmix",
       {pictures, images}},
      {"data.rand_augment_magnitude", {when_set("data.rand_augment")}},
      {"data.crop_area data.resize data.upright", {pictures, encoded}},
      {"data.decode_threads", {encoded.harmless()}},

      {"model.name model.label_smoothing"},
      {"model.hidden model.batch_norm", {with(kModel, {"mlp", "lenet", "fcn"})}},
      {"model.stem", {with(kModel, {"resnet18", "resnet34", "resnet50"})}},
      {"model.layers model.width model.heads model.dropout", {blocks}},
      {"model.kv_heads model.context model.vocabulary model.variant model.tied_head model.mlp_width "
       "model.norm_epsilon",
       {gpt}},
      {"model.gelu", {with("model.variant", {"gpt2"}), gpt}},
      {"model.rotary_base model.qkv_bias", {with("model.variant", {"llama"}), gpt}},
      {"model.patch", {with(kModel, {"vit"})}},

      {"train.steps train.end_at_step train.seed train.evaluate_every train.evaluate_every_steps train.keep_best "
       "train.stop_early_patience train.audit_every train.stop_margin_seconds train.balance"},
      {"train.epochs", {with("train.steps", {"0"}).harmless()}},
      {"train.best_metric train.best_min_delta", {compares}},
      {"train.check_resumed_loss", {with("kernels.deterministic", {"true"}).harmless()}},

      {"parallel.strategy parallel.recompute parallel.microbatches parallel.microbatch_size parallel.pipeline_ranks "
       "parallel.compression"},
      {"parallel.tensor_shards", {with(kModel, {"gpt", "vit", "resnet18", "resnet34", "resnet50"})}},
      {"parallel.tensor_ranks", {when_set("parallel.tensor_shards")}},
      {"parallel.context_chunks", {gpt}},
      {"parallel.context_ranks", {when_set("parallel.context_chunks")}},
      {"parallel.schedule parallel.stage_layers", {pipeline}},
      {"parallel.interleave", {with("parallel.schedule", {"interleaved"})}},
      {"parallel.bucket_mib", {without("parallel.strategy", {"parameter_server"}).harmless()}},
      {"parallel.compression_fraction", {with("parallel.compression", {"topk"})}},
      {"parallel.compression_rank", {with("parallel.compression", {"powersgd"})}},
      {"parallel.compression_warmup_steps", {with("parallel.compression", {"topk", "onebit", "powersgd"})}},
      {"parallel.compression_of_parameters",
       {without("parallel.compression", {"none"}), with("parallel.strategy", {"sharded", "sharded_gradients"})}},
      {"parallel.groups parallel.local_steps parallel.outer", {groups}},
      {"parallel.outer_learning_rate parallel.outer_momentum", {nesterov}},
      {"parallel.server_mode parallel.server_steps parallel.server_partners parallel.server_pulls cluster.ps.tasks "
       "cluster.ps.placement cluster.worker.tasks cluster.interface",
       {servers}},
      {"parallel.staleness", {with("parallel.server_mode", {"bounded"})}},
      {"parallel.delay_compensation", {with("parallel.server_mode", {"bounded", "asynchronous"})}},

      {"optim.name optim.learning_rate optim.scale_rate optim.weight_decay optim.schedule optim.warmup_steps "
       "optim.clip_norm optim.ema_decay"},
      {"optim.base_batch", {with("optim.scale_rate", {"linear", "sqrt"})}},
      {"optim.momentum", {with("optim.name", {"sgd", "lars"})}},
      {"optim.nesterov", {with("optim.name", {"sgd"})}},
      {"optim.beta1 optim.beta2 optim.epsilon", {adam}},
      {"optim.trust_coefficient", {with("optim.name", {"lars"})}},
      {"optim.decay_one_dimensional", {with("optim.name", {"adamw", "lamb", "lars"})}},
      {"optim.final_rate_share", {with("optim.schedule", {"cosine", "linear"})}},
      {"optim.milestones optim.milestone_factor", {with("optim.schedule", {"step"})}},
      {"optim.statistic_weight", {with(kModel, {"resnet18", "resnet34", "resnet50"}) || when_set("model.batch_norm")}},

      {"kernels.backend kernels.precision kernels.threads"},
      {"kernels.replay kernels.deterministic comm.gpu_transport", {gpu}},

      {"checkpoint.every checkpoint.keep checkpoint.keep_every checkpoint.partial checkpoint.verify_after_write "
       "checkpoint.timeout_seconds checkpoint.mode checkpoint.memory_every checkpoint.partner_every "
       "checkpoint.parity_every checkpoint.disk_every checkpoint.copy_threads checkpoint.write_threads "
       "checkpoint.compression"},
      {"checkpoint.mtbf_hours", {with("checkpoint.every", {"auto"})}},
      {"checkpoint.parity_set", {when_set("checkpoint.parity_every")}},
      {"checkpoint.disk_folder", {when_set("checkpoint.disk_every")}},
      {"checkpoint.failure_domain", {when_set("checkpoint.partner_every") || when_set("checkpoint.parity_every")}},

      {"comm.timeout_seconds comm.connect_timeout_seconds comm.interface comm.shared_memory_ranks"},
      {"log.level log.trace log.records_mib log.openmetrics log.openmetrics_listen log.tensorboard"},
      {"log.tensorboard_histograms log.tensorboard_samples", {when_set("log.tensorboard")}},

      {"alert.when alert.run alert.file"},
      {"alert.limit", {without("alert.when", {"loss not finite"})}},
      {"alert.steps", {losses}},
      {"alert.timeout_seconds", {when_set("alert.run")}},
  };
}

constexpr const char* kForExperts =
    "run.grace_seconds run.pause_seconds run.probe_seconds run.node_minutes run.scheduler_minutes run.mpi "
    "run.preflight_seconds run.bad_node_hours run.slow_node_share run.node_lost_seconds run.rank_frozen_seconds "
    "run.regrow_seconds run.stalled_seconds run.stalled_save_seconds run.stalled_stop_seconds "
    "run.stalled_at_most_seconds data.cache_mib data.decode_threads train.check_resumed_loss train.stop_margin_seconds "
    "parallel.bucket_mib parallel.stage_layers parallel.server_steps parallel.server_pulls cluster.interface "
    "optim.statistic_weight kernels.replay checkpoint.mtbf_hours checkpoint.timeout_seconds checkpoint.parity_set "
    "checkpoint.copy_threads checkpoint.write_threads comm.connect_timeout_seconds comm.shared_memory_ranks "
    "comm.gpu_transport log.records_mib alert.timeout_seconds";

/// Keys that a program of others (run.command) does without.
bool is_for_training(const std::string& key) {
  static const std::set<std::string> sections{"data",    "model", "train",   "parallel",
                                              "cluster", "optim", "kernels", "checkpoint"};
  return key == "run.devices_per_rank" || (sections.contains(key.substr(0, key.find('.'))) &&
                                           key != "train.end_at_step" && key != "train.stop_margin_seconds");
}

std::vector<std::string> words(const char* text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

struct Table {
  std::map<std::string, std::vector<Need>> needs;
  std::set<std::string> models;  ///< those of which the table says something: of a user's own it does not know the keys
  Values defaults;
};

Table make_table() {
  Table table{.needs = {}, .models = {}, .defaults = values_of(Job{})};
  table.defaults.merge(values_of(observe::AlertRule{}));
  for (const Row& row : rows()) {
    for (const auto& key : words(row.keys)) table.needs[key] = row.needs;
    for (const Need& need : row.needs)
      for (const Term& term : need.any)
        if (term.key == kModel) table.models.insert(term.values.begin(), term.values.end());
  }
  return table;
}

const Table& table() {
  static const Table all = make_table();
  return all;
}

const std::vector<Need>& own_needs(const std::string& key) {
  static const std::vector<Need> none;
  const auto found = table().needs.find(key);
  return found == table().needs.end() ? none : found->second;
}

/// The needs of a key, and those of the keys with which it has an effect.
std::vector<Need> all_needs(const std::string& key) {
  std::vector<Need> all;
  const auto add = [&all](const Need& need) {
    const auto is_same = [&](const Need& other) { return other.any.front().key == need.any.front().key; };
    if (std::ranges::none_of(all, is_same)) all.push_back(need);
  };
  for (const Need& need : own_needs(key)) {
    add(need);
    if (need.any.size() > 1) continue;
    for (const Need& further : all_needs(need.any.front().key)) add(further);
  }
  return all;
}

std::string unquoted(const std::string& value) {
  return value.starts_with('"') ? value.substr(1, value.size() - 2) : value;
}

/// The values of a job, its alerts' included, and its surroundings.
struct Situation {
  Values values;
  Surroundings surroundings;

  std::string value(const std::string& key) const {
    if (key == kLaunch) return surroundings.launch;
    if (key == kData) return surroundings.data;
    const auto found = values.find(key);
    return found == values.end() ? "" : unquoted(found->second);
  }
  bool is_known(const std::string& key) const {
    if (key == kLaunch || key == kData) return !value(key).empty();
    return key != kModel || table().models.contains(value(key));
  }
  bool is_set(const std::string& key) const {
    const auto found = values.find(key), usual = table().defaults.find(key);
    return found != values.end() && usual != table().defaults.end() && found->second != usual->second;
  }
  bool holds(const Term& term) const {
    if (!is_known(term.key)) return true;
    if (term.holds == Holds::when_set) return is_set(term.key);
    const bool is_among = std::ranges::find(term.values, value(term.key)) != term.values.end();
    return is_among == (term.holds == Holds::one_of);
  }
  bool meets(const Need& need) const {
    return std::ranges::any_of(need.any, [this](const Term& term) { return holds(term); });
  }
  std::string text(const std::string& key) const {
    if (key == kLaunch) return value(key);
    if (key == kData) return "a data set of " + value(key);
    return fmt::format("{} = {}", key, values.at(key));
  }
};

std::string joined(std::vector<std::string> parts, std::string_view last) {
  if (parts.empty()) return "";
  const auto tail = parts.back();
  parts.pop_back();
  return parts.empty() ? tail : fmt::format("{} {} {}", fmt::join(parts, ", "), last, tail);
}

std::string text_of(const Term& term) {
  if (term.key == kLaunch) return "Slurm";
  if (term.key == kData) return "a data set of " + joined(term.values, "or");
  const auto usual = table().defaults.find(term.key);
  const std::string value = usual == table().defaults.end() ? "" : usual->second;
  if (term.holds == Holds::when_set) {
    if (value == "false") return term.key + " = true";
    return term.key + (value.starts_with('"') || value.starts_with('[') ? "" : " above " + value);
  }
  std::vector<std::string> values = term.values;
  if (value.starts_with('"'))
    for (auto& each : values) each = fmt::format("\"{}\"", each);
  return fmt::format("{} {} {}", term.key, term.holds == Holds::one_of ? "=" : "other than", joined(values, "or"));
}

std::string text_of(const Need& need) {
  std::vector<std::string> texts;
  for (const Term& term : need.any) texts.push_back(text_of(term));
  return joined(texts, "or");
}

/// Returns the reason for which a key has no effect in this situation.
std::optional<IgnoredKeys> lack_of(const std::string& key, const Situation& situation) {
  if (is_for_training(key) && situation.is_set("run.command"))
    return IgnoredKeys{{key}, "training", "a program (run.command)", true};
  IgnoredKeys lack{.keys = {key}, .need = {}, .here = {}, .is_harmless = true};
  std::vector<std::string> needs, here;
  for (const Need& need : all_needs(key)) {
    if (situation.meets(need)) continue;
    needs.push_back(text_of(need));
    lack.is_harmless &= need.is_harmless;
    for (const Term& term : need.any) here.push_back(situation.text(term.key));
  }
  if (needs.empty()) return std::nullopt;
  lack.need = joined(needs, "and");
  lack.here = joined(here, "and");
  return lack;
}

/// Adds what has no effect among `keys`.
void add_ignored(std::vector<IgnoredKeys>& all, const Values& keys, const Situation& situation) {
  for (const auto& [key, value] : keys) {
    if (!situation.is_set(key)) continue;
    const auto lack = lack_of(key, situation);
    if (!lack) continue;
    const auto same = std::ranges::find_if(all, [&](const IgnoredKeys& other) {
      return std::tie(other.need, other.here) == std::tie(lack->need, lack->here);
    });
    if (same == all.end())
      all.push_back(*lack);
    else
      same->keys.push_back(key);
  }
}

std::string text_of(const IgnoredKeys& ignored) {
  const bool several = ignored.keys.size() > 1;
  return fmt::format("{} {} no effect with {}, only with {}", joined(ignored.keys, "and"), several ? "have" : "has",
                     ignored.here, ignored.need);
}

std::set<std::string> names_of(const std::vector<IgnoredKeys>& ignored) {
  std::set<std::string> names;
  for (const auto& each : ignored) names.insert(each.keys.begin(), each.keys.end());
  return names;
}

bool is_begun(const std::filesystem::path& run_folder) {
  std::error_code unknown;  // whoever uses the folder reports what is wrong with it
  return std::filesystem::exists(run_folder / "checkpoints", unknown);
}
}  // namespace

std::vector<IgnoredKeys> ignored_keys(const Job& job, const Surroundings& surroundings) {
  std::vector<IgnoredKeys> all;
  const Situation situation{values_of(job), surroundings};
  add_ignored(all, situation.values, situation);
  for (const auto& rule : job.alerts) {
    Situation own = situation;
    own.values.merge(values_of(rule));
    add_ignored(all, values_of(rule), own);
  }
  return all;
}

std::vector<std::string> check_effects(const Job& job, const Surroundings& surroundings,
                                       const std::set<std::string>& excused) {
  std::vector<std::string> errors, warnings;
  for (const IgnoredKeys& ignored : ignored_keys(job, surroundings)) {
    IgnoredKeys wrong = ignored, harmless = ignored;
    const auto is_excused = [&](const std::string& key) { return ignored.is_harmless || excused.contains(key); };
    std::erase_if(wrong.keys, is_excused);
    std::erase_if(harmless.keys, std::not_fn(is_excused));
    if (!wrong.keys.empty()) errors.push_back(text_of(wrong));
    if (!harmless.keys.empty()) warnings.push_back(text_of(harmless));
  }
  require(errors.empty(), "{}: leave out what has no effect, or set what it needs", fmt::join(errors, "; "));
  return warnings;
}

std::set<std::string> excused_keys(const Job& job, const Job& written, const std::filesystem::path& file,
                                   const std::set<std::string>& overridden) {
  auto excused = names_of(ignored_keys(job, {}));
  if (is_begun(job.run_dir) || (file.has_parent_path() && is_begun(file.parent_path()))) return excused;
  const auto never = names_of(ignored_keys(written, {}));
  std::erase_if(excused, [&](const std::string& key) { return never.contains(key) || overridden.contains(key); });
  return excused;
}

void check_surroundings(const Job& job, const Surroundings& surroundings) {
  const auto known = names_of(ignored_keys(job, {}));
  const auto excused = is_begun(job.run_dir) ? names_of(ignored_keys(job, surroundings)) : known;
  const auto before = check_effects(job, {}, known);
  for (const auto& warning : check_effects(job, surroundings, excused))
    if (std::ranges::find(before, warning) == before.end()) log(Severity::warning, "{}", warning);
}

std::string need_of(const std::string& key) {
  std::vector<std::string> texts;
  for (const Need& need : all_needs(key)) texts.push_back(text_of(need));
  return joined(texts, "and");
}

bool is_for_experts(const std::string& key) {
  static const auto all = words(kForExperts);
  return std::ranges::find(all, key) != all.end();
}

std::vector<std::string> keys_with_effects() {
  std::vector<std::string> all;
  for (const Row& row : rows())
    for (auto& key : words(row.keys)) all.push_back(std::move(key));
  return all;
}

}  // namespace distdl::config
