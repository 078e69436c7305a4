#include "paceline/torch/shard/gradient_pieces.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/core/base/half.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/grads/gradient_note.h"

namespace paceline::shard {

GradientPieces::GradientPieces(const Units& units, Communicator& lane,
                               const replica::WatchedLane& watched, std::optional<Dtype> wire,
                               bool keeps_memory, const std::vector<replica::Parameter>& parameters,
                               const std::vector<Leaf>& leaves, std::function<void()> sent_all)
    : units_(units),
      lane_(lane),
      watched_(watched),
      wire_(wire),
      keeps_memory_(keeps_memory),
      parameters_(parameters),
      leaves_(leaves),
      sent_all_(std::move(sent_all)),
      layout_{.alignment = gradient::kSlotAlignment, .memory = {.on_demand = !keeps_memory}},
      elsewhere_(parameters.size()),
      pieces_(units.size()),
      halves_(units.size()),
      messages_(units.size()) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    layout_.groups.push_back(units[u].parameters);
    layout_.memory.bytes.push_back(units[u].bytes);
    if (!keeps_memory_)
      pieces_[u] = std::make_shared<Allocation>(lane_.allocate(units.piece_bytes(u)));
    if (wire_)
      halves_[u] = std::make_shared<Allocation>(
          lane_.allocate(units.piece_bytes(u) / size_of(Dtype::f32) * size_of(*wire_)));
  }
}

void GradientPieces::send(std::size_t bucket, const gradient::GradientBuckets& buckets,
                          double share) {
  Message& message = messages_[bucket] = {.is_ready = true};
  if (buckets.has_memory(bucket)) {
    buckets.scale(bucket, share);
    message.gradients = buckets.buffer(bucket);
    message.memory = buckets.memory(bucket);
  }
  while (started_ < messages_.size() && messages_[started_].is_ready) start(started_++);
}

void GradientPieces::start(std::size_t bucket) {
  Message& message = messages_[bucket];
  const ConstBuffer gradients = as_sent(bucket);
  message.call = watched_.call([&] {
    return lane_.reduce_scatter(gradients, piece_on_wire(bucket), {.op = ReduceOp::average});
  });
  message.call.work.keep(std::vector<std::shared_ptr<const void>>{
      gradients.data == message.gradients.data ? message.memory : zeros_, pieces_[bucket],
      halves_[bucket]});
  if (!keeps_memory_) message.memory.reset();  // it is given back once it was read
}

// 16 bits are written over the gradients that they round.
ConstBuffer GradientPieces::as_sent(std::size_t bucket) {
  const Buffer& given = messages_[bucket].gradients;
  if (given.data == nullptr) return zeros(bucket);
  if (!wire_) return {given.data, given.count, given.dtype};
  narrow(*wire_, {reinterpret_cast<const float*>(given.data), given.count},
         {given.data, given.count * size_of(*wire_)});
  return {given.data, given.count, *wire_};
}

// Many messages may read them at once.
ConstBuffer GradientPieces::zeros(std::size_t bucket) {
  if (!zeros_)
    zeros_ = std::make_shared<Allocation>(lane_.allocate(std::ranges::max(layout_.memory.bytes)));
  const Dtype dtype = layout_.groups[bucket].dtype;
  return {zeros_->data(), layout_.memory.bytes[bucket] / size_of(dtype), wire_.value_or(dtype)};
}

Buffer GradientPieces::piece(std::size_t bucket) const {
  const Dtype dtype = layout_.groups[bucket].dtype;
  const std::size_t bytes = units_.piece_bytes(bucket);
  if (pieces_[bucket]) return {pieces_[bucket]->data(), bytes / size_of(dtype), dtype};
  auto* const start = static_cast<std::byte*>(messages_[bucket].gradients.data);
  return {start + bytes * static_cast<std::size_t>(lane_.rank()), bytes / size_of(dtype), dtype};
}

Buffer GradientPieces::piece_on_wire(std::size_t bucket) const {
  if (!wire_) return piece(bucket);
  return {halves_[bucket]->data(), piece(bucket).count, *wire_};
}

// Between gradients there may be any bits.
void GradientPieces::widen_piece(std::size_t bucket) {
  const Buffer halves = piece_on_wire(bucket);
  const Bytes bytes(halves.data, halves.size_bytes());
  for (const Leaf& leaf : leaves_) {
    if (leaf.segment.unit != bucket) continue;
    const auto count = static_cast<std::size_t>(leaf.tensor.numel());
    const std::size_t first = leaf.segment.begin / size_of(Dtype::f32), each = size_of(*wire_);
    has_overflowed_ |= !all_finite(*wire_, bytes.subspan(first * each, count * each));
  }
  widen(*wire_, bytes, {reinterpret_cast<float*>(piece(bucket).data), halves.count});
}

bool GradientPieces::overflow() {
  if (!wire_) return false;
  auto flag = static_cast<std::uint8_t>(has_overflowed_);
  lane_.all_reduce(buffer_of(std::span(&flag, 1)), {.op = ReduceOp::max}).wait();
  has_overflowed_ = false;
  if (flag != 0) drop_grads();
  return flag != 0;
}

void GradientPieces::drop_grads() {
  for (const Leaf& leaf : leaves_) const_cast<at::Tensor&>(leaf.tensor).mutable_grad().reset();
}

bool GradientPieces::wait(std::size_t bucket) {
  if (!std::exchange(messages_[bucket].is_home, true)) wait_for(bucket);
  return true;
}

void GradientPieces::wait_for(std::size_t bucket) {
  Message& message = messages_[bucket];
  try {
    watched_.wait(message.call, [&] {
      return c10::str("until the gradients of '", units_[bucket].name, "' are reduced");
    });
  } catch (const Error& error) {
    Failure failure = error.failure();
    failure.what = c10::str("while the gradients of '", units_[bucket].name,
                            "' were reduced to their owners: ", failure.what);
    throw Error(std::move(failure));
  }
  message.call = {};
  if (wire_) widen_piece(bucket);
}

void GradientPieces::hand_out(std::size_t bucket, const gradient::GradientBuckets&,
                              const std::vector<bool>& used) {
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
  for (int index : layout_.groups[bucket].gradients) {
    const auto i = static_cast<std::size_t>(index);
    if (!used[i]) continue;
    const at::Tensor& parameter = parameters_[i].tensor;
    if (!elsewhere_[i].defined()) elsewhere_[i] = replica::gradient_elsewhere(parameter);
    parameter.mutable_grad() = elsewhere_[i];
  }
}

void GradientPieces::end_step() {
  messages_.assign(units_.size(), {});
  started_ = 0;
}

void GradientPieces::release() {
  drop_grads();
  messages_.clear();
  pieces_.clear();
  halves_.clear();
  elsewhere_.clear();
  zeros_.reset();
}

}  // namespace paceline::shard
