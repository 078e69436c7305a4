#include "paceline/core/collective/carrier/gathered_inputs.h"

#include <gtest/gtest.h>

#include <atomic>

#include "paceline/core/base/half.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/nightly.h"
#include "tests/support/pattern.h"

namespace paceline::collective::testing {
namespace {

constexpr FingerprintBarrier::Form kForms[] = {FingerprintBarrier::Form::dissemination,
                                               FingerprintBarrier::Form::tree};

LocalWorldOptions options_of(FingerprintBarrier::Form form, int ranks) {
  return {.share_memory = false,
          .processors = form == FingerprintBarrier::Form::tree ? 1.0 : static_cast<double>(ranks)};
}

void expect_the_bits_of_a_program(Communicator& world, Dtype dtype, std::size_t count) {
  const auto values = thirds(world.rank(), count);
  std::vector<std::byte> input(count * size_of(dtype));
  if (dtype == Dtype::f32) std::ranges::copy(std::as_bytes(std::span(values)), input.begin());
  else narrow(dtype, values, input);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
    auto gathered = input, by_program = input, elsewhere = input;
    const auto of = [&](std::vector<std::byte>& bytes) {
      return Buffer{bytes.data(), count, dtype};
    };
    world.all_reduce(of(gathered), {.op = op}).wait();
    world.all_reduce({input.data(), count, dtype}, of(elsewhere), {.op = op}).wait();
    world.all_reduce(of(by_program), {.op = op, .algorithm = "direct"}).wait();
    ASSERT_EQ(gathered, by_program) << count << " elements, " << name_of(op);
    ASSERT_EQ(elsewhere, by_program) << count << " elements, " << name_of(op);
  }
}

TEST(GatheredInputs, SumToTheBitsOfProgramsUpToTheirLongestInputAndBeyond) {
  for (const FingerprintBarrier::Form form : kForms) {
    for (const int ranks : test::is_brief() ? std::vector{11} : std::vector{8, 11, 16}) {
      const std::size_t longest = GatheredInputs::longest_input(form, ranks, true) / sizeof(float);
      run_ranks(ranks, options_of(form, ranks), [&](Job& job) {
        for (const std::size_t count : {std::size_t{1}, std::size_t{37}, longest, longest + 1}) {
          expect_the_bits_of_a_program(job.world(), Dtype::f32, count);
          expect_the_bits_of_a_program(job.world(), Dtype::f16, count);
        }
      });
    }
  }
}

TEST(GatheredInputs, AreSentWithTheAssentAndWithoutAnyOtherFrame) {
  constexpr int kRanks = 13;
  for (const FingerprintBarrier::Form form : kForms) {
    std::atomic<std::uint64_t> announced = 0, messages = 0, bytes = 0;
    run_ranks(kRanks, options_of(form, kRanks), [&](Job& job) {
      std::vector<float> values(25, 1);
      job.world().barrier().wait();  // ranks that come much later are asked for
      const Traffic before = job.world().traffic();
      job.world().all_reduce(buffer_of(values)).wait();
      const Traffic after = job.world().traffic();
      announced += after.announcements - before.announcements;
      messages += after.messages_sent - before.messages_sent;
      bytes += after.bytes_sent - before.bytes_sent;
    });
    EXPECT_EQ(announced, 0U);
    if (form == FingerprintBarrier::Form::tree) {
      EXPECT_EQ(messages, 2U * (kRanks - 1));
      // Up go 7 leaves (rank 12 is one), the pairs of ranks 2, 6 and 10, the four ranks from 4 on
      // and the five from 8 on; down goes the sum.
      EXPECT_EQ(bytes, 100U * ((7 + 3 * 2 + 4 + 5) + (kRanks - 1)));
    } else {
      EXPECT_EQ(messages, kRanks * 4U);
      EXPECT_EQ(bytes, 100U * kRanks * (kRanks - 1));
    }
  }
}

class GatheredInputsOfOne : public ::testing::Test {
 protected:
  GatheredInputsOfOne() {
    request.call = {.operation = Operation::all_reduce, .dtype = Dtype::i32, .count = 2};
    request.input = {reinterpret_cast<const std::byte*>(input.data()), 2, Dtype::i32};
    request.output = {reinterpret_cast<std::byte*>(output.data()), 2, Dtype::i32};
  }
  std::vector<std::int32_t> input = {1, 2}, output = {7, 7};
  Request request;
  Traffic traffic;
};

TEST_F(GatheredInputsOfOne, AFrameOfAnotherLengthIsRefusedAndWritesNothing) {
  for (const FingerprintBarrier::Form form : kForms) {
    GatheredInputs inputs(form, 1, 8, request, traffic);
    for (const int of_ranks : {0, 1, 2, 4}) {
      for (const std::size_t bytes : {0, 4, 8 * of_ranks + 8, 1000}) {
        if (of_ranks == 0 && bytes == 8) continue;
        const FingerprintBarrier::Frame frame = {
            .is_told = false, .rank = 0, .round = 0, .of_ranks = of_ranks, .distance = 1};
        EXPECT_FALSE(inputs.put(frame, test::pattern(bytes, 1))) << of_ranks << ", " << bytes;
      }
    }
    EXPECT_EQ(output, std::vector<std::int32_t>(2, 7));
  }
}

TEST_F(GatheredInputsOfOne, NothingIsWrittenBeforeTheEnd) {
  GatheredInputs inputs(FingerprintBarrier::Form::dissemination, 0, 2, request, traffic);
  const std::vector<std::int32_t> theirs = {10, 20};
  ASSERT_TRUE(inputs.put({.is_told = false, .rank = 1, .round = 0, .of_ranks = 1, .distance = 1},
                         std::as_bytes(std::span(theirs))));
  EXPECT_EQ(output, std::vector<std::int32_t>(2, 7));
  inputs.finish();
  EXPECT_EQ(output, (std::vector<std::int32_t>{11, 22}));
}

}  // namespace
}  // namespace paceline::collective::testing
