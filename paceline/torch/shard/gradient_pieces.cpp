#include "paceline/torch/shard/gradient_pieces.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::shard {

GradientPieces::GradientPieces(const Units& units, Communicator& lane, bool keeps_memory,
                               const std::vector<Leaf>& leaves, std::function<void()> sent_all)
    : units_(units),
      lane_(lane),
      keeps_memory_(keeps_memory),
      leaves_(leaves),
      sent_all_(std::move(sent_all)),
      pieces_(units.size()),
      messages_(units.size()) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    buckets_.push_back(units[u].parameters);
    bytes_.push_back(units[u].bytes);
    if (!keeps_memory_)
      pieces_[u] = std::make_shared<Allocation>(lane_.allocate(units.piece_bytes(u)));
  }
}

void GradientPieces::send(std::size_t bucket, const Buffer& gradients,
                          std::shared_ptr<const void> memory) {
  messages_[bucket] = {true, gradients, std::move(memory)};
  while (started_ < messages_.size() && messages_[started_].is_ready) start(started_++);
}

void GradientPieces::start(std::size_t bucket) {
  Message& message = messages_[bucket];
  const Buffer& given = message.gradients;
  const ConstBuffer gradients =
      given.data == nullptr ? zeros(bucket) : ConstBuffer{given.data, given.count, given.dtype};
  message.work = lane_.reduce_scatter(gradients, piece(bucket), {.op = ReduceOp::average});
  message.work.keep(std::vector<std::shared_ptr<const void>>{
      given.data == nullptr ? zeros_ : message.memory, pieces_[bucket]});
  if (!keeps_memory_) message.memory.reset();  // it is given back once it was read
}

// Many messages may read them at once.
ConstBuffer GradientPieces::zeros(std::size_t bucket) {
  if (!zeros_) zeros_ = std::make_shared<Allocation>(lane_.allocate(std::ranges::max(bytes_)));
  const Dtype dtype = buckets_[bucket].dtype;
  return {zeros_->data(), bytes_[bucket] / size_of(dtype), dtype};
}

Buffer GradientPieces::piece(std::size_t bucket) const {
  const Dtype dtype = buckets_[bucket].dtype;
  const std::size_t bytes = units_.piece_bytes(bucket);
  if (pieces_[bucket]) return {pieces_[bucket]->data(), bytes / size_of(dtype), dtype};
  auto* const start = static_cast<std::byte*>(messages_[bucket].gradients.data);
  return {start + bytes * static_cast<std::size_t>(lane_.rank()), bytes / size_of(dtype), dtype};
}

void GradientPieces::wait(std::size_t bucket) {
  try {
    messages_[bucket].work.wait();
  } catch (const Error& error) {
    Failure failure = error.failure();
    failure.what = c10::str("while the gradients of '", units_[bucket].name,
                            "' were reduced to their owners: ", failure.what);
    throw Error(std::move(failure));
  }
  messages_[bucket].work = {};
}

void GradientPieces::hand_out(std::size_t bucket, const std::vector<bool>& used) {
  auto* const start = static_cast<std::byte*>(piece(bucket).data);
  for (const Leaf& leaf : leaves_) {
    if (leaf.segment.unit != bucket) continue;
    at::Tensor& grad = const_cast<at::Tensor&>(leaf.tensor).mutable_grad();
    grad.reset();
    if (!used[leaf.segment.parameter]) continue;
    const at::Tensor shape = at::empty_like(leaf.tensor.detach(), at::kMeta);
    std::any owner = pieces_[bucket] ? std::any(pieces_[bucket]) : messages_[bucket].memory;
    grad = tensor_over(start + leaf.segment.begin, shape, std::move(owner));
  }
}

void GradientPieces::end_step() {
  messages_.assign(units_.size(), {});
  started_ = 0;
}

void GradientPieces::release() {
  for (const Leaf& leaf : leaves_) const_cast<at::Tensor&>(leaf.tensor).mutable_grad().reset();
  messages_.clear();
  pieces_.clear();
  zeros_.reset();
}

std::size_t GradientPieces::bytes_of_pieces() const {
  std::size_t bytes = 0;
  for (std::size_t u = 0; u < pieces_.size(); ++u)
    if (pieces_[u]) bytes += units_.piece_bytes(u);
  return bytes;
}

}  // namespace paceline::shard
