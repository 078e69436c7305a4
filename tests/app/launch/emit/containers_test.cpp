// Also covers paceline/app/launch/emit/compose.cpp and paceline/app/launch/emit/pytorchjob.cpp.
#include "paceline/app/launch/emit/containers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/app/launch/emit/run_plan.h"

namespace paceline::launch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunPlan plan_of_nodes(int nodes) {
  return {.name = "train",
          .nodes = nodes,
          .command = {"train", "$(RANK)"},
          .options = {"--log-dir", "/runs/$x"},
          .image = "registry/train:1"};
}

TEST(ContainersCommand, EscapesTheUsersWordsAndNotThePlaceThatTheSystemTells) {
  const Json words = launch_command(plan_of_nodes(2), {.node_rank = "$(RANK)", .endpoint = "e:1"});
  EXPECT_EQ(words,
            Json({"paceline", "run", "--nnodes", "2", "--node-rank", "$(RANK)", "--rdzv-endpoint",
                  "e:1", "-n", "1", "--log-dir", "/runs/$$x", "--", "train", "$$(RANK)"}));
}

TEST(ContainersRestarts, AreThoseOfAllNodes) {
  RunPlan plan = plan_of_nodes(3);
  EXPECT_EQ(container_restarts(plan), 0);
  plan.max_restarts = 4;
  EXPECT_EQ(container_restarts(plan), 12);
}

TEST(Pod, MountsEachVolumeThatItHas) {
  RunPlan plan = plan_of_nodes(2);
  plan.volume = Volume{.source = "disk", .path = "/runs"};
  Json node = {{"name", "node"}};
  mount_volumes(plan, node);
  const Json spec = pod(plan, node);
  ASSERT_EQ(spec["volumes"].size(), 2U);
  ASSERT_EQ(node["volumeMounts"].size(), 2U);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(spec["volumes"][i]["name"], node["volumeMounts"][i]["name"]);
  EXPECT_EQ(node["volumeMounts"][1]["mountPath"], "/runs");
  EXPECT_THAT(secret_in_pod(), HasSubstr(node["volumeMounts"][0]["mountPath"].get<std::string>()));
  EXPECT_FALSE(pod(plan_of_nodes(1), {}).contains("volumes"));
}

TEST(ComposeFile, DeclaresAVolumeByNameAndBindsAFolder) {
  RunPlan plan = plan_of_nodes(2);
  plan.volume = Volume{.source = "disk", .path = "/runs"};
  EXPECT_THAT(compose().write(plan), HasSubstr("\nvolumes:\n  disk: {}\n"));
  plan.volume->source = "./disk";
  const std::string bound = compose().write(plan);
  EXPECT_THAT(bound, HasSubstr("type: bind\n        source: ./disk\n"));
  EXPECT_THAT(bound, Not(HasSubstr("\nvolumes:\n")));
}

TEST(ReplicasOfAPyTorchJob, AreOneMasterAndAWorkerForEachOtherNode) {
  EXPECT_THAT(pytorchjob().write(plan_of_nodes(1)), Not(HasSubstr("Worker")));
  EXPECT_THAT(pytorchjob().write(plan_of_nodes(5)), HasSubstr("Worker:\n      replicas: 4\n"));
}

}  // namespace
}  // namespace paceline::launch
