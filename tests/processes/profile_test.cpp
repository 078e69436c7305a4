// `paceline profile` as a user runs it: covers paceline/torch/gradient/step_figures.h. Runs
// fashion_mnist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "paceline/core/schedule/replay/model_file.h"
#include "tests/support/launched.h"
#include "tests/support/temporary_folder.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

Finished paceline_command(const std::vector<std::string>& words) {
  ProcessOptions options{.command = {binary("paceline")}};
  options.command.insert(options.command.end(), words.begin(), words.end());
  return run(options, Deadline::in(90s));
}

std::vector<std::string> training(const TemporaryFolder& folder, const std::string& metrics) {
  return {binary("fashion_mnist"),
          "--model",
          "mlp",
          "--threads",
          "1",
          "--steps",
          "6",
          "--batch-size",
          "64",
          "--test-images",
          "100",
          "--metrics",
          folder.file(metrics)};
}

std::string sha256_in(const std::string& metrics) {
  json last;
  std::ifstream lines(metrics);
  for (std::string line; std::getline(lines, line);) last = json::parse(line);
  return last.at("parameters_sha256");
}

Finished profiled(const std::string& file, std::vector<std::string> options,
                  const std::vector<std::string>& command) {
  options.insert(options.begin(), {"profile", "--output", file});
  options.emplace_back("--");
  options.insert(options.end(), command.begin(), command.end());
  return paceline_command(options);
}

TEST(Profile, HasTheModelsParametersAndTheirTimesAndChangesNoBit) {
  const TemporaryFolder folder;
  const std::string file = folder.file("mlp.json");
  const auto plain = run(paceline_run({"-n", "2"}, training(folder, "plain")), Deadline::in(90s));
  ASSERT_EQ(plain.exit_code, 0) << plain.error;
  const auto done = profiled(file, {"-n", "2"}, training(folder, "profiled"));
  ASSERT_EQ(done.exit_code, 0) << done.error;
  EXPECT_EQ(sha256_in(folder.file("profiled")), sha256_in(folder.file("plain")));
  EXPECT_THAT(done.error, HasSubstr("mlp.json: 6 tensors of 7.45 MB, batch 32"));

  const schedule::Model model = schedule::read_model(file);
  EXPECT_EQ(model.name, "mlp");
  EXPECT_EQ(model.batch, 32);
  std::map<std::string, std::pair<std::size_t, std::size_t>> shapes;  // bytes and rows
  for (const schedule::Tensor& tensor : model.tensors) {
    shapes[tensor.name] = {tensor.bytes, tensor.rows};
    EXPECT_GE(tensor.backward, 0);
    EXPECT_GT(tensor.update, 0);
  }
  const decltype(shapes) expected = {
      {"1.weight", {4 * 784 * 1024, 1024}},  {"1.bias", {4 * 1024, 1}},
      {"3.weight", {4 * 1024 * 1024, 1024}}, {"3.bias", {4 * 1024, 1}},
      {"5.weight", {4 * 10 * 1024, 10}},     {"5.bias", {4 * 10, 1}}};
  EXPECT_EQ(shapes, expected);
  EXPECT_GT(model.forward(), 0);
  EXPECT_TRUE(model.tensors.front().name.starts_with("1.")) << "forward order";

  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    left.push_back(entry.path().filename());
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("mlp.json", "plain", "profiled"));

  const auto replayed = paceline_command({"bench", "schedule", "--ranks", "2", "--models", file,
                                          "--divide", "50", "--steps", "1", "--json", "-"});
  ASSERT_EQ(replayed.exit_code, 0) << replayed.error;
  for (const json& row : json::parse(replayed.output)) {
    EXPECT_EQ(row.at("model"), "mlp");
    EXPECT_EQ(row.at("errors"), 0);
  }
}

TEST(Profile, WithoutOptionsIsOfOneProcessWhoseUpdatesAreKnownToo) {
  const TemporaryFolder folder;
  const std::string file = folder.file("mlp.json");
  const auto done = profiled(file, {}, training(folder, "metrics"));
  ASSERT_EQ(done.exit_code, 0) << done.error;
  const schedule::Model model = schedule::read_model(file);
  EXPECT_EQ(model.size(), 6);
  EXPECT_EQ(model.batch, 64);
  EXPECT_GT(model.update(), 0);
}

TEST(Profile, OfAProgramWithoutAStepFailsAndLeavesTheFormerFile) {
  const TemporaryFolder folder;
  const std::string file = folder.file("m.json");
  std::ofstream(file) << "former";
  auto done = profiled(file, {}, {"true"});
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.error, HasSubstr("has recorded nothing for " + file));
  done = profiled(file, {"-n", "2"}, {"bash", "-c", "exit 7"});
  EXPECT_EQ(done.exit_code, 7);
  EXPECT_THAT(done.error, HasSubstr("has recorded nothing"));
  std::ifstream in(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "former");
}

TEST(Profile, WrongUseIsToldAndStartsNothing) {
  const TemporaryFolder folder;
  const auto expect = [](const std::vector<std::string>& words, int code, const std::string& text) {
    const auto done = paceline_command(words);
    EXPECT_EQ(done.exit_code, code) << done.error;
    EXPECT_THAT(done.error, HasSubstr(text));
    EXPECT_THAT(done.output, Not(HasSubstr("started")));
  };
  expect({"profile", "--", "echo", "started"}, 2, "--output model.json");
  expect({"profile", "--outptu", "m", "--", "echo", "started"}, 2, "--output?");
  expect({"profile", "--output", folder.file("m")}, 2, "no program given");
  expect({"profile", "--output", "/no/such/folder/m", "--", "echo", "started"}, 1,
         "/no/such/folder/m");
  expect({"profile", "--dry-run", "--output", folder.file("m"), "--", "echo", "started"}, 2,
         "--dry-run");
}

}  // namespace
}  // namespace paceline::test
