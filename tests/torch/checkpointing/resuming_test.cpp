#include "paceline/torch/checkpointing/resuming.h"

#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

using checkpointing::NamedPart;
using checkpointing::Resuming;

// --- beginning anew ------------------------------------------------------------------------------

TEST(Resuming, ARunThatBeginsAnewSetsTheOldCheckpointsAsideTellsWhereAndRemovesNone) {
  const TemporaryFolder folder;
  Training training{.directory = folder.file("run")};
  const std::string fresh = training.in(folder.file("fresh")).run(6);
  training.run(9);
  training.resume = Resume::anew;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(training.run(6), fresh);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("newest of step 8"), HasSubstr(training.directory + "/aside-1")));
  EXPECT_EQ(names_in(training.directory),
            (std::vector<std::string>{".lock", "aside-1", "step-00000004"}));
  EXPECT_EQ(names_in(training.directory + "/aside-1"),
            (std::vector<std::string>{"step-00000004", "step-00000008"}));
}

// A job that its launcher has started again may have failed before it had looked at the checkpoints
// that lay there.
TEST(Resuming, AJobThatIsStartedAgainTakesNoCheckpointsOfAnotherJobForItsOwn) {
  const TemporaryFolder folder;
  const Training training{.directory = folder.file("run")};
  training.run(5);
  run_ranks(1, [&](Job& job) {
    SystemDisk disk;
    checkpoint::CheckpointDirectory directory(disk, training.directory);
    const auto settled = [&](const std::string& id, Resume resume) {
      return failure_of([&] {
        Resuming({id, 2}, job.world(), disk, directory, {.resume = resume}).settle_old_ones();
      });
    };
    for (const Resume resume : {Resume::no, Resume::yes, Resume::anew})
      EXPECT_EQ(settled(job.id(), resume), "nothing was thrown");
    EXPECT_EQ(directory.steps().value().size(), 1U) << "they are its own";
    EXPECT_EQ(settled("another", Resume::yes), "nothing was thrown");
    EXPECT_THAT(settled("another", Resume::no), HasSubstr("holds checkpoints already"));
    EXPECT_EQ(directory.steps().value().size(), 1U);
    EXPECT_EQ(settled("another", Resume::anew), "nothing was thrown");
    EXPECT_TRUE(directory.steps().value().empty());
  });
}

// The restart of a run that had left items out goes on with the bits of one that never failed.
TEST(Resuming, OfItsOwnCheckpointsAJobThatIsStartedAgainLoadsWhatItLeftOutOfAnothers) {
  const TemporaryFolder folder;
  run_ranks(1, [&](Job& job) {
    std::int64_t kept = 7, left = 8;
    std::vector<NamedPart> parts;
    parts.push_back(
        {"kept", checkpointing::fields_part([&](CheckpointFields& f) { f("n", kept); })});
    parts.push_back(
        {"left", checkpointing::fields_part([&](CheckpointFields& f) { f("n", left); })});
    {
      Checkpoints checkpoints(job, folder.file("run"));
      for (const char* name : {"kept", "left"}) {
        std::int64_t& value = name == std::string("kept") ? kept : left;
        checkpoints.add(name, [&](CheckpointFields& f) { f("n", value); });
      }
      checkpoints.resume();
      checkpoints.save(3);
    }
    SystemDisk disk;
    checkpoint::CheckpointDirectory directory(disk, folder.file("run"));
    const auto loaded = [&](const Resuming::Run& run) {
      kept = left = 0;
      Resuming resuming(run, job.world(), disk, directory,
                        {.resume = true, .ignore = {"left", "random"}});
      EXPECT_EQ(resuming.load(3, parts, false).own_step, 3);
      return std::pair{kept, left};
    };
    EXPECT_EQ(loaded({job.id(), 1}), (std::pair<std::int64_t, std::int64_t>{7, 0}));
    EXPECT_EQ(loaded({"another", 2}), (std::pair<std::int64_t, std::int64_t>{7, 0}));
    parts.push_back({checkpointing::kRandomItem, checkpointing::random_part()});
    EXPECT_EQ(loaded({job.id(), 2}), (std::pair<std::int64_t, std::int64_t>{7, 8}));
  });
}

TEST(Resuming, ABoolSaysNoOrYesAndATextIsNoBool) {
  EXPECT_EQ(CheckpointOptions{.resume = true}.resume, Resume::yes);
  EXPECT_EQ(CheckpointOptions{.resume = false}.resume, Resume::no);
  EXPECT_EQ(CheckpointOptions{}.resume, Resume::no);
  static_assert(!std::constructible_from<Resume, const char*>);
}

// --- some items ----------------------------------------------------------------------------------

// One step of a training in any precision, with gradients that are multiplied by `factor`, which is
// saved then. Returns the digest of rank 0's model, and the step at which it went on.
std::pair<std::string, std::int64_t> one_step(const std::string& directory,
                                              const DataParallelOptions& options,
                                              const CheckpointOptions& of_checkpoints = {},
                                              double factor = 1) {
  std::pair<std::string, std::int64_t> result;
  run_ranks(2, [&](Job& job) {
    auto net = std::make_shared<Net>(at::kFloat);
    DataParallel parallel(net, job, options);
    optim::SGD optimizer(parallel.parameters(), 0.05);
    Checkpoints checkpoints(job, directory, of_checkpoints);
    checkpoints.add("model", net);
    checkpoints.add("optimizer", optimizer);
    checkpoints.add("parallel", parallel);
    const std::int64_t step = checkpoints.resume();
    {
      const auto cast = parallel.autocast();
      const at::Tensor x = samples(job.rank(), 4).x.to(parallel.input_type());
      parallel.backward(net->forward(x, true).square().mean() * factor);
    }
    parallel.step(optimizer);
    checkpoints.save(step + 1);
    checkpoints.finish();
    parallel.finish();
    const auto whole = parallel.gathered();
    if (job.rank() == 0) result = {sha256_of(net->parameters()), step};
  });
  return result;
}

// The state that a training keeps beside the parameters follows the loaded model.
TEST(Resuming, TheModelAloneIsWhatTheTrainingGoesOnFromWhateverElseItKeeps) {
  const std::vector<std::pair<const char*, DataParallelOptions>> all = {
      {"synchronous", {}},
      {"o2", {.precision = "o2"}},
      {"stage 1", {.zero_stage = 1}},
      {"stage 3", {.zero_stage = 3}},
      {"elastic", {.synchrony = "elastic"}},
      {"block_momentum", {.synchrony = "block_momentum:period=1"}}};
  for (const auto& [name, options] : all) {
    SCOPED_TRACE(name);
    const TemporaryFolder folder;
    const auto [saved, begun] = one_step(folder.file("run"), options);
    EXPECT_EQ(begun, 0);
    const auto [after, step] =
        one_step(folder.file("run"), options, {.resume = true, .only = {"model"}}, /*factor=*/0);
    EXPECT_EQ(after, saved);
    EXPECT_EQ(step, 1);
  }
}

TEST(Resuming, WhatCompressionHeldBackIsRefusedByAnotherOneOnAllRanksAndCanBeLeftOut) {
  const TemporaryFolder folder;
  Training training{.directory = folder.file("run"), .type = at::kFloat};
  training.parallel.compression = "top_k:ratio=0.5,min_compress_bytes=0";
  training.run(9);
  Training other = training.resumed();
  other.parallel.compression = "ef_sign:min_compress_bytes=0";
  try {
    other.run(12);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse) << "so that the example ends with code 2";
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("item 'parallel'"), HasSubstr("top_k"), HasSubstr("ef_sign"),
                      HasSubstr("CheckpointOptions{.ignore = {\"parallel\"}}")));
  }
  other.ignore = {"parallel"};
  ::testing::internal::CaptureStderr();
  other.run(12);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("this run leaves out 'parallel'"));
}

// --- what goes on from what (docs/guide/combinations.md) -----------------------------------------

// "yes", or the text with which a checkpoint of the first training refuses the second.
std::string goes_on(const DataParallelOptions& from, const DataParallelOptions& to,
                    const CheckpointOptions& options = {.resume = true}) {
  const TemporaryFolder folder;
  one_step(folder.file("run"), from);
  try {
    one_step(folder.file("run"), to, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    return error.what();
  }
  return "yes";
}

TEST(Resuming, ACheckpointOfAnotherSynchronyIsRefusedByBothNamesAndGoesOnWithoutItsState) {
  const std::vector<std::string> all = {"synchronous", "local_sgd", "robust:rule=clipping,faulty=0",
                                        "async_gossip"};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string &from = all[i], &to = all[(i + 1) % all.size()];
    EXPECT_THAT(goes_on({.synchrony = from}, {.synchrony = to}),
                AllOf(HasSubstr("\"" + from + "\""), HasSubstr("\"" + to + "\""),
                      HasSubstr("item 'parallel'")));
    EXPECT_EQ(
        goes_on({.synchrony = from}, {.synchrony = to}, {.resume = true, .ignore = {"parallel"}}),
        "yes")
        << from << " to " << to;
  }
}

TEST(Resuming, ACheckpointOfAnotherPrecisionIsRefusedUnlessItHoldsTheSame) {
  for (const auto& [from, to] : {std::pair{"none", "o1"}, std::pair{"o1", "none"}})
    EXPECT_EQ(goes_on({.precision = from}, {.precision = to}), "yes") << from << " to " << to;
  const std::string fp16 = "o1:dtype=fp16";
  for (const std::string other : {"none", "o1"}) {
    EXPECT_THAT(goes_on({.precision = "o2"}, {.precision = other}),
                AllOf(HasSubstr("item 'model'"), HasSubstr("bf16")));
    EXPECT_THAT(goes_on({.precision = other}, {.precision = "o2"}),
                AllOf(HasSubstr("item 'model'"), HasSubstr("bf16")));
    EXPECT_THAT(goes_on({.precision = fp16}, {.precision = other}),
                AllOf(HasSubstr("item 'parallel'"), HasSubstr("with fp16 and its scale"),
                      HasSubstr("precision \"" + other)));
    EXPECT_THAT(goes_on({.precision = other}, {.precision = fp16}),
                AllOf(HasSubstr("item 'parallel'"), HasSubstr("without fp16 and its scale")));
  }
}

}  // namespace

}  // namespace paceline

namespace paceline::checkpointing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<NamedPart> parts_named(const std::vector<std::string>& names) {
  std::vector<NamedPart> parts;
  parts.push_back({kRandomItem, random_part(), NamedPart::Kind::random});
  for (const std::string& name : names)
    parts.push_back({name, fields_part([](CheckpointFields&) {}),
                     name == "model" ? NamedPart::Kind::model : NamedPart::Kind::other});
  return parts;
}

checkpoint::Manifest manifest_with(const std::vector<std::string>& names) {
  checkpoint::Manifest manifest;
  manifest.items.push_back({.name = kRandomItem});
  for (const std::string& name : names) manifest.items.push_back({.name = name});
  return manifest;
}

ItemChoice::Chosen chosen(const CheckpointOptions& options, const std::vector<std::string>& saved,
                          const std::vector<std::string>& own) {
  const auto parts = parts_named(own);
  const ItemChoice choice(options);
  choice.require_known(parts);
  return choice.of(manifest_with(saved), parts, "run/step-00000008");
}

TEST(ItemChoice, WithoutOptionsProgramAndCheckpointMustHaveTheSameItems) {
  const auto all = chosen({}, {"model", "mine", kStepsItem}, {"model", "mine"});
  EXPECT_THAT(all.loaded, ElementsAre(kRandomItem, "model", "mine"));
  EXPECT_EQ(all.told, "");
  EXPECT_THAT(failure_of([] {
                chosen({}, {"model"}, {"model", "mine"});
              }),
              AllOf(HasSubstr("this program has an item 'mine'"), HasSubstr("step-00000008"),
                    HasSubstr("CheckpointOptions{.ignore = {\"mine\"}}")));
  EXPECT_THAT(failure_of([] {
                chosen({}, {"model", "mine", "ema"}, {"model", "mine"});
              }),
              HasSubstr("the checkpoint has an item 'ema'"));
}

TEST(ItemChoice, OnlyAndIgnoreNameItemsAndWhatIsLeftOutIsToldInOneLine) {
  const auto only = chosen({.only = {"model"}}, {"model", "ema"}, {"model", "optimizer"});
  EXPECT_THAT(only.loaded, ElementsAre("model"));
  EXPECT_EQ(only.told,
            "of run/step-00000008 this run leaves out 'random', 'ema'; 'optimizer' begins anew");
  const auto without =
      chosen({.ignore = {"ema", "optimizer"}}, {"model", "ema"}, {"model", "optimizer"});
  EXPECT_THAT(without.loaded, ElementsAre(kRandomItem, "model"));
  EXPECT_EQ(without.told,
            "of run/step-00000008 this run leaves out 'ema'; 'optimizer' begins anew");
}

TEST(ItemChoice, UnknownNamesAndBothOptionsAreRefused) {
  EXPECT_THAT(failure_of([] { chosen({.only = {"modle"}}, {"model"}, {"model"}); }),
              AllOf(HasSubstr("only names an item 'modle'"), HasSubstr("'random', 'model'")));
  EXPECT_THAT(failure_of([] {
                chosen({.ignore = {"emma"}}, {"model", "ema"}, {"model"});
              }),
              AllOf(HasSubstr("ignore names an item 'emma'"), HasSubstr("'ema'")));
  EXPECT_THAT(failure_of([] {
                chosen({.only = {"mine"}}, {"model"}, {"model", "mine"});
              }),
              HasSubstr("this program has an item 'mine', and the checkpoint has none"));
  EXPECT_THAT(failure_of([] { chosen({.only = {"a"}, .ignore = {"b"}}, {}, {}); }),
              HasSubstr("both .only and .ignore"));
}

TEST(ItemChoice, AProgramThatAddsNothingButModelsTakesThemOutOfAnyCheckpoint) {
  const auto model = chosen({}, {"model", "optimizer", "parallel"}, {"model"});
  EXPECT_THAT(model.loaded, ElementsAre(kRandomItem, "model"));
  EXPECT_EQ(model.told, "of run/step-00000008 this run leaves out 'optimizer', 'parallel'");
  EXPECT_THAT(failure_of([] { chosen({}, {"net"}, {"model"}); }),
              HasSubstr("this program has an item 'model'"));
}

TEST(ItemChoice, OfItsOwnCheckpointsAStartedAgainRunTakesAll) {
  const auto parts = parts_named({"model", "mine"});
  const auto all = ItemChoice::all(manifest_with({"model", "mine"}), parts, "run/step-00000008");
  EXPECT_THAT(all.loaded, ElementsAre(kRandomItem, "model", "mine"));
  EXPECT_THAT(all.told, IsEmpty());
}

}  // namespace

}  // namespace paceline::checkpointing
