// Decides whether a run that failed is started again, and when.
//
// It has no clock and no process: it is told how each generation ended and which steps were saved.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/app/launch/ending/supervisor.h"
#include "paceline/core/base/deadline.h"

namespace paceline::launch {

class Restarts {
 public:
  // `most`: failures in a row without a newer step saved, after each of which the run is started
  // again.
  explicit Restarts(int most, int first_generation = 1)
      : most_(most), generation_(first_generation) {}

  // A checkpoint of this step is committed.
  void on_saved(std::uint64_t step);
  // A generation has ended. Returns the pause before the next one: 1, 2, 4 .. 60 s, by the failures
  // in a row. Nothing: the run is over, because it was done, stopped or refused (exit codes 2 and
  // 4), its program could not be started, its ranks had ended well, or it has failed too often.
  std::optional<Clock::duration> after(const Outcome& outcome,
                                       const std::vector<RankRecord>& records);

  int generation() const { return generation_; }  // the present one, from 1
  int most() const { return most_; }
  // The line that tells what comes next; empty where nothing but the end is to be told.
  const std::string& told() const { return told_; }

 private:
  const int most_;
  int generation_;
  int in_a_row_ = 0;
  std::optional<std::uint64_t> newest_;
  std::string told_;
};

}  // namespace paceline::launch
