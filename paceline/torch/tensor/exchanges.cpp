#include "paceline/torch/tensor/exchanges.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::tensor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kPlace = "place";

void keep(AutogradContext* context, const LayerPlacePtr& place) {
  context->saved_data[kPlace] = c10::IValue::make_capsule(place);
}

const LayerPlace& place_of(AutogradContext* context) {
  return *c10::static_intrusive_pointer_cast<LayerPlace>(context->saved_data[kPlace].toCapsule());
}

constexpr const char* kSums = "adds up partial results";

std::int64_t sequence_dimension(const at::Tensor& activation, const LayerPlace& place) {
  if (activation.dim() >= 2) return activation.dim() - 2;
  throw_misuse(c10::str("layer '", place.layer, "' is split along the sequence, and its input ",
                        describe(activation), " has none: the last dimension but one is it"));
}

// Dimension 0 becomes the ranks: part r of the sequence is that of rank r.
at::Tensor by_parts(const at::Tensor& activation, const LayerPlace& place) {
  const std::int64_t sequence = sequence_dimension(activation, place);
  const int ranks = place.region->size();
  if (activation.size(sequence) % ranks == 0)
    return activation.unflatten(sequence, {ranks, -1}).movedim(sequence, 0).contiguous();
  throw_misuse(c10::str("layer '", place.layer, "': ", ranks, " ranks cannot share a sequence of ",
                        activation.size(sequence),
                        " equally: take a length that they divide, or leave the style sequence out "
                        "of the plan"));
}

class SumOfParts : public torch::autograd::Function<SumOfParts> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& partial,
                            const LayerPlacePtr& place) {
    keep(context, place);
    const Sum sum = begin_sum(partial, *place);
    place->wait(kSums, sum.work);
    return sum.outcome;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const LayerPlace& place = place_of(context);
    if (!place.region->is_sequence_parallel) return {gradients[0], {}};
    return {gathered_sequence(gradients[0], place), {}};
  }
};

class SummedGradient : public torch::autograd::Function<SummedGradient> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, Communicator* group,
                            const LayerPlacePtr& place) {
    keep(context, place);
    context->saved_data["group"] = reinterpret_cast<std::int64_t>(group);
    return tensor.view_as(tensor);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto* const group = reinterpret_cast<Communicator*>(context->saved_data["group"].toInt());
    const at::Tensor in = gradients[0].contiguous(), out = at::empty_like(in);
    place_of(context).run("adds up gradients of a parameter that several ranks hold",
                          [&] { return group->all_reduce(buffer_of(in), buffer_of(out)); });
    return {out, {}, {}};
  }
};

// The tensor, whose gradient has memory of its own. Gradients that are views of one share the count
// of their changes, so that, where passes accumulate, a change of one looks like one of all.
class OwnGradient : public torch::autograd::Function<OwnGradient> {
 public:
  static at::Tensor forward(AutogradContext*, const at::Tensor& tensor) {
    return tensor.view_as(tensor);
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    return {gradients[0].clone()};
  }
};

class GatheredColumns : public torch::autograd::Function<GatheredColumns> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& columns, std::int64_t whole,
                            const LayerPlacePtr& place) {
    keep(context, place);
    context->saved_data["whole"] = whole;
    // Ranks send rows of the transposed matrix, so that parts of different widths lie one after the
    // other.
    Communicator& group = *place->region->group;
    const at::Tensor own = columns.reshape({-1, columns.size(-1)}).t().contiguous();
    const at::Tensor all = at::empty({whole, own.size(1)}, own.options());
    std::vector<std::size_t> counts;
    for (int r = 0; r < group.size(); ++r)
      counts.push_back(
          static_cast<std::size_t>(range_of(whole, r, group.size()).length() * own.size(1)));
    place->run("gathers the parts of its output", [&] {
      return group.all_gather(buffer_of(own), buffer_of(all), {.counts = counts});
    });
    auto shape = columns.sizes().vec();
    shape.back() = whole;
    return all.t().reshape(shape);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const LayerPlace& place = place_of(context);
    const ShardRange own =
        range_of(context->saved_data["whole"].toInt(), place.region->rank(), place.region->size());
    return {gradients[0].narrow(-1, own.begin, own.length()), {}, {}};
  }
};

}  // namespace

Sum begin_sum(const at::Tensor& partial, const LayerPlace& place) {
  Communicator& group = *place.region->group;
  const bool in_parts = place.region->is_sequence_parallel;
  const at::Tensor in = in_parts ? by_parts(partial, place) : partial.contiguous();
  const at::Tensor out =
      in_parts ? at::empty(in.sizes().slice(1), in.options()) : at::empty_like(in);
  Work work = place.start(kSums, [&] {
    return in_parts ? group.reduce_scatter(buffer_of(in), buffer_of(out))
                    : group.all_reduce(buffer_of(in), buffer_of(out));
  });
  work.keep(std::vector{in, out});  // also where the backward pass throws meanwhile
  return {out, std::move(work)};
}

at::Tensor gathered_sequence(const at::Tensor& part, const LayerPlace& place) {
  const std::int64_t sequence = sequence_dimension(part, place);
  const at::Tensor own = part.contiguous();
  auto shape = own.sizes().vec();
  shape.insert(shape.begin(), place.region->size());
  const at::Tensor all = at::empty(shape, own.options());
  place.run("gathers the parts of the sequence",
            [&] { return place.region->group->all_gather(buffer_of(own), buffer_of(all)); });
  return all.movedim(0, sequence).flatten(sequence, sequence + 1);
}

at::Tensor sum_of_parts(const at::Tensor& partial, const LayerPlacePtr& place) {
  return place->region->size() == 1 ? partial : SumOfParts::apply(partial, place);
}

std::vector<at::Tensor> with_summed_gradients(const std::vector<at::Tensor>& tensors,
                                              Communicator& group, const LayerPlacePtr& place) {
  if (group.size() == 1) return tensors;
  if (tensors.size() == 1) return {SummedGradient::apply(tensors[0], &group, place)};
  std::vector<at::Tensor> flat;
  std::vector<std::int64_t> lengths;
  for (const at::Tensor& tensor : tensors) {
    flat.push_back(OwnGradient::apply(tensor).flatten());
    lengths.push_back(tensor.numel());
  }
  std::vector<at::Tensor> same =
      SummedGradient::apply(at::cat(flat), &group, place).split_with_sizes(lengths);
  for (std::size_t i = 0; i < same.size(); ++i) same[i] = same[i].view(tensors[i].sizes());
  return same;
}

at::Tensor gathered_columns(const at::Tensor& columns, std::int64_t whole,
                            const LayerPlacePtr& place) {
  if (place->region->size() == 1) return columns;
  return GatheredColumns::apply(columns, whole, place);
}

}  // namespace paceline::tensor
