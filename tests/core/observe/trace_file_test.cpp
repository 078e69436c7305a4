#include "paceline/core/observe/trace_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "paceline/core/observe/chrome_trace.h"
#include "paceline/core/observe/perfetto_trace.h"

namespace paceline::observe {
namespace {

// Readers of other projects read the files' content in tests/readers.
TEST(TraceFile, TheNameChoosesTheFormat) {
  const std::vector<RankTrace> ranks = {
      {0, "a", 0, {{TraceLane::training, "step", 1000, 9000}}, 0}};
  for (const std::string name : {"t.json", "t.pftrace", "t"}) {
    const std::string path = testing::TempDir() + "paceline_" + name;
    write_trace(path, ranks);
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    EXPECT_EQ(text.str(), name == "t.pftrace" ? perfetto_trace(ranks) : chrome_trace(ranks));
    std::filesystem::remove(path);
  }
}

TEST(TraceFile, ThePerfettoFormIsSmallerAndDoesNotDependOnWhenItBegan) {
  std::vector<RankTrace> ranks = {{0, "a", 0, {}, 0}};
  for (int i = 0; i < 100; ++i)
    ranks[0].spans.push_back({TraceLane::training, "forward", i * 1000, i * 1000 + 700});
  EXPECT_LT(perfetto_trace(ranks).size(), chrome_trace(ranks).size());
  auto later = ranks;
  for (TraceSpan& span : later[0].spans)
    span.begin_ns += 1'000'000'007, span.end_ns += 1'000'000'007;
  EXPECT_EQ(perfetto_trace(ranks), perfetto_trace(later));
  EXPECT_EQ(chrome_trace(ranks), chrome_trace(later));
}

}  // namespace
}  // namespace paceline::observe
