#include "paceline/core/observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include <nlohmann/json.hpp>

#include "paceline/core/base/result.h"
#include "tests/support/temporary_folder.h"

namespace paceline::observe {
namespace {

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Metrics, KeysKeepTheirOrderAndDoublesAllTheirDigits) {
  EXPECT_EQ(json_line({{"event", "step"},
                       {"step", std::int64_t{7}},
                       {"loss", 0.1},
                       {"a", std::vector<std::int64_t>{1, 2}}}),
            R"({"event":"step","step":7,"loss":0.1,"a":[1,2]})");
  const double value = 1.0 / 3;
  EXPECT_EQ(nlohmann::json::parse(json_line({{"x", value}}))["x"].get<double>(), value);
}

TEST(Metrics, WhatIsNotFiniteIsNull) {
  EXPECT_EQ(json_line({{"x", std::nan("")}, {"y", std::numeric_limits<double>::infinity()}}),
            R"({"x":null,"y":null})");
}

TEST(Metrics, ATextCannotBreakItsLine) {
  const std::string line = json_line({{"text", std::string("a\nb\"c\xff")}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(line)["text"].get<std::string>().substr(0, 5), "a\nb\"c");
}

TEST(Metrics, EachLineIsInTheFileAsSoonAsItWasWritten) {
  test::TemporaryFolder folder;
  MetricsFile file(folder.file("m.jsonl"));
  file.write({{"step", std::int64_t{1}}});
  EXPECT_EQ(read(folder.file("m.jsonl")), "{\"step\":1}\n");
  file.write({{"step", std::int64_t{2}}});
  EXPECT_EQ(read(folder.file("m.jsonl")), "{\"step\":1}\n{\"step\":2}\n");
}

TEST(Metrics, AnOldFileIsEmptied) {
  test::TemporaryFolder folder;
  std::ofstream(folder.file("m.jsonl")) << "old\n";
  MetricsFile file(folder.file("m.jsonl"));
  EXPECT_EQ(read(folder.file("m.jsonl")), "");
}

TEST(Metrics, AFileThatCannotBeWrittenIsNamed) {
  try {
    MetricsFile file("/nonexistent/folder/m.jsonl");
    FAIL() << "it opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::io);
    EXPECT_THAT(error.what(), testing::HasSubstr("/nonexistent/folder/m.jsonl"));
  }
}

}  // namespace
}  // namespace paceline::observe
