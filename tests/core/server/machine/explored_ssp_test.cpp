// Every interleaving of three workers under ssp: a model checker, whose server is the real one.
//
// A worker is in a state (its clock, whether it computes, how many of its pushes the server has,
// the clock of the row that it keeps). What the server has follows from the pushes that it has: for
// each set of them a real range is fed with them, and its rows are looked at.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tests/core/server/machine/virtual_table.h"

namespace paceline::test {
namespace {

using server::Packet;
using server::PacketKind;

constexpr int kExploredWorkers = 3;
using Received = std::array<int, kExploredWorkers>;  // pushes, by worker

struct Row {
  std::int64_t clock = 0;
  std::vector<double> marks;
};

// A range of marks: element worker * clocks + t is the worker's update t.
class ExploredRange {
 public:
  ExploredRange(std::int64_t staleness, bool on_arrival, int clocks)
      : clocks_(clocks),
        shape_(server::shape_of(
                   {.name = "explored",
                    .elements = static_cast<std::size_t>(kExploredWorkers * clocks),
                    .dtype = Dtype::f64,
                    .synchrony = "ssp:update=worker,staleness=" + std::to_string(staleness) +
                                 (on_arrival ? ",best_effort=on" : ""),
                    .rule = "add"},
                   {{0, 1, 2}, {3}})
                   .value()) {}

  const server::TableShape& shape() const { return shape_; }

  // The range with these pushes. It is the same whatever came last.
  const server::RangeMachine& with(const Received& pushes) {
    const auto known = ranges_.find(pushes);
    if (known != ranges_.end()) return known->second;
    std::optional<server::RangeMachine> range;
    for (int last = 0; last < kExploredWorkers; ++last) {
      Received before = pushes;
      if (--before[static_cast<std::size_t>(last)] < 0 || !is_possible(before)) continue;
      server::RangeMachine one = with(before);
      feed(one, last, pushes[static_cast<std::size_t>(last)]);
      if (range) {
        EXPECT_EQ(values(*range), values(one)) << "the order of arrival makes no difference";
      }
      range = one;
    }
    if (!range) {
      range.emplace(shape_, 0, 1);
      std::ignore = range->on_packet(0,
                                     {.kind = PacketKind::assign,
                                      .sequence = shape_.fingerprint(),
                                      .count = shape_.spec.elements,
                                      .elements = std::vector<std::byte>(shape_.spec.elements * 8)},
                                     {});
    }
    return ranges_.emplace(pushes, *range).first->second;
  }

  // The row that a worker at this clock gets at once; nothing: it waits.
  std::optional<Row> row(const Received& pushes, int worker, std::int64_t clock) {
    server::RangeMachine range = with(pushes);
    const auto actions = range.on_packet(
        worker, {.kind = PacketKind::pull, .flags = 1, .clock = shape_.pacing.least_clock(clock)},
        {});
    for (const machine::Action& action : actions) {
      const auto* const send = std::get_if<machine::Send>(&action);
      if (send == nullptr) continue;
      const Packet packet = server::parse_packet(send->message, {1, 8}).value();
      if (packet.kind == PacketKind::row && send->to == worker)
        return Row{packet.clock, doubles_of_bytes(packet.elements, Dtype::f64)};
    }
    return {};
  }
  // How many of a worker's updates, from its first on, are in a row; -1 if they have gaps.
  int seen(const Row& row, int worker) const {
    const auto first = row.marks.begin() + worker * clocks_, last = first + clocks_;
    const auto count = static_cast<int>(std::count(first, last, 1.0));
    return std::all_of(first, first + count, [](double one) { return one == 1; }) &&
                   std::all_of(first + count, last, [](double one) { return one == 0; })
               ? count
               : -1;
  }

 private:
  bool is_possible(const Received& pushes) const {
    const auto [least, most] = std::ranges::minmax(pushes);
    return most - least <= shape_.pacing.lead + 1;
  }
  static std::vector<double> values(const server::RangeMachine& range) {
    return doubles_of_bytes(range.value().view(server::kAnyLead).values, Dtype::f64);
  }
  void feed(server::RangeMachine& range, int worker, int number) const {
    std::vector<double> marks(shape_.spec.elements);
    marks[static_cast<std::size_t>(worker * clocks_ + number - 1)] = 1;
    std::ignore = range.on_packet(worker,
                                  {.kind = PacketKind::push,
                                   .sequence = static_cast<std::uint64_t>(number),
                                   .clock = number - 1,
                                   .count = marks.size(),
                                   .elements = bytes_of_doubles(marks, Dtype::f64)},
                                  {});
  }

  const int clocks_;
  const server::TableShape shape_;
  std::map<Received, server::RangeMachine> ranges_;
};

struct ExploredWorker {
  int clock = 0;
  bool computes = false;
  int received = 0;
  int row_clock = -1;
  auto operator<=>(const ExploredWorker&) const = default;
};
using ExploredState = std::array<ExploredWorker, kExploredWorkers>;  // sorted: workers are alike

class Explorer {
 public:
  Explorer(std::int64_t staleness, bool on_arrival, int clocks)
      : range_(staleness, on_arrival, clocks),
        staleness_(static_cast<int>(staleness)),
        clocks_(clocks) {}

  void explore() {
    std::vector<ExploredState> todo = {ExploredState{}};
    seen_.insert(todo.back());
    while (!todo.empty()) {
      const ExploredState state = todo.back();
      todo.pop_back();
      check(state);
      for (ExploredState next : moves(state)) {
        std::ranges::sort(next);
        if (seen_.insert(next).second) todo.push_back(next);
      }
    }
  }

  std::size_t states() const { return seen_.size(); }
  int newest = INT32_MIN, apart = 0, waits = 0;

 private:
  static Received received_of(const ExploredState& state) {
    return {state[0].received, state[1].received, state[2].received};
  }

  std::vector<ExploredState> moves(const ExploredState& state) {
    std::vector<ExploredState> all;
    for (std::size_t i = 0; i < state.size(); ++i) {
      const ExploredWorker& own = state[i];
      const auto becomes = [&](ExploredWorker next) {
        all.push_back(state);
        all.back()[i] = next;
      };
      if (own.received < own.clock)  // a push arrives
        becomes({own.clock, own.computes, own.received + 1, own.row_clock});
      if (own.computes) {
        becomes({own.clock + 1, false, own.received, own.row_clock});
      } else if (own.clock < clocks_) {
        if (const auto row = range_.row(received_of(state), static_cast<int>(i), own.clock)) {
          check_row(state, i, *row);
          becomes({own.clock, true, own.received, static_cast<int>(row->clock)});
        }
        if (own.row_clock >= range_.shape().pacing.least_clock(own.clock))  // the one that it keeps
          becomes({own.clock, true, own.received, own.row_clock});
      }
    }
    if (all.empty()) {
      EXPECT_TRUE(std::ranges::all_of(state, [&](const auto& one) { return one.clock == clocks_; }))
          << "nobody can go on";
    }
    return all;
  }

  void check_row(const ExploredState& state, std::size_t reader, const Row& row) {
    const int clock = state[reader].clock;
    for (std::size_t i = 0; i < state.size(); ++i) {
      const int seen = range_.seen(row, static_cast<int>(i));
      ASSERT_GE(seen, clock - staleness_) << "a needed update is missing";
      ASSERT_GE(seen, static_cast<int>(row.clock));
      if (i != reader && seen > 0) newest = std::max(newest, seen - 1 - clock);
    }
  }

  void check(const ExploredState& state) {
    const auto [low, high] = std::ranges::minmax(state, {}, &ExploredWorker::clock);
    apart = std::max(apart, high.clock - low.clock);
    const bool nothing_on_its_way =
        std::ranges::all_of(state, [](const auto& one) { return one.received == one.clock; });
    bool slowest_waits = false;
    for (std::size_t i = 0; i < state.size(); ++i)
      slowest_waits |= state[i].clock == low.clock && low.clock < clocks_ && !state[i].computes &&
                       !range_.row(received_of(state), static_cast<int>(i), low.clock);
    ASSERT_FALSE(nothing_on_its_way && slowest_waits) << "the slowest waits for nothing";
    waits += slowest_waits ? 1 : 0;
  }

  ExploredRange range_;
  const int staleness_, clocks_;
  std::set<ExploredState> seen_;
};

TEST(ExploredSsp, InEveryInterleavingNoNeededUpdateIsMissedAndNobodyWaitsForever) {
  for (const bool on_arrival : {false, true}) {
    for (int staleness = 0; staleness <= 3; ++staleness) {
      Explorer explorer(staleness, on_arrival, staleness + (staleness < 3 ? 3 : 2));
      explorer.explore();
      ASSERT_FALSE(HasFailure()) << "staleness " << staleness;
      EXPECT_EQ(explorer.apart, staleness + 1);
      EXPECT_EQ(explorer.newest, staleness - (on_arrival ? 0 : 1));
      RecordProperty("states_" + std::to_string(staleness), std::to_string(explorer.states()));
      if (staleness == 3) {
        EXPECT_EQ(explorer.states(), 43582u);
      }
    }
  }
}

}  // namespace
}  // namespace paceline::test
