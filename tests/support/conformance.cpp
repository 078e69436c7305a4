#include "tests/support/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "paceline/core/job/job.h"
#include "tests/support/reference.h"

namespace paceline::test {
namespace {

using namespace std::chrono_literals;

void claim(bool holds, std::string_view what) {
  if (!holds) throw Broken(std::string(what));
}

template <typename Function>
Failure failure_of(const Function& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.failure();
  }
  throw Broken("a failure was expected, and none came");
}

void expect_failure(const Failure& failure, Fault fault, std::span<const std::string> texts) {
  claim(failure.fault == fault, fmt::format("{} was expected, {} came: {}", name_of(fault),
                                            name_of(failure.fault), failure.what));
  for (const std::string& text : texts)
    claim(failure.what.find(text) != std::string::npos,
          fmt::format("'{}' does not stand in: {}", text, failure.what));
}

std::vector<float> filled(std::size_t count, int rank) {
  return std::vector<float>(count, static_cast<float>(rank + 1));
}

bool all_are(const std::vector<float>& values, float wanted) {
  return std::ranges::all_of(values, [wanted](float value) { return value == wanted; });
}

float sum_to(int ranks) {
  return static_cast<float>(ranks * (ranks + 1)) / 2;
}

void the_choice_is_the_reference(Job& job, Communicator& group) {
  is_the_reference(job, group, chosen_ways(), 1);
}

void every_algorithm_is_the_reference(Job& job, Communicator& group) {
  is_the_reference(job, group, ways_of_the_catalogue(group.size()), 1);
}

void long_buffers_are_summed(Job& job, Communicator& group) {
  const std::size_t count = (std::size_t{3} << 18) + 1;
  const Allocation memory = job.allocate(count * sizeof(float));
  const std::span shared(reinterpret_cast<float*>(memory.data()), count);
  auto ordinary = filled(count, group.rank());
  std::ranges::copy(ordinary, shared.begin());
  group.all_reduce(buffer_of(shared)).wait();
  group.all_reduce(buffer_of(ordinary)).wait();
  claim(all_are(ordinary, sum_to(group.size())), "a sum of 3 MiB is wrong");
  claim(std::ranges::equal(shared, ordinary), "a sum of 3 MiB of allocated memory is wrong");
}

void parts_of_a_group_work_side_by_side(Job& job, Communicator& group) {
  const auto half = group.split(group.rank() % 2, -group.rank());
  is_the_reference(job, *half, chosen_ways(), 1);
  auto in_half = filled(1000, half->rank()), in_all = filled(1000, group.rank());
  const Work one = half->all_reduce(buffer_of(in_half));
  const Work other = group.all_reduce(buffer_of(in_all));
  other.wait();
  one.wait();
  claim(all_are(in_half, sum_to(half->size())), "the sum of half of the ranks is wrong");
  claim(all_are(in_all, sum_to(group.size())), "the sum beside that of a half is wrong");
  const std::array ends{group.size() - 1, 0};
  if (const auto pair = group.subgroup(ends)) {
    auto values = filled(10, pair->rank());
    pair->broadcast(buffer_of(values), 0).wait();
    claim(all_are(values, 1) && pair->world_rank(0) == group.world_rank(ends[0]),
          "the first rank of a subgroup is not the first one named");
  }
  group.barrier().wait();
}

void many_are_in_flight(Job&, Communicator& group) {
  constexpr int kWorks = 50;
  std::vector<std::vector<float>> buffers;
  std::vector<Work> works;
  for (int i = 0; i < kWorks; ++i)
    buffers.push_back(filled(static_cast<std::size_t>(i * 37), group.rank()));
  for (int i = 0; i < kWorks; ++i) {
    auto& buffer = buffers[static_cast<std::size_t>(i)];
    if (i % 3 == 0) works.push_back(group.broadcast(buffer_of(buffer), i % group.size()));
    else works.push_back(group.all_reduce(buffer_of(buffer), {.op = ReduceOp::max}));
  }
  for (int i = kWorks - 1; i >= 0; --i) {
    works[static_cast<std::size_t>(i)].wait();
    const int wanted = i % 3 == 0 ? i % group.size() + 1 : group.size();
    claim(all_are(buffers[static_cast<std::size_t>(i)], static_cast<float>(wanted)),
          fmt::format("operation {} of {} in flight is wrong", i, kWorks));
  }
}

void weights_and_notes_travel(Job&, Communicator& group) {
  auto values = filled(100, group.rank());
  const std::byte note{static_cast<unsigned char>(group.rank())};
  const Work work = group.all_reduce(
      buffer_of(values),
      {.op = ReduceOp::average, .weight = group.rank() + 1.0, .note = Bytes(&note, 1)});
  work.wait();
  double squares = 0;
  for (int rank = 1; rank <= group.size(); ++rank) squares += rank * rank;
  claim(work.total_weight() == static_cast<double>(sum_to(group.size())),
        "the weights' sum is wrong");
  const auto wanted = static_cast<float>(squares / work.total_weight());
  claim(std::ranges::all_of(values, [=](float v) { return std::abs(v - wanted) < 1e-5F; }),
        "a weighted average is wrong");
  claim(work.note(group.size() - 1)[0] == std::byte(group.size() - 1), "a note is wrong");
}

void messages_go_between_two(Job&, Communicator& group) {
  const int last = group.size() - 1;
  auto values = filled(100'000, group.rank());
  if (group.rank() == 0) group.send(const_buffer_of(values), last, {.tag = 7}).wait();
  if (group.rank() == last) {
    group.recv(buffer_of(values), kAnyRank, {.tag = 7}).wait();
    claim(all_are(values, 1), "a message is wrong");
  }
}

void misuse_is_refused_and_changes_nothing(Job&, Communicator& group) {
  auto values = filled(10, group.rank());
  const Failure failure =
      failure_of([&] { (void)group.all_reduce(buffer_of(values), {.op = ReduceOp::bxor}); });
  claim(failure.fault == Fault::misuse, failure.what);
  group.all_reduce(buffer_of(values)).wait();
  claim(all_are(values, sum_to(group.size())), "the sum after a misuse is wrong");
}

// The last thing before a group fails, in two halves: when a rank has the second behind it, all
// have come to it, so that none hears of the failure where it does not expect it.
class LastBarrier {
 public:
  explicit LastBarrier(Communicator& group) : group_(group) { group_.barrier().wait(); }
  void pass() { group_.barrier().wait(); }

 private:
  Communicator& group_;
};

void a_mismatch_is_named_and_touches_no_output(Job&, Communicator& group) {
  LastBarrier barrier(group);
  const int odd = group.size() - 1;
  const auto in = filled(3000, group.rank());
  std::vector<float> out(3000, -1);
  const Failure failure = failure_of([&] {
    barrier.pass();
    const ReduceOp op = group.rank() == odd ? ReduceOp::max : ReduceOp::sum;
    group.all_reduce(const_buffer_of(in), buffer_of(out), {.op = op}).wait();
  });
  expect_failure(failure, Fault::mismatch,
                 std::array<std::string, 3>{"all_reduce f32[3000] sum", "all_reduce f32[3000] max",
                                            "operation 3 of group"});
  claim(std::ranges::count(failure.ranks, group.world_rank(odd)) == 1, "another rank is named");
  claim(all_are(out, -1), "an output was touched");
}

void a_rank_that_leaves_is_named(Job&, Communicator& group) {
  auto values = filled(2000, group.rank());
  LastBarrier barrier(group);
  if (group.rank() == group.size() - 1) return barrier.pass();  // and ends its job
  const Failure failure = failure_of([&] {
    barrier.pass();
    group.all_reduce(buffer_of(values)).wait();
  });
  expect_failure(
      failure, Fault::peer_lost,
      std::array<std::string, 2>{fmt::format("rank {} has left the job", group.size() - 1),
                                 "all_reduce f32[2000] sum"});
}

void a_deadline_names_who_has_not_called(Job&, Communicator& group) {
  auto values = filled(2000, group.rank());
  LastBarrier barrier(group);
  const int late = group.size() - 1;
  // The late rank calls nothing until the others' verdict has come.
  const Failure failure = failure_of([&] {
    barrier.pass();
    if (group.rank() == late) group.recv(buffer_of(values), 0, {.tag = 1}).wait();
    else group.all_reduce(buffer_of(values), {.within = 300ms}).wait();
  });
  expect_failure(failure, Fault::timed_out,
                 std::array<std::string, 2>{fmt::format("rank {}", late), "has not called it"});
  claim(group.rank() == late || all_are(values, static_cast<float>(group.rank() + 1)),
        "a buffer was touched");
}

constexpr Claim kClaims[] = {
    {"TheChoiceIsTheReference", the_choice_is_the_reference},
    {"EveryAlgorithmIsTheReference", every_algorithm_is_the_reference},
    {"LongBuffersAreSummed", long_buffers_are_summed},
    {"PartsOfAGroupWorkSideBySide", parts_of_a_group_work_side_by_side},
    {"ManyAreInFlight", many_are_in_flight},
    {"WeightsAndNotesTravel", weights_and_notes_travel},
    {"MessagesGoBetweenTwo", messages_go_between_two},
    {"MisuseIsRefusedAndChangesNothing", misuse_is_refused_and_changes_nothing},
    {"AMismatchIsNamedAndTouchesNoOutput", a_mismatch_is_named_and_touches_no_output, true},
    {"ARankThatLeavesIsNamed", a_rank_that_leaves_is_named, true},
    {"ADeadlineNamesWhoHasNotCalled", a_deadline_names_who_has_not_called, true},
};

}  // namespace

std::span<const Claim> conformance() {
  return kClaims;
}

}  // namespace paceline::test
