#include "paceline/torch/pipeline/tied_parameters.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/pipeline/cut_shapes.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::pipeline {
namespace {

// This rank's part of the gradient of a parameter, for its optimizer.
struct LeafGradient {
  at::Tensor gradient;               // undefined: the replicas divide it, and it has nothing
  Communicator* replicas = nullptr;  // that divide it; null: it is whole
  std::int64_t begin = 0;            // of the piece, in the order of the whole one's elements
  at::ScalarType type = at::kFloat;  // of all pieces

  at::Tensor part_of(const at::Tensor& whole) const {
    return replicas == nullptr ? whole : whole.view(-1).narrow(0, begin, gradient.numel());
  }
};

at::Tensor gradient_of(at::Tensor leaf) {
  if (!leaf.grad().defined()) leaf.mutable_grad() = at::zeros_like(leaf);
  return leaf.grad();
}

LeafGradient leaf_gradient(const Chunk& chunk, const std::string& name) {
  const replica::Replicas& replicas = chunk.parallel->replicas();
  const replica::ParameterPieces* const pieces = replicas.synchrony().pieces();
  if (pieces == nullptr) return {gradient_of(chunk.parallel->parameters(name).front())};
  const std::vector<replica::Parameter>& dense = replicas.parts().dense;
  const auto found = std::ranges::find(dense, name, &replica::Parameter::name);
  if (found == dense.end())
    throw_misuse(c10::str("Layers::tie(): '", name,
                          "' is another name of a parameter: give tie() "
                          "the first one"));
  const auto* const piece = pieces->find(static_cast<std::size_t>(found - dense.begin()));
  LeafGradient own{.replicas = pieces->ranks, .type = found->tensor.scalar_type()};
  if (piece == nullptr) return own;
  own.gradient = gradient_of(piece->leaf);
  own.begin = piece->begin;
  return own;
}

}  // namespace

TiedParameters::TiedParameters(const Names& names, std::vector<Chunk>& chunks, Communicator& stages,
                               bool are_divided)
    : stages_(stages) {
  for (const auto& [first, second] : names) {
    for (const std::string& name : {first, second})
      if (!other_name(name).empty() || first == second)
        throw_misuse(c10::str("Layers::tie(): '", name,
                              "' is in two ties: a parameter goes with one "
                              "other"));
    ties_.push_back({end_of(first, chunks), end_of(second, chunks)});
  }
  if (ties_.empty()) return;
  find_ranks();
  require_trained(are_divided);
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

// All ranks agree on it, so that no stage waits for one that has refused.
void TiedParameters::require_trained(bool are_divided) {
  std::vector<std::int32_t> faults;  // of each end: frozen, strided
  for (const Tie& tie : ties_) {
    for (const End* const end : {&tie.first, &tie.second}) {
      const bool is_here = end->chunk != nullptr;
      faults.push_back(is_here && !end->parameter.requires_grad() ? 1 : 0);
      faults.push_back(is_here && are_divided && !end->parameter.is_contiguous() ? 1 : 0);
    }
  }
  if (stages_.size() > 1) stages_.all_reduce(buffer_of(faults), {.op = ReduceOp::max}).wait();
  auto fault = faults.begin();
  for (const Tie& tie : ties_) {
    for (const End* const end : {&tie.first, &tie.second}) {
      const bool is_frozen = *fault++ != 0, is_strided = *fault++ != 0;
      if (is_frozen)
        throw_misuse(c10::str("Layers::tie(): '", end->name,
                              "' requires no gradient: unfreeze both parameters, or tie none"));
      if (is_strided)
        throw_misuse(c10::str("Layers::tie(): '", end->name,
                              "' does not lie row after row in memory, and replicas divide it: "
                              "make it contiguous, or set training.zero_stage to 0"));
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
  const LeafGradient own = leaf_gradient(*chunk, name);
  if (own.replicas == nullptr) return own.gradient;
  const at::Tensor whole = at::zeros(parameter.sizes(), own.type);
  if (own.gradient.defined()) own.part_of(whole).copy_(own.gradient);
  own.replicas->all_reduce(buffer_of(whole)).wait();
  return whole;
}

void TiedParameters::End::set_gradient(const at::Tensor& whole) const {
  if (chunk == nullptr) return;
  const LeafGradient own = leaf_gradient(*chunk, name);
  if (own.gradient.defined()) own.gradient.copy_(own.part_of(whole));
}

bool TiedParameters::End::has(const at::Tensor& tensor) const {
  if (chunk == nullptr) return false;
  const auto is_it = [&](const at::Tensor& one) { return one.is_same(tensor); };
  if (is_it(chunk->module->named_parameters()[name])) return true;
  return chunk->parallel && std::ranges::any_of(chunk->parallel->parameters(name), is_it);
}

void TiedParameters::sum_gradients() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < ties_.size(); ++i) {
    const Tie& tie = ties_[i];
    at::Tensor first = tie.first.gradient(), second = tie.second.gradient();
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
    tie.first.set_gradient(sum);
    tie.second.set_gradient(sum);
  }
}

double TiedParameters::squares_of_copies() const {
  double squares = 0;
  for (const Tie& tie : ties_) {
    if (tie.second.chunk == nullptr) continue;
    const auto parameters = tie.second.chunk->module->named_parameters();
    const double norm =
        clip_grad_norm({parameters[tie.second.name]}, std::numeric_limits<double>::infinity(),
                       {.refuse_non_finite = false});
    squares += norm * norm;
  }
  return squares;
}

std::string TiedParameters::saved_name(const std::string& name) const {
  const auto tie = std::ranges::find(ties_, name, [](const Tie& one) { return one.second.name; });
  return tie == ties_.end() ? name : tie->first.name;
}

std::string TiedParameters::other_name(const std::string& name) const {
  for (const Tie& tie : ties_) {
    if (tie.first.name == name) return tie.second.name;
    if (tie.second.name == name) return tie.first.name;
  }
  return {};
}

bool TiedParameters::is_copy(const at::Tensor& tensor) const {
  return std::ranges::any_of(ties_, [&](const Tie& tie) { return tie.second.has(tensor); });
}

}  // namespace paceline::pipeline
