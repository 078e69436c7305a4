// Changes of a model or of its gradients that no hook tells of: seen at the next step, or harmless.
#include "tests/torch/parallel/saved_training.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// Both as one process and as two, as one program would do it on all ranks.
void in_one_and_two_ranks(const std::function<void(Job&)>& body) {
  for (const int ranks : {1, 2}) run_ranks(ranks, body);
}

TEST(UnseenChanges, AParameterThatIsUnfrozenLaterIsRefusedByName) {
  in_one_and_two_ranks([](Job& job) {
    Net net;
    net.first->weight.requires_grad_(false);
    DataParallel parallel(net, job);
    auto optimizer = sgd(net);
    const auto step = [&](bool by_hand) {
      optimizer.zero_grad();
      loss_of(net, samples(job.rank(), 4)).backward();
      if (by_hand) parallel.synchronize();
      else parallel.step(optimizer);
    };
    EXPECT_NO_THROW(step(false)) << "frozen members of an optimizer are legal";
    EXPECT_NO_THROW(step(true));
    net.first->weight.requires_grad_(true);
    for (const bool by_hand : {false, true}) {
      EXPECT_THAT(misuse_of([&] { step(by_hand); }),
                  AllOf(HasSubstr("'first.weight'"), HasSubstr("rebind")));
    }
    parallel.rebind(job.world());
    EXPECT_NO_THROW(step(false));
    EXPECT_EQ(parallel.last_step().used, 6) << "of all but the side branch's two";
  });
}

TEST(UnseenChanges, AParameterThatTheOptimizerHasBesideTheModelsIsRefused) {
  in_one_and_two_ranks([](Job& job) {
    Net net;
    DataParallel parallel(net, job);
    auto optimizer = sgd(net);
    at::Tensor scale = at::ones({3}, at::kDouble).requires_grad_(true);
    optimizer.add_param_group(torch::optim::OptimizerParamGroup({scale}));
    const auto backward = [&](bool scaled) {
      optimizer.zero_grad();
      at::Tensor loss = loss_of(net, samples(job.rank(), 4));
      (scaled ? loss * scale.sum() : loss).backward();
    };
    backward(false);
    EXPECT_TRUE(parallel.step(optimizer)) << "without a gradient it is not stepped";
    backward(true);
    EXPECT_THAT(misuse_of([&] { parallel.step(optimizer); }),
                HasSubstr("parameter 0 of the optimizer's group 1"));
    backward(true);
    EXPECT_TRUE(parallel.synchronize()) << "one's own step is one's own affair";
    optimizer.step();
  });
}

TEST(UnseenChanges, ADistributedOptimizerRefusesParametersThatCameLater) {
  in_one_and_two_ranks([](Job& job) {
    Net net;
    auto plain = sgd(net);
    DistributedOptimizer optimizer(plain, job);
    at::Tensor scale = at::ones({3}, at::kDouble).requires_grad_(true);
    plain.add_param_group(torch::optim::OptimizerParamGroup({scale}));
    (loss_of(net, samples(job.rank(), 4)) * scale.sum()).backward();
    EXPECT_THAT(misuse_of([&] { optimizer.step(); }),
                HasSubstr("parameter 0 of the optimizer's group 1"));
  });
}

TEST(UnseenChanges, AModelThatIsLoadedOrConvertedLaterGoesOnOrIsRefused) {
  const std::map<std::string, std::function<void(std::shared_ptr<Net>&)>> changes = {
      {"loaded", [](std::shared_ptr<Net>& net) { load(net, saved(std::make_shared<Net>())); }},
      {"converted", [](std::shared_ptr<Net>& net) { net->to(at::kFloat); }},
      {"one layer", [](std::shared_ptr<Net>& net) {
         net->second->weight.set_data(net->second->weight.to(at::kFloat));
         net->second->weight.set_data(net->second->weight.to(at::kDouble));
       }}};
  for (const auto& [what, change] : changes) {
    SameEverywhere same;
    run_ranks(2, [&](Job& job) {
      auto net = std::make_shared<Net>();
      DataParallel parallel(net, job);
      auto optimizer = sgd(*net);
      const auto step = [&](int number) {
        optimizer.zero_grad();
        loss_of(*net, samples(2 * number + job.rank(), 4)).backward();
        parallel.step(optimizer);
      };
      step(0);
      change(net);
      std::string refusal;
      try {
        for (int number = 1; number < 4; ++number) step(number);
      } catch (const Error& error) {
        refusal = error.what();
      }
      if (refusal.empty()) {
        same.tell(what, net->parameters());
        return;
      }
      EXPECT_THAT(refusal, AllOf(HasSubstr(what == "one layer" ? "'second.weight'" : "'first."),
                                 HasSubstr("rebind")));
      parallel.rebind(job.world());
      step(5);
      same.tell(what, net->parameters());
    });
  }
}

TEST(UnseenChanges, AStepToWhichNoRankBroughtAGradientIsRefused) {
  in_one_and_two_ranks([](Job& job) {
    Net net;
    DataParallel parallel(net, job);
    EXPECT_THAT(misuse_of([&] { parallel.synchronize(); }), HasSubstr("no rank"));
    parallel.weight(0);
    EXPECT_FALSE(parallel.synchronize()) << "nobody has a batch";
  });
}

TEST(UnseenChanges, LibtorchsClippingBeforeTheStepIsRefused) {
  in_one_and_two_ranks([](Job& job) {
    Net net;
    DataParallel parallel(net, job);
    auto optimizer = sgd(net);
    const auto backward = [&] {
      optimizer.zero_grad();
      (loss_of(net, samples(job.rank(), 4)) * 100).backward();
    };
    for (int step = 0; step < 3; ++step) {
      backward();
      bool is_refused_at_once = false;
      try {
        torch::nn::utils::clip_grad_norm_(net.parameters(), 0.01);
      } catch (const c10::Error&) {  // the gradients are on their way
        is_refused_at_once = true;
      }
      if (is_refused_at_once) {
        parallel.step(optimizer);
      } else {
        EXPECT_THAT(misuse_of([&] { parallel.step(optimizer); }),
                    AllOf(HasSubstr("was changed or dropped between backward() and synchronize()"),
                          HasSubstr("after synchronize()")));
      }
      backward();
      EXPECT_TRUE(parallel.step(optimizer)) << "the next step is a good one";
    }
  });
}

// By then a gradient may be in a message already: libtorch refuses to write, and the replicas stay
// equal if the program goes on.
TEST(UnseenChanges, AGradientThatTravelsCannotBeClippedOrZeroed) {
  std::barrier all_here(2);
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    auto optimizer = sgd(net);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      const auto until_weights_are_known = [&, began = job.world().traffic().operations] {
        wait_for_weights(job, all_here, began);
      };
      loss_that_halts(net, samples(job.rank(), 4), until_weights_are_known).backward();
      if (step % 2 == 0) {
        EXPECT_THROW(torch::nn::utils::clip_grad_norm_(net.parameters(), 0.01), c10::Error);
        EXPECT_TRUE(parallel.step(optimizer));
      } else {
        optimizer.zero_grad();
        EXPECT_THAT(misuse_of([&] { parallel.step(optimizer); }),
                    HasSubstr("was changed or dropped between backward() and synchronize()"));
      }
      same.tell(c10::str("parameters ", step), net.parameters());
      EXPECT_TRUE(net.last->weight.isfinite().all().item<bool>());
    }
  });
}

// The bits of a training with optimizers of DataParallel's own, and of how many parameters the last
// step changed.
std::string trained_by_own(const std::string& schedule, bool synchronizes_first, bool clips) {
  std::string digest;
  SameEverywhere same;
  run_ranks(2, {.share_memory = false}, [&](Job& job) {
    Net net;
    auto options = kSmallBuckets;
    options.schedule = schedule;
    options.optimizer = [](const at::Tensor& parameter) {
      return std::make_unique<torch::optim::SGD>(std::vector<at::Tensor>{parameter},
                                                 torch::optim::SGDOptions(0.1).momentum(0.9));
    };
    DataParallel parallel(net, job, options);
    for (int step = 0; step < 9; ++step) {
      loss_of(net, samples(2 * step + job.rank(), 4)).backward();
      if (synchronizes_first) parallel.synchronize();
      if (clips) {
        EXPECT_GT(parallel.clip_grad_norm(0.01), 0);
      }
      EXPECT_TRUE(parallel.step());
      EXPECT_EQ(parallel.last_step().step, step + 1);
    }
    parallel.finish();
    same.tell("parameters", net.parameters());
    if (job.rank() == 0) digest = sha256_of(net.parameters());
  });
  return digest;
}

TEST(UnseenChanges, SynchronizeBeforeAStepOfOwnOptimizersChangesNothingAndMayClip) {
  const std::string expected = trained_by_own("buckets", false, false);
  const std::string clipped = trained_by_own("buckets", true, true);
  EXPECT_NE(expected, clipped);
  for (const std::string schedule : {"buckets", "priority", "general"}) {
    EXPECT_EQ(trained_by_own(schedule, true, false), expected) << schedule;
    EXPECT_EQ(trained_by_own(schedule, true, true), clipped) << schedule;
  }
}

}  // namespace
}  // namespace paceline
