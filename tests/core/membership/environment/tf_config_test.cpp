#include "paceline/core/membership/environment/tf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::membership {
namespace {

using ::testing::HasSubstr;

std::string config(const std::string& cluster, const std::string& task) {
  return R"({"cluster": )" + cluster + R"(, "task": )" + task + "}";
}

constexpr const char* kCluster =
    R"({"worker": ["b:1", "a:2", "b:2"], "chief": ["a:1"], "evaluator": ["c:1"]})";

TEST(TfConfig, TheChiefIsRank0AndWorkersFollowInTheirOrder) {
  const auto chief = parse_tf_config(config(kCluster, R"({"type": "chief", "index": 0})")).value();
  EXPECT_EQ(chief.rank, 0);
  EXPECT_EQ(chief.world_size, 4);
  EXPECT_EQ(chief.first, "a:1");
  const auto last = parse_tf_config(config(kCluster, R"({"type": "worker", "index": 2})")).value();
  EXPECT_EQ(last.rank, 3);
  EXPECT_EQ(last.local_rank, 1) << "rank 1 is on host b too";
  EXPECT_EQ(last.local_world_size, 2);
  EXPECT_EQ(last.node_rank, 1);
  EXPECT_EQ(last.first, "a:1");
  EXPECT_EQ(last.identity, chief.identity);
}

TEST(TfConfig, WithoutAChiefWorker0IsRank0) {
  const auto place =
      parse_tf_config(config(R"({"worker": ["a:1", "b:1"]})", R"({"type": "worker", "index": 0})"))
          .value();
  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.world_size, 2);
}

TEST(TfConfig, AParameterServerIsAServerOfTheJobAndHasNoRank) {
  const char* cluster = R"({"worker": ["a:1", "b:1"], "ps": ["b:2", "c:1"]})";
  const auto server = parse_tf_config(config(cluster, R"({"type": "ps", "index": 1})")).value();
  const auto worker = parse_tf_config(config(cluster, R"({"type": "worker", "index": 1})")).value();
  EXPECT_EQ(server.rank, -1);
  EXPECT_EQ(server.server_index, 1);
  EXPECT_EQ(server.local_world_size, 0);
  EXPECT_EQ(worker.server_index, -1);
  EXPECT_EQ(worker.rank, 1);
  for (const auto& place : {server, worker}) {
    EXPECT_EQ(place.world_size, 2);
    EXPECT_EQ(place.servers, 2);
    EXPECT_EQ(place.first, "a:1");
    EXPECT_TRUE(place.spans_hosts);
  }
  EXPECT_EQ(server.identity, worker.identity);
  const char* one_host = R"({"worker": ["a:1"], "ps": ["a:2"]})";
  EXPECT_FALSE(
      parse_tf_config(config(one_host, R"({"type": "ps", "index": 0})")).value().spans_hosts);
}

TEST(TfConfig, AnEvaluatorIsNoRankOfTheTrainingWorld) {
  for (const char* cluster : {kCluster, R"({"worker": ["a:1", "b:1"]})"}) {
    EXPECT_EQ(parse_tf_config(config(cluster, R"({"type": "evaluator", "index": 0})")).value(),
              TfPlace{});
  }
}

struct Wrong {
  std::string text;
  const char* says;
};

TEST(TfConfig, WrongOnesSayWhatIsWrong) {
  for (const auto& [text, says] : std::vector<Wrong>{
           {"{", "no JSON"},
           {"[]", "no object"},
           {R"({"task": {"type": "worker", "index": 0}})", "\"cluster\" is missing"},
           {config("{}", R"({"type": "worker", "index": 0})"), "names nobody"},
           {config(R"({"worker": "a:1"})", R"({"type": "worker", "index": 0})"),
            "no list of addresses"},
           {config(R"({"worker": ["a"]})", R"({"type": "worker", "index": 0})"),
            "\"a\" under \"worker\" is not \"host:port\""},
           {config(R"({"worker": [7]})", R"({"type": "worker", "index": 0})"),
            "7 under \"worker\""},
           {R"({"cluster": {"worker": ["a:1"]}})", "\"task\" has no \"type\""},
           {config(kCluster, R"({"type": "worker"})"), "no \"index\""},
           {config(kCluster, R"({"type": "worker", "index": "1"})"), "no \"index\""},
           {config(kCluster, R"({"type": "worker", "index": 3})"),
            "the task is worker 3, but the cluster has 3"},
           {config(kCluster, R"({"type": "worker", "index": -1})"), "the task is worker -1"},
           {config(kCluster, R"({"type": "wroker", "index": 0})"),
            "the task is wroker 0, but the cluster has 0"},
           {config(R"({"gpu": ["a:1"]})", R"({"type": "gpu", "index": 0})"),
            "it is chief, worker, ps or evaluator"},
           {config(R"({"ps": ["a:1"]})", R"({"type": "ps", "index": 0})"),
            "no chief or worker for them"},
           {config(R"({"ps": ["a:1"], "worker": ["a:2"]})", R"({"type": "ps", "index": 1})"),
            "the task is ps 1, but the cluster has 1"},
       }) {
    const auto place = parse_tf_config(text);
    ASSERT_FALSE(place) << text;
    EXPECT_EQ(place.error().fault, Fault::misuse);
    EXPECT_THAT(place.error().what, HasSubstr(says));
    EXPECT_THAT(place.error().what, HasSubstr("TF_CONFIG"));
  }
}

}  // namespace
}  // namespace paceline::membership
