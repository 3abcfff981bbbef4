// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <distdl/base/errors.hpp>
#include <distdl/config/job.hpp>
#include <distdl/train/state/identity.hpp>

namespace distdl::config {
namespace {
using ::testing::HasSubstr;

std::filesystem::path file_with(const std::string& text) {
  auto file = std::filesystem::path(::testing::TempDir()) / "job_test.toml";
  std::ofstream(file) << text;
  return file;
}

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    load(file_with(text), overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Job, ReadsKeysAndKeepsDefaults) {
  auto job = load(file_with("[train]\nepochs = 3\n[model]\nhidden = [32, 16]\n[optim]\nlearning_rate = 1\n"), {});
  EXPECT_EQ(job.recipe.train.epochs, 3);
  EXPECT_EQ(job.recipe.model.hidden, (std::vector<std::int64_t>{32, 16}));
  EXPECT_EQ(job.recipe.optim.learning_rate, 1.0);
  EXPECT_EQ(job.recipe.optim.momentum, 0.9);
}

TEST(Job, OverridesWinOverTheFile) {
  auto job = load(file_with("[train]\nepochs = 3\n"), {"train.epochs=5", "run.dir=/some/where", "data.train=12",
                                                       "optim.nesterov=true", "model.hidden=[7]"});
  EXPECT_EQ(job.recipe.train.epochs, 5);
  EXPECT_EQ(job.run_dir, "/some/where");
  EXPECT_EQ(job.recipe.data.train, "12");
  EXPECT_TRUE(job.recipe.optim.nesterov);
  EXPECT_EQ(job.recipe.model.hidden, std::vector<std::int64_t>{7});
}

TEST(Job, AnIntervalIsANumberOrAuto) {
  using checkpoint::Interval;
  auto every = [](const std::string& text, const std::vector<std::string>& overrides = {}) {
    return load(file_with(text), overrides).recipe.checkpoint.every;
  };
  EXPECT_EQ(every("[checkpoint]\nevery = 7\n"), Interval(7));
  EXPECT_EQ(every("[checkpoint]\nevery = \"auto\"\n"), Interval::by_cost());
  EXPECT_EQ(every("", {"checkpoint.every=auto"}), Interval::by_cost());
  EXPECT_EQ(every("", {"checkpoint.every=\"auto\""}), Interval::by_cost());
  EXPECT_EQ(every("", {"checkpoint.every=12"}), Interval(12));
  EXPECT_THAT(error_of("[checkpoint]\nevery = \"often\"\n"), HasSubstr("must be a whole number or \"auto\""));
  EXPECT_THAT(error_of("", {"checkpoint.every=1.5"}), HasSubstr("must be a whole number or \"auto\""));
  auto job = load(file_with(""), {"checkpoint.every=auto"});
  EXPECT_EQ(load(file_with(to_toml(job)), {}).recipe.checkpoint.every, Interval::by_cost());
}

TEST(Job, NamesTheLineAndTheNearestKey) {
  auto message = error_of("[train]\n\nepoch = 3\n");
  EXPECT_THAT(message, HasSubstr("job_test.toml:3:"));
  EXPECT_THAT(message, HasSubstr("unknown key \"train.epoch\"; did you mean \"train.epochs\"?"));
  EXPECT_THAT(error_of("[training]\nepochs = 3\n"), HasSubstr("did you mean \"train.epochs\"?"));
  EXPECT_THAT(error_of("", {"train.sed=1"}), HasSubstr("did you mean \"train.seed\"?"));
}

TEST(Job, KnowsWhatOtherProgramsCallAKey) {
  for (const auto& [key, meant] : {std::pair("train.lr", "optim.learning_rate"),
                                   {"lr", "optim.learning_rate"},
                                   {"train.batch_size", "parallel.microbatch_size"},
                                   {"optim.epochs", "train.epochs"},
                                   {"train.learning-rate", "optim.learning_rate"},
                                   {"optim.learning_rat", "optim.learning_rate"},
                                   {"trainer.max_epoch", "train.epochs"},
                                   {"optimizer.name", "optim.name"},
                                   {"model.nmae", "model.name"},
                                   {"optim.Weight_Decay", "optim.weight_decay"}})
    EXPECT_THAT(error_of("", {std::string(key) + "=1"}),
                HasSubstr(std::string("unknown key \"") + key + "\"; did you mean \"" + meant + "\"?"));
  const auto message = error_of("", {"train.xylophone=1"});
  EXPECT_THAT(message, ::testing::Not(HasSubstr("did you mean")));
  EXPECT_THAT(message, HasSubstr("unknown key \"train.xylophone\"; \"distdl config --defaults\" lists all keys"));
}

TEST(Job, EverySynonymMeansAKey) {
  // nearest_key() passes over a synonym whose key is not known: a renamed key must not take its synonyms along.
  for (const char* word : {"accumulation",
                           "amp",
                           "arch",
                           "block_size",
                           "clip",
                           "cp",
                           "cpus",
                           "dataset",
                           "device",
                           "ema",
                           "flip",
                           "gpus",
                           "keep_last",
                           "log_level",
                           "mem",
                           "min_lr",
                           "mtbf",
                           "n_embd",
                           "n_head",
                           "n_layer",
                           "num_nodes",
                           "out_dir",
                           "queue",
                           "random_seed",
                           "save_every",
                           "scheduler",
                           "smoothing",
                           "stages",
                           "tp",
                           "val",
                           "validation_split",
                           "vocab",
                           "walltime",
                           "warmup",
                           "wd",
                           "workers"})
    EXPECT_THAT(error_of("", {std::string("x.") + word + "=1"}), HasSubstr("did you mean \"")) << word;
}

TEST(Job, AcceptsARenamedKeyUnderItsFormerNameWithAWarning) {
  const std::vector<RenamedKey> renamed{{"train.passes", "train.epochs"}, {"network.kind", "model.name"}};
  const auto job = load(file_with("[train]\n\npasses = 3\n"), {"network.kind=mlp"}, renamed);
  EXPECT_EQ(job.recipe.train.epochs, 3);
  EXPECT_EQ(job.recipe.model.name, "mlp");
  EXPECT_THAT(job.warnings,
              ::testing::ElementsAre(HasSubstr("job_test.toml:3: key \"train.passes\" is called \"train.epochs\" now"),
                                     HasSubstr("--set: key \"network.kind\" is called \"model.name\" now")));
  EXPECT_THAT(to_toml(job), HasSubstr("epochs = 3\n"));
  testing::internal::CaptureStderr();
  log_warnings(job);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("\"train.passes\" is called"));
  EXPECT_TRUE(load(file_with("[train]\nepochs = 3\n"), {}, renamed).warnings.empty());
}

TEST(Job, RefusesBothNamesOfARenamedKey) {
  const std::vector<RenamedKey> renamed{{"train.passes", "train.epochs"}};
  const auto file = file_with("[train]\npasses = 3\nepochs = 4\n");
  EXPECT_THROW(load(file, {}, renamed), ConfigError);
  EXPECT_THROW(load(file_with("[train]\npasses = \"three\"\n"), {}, renamed), ConfigError);
  EXPECT_THROW(load(file_with("[train]\npasses = 3\n"), {}), ConfigError) << "renamed in no version";
  EXPECT_EQ(load(file_with("[train]\npasses = 3\n"), {"train.epochs=5"}, renamed).recipe.train.epochs, 5);
}

TEST(Job, HasJobsOfACluster) {
  for (const char* text : {"[cluster]\nps.tasks = 2\nworker.tasks = 6\nps.placement = \"own\"\n",
                           "[cluster.ps]\ntasks = 2\nplacement = \"own\"\n[cluster.worker]\ntasks = 6\n",
                           "[cluster]\nps = { tasks = 2, placement = \"own\" }\nworker = { tasks = 6 }\n"}) {
    const auto options = load(file_with(text), {"parallel.strategy=parameter_server"}).recipe.parallel;
    EXPECT_EQ(options.servers.tasks, 2) << text;
    EXPECT_EQ(options.servers.workers, 6) << text;
    EXPECT_EQ(options.servers.placement, parallel::server::Placement::own) << text;
  }
  const auto former =
      load(file_with("[parallel]\nservers = 2\nserver_placement = \"own\"\n"), {"parallel.strategy=parameter_server"});
  EXPECT_EQ(former.recipe.parallel.servers.tasks, 2);
  EXPECT_EQ(former.recipe.parallel.servers.placement, parallel::server::Placement::own);
  EXPECT_EQ(former.warnings.size(), 2u);
  EXPECT_THAT(error_of("[cluster.ps]\ntasks = 2\n[parallel]\nservers = 3\n"),
              HasSubstr("\"parallel.servers\" is the old name of \"cluster.ps.tasks\"; give one of them"));
  EXPECT_THAT(error_of("[cluster.ps]\ntask = 2\n"), HasSubstr("did you mean \"cluster.ps.tasks\""));
}

TEST(Job, RenamedKeysLeadToKeysThatThereAre) {
  for (const auto& [former, present] : renamed_keys()) {
    Job job;
    bool found = false;
    describe(job, [&, former = former, present = present](const std::string& key, auto&, const char*) {
      EXPECT_NE(key, former);
      found |= key == present;
    });
    EXPECT_TRUE(found) << present;
  }
}

TEST(Job, NamesTheExpectedType) {
  EXPECT_THAT(error_of("[train]\nepochs = \"three\"\n"), HasSubstr("key \"train.epochs\" must be a whole number"));
  EXPECT_THAT(error_of("[train]\nepochs = 1.5\n"), HasSubstr("must be a whole number"));
  EXPECT_THAT(error_of("[model]\nname = 3\n"), HasSubstr("must be a text in quotes"));
  EXPECT_THAT(error_of("[model]\nhidden = [1, \"b\"]\n"), HasSubstr("must be a list of whole numbers"));
  EXPECT_THAT(error_of("", {"train.epochs=many"}), HasSubstr("must be a whole number"));
  EXPECT_THAT(error_of("", {"train.epochs"}), HasSubstr("expected KEY=VALUE"));
}

TEST(Job, AnEmptyTableIsAKeyUnlessKeysLieUnderIt) {
  EXPECT_EQ(error_of("[train]\n[model]\n"), "no error");
  EXPECT_THAT(error_of("[train.epochs]\n"), HasSubstr("key \"train.epochs\" must be a whole number"));
  EXPECT_THAT(error_of("train = {epochs = {}}\n"), HasSubstr("key \"train.epochs\" must be a whole number"));
  EXPECT_THAT(error_of("[trian]\n"), HasSubstr("unknown key \"trian\""));
}

TEST(Job, ReportsBrokenTomlAndMissingFiles) {
  EXPECT_THAT(error_of("[train\n"), HasSubstr("job_test.toml:1:"));
  EXPECT_THROW(load("/nowhere/job.toml", {}), ConfigError);
}

TEST(Job, NamesThePossibleValuesOfAKey) {
  EXPECT_THAT(error_of("[checkpoint]\nmode = \"fast\"\n"),
              HasSubstr(R"(job_test.toml:2: key "checkpoint.mode" must be "async", "lazy" or "sync", not "fast")"));
  EXPECT_THAT(error_of("[checkpoint]\nmode = 3\n"),
              HasSubstr(R"(key "checkpoint.mode" must be "async", "lazy" or "sync")"));
}

TEST(Job, IsRefusedWithEveryValueThatARunWouldRefuse) {
  for (const std::string key : {"checkpoint.every=-1",
                                "checkpoint.keep=0",
                                "checkpoint.timeout_seconds=nan",
                                "checkpoint.mtbf_hours=nan",
                                "checkpoint.compression=gzip",
                                "checkpoint.memory_every=-1",
                                "comm.timeout_seconds=nan",
                                "comm.connect_timeout_seconds=nan",
                                "comm.gpu_transport=mpi",
                                "comm.shared_memory_ranks=-1",
                                "parallel.microbatches=-6",
                                "parallel.microbatch_size=-4",
                                "parallel.microbatch_size=9223372036854775807",
                                "kernels.threads=1000000",
                                "kernels.threads=0",
                                "run.devices_per_rank=0",
                                "kernels.precision=fp8",
                                "kernels.backend=gpu",
                                "model.label_smoothing=nan",
                                "model.dropout=1",
                                "model.hidden=[9223372036854775807]",
                                "model.width=-1",
                                "model.layers=9223372036854775807",
                                "optim.learning_rate=inf",
                                "optim.clip_norm=nan",
                                "train.epochs=0",
                                "train.steps=-1",
                                "data.crop=-1",
                                "data.holdout=-1",
                                "data.cache_mib=-1",
                                "run.relaunches=-1",
                                "run.hangup=\"stay\"",
                                "checkpoint.mode=fast",
                                "checkpoint.failure_domain=rack",
                                "optim.schedule=poly",
                                "optim.scale_rate=yes",
                                "model.stem=large",
                                "model.variant=gpt5",
                                "model.gelu=fast",
                                "log.level=x",
                                "log.trace=x"})
    EXPECT_THAT(error_of("", {key}), HasSubstr(key == "log.level=x" ? "log level" : key.substr(0, key.find('='))));
}

TEST(Job, KeysOfManyPartsAreRefused) {
  std::string key = "a";
  for (int i = 0; i < 200'000; ++i) key += ".a";
  EXPECT_THAT(error_of("[train]\n" + key + " = 1\n"), HasSubstr("job_test.toml:2: there are more than 1000 dots"));
  EXPECT_THAT(error_of("[" + key + "]\n"), HasSubstr("job_test.toml:1: there are more than 1000 dots"));
  EXPECT_EQ(error_of("# " + key + "\n[data]\ntrain = \"" + key + "\"\n"), "no error");
  for (const char* text : {R"("\"")", R"("""a\""" "b""")", "'''#\"'''", R"("")"})
    EXPECT_THAT(error_of("data = { x = " + std::string(text) + ", " + key + " = 1 }\n"),
                HasSubstr("there are more than 1000 dots"))
        << text;
  EXPECT_EQ(error_of("[data]\ntrain = \"\\\"" + key + "\"\n"), "no error");
  EXPECT_THAT(error_of("", {"model.hidden={" + key + "=1}"}), HasSubstr("there are more than 1000 dots"));
  EXPECT_THAT(error_of(std::string(2 << 20, '\n')), HasSubstr("has more than 1048576 bytes"));
}

TEST(Job, AHeadingWithoutANameIsRefused) {  // toml++ 3.3 takes for granted that there is one
  for (const char* text : {"[[ = 1", "[=]", "\xef\xbb\xbf [.a]", "[", "[[[a]]]", "[\n", "[ \xc3\xa4 ]"})
    EXPECT_NE(error_of(std::string(text)), "no error") << text;
  EXPECT_THAT(error_of("[train]\nepochs = 3\n [[ = 1\n"),
              HasSubstr("job_test.toml:3: expected a name after the bracket"));
  EXPECT_EQ(error_of("[ \"train\" ]\nepochs = 3\n[data]\ntrain = \"\"\"\n[=\n\"\"\"\n[model]\nhidden = [\n  1,\n]\n"),
            "no error");
}

/// Two of its samples are as good as any.
class NoSamples final : public data::Source {
 public:
  const std::string& name() const override { return name_; }
  const tensor::Shape& shape() const override { return shape_; }
  std::int64_t classes() const override { return 2; }
  std::int64_t labels_per_sample() const override { return 1; }
  std::int64_t samples() const override { return 2; }
  const std::string& digest() const override { return name_; }
  void read(std::span<const Pick>, data::Batch&) override {}

 private:
  std::string name_ = "none";
  tensor::Shape shape_{1};
};

TEST(Job, EveryKeyIsPartOfTheIdentityOfARunOrDoesNotChangeItsNumbers) {
  std::set<std::string> change_nothing{"cluster.interface",
                                       "cluster.ps.placement",
                                       "cluster.ps.tasks",
                                       "cluster.worker.tasks",
                                       "data.train",
                                       "data.sets",
                                       "data.source",
                                       "data.validation",
                                       "data.holdout",  // data.digest, data.samples and others stand for them
                                       "data.stage",
                                       "data.cache_mib",
                                       "data.decode_threads",
                                       "parallel.bucket_mib",
                                       "parallel.compression_rank",           // but with "powersgd"
                                       "parallel.compression_of_parameters",  // but with shards
                                       "parallel.interleave",
                                       "parallel.pipeline_ranks",
                                       "parallel.recompute",
                                       "parallel.schedule",
                                       "parallel.server_partners",
                                       "parallel.server_pulls",
                                       "parallel.server_steps",
                                       "parallel.stage_layers",
                                       "parallel.strategy",
                                       "parallel.tensor_ranks",
                                       "parallel.context_ranks",
                                       "train.audit_every",
                                       "train.balance",
                                       "train.best_metric",
                                       "train.best_min_delta",
                                       "train.check_resumed_loss",
                                       "train.end_at_step",
                                       "train.evaluate_every",
                                       "train.evaluate_every_steps",
                                       "train.keep_best",
                                       "train.stop_early_patience",
                                       "train.stop_margin_seconds",
                                       "kernels.backend",
                                       "kernels.threads",
                                       "kernels.replay",
                                       "kernels.deterministic"};  // "backend" stands for these
  Job job;
  for (const char* key :
       {"parallel.tensor_shards", "parallel.context_chunks", "parallel.compression", "parallel.groups",
        "parallel.local_steps", "parallel.outer", "parallel.outer_learning_rate", "parallel.outer_momentum",
        "parallel.server_mode", "parallel.staleness", "parallel.delay_compensation"})
    EXPECT_FALSE(train::identity_of(job.recipe, NoSamples()).contains(key)) << "as in older ones";
  job.recipe.parallel.tensor_shards = job.recipe.parallel.context_chunks = 2;
  const auto tells = [&](const char* model, const char* what) {
    job.recipe.model.name = model;
    return train::identity_of(job.recipe, NoSamples()).contains(std::string("parallel.tensor_shards.") + what);
  };
  EXPECT_TRUE(tells("gpt", "of_vocabulary")) << "a run of an older version, which did not divide it, is told apart";
  EXPECT_TRUE(tells("gpt", "of_rows"));
  EXPECT_TRUE(tells("vit", "of_rows"));
  EXPECT_FALSE(tells("vit", "of_vocabulary"));
  EXPECT_FALSE(tells("resnet18", "of_rows"));
  job.recipe.parallel.compression.encoding = "powersgd";
  EXPECT_TRUE(train::identity_of(job.recipe, NoSamples()).contains("parallel.compression_rank"));
  job.recipe.parallel.compression.encoding = "topk";
  job.recipe.parallel.strategy = parallel::Strategy::local_sgd;
  EXPECT_FALSE(train::identity_of(job.recipe, NoSamples()).contains("parallel.outer_momentum"))
      << "without an outer step";
  job.recipe.parallel.local_sgd.outer = parallel::Outer::nesterov;
  job.recipe.model.name = "gpt";
  auto servers = job.recipe;
  servers.parallel.strategy = parallel::Strategy::parameter_server;
  EXPECT_FALSE(train::identity_of(servers, NoSamples()).contains("parallel.server_mode")) << "as replicas";
  servers.parallel.servers.mode = parallel::server::Mode::asynchronous;
  EXPECT_FALSE(train::identity_of(servers, NoSamples()).contains("parallel.staleness")) << "without a bound";
  servers.parallel.servers.mode = parallel::server::Mode::bounded;
  for (const char* key : {"parallel.server_mode", "parallel.staleness", "parallel.delay_compensation"}) {
    EXPECT_TRUE(train::identity_of(servers, NoSamples()).contains(key)) << key;
    change_nothing.insert(key);
  }
  for (const char* key :
       {"data.weights", "data.normalize", "data.crop_area", "data.resize", "data.upright", "data.color_jitter",
        "data.rand_augment", "data.rand_augment_magnitude", "data.random_erasing", "data.mixup", "data.cutmix",
        "model.mlp_width", "model.norm_epsilon", "model.rotary_base", "model.qkv_bias"})
    EXPECT_FALSE(train::identity_of(job.recipe, NoSamples()).contains(key)) << "as in older ones";
  job.recipe.data.weights = {1};
  job.recipe.data.normalize = data::Normalization::imagenet;
  job.recipe.data.crop_area = 1;
  job.recipe.data.resize = 1;
  job.recipe.data.upright = true;
  job.recipe.data.color_jitter = {0.1};
  job.recipe.data.rand_augment = 1;
  job.recipe.data.rand_augment_magnitude = 5;
  job.recipe.data.random_erasing = job.recipe.data.mixup = job.recipe.data.cutmix = 0.1;
  job.recipe.model.mlp_width = 5;
  job.recipe.model.norm_epsilon = job.recipe.model.rotary_base = 0.5;
  job.recipe.model.qkv_bias = true;
  const auto identity = train::identity_of(job.recipe, NoSamples());
  describe(job, [&](const std::string& key, auto&, const char*) {
    const std::string section = key.substr(0, key.find('.'));
    if (std::set<std::string>{"run", "slurm", "comm", "checkpoint", "log"}.contains(section)) return;
    EXPECT_NE(identity.contains(key), change_nothing.contains(key)) << key;
  });
}

TEST(Job, DefaultsAreAJobFileThatChangesNothing) {
  auto job = load(file_with(defaults_as_toml()), {});
  EXPECT_EQ(to_toml(job), to_toml(Job{}));
}

TEST(Job, HasAlertsInTablesOfTheirOwn) {
  const std::string text =
      "[[alert]]\nwhen = \"loss rising\"\nlimit = 1\nrun = [\"mail\", \"me\"]\n"
      "[[alert]]\nwhen = \"disk filling\"\nfile = \"alerts.txt\"\n";
  const auto job = load(file_with(text), {});
  ASSERT_EQ(job.alerts.size(), 2u);
  EXPECT_EQ(job.alerts[0].when, observe::AlertKind::loss_rising);
  EXPECT_EQ(job.alerts[0].limit, 1.0);
  EXPECT_EQ(job.alerts[0].run, (std::vector<std::string>{"mail", "me"}));
  EXPECT_EQ(job.alerts[1].file, "alerts.txt");
  EXPECT_EQ(to_toml(load(file_with(to_toml(job)), {})), to_toml(job));
}

TEST(Job, SaysWhatIsWrongWithAnAlert) {
  EXPECT_THAT(error_of("[[alert]]\nwhen = \"often\"\n"), HasSubstr("job_test.toml:2: key \"alert.when\" must be"));
  EXPECT_THAT(error_of("[[alert]]\nfile = \"a\"\n"), HasSubstr("the alert has no key \"when\""));
  EXPECT_THAT(error_of("[[alert]]\nwhen = \"loss rising\"\n"), HasSubstr("an alert does nothing"));
  EXPECT_THAT(error_of("[[alert]]\nwhom = \"me\"\n"), HasSubstr("unknown key \"whom\" in [[alert]]"));
  EXPECT_THAT(error_of("[alert]\nwhen = \"loss rising\"\n"), HasSubstr("write [[alert]] above"));
  EXPECT_THAT(error_of("[[alert]]\nwhen = \"loss rising\"\nrun = \"mail\"\n"),
              HasSubstr("must be a list of texts in quotes"));
}

TEST(Job, ExamplesLoadAndEachHasARunFolderOfItsOwn) {
  std::set<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".toml") continue;
    EXPECT_TRUE(folders.insert(load(entry.path(), {}).run_dir).second) << entry.path();
  }
  EXPECT_GE(folders.size(), 7U);
}

TEST(Job, ReferencePageIsUpToDate) {
  std::ifstream in(SOURCE_DIR "/docs/configuration.md");
  std::string page((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(page, HasSubstr(reference_as_markdown())) << "run: build/bin/distdl config --reference";
}
}  // namespace
}  // namespace distdl::config
