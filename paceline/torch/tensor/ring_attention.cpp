#include "paceline/torch/tensor/ring_attention.h"

#include <torch/torch.h>

#include <cmath>
#include <optional>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Ring : torch::CustomClassHolder {
  Communicator* group = nullptr;
  bool is_causal = true;
  double scale = 1;

  int rank() const { return group->rank(); }
  int size() const { return group->size(); }
  // The rank whose keys are here in this step.
  int source(int step) const { return (rank() - step + size()) % size(); }
};
using RingPtr = c10::intrusive_ptr<Ring>;

// A tensor on its way to the next rank, while that of the rank before comes.
class Hop {
 public:
  Hop(const Ring& ring, const at::Tensor& own, std::uint32_t tag)
      : own_(own), next_(at::empty_like(own)) {
    const PointToPointOptions options{.tag = tag};
    const int to = (ring.rank() + 1) % ring.size(), from = ring.source(1);
    received_ = ring.group->recv(buffer_of(next_), from, options);
    received_.keep(next_);  // also where the attention throws meanwhile
    sent_ = ring.group->send(buffer_of(own_), to, options);
    sent_.keep(own_);
  }
  at::Tensor arrived() const {
    try {
      received_.wait();
      sent_.wait();
    } catch (const Error& error) {
      Failure failure = error.failure();
      failure.what = "in ring_attention, along cp: " + failure.what;
      throw Error(std::move(failure));
    }
    return next_;
  }

 private:
  at::Tensor own_, next_;
  Work sent_, received_;
};
constexpr std::uint32_t kKeys = 1, kGradients = 2;  // tags

// The own queries that see some of the keys of another rank, and these keys, as ranges that end
// with the own tokens and begin with the other's.
struct Seen {
  std::int64_t first_query = 0, keys = 0;
  bool is_diagonal = false;  // query t sees the keys up to t

  // In zigzag a rank sees the first chunk of the ranks before it, and its own second chunk sees all
  // of the ranks behind it.
  Seen(const Ring& ring, int source, std::int64_t tokens) : keys(tokens) {
    if (!ring.is_causal) return;
    if (source == ring.rank()) is_diagonal = true;
    else if (source < ring.rank()) keys = tokens / 2;
    else first_query = tokens / 2;
  }
};

// Queries are [batch, kv_heads, sharing heads, tokens, head_size] here; rows are queries.
at::Tensor last_queries(const at::Tensor& of_queries, const Seen& seen, std::int64_t dimension) {
  return of_queries.slice(dimension, seen.first_query);
}

at::Tensor scores(const at::Tensor& queries, const at::Tensor& keys, const Ring& ring,
                  bool is_diagonal) {
  const auto shape = queries.sizes();
  const at::Tensor all = at::matmul(queries.flatten(2, 3), keys.transpose(-1, -2))
                             .mul_(ring.scale)
                             .view({shape[0], shape[1], shape[2], shape[3], keys.size(-2)});
  if (!is_diagonal) return all;
  const at::Tensor later = at::ones({shape[3], keys.size(-2)}, at::kBool).triu(1);
  return all.masked_fill(later, -std::numeric_limits<double>::infinity());
}

struct Merged {
  at::Tensor seen, log_sum;  // the mean of values by their weights, and the log of all weights
};

// Adds what these queries see in one rank's keys and values.
void merge(Merged& all, const at::Tensor& queries, const at::Tensor& keys_values, const Seen& seen,
           const Ring& ring) {
  const at::Tensor keys = keys_values[0].narrow(2, 0, seen.keys),
                   values = keys_values[1].narrow(2, 0, seen.keys);
  const at::Tensor own = last_queries(queries, seen, 3);
  const at::Tensor weights = scores(own, keys, ring, seen.is_diagonal);
  const at::Tensor log_sum = weights.logsumexp(-1);
  const at::Tensor mean =
      at::matmul((weights - log_sum.unsqueeze(-1)).exp_().flatten(2, 3), values).view(own.sizes());
  if (!all.seen.defined()) {
    all = {mean, log_sum};
    return;
  }
  const at::Tensor before = last_queries(all.log_sum, seen, 3);
  const at::Tensor after = at::logaddexp(before, log_sum);
  last_queries(all.seen, seen, 3)
      .mul_((before - after).exp_().unsqueeze(-1))
      .add_(mean * (log_sum - after).exp_().unsqueeze(-1));
  before.copy_(after);
}

struct Gradients {
  at::Tensor of_queries;
  at::Tensor of_keys_values;  // of the rank whose keys were here
};

void add_gradients(Gradients& gradients, const at::Tensor& queries, const at::Tensor& keys_values,
                   const at::Tensor& outgoing, const at::Tensor& overlap, const at::Tensor& log_sum,
                   const Seen& seen, const Ring& ring) {
  const at::Tensor keys = keys_values[0].narrow(2, 0, seen.keys),
                   values = keys_values[1].narrow(2, 0, seen.keys);
  const at::Tensor own = last_queries(queries, seen, 3);
  const at::Tensor out = last_queries(outgoing, seen, 3).flatten(2, 3);
  const at::Tensor weights =
      (scores(own, keys, ring, seen.is_diagonal) - last_queries(log_sum, seen, 3).unsqueeze(-1))
          .exp_()
          .flatten(2, 3);
  const at::Tensor of_scores = at::matmul(out, values.transpose(-1, -2))
                                   .sub_(last_queries(overlap, seen, 3).flatten(2, 3).unsqueeze(-1))
                                   .mul_(weights)
                                   .mul_(ring.scale);
  last_queries(gradients.of_queries, seen, 3).add_(at::matmul(of_scores, keys).view(own.sizes()));
  gradients.of_keys_values[0]
      .narrow(2, 0, seen.keys)
      .add_(at::matmul(of_scores.transpose(-1, -2), own.flatten(2, 3)));
  gradients.of_keys_values[1]
      .narrow(2, 0, seen.keys)
      .add_(at::matmul(weights.transpose(-1, -2), out));
}

class RingAttention : public torch::autograd::Function<RingAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& queries,
                            const at::Tensor& keys_values, const RingPtr& ring) {
    Merged all;
    at::Tensor travelling = keys_values;
    for (int step = 0; step < ring->size(); ++step) {
      std::optional<Hop> hop;
      if (step + 1 < ring->size()) hop.emplace(*ring, travelling, kKeys);
      merge(all, queries, travelling, Seen(*ring, ring->source(step), queries.size(3)), *ring);
      if (hop) travelling = hop->arrived();
    }
    context->save_for_backward({queries, keys_values, all.seen, all.log_sum});
    context->saved_data["ring"] = c10::IValue::make_capsule(ring);
    return all.seen;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients_out) {
    const auto ring =
        c10::static_intrusive_pointer_cast<Ring>(context->saved_data["ring"].toCapsule());
    const auto saved = context->get_saved_variables();
    const at::Tensor &queries = saved[0], &outgoing = gradients_out[0];
    const at::Tensor overlap = (outgoing * saved[2]).sum(-1);
    Gradients gradients{at::zeros_like(queries), at::zeros_like(saved[1])};
    at::Tensor travelling = saved[1];
    std::optional<Hop> coming;  // the gradients of the keys of this step, from the rank before
    for (int step = 0; step < ring->size(); ++step) {
      std::optional<Hop> hop;
      if (step + 1 < ring->size()) hop.emplace(*ring, travelling, kKeys);
      gradients.of_keys_values = at::zeros_like(saved[1]);
      add_gradients(gradients, queries, travelling, outgoing, overlap, saved[3],
                    Seen(*ring, ring->source(step), queries.size(3)), *ring);
      if (coming) gradients.of_keys_values.add_(coming->arrived());
      if (ring->size() > 1) coming.emplace(*ring, gradients.of_keys_values, kGradients);
      if (hop) travelling = hop->arrived();
    }
    return {gradients.of_queries, coming ? coming->arrived() : gradients.of_keys_values, {}};
  }
};

void require_fit(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const bool fits = query.dim() == 4 && key.dim() == 4 && key.sizes() == value.sizes() &&
                    query.size(0) == key.size(0) && query.size(2) == key.size(2) &&
                    query.size(3) == key.size(3) && key.size(1) > 0 &&
                    query.size(1) % key.size(1) == 0;
  if (fits) return;
  throw_misuse(
      c10::str("ring_attention takes queries [batch, heads, own tokens, head_size] and "
               "keys and values [batch, kv_heads, own tokens, head_size], where kv_heads "
               "divides heads, and got ",
               describe(query), ", ", describe(key), " and ", describe(value)));
}

}  // namespace

at::Tensor ring_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          Communicator& group, const RingAttentionOptions& options) {
  require_fit(query, key, value);
  const std::int64_t tokens = query.size(2);
  if (options.is_causal && group.size() > 1 && tokens % 2 != 0) {
    throw_misuse(c10::str("ring_attention: a rank's ", tokens,
                          " tokens are no two equal chunks, as zigzag_part() gives them"));
  }
  auto ring = c10::make_intrusive<Ring>();
  ring->group = &group;
  ring->is_causal = options.is_causal;
  ring->scale =
      options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(query.size(3)));
  const at::Tensor queries = query.unflatten(1, {key.size(1), -1}).contiguous();
  return RingAttention::apply(queries, at::stack({key, value}), ring).flatten(1, 2);
}

at::Tensor zigzag_positions(std::int64_t length, const Communicator& group) {
  const std::int64_t chunks = 2 * group.size();
  if (length % chunks != 0) {
    throw_misuse(c10::str("a sequence of ", length, " tokens cannot be shared by ", group.size(),
                          " ranks in zigzag, which takes ", chunks,
                          " equal chunks: take a length that ", chunks, " divides"));
  }
  const at::Tensor all = at::arange(length, at::kLong).view({chunks, -1});
  return at::cat({all[group.rank()], all[chunks - 1 - group.rank()]});
}

at::Tensor zigzag_part(const at::Tensor& whole, std::int64_t dimension, const Communicator& group) {
  return whole.index_select(dimension, zigzag_positions(whole.size(dimension), group));
}

}  // namespace paceline
