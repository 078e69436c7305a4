#include "paceline/torch/tensor/cross_entropy.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline {
namespace {

using tensor::LayerPlacePtr;
using tensor::ShardRange;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// For each target -log softmax(logits)[target], 0 for those that do not count.
class SplitCrossEntropy : public torch::autograd::Function<SplitCrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given,
                            const at::Tensor& targets, std::int64_t words, std::int64_t ignored,
                            const LayerPlacePtr& place) {
    Communicator& group = *place->region->group;
    const ShardRange own = tensor::range_of(words, group.rank(), group.size());
    const at::Tensor logits = given.scalar_type() == at::kDouble ? given : given.to(at::kFloat);
    const at::Tensor largest = std::get<0>(logits.max(-1)).contiguous();
    place->run("looks for the largest logits",
               [&] { return group.all_reduce(buffer_of(largest), {.op = ReduceOp::max}); });
    at::Tensor weights = (logits - largest.unsqueeze(-1)).exp_();
    const at::Tensor is_foreign = (targets < own.begin).logical_or_(targets >= own.end);
    const at::Tensor local = (targets - own.begin).masked_fill_(is_foreign, 0).unsqueeze(-1);
    const at::Tensor of_target =
        (logits.gather(-1, local).squeeze(-1) - largest).masked_fill_(is_foreign, 0);
    const at::Tensor sums = at::stack({weights.sum(-1), of_target});
    place->run("adds up the parts of its softmax",
               [&] { return group.all_reduce(buffer_of(sums)); });
    weights.div_(sums[0].unsqueeze(-1));
    const at::Tensor counts = targets != ignored;
    context->save_for_backward({weights, local, is_foreign, counts});
    context->saved_data["type"] = static_cast<std::int64_t>(given.scalar_type());
    return (sums[0].log() - sums[1]).mul_(counts);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &weights = saved[0], &local = saved[1], &is_foreign = saved[2];
    const at::Tensor outgoing = (gradients[0] * saved[3]).unsqueeze(-1);
    const at::Tensor of_target = is_foreign.logical_not().to(weights.scalar_type()).neg_();
    const at::Tensor of_logits =
        weights.scatter_add(-1, local, of_target.unsqueeze(-1)).mul_(outgoing);
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    return {of_logits.to(type), {}, {}, {}, {}};
  }
};

}  // namespace

CrossEntropyLossImpl::CrossEntropyLossImpl(torch::nn::CrossEntropyLossOptions loss_options)
    : options(std::move(loss_options)) {
  reset();
}

void CrossEntropyLossImpl::reset() {
  weight = register_buffer("weight", options.weight());
}

void CrossEntropyLossImpl::pretty_print(std::ostream& stream) const {
  stream << "paceline::CrossEntropyLoss(" << (place_ ? "split=vocabulary)" : ")");
}

at::Tensor CrossEntropyLossImpl::forward(const at::Tensor& logits, const at::Tensor& targets) {
  if (!place_ || place_->region->size() == 1) {
    return torch::nn::functional::cross_entropy(logits, targets,
                                                torch::nn::functional::CrossEntropyFuncOptions()
                                                    .weight(weight)
                                                    .ignore_index(options.ignore_index())
                                                    .reduction(options.reduction())
                                                    .label_smoothing(options.label_smoothing()));
  }
  const tensor::Region& region = *place_->region;
  const auto own = tensor::range_of(words_, region.rank(), region.size()).length();
  if (logits.dim() != 2 || logits.size(1) != own || targets.dim() != 1) {
    throw_misuse(c10::str("loss '", place_->layer, "' takes logits [targets, ", own,
                          "], of this rank's words, and targets [targets], and got ",
                          describe(logits), " and ", describe(targets),
                          ": hand on what the layer of style vocabulary gives"));
  }
  const at::Tensor each =
      SplitCrossEntropy::apply(logits, targets, words_, options.ignore_index(), place_);
  if (std::holds_alternative<torch::enumtype::kNone>(options.reduction())) return each;
  if (std::holds_alternative<torch::enumtype::kSum>(options.reduction())) return each.sum();
  return each.sum() / (targets != options.ignore_index()).sum();
}

std::string CrossEntropyLossImpl::objection(const tensor::Request&) const {
  if (weight.defined() || options.label_smoothing() != 0)
    return "a CrossEntropyLoss with weight or label_smoothing cannot take logits that are split: "
           "give the layer that makes them the style split";
  return {};
}

void CrossEntropyLossImpl::place(const tensor::Request& request, const LayerPlacePtr& place) {
  place_ = place;
  words_ = request.words;
}

}  // namespace paceline
