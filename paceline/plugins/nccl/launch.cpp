#include "paceline/plugins/nccl/launch.h"

#include <algorithm>

namespace paceline::nccl {
namespace {

using collective::ElementRange;
using collective::EngineCall;

// Makes the calls between group_start and group_end, and keeps the first error.
class Launch {
 public:
  Launch(const NcclFunctions& nccl, const NcclRank& at, const EngineCall& call, const Words& words)
      : nccl_(nccl), at_(at), call_(call), words_(words), element_(size_of(call.dtype)) {}

  Status run();

 private:
  // Data without a reduction move as bytes, whatever their type.
  std::byte* output(ElementRange range) const {
    return call_.output.data + range.offset * element_;
  }
  const std::byte* input(ElementRange range) const {
    return call_.input.data + range.offset * element_;
  }
  void take(Status status) {
    if (status != Status::success && status != Status::in_progress && status_ == Status::success)
      status_ = status;
  }
  void send(const std::byte* from, std::size_t count, int peer) {
    if (count > 0) take(nccl_.send(from, count * element_, Type::u8, peer, at_.comm, at_.stream));
  }
  void recv(std::byte* into, std::size_t count, int peer) {
    if (count > 0) take(nccl_.recv(into, count * element_, Type::u8, peer, at_.comm, at_.stream));
  }
  // Copies this rank's own part, unless it is already in place.
  void keep_own(const std::byte* from, std::byte* into, std::size_t count) {
    if (from == into) return;
    send(from, count, at_.rank);
    recv(into, count, at_.rank);
  }
  void start();
  void reduce_scatter();
  void all_gather();
  void gather();
  void scatter();
  void all_to_all();

  const NcclFunctions& nccl_;
  const NcclRank& at_;
  const EngineCall& call_;
  const Words& words_;
  const std::size_t element_;
  Status status_ = Status::success;
};

bool all_equal(const std::vector<ElementRange>& parts) {
  return std::ranges::all_of(
      parts, [&](const ElementRange& part) { return part.count == parts[0].count; });
}

Status Launch::run() {
  if (const Status begun = nccl_.group_start(); begun != Status::success) return begun;
  start();
  const Status ended = nccl_.group_end();
  return status_ != Status::success ? status_ : ended;
}

void Launch::start() {
  const EngineCall& c = call_;
  switch (c.operation) {
    case Operation::all_reduce:
      take(nccl_.all_reduce(c.input.data, c.output.data, c.input.count, words_.type, words_.op,
                            at_.comm, at_.stream));
      break;
    case Operation::reduce:
      take(nccl_.reduce(c.input.data, c.output.data, c.input.count, words_.type, words_.op, c.root,
                        at_.comm, at_.stream));
      break;
    case Operation::broadcast:
      take(nccl_.broadcast(c.input.data, c.output.data, c.output.size_bytes(), Type::u8, c.root,
                           at_.comm, at_.stream));
      break;
    case Operation::reduce_scatter: reduce_scatter(); break;
    case Operation::all_gather: all_gather(); break;
    case Operation::gather: gather(); break;
    case Operation::scatter: scatter(); break;
    default: all_to_all(); break;
  }
}

void Launch::reduce_scatter() {
  if (all_equal(call_.sent)) {
    take(nccl_.reduce_scatter(call_.input.data, call_.output.data, call_.output.count, words_.type,
                              words_.op, at_.comm, at_.stream));
    return;
  }
  for (int root = 0; root < at_.ranks; ++root) {
    const ElementRange part = call_.sent[static_cast<std::size_t>(root)];
    if (part.count == 0) continue;
    take(nccl_.reduce(input(part), root == at_.rank ? call_.output.data : nullptr, part.count,
                      words_.type, words_.op, root, at_.comm, at_.stream));
  }
}

void Launch::all_gather() {
  if (all_equal(call_.taken)) {
    take(nccl_.all_gather(call_.input.data, call_.output.data, call_.input.size_bytes(), Type::u8,
                          at_.comm, at_.stream));
    return;
  }
  for (int root = 0; root < at_.ranks; ++root) {
    const ElementRange part = call_.taken[static_cast<std::size_t>(root)];
    if (part.count == 0) continue;
    const std::byte* from = root == at_.rank ? call_.input.data : output(part);
    take(nccl_.broadcast(from, output(part), part.count * element_, Type::u8, root, at_.comm,
                         at_.stream));
  }
}

void Launch::gather() {
  if (at_.rank != call_.root) return send(call_.input.data, call_.input.count, call_.root);
  for (int peer = 0; peer < at_.ranks; ++peer) {
    const ElementRange part = call_.taken[static_cast<std::size_t>(peer)];
    if (peer == at_.rank) keep_own(call_.input.data, output(part), part.count);
    else recv(output(part), part.count, peer);
  }
}

void Launch::scatter() {
  if (at_.rank != call_.root) return recv(call_.output.data, call_.output.count, call_.root);
  for (int peer = 0; peer < at_.ranks; ++peer) {
    const ElementRange part = call_.sent[static_cast<std::size_t>(peer)];
    if (peer == at_.rank) keep_own(input(part), call_.output.data, part.count);
    else send(input(part), part.count, peer);
  }
}

void Launch::all_to_all() {
  for (int peer = 0; peer < at_.ranks; ++peer) {
    const ElementRange to = call_.sent[static_cast<std::size_t>(peer)];
    const ElementRange from = call_.taken[static_cast<std::size_t>(peer)];
    send(input(to), to.count, peer);
    recv(output(from), from.count, peer);
  }
}

}  // namespace

Status launch(const NcclFunctions& nccl, const NcclRank& at, const EngineCall& call,
              const Words& words) {
  return Launch(nccl, at, call, words).run();
}

}  // namespace paceline::nccl
