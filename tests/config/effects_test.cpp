// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/config/effects.hpp>
#include <distdl/config/job.hpp>
#include <distdl/model/context.hpp>
#include <distdl/model/models.hpp>
#include <distdl/model/tensor_shards.hpp>
#include <distdl/observe/alert_rules.hpp>
#include <distdl/train/recipe.hpp>
#include <distdl/train/state/identity.hpp>

namespace distdl::config {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Overrides = std::vector<std::string>;

std::set<std::string> all_keys() {
  const auto names = keys();
  std::set<std::string> all(names.begin(), names.end());
  for (const auto& [key, value] : values_of(observe::AlertRule{})) all.insert(key);
  return all;
}

/// The job of a file; not checked.
Job job_with(const Overrides& overrides) {
  Job job;
  apply(job, overrides);
  return job;
}

std::set<std::string> ignored(const Overrides& overrides, const Surroundings& surroundings = {}) {
  std::set<std::string> all;
  for (const auto& each : ignored_keys(job_with(overrides), surroundings))
    all.insert(each.keys.begin(), each.keys.end());
  return all;
}

/// A key with a value, what it needs, and what takes its effect away.
struct Example {
  std::string key, value;
  Overrides needs, lacks = {};
};
const std::vector<Example>& examples() {
  static const std::vector<Example> all{
      {"run.container", "[\"a\"]", {"run.command=[\"b\"]"}},
      {"run.parameters", "[\"a=1\"]", {"run.command=[\"b\"]"}},
      {"run.stop_signal", "USR1", {"run.command=[\"b\"]"}},
      {"run.progress_pattern", "(a)", {"run.command=[\"b\"]"}},
      {"run.progress_file", "a", {"run.command=[\"b\"]"}},
      {"run.metrics", "[\"a=(b)\"]", {"run.command=[\"b\"]"}},
      {"run.output", "none", {"run.command=[\"b\"]"}},
      {"run.spares", "1", {}, {"run.recovery=relaunch"}},
      {"run.most_nodes", "3", {}, {"run.recovery=relaunch"}},
      {"run.regrow_seconds", "3", {}, {"run.recovery=relaunch"}},
      {"run.preflight_seconds", "3", {}, {"run.preflight=off"}},
      {"run.slow_node_share", "0", {}, {"run.preflight=off"}},
      {"run.bad_node_hours", "3", {}, {"run.preflight=off"}},
      {"data.weights", "[3]", {"data.sets=[\"a.h5\"]"}},
      {"data.stage", "/dev/shm", {}, {"data.source=own.so"}},
      {"data.normalize", "imagenet", {}, {"model.name=gpt"}},
      {"data.holdout", "3", {}, {"data.validation=v.h5"}},
      {"data.cache_mib", "3", {}, {"model.name=gpt"}},
      {"data.crop", "3", {}, {"model.name=gpt"}},
      {"data.mirror", "true", {}, {"model.name=gpt"}},
      {"data.color_jitter", "[0.1]", {}, {"model.name=gpt"}},
      {"data.rand_augment", "2", {}, {"model.name=gpt"}},
      {"data.rand_augment_magnitude", "3", {"data.rand_augment=2"}},
      {"data.random_erasing", "0.1", {}, {"model.name=gpt"}},
      {"data.mixup", "0.1", {}, {"model.name=gpt"}},
      {"data.cutmix", "0.1", {}, {"model.name=gpt"}},
      {"data.crop_area", "0.1", {}, {"model.name=gpt"}},
      {"data.resize", "3", {}, {"model.name=gpt"}},
      {"data.upright", "true", {}, {"model.name=gpt"}},
      {"model.hidden", "[7]", {"model.name=mlp"}, {"model.name=vit"}},
      {"model.batch_norm", "true", {"model.name=lenet"}, {"model.name=resnet18"}},
      {"model.stem", "cifar", {"model.name=resnet18"}},
      {"model.layers", "2", {"model.name=vit"}},
      {"model.width", "24", {"model.name=gpt"}},
      {"model.heads", "3", {"model.name=gpt"}},
      {"model.kv_heads", "1", {"model.name=gpt"}, {"model.name=vit"}},
      {"model.context", "8", {"model.name=gpt"}, {"model.name=vit"}},
      {"model.vocabulary", "99", {"model.name=gpt"}, {"model.name=vit"}},
      {"model.variant", "llama", {"model.name=gpt"}, {"model.name=vit"}},
      {"model.gelu", "erf", {"model.name=gpt"}, {"model.name=gpt", "model.variant=llama"}},
      {"model.tied_head", "false", {"model.name=gpt"}, {"model.name=vit"}},
      {"model.mlp_width", "9", {"model.name=gpt"}, {"model.name=vit"}},
      {"model.norm_epsilon", "1e-3", {"model.name=gpt"}, {"model.name=vit"}},
      {"model.rotary_base", "5e5", {"model.name=gpt", "model.variant=llama"}, {"model.name=gpt"}},
      {"model.qkv_bias", "true", {"model.name=gpt", "model.variant=llama"}, {"model.name=gpt"}},
      {"model.patch", "2", {"model.name=vit"}, {"model.name=gpt"}},
      {"model.dropout", "0.1", {"model.name=vit"}, {"model.name=resnet50"}},
      {"train.epochs", "3", {}, {"train.steps=9"}},
      {"train.best_metric", "accuracy", {"train.keep_best=true"}},
      {"train.best_min_delta", "0.1", {"train.stop_early_patience=2"}},
      {"train.check_resumed_loss", "false", {}, {"kernels.deterministic=false"}},
      {"parallel.tensor_shards", "2", {"model.name=gpt"}},
      {"parallel.tensor_ranks", "2", {"model.name=gpt", "parallel.tensor_shards=2"}},
      {"parallel.context_chunks", "2", {"model.name=gpt"}, {"model.name=vit"}},
      {"parallel.context_ranks", "2", {"model.name=gpt", "parallel.context_chunks=2"}},
      {"parallel.schedule", "gpipe", {"parallel.pipeline_ranks=2"}},
      {"parallel.stage_layers", "[1, 2]", {"parallel.strategy=auto"}},
      {"parallel.interleave", "3", {"parallel.pipeline_ranks=2", "parallel.schedule=interleaved"}},
      {"parallel.bucket_mib", "3", {}, {"parallel.strategy=parameter_server"}},
      {"parallel.compression_fraction", "0.1", {"parallel.compression=topk"}, {"parallel.compression=onebit"}},
      {"parallel.compression_rank", "2", {"parallel.compression=powersgd"}, {"parallel.compression=topk"}},
      {"parallel.compression_warmup_steps", "2", {"parallel.compression=onebit"}, {"parallel.compression=int8"}},
      {"parallel.compression_of_parameters",
       "true",
       {"parallel.compression=int8", "parallel.strategy=sharded"},
       {"parallel.compression=int8", "parallel.strategy=sharded_parameters"}},
      {"parallel.groups", "2", {"parallel.strategy=local_sgd"}},
      {"parallel.local_steps", "2", {"parallel.strategy=local_sgd"}},
      {"parallel.outer", "nesterov", {"parallel.strategy=local_sgd"}},
      {"parallel.outer_learning_rate",
       "0.1",
       {"parallel.strategy=local_sgd", "parallel.outer=nesterov"},
       {"parallel.strategy=local_sgd"}},
      {"parallel.outer_momentum",
       "0.1",
       {"parallel.strategy=local_sgd", "parallel.outer=nesterov"},
       {"parallel.outer=nesterov"}},
      {"parallel.server_mode", "bounded", {"parallel.strategy=parameter_server"}},
      {"parallel.server_steps", "3", {"parallel.strategy=parameter_server"}},
      {"parallel.server_partners", "true", {"parallel.strategy=parameter_server"}},
      {"parallel.server_pulls", "messages", {"parallel.strategy=parameter_server"}},
      {"parallel.staleness",
       "3",
       {"parallel.strategy=parameter_server", "parallel.server_mode=bounded"},
       {"parallel.strategy=parameter_server", "parallel.server_mode=asynchronous"}},
      {"parallel.delay_compensation",
       "0.5",
       {"parallel.strategy=parameter_server", "parallel.server_mode=asynchronous"},
       {"parallel.strategy=parameter_server"}},
      {"cluster.ps.tasks", "1", {"parallel.strategy=parameter_server"}},
      {"cluster.ps.placement", "own", {"parallel.strategy=parameter_server"}},
      {"cluster.worker.tasks", "1", {"parallel.strategy=parameter_server"}},
      {"cluster.interface", "ib0", {"parallel.strategy=parameter_server"}},
      {"optim.base_batch", "3", {"optim.scale_rate=sqrt"}},
      {"optim.momentum", "0.5", {"optim.name=lars"}, {"optim.name=adamw"}},
      {"optim.nesterov", "true", {"optim.name=sgd"}, {"optim.name=lars"}},
      {"optim.beta1", "0.5", {"optim.name=adamw"}},
      {"optim.beta2", "0.5", {"optim.name=lamb"}},
      {"optim.epsilon", "0.5", {"optim.name=lamb"}, {"optim.name=lars"}},
      {"optim.trust_coefficient", "0.5", {"optim.name=lars"}, {"optim.name=lamb"}},
      {"optim.decay_one_dimensional", "true", {"optim.name=adamw"}},
      {"optim.final_rate_share", "0.5", {"optim.schedule=linear"}, {"optim.schedule=constant"}},
      {"optim.milestones", "[3]", {"optim.schedule=step"}},
      {"optim.milestone_factor", "0.5", {"optim.schedule=step"}},
      {"optim.statistic_weight", "0.5", {"model.batch_norm=true"}, {"model.name=vit"}},
      {"kernels.replay", "false", {}, {"kernels.backend=onednn"}},
      {"kernels.deterministic", "false", {}, {"kernels.backend=reference"}},
      {"comm.gpu_transport", "ucx", {"kernels.backend=cuda"}, {"kernels.backend=onednn"}},
      {"checkpoint.mtbf_hours", "3", {"checkpoint.every=auto"}},
      {"checkpoint.parity_set", "3", {"checkpoint.parity_every=3"}, {"checkpoint.partner_every=3"}},
      {"checkpoint.disk_folder", "d", {"checkpoint.disk_every=3"}},
      {"checkpoint.failure_domain", "switch", {"checkpoint.partner_every=3"}, {"checkpoint.disk_every=3"}},
      {"log.tensorboard_histograms", "3", {"log.tensorboard=true"}},
      {"log.tensorboard_samples", "3", {"log.tensorboard=true"}},
  };
  return all;
}

Overrides also(Overrides overrides, const Example& example) {
  overrides.push_back(example.key + "=" + example.value);
  return overrides;
}

TEST(Effects, EachKeyHasOneRow) {
  auto rows = keys_with_effects();
  std::ranges::sort(rows);
  const std::set<std::string> once(rows.begin(), rows.end());
  EXPECT_EQ(rows.size(), once.size()) << "a key has two rows";
  EXPECT_EQ(once, all_keys()) << "a new key needs a row in src/config/effects.cpp: what gives it an effect";
}

TEST(Effects, NeedsAreKeys) {
  const auto known = all_keys();
  const std::regex name("[a-z]+\\.[a-z_.0-9]*[a-z_]");
  for (const auto& key : known) {
    const auto text = need_of(key);
    for (std::sregex_iterator found(text.begin(), text.end(), name), end; found != end; ++found)
      EXPECT_TRUE(known.contains(found->str())) << key << " needs " << text;
  }
}

TEST(Effects, DefaultsAreNeverComplainedOf) {
  EXPECT_THAT(ignored({}, {.launch = "--local", .data = "tokens"}), IsEmpty());
}

TEST(Effects, AKeyHasAnEffectWithWhatItNeedsOnly) {
  std::set<std::string> tried;
  for (const auto& example : examples()) {
    tried.insert(example.key);
    EXPECT_FALSE(ignored(also(example.needs, example)).contains(example.key)) << example.key;
    EXPECT_TRUE(ignored(also(example.lacks, example)).contains(example.key)) << example.key;
  }
  for (const auto& key : keys()) {  // those that lack something for other reasons than the surroundings
    const bool of_surroundings =
        need_of(key).empty() || need_of(key) == "Slurm" || need_of(key).starts_with("a data set");
    EXPECT_EQ(tried.contains(key), !of_surroundings) << key << " needs " << need_of(key);
  }
}

TEST(Effects, TheSurroundingsGiveKeysAnEffect) {
  const Overrides slurm{"slurm.nodes=2", "run.requeue=false", "run.spares=1"};
  EXPECT_THAT(ignored(slurm), IsEmpty());
  EXPECT_THAT(ignored(slurm, {.launch = "Slurm"}), IsEmpty());
  EXPECT_THAT(ignored(slurm, {.launch = "--local"}), ElementsAre("run.requeue", "run.spares", "slurm.nodes"));
  EXPECT_THAT(check_effects(job_with(slurm), {.launch = "--local"}),
              ElementsAre("run.requeue, run.spares and slurm.nodes have no effect with --local, only with Slurm"));
  const Overrides images{"data.crop=1", "data.mirror=true", "data.resize=9"};
  EXPECT_THAT(ignored(images, {.data = "images"}), ElementsAre("data.resize"));
  EXPECT_THAT(ignored(images, {.data = "encoded images"}), ElementsAre("data.crop"));
  EXPECT_THAT(ignored(images, {.data = "tokens"}), ElementsAre("data.crop", "data.mirror", "data.resize"));
}

TEST(Effects, AUsersModelMayUseAnyKey) {
  EXPECT_THAT(ignored({"model.name=own", "model.hidden=[7]", "model.patch=2", "parallel.tensor_shards=2"}), IsEmpty());
}

TEST(Effects, AProgramDoesWithoutKeysOfTraining) {
  const Overrides keys{"run.command=[\"a\"]", "model.hidden=[7]", "train.end_at_step=3", "comm.timeout_seconds=9"};
  EXPECT_THAT(ignored(keys), ElementsAre("model.hidden"));
  EXPECT_THAT(check_effects(job_with(keys), {}),
              ElementsAre("model.hidden has no effect with a program (run.command), only with training"));
}

TEST(Effects, AlertsHaveTheirOwn) {
  auto job = job_with({});
  job.alerts.push_back({.limit = 0.5, .steps = 3, .file = "a", .timeout_seconds = 3});
  ASSERT_EQ(ignored_keys(job).size(), 3U);
  job.alerts.front().when = observe::AlertKind::loss_rising;
  EXPECT_THAT(ignored_keys(job).front().keys, ElementsAre("alert.timeout_seconds"));
}

std::string refusal_of(const Overrides& overrides) {
  try {
    load({}, overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Effects, AnErrorNamesKeysAndWhatTheyNeed) {
  EXPECT_EQ(refusal_of({"run.dir=none", "parallel.outer_momentum=0.5", "parallel.groups=2", "parallel.local_steps=2",
                        "optim.beta1=0.5"}),
            "optim.beta1 has no effect with optim.name = \"sgd\", only with optim.name = \"adamw\" or \"lamb\"; "
            "parallel.groups and parallel.local_steps have no effect with parallel.strategy = \"replicas\", only with "
            "parallel.strategy = \"local_sgd\"; parallel.outer_momentum has no effect with parallel.outer = \"mean\" "
            "and parallel.strategy = \"replicas\", only with parallel.outer = \"nesterov\" and parallel.strategy = "
            "\"local_sgd\": leave out what has no effect, or set what it needs");
  EXPECT_EQ(refusal_of({"run.dir=none", "kernels.backend=onednn", "kernels.replay=false"}), "no error") << "harmless";
}

TEST(Effects, ARunThatHasBegunGoesOn) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "effects_test_run";
  std::filesystem::create_directories(folder / "checkpoints");
  const auto job = load({}, {"run.dir=" + folder.string(), "optim.beta1=0.5"});
  EXPECT_THAT(job.warnings, ElementsAre(HasSubstr("optim.beta1 has no effect with optim.name = \"sgd\"")));
  std::ofstream(folder / "job.toml") << "[run]\ndir = \"elsewhere\"\n[optim]\nbeta1 = 0.5\n";
  EXPECT_EQ(load(folder / "job.toml", {}).warnings.size(), 1U) << "the copy in the run folder";
  std::filesystem::remove_all(folder);
  EXPECT_THROW(load({}, {"run.dir=" + folder.string(), "optim.beta1=0.5"}), ConfigError);
}

TEST(Effects, AnOverrideMayLeaveAsideKeysOfTheFile) {
  const auto file = std::filesystem::path(::testing::TempDir()) / "effects_test.toml";
  std::ofstream(file) << "run.dir = \"none\"\n[model]\nname = \"mlp\"\nhidden = [7]\n";
  EXPECT_THAT(load(file, {"model.name=gpt"}).warnings, ElementsAre(HasSubstr("model.hidden has no effect")));
  EXPECT_THROW(load(file, {"model.name=gpt", "model.hidden=[9]"}), ConfigError) << "both are overrides";
  std::ofstream(file, std::ios::app) << "patch = 4\n";
  EXPECT_THROW(load(file, {"train.seed=2"}), ConfigError) << "the file itself has a key without effect";
  EXPECT_TRUE(load(file, {"model.name=vit"}).warnings.size() == 1);
}

TEST(Effects, DocumentsTellThem) {
  EXPECT_EQ(need_of("train.seed"), "");
  EXPECT_EQ(need_of("parallel.staleness"),
            "parallel.server_mode = \"bounded\" and parallel.strategy = \"parameter_server\"");
  EXPECT_EQ(need_of("train.best_metric"), "train.keep_best = true or train.stop_early_patience above 0");
  EXPECT_EQ(need_of("slurm.nodes"), "Slurm");
  EXPECT_EQ(need_of("data.holdout"), "data.validation = \"\"");
  EXPECT_EQ(need_of("alert.limit"), "alert.when other than \"loss not finite\"");
  EXPECT_THAT(reference_as_markdown(), AllOf(HasSubstr("| optim.scale_rate = \"linear\" or \"sqrt\" |\n"),
                                             HasSubstr("\n## Keys for experts\n")));
  EXPECT_THAT(defaults_as_toml(), HasSubstr("# only with optim.name = \"lars\"\ntrust_coefficient = "));
  for (const auto& key : {"comm.shared_memory_ranks", "run.stalled_seconds"}) EXPECT_TRUE(is_for_experts(key)) << key;
  EXPECT_FALSE(is_for_experts("train.epochs"));
}

/// The layers of a model as text, with their shapes and parameters.
std::string layers_of(const Overrides& overrides) {
  const auto job = job_with(overrides);
  const bool is_text = job.recipe.model.name == "gpt";
  const auto model = model::describe_model(job.recipe.model, is_text ? tensor::Shape{8} : tensor::Shape{3, 32, 32}, 10);
  std::string text;
  const auto wiring = model::wire(model, 2);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    text += model.layers[i].name + tensor::to_string(wiring.layers[i].output) + model.layers[i].shares;
    for (const auto& parameter : kernels::parameters_of(model.layers[i].spec, wiring.layers[i].input))
      text += parameter.name + tensor::to_string(parameter.shape);
  }
  return text;
}

TEST(Effects, TheTableIsTrueOfModels) {
  const Overrides changes{"model.hidden=[7]",   "model.batch_norm=true", "model.stem=imagenet",
                          "model.layers=3",     "model.width=96",        "model.kv_heads=2",
                          "model.context=16",   "model.vocabulary=99",   "model.variant=llama",
                          "model.mlp_width=99", "model.tied_head=false", "model.patch=8"};
  for (const char* name : {"mlp", "lenet", "resnet18", "resnet34", "resnet50", "vit", "gpt"}) {
    const auto model = std::string("model.name=") + name;
    const auto usual = layers_of({model});
    for (const auto& change : changes)
      EXPECT_EQ(layers_of({model, change}) == usual,
                ignored({model, change}).contains(change.substr(0, change.find('='))))
          << model << " " << change;
  }
}

TEST(Effects, TheTableIsTrueOfModelsThatAreDivided) {
  for (const char* name : {"mlp", "lenet", "resnet18", "vit", "gpt"}) {
    const auto key = std::string("model.name=") + name;
    const auto job = job_with({key});
    const bool is_text = job.recipe.model.name == "gpt";
    const auto model =
        model::describe_model(job.recipe.model, is_text ? tensor::Shape{8} : tensor::Shape{3, 32, 32}, 10);
    const auto refuses = [](const auto& divides) {
      try {
        divides();
      } catch (const ConfigError&) {
        return true;
      }
      return false;
    };
    EXPECT_EQ(refuses([&] { model::divide(model, 2); }), ignored({key, "parallel.tensor_shards=2"}).size() == 1)
        << name;
    EXPECT_EQ(refuses([&] { model::check_context(model, 2); }), ignored({key, "parallel.context_chunks=2"}).size() == 1)
        << name;
  }
}

class Nothing final : public data::Source {
 public:
  const std::string& name() const override { return name_; }
  const tensor::Shape& shape() const override { return shape_; }
  std::int64_t classes() const override { return 2; }
  std::int64_t labels_per_sample() const override { return 1; }
  std::int64_t samples() const override { return 2; }
  const std::string& digest() const override { return name_; }
  void read(std::span<const Pick>, data::Batch&) override {}

 private:
  std::string name_ = "nothing";
  tensor::Shape shape_{1};
};

TEST(Effects, TheTableIsTrueOfWaysOfTraining) {
  const auto identity = [](const Overrides& overrides) {
    return train::identity_of(job_with(overrides).recipe, Nothing());
  };
  for (const char* key :
       {"parallel.compression_fraction", "parallel.compression_rank", "parallel.compression_warmup_steps",
        "parallel.compression_of_parameters", "parallel.groups", "parallel.local_steps", "parallel.outer",
        "parallel.outer_learning_rate", "parallel.outer_momentum", "parallel.server_mode", "parallel.staleness",
        "parallel.delay_compensation"}) {
    const auto example = *std::ranges::find(examples(), key, &Example::key);
    EXPECT_EQ(identity(also(example.lacks, example)), identity(example.lacks)) << key << " changes no number";
    EXPECT_NE(identity(also(example.needs, example)), identity(example.needs)) << key;
  }
}
}  // namespace
}  // namespace distdl::config
