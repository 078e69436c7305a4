#include "paceline/torch/tensor/ulysses_attention.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kHeads = 1, kTokens = 2;

// Every rank has a part along `gathered`; afterwards it has the whole along it, of its part along
// `divided`.
at::Tensor traded(const at::Tensor& own, std::int64_t divided, std::int64_t gathered,
                  Communicator& group) {
  const at::Tensor parts =
      own.unflatten(divided, {group.size(), -1}).movedim(divided, 0).contiguous();
  const at::Tensor all = at::empty_like(parts);
  group.all_to_all(buffer_of(parts), buffer_of(all)).wait();
  return all.movedim(0, gathered).flatten(gathered, gathered + 1);
}

class Trade : public torch::autograd::Function<Trade> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& own, std::int64_t divided,
                            std::int64_t gathered, Communicator* group) {
    context->saved_data["divided"] = divided;
    context->saved_data["gathered"] = gathered;
    context->saved_data["group"] = reinterpret_cast<std::int64_t>(group);
    return traded(own, divided, gathered, *group);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto* const group = reinterpret_cast<Communicator*>(context->saved_data["group"].toInt());
    return {traded(gradients[0], context->saved_data["gathered"].toInt(),
                   context->saved_data["divided"].toInt(), *group),
            {},
            {},
            {}};
  }
};

}  // namespace

at::Tensor ulysses_attention(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, Communicator& group, bool is_causal) {
  const int ranks = group.size();
  if (query.size(kHeads) % ranks != 0 || key.size(kHeads) % ranks != 0) {
    throw_misuse(c10::str("ulysses_attention: ", ranks, " ranks cannot share ", query.size(kHeads),
                          " heads, and ", key.size(kHeads),
                          " of keys, equally: take ring_attention, or fewer ranks along cp"));
  }
  const auto by_heads = [&](const at::Tensor& own) {
    return ranks == 1 ? own : Trade::apply(own, kHeads, kTokens, &group);
  };
  const at::Tensor q = by_heads(query), k = by_heads(key), v = by_heads(value);
  const std::int64_t sharing = q.size(kHeads) / k.size(kHeads);
  const at::Tensor seen = at::scaled_dot_product_attention(
      q, k.repeat_interleave(sharing, kHeads), v.repeat_interleave(sharing, kHeads),
      /*attn_mask=*/{}, /*dropout_p=*/0, is_causal);
  return ranks == 1 ? seen : Trade::apply(seen, kTokens, kHeads, &group);
}

}  // namespace paceline
