// Sums on servers, as threads, beside the all_reduce of the same arrays.
// Also covers paceline/core/server/regions/link_regions.cpp.
#include "paceline/core/schedule/path/push_pull.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "paceline/core/base/seed.h"
#include "paceline/core/job/job_links.h"
#include "paceline/core/membership/generation/generation_frames.h"
#include "paceline/core/server/server.h"
#include "paceline/core/server/table/table_numbers.h"
#include "tests/support/local_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::schedule {
namespace {

using testing::HasSubstr;

void push_and_pull(int workers, int servers, const std::function<void(Job&, PushPull&)>& work,
                   LocalWorldOptions options = {}) {
  options.servers = servers;
  test::run_ranks(workers, options, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    PushPull on_servers(job);
    work(job, on_servers);
  });
}

template <typename T>
std::vector<T> drawn_array(std::uint64_t seed, int rank, std::size_t count) {
  SeededNumbers numbers(mix(seed, static_cast<std::uint64_t>(rank)));
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(1000 * (numbers.unit() - 0.5));
  return values;
}

template <typename T>
void expect_bits_of_all_reduce(Job& job, PushPull& servers, std::size_t count, ReduceOp op) {
  const std::uint64_t seed = test::seed(2980000) + count;
  std::vector<T> pushed = drawn_array<T>(seed, job.rank(), count), summed = pushed,
                 elsewhere(count);
  job.world().all_reduce(buffer_of(summed), {.op = op}).wait();
  servers.all_reduce(const_buffer_of(pushed), buffer_of(elsewhere), op).wait();
  servers.all_reduce(buffer_of(pushed), op).wait();
  EXPECT_TRUE(pushed == summed) << count << " of " << name_of(dtype_of<T>());
  EXPECT_TRUE(elsewhere == summed);
}

// They are rounded once, however many workers there are.
void expect_bits_of_all_reduce_of_halves(Job& job, PushPull& servers, std::size_t count) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    std::vector<std::uint16_t> pushed(count);
    for (std::size_t i = 0; i < count; ++i)  // numbers of about 1, in both types
      pushed[i] = static_cast<std::uint16_t>(
          0x3c00 + (i * 37 + 91 * static_cast<std::size_t>(job.rank())) % 1000);
    std::vector<std::uint16_t> summed = pushed;
    const auto halves = [&](std::vector<std::uint16_t>& values) {
      return Buffer{std::as_writable_bytes(std::span(values)).data(), count, dtype};
    };
    job.world().all_reduce(halves(summed), {.op = ReduceOp::average}).wait();
    servers.all_reduce(halves(pushed), ReduceOp::average).wait();
    EXPECT_TRUE(pushed == summed) << name_of(dtype);
  }
}

std::string told_failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return fmt::format("{}: {}", name_of(error.fault()), error.what());
  }
  return "none";
}

TEST(PushPull, SumsHaveTheBitsOfAllReduceForAnyNumberOfWorkersAndServers) {
  for (const bool share_memory : {true, false}) {
    for (const int workers : {1, 2, 3, 5, 8}) {
      if (test::is_brief() && (share_memory ? workers != 2 && workers != 8 : workers != 3))
        continue;
      for (const int servers : {1, 2, 4}) {
        if (test::is_brief() && servers != (workers == 8 ? 4 : workers - 1)) continue;
        push_and_pull(workers, servers,
                      [](Job& job, PushPull& sums) {
                        for (const std::size_t count : {std::size_t{0}, std::size_t{1},
                                                        std::size_t{1000}, std::size_t{70'001}}) {
                          expect_bits_of_all_reduce<float>(job, sums, count, ReduceOp::average);
                          expect_bits_of_all_reduce<double>(job, sums, count, ReduceOp::sum);
                        }
                        expect_bits_of_all_reduce<std::int64_t>(job, sums, 77, ReduceOp::max);
                        expect_bits_of_all_reduce_of_halves(job, sums, 3001);
                      },
                      {.share_memory = share_memory});
      }
    }
  }
}

TEST(PushPull, LongArraysTravelInManyPartsAndManyCallsAtATime) {
  push_and_pull(3, 2, [](Job& job, PushPull& sums) {
    expect_bits_of_all_reduce<float>(job, sums, (std::size_t{1} << 20) + 3, ReduceOp::average);
    std::vector<std::vector<float>> many(100, std::vector<float>(5000));
    std::vector<Work> works;
    for (std::size_t i = 0; i < many.size(); ++i) {
      many[i].assign(many[i].size(), static_cast<float>(i) + static_cast<float>(job.rank()));
      works.push_back(sums.all_reduce(buffer_of(many[i]), ReduceOp::sum));
    }
    for (std::size_t i = 0; i < many.size(); ++i) {
      works[i].wait();
      EXPECT_THAT(many[i], testing::Each(static_cast<float>(3 * i + 3)));
    }
    EXPECT_GT(sums.seconds_in_flight(), 0);
  });
}

// Arrays at any place of memory that the servers of the host see, so that pages at their edges are
// not lent.
TEST(PushPull, ArraysInSharedMemoryHaveTheSameBitsAndTouchNothingAround) {
  push_and_pull(3, 2, [](Job& job, PushPull& sums) {
    const Allocation memory = job.allocate(std::size_t{3} << 20);
    float* const all = reinterpret_cast<float*>(memory.data());
    const std::size_t room = memory.size() / sizeof(float);
    for (const std::size_t offset : {std::size_t{0}, std::size_t{1}, std::size_t{1030}}) {
      for (const std::size_t count : {std::size_t{3000}, std::size_t{300'001}}) {
        std::fill_n(all, room, 7.0f);
        const std::vector<float> pushed =
            drawn_array<float>(test::seed(2981000) + count, job.rank(), count);
        std::ranges::copy(pushed, all + offset);
        std::vector<float> summed = pushed;
        job.world().all_reduce(buffer_of(summed), {.op = ReduceOp::average}).wait();
        sums.all_reduce(buffer_of(std::span(all + offset, count)), ReduceOp::average).wait();
        EXPECT_TRUE(std::ranges::equal(std::span(all + offset, count), summed));
        EXPECT_THAT(std::span(all, offset), testing::Each(7.0f));
        EXPECT_EQ(all[offset + count], 7.0f);
      }
    }
  });
}

TEST(PushPull, ACallOnSharedMemoryThatFailsEndsTheOthersCallsToo) {
  std::latch failed(1);
  const LocalWorldOptions options = {.servers = 1, .operation_timeout = std::chrono::seconds(1)};
  test::run_ranks(2, options, [&failed](Job& job) {
    const auto told = told_failure_of([&] {
      if (job.role() == Role::server) return serve(job);
      PushPull sums(job);
      const Allocation memory = job.allocate(8192);
      if (job.rank() == 1) failed.wait();
      sums.all_reduce(Buffer{memory.data(), 2048, Dtype::f32}, ReduceOp::sum).wait();
    });
    EXPECT_THAT(told, HasSubstr("deadline: rank 0 waits in push_pull of 2048 f32 for sum for rank "
                                "1, which has not pushed all of it; look at what rank 1 does."))
        << "nobody gets a sum of what its owner uses for something else";
    if (job.role() == Role::worker && job.rank() == 0) failed.count_down();
  });
}

TEST(PushPull, EachObjectHasAnOrderOfItsOwn) {
  push_and_pull(2, 2, [](Job& job, PushPull& first) {
    PushPull second(job);
    std::vector<float> one(10, 1), two(20, 2);
    Work works[2];
    for (const int which : {job.rank(), 1 - job.rank()})
      works[which] = which == 0 ? first.all_reduce(buffer_of(one), ReduceOp::sum)
                                : second.all_reduce(buffer_of(two), ReduceOp::sum);
    for (const Work& work : works) work.wait();
    EXPECT_THAT(one, testing::Each(2.0f));
    EXPECT_THAT(two, testing::Each(4.0f));
  });
}

// Each worker begins them in an order of its own.
TEST(PushPull, AHundredObjectsHaveTheirSumsUnderWayAtATime) {
  push_and_pull(2, 1, [](Job& job, PushPull&) {
    constexpr std::size_t kObjects = 100;
    std::vector<std::unique_ptr<PushPull>> objects;
    std::vector<std::vector<float>> values(kObjects);
    std::vector<Work> works(kObjects);
    for (std::size_t i = 0; i < kObjects; ++i) {
      objects.push_back(std::make_unique<PushPull>(job));
      values[i].assign(10, static_cast<float>(i));
    }
    for (std::size_t turn = 0; turn < kObjects; ++turn) {
      const std::size_t which = job.rank() == 0 ? turn : kObjects - 1 - turn;
      works[which] = objects[which]->all_reduce(buffer_of(values[which]), ReduceOp::sum);
    }
    for (std::size_t i = 0; i < kObjects; ++i) {
      works[i].wait();
      EXPECT_THAT(values[i], testing::Each(static_cast<float>(2 * i)));
    }
  });
}

TEST(PushPull, WorkersThatDifferAreNamedWithBothSidesAndFailAllCalls) {
  push_and_pull(2, 2, [](Job& job, PushPull& sums) {
    std::vector<float> values(job.rank() == 0 ? 10 : 11);
    const std::string told =
        told_failure_of([&] { sums.all_reduce(buffer_of(values), ReduceOp::sum).wait(); });
    EXPECT_THAT(told, HasSubstr("mismatch: the workers differ in call 1 of push_pull: rank "));
    EXPECT_THAT(told, HasSubstr("rank 0 has 10 f32 for sum"));
    EXPECT_THAT(told, HasSubstr("rank 1 has 11 f32 for sum"));
    EXPECT_EQ(told_failure_of([&] { sums.all_reduce(buffer_of(values), ReduceOp::sum).wait(); }),
              told);
    job.world().barrier().wait();
  });
}

// A message that no worker sends stands for a worker of a wrong build.
TEST(PushPull, AWorkerThatAServerHearsNoMoreIsToldWhy) {
  push_and_pull(1, 1, [](Job& job, PushPull& sums) {
    const job::JobLinks links = job::links_of(job);
    links.reactor->run([&links] {
      links.generation->link(1)->send({.type = membership::frame::kMachine,
                                       .sequence = 1,
                                       .index = 1,
                                       .group = server::kSumGroup},
                                      std::vector<std::byte>(5));
    });
    std::vector<float> values(10);
    EXPECT_EQ(
        told_failure_of([&] { sums.all_reduce(buffer_of(values), ReduceOp::sum).wait(); }),
        "peer lost: push_pull f32[10] sum: server 0 hears this rank no more: a malformed part of "
        "a push_pull: a bug, please report it");
  });
}

TEST(PushPull, AWorkerThatHasLeftIsNamedToThoseThatCall) {
  push_and_pull(2, 1, [](Job& job, PushPull& sums) {
    if (job.rank() == 1) return;
    std::vector<float> values(10);
    EXPECT_THAT(told_failure_of([&] { sums.all_reduce(buffer_of(values), ReduceOp::sum).wait(); }),
                HasSubstr("rank 1 has left the job and rank 0 calls push_pull of 10 f32 for sum"));
  });
}

TEST(PushPull, ACallThatAWorkerLeavesOutFailsAfterTheOperationTimeout) {
  std::latch told(1);
  const LocalWorldOptions options = {.servers = 1, .operation_timeout = std::chrono::seconds(1)};
  test::run_ranks(2, options, [&told](Job& job) {
    const std::string failure = told_failure_of([&] {
      if (job.role() == Role::server) return serve(job);
      PushPull sums(job);
      if (job.rank() == 1) return told.wait();
      std::vector<float> values(10);
      sums.all_reduce(buffer_of(values), ReduceOp::sum).wait();
    });
    if (job.rank() == 1) return;
    EXPECT_THAT(failure, HasSubstr("deadline: rank 0 waits in push_pull of 10 f32 for sum for rank "
                                   "1, which has not pushed all of it; look at what rank 1 does."))
        << "the server ends with it too";
    if (job.rank() == 0) told.count_down();
  });
}

TEST(PushPull, CallsUnderWayFailWithTheirObject) {
  push_and_pull(2, 1, [](Job& job, PushPull&) {
    std::vector<float> values(10);
    Work work;
    {
      PushPull own(job);
      if (job.rank() == 0) work = own.all_reduce(buffer_of(values), ReduceOp::sum);
    }
    if (job.rank() == 0) {
      EXPECT_THAT(told_failure_of([&] { work.wait(); }), HasSubstr("its caller has ended"));
    }
    job.world().barrier().wait();
  });
}

TEST(PushPull, WhatServersCannotDoIsMisuse) {
  push_and_pull(1, 1, [](Job&, PushPull& sums) {
    std::vector<float> values(10);
    EXPECT_THAT(told_failure_of([&] { (void)sums.all_reduce(buffer_of(values), ReduceOp::band); }),
                HasSubstr("there is no band of f32"));
    EXPECT_THAT(told_failure_of([&] {
                  (void)sums.all_reduce(buffer_of(values), buffer_of(std::span(values).first(9)),
                                        ReduceOp::sum);
                }),
                HasSubstr("the input has 10 elements of f32, the output 9"));
  });
  test::run_ranks(1, [](Job& job) {
    EXPECT_THAT(told_failure_of([&] { PushPull sums(job); }),
                HasSubstr("paceline run --servers N"));
  });
}

}  // namespace
}  // namespace paceline::schedule
