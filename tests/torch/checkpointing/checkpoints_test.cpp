#include "paceline/torch/checkpointing/checkpoints.h"

#include <csignal>
#include <latch>

#include "paceline/core/compress/compress.h"
#include "tests/support/nightly.h"
#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

TEST(Checkpoints, ARunThatWasResumedEndsWithTheBitsOfOneThatWasNot) {
  for (const int ranks : {1, 2, 3}) {
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(c10::str(ranks, " ranks, ", type));
      expect_same_bits_after_resuming({.ranks = ranks, .type = type});
    }
  }
}

TEST(Checkpoints, EachCompressionGoesOnWithWhatItHeldBack) {
  std::size_t turn = 0;
  for (const compress::Method& method : compress::built_in_methods()) {
    for (const std::string schedule : {"buckets", "wait_free", "barrier"}) {
      // Each method is tried by day with one schedule, in turn.
      const std::size_t now = turn++;
      if (now % 3 != now / 3 % 3 && !test::is_nightly()) continue;
      SCOPED_TRACE(c10::str(method.name, " under ", schedule));
      Training training{.type = at::kFloat};
      training.parallel.schedule = schedule;
      training.parallel.compression = std::string(method.name) + ":min_compress_bytes=0";
      if (method.name == "one_bit_adam") training.parallel.compression += ",freeze_step=4";
      if (method.name == "dgc") training.parallel.compression += ",warm_up_steps=9";
      expect_same_bits_after_resuming(training);
    }
  }
}

// Measured plans differ from run to run, so the run that goes on is the one that saved.
TEST(Checkpoints, UnderMeasuredSchedulesARunThatGoesOnAfterASaveEqualsOneThatLoadsIt) {
  std::size_t turn = 0;
  for (const compress::Method& method : compress::built_in_methods()) {
    for (const char* schedule : {"merged", "priority", "general"}) {
      if (!test::is_nightly() && turn++ % 5 != 0) continue;
      SCOPED_TRACE(c10::str(method.name, " under ", schedule));
      const TemporaryFolder folder;
      Training training{.directory = folder.file("run"), .every = 16, .type = at::kFloat};
      training.parallel.schedule = schedule;
      training.parallel.compression = std::string(method.name) + ":min_compress_bytes=0";
      if (method.name == "one_bit_adam") training.parallel.compression += ",freeze_step=4";
      if (method.name == "dgc") training.parallel.compression += ",warm_up_steps=9";
      const std::string expected = training.run(24);
      EXPECT_EQ(training.resumed().run(24), expected);
    }
  }
}

TEST(Checkpoints, OnAnotherWorldTheTensorsAreTheSameAndTrainingGoesOnAsOnOneRank) {
  const TemporaryFolder folder;
  const Training four{.directory = folder.file("run"), .ranks = 4};
  four.run(8);
  const auto copy_for = [&](int ranks) {
    const std::string to = folder.file("run" + std::to_string(ranks));
    fs::copy(four.directory, to, fs::copy_options::recursive);
    return to;
  };
  std::map<int, std::string> at_once, later;
  for (const int ranks : {1, 2, 3, 7}) {
    Training other = four.resumed().in(copy_for(ranks));
    other.ranks = ranks;
    at_once[ranks] = other.run(8);
    later[ranks] = other.run(28);
  }
  const std::string saved = four.resumed().run(8);
  for (const auto& [ranks, digest] : at_once) EXPECT_EQ(digest, saved) << ranks << " ranks";
  // Sums over 3 or 7 ranks are rounded at other places than over one: fp64, 1e-10.
  SystemDisk disk;
  const auto weights_of = [&](int ranks) {
    const std::string step = folder.file("run" + std::to_string(ranks)) + "/step-00000028";
    const auto manifest = checkpoint::read_manifest(disk, step).value();
    checkpoint::CheckpointReader reader(disk, step);
    std::map<std::string, std::vector<double>> weights;
    for (const auto& item : manifest.items) {
      if (item.name != "model") continue;
      for (const auto& tensor : item.tensors) {
        auto& values = weights[tensor.name];
        values.resize(checkpoint::elements_of(tensor.shape).value());
        reader.read(tensor, std::as_writable_bytes(std::span(values))).value();
      }
    }
    return weights;
  };
  const auto alone = weights_of(1);
  for (const int ranks : {2, 3, 7}) {
    for (const auto& [name, values] : weights_of(ranks))
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], alone.at(name)[i], 1e-10) << name << ", " << ranks << " ranks";
  }
}

TEST(Checkpoints, ADirectoryThatHoldsCheckpointsIsNotBegunAnewByMistake) {
  const TemporaryFolder folder;
  const Training training{.directory = folder.file("run")};
  training.run(4);
  EXPECT_THAT(failure_of([&] { training.run(8); }),
              AllOf(HasSubstr("step 4"), HasSubstr("another directory")));
  EXPECT_THAT(failure_of([&] { training.in(folder.file("no/run")).run(8); }),
              HasSubstr("No such file or directory"));
}

TEST(Checkpoints, AnotherProgramIsToldTheFirstThingThatDiffers) {
  const TemporaryFolder folder;
  const auto run = [&](bool resume, auto make_model, auto add) {
    return failure_of([&] {
      run_ranks(2, [&](Job& job) {
        auto model = make_model();
        optim::SGD optimizer(model->parameters(), optim::SGDOptions(0.1).momentum(0.9));
        Checkpoints checkpoints(job, folder.file("run"), {.resume = resume});
        checkpoints.add("model", model);
        checkpoints.add("optimizer", optimizer);
        add(checkpoints);
        checkpoints.resume();
        if (!resume) checkpoints.save(1);
      });
    });
  };
  const auto nothing = [](Checkpoints&) {};
  const auto net = [] {
    nn::Sequential model(nn::Linear(3, 4));
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : model->parameters()) parameter.fill_(1);
    return model;
  };
  EXPECT_EQ(run(false, net, nothing), "nothing was thrown");
  EXPECT_EQ(run(true, net, nothing), "nothing was thrown");
  EXPECT_THAT(run(
                  true, [] { return nn::Sequential(nn::Linear(3, 5)); }, nothing),
              AllOf(HasSubstr("'0.weight'"), HasSubstr("f32[4, 3]"), HasSubstr("f32[5, 3]")));
  EXPECT_THAT(run(
                  true, [] { return nn::Sequential(nn::Linear(3, 4), nn::Linear(4, 1)); }, nothing),
              AllOf(HasSubstr("no tensor '1.weight'"), HasSubstr("step-00000001")));
  EXPECT_THAT(
      run(
          true, [] { return nn::Sequential(nn::LinearImpl(nn::LinearOptions(3, 4).bias(false))); },
          nothing),
      HasSubstr("has a tensor '0.bias'"));
  std::int64_t count = 0;
  EXPECT_THAT(run(true, net,
                  [&](Checkpoints& checkpoints) {
                    checkpoints.add("mine", [&](CheckpointFields& f) { f("count", count); });
                  }),
              HasSubstr("this program has an item 'mine'"));
}

// An optimizer that no table knows.
struct OtherSGD final : optim::SGD {
  using optim::SGD::SGD;
};

TEST(Checkpoints, WhatNoSaveCanHoldIsRefusedWhenItIsAdded) {
  const TemporaryFolder folder;
  run_ranks(1, [&](Job& job) {
    Net net;
    net.register_buffer("phases", at::zeros({2}, at::kComplexFloat));
    OtherSGD other(net.parameters(), optim::SGDOptions(0.1));
    Checkpoints checkpoints(job, folder.file("run"));
    EXPECT_THAT(misuse_of([&] { checkpoints.add("model", static_cast<nn::Module&>(net)); }),
                AllOf(HasSubstr("'phases'"), HasSubstr("item 'model'"), HasSubstr("view_as_real")));
    EXPECT_THAT(misuse_of([&] { checkpoints.add("optimizer", other); }),
                AllOf(HasSubstr("SGD, Adam"), HasSubstr("CheckpointFields")));
    auto fine = std::make_shared<Net>();
    optim::SGD sgd(fine->parameters(), optim::SGDOptions(0.1));
    checkpoints.add("model", fine);
    checkpoints.add("optimizer", sgd);
    EXPECT_THAT(misuse_of([&] { checkpoints.add("optimizer", sgd); }), HasSubstr("already"));
    optim::SGD stranger({at::ones({2})}, optim::SGDOptions(0.1));
    checkpoints.add("stranger", stranger);
    EXPECT_THAT(misuse_of([&] { checkpoints.resume(); }), HasSubstr("is in no model"));
  });
}

TEST(Checkpoints, AnOptimizersSwitchThatDiffersIsRefusedByName) {
  const auto adam = [](bool amsgrad) {
    return [amsgrad](std::vector<at::Tensor> parameters) -> std::unique_ptr<optim::Optimizer> {
      return std::make_unique<optim::Adam>(std::move(parameters),
                                           optim::AdamOptions(0.01).amsgrad(amsgrad));
    };
  };
  for (const bool before : {false, true}) {
    const TemporaryFolder folder;
    Training training{.directory = folder.file("run"), .optimizer = adam(before)};
    training.run(4);
    training.optimizer = adam(!before);
    EXPECT_THAT(misuse_of([&] { training.resumed().run(8); }),
                AllOf(HasSubstr(before ? "with amsgrad(true)" : "with amsgrad(false)"),
                      HasSubstr(before ? "has amsgrad(false)" : "has amsgrad(true)")));
  }
}

TEST(Checkpoints, ThatAddAModelAloneResumeIt) {
  const TemporaryFolder folder;
  const Training training{.directory = folder.file("run")};
  const std::string saved = training.run(4);
  run_ranks(2, [&](Job& job) {
    auto net = std::make_shared<Net>();
    for (at::Tensor& one : net->parameters()) one.data().fill_(7);
    Checkpoints checkpoints(job, folder.file("run"), {.resume = true});
    checkpoints.add("model", net);
    EXPECT_EQ(checkpoints.resume(), 4);
    EXPECT_EQ(sha256_of(net->parameters()), saved);
  });
}

TEST(Checkpoints, ASecondJobIsRefusedWhileTheFirstOneRuns) {
  const TemporaryFolder folder;
  run_ranks(1, [&](Job& job) {
    Checkpoints first(job, folder.file("run"));
    EXPECT_THAT(failure_of([&] { Checkpoints second(job, folder.file("run")); }),
                AllOf(HasSubstr("in use by job"), HasSubstr("host"), HasSubstr("process")));
  });
}

TEST(Checkpoints, ASignalToOneRankSavesTheSameStepOnAllAndStopsThem) {
  const TemporaryFolder folder;
  // The others look for signals, wait for rank 1, and see its signal after the save that it is for.
  std::latch others_wait(2);
  run_ranks(3, [&](Job& job) {
    std::int64_t count = 0, stopped_at = 0;
    // Each signal is served by one save, though each rank sees it in a step of its own.
    Checkpoints checkpoints(job, folder.file("run"), {.keep_last = 9});
    checkpoints.add("mine", [&](CheckpointFields& f) { f("count", count); });
    std::int64_t step = checkpoints.resume();
    for (; step < 1000 && !checkpoints.stopping();) {
      if (step == 10 && job.rank() == 1) {
        others_wait.wait();
        ::raise(SIGUSR1);
      }
      if (step == 20 && job.rank() == 2) ::raise(SIGTERM);
      count = ++step;
      if (step == 12 && job.rank() != 1) others_wait.count_down();
      checkpoints.save_if_due(step);
    }
    stopped_at = step;
    EXPECT_LE(stopped_at, 22);
    EXPECT_EQ(checkpoints.finish(), 143);
  });
  const auto names = names_in(folder.file("run"));
  ASSERT_EQ(names.size(), 3u);
  EXPECT_THAT(names[1], ::testing::AnyOf("step-00000011", "step-00000012"));
  EXPECT_THAT(names[2], ::testing::AnyOf("step-00000021", "step-00000022"));
}

}  // namespace
}  // namespace paceline
