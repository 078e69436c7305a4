// A wide and deep model (Cheng et al., "Wide & Deep Learning for Recommender Systems", 2016): the
// logit of a click is the sum of a linear part, which has a number for each category, and of a
// network over embeddings of the categories, which also sees what they are together.
//
// Rows by category lie in sparse tables, whose servers step them; all other parameters are an
// ordinary module's.
#pragma once

#include <torch/torch.h>

#include <optional>
#include <vector>

#include "click_data.h"
#include "options.h"
#include "paceline/server.h"
#include "paceline/train.h"

namespace click_through {

// All workers make them alike. Without the deep part there is no table of it.
struct ClickTables {
  ClickTables(paceline::Job& job, const RunOptions& options);

  paceline::server::SparseTable wide;                 // rows of one number
  std::optional<paceline::server::SparseTable> deep;  // rows of --width numbers

  std::vector<paceline::server::SparseTable*> all();
  void quiesce();  // waits until all workers have called it: then all updates are in the rows
  double rows_pushed() const;        // by this worker
  std::int64_t rows_stored() const;  // by all servers, at the last rest
};

// The tables outlive it.
class WideAndDeepImpl : public torch::nn::Module {
 public:
  explicit WideAndDeepImpl(ClickTables& tables);

  at::Tensor forward(const ClickBatch& batch);  // logits, [lines]
  // Asks for the rows of the next step, between forward() and step().
  void prefetch(const ClickBatch& next);
  // Pushes the gradients of the rows; they count by the lines of this worker's batch.
  void step(std::int64_t lines);

 private:
  torch::nn::Linear numbers_;  // of the wide part, with the bias of all
  paceline::ServerEmbedding wide_;
  paceline::ServerEmbedding deep_ = nullptr;
  torch::nn::Sequential network_ = nullptr;
};
TORCH_MODULE(WideAndDeep);

}  // namespace click_through
