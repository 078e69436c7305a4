// A training that is saved, as a program writes it, for the tests of this room.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/base/disk.h"
#include "paceline/core/checkpoint/checkpoint.h"
#include "paceline/torch/checkpointing/checkpointing.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {

namespace fs = std::filesystem;
namespace optim = torch::optim;
using test::TemporaryFolder;

// A training of the small net, as a program writes it. Each run_ranks() is a run of that program.
struct Training {
  std::string directory;
  int ranks = 2;
  std::int64_t every = 4;
  std::uint64_t keep_last = 2;
  Resume resume = Resume::no;
  std::vector<std::string> only = {}, ignore = {};
  // On each rank, when its checkpoints are made and nothing is loaded yet.
  std::function<void(Job&)> before_resume = [](Job&) {};
  at::ScalarType type = at::kDouble;
  DataParallelOptions parallel = kSmallBuckets;
  std::function<std::unique_ptr<optim::Optimizer>(std::vector<at::Tensor>)> optimizer =
      [](std::vector<at::Tensor> parameters) -> std::unique_ptr<optim::Optimizer> {
    return std::make_unique<optim::SGD>(std::move(parameters),
                                        optim::SGDOptions(0.05).momentum(0.9));
  };

  // Trains until `steps` are done, and returns the digest of rank 0's parameters.
  std::string run(std::int64_t steps) const {
    SameEverywhere same;
    std::string digest;
    run_ranks(ranks, [&](Job& job) {
      auto net = std::make_shared<Net>(type);
      DataParallel data_parallel(net, job, parallel);
      const auto all =
          optimizer(parallel.zero_stage > 0 ? data_parallel.parameters() : net->parameters());
      Checkpoints checkpoints(job, directory,
                              {.every = every,
                               .keep_last = keep_last,
                               .resume = resume,
                               .only = only,
                               .ignore = ignore});
      checkpoints.add("model", net);
      if (!parallel.optimizer) checkpoints.add("optimizer", *all);
      checkpoints.add("parallel", data_parallel);
      before_resume(job);
      std::int64_t step = checkpoints.resume();
      while (step < steps && !checkpoints.stopping()) {
        all->zero_grad();
        // A global batch of 12, whatever the number of ranks.
        const Samples batch = samples(static_cast<int>(step), 12);
        const std::int64_t begin = 12 * job.rank() / ranks, end = 12 * (job.rank() + 1) / ranks;
        data_parallel.weight(static_cast<double>(end - begin));
        loss_of(*net, batch.rows(begin, end), step % 3 == 1).backward();
        if (parallel.optimizer) data_parallel.step();
        else data_parallel.step(*all);
        checkpoints.save_if_due(++step);
      }
      EXPECT_EQ(checkpoints.finish(), 0);
      data_parallel.finish();
      const auto whole = data_parallel.gathered();
      same.tell("parameters", net->parameters());
      if (job.rank() == 0) digest = sha256_of(net->parameters());
    });
    return digest;
  }

  Training resumed() const {
    Training again = *this;
    again.resume = true;
    return again;
  }
  Training in(const std::string& other) const {
    Training again = *this;
    again.directory = other;
    return again;
  }
};

inline std::string failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

inline std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

// Ends at step 10, of which step 8 was saved, and goes on to step `end`.
inline void expect_same_bits_after_resuming(const Training& training, std::int64_t end = 20) {
  const TemporaryFolder whole, parted;
  const std::string expected = training.in(whole.file("run")).run(end);
  const Training first = training.in(parted.file("run"));
  first.run(10);
  EXPECT_EQ(first.resumed().run(end), expected);
}

}  // namespace paceline
