// Refusals of what does not go with parameters on servers: by name, before anything is sent.
#include "paceline/torch/strategy/server/server_refusals.h"

#include "paceline/torch/optimizers/optimizers.h"
#include "paceline/torch/strategy/strategy.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

using torch::optim::Adam;
using torch::optim::SGD;

// Returns the text with which DataParallel is refused on all ranks.
template <typename MakeNet>
std::string refusal(const MakeNet& make_net, const DataParallelOptions& options, int servers = 1,
                    int ranks = 2) {
  std::string told;
  run_ranks(ranks, {.servers = servers}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    auto net = make_net();
    const std::string what = misuse_of([&] { DataParallel parallel(*net, job, options); });
    if (job.rank() == 0) told = what;
  });
  return told;
}
std::string refusal(const DataParallelOptions& options, int servers = 1) {
  return refusal([] { return std::make_unique<TaskNet>("linear"); }, options, servers);
}

TEST(ServerRefusals, NameTheKeyAndTheRemedy) {
  EXPECT_THAT(refusal({.synchrony = "ssp"}, 0),
              HasSubstr("synchrony 'ssp' keeps parameters on servers, and this job has none; start "
                        "it with `paceline run --servers N`"));
  EXPECT_THAT(refusal({.synchrony = "backup_workers:spare=2"}),
              AllOf(HasSubstr("spare is 2, and there are 2 workers"), HasSubstr("at most 1")));
  EXPECT_THAT(refusal({.synchrony = "timeout:quorum=3"}),
              HasSubstr("quorum is 3, and there are 2 workers"));
  EXPECT_THAT(refusal({.synchrony = "ssp:staleness=-1"}),
              AllOf(HasSubstr("staleness"), HasSubstr("-1"), HasSubstr("from 0 to")));
  EXPECT_THAT(refusal({.synchrony = "bsq"}),
              AllOf(HasSubstr("'bsq'"), HasSubstr("bsp"), HasSubstr("ssp")));
  EXPECT_THAT(refusal({.synchrony = "ssp:stalenes=1"}), HasSubstr("staleness"));
  EXPECT_THAT(refusal({.synchrony = "downpour"}, 0),
              HasSubstr("synchrony 'downpour' keeps parameters on servers, and this job has none"));
  EXPECT_THAT(refusal({.synchrony = "downpour:push=0"}),
              AllOf(HasSubstr("push"), HasSubstr("'0'"), HasSubstr("from 1 to")));
  EXPECT_THAT(refusal({.synchrony = "downpour:fetch=0"}),
              AllOf(HasSubstr("fetch"), HasSubstr("from 1 to")));
  EXPECT_THAT(refusal({.synchrony = "downpour:fetching=lazily"}),
              AllOf(HasSubstr("fetching"), HasSubstr("asynchronous"), HasSubstr("blocking")));
  EXPECT_THAT(refusal({.synchrony = "downpour", .compression = "fp16"}),
              AllOf(HasSubstr("downpour"), HasSubstr("compression \"fp16\"")));
  EXPECT_THAT(refusal({.synchrony = "bsp:update=worker"}), HasSubstr("update"));
  EXPECT_THAT(refusal({.synchrony = "bsp", .compression = "fp16"}),
              AllOf(HasSubstr("bsp"), HasSubstr("compression \"fp16\"")));
  EXPECT_THAT(refusal({.synchrony = "bsp", .schedule = "priority"}), HasSubstr("schedule"));
  EXPECT_THAT(refusal({.synchrony = "bsp", .aggregate = "server"}),
              AllOf(HasSubstr("aggregate \"server\""), HasSubstr("synchrony \"bsp\"")));
  EXPECT_THAT(refusal({.synchrony = "bsp", .zero_stage = 1}),
              AllOf(HasSubstr("zero_stage 1"), HasSubstr("synchrony \"bsp\"")));
  EXPECT_THAT(refusal({.synchrony = "bsp", .precision = "o2"}),
              AllOf(HasSubstr("precision \"o2\""), HasSubstr("synchrony \"bsp\"")));
  EXPECT_THAT(refusal({.synchrony = "bsp", .max_grad_norm = 1}), HasSubstr("max_grad_norm"));
}

TEST(ServerRefusals, NameAParameterThatServersCannotHold) {
  const auto embedding = [] {
    return std::make_unique<nn::EmbeddingImpl>(nn::EmbeddingOptions(4, 3).sparse(true));
  };
  EXPECT_THAT(refusal(embedding, {.synchrony = "asp"}),
              AllOf(HasSubstr("sparse gradients of 'weight'"), HasSubstr("sparse(false)")));
  const auto narrow = [] {
    auto net = std::make_unique<TaskNet>("linear");
    net->to(at::kBFloat16);
    return net;
  };
  EXPECT_THAT(refusal(narrow, {.synchrony = "bsp"}),
              AllOf(HasSubstr("parameter 'last.weight'"), HasSubstr("float32")));
  const auto mixed = [] {
    auto net = std::make_unique<TaskNet>("mlp");
    net->first->to(at::kFloat);
    return net;
  };
  EXPECT_THAT(refusal(mixed, {.synchrony = "bsp"}), HasSubstr("one floating type"));
}

TEST(ServerRefusals, NameGroupsAndMeshesThatAreNotAllWorkers) {
  run_ranks(2, {.servers = 1}, [](Job& job) {
    if (job.role() == Role::server) return serve(job);
    TaskNet net("linear");
    EXPECT_THAT(misuse_of([&] { DataParallel parallel(net, job.world(), {.synchrony = "bsp"}); }),
                HasSubstr("make DataParallel with the job"));
    DeviceMesh mesh(job, "cp=2");
    EXPECT_THAT(misuse_of([&] { DataParallel parallel(net, mesh, {.synchrony = "bsp"}); }),
                AllOf(HasSubstr("axis cp"), HasSubstr("dp alone")));
  });
}

// Nothing was sent, so the next step, with an optimizer that has a rule, is a good one.
TEST(ServerRefusals, NameAnOptimizerWithoutARuleAndOfferUpdatesByWorkers) {
  run_ranks(2, {.servers = 1}, [](Job& job) {
    if (job.role() == Role::server) return serve(job);
    TaskNet net("linear");
    DataParallel parallel(net, job, {.synchrony = "ssp:staleness=0"});
    net.loss(samples(job.rank(), 4)).backward();
    const auto refused = [&](torch::optim::Optimizer& optimizer) {
      const std::string what = misuse_of([&] { parallel.step(optimizer); });
      EXPECT_THAT(what, HasSubstr("update=worker"));
      return what;
    };
    optimizers::LARS lars(net.parameters(), optimizers::LARSOptions(0.1));
    EXPECT_THAT(refused(lars), HasSubstr("SGD, Adagrad, RMSprop, Adam or AdamW"));
    torch::optim::LBFGS lbfgs(net.parameters());
    EXPECT_THAT(refused(lbfgs), HasSubstr("no rule"));
    Adam amsgrad(net.parameters(), torch::optim::AdamOptions(0.1).amsgrad(true));
    EXPECT_THAT(refused(amsgrad), HasSubstr("adam has no amsgrad"));
    torch::optim::Adagrad accumulating(
        net.parameters(), torch::optim::AdagradOptions(0.1).initial_accumulator_value(1));
    EXPECT_THAT(refused(accumulating), HasSubstr("initial_accumulator_value"));
    SGD groups(net.parameters(), 0.1);
    groups.param_groups()[0].params().pop_back();
    EXPECT_THAT(refused(groups), HasSubstr("'last.bias' is in no group"));
    groups.add_param_group(torch::optim::OptimizerParamGroup(
        {net.last->bias}, std::make_unique<torch::optim::SGDOptions>(0.2)));
    EXPECT_THAT(refused(groups), HasSubstr("rate is 0.1 and 0.2"));
    SGD sgd(net.parameters(), 0.1);
    EXPECT_TRUE(parallel.step(sgd));
    net.loss(samples(job.rank(), 4)).backward();
    Adam adam(net.parameters(), 0.1);
    EXPECT_THAT(misuse_of([&] { parallel.step(adam); }),
                AllOf(HasSubstr("rule sgd"), HasSubstr("steps by adam")));
    EXPECT_TRUE(parallel.step(sgd));
    EXPECT_EQ(parallel.last_step().step, 2);
  });
}

TEST(ServerRefusals, NameCallsThatHaveNoPlaceThere) {
  run_ranks(2, {.servers = 1}, [](Job& job) {
    if (job.role() == Role::server) return serve(job);
    TaskNet net("linear");
    SGD sgd(net.parameters(), 0.1);
    DataParallel parallel(net, job, {.synchrony = "asp"});
    EXPECT_THAT(misuse_of([&] { parallel.mean(at::scalar_tensor(1)); }), HasSubstr("asp"));
    parallel.weight(0);
    EXPECT_THAT(misuse_of([&] { parallel.step(sgd); }),
                AllOf(HasSubstr("weight(0) and join()"), HasSubstr("Tickets")));
    parallel.weight(1);
    net.loss(samples(job.rank(), 4)).backward();
    EXPECT_THAT(misuse_of([&] { parallel.synchronize(); }), HasSubstr("step(optimizer)"));
    EXPECT_THAT(misuse_of([&] { parallel.finish(); }), HasSubstr("end the step first"));
    EXPECT_TRUE(parallel.step(sgd));
  });
}

}  // namespace
}  // namespace paceline
