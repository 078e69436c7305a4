// BatchSource: the part of a batch that a worker trains on in each of its steps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/core/coordination/tickets.h"
#include "paceline/core/job/job.h"
#include "paceline/torch/checkpointing/checkpointing.h"
#include "paceline/torch/data/data.h"

struct BatchPart {
  std::int64_t step = 0;  // of the run, from 1: the number of the batch
  paceline::data::GlobalBatches::Part part;
};

// Either all workers take their part of one batch after the other, or the parts are dealt out to
// them as fast as each works; each part is taken once in both.
class BatchSource {
 public:
  // The steps 1 to `last`. Add it to the checkpoints, resume, and then begin().
  BatchSource(paceline::Job& job, const paceline::data::GlobalBatches::Options& batches,
              std::int64_t last, bool are_dealt)
      : job_(job),
        options_(batches),
        last_(last),
        are_dealt_(are_dealt),
        cuts_(batches.world_size) {
    if (are_dealt) taken_.resize(static_cast<std::size_t>(last * cuts_));
  }

  bool are_dealt() const { return are_dealt_; }

  // Parts that were taken by any worker. A resumed run goes on with the others, which are cut as in
  // the run before, on any number of workers.
  void save_to(paceline::Checkpoints& checkpoints) {
    if (!are_dealt_) return;
    checkpoints.add("turns", [this](paceline::CheckpointFields& fields) {
      if (fields.is_saving() && job_.world_size() > 1)
        job_.world()
            .all_reduce(paceline::buffer_of(taken_), {.op = paceline::ReduceOp::max})
            .wait();
      fields("parts_of_a_batch", cuts_);
      fields("taken", taken_);
    });
  }

  // After step `first`, where parts are not dealt. Blocks until all workers call it, where they
  // are.
  void begin(std::int64_t first) {
    step_ = first;
    were_over_ = first >= last_;
    auto of_part = options_;
    of_part.world_size = cuts_;
    for (int part = 0; part < cuts_; ++part) {
      if (!are_dealt_ && part != options_.rank) continue;
      of_part.rank = part;
      batches_.emplace_back(of_part);
    }
    if (!are_dealt_) return;
    taken_.resize(static_cast<std::size_t>(last_ * cuts_));  // a resumed run may make other steps
    for (std::size_t part = 0; part < taken_.size(); ++part)
      if (taken_[part] == 0) left_.push_back(static_cast<std::int64_t>(part));
    were_over_ = left_.empty();
    tickets_.emplace(job_.world(), static_cast<std::int64_t>(left_.size()));
  }
  // No worker had a part left when it began.
  bool were_over() const { return were_over_; }

  std::optional<BatchPart> next() {
    if (!tickets_) {
      if (step_ >= last_) return std::nullopt;
      ++step_;
      return BatchPart{step_, batches_.front().at(step_ - 1)};
    }
    while (const auto ticket = tickets_->next()) {
      const std::int64_t number = left_[static_cast<std::size_t>(*ticket)];
      taken_[static_cast<std::size_t>(number)] = 1;
      const std::int64_t step = number / cuts_ + 1;
      BatchPart found{step, batches_[static_cast<std::size_t>(number % cuts_)].at(step - 1)};
      if (found.part.indices.size(0) > 0) return found;  // the last of an epoch may be empty
    }
    return std::nullopt;
  }

 private:
  paceline::Job& job_;
  const paceline::data::GlobalBatches::Options options_;
  const std::int64_t last_;
  const bool are_dealt_;
  int cuts_;                         // parts of a batch
  std::vector<std::uint8_t> taken_;  // 1: by this worker, or before a save by any
  std::vector<std::int64_t> left_;   // parts that are dealt out
  std::int64_t step_ = 0;
  bool were_over_ = false;
  std::vector<paceline::data::GlobalBatches> batches_;  // of this worker, or of all
  std::optional<paceline::Tickets> tickets_;
};
