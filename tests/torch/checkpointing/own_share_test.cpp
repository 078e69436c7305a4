#include "paceline/torch/checkpointing/own_share.h"

#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

// The example's mlp has 1,863,690 parameters, and as many momenta.
TEST(OwnShare, RanksShareTheTensorsByTheirBytes) {
  constexpr std::uint64_t kModelAndMomenta = 2 * 4 * 1'863'690, kStream = 5'056;
  constexpr std::uint64_t kLargestTensor = 4 * 1024 * 1024, kHeader = 4096;
  for (const int ranks : {1, 2, 3}) {
    const TemporaryFolder folder;
    run_ranks(ranks, [&](Job& job) {
      nn::Sequential model(nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024), nn::ReLU(),
                           nn::Linear(1024, 10));
      optim::SGD optimizer(model->parameters(), optim::SGDOptions(0.1).momentum(0.9));
      DataParallel data_parallel(model, job);
      Checkpoints checkpoints(job, folder.file("run"));
      checkpoints.add("model", model);
      checkpoints.add("optimizer", optimizer);
      checkpoints.add("parallel", data_parallel);
      checkpoints.resume();
      model->forward(at::ones({2, 784})).sum().backward();
      data_parallel.step(optimizer);
      EXPECT_TRUE(checkpoints.save(1));
    });
    SystemDisk disk;
    const std::string step = folder.file("run") + "/step-00000001";
    const auto manifest = checkpoint::read_manifest(disk, step).value();
    std::uint64_t tensors = 0, streams = 0;
    for (const auto& item : manifest.items) {
      for (const auto& tensor : item.tensors) {
        (item.name == "random" ? streams : tensors) +=
            checkpoint::byte_length(tensor.shape, tensor.dtype).value();
      }
    }
    EXPECT_EQ(tensors, kModelAndMomenta) << ranks;
    EXPECT_EQ(streams, kStream * static_cast<std::uint64_t>(ranks));
    std::vector<std::uint64_t> shares(static_cast<std::size_t>(ranks));
    for (const auto& file : manifest.files) {
      const auto header =
          checkpoint::read_header(*disk.open(step + "/" + file.name).value(), file.name).value();
      EXPECT_LE(header.data_begin, kHeader) << file.name;
      const auto rank = std::stoul(file.name.substr(file.name.find('-') + 1)) - 1;
      shares.at(rank) += file.length - header.data_begin;
    }
    const auto [least, most] = std::ranges::minmax(shares);
    EXPECT_LE(most - least, kLargestTensor);
  }
}

TEST(OwnShare, WhatCannotBeSavedIsRefusedByName) {
  const TemporaryFolder folder;
  run_ranks(1, [&](Job& job) {
    nn::Linear model(2, 2);
    optim::SGD stranger({at::zeros({2}).requires_grad_()}, 0.1);
    optim::LBFGS other(model->parameters());
    Checkpoints checkpoints(job, folder.file("run"));
    EXPECT_THAT(failure_of([&] { checkpoints.add("a/b", model); }), HasSubstr("'a/b'"));
    EXPECT_THAT(failure_of([&] { checkpoints.add("random", model); }), HasSubstr("'random'"));
    checkpoints.add("model", model);
    checkpoints.add("stranger", stranger);
    EXPECT_THAT(failure_of([&] { checkpoints.save(1); }), HasSubstr("is in no model"));
  });
  run_ranks(1, [&](Job& job) {
    nn::Linear model(2, 2);
    optim::LBFGS other(model->parameters());
    Checkpoints checkpoints(job, folder.file("run"));
    checkpoints.add("model", model);
    EXPECT_THAT(failure_of([&] { checkpoints.add("other", other); }),
                AllOf(HasSubstr("SGD, Adam"), HasSubstr("CheckpointFields")));
  });
  run_ranks(1, [&](Job& job) {
    Checkpoints checkpoints(job, folder.file("run"));
    at::Tensor complex = at::zeros({2}, at::kComplexFloat);
    checkpoints.add("mine", [&](CheckpointFields& f) { f("z", complex); });
    EXPECT_THAT(failure_of([&] { checkpoints.save(1); }), HasSubstr("view_as_real"));
  });
  run_ranks(1, [&](Job& job) {
    Checkpoints checkpoints(job, folder.file("run"));
    std::string bytes = "\xff\xfe";
    checkpoints.add("mine", [&](CheckpointFields& f) { f("bytes", bytes); });
    EXPECT_THAT(failure_of([&] { checkpoints.save(1); }),
                AllOf(HasSubstr("item 'mine'"), HasSubstr("UTF-8"), HasSubstr("tensor")));
  });
}

}  // namespace
}  // namespace paceline
