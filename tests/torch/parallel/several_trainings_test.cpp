// Several DataParallels on one group of ranks, and several optimizers of one.
#include <barrier>

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// Two models on one world; rank 1 begins their steps, or ends them, in the other order.
std::vector<std::string> failures_of_two(bool begins_apart, bool ends_apart) {
  std::vector<std::string> told(2, "nothing was thrown");
  std::barrier both(2);
  run_ranks(2, {.operation_timeout = std::chrono::seconds(5)}, [&](Job& job) {
    Net one, other;
    DataParallel first(one, job), second(other, job);
    auto sgd_of_one = sgd(one), sgd_of_other = sgd(other);
    const bool is_apart = job.rank() == 1;
    const auto begin = [&](bool is_second) {
      (is_second ? second : first).weight(is_second ? 1 : 3 + job.rank());
      loss_of(is_second ? other : one, samples(job.rank(), 4)).backward();
    };
    const auto end = [&](bool is_second) {
      if (is_second) second.step(sgd_of_other);
      else first.step(sgd_of_one);
    };
    try {
      begin(is_apart && begins_apart);
      begin(!(is_apart && begins_apart));
      end(is_apart && ends_apart);
      end(!(is_apart && ends_apart));
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::mismatch) << error.what();
      told[static_cast<std::size_t>(job.rank())] = error.what();
    }
    both.arrive_and_wait();  // a rank that leaves would be told as lost
  });
  return told;
}

TEST(SeveralTrainings, WhoseStepsBeginInAnotherOrderOnEachRankAreNamed) {
  for (const std::string& told : failures_of_two(true, false))
    EXPECT_THAT(told, AllOf(HasSubstr("rank 0 began a step of one DataParallel and rank 1 of "
                                      "another one"),
                            HasSubstr("in one order on all ranks")));
}

TEST(SeveralTrainings, WhoseStepsEndInAnotherOrderOnEachRankAreNamed) {
  for (const std::string& told : failures_of_two(false, true))
    EXPECT_THAT(told, AllOf(HasSubstr("ended steps of several DataParallels"),
                            HasSubstr("in one order on all ranks")));
}

TEST(SeveralTrainings, InOneOrderAreThoseOfEachAlone) {
  for (const std::string& told : failures_of_two(false, false))
    EXPECT_EQ(told, "nothing was thrown");
}

// A model of two halves, each with an optimizer of its own.
std::string refusal_of_second_optimizer(const std::string& synchrony) {
  std::string told;
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.synchrony = synchrony});
    torch::optim::SGD a({net.first->weight, net.first->bias}, 0.1);
    torch::optim::SGD b({net.last->weight, net.last->bias}, 0.1);
    loss_of(net, samples(job.rank(), 4)).backward();
    parallel.step(a);
    const std::string own = misuse_of([&] { parallel.step(b); });
    if (job.rank() == 0) told = own;
  });
  return told;
}

TEST(TwoOptimizers, OfOneStepAreRefusedByNameWithTheRemedy) {
  for (const char* synchrony : {"local_sgd:period=2", "elastic", "none"})
    EXPECT_THAT(refusal_of_second_optimizer(synchrony),
                AllOf(HasSubstr("another optimizer"), HasSubstr("groups"),
                      testing::Not(HasSubstr("synchronize(), then"))))
        << synchrony;
  for (const char* synchrony : {"synchronous", "robust:rule=median,faulty=0"})
    EXPECT_THAT(refusal_of_second_optimizer(synchrony),
                AllOf(HasSubstr("another optimizer"), HasSubstr("synchronize(), then")))
        << synchrony;
}

TEST(TwoOptimizers, AfterSynchronizeAreOneOptimizerOfAll) {
  for (const char* synchrony : {"synchronous", "robust:rule=median,faulty=0"}) {
    run_ranks(2, [&](Job& job) {
      Net net, other;
      DataParallel parallel(net, job, {.synchrony = synchrony});
      DataParallel plain(other, job, {.synchrony = synchrony});
      torch::optim::SGD a({net.first->weight, net.first->bias, net.second->weight}, 0.1);
      torch::optim::SGD b({net.second->bias, net.last->weight, net.last->bias}, 0.1);
      torch::optim::SGD all(other.parameters(), 0.1);
      for (int step = 0; step < 4; ++step) {
        net.zero_grad(), all.zero_grad();
        loss_of(net, samples(2 * step + job.rank(), 4)).backward();
        parallel.synchronize();
        a.step(), b.step();
        loss_of(other, samples(2 * step + job.rank(), 4)).backward();
        plain.step(all);
      }
      EXPECT_EQ(sha256_of(net.parameters()), sha256_of(other.parameters())) << synchrony;
    });
  }
}

// A generator and a discriminator may be one model.
TEST(TwoOptimizers, ThatTakeTurnsHaveABackwardEach) {
  for (const char* synchrony : {"synchronous", "local_sgd:period=2"}) {
    run_ranks(2, [&](Job& job) {
      Net net;
      DataParallel parallel(net, job, {.synchrony = synchrony});
      torch::optim::SGD a({net.first->weight, net.first->bias}, 0.1);
      torch::optim::SGD b({net.last->weight, net.last->bias}, 0.1);
      for (int step = 0; step < 4; ++step) {
        net.zero_grad();
        loss_of(net, samples(2 * step + job.rank(), 4)).backward();
        EXPECT_TRUE(parallel.step(step % 2 == 0 ? a : b));
      }
    });
  }
}

// The first step(optimizer) after a change takes the mean of what the optimizer keeps; a step of
// the optimizer itself does not, and the check before the next one says so.
TEST(TwoOptimizers, WhoseStatesDifferAfterAChangeTakeTheirMeanOrAreTold) {
  SameEverywhere same;
  for (const bool by_step : {true, false}) {
    for (const double momentum : {0.0, 0.9}) {
      run_ranks(2, [&](Job& job) {
        Net net;
        const auto options = torch::optim::SGDOptions(0.1).momentum(momentum);
        torch::optim::SGD a({net.first->weight, net.first->bias}, options);
        torch::optim::SGD b({net.last->weight, net.last->bias}, options);
        DataParallel parallel(net, job, {.synchrony = "local_sgd:period=2"});
        const auto backward = [&](int step) {
          net.zero_grad();
          loss_of(net, samples(2 * step + job.rank(), 4), true).backward();
        };
        for (int step = 0; step < 4; ++step) {
          backward(step);
          parallel.step(step % 2 == 0 ? a : b);
        }
        parallel.synchrony("synchronous");
        for (int step = 4; step < 6; ++step) {
          backward(step);
          if (by_step) {
            parallel.step(step % 2 == 0 ? a : b);
          } else if (step == 4 || momentum == 0) {
            parallel.synchronize();
            (step % 2 == 0 ? a : b).step();
          } else {
            std::string told;
            try {
              parallel.synchronize();
            } catch (const Error& error) {
              told = error.what();
            }
            EXPECT_THAT(told,
                        AllOf(HasSubstr("no longer equal"), HasSubstr("synchrony was changed"),
                              HasSubstr("step(optimizer)")));
            return;
          }
        }
        same.tell(c10::str(by_step, " ", momentum), net.parameters());
      });
    }
  }
}

}  // namespace
}  // namespace paceline
