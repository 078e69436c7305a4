// parallelize: splits the layers of a model among the ranks of a mesh's axis tp.
//
//   using enum paceline::ParallelStyle;
//   paceline::DeviceMesh mesh(job, "dp=2,tp=2");
//   paceline::parallelize(*model, mesh, {{"embedding", vocabulary}, {"blocks.*.up", column},
//                                        {"blocks.*.down", row}, {"head", vocabulary}});
//   paceline::DataParallel parallel(*model, mesh);
//
// docs/guide/tensor_parallel.md tells what each style does, and how a model is written for it.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/tensor/region.h"

namespace paceline {
struct PlanEntry {
  std::string path;  // of layers in the model, as named_modules() tells; * is one element of it
  ParallelStyle style;
  std::int64_t head_size = 0;  // with the style heads
};
using TensorPlan = std::vector<PlanEntry>;

// Splits the layers that the plan names; each rank keeps its shards of their parameters, of the
// values that rank 0 of its tp group has, and takes those values for all other parameters and
// buffers too. The tensors of parameters stay the same, so that an optimizer may have been made
// before. An entry of style sequence switches sequence parallelism on: between split layers each
// rank then holds its part of every sequence (the last dimension but one of an activation).
//
// Layers of Paceline are split wherever they stand. Linear, Embedding and LayerNorm of torch are
// replaced, over the same parameters, where they are elements of a torch::nn::Sequential. Every
// rank of the mesh calls it, with the same plan, before DataParallel is made; the mesh outlives the
// model's layers. It blocks.
//
// THROWS Error (misuse), before anything has changed: an entry that matches nothing; two entries
// for one layer; torch's layers that are members, and cannot be replaced; features, heads or words
// that the ranks cannot share.
void parallelize(torch::nn::Module& model, DeviceMesh& mesh, const TensorPlan& plan);

// The parameters as one process would hold them, in the order of registration: copies, in which the
// shards of all ranks stand together. Collective over the ranks of tp.
std::vector<at::Tensor> whole_parameters(const torch::nn::Module& model);

// sha256_of() of them, for which a rank holds no more than 16 MiB, or one row, beside its shards.
std::string whole_sha256(const torch::nn::Module& model);

namespace tensor {

// The parts that this rank holds of the parameters that parallelize() split.
replica::Placements placements_of(const torch::nn::Module& model);

}  // namespace tensor
}  // namespace paceline

namespace paceline::tensor {

// Whether a path, such as "blocks.3.up", is one that the pattern means. An element * of the pattern
// stands for any one element.
bool matches(std::string_view pattern, std::string_view path);

struct PlannedLayer {
  std::string path;
  std::shared_ptr<torch::nn::Module> module;
  Request request;
};

// In the order of the model. THROWS Error (misuse): as parallelize(), for entries that match
// nothing, or a layer that another entry has.
std::vector<PlannedLayer> planned_layers(const torch::nn::Module& model, const TensorPlan& plan,
                                         int ranks);

// Paceline's layer over the same parameters, in place of one of torch's. Null: it has none.
std::shared_ptr<torch::nn::Module> replacement_of(const torch::nn::Module& layer);

// Whether the layer at this path of the model is an element of a Sequential, which calls what it
// holds; other modules call members of a type of their own.
bool is_replaceable(torch::nn::Module& model, const std::string& path);

// Puts `layer`, one that replacement_of() made, where the path leads. REQUIRES: is_replaceable().
void replace(torch::nn::Module& model, const std::string& path,
             const std::shared_ptr<torch::nn::Module>& layer);

}  // namespace paceline::tensor
