// The example, trained by real processes: the same numbers as one process, the same bits on every
// transport. Runs hello_world and fashion_mnist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "tests/support/extremes.h"
#include "tests/support/launched.h"
#include "tests/support/nightly.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using nlohmann::json;

struct Trained {
  json summary;
  std::vector<double> parameters;
};

Trained train(int ranks, const std::string& transport, std::vector<std::string> arguments) {
  const TemporaryFolder folder;
  const std::string metrics = folder.file("metrics.jsonl"), saved = folder.file("parameters");
  std::vector<std::string> command = {
      binary("fashion_mnist"), "--threads", "1", "--metrics", metrics, "--save", saved};
  command.insert(command.end(), {"--test-images", "500"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  Process run(paceline_run({"-n", std::to_string(ranks), "--transport", transport}, command));
  EXPECT_EQ(exit_code(run.wait(Deadline::in(90s))), 0) << run.error();
  Trained trained;
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) trained.summary = json::parse(line);
  std::ifstream bytes(saved, std::ios::binary);
  for (double value; bytes.read(reinterpret_cast<char*>(&value), sizeof value);)
    trained.parameters.push_back(value);
  return trained;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  double furthest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) furthest = larger(furthest, std::fabs(a[i] - b[i]));
  return furthest;
}

std::string sha256(const Trained& trained) {
  return trained.summary.at("parameters_sha256");
}

// A batch of 50 leaves uneven parts to 3 and 4 ranks.
TEST(Training, OnManyProcessesGivesTheNumbersOfOneAndTheSameBitsOnEveryTransport) {
  const std::vector<std::string> arguments = {"--model", "linear", "--dtype",      "float64",
                                              "--steps", "100",    "--batch-size", "50"};
  const Trained alone = train(1, "auto", arguments);
  for (const int ranks : {2, 3, 4}) {
    const Trained shm = train(ranks, "shm", arguments), tcp = train(ranks, "tcp", arguments);
    EXPECT_LE(distance(alone.parameters, shm.parameters), 1e-10) << ranks << " ranks";
    EXPECT_EQ(sha256(shm), sha256(tcp)) << ranks << " ranks";
    EXPECT_EQ(shm.parameters, tcp.parameters);
  }
}

TEST(Training, OfNetworksWithManyBucketsGivesTheNumbersOfOneProcess) {
  for (const char* model : {"mlp", "cnn"}) {
    const std::vector<std::string> arguments = {"--model", model, "--dtype",      "float64",
                                                "--steps", "12",  "--batch-size", "30"};
    EXPECT_LE(
        distance(train(1, "auto", arguments).parameters, train(2, "auto", arguments).parameters),
        1e-10)
        << model;
  }
}

TEST(Training, ByOptimizersOfEveryKindGivesTheNumbersOfOneProcess) {
  const std::vector<std::vector<std::string>> kinds = {{"l_bfgs", "--split", "with_replacement"},
                                                       {"svrg"}};
  for (const auto& kind : kinds) {
    std::vector<std::string> arguments = {"--model",      "linear",  "--dtype",
                                          "float64",      "--steps", "25",
                                          "--batch-size", "50",      "--optimizer"};
    arguments.insert(arguments.end(), kind.begin(), kind.end());
    EXPECT_LE(
        distance(train(1, "auto", arguments).parameters, train(3, "shm", arguments).parameters),
        1e-9)
        << kind[0];
  }
}

// docs/optimizers/lamb.md has the figures.
TEST(Training, ByLAMBLearnsInFewLargeBatchesWhatSGDDoesNotAtAnyRate) {
  if (!is_nightly()) GTEST_SKIP() << "five minutes: runs with PACELINE_NIGHTLY=1";
  const auto accuracy = [](const std::string& optimizer, const std::string& rate) {
    const TemporaryFolder folder;
    const std::string metrics = folder.file("metrics.jsonl");
    Process run({.command = {binary("fashion_mnist"), "--metrics", metrics, "--model", "mlp",
                             "--batch-size", "4096", "--steps", "73", "--optimizer", optimizer,
                             "--learning-rate", rate}});
    EXPECT_EQ(exit_code(run.wait(Deadline::in(900s))), 0) << run.error();
    json summary;
    std::ifstream lines(metrics);
    for (std::string line; std::getline(lines, line);) summary = json::parse(line);
    return summary.at("test_accuracy").get<double>();
  };
  const double lamb = accuracy("lamb", "0.05");
  EXPECT_GE(lamb, 0.85);
  for (const char* rate : {"0.1", "0.2", "0.4"})
    EXPECT_GE(lamb, accuracy("sgd", rate) + 0.015) << "SGD with rate " << rate;
}

TEST(Training, RefusesOptimizersThatItDoesNotKnowOrThatDoNotGoWithTheRest) {
  const auto refusal = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), binary("fashion_mnist"));
    Process run({.command = arguments});
    EXPECT_EQ(exit_code(run.wait(Deadline::in(60s))), 2);
    return run.error();
  };
  using testing::AllOf;
  using testing::HasSubstr;
  EXPECT_THAT(refusal({"--optimizer", "adm"}), AllOf(HasSubstr("l_bfgs"), HasSubstr("svrg")));
  EXPECT_THAT(refusal({"--split", "bootstrap"}), HasSubstr("with_replacement"));
  EXPECT_THAT(refusal({"--optimizer", "l_bfgs", "--synchrony", "local_sgd:period=4"}),
              AllOf(HasSubstr("local_sgd:period=4"), HasSubstr("synchronous")));
  EXPECT_THAT(refusal({"--optimizer", "svrg", "--compression", "fp16"}), HasSubstr("fp16"));
  EXPECT_THAT(refusal({"--optimizer", "lamb", "--compression", "sign"}), HasSubstr("plain SGD"));
  EXPECT_THAT(refusal({"--optimizer", "adamw", "--momentum", "0.5"}), HasSubstr("--momentum"));
}

// 15 images leave uneven parts to 2 ranks.
TEST(Training, WithItsStateDividedAmongTheRanksGivesTheSameBits) {
  const std::vector<std::string> arguments = {
      "--model", "mlp", "--batch-size", "15", "--steps", "6", "--optimizer", "adamw", "--zero"};
  const auto digest = [&](const std::string& transport, const char* stage) {
    auto with_stage = arguments;
    with_stage.emplace_back(stage);
    return sha256(train(2, transport, with_stage));
  };
  const std::string want = digest("shm", "0");
  EXPECT_EQ(digest("tcp", "2"), want);
  EXPECT_EQ(digest("shm", "3"), want);
  if (!is_nightly()) return;
  for (const char* stage : {"1", "2", "3"})
    for (const char* transport : {"shm", "tcp"}) EXPECT_EQ(digest(transport, stage), want) << stage;
}

TEST(Training, BySchedulesOfEveryKindGivesTheSameBits) {
  std::vector<std::string> digests;
  for (const char* schedule : {"buckets", "barrier", "wait_free", "priority", "general"}) {
    digests.push_back(sha256(
        train(2, "tcp",
              {"--model", "mlp", "--steps", "12", "--batch-size", "16", "--schedule", schedule})));
    EXPECT_EQ(digests.back(), digests.front()) << schedule;
  }
}

TEST(Training, RepeatsItselfBitForBit) {
  const std::vector<std::string> arguments = {"--model", "linear", "--dtype",      "float64",
                                              "--steps", "100",    "--batch-size", "64"};
  EXPECT_EQ(sha256(train(3, "auto", arguments)), sha256(train(3, "auto", arguments)));
}

TEST(Training, SummaryHoldsWhatTheDocumentsSay) {
  const json summary =
      train(2, "auto", {"--model", "linear", "--steps", "20", "--batch-size", "64"}).summary;
  EXPECT_EQ(summary.at("event"), "summary");
  EXPECT_EQ(summary.at("world_size"), 2);
  EXPECT_EQ(summary.at("steps"), 20);
  EXPECT_EQ(summary.at("peak_rss_bytes").size(), 2u);
  EXPECT_GT(summary.at("train_samples_per_second"), 0);
  EXPECT_LE(summary.at("exposed_communication_seconds").get<double>() +
                summary.at("compute_seconds").get<double>(),
            90.0);
  for (const char* name : {"train_loss", "test_accuracy", "communication_seconds"})
    EXPECT_GT(summary.at(name), 0) << name;
}

// With SGD's usual rate and a momentum beside their own they learn nothing, or diverge.
TEST(Training, ByCompressionsThatGiveADirectionLowersTheLossAtARateOfTheirOwn) {
  for (const char* compression : {"sign", "one_bit_adam", "dgc:ratio=0.01"}) {
    const std::vector<std::string> arguments = {
        "--model", "mlp", "--steps", "60", "--batch-size", "128", "--compression", compression};
    const json summary = train(2, "auto", arguments).summary;
    EXPECT_LT(summary.at("train_loss"), 1.6) << compression << ": mean of all steps";
    EXPECT_GT(summary.at("test_accuracy"), 0.6) << compression;
  }
}

TEST(Training, EndsAtTheFirstLossThatIsNotFiniteAndSaysWhatToTry) {
  Process run(paceline_run({"-n", "2"}, {binary("fashion_mnist"), "--model", "mlp", "--steps",
                                         "500", "--threads", "1", "--learning-rate", "1000"}));
  EXPECT_EQ(exit_code(run.wait(Deadline::in(60s))), 1) << run.error();
  EXPECT_THAT(run.error(),
              ::testing::ContainsRegex("error: the loss of rank [01] is -?(nan|inf) in step "
                                       "[0-9]+: training has diverged. Try a "
                                       "smaller --learning-rate than 1000, or --momentum 0\n"));
  EXPECT_EQ(run.output().find("trained"), std::string::npos);
}

TEST(HelloWorld, AddsTheRanksUp) {
  Process run(paceline_run({"-n", "3"}, {binary("hello_world")}));
  ASSERT_EQ(exit_code(run.wait(Deadline::in(30s))), 0) << run.error();
  for (const char* rank : {"0", "1", "2"}) {
    EXPECT_NE(run.output().find(std::string("[") + rank + "] hello from rank " + rank + " of 3"),
              std::string::npos);
  }
}

struct Refusal {
  std::vector<std::string> arguments;
  int code;
  std::vector<std::string> says;
};

TEST(Training, RefusesWhatCannotWorkAndSaysWhatToDo) {
  const TemporaryFolder empty;
  std::ofstream(empty.file("train-images-idx3-ubyte.gz")) << "this is no gzip file";
  const std::vector<Refusal> refusals = {
      {{"--model", "transformer"}, 2, {"transformer", "linear", "mlp", "cnn"}},
      {{"--batch-size", "1"}, 2, {"batch of 1", "2 ranks", "Raise the batch size"}},
      {{"--steps", "0"}, 2, {"--steps"}},
      {{"--data", "/nowhere"}, 1, {"/nowhere", "dataset-fashion-mnist", "--data"}},
      {{"--data", empty.file("")}, 1, {"train-images-idx3-ubyte.gz"}},
      {{"--no-such-option"}, 2, {"--no-such-option"}},
      {{"--trace", "/nowhere/t.json"}, 2, {"trace file /nowhere/t.json", "a folder that exists"}},
      {{"--save", "/nowhere/p"}, 2, {"file of parameters /nowhere/p", "a folder that exists"}},
  };
  for (const Refusal& refusal : refusals) {
    std::vector<std::string> command = {binary("fashion_mnist")};
    command.insert(command.end(), refusal.arguments.begin(), refusal.arguments.end());
    Process run(paceline_run({"-n", "2"}, command));
    EXPECT_EQ(exit_code(run.wait(Deadline::in(30s))), refusal.code) << run.error();
    for (const std::string& text : refusal.says)
      EXPECT_NE(run.error().find(text), std::string::npos) << text << "\n" << run.error();
  }
}

// kill -9 of a worker in the middle of training.
class KilledTraining : public ::testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(KilledTraining, EndsAllWithinTwoSecondsAndNamesTheDeadRank) {
  const auto [victim, transport] = GetParam();
  Process run(paceline_run(
      {"-n", "3", "--transport", transport},
      {"bash", "-c",
       "echo pid $$; exec " + binary("fashion_mnist") + " --model mlp --threads 1 --epochs 100"}));
  ASSERT_TRUE(run.wait_for_output("[0] step 1/", Deadline::in(60s))) << run.error();
  const auto pid = told(run.output(), victim, "pid");
  ASSERT_TRUE(pid);
  const std::string job = variable_of(*pid, "PACELINE_JOB");
  const auto begin = Clock::now();
  ASSERT_EQ(::kill(*pid, SIGKILL), 0);
  EXPECT_EQ(exit_code(run.wait(Deadline::in(10s))), 137) << run.error();
  EXPECT_LT(Clock::now() - begin, 2s);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim) continue;
    // "[1] error: while the gradients of bucket ... were averaged: rank 0 was lost: ...", or as the
    // launcher tells it, "rank 0 (pid 12) was killed by ..."
    const std::string line = "\\[" + std::to_string(rank) + "\\] error: [^\n]*rank " +
                             std::to_string(victim) + " (was lost|\\(pid )";
    EXPECT_THAT(run.error(), ::testing::ContainsRegex(line));
  }
  EXPECT_EQ(left_overs(job, {*pid}, Deadline::in(2s)), "");
}

INSTANTIATE_TEST_SUITE_P(AnyRank, KilledTraining,
                         ::testing::Combine(::testing::Values(0, 1, 2),
                                            ::testing::Values("shm", "tcp")));

}  // namespace
}  // namespace paceline::test
