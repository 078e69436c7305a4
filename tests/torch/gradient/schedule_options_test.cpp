// A compression tells a user which tensors of a model it leaves alone.
#include "paceline/torch/gradient/schedule_options.h"

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// The figures of the last of four steps, and what rank 0 wrote to stderr.
std::pair<StepReport, std::string> compressed_training(const std::string& compression) {
  StepReport report;
  testing::internal::CaptureStderr();
  run_ranks(2, [&](Job& job) {
    Net net(at::kFloat);
    DataParallel parallel(net, job, {.compression = compression});
    auto optimizer = sgd(net);
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      loss_of(net, samples(step, 4)).backward();
      parallel.step(optimizer);
    }
    if (job.rank() == 0) report = parallel.last_step();
  });
  return {report, testing::internal::GetCapturedStderr()};
}

// The four weights of the net have 48, 64, 64 and 24 elements.
TEST(CompressedTensors, AreToldWhereNoneIsAndNoneOfTheirBytesCountAsCoded) {
  const auto [report, told] = compressed_training("top_k:ratio=0.01");
  EXPECT_EQ(report.coded_bytes, 0);
  EXPECT_EQ(report.wire_bytes, 0);
  EXPECT_THAT(told, HasSubstr("compression top_k: 8 of 8 tensors travel uncompressed, 8 because "
                              "they have fewer than 65536 bytes (lower it by "
                              "top_k:min_compress_bytes=N)\n"));
}

TEST(CompressedTensors, CountAsCodedWithoutThoseThatTravelWholeBesideThem) {
  const auto [report, told] = compressed_training("fp16:min_compress_bytes=100");
  EXPECT_EQ(report.coded_bytes, 4 * (48 + 64 + 64));
  EXPECT_EQ(report.wire_bytes, 2 * (48 + 64 + 64));
  EXPECT_THAT(told, HasSubstr("compression fp16: 5 of 8 tensors travel uncompressed, 5 because "
                              "they have fewer than 100 bytes"));
  EXPECT_THAT(compressed_training("fp16:min_compress_bytes=0").second,
              HasSubstr("4 of 8 tensors travel uncompressed, 4 because they are vectors"));
}

TEST(CompressedTensors, AreAllTensorsOfAMethodThatTellsDirections) {
  const auto [report, told] = compressed_training("sign");
  EXPECT_EQ(report.coded_bytes, 4 * (48 + 8 + 64 + 8 + 64 + 8 + 24 + 3));
  EXPECT_EQ(told, "");
}

}  // namespace
}  // namespace paceline
