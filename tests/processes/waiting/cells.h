// The law of waiting as a table of tests: whoever waits says soon for whom and for what, ends by
// its deadline, and leaves nothing behind.
//
// A cell is one case: a victim is stopped, killed or cut off, and then the others come to a place
// in which they wait for it. Each row of the table (ranks and servers here) is a file beside this
// one. Cells run several at a time, since they mostly wait.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"

namespace paceline::test {

struct Cell {
  std::string victim;       // "rank", "server"
  std::string how;          // "stopped", "dead", "cut off"
  std::string place;        // "push", "pull"
  std::string excuse = {};  // why it cannot occur; empty: it can

  std::string name() const { return fmt::format("{} {}, {}", victim, how, place); }
};

// All cells of these, in one order.
inline std::vector<Cell> cells_of(const std::vector<std::string>& victims,
                                  const std::vector<std::string>& hows,
                                  const std::vector<std::string>& places) {
  std::vector<Cell> cells;
  for (const std::string& victim : victims)
    for (const std::string& how : hows)
      for (const std::string& place : places) cells.push_back({victim, how, place});
  return cells;
}

// The stall time of the cells, and how long an operation may take in them.
inline std::chrono::milliseconds cell_stall() {
  return is_nightly() ? 5000ms : 500ms;
}
inline std::chrono::milliseconds cell_timeout() {
  return is_nightly() ? 15s : 4s;
}
// Lines come within this time after the stall time, and runs end so long after their deadline.
inline std::chrono::milliseconds prompt() {
  return is_nightly() ? 1000ms : 3000ms;  // a short form bears a machine that stands still
}

// Runs them, 8 at a time; a failure tells its cell.
inline void run_cells(const std::vector<Cell>& cells, const std::function<void(const Cell&)>& run) {
  constexpr std::size_t kAtATime = 8;
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < std::min(kAtATime, cells.size()); ++i)
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < cells.size(); at = next++) {
        if (!cells[at].excuse.empty()) continue;
        SCOPED_TRACE(cells[at].name());
        run(cells[at]);
      }
    });
}

}  // namespace paceline::test
