#include "paceline/torch/pipeline/tied_parameters.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/pipeline/cut_shapes.h"

namespace paceline::pipeline {

TiedParameters::TiedParameters(const Names& names, std::vector<Chunk>& chunks, Communicator& stages)
    : stages_(stages) {
  for (const auto& [first, second] : names)
    ties_.push_back({end_of(first, chunks), end_of(second, chunks)});
  find_ranks();
  for (Tie& tie : ties_) equalise(tie);
}

TiedParameters::End TiedParameters::end_of(const std::string& name, std::vector<Chunk>& chunks) {
  for (Chunk& chunk : chunks) {
    const auto parameters = chunk.module->named_parameters();
    if (const at::Tensor* const found = parameters.find(name))
      return {name, stages_.rank(), &chunk, *found};
  }
  return {name};
}

void TiedParameters::find_ranks() {
  std::vector<std::int32_t> ranks;
  for (const Tie& tie : ties_) {
    ranks.push_back(tie.first.rank);
    ranks.push_back(tie.second.rank);
  }
  if (ranks.empty()) return;
  if (stages_.size() > 1) stages_.all_reduce(buffer_of(ranks), {.op = ReduceOp::max}).wait();
  auto rank = ranks.begin();
  for (Tie& tie : ties_) {
    for (End* const end : {&tie.first, &tie.second}) {
      end->rank = *rank++;
      if (end->rank >= 0) continue;
      throw_misuse(c10::str("Layers::tie(\"", tie.first.name, "\", \"", tie.second.name,
                            "\"): no layer of the model has a parameter '", end->name,
                            "': name both as named_parameters() of the whole model does"));
    }
  }
}

void TiedParameters::equalise(Tie& tie) {
  const at::NoGradGuard no_grad;
  at::Tensor values = tie.first.parameter;
  if (tie.first.rank != tie.second.rank) {
    if (tie.first.chunk != nullptr) send_with_shapes(stages_, {values}, tie.second.rank);
    if (tie.second.chunk != nullptr) values = receive_with_shapes(stages_, tie.first.rank).front();
  }
  if (tie.second.chunk == nullptr) return;
  at::Tensor& copy = tie.second.parameter;
  if (copy.sizes() != values.sizes() || copy.scalar_type() != values.scalar_type()) {
    throw_misuse(c10::str("Layers::tie(): '", tie.first.name, "' is ", describe(values), ", and '",
                          tie.second.name, "' ", describe(copy),
                          ": tied parameters have one shape and type"));
  }
  copy.copy_(values);
}

at::Tensor TiedParameters::End::gradient() const {
  if (chunk == nullptr) return {};
  at::Tensor leaf = chunk->parallel->parameters(name).front();
  if (!leaf.grad().defined()) leaf.mutable_grad() = at::zeros_like(leaf);
  return leaf.grad();
}

void TiedParameters::sum_gradients() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < ties_.size(); ++i) {
    const Tie& tie = ties_[i];
    at::Tensor first = tie.first.gradient(), second = tie.second.gradient();
    const at::Tensor own_first = first, own_second = second;
    if (tie.first.rank != tie.second.rank && (first.defined() || second.defined())) {
      // Above the tags of send_with_shapes, which runs at other times.
      const auto tag = static_cast<std::uint32_t>(64 + i);
      const at::Tensor own = (first.defined() ? first : second).contiguous();
      const at::Tensor other = at::empty_like(own);
      const int peer = first.defined() ? tie.second.rank : tie.first.rank;
      const Work receiving = stages_.recv(buffer_of(other), peer, {.tag = tag});
      const Work sending = stages_.send(buffer_of(own), peer, {.tag = tag});
      receiving.wait();
      sending.wait();
      (first.defined() ? second : first) = other;
    }
    if (!first.defined()) continue;
    const at::Tensor sum = first + second;  // in this order on both, for equal bits
    if (own_first.defined()) own_first.copy_(sum);
    if (own_second.defined()) own_second.copy_(sum);
  }
}

double TiedParameters::squares_of_copies() const {
  double squares = 0;
  for (const Tie& tie : ties_)
    if (tie.second.chunk != nullptr)
      squares += tie.second.gradient().to(at::kDouble).square().sum().item<double>();
  return squares;
}

}  // namespace paceline::pipeline
