// Worlds whose ranks wait longer than the stall time and the timeout of operations, and what they
// say then.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/membership/generation/generation_frames.h"
#include "tests/support/local_world.h"
#include "tests/support/test_link.h"

namespace paceline::coordination::testing {

// A link over which no message of a machine leaves any more, as if its rank were stopped.
class MuteLink final : public test::TestLink {
 public:
  MuteLink(std::unique_ptr<Link> inner, const std::atomic<bool>& is_mute)
      : TestLink(std::move(inner)), is_mute_(is_mute) {}

  void send(const transport::FrameHeader& header, Bytes payload, transport::SendListener* listener,
            std::uint64_t cookie) override {
    if (is_mute_ && header.type == membership::frame::kMachine) return;
    TestLink::send(header, payload, listener, cookie);
  }

 private:
  const std::atomic<bool>& is_mute_;
};

struct LongWaits {
  std::string lines;                  // on stderr
  std::vector<std::string> failures;  // by rank; empty: its body ended
  std::vector<std::vector<int>> blamed;
};

// Runs the body on each rank. Rank 0 is `mute` when the body sets that. A rank that has failed
// leaves its Job when all have ended or failed.
inline LongWaits long_waits(int ranks, std::atomic<bool>& mute,
                            const std::function<void(Job&)>& body,
                            std::chrono::milliseconds timeout = std::chrono::milliseconds(400),
                            std::chrono::milliseconds stall = std::chrono::milliseconds(50)) {
  const LocalWorldOptions options = {
      .operation_timeout = timeout,
      .stall_time = stall,
      .through = [&](int rank, int, std::unique_ptr<transport::Link> link) {
        if (rank != 0) return link;
        return std::unique_ptr<transport::Link>(std::make_unique<MuteLink>(std::move(link), mute));
      }};
  LongWaits said{.failures = std::vector<std::string>(static_cast<std::size_t>(ranks)),
                 .blamed = std::vector<std::vector<int>>(static_cast<std::size_t>(ranks))};
  std::latch all_have_ended(ranks);
  ::testing::internal::CaptureStderr();
  test::run_ranks(ranks, options, [&](Job& job) {
    try {
      body(job);
    } catch (const Error& error) {
      said.failures[static_cast<std::size_t>(job.rank())] = error.what();
      said.blamed[static_cast<std::size_t>(job.rank())] = error.failure().ranks;
    }
    all_have_ended.arrive_and_wait();
  });
  said.lines = ::testing::internal::GetCapturedStderr();
  return said;
}

// A rank that waits in `what` for `whom` has said so at the stall time, and its failure too.
inline void expect_told(const LongWaits& said, int rank, const std::string& waits) {
  const std::string all = "rank " + std::to_string(rank) + " waits in " + waits;
  EXPECT_NE(said.lines.find("paceline: stall: for 0.05 s " + all + "\n"), std::string::npos)
      << all << "\nwas expected in\n"
      << said.lines;
  EXPECT_EQ(said.failures[static_cast<std::size_t>(rank)].find("deadline: " + all), 0U)
      << all << "\nwas expected in\n"
      << said.failures[static_cast<std::size_t>(rank)];
}

}  // namespace paceline::coordination::testing
