// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <limits>

#include <distdl/base/near_word.hpp>
#include <distdl/config/nearest_key.hpp>

namespace distdl::config {
namespace {
/// A name of a key, without its heading, in other programs and books. The keys themselves need no line here.
struct Synonym {
  const char* word;
  const char* key;
};
constexpr Synonym kSynonyms[] = {
    {"accumulation", "parallel.microbatches"},
    {"accumulation_steps", "parallel.microbatches"},
    {"adam_epsilon", "optim.epsilon"},
    {"amp", "kernels.precision"},
    {"arch", "model.name"},
    {"architecture", "model.name"},
    {"auto_augment", "data.rand_augment"},
    {"batch", "parallel.microbatch_size"},
    {"batch_size", "parallel.microbatch_size"},
    {"betas", "optim.beta1"},
    {"block_size", "model.context"},
    {"checkpoint_dir", "run.dir"},
    {"checkpoint_every", "checkpoint.every"},
    {"checkpoint_interval", "checkpoint.every"},
    {"clip", "optim.clip_norm"},
    {"clip_grad", "optim.clip_norm"},
    {"clip_grad_norm", "optim.clip_norm"},
    {"context_length", "model.context"},
    {"context_parallel", "parallel.context_ranks"},
    {"cp", "parallel.context_ranks"},
    {"cpus", "slurm.cpus_per_task"},
    {"cutmix_alpha", "data.cutmix"},
    {"data_dir", "data.train"},
    {"data_path", "data.train"},
    {"dataset", "data.train"},
    {"decay", "optim.weight_decay"},
    {"device", "kernels.backend"},
    {"dtype", "kernels.precision"},
    {"ema", "optim.ema_decay"},
    {"embed_dim", "model.width"},
    {"epoch", "train.epochs"},
    {"eps", "optim.epsilon"},
    {"eval_every", "train.evaluate_every"},
    {"eval_interval", "train.evaluate_every"},
    {"flip", "data.mirror"},
    {"folder", "run.dir"},
    {"global_batch_size", "parallel.microbatch_size"},
    {"gpus", "slurm.gpus_per_node"},
    {"grad_accum", "parallel.microbatches"},
    {"grad_clip", "optim.clip_norm"},
    {"gradient_accumulation", "parallel.microbatches"},
    {"gradient_accumulation_steps", "parallel.microbatches"},
    {"gradient_clip_val", "optim.clip_norm"},
    {"hidden_dim", "model.width"},
    {"hidden_size", "model.width"},
    {"iterations", "train.steps"},
    {"iters", "train.steps"},
    {"jitter", "data.color_jitter"},
    {"keep_last", "checkpoint.keep"},
    {"l2", "optim.weight_decay"},
    {"learnrate", "optim.learning_rate"},
    {"log_level", "log.level"},
    {"lr", "optim.learning_rate"},
    {"lr_scheduler", "optim.schedule"},
    {"max_epochs", "train.epochs"},
    {"max_grad_norm", "optim.clip_norm"},
    {"max_iters", "train.steps"},
    {"max_lr", "optim.learning_rate"},
    {"max_steps", "train.steps"},
    {"mem", "slurm.memory"},
    {"micro_batch_size", "parallel.microbatch_size"},
    {"min_lr", "optim.final_rate_share"},
    {"mixed_precision", "kernels.precision"},
    {"mixup_alpha", "data.mixup"},
    {"mtbf", "checkpoint.mtbf_hours"},
    {"n_embd", "model.width"},
    {"n_head", "model.heads"},
    {"n_layer", "model.layers"},
    {"num_epochs", "train.epochs"},
    {"num_heads", "model.heads"},
    {"num_layers", "model.layers"},
    {"num_nodes", "slurm.nodes"},
    {"num_ps", "cluster.ps.tasks"},
    {"num_servers", "cluster.ps.tasks"},
    {"num_steps", "train.steps"},
    {"num_threads", "kernels.threads"},
    {"optimizer", "optim.name"},
    {"out_dir", "run.dir"},
    {"output", "run.dir"},
    {"output_dir", "run.dir"},
    {"passes", "train.epochs"},
    {"path", "data.train"},
    {"pipeline_parallel", "parallel.pipeline_ranks"},
    {"pp", "parallel.pipeline_ranks"},
    {"queue", "slurm.partition"},
    {"random_erase", "data.random_erasing"},
    {"random_seed", "train.seed"},
    {"rate", "optim.learning_rate"},
    {"reprob", "data.random_erasing"},
    {"save_dir", "run.dir"},
    {"save_every", "checkpoint.every"},
    {"save_interval", "checkpoint.every"},
    {"save_steps", "checkpoint.every"},
    {"scheduler", "optim.schedule"},
    {"seq_len", "model.context"},
    {"sequence_length", "model.context"},
    {"smoothing", "model.label_smoothing"},
    {"stages", "parallel.pipeline_ranks"},
    {"step_size", "optim.learning_rate"},
    {"tensor_parallel", "parallel.tensor_ranks"},
    {"test", "data.validation"},
    {"time_limit", "slurm.time"},
    {"total_steps", "train.steps"},
    {"tp", "parallel.tensor_ranks"},
    {"train_data", "data.train"},
    {"val", "data.validation"},
    {"val_data", "data.validation"},
    {"valid", "data.validation"},
    {"validation_split", "data.holdout"},
    {"verbosity", "log.level"},
    {"vocab", "model.vocabulary"},
    {"vocab_size", "model.vocabulary"},
    {"walltime", "slurm.time"},
    {"warmup", "optim.warmup_steps"},
    {"wd", "optim.weight_decay"},
    {"weight_decay_rate", "optim.weight_decay"},
    {"workers", "kernels.threads"},
};

/// As keys are written: in lower case, with underscores.
std::string normal(std::string text) {
  for (char& c : text) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string heading_of(const std::string& key) {
  const auto dot = key.rfind('.');
  return dot == std::string::npos ? std::string() : key.substr(0, dot);
}

std::string last_of(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

/// Returns that one of the keys with this last word whose heading is nearest.
std::string under_nearest_heading(const std::vector<std::string>& known, const std::string& last,
                                  const std::string& heading) {
  std::string nearest;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const auto& each : known) {
    if (last_of(each) != last) continue;
    const auto far = edit_distance(heading_of(each), heading);
    if (far >= least) continue;
    least = far;
    nearest = each;
  }
  return nearest;
}

std::string synonym_of(const std::vector<std::string>& known, const std::string& word) {
  for (const auto& [each, key] : kSynonyms)
    if (each == word && std::ranges::find(known, key) != known.end()) return key;
  return "";
}
}  // namespace

std::string nearest_key(const std::vector<std::string>& known, const std::string& key) {
  const std::string last = normal(last_of(key)), heading = normal(heading_of(key));
  if (auto found = under_nearest_heading(known, last, heading); !found.empty()) return found;
  if (auto found = synonym_of(known, last); !found.empty()) return found;
  std::vector<std::string> words;
  words.reserve(known.size() + std::size(kSynonyms));
  for (const auto& each : known) words.push_back(last_of(each));
  for (const auto& each : kSynonyms) words.emplace_back(each.word);
  const auto word = near_word(words, last);
  if (word.empty()) return "";
  const auto found = under_nearest_heading(known, word, heading);
  return found.empty() ? synonym_of(known, word) : found;
}

}  // namespace distdl::config
