#include "paceline/core/schedule/path/gradient_path.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "paceline/core/base/seed.h"
#include "paceline/core/job/job.h"
#include "paceline/core/job/local_world.h"
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/simulation/simulate.h"
#include "paceline/core/server/server.h"
#include "tests/core/schedule/example_costs.h"
#include "tests/support/local_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::schedule {
namespace {

using namespace std::chrono_literals;

const LocalWorldOptions kShared = {}, kTcp = {.share_memory = false};

Model small_model() {
  Model model{.name = "small", .tensors = {}};
  for (const std::size_t elements : {3, 1000, 1, 40000, 7, 12000, 500})
    model.tensors.push_back({.bytes = 4 * elements});
  return model;
}

std::vector<MessagePlan> plans() {
  const Model model = small_model();
  const Costs costs = {.links = costs_of({.workers = 3, .servers = Servers::none})};
  std::vector<MessagePlan> all = {
      barrier(model),
      wait_free(model),
      merged(model, costs.links),
      priority(model, {.part_bytes = 9000, .window_bytes = 20000}),
      priority(model, {.part_bytes = 9000, .window_bytes = 20000, .crosses_barrier = false}),
      plan_of("split", single_tensors(model.size()), {.part_bytes = 4000})};
  for (MessagePlan& plan : all) plan = ordered(plan, model, costs);
  return all;
}

// The gradients of a rank in a step, in one vector, in send order.
struct Gradients {
  Gradients(const Model& model, const MessagePlan& plan) : plan_(plan) {
    for (const MessageGroup& group : plan.groups) {
      for (int place = group.begin; place < group.end; ++place)
        counts_.push_back(model.sent(place).bytes / 4);
      groups_.emplace_back(static_cast<std::size_t>(bytes_of(model, group)) / 4);
    }
  }
  std::vector<Buffer> buffers() {
    std::vector<Buffer> all;
    for (auto& group : groups_) all.push_back(buffer_of(group));
    return all;
  }
  void fill(const Dispatch& dispatch, int place, int step, int rank) {
    auto& group = groups_[static_cast<std::size_t>(dispatch.group_of(place))];
    SeededNumbers numbers(test::seed(static_cast<std::uint64_t>((step * 100 + place) * 10 + rank)));
    for (std::size_t i = 0; i < counts_[static_cast<std::size_t>(place)]; ++i)
      group[dispatch.offset(place) + i] = static_cast<float>(numbers.below(1000)) / 7 - 70;
  }
  std::vector<float> all() const {
    std::vector<float> values;
    for (const auto& group : groups_) values.insert(values.end(), group.begin(), group.end());
    return values;
  }

 private:
  const MessagePlan& plan_;
  std::vector<std::size_t> counts_;
  std::vector<std::vector<float>> groups_;
};

// The gradients on each rank after three steps, summed on servers where the options have some.
std::vector<std::vector<float>> trained(const MessagePlan& plan, int ranks,
                                        const LocalWorldOptions& options, int lanes = kLanes) {
  const Model model = small_model();
  std::vector<std::vector<float>> results(static_cast<std::size_t>(ranks));
  test::run_ranks(ranks, options, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    Gradients gradients(model, plan);
    GradientPath path(options.servers > 0 ? transport_on_servers(job, job.world(), lanes)
                                          : transport_in_lanes(job.world(), lanes),
                      model, plan, gradients.buffers());
    auto& result = results[static_cast<std::size_t>(job.rank())];
    for (int step = 0; step < 3; ++step) {
      for (int place = 0; place < model.size(); ++place) {
        gradients.fill(path.dispatch(), place, step, job.rank());
        path.ready(place);
      }
      for (int place = model.size() - 1; place >= 0; --place) path.wait(place);
      const auto all = gradients.all();
      result.insert(result.end(), all.begin(), all.end());
    }
    path.finish();
  });
  return results;
}

// The mean over the ranks of one element, in the tree's order for up to three of them.
float mean_of_ranks(const std::vector<float>& values) {
  float sum = values[0];
  for (std::size_t rank = 1; rank < values.size(); ++rank) sum += values[rank];
  return sum * static_cast<float>(1.0 / static_cast<double>(values.size()));
}

// The expected gradients by the definition: the mean of the values of each rank's fill().
std::vector<float> means(const MessagePlan& plan, int ranks) {
  const Model model = small_model();
  const Dispatch dispatch(model, plan);
  std::vector<float> result;
  for (int step = 0; step < 3; ++step) {
    std::vector<std::vector<float>> given;
    for (int rank = 0; rank < ranks; ++rank) {
      Gradients gradients(model, plan);
      for (int place = 0; place < model.size(); ++place)
        gradients.fill(dispatch, place, step, rank);
      given.push_back(gradients.all());
    }
    for (std::size_t i = 0; i < given[0].size(); ++i) {
      std::vector<float> values;
      for (const auto& of_rank : given) values.push_back(of_rank[i]);
      result.push_back(mean_of_ranks(values));
    }
  }
  return result;
}

// Also covers paceline/core/schedule/path/message_transport.cpp.
TEST(GradientPath, EveryPlanGivesTheSameBitsOnServers) {
  for (const int ranks : test::is_brief() ? std::vector{3} : std::vector{1, 2, 3}) {
    for (const int servers : test::is_brief() ? std::vector{2} : std::vector{1, 2}) {
      for (const MessagePlan& plan : plans()) {
        const auto expected = means(plan, ranks);
        for (const int lanes : {1, kLanes}) {
          const MessagePlan on_servers = on_path(Path::server, plan);
          for (const auto& result : trained(on_servers, ranks, {.servers = servers}, lanes))
            EXPECT_EQ(result, expected) << plan.name << ", " << servers << " servers";
        }
      }
    }
  }
}

TEST(GradientPath, CodesAreSummedOnServersWithTheBitsOfTheRanks) {
  for (const MessagePlan& plan : plans()) {
    for (const char* codec : {"fp16", "bf16", "int8", "top_k:ratio=0.01"}) {
      if (test::is_brief() && plan.name != "priority") continue;
      const MessagePlan coded = encoded(plan, codec);
      const auto among_ranks = trained(coded, 3, {});
      EXPECT_EQ(trained(on_path(Path::server, coded), 3, {.servers = 2}), among_ranks)
          << plan.name << ", " << codec;
    }
  }
}

TEST(GradientPath, AGroupTakesThePathThatThePlanSays) {
  MessagePlan plan = wait_free(small_model());
  const auto expected = means(plan, 2);
  for (std::size_t group = 0; group < plan.groups.size(); group += 2)
    plan.groups[group].path = Path::server;
  for (const auto& result : trained(plan, 2, {.servers = 1})) EXPECT_EQ(result, expected);
}

TEST(GradientPath, ServersSumWhatAllWorkersPushAndNoPart) {
  const LocalWorldOptions options = {.servers = 1};
  test::run_ranks(2, options, [](Job& job) {
    if (job.role() == Role::server) return serve(job);
    const auto half = job.world().split(job.rank());
    EXPECT_THROW(transport_on_servers(job, *half), Error);
  });
}

TEST(GradientPath, EveryPlanGivesTheBitsOfTheMeanOnEveryRank) {
  for (const int ranks : test::is_brief() ? std::vector{3} : std::vector{1, 2, 3}) {
    for (const auto& options : {kShared, kTcp}) {
      for (const MessagePlan& plan : plans()) {
        const auto expected = means(plan, ranks);
        for (const int lanes : test::is_brief() ? std::vector{kLanes} : std::vector{1, 2, kLanes}) {
          for (const auto& result : trained(plan, ranks, options, lanes))
            EXPECT_EQ(result, expected) << plan.name << ", " << ranks << " ranks";
        }
      }
    }
  }
}

// The cosine of the angle between two vectors; NaN where one has no length or holds a NaN.
double cosine(std::span<const float> one, std::span<const float> other) {
  double product = 0, one_square = 0, other_square = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    product += static_cast<double>(one[i]) * other[i];
    one_square += static_cast<double>(one[i]) * one[i];
    other_square += static_cast<double>(other[i]) * other[i];
  }
  return product / std::sqrt(one_square * other_square);
}

struct Coded {
  std::string codec;
  double cosine;  // its results and the means point as closely into one direction
};

TEST(GradientPath, CodedGroupsEndNearTheMeanWithTheSameBitsOnEveryRankBesidePlainOnes) {
  for (const Coded& each : {Coded{"fp16", 0.999999},
                            {"int8", 0.9995},
                            {"top_k:ratio=0.1", 0.3},
                            {"ef_sign", 0.6},
                            {"gtop_k:ratio=0.1", 0.15}}) {
    // One codec of linear bytes and one that selects take all ways of a path.
    if (test::is_brief() && each.codec != "int8" && each.codec != "gtop_k:ratio=0.1") continue;
    for (MessagePlan plan : plans()) {
      SCOPED_TRACE(plan.name + " " + each.codec);
      const auto expected = means(plan, 3);
      for (std::size_t g = 0; g < plan.groups.size(); g += 2)
        plan.groups[g].codec = each.codec + (each.codec.find(':') < each.codec.size() ? "," : ":") +
                               "min_compress_bytes=1000";
      const auto results = trained(plan, 3, kTcp);
      for (const auto& result : results) EXPECT_EQ(result, results.front());
      ASSERT_EQ(results.front().size(), expected.size());
      std::size_t at = 0;
      for (int step = 0; step < 3; ++step) {
        for (const MessageGroup& group : plan.groups) {
          const auto count = static_cast<std::size_t>(bytes_of(small_model(), group)) / 4;
          const auto got = std::span(results.front()).subspan(at, count),
                     mean = std::span(expected).subspan(at, count);
          at += count;
          if (group.codec.empty() || 4 * count < 1000) EXPECT_TRUE(std::ranges::equal(got, mean));
          else EXPECT_GE(cosine(got, mean), each.cosine) << "of " << count;
        }
      }
    }
  }
}

TEST(GradientPath, AValueThatOverflowsOnOneRankIsToldOnAll) {
  const Model model = small_model();
  MessagePlan plan = barrier(model);
  plan.groups[0].codec = "fp16:min_compress_bytes=1000";
  test::run_ranks(3, [&](Job& job) {
    Gradients gradients(model, plan);
    const auto buffers = gradients.buffers();
    GradientPath path(transport_in_lanes(job.world()), model, plan, buffers);
    for (const bool overflows : {false, true, false}) {
      for (int place = 0; place < model.size(); ++place) {
        gradients.fill(path.dispatch(), place, 0, job.rank());
        if (overflows && job.rank() == 1) reinterpret_cast<float*>(buffers[0].data)[20000] = 1e6F;
        path.ready(place);
      }
      path.finish();
      EXPECT_EQ(path.take_overflow(), overflows) << job.rank();
    }
  });
}

TEST(GradientPath, WaitsForTheGroupAloneThatIsAskedFor) {
  const Model model = small_model();
  test::run_ranks(2, [&](Job& job) {
    const MessagePlan plan = wait_free(model);
    Gradients gradients(model, plan);
    GradientPath path(transport_in_lanes(job.world()), model, plan, gradients.buffers());
    path.ready(0);
    path.ready(1);
    path.wait(0);  // though the rest of the step is not even ready
    path.wait(5);  // nothing of it is under way
    for (int place = 2; place < model.size(); ++place) path.ready(place);
    path.finish();
  });
}

TEST(GradientPath, GroupsOfSeveralTypesTravelInOneLane) {
  Model model{.name = "two", .tensors = {{.bytes = 4 * 300}, {.bytes = 8 * 500}}};
  const MessagePlan plan = wait_free(model);  // the second tensor goes first
  test::run_ranks(2, [&](Job& job) {
    std::vector<double> doubles(500, job.rank() + 0.1);
    std::vector<float> floats(300, static_cast<float>(job.rank()));
    GradientPath path(transport_in_lanes(job.world(), 1), model, plan,
                      {buffer_of(doubles), buffer_of(floats)});
    path.ready(0);
    path.ready(1);
    path.finish();
    EXPECT_THAT(doubles, testing::Each((0.1 + 1.1) * 0.5));
    EXPECT_THAT(floats, testing::Each(0.5F));
  });
}

// A transport that records the exchanges that it is asked to start.
class Noting final : public MessageTransport {
 public:
  Noting(Communicator& group, std::vector<std::size_t>& started)
      : transport_(transport_in_lanes(group, 1)), started_(started) {}
  int rank() const override { return transport_->rank(); }
  int ranks() const override { return transport_->ranks(); }
  int lanes() const override { return transport_->lanes(); }
  bool reaches(Path path) const override { return transport_->reaches(path); }
  Work start(int lane, Path path, const compress::Exchange& exchange) override {
    started_.push_back(exchange.output.count);
    return transport_->start(lane, path, exchange);
  }
  double seconds_in_flight() const override { return transport_->seconds_in_flight(); }

 private:
  std::unique_ptr<MessageTransport> transport_;
  std::vector<std::size_t>& started_;
};

TEST(GradientPath, MessagesOfOneLaneStartInThePlansOrderAsSoonAsTheyAreReady) {
  const Model model = small_model();
  const MessagePlan plan =
      wait_free(model);  // send order: 500, 12000, 7, 40000, 1, 1000, 3 elements
  test::run_ranks(2, [&](Job& job) {
    Gradients gradients(model, plan);
    std::vector<std::size_t> started;
    GradientPath path(std::make_unique<Noting>(job.world(), started), model, plan,
                      gradients.buffers());
    path.ready(1);
    EXPECT_TRUE(started.empty()) << "the first message is not ready";
    path.ready(0);
    EXPECT_THAT(started, testing::ElementsAre(500, 12000));
    for (const int place : {6, 5, 4, 3, 2}) path.ready(place);
    EXPECT_THAT(started, testing::ElementsAre(500, 12000, 7, 40000, 1, 1000, 3));
    path.finish();
  });
}

TEST(GradientPath, ARankThatLeavesInTheMiddleOfAStepIsNamedByTheOthers) {
  const Model model = small_model();
  for (const MessagePlan& plan : plans()) {
    test::run_ranks(3, kTcp, [&](Job& job) {
      Gradients gradients(model, plan);
      std::optional<Failure> failure;
      {
        GradientPath path(transport_in_lanes(job.world()), model, plan, gradients.buffers());
        try {
          job.world().barrier().wait();  // rank 1 may be through it, and gone, before others are
          for (int place = 0; place < (job.rank() == 1 ? 3 : model.size()); ++place)
            path.ready(place);
          if (job.rank() != 1) path.finish();
        } catch (const Error& error) {
          failure = error.failure();
        }
      }
      if (job.rank() == 1) return;
      ASSERT_TRUE(failure) << plan.name;
      EXPECT_EQ(failure->ranks, std::vector{1}) << failure->what;
    });
  }
}

TEST(GradientPath, PlansThatItCannotCarryAreMisuse) {
  const Model model = small_model();
  test::run_ranks(1, [&](Job& job) {
    MessagePlan servers = wait_free(model, {.path = Path::server});
    MessagePlan coded = wait_free(model);
    coded.groups[0].codec = "fp17";
    MessagePlan torn = wait_free(model);
    torn.groups.pop_back();
    for (const MessagePlan& plan : {servers, coded, torn}) {
      Gradients gradients(model, plan);
      EXPECT_THROW(GradientPath(transport_in_lanes(job.world()), model, plan, gradients.buffers()),
                   Error);
    }
    const MessagePlan plan = wait_free(model);
    EXPECT_THROW(GradientPath(transport_in_lanes(job.world()), model, plan, {}), Error);
  });
}

// A matrix travels in rank * (rows + columns) numbers however long it is, as published.
TEST(GradientPath, PowerSgdFactorsATensorThatIsLongerThanTheMessagesOfOthersAsAWhole) {
  constexpr std::size_t kRows = 2048, kColumns = 1024;
  const Model model{.name = "matrix", .tensors = {{.bytes = 4 * kRows * kColumns, .rows = kRows}}};
  ASSERT_GT(model.bytes(), kLongestEncoded);
  for (const MessagePlan& plan :
       {wait_free(model), plan_of("cut", one_group(1), {.part_bytes = 1 << 20})}) {
    const MessagePlan coded = encoded(plan, "power_sgd:rank=2");
    test::run_ranks(2, [&](Job& job) {
      std::vector<float> gradient(kRows * kColumns, 1.0f);
      GradientPath path(transport_in_lanes(job.world()), model, coded, {buffer_of(gradient)}, 3);
      path.ready(0);
      path.finish();
      EXPECT_EQ(path.codec_work().wire, 2.0 * (kRows + kColumns) * sizeof(float)) << plan.name;
    });
  }
}

}  // namespace
}  // namespace paceline::schedule
