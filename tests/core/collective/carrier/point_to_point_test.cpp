// send and recv through a communicator.
#include "paceline/core/collective/carrier/point_to_point.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "paceline/core/base/seed.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::collective::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kCarried = 64 << 10;  // shorter ones are buffered

TEST(PointToPoint, EverySizeArrivesWhicheverSideIsFirst) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(3, options, [](Job& job) {
      Arena arena(job, std::size_t{16} << 20);
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kCarried - 1, kCarried,
                                      std::size_t{kSanitized ? 2U : 5U} << 20}) {
        for (const bool sender_first : {true, false}) {
          const int next = (job.rank() + 1) % 3, previous = (job.rank() + 2) % 3;
          const auto out = arena.take<std::uint8_t>(count, job.rank() == 0);
          const auto in = arena.take<std::uint8_t>(count, job.rank() != 1);
          fill(out, job.rank());
          Work send, recv;
          if (!sender_first) recv = job.world().recv(buffer_of(in), previous);
          job.world().barrier().wait();
          send = job.world().send(const_buffer_of(out), next);
          job.world().barrier().wait();
          if (sender_first) recv = job.world().recv(buffer_of(in), previous);
          send.wait();
          recv.wait();
          ASSERT_EQ(first_difference<std::uint8_t>(
                        in, [&](std::size_t i) { return value<std::uint8_t>(previous, i); }),
                    count)
              << count << " bytes";
          ASSERT_TRUE(arena.guards_intact());
          arena.reset();
        }
      }
    });
  }
}

TEST(PointToPoint, MessagesOfOneTagKeepTheirOrderAndTagsDoNotMix) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(2, options, [](Job& job) {
      Communicator& world = job.world();
      constexpr std::size_t kMessages = 40;
      // Long and short ones in turns: all of one tag still come in order.
      const auto length = [](std::size_t i) { return i % 5 == 0 ? kCarried + i : i + 1; };
      std::vector<Work> works;
      std::vector<std::vector<std::uint8_t>> buffers;
      for (std::size_t i = 0; i < kMessages; ++i) buffers.emplace_back(length(i), std::uint8_t(i));
      if (job.rank() == 0) {
        for (std::size_t i = 0; i < kMessages; ++i) {
          works.push_back(world.send(const_buffer_of(buffers[i]), 1,
                                     {.tag = static_cast<std::uint32_t>(i % 3)}));
        }
        for (const Work& work : works) work.wait();
        return;
      }
      for (std::uint32_t tag : {2U, 0U, 1U}) {
        for (std::size_t i = tag; i < kMessages; i += 3) {
          std::vector<std::uint8_t> in(length(i));
          world.recv(buffer_of(in), 0, {.tag = tag}).wait();
          ASSERT_EQ(in, buffers[i]) << "message " << i;
        }
      }
    });
  }
}

TEST(PointToPoint, ARankMaySendToItself) {
  for (const int ranks : {1, 2}) {
    run_ranks(ranks, [](Job& job) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{10}, std::size_t{2} << 20}) {
        std::vector<std::uint8_t> out(count, 7), in(count), later(count);
        job.world().send(const_buffer_of(out), job.rank(), {.tag = 4}).wait();
        job.world().recv(buffer_of(in), job.rank(), {.tag = 4}).wait();
        const Work work = job.world().recv(buffer_of(later), job.rank(), {.tag = 5});
        job.world().send(const_buffer_of(out), job.rank(), {.tag = 5}).wait();
        work.wait();
        EXPECT_EQ(in, out);
        EXPECT_EQ(later, out);
      }
    });
  }
}

TEST(PointToPoint, BothDirectionsAtOnceDoNotBlockEachOther) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(4, options, [](Job& job) {
      Communicator& world = job.world();
      const std::size_t count = kSanitized ? 1 << 18 : 1 << 20;
      std::vector<std::vector<float>> in(4, std::vector<float>(count));
      std::vector<float> out(count);
      fill(std::span(out), job.rank());
      std::vector<Work> works;
      for (int peer = 0; peer < 4; ++peer) works.push_back(world.send(const_buffer_of(out), peer));
      for (int peer = 0; peer < 4; ++peer)
        works.push_back(world.recv(buffer_of(in[static_cast<std::size_t>(peer)]), peer));
      std::vector<float> sum(1000, 1);
      world.all_reduce(buffer_of(sum)).wait();  // overtakes them
      EXPECT_EQ(sum[0], 4);
      for (const Work& work : works) work.wait();
      for (int peer = 0; peer < 4; ++peer) {
        EXPECT_EQ(first_difference<float>(in[static_cast<std::size_t>(peer)],
                                          [&](std::size_t i) { return value<float>(peer, i); }),
                  count);
      }
    });
  }
}

TEST(PointToPoint, WhatDoesNotFitTheBudgetWaitsForItsRecv) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1000}, kCarried - 1}) {
    for (const auto& options : {kShared, kTcp}) {
      run_ranks(2, options, [count](Job& job) {
        const int messages = (count < 1000 ? 20'000 : 2000) / (kSanitized ? 2 : 1);
        std::vector<std::uint8_t> buffer(count, 3);
        if (job.rank() == 0) {
          std::vector<Work> works;
          for (int i = 0; i < messages; ++i)
            works.push_back(job.world().send(const_buffer_of(buffer), 1));
          works.front().wait();  // the driver has come to them
          const auto carried = std::ranges::count_if(works, [](const Work& w) { return w.done(); });
          EXPECT_GT(carried, 0);
          EXPECT_LE(static_cast<std::size_t>(carried) * std::max<std::size_t>(count, 64),
                    std::size_t{1} << 20);
          job.world().barrier().wait();
          for (const Work& work : works) work.wait(Deadline::in(20s));
        } else {
          job.world().barrier().wait();
          std::vector<Work> works;
          for (int i = 0; i < messages; ++i)
            works.push_back(job.world().recv(buffer_of(buffer), 0));
          for (const Work& work : works) work.wait(Deadline::in(20s));
        }
        job.world().barrier().wait();
      });
    }
  }
}

TEST(PointToPoint, TheBudgetComesBackWithEachRecv) {
  std::atomic<bool> sent = false;
  run_ranks(2, [&sent](Job& job) {
    std::vector<std::uint8_t> buffer(60'000, 3);
    for (int i = 0; i < 200; ++i) {
      if (job.rank() == 0) job.world().send(const_buffer_of(buffer), 1).wait(Deadline::in(5s));
      else job.world().recv(buffer_of(buffer), 0).wait(Deadline::in(5s));
    }
    // One more message follows the last answer, so that all have arrived.
    if (job.rank() == 0) {
      job.world().recv(buffer_of(buffer), 1).wait();
      EXPECT_NO_THROW(job.world().send(const_buffer_of(buffer), 1).wait(Deadline::in(5s)))
          << "a short send waits for no recv";
      sent = true;
    } else {
      job.world().send(const_buffer_of(buffer), 0).wait();
      while (!sent) std::this_thread::yield();
      job.world().recv(buffer_of(buffer), 0).wait();
    }
  });
}

TEST(PointToPoint, CountAndTypeMustAgree) {
  struct Sides {
    Dtype sent;
    std::size_t sent_count;
    Dtype received;
    std::size_t received_count;
  };
  for (const auto& options : {kShared, kTcp}) {
    for (const Sides& sides :
         {Sides{Dtype::f32, 10, Dtype::f32, 9}, Sides{Dtype::f32, 10, Dtype::f64, 10},
          Sides{Dtype::u8, 1 << 20, Dtype::u8, 10}, Sides{Dtype::u8, 0, Dtype::u8, 1}}) {
      for (const bool posted_first : {false, true}) {
        run_ranks(3, options, [&](Job& job) {
          std::vector<std::byte> out(1 << 20), in(1 << 20, std::byte{9});
          const auto failure = failure_of([&] {
            if (job.rank() == 0) {
              if (posted_first) job.world().barrier().wait();
              job.world()
                  .send(Buffer{out.data(), sides.sent_count, sides.sent}, 1, {.tag = 6})
                  .wait();
              job.world().barrier().wait();
            } else if (job.rank() == 1) {
              const auto post = [&] {
                return job.world().recv(Buffer{in.data(), sides.received_count, sides.received}, 0,
                                        {.tag = 6});
              };
              Work work;
              if (posted_first) work = post();
              if (posted_first) job.world().barrier().wait();
              else work = post();
              work.wait();
            } else {
              if (posted_first) job.world().barrier().wait();
              job.world().barrier().wait();
            }
          });
          EXPECT_EQ(failure.fault, Fault::mismatch) << failure.what;
          EXPECT_EQ(failure.ranks, (std::vector{0, 1}));
          EXPECT_THAT(
              failure.what,
              HasSubstr(fmt::format("rank 0 sent {}[{}] with tag 6 where rank 1 receives {}[{}]",
                                    name_of(sides.sent), sides.sent_count, name_of(sides.received),
                                    sides.received_count)));
          EXPECT_EQ(in, std::vector(in.size(), std::byte{9}));
        });
      }
    }
  }
}

TEST(PointToPoint, WhatWasSentArrivesAfterItsSenderHasLeft) {
  for (const auto& options : {kShared, kTcp}) {
    SCOPED_TRACE(label(options));
    std::atomic<bool> left = false;
    std::vector<Job> jobs = make_local_world(2, options);
    std::vector<std::uint8_t> out(5000, 8);
    constexpr int kMessages = 100;
    {
      Job sender = std::move(jobs[0]);
      for (int i = 0; i < kMessages; ++i) sender.world().send(const_buffer_of(out), 1).wait();
    }
    for (int i = 0; i < kMessages; ++i) {
      std::vector<std::uint8_t> in(5000);
      jobs[1].world().recv(buffer_of(in), 0).wait(Deadline::in(5s));
      ASSERT_EQ(in, out);
    }
    const auto failure =
        failure_of([&] { jobs[1].world().recv(buffer_of(out), 0).wait(Deadline::in(5s)); });
    EXPECT_EQ(failure.fault, Fault::peer_lost) << failure.what;
    EXPECT_EQ(failure.ranks, std::vector{0});
    EXPECT_THAT(failure.what, HasSubstr("rank 0 has left the job"));
    EXPECT_THAT(failure.what, HasSubstr("recv u8[5000] from rank 0, tag 0"));
  }
}

TEST(PointToPoint, SendingToWhoHasLeftFails) {
  for (const std::size_t count : {std::size_t{10}, kCarried}) {
    std::vector<Job> jobs = make_local_world(2, kShared);
    jobs.erase(jobs.begin());
    std::vector<std::uint8_t> out(count);
    const auto failure = failure_of([&] {
      // The goodbye may still be on its way: then a short send is done, and a later one fails.
      const Deadline deadline = Deadline::in(5s);
      while (!deadline.passed())
        jobs[0].world().send(const_buffer_of(out), 0).wait(Deadline::in(5s));
    });
    EXPECT_EQ(failure.fault, Fault::peer_lost) << failure.what;
    EXPECT_EQ(failure.ranks, std::vector{0});
  }
}

TEST(PointToPoint, DeadlinesNameTheOtherSide) {
  for (const auto& options : {kShared, kTcp}) {
    for (const bool sends : {false, true}) {
      std::atomic<bool> failed = false;
      run_ranks(2, options, [&](Job& job) {
        if (job.rank() == 1) {
          while (!failed) std::this_thread::yield();
          return;
        }
        std::vector<std::uint8_t> buffer(kCarried);
        const auto failure = failure_of([&] {
          if (sends)
            job.world()
                .send(const_buffer_of(buffer), 1, {.tag = 3, .within = 50ms})
                .wait(Deadline::in(5s));
          else
            job.world()
                .recv(buffer_of(buffer), 1, {.tag = 3, .within = 50ms})
                .wait(Deadline::in(5s));
        });
        failed = true;
        EXPECT_EQ(failure.fault, Fault::timed_out) << failure.what;
        EXPECT_EQ(failure.ranks, std::vector{1});
        EXPECT_THAT(failure.what, HasSubstr(fmt::format("{} u8[65536]", sends ? "send" : "recv")));
        EXPECT_THAT(failure.what, HasSubstr("rank 1, tag 3"));
      });
    }
  }
}

TEST(PointToPoint, TheDeadlineNamesTheTransferThatIsLate) {
  for (const auto& options : {kShared, kTcp}) {
    std::atomic<bool> failed = false;
    run_ranks(2, options, [&](Job& job) {
      if (job.rank() == 1) {
        while (!failed) std::this_thread::yield();
        return;
      }
      std::vector<std::uint8_t> first(10), late(20);
      const auto failure = failure_of([&] {
        const Work other = job.world().recv(buffer_of(first), 1, {.tag = 1, .within = 60s});
        job.world().recv(buffer_of(late), 1, {.tag = 2, .within = 50ms}).wait(Deadline::in(5s));
        other.wait(Deadline::in(5s));
      });
      failed = true;
      EXPECT_THAT(failure.what, HasSubstr("recv u8[20] from rank 1, tag 2"));
      EXPECT_THAT(failure.what, ::testing::Not(HasSubstr("u8[10]")));
    });
  }
}

TEST(PointToPoint, FromAnyRankTakesEveryMessageOnceAndTellsWhose) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(4, options, [](Job& job) {
      constexpr int kEach = 30;
      for (const std::size_t count : {std::size_t{1}, kCarried}) {
        job.world().barrier().wait();
        std::vector<std::int64_t> buffer(count / 8 + 1);
        if (job.rank() != 0) {
          for (int i = 0; i < kEach; ++i) {
            buffer[0] = i;
            job.world().send(const_buffer_of(buffer), 0, {.tag = 7}).wait();
          }
          continue;
        }
        std::vector<int> next(4);
        for (int i = 0; i < 3 * kEach; ++i) {
          const Work work = job.world().recv(buffer_of(buffer), kAnyRank, {.tag = 7});
          work.wait();
          ASSERT_GT(work.source(), 0);
          EXPECT_EQ(buffer[0], next[static_cast<std::size_t>(work.source())]++)
              << "those of one rank come in order";
        }
        EXPECT_EQ(next, (std::vector{0, kEach, kEach, kEach}));
      }
      job.world().barrier().wait();
    });
  }
}

TEST(PointToPoint, AMessageGoesToTheRecvThatWasPostedFirst) {
  for (const bool any_first : {false, true}) {
    run_ranks(2, [any_first](Job& job) {
      std::vector<float> first(1), second(1);
      if (job.rank() == 0) {
        const Work a = job.world().recv(buffer_of(first), any_first ? kAnyRank : 1);
        const Work b = job.world().recv(buffer_of(second), any_first ? 1 : kAnyRank);
        const Work other_tag = job.world().recv(buffer_of(second), kAnyRank, {.tag = 9});
        job.world().barrier().wait();
        a.wait();
        EXPECT_FALSE(b.done());
        EXPECT_EQ(first[0], 1);
        EXPECT_EQ(a.source(), 1);
        job.world().barrier().wait();
        b.wait();
        EXPECT_EQ(second[0], 2);
        job.world().barrier().wait();
        other_tag.wait();
        EXPECT_EQ(second[0], 3);
        return;
      }
      for (const int i : {1, 2, 3}) {
        job.world().barrier().wait();
        const std::vector<float> value(1, static_cast<float>(i));
        job.world().send(const_buffer_of(value), 0, {.tag = i == 3 ? 9U : 0U}).wait();
      }
    });
  }
}

// Two ranks send to each other while they receive, in orders that follow from a seed: long messages
// are told of before and after their recvs, and recvs from any rank stand between the others.
TEST(PointToPoint, WhateverTheOrderOfSendsAndRecvsEachMessageReachesItsRecv) {
  constexpr int kTags = 3, kMessages = 6;
  const int rounds = test::is_brief() ? 3 : 40;
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(2, options, [&](Job& job) {
      const int own = job.rank(), peer = 1 - own;
      for (int round = 0; round < rounds; ++round) {
        const std::uint64_t seed = test::seed(2560000 + static_cast<std::uint64_t>(round));
        const auto length = [&](int sender, int tag, int message) {
          const std::uint64_t drawn =
              mix(seed, static_cast<std::uint64_t>((sender * kTags + tag) * kMessages + message));
          return drawn % 2 == 0 ? drawn % 1000 : kCarried + drawn % (3 << 19);
        };
        struct Lane {
          bool sends = false;
          int tag = 0, done = 0;
        };
        std::vector<Lane> lanes;
        for (int tag = 0; tag < kTags; ++tag)
          lanes.insert(lanes.end(), {{true, tag}, {false, tag}});
        SeededNumbers numbers(mix(seed, 1000 + static_cast<std::uint64_t>(own)));
        std::vector<std::vector<std::uint8_t>> sent, got, expected;
        for (auto* const all : {&sent, &got, &expected}) all->reserve(kTags * kMessages);
        std::vector<Work> works;
        while (!lanes.empty()) {
          const auto lane =
              lanes.begin() + static_cast<std::ptrdiff_t>(numbers.below(lanes.size()));
          const std::size_t count = length(lane->sends ? own : peer, lane->tag, lane->done);
          const auto fill = static_cast<std::uint8_t>(1 + lane->tag * kMessages + lane->done);
          const auto tag = static_cast<std::uint32_t>(lane->tag);
          if (lane->sends) {
            sent.emplace_back(count, fill);
            works.push_back(job.world().send(const_buffer_of(sent.back()), peer, {.tag = tag}));
          } else {
            got.emplace_back(count);
            expected.emplace_back(count, fill);
            works.push_back(job.world().recv(
                buffer_of(got.back()), numbers.below(4) == 0 ? kAnyRank : peer, {.tag = tag}));
          }
          if (++lane->done == kMessages) lanes.erase(lane);
          if (numbers.below(3) == 0) std::this_thread::yield();
        }
        for (const Work& work : works) work.wait();
        ASSERT_EQ(got, expected) << "round " << round;
      }
    });
  }
}

TEST(PointToPoint, FromAnyRankEndsWhenNobodyIsLeft) {
  run_ranks(3, [](Job& job) {
    if (job.rank() != 0) return;
    std::vector<float> values(4);
    const auto failure =
        failure_of([&] { job.world().recv(buffer_of(values), kAnyRank).wait(Deadline::in(10s)); });
    EXPECT_EQ(failure.fault, Fault::peer_lost) << failure.what;
    EXPECT_THAT(failure.what, HasSubstr("all other ranks have left the job while rank 0 waits in "
                                        "recv f32[4] from any rank, tag 0"));
  });
}

TEST(PointToPoint, RefusesWhatMakesNoSense) {
  run_ranks(2, [](Job& job) {
    std::vector<float> values(4);
    EXPECT_EQ(failure_of([&] { job.world().send(const_buffer_of(values), 2).wait(); }).fault,
              Fault::misuse);
    EXPECT_EQ(failure_of([&] { job.world().recv(buffer_of(values), -2).wait(); }).fault,
              Fault::misuse);
    job.world().barrier().wait();  // and the group lives on
  });
}

}  // namespace
}  // namespace paceline::collective::testing
