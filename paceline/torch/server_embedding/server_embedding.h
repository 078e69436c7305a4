// The door of server_embedding: layers whose rows lie on servers.
//
// ServerEmbedding is torch's Embedding and EmbeddingBag over a sparse table of core/server
// (docs/server/sparse_tables.md): a forward pass pulls the rows of its batch, step() pushes their
// gradients, and the servers step them by the table's rule.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any_value.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/core/server/server.h"

namespace paceline {

struct EmbeddingStep {
  double weight = 1;                // of this rank's gradients, as DataParallel's: its samples, say
  std::optional<double> rate = {};  // instead of the rule's
};

// ServerEmbedding: rows of a table on servers as a layer.
//
//   server::SparseTable users(job, {.name = "users", .width = 16, .rule = "adagrad:per=row"});
//   ServerEmbedding embedding(users);
//   embedding(ids);           // ids: i64 of any shape -> that shape and the width
//   embedding(ids, offsets);  // ids [n], offsets [bags] -> sums of bags [bags, width]
//   loss.backward();
//   parallel.step(optimizer);              // gradients of the model's own parameters, as ever
//   embedding->step({.weight = samples});  // the rows' gradients, which ends the table's clock
//   embedding->prefetch(next_ids);         // between forward and step: rows of the next step
//
// It has no parameters, so optimizers and DataParallel do not see it; Checkpoints save the table.
// Gradients count as DataParallel averages them: times this rank's weight, over all ranks' weights.
// Ids and rows lie in the host's memory. The table outlives it. THREAD: one.
class ServerEmbeddingImpl : public torch::nn::Module {
 public:
  // THROWS Error (misuse): this rank only serves the table.
  explicit ServerEmbeddingImpl(server::SparseTable& table);

  // While gradients are recorded, step() pushes those of these rows. With offsets, bag b has the
  // ids from offsets[b] up to the next offset, and may be empty: its sum is zeros. THROWS Error
  // (misuse): ids are not i64 on the CPU, or have more than 48 bits; offsets do not begin with 0,
  // descend, or lead beyond the ids.
  at::Tensor forward(const at::Tensor& ids, const at::Tensor& offsets = {});

  // Pushes the gradients of all forward passes since the last step, also if there are none.
  void step(const EmbeddingStep& options = {});
  // Asks for the rows of the next step's forward pass, which has the same ids in the same order.
  void prefetch(const at::Tensor& ids);

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(at::Tensor())})

 private:
  struct Pulled {
    std::vector<std::int64_t> ids;
    at::Tensor rows;  // a leaf
  };
  at::Tensor rows_of(std::vector<std::int64_t> ids);  // [ids, width]

  server::SparseTable& table_;
  std::vector<Pulled> pulled_;
};
TORCH_MODULE(ServerEmbedding);

}  // namespace paceline
