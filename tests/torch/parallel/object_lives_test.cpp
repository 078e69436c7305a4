// Guards that outlive their DataParallel, threads, layers that come later, and what a model is when
// its DataParallel is gone.
#include <memory>
#include <optional>
#include <thread>

#include "paceline/torch/parallel/distributed_optimizer.h"
#include "paceline/torch/parallel/join.h"
#include "paceline/torch/replica/replica.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

void step_once(Net& net, DataParallel& parallel, torch::optim::Optimizer& optimizer, int number) {
  optimizer.zero_grad();
  loss_of(net, samples(number, 4), true).backward();
  parallel.step(optimizer);
}

// --- guards --------------------------------------------------------------------------------------

TEST(Guards, OfNoSyncMayOutliveTheirDataParallel) {
  run_ranks(2, [](Job& job) {
    Net net;
    auto parallel = std::make_unique<DataParallel>(net, job);
    {
      std::optional<DataParallel::NoSync> guard(parallel->no_sync());
      parallel.reset();
    }
    DataParallel next(net, job);
    auto optimizer = sgd(net);
    step_once(net, next, optimizer, job.rank());
  });
}

TEST(Guards, OfAJoinAndOfSkipSynchronizeMayOutliveThemToo) {
  run_ranks(2, [](Job& job) {
    Net net;
    auto parallel = std::make_unique<DataParallel>(net, job);
    std::vector<int> loader = {1, 2};
    {
      auto turns = parallel->join(loader);
      parallel.reset();
    }
    auto wrapped = sgd(net);
    auto optimizer = std::make_unique<DistributedOptimizer>(wrapped, job);
    const auto skip = optimizer->skip_synchronize();
    optimizer.reset();
  });
}

// Gathered parameters keep their values: the DataParallel gives them memory of their own.
TEST(Guards, OfGatheredParametersMayOutliveTheirDataParallel) {
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Net net;
    auto parallel = std::make_unique<DataParallel>(net, job, DataParallelOptions{.zero_stage = 3});
    torch::optim::SGD own(parallel->parameters(), 0.1);
    step_once(net, *parallel, own, job.rank());
    {
      const auto whole = parallel->gathered();
      parallel.reset();
      same.tell("while the guard lives", net.parameters());
    }
    same.tell("after it", net.parameters());
    EXPECT_TRUE(net.forward(samples(0, 4).x).isfinite().all().item<bool>());
  });
}

// The end of a DataParallel is the end of its guards: the replica comes back then, once.
TEST(Guards, OfAConsensusEndWithTheirDataParallelWhichGivesTheReplicaBack) {
  run_ranks(2, [](Job& job) {
    Net net;
    auto parallel = std::make_unique<DataParallel>(
        net, job, DataParallelOptions{.synchrony = "local_sgd:period=100"});
    auto optimizer = sgd(net);
    step_once(net, *parallel, optimizer, job.rank());
    const at::Tensor own = net.first->weight.detach().clone();
    {
      const auto shared = parallel->consensus();
      EXPECT_FALSE(net.first->weight.equal(own));
      parallel.reset();
      EXPECT_TRUE(net.first->weight.equal(own));
      const at::NoGradGuard no_grad;
      net.first->weight.fill_(7);
    }
    EXPECT_TRUE(net.first->weight.eq(7).all().item<bool>()) << "the guard's end does nothing";
  });
}

TEST(Guards, OfAConsensusMustEndBeforeARebind) {
  run_ranks(2, [](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.synchrony = "local_sgd:period=100"});
    auto optimizer = sgd(net);
    step_once(net, parallel, optimizer, job.rank());
    {
      const auto shared = parallel.consensus();
      EXPECT_THAT(misuse_of([&] { parallel.rebind(job.world()); }),
                  AllOf(HasSubstr("rebind"), HasSubstr("consensus()")));
    }
    parallel.rebind(job.world());
  });
}

// --- rebind --------------------------------------------------------------------------------------

std::string rebound_across_the_barrier(bool finishes) {
  std::string digest;
  run_ranks(2, {.share_memory = false}, [&](Job& job) {
    Net net;
    auto options = kSmallBuckets;
    options.schedule = "priority";
    options.optimizer = [](const at::Tensor& parameter) {
      return std::make_unique<torch::optim::SGD>(std::vector{parameter}, 0.1);
    };
    DataParallel parallel(net, job, options);
    for (int step = 0; step < 8; ++step) {
      loss_of(net, samples(2 * step + job.rank(), 4), true).backward();
      parallel.step();
    }
    if (finishes) parallel.finish();
    parallel.rebind(job.world());
    if (job.rank() == 0) digest = sha256_of(net.parameters());
  });
  return digest;
}

TEST(Rebind, KeepsTheUpdatesThatAreUnderWay) {
  EXPECT_EQ(rebound_across_the_barrier(false), rebound_across_the_barrier(true));
}

// --- threads -------------------------------------------------------------------------------------

void in_another_thread(const std::function<void()>& call) {
  std::thread thread(call);
  thread.join();
}

TEST(Threads, ADataParallelIsUsedInTheThreadThatMadeIt) {
  run_ranks(2, [](Job& job) {
    Net net;
    DataParallel parallel(net, job);
    auto optimizer = sgd(net);
    const auto expect_refused = [&](const char* call, const std::function<void()>& made) {
      in_another_thread([&] {
        EXPECT_THAT(misuse_of(made), AllOf(HasSubstr(std::string("DataParallel::") + call +
                                                     "() was called in thread"),
                                           HasSubstr("was made in thread")));
      });
    };
    expect_refused("weight", [&] { parallel.weight(4); });
    expect_refused("no_sync", [&] { (void)parallel.no_sync(); });
    expect_refused("backward", [&] { parallel.backward(loss_of(net, samples(0, 4))); });
    expect_refused("backward", [&] { loss_of(net, samples(0, 4)).backward(); });
    expect_refused("synchronize", [&] { parallel.synchronize(); });
    expect_refused("step", [&] { parallel.step(optimizer); });
    step_once(net, parallel, optimizer, job.rank());
  });
}

// The system gives the number of a thread that has ended to the next one.
TEST(Threads, OneThatMadeADataParallelAndEndedIsNoOther) {
  run_ranks(1, [](Job& job) {
    Net net;
    std::optional<DataParallel> parallel;
    in_another_thread([&] { parallel.emplace(net, job); });
    in_another_thread([&] {
      EXPECT_THAT(misuse_of([&] { parallel->weight(4); }), HasSubstr("in the thread that trains"));
    });
  });
}

// Calls that only read, the end, and a change of the group are free.
TEST(Threads, OthersMayLookAndARebindMovesTheTraining) {
  run_ranks(1, [](Job& job) {
    Net net;
    auto parallel = std::make_unique<DataParallel>(net, job);
    auto optimizer = sgd(net);
    step_once(net, *parallel, optimizer, 0);
    in_another_thread([&] {
      EXPECT_EQ(parallel->last_step().step, 1);
      EXPECT_EQ(parallel->parameters().size(), 8U);
      parallel->rebind(job.world());
      step_once(net, *parallel, optimizer, 1);
      parallel.reset();
    });
  });
}

// --- layers that come later ----------------------------------------------------------------------

struct Growing : nn::Module {
  Growing() { body = register_module("body", nn::Sequential(nn::Linear(6, 3))); }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = body->forward(x);
    return extra.is_empty() ? y : extra->forward(y);
  }
  nn::Sequential body{nullptr};
  nn::Linear extra{nullptr};
};

TEST(LaterLayers, AreRefusedBySynchronizeByName) {
  for (const bool is_inside : {false, true}) {
    run_ranks(2, [&](Job& job) {
      auto model = std::make_shared<Growing>();
      model->to(at::kDouble);
      DataParallel parallel(*model, job);
      if (is_inside) {
        model->body->push_back(nn::Linear(3, 3));
      } else {
        model->extra = model->register_module("extra", nn::Linear(3, 3));
      }
      model->to(at::kDouble);
      torch::optim::SGD optimizer(model->parameters(), 0.1);
      const Samples s = samples(job.rank(), 4);
      at::mse_loss(model->forward(s.x), s.y).backward();
      EXPECT_THAT(misuse_of([&] { parallel.synchronize(); }),
                  AllOf(HasSubstr(is_inside ? "'body.1.weight'" : "'extra.weight'"),
                        HasSubstr("came to the model after")));
    });
  }
}

TEST(LaterLayers, OfAPartOfAModelOnTheStackAreRefusedToo) {
  run_ranks(1, [](Job& job) {
    Growing model;
    model.to(at::kDouble);
    DataParallel parallel(model, job);
    model.body->push_back(nn::Linear(3, 3));
    model.to(at::kDouble);
    const Samples s = samples(0, 4);
    at::mse_loss(model.forward(s.x), s.y).backward();
    EXPECT_THAT(misuse_of([&] { parallel.synchronize(); }), HasSubstr("'body.1.weight'"));
  });
}

// Without a gradient they let no replica drift.
TEST(LaterLayers, ThatAreFrozenOrUnusedChangeNothing) {
  run_ranks(1, [](Job& job) {
    auto model = std::make_shared<Growing>();
    model->to(at::kDouble);
    std::optional<DataParallel> parallel(std::in_place, *model, job);
    model->register_module("unused", nn::Linear(3, 3));
    const Samples s = samples(0, 4);
    at::mse_loss(model->forward(s.x), s.y).backward();
    EXPECT_TRUE(parallel->synchronize());
    nn::Sequential kept = model->body;
    model.reset();  // a model may end before its DataParallel
    at::mse_loss(kept->forward(s.x), s.y).backward();
    EXPECT_TRUE(parallel->synchronize());
  });
}

// --- a model of 16 bits --------------------------------------------------------------------------

std::vector<at::ScalarType> types_of(const nn::Module& model) {
  std::vector<at::ScalarType> types;
  for (const auto& each : model.parameters()) types.push_back(each.scalar_type());
  for (const auto& each : model.buffers()) types.push_back(each.scalar_type());
  return types;
}

nn::Sequential halvable() {
  nn::Sequential model(nn::Linear(6, 8), nn::BatchNorm1d(8), nn::Linear(8, 3));
  model->register_buffer("table", at::full({2}, 0.1));
  model[0]->as<nn::Linear>()->bias.set_requires_grad(false);
  return model;
}

TEST(HalvedModels, AreWholeAgainWithTheValuesOfTheirMasters) {
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    nn::Sequential model = halvable();
    const auto types = types_of(*model);
    std::vector<at::Tensor> masters;
    {
      DataParallel parallel(model, job, {.precision = "o2"});
      EXPECT_NE(types_of(*model), types);
      torch::optim::SGD optimizer(parallel.parameters(), 0.1);
      const Samples s = samples(job.rank(), 4);
      parallel.backward(
          at::mse_loss(model->forward(s.x.to(at::kBFloat16)).to(at::kFloat), s.y.to(at::kFloat)));
      parallel.step(optimizer);
      for (const auto& each : parallel.replicas().parts().trained())
        masters.push_back(each.tensor.detach().clone());
    }
    EXPECT_EQ(types_of(*model), types);
    std::size_t i = 0;
    for (const auto& each : model->parameters()) {
      if (each.requires_grad()) {
        EXPECT_TRUE(each.equal(masters[i++]));
      }
    }
    same.tell("parameters", model->parameters());
    const at::Tensor x = samples(9, 4).x.to(at::kFloat);
    model->forward(x).sum().backward();
    EXPECT_TRUE(model[2]->as<nn::Linear>()->weight.grad().isfinite().all().item<bool>());
  });
}

TEST(HalvedModels, AreAsTheyWereAfterAConstructorThatFailed) {
  run_ranks(2, [](Job& job) {
    nn::Sequential model = halvable();
    const auto types = types_of(*model);
    const std::string before = sha256_of({model->buffers()});
    const at::Tensor frozen = model[0]->as<nn::Linear>()->bias.detach().clone();
    EXPECT_THAT(
        misuse_of([&] { DataParallel(model, job, {.schedule = "no such", .precision = "o2"}); }),
        HasSubstr("no such"));
    EXPECT_EQ(types_of(*model), types);
    EXPECT_EQ(sha256_of({model->buffers()}), before);
    EXPECT_TRUE(model[0]->as<nn::Linear>()->bias.equal(frozen));
    nn::Sequential other(nn::Linear(6, 8 + job.rank()));
    EXPECT_THROW(DataParallel(other, job, {.precision = "o2"}), Error);
    EXPECT_EQ(other[0]->as<nn::Linear>()->weight.scalar_type(), at::kFloat);
  });
}

}  // namespace
}  // namespace paceline
