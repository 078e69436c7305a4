// Turns: the part of a batch that a worker trains on in each of its steps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/core/collective/machines/tickets.h"
#include "paceline/core/job/job.h"
#include "paceline/torch/data/data.h"

struct Turn {
  std::int64_t step = 0;  // of the run, from 1: the number of the batch
  paceline::data::GlobalBatches::Part part;
};

// Either all workers take their part of one batch after the other, or the parts are dealt out to
// them as fast as each works; each part is taken once in both.
class Turns {
 public:
  // The steps `first` + 1 to `last`. Blocks until all workers call it, if parts are dealt out.
  Turns(paceline::Job& job, const paceline::data::GlobalBatches::Options& batches,
        std::int64_t first, std::int64_t last, bool are_dealt)
      : step_(first), last_(last), ranks_(job.world_size()) {
    auto of_rank = batches;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!are_dealt && rank != job.rank()) continue;
      of_rank.rank = rank;
      batches_.emplace_back(of_rank);
    }
    if (are_dealt) tickets_.emplace(job.world(), (last - first) * ranks_);
  }

  bool are_dealt() const { return tickets_.has_value(); }

  std::optional<Turn> next() {
    if (!tickets_) {
      if (step_ >= last_) return std::nullopt;
      ++step_;
      return Turn{step_, batches_.front().at(step_ - 1)};
    }
    while (const auto ticket = tickets_->next()) {
      const std::int64_t step = step_ + *ticket / ranks_ + 1;
      Turn turn{step, batches_[static_cast<std::size_t>(*ticket % ranks_)].at(step - 1)};
      if (turn.part.indices.size(0) > 0) return turn;  // the last of an epoch may be empty
    }
    return std::nullopt;
  }

 private:
  std::int64_t step_;
  const std::int64_t last_;
  const int ranks_;
  std::vector<paceline::data::GlobalBatches> batches_;  // of this worker, or of all
  std::optional<paceline::Tickets> tickets_;
};
