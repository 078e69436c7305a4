#include "paceline/core/collective/communicator.h"

#include "paceline/core/base/check.h"
#include "paceline/core/collective/communicator_impl.h"
#include "paceline/core/collective/work_state.h"

namespace paceline {

using collective::Call;
using collective::Group;
using collective::Partition;
using collective::Request;

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::~Communicator() = default;

int Communicator::rank() const { return impl_->rank; }
int Communicator::size() const { return impl_->size; }
const std::string& Communicator::name() const { return impl_->group->name(); }
Determinism Communicator::determinism() const { return impl_->determinism; }
Traffic Communicator::traffic() const { return impl_->group->traffic(); }

Communicator::Impl::Impl(std::shared_ptr<Group> g, Determinism d, std::chrono::milliseconds t)
    : group(std::move(g)),
      determinism(d),
      timeout(t),
      rank(group->mesh().identity().rank),
      size(group->mesh().identity().size),
      choice(collective::built_in_algorithms(), d,
             group->mesh().shares_memory() ? topology::kSharedMemory : topology::kLoopback) {
  group->open();
}

Communicator::Impl::~Impl() { group->close(); }

namespace {

void check_memory(ConstBuffer buffer, std::string_view what) {
  PACELINE_CHECK(buffer.memory.kind == Memory::Kind::host, "{}: a buffer lies in device memory; copy it to the host first",
                 what);
  PACELINE_CHECK(buffer.count == 0 || buffer.data != nullptr, "{}: a buffer of {} elements without memory", what, buffer.count);
  PACELINE_CHECK(buffer.count <= (std::size_t{1} << 60), "{}: {} elements are more than any memory holds", what, buffer.count);
}

void check_reduction(std::string_view what, ReduceOp op, Dtype dtype) {
  PACELINE_CHECK(op != ReduceOp::average || is_floating(dtype),
                 "{}: the average of {} is no {}; sum them and divide, or convert to f64", what, name_of(dtype), name_of(dtype));
  PACELINE_CHECK(can_reduce(op, dtype), "{}: there is no {} of {}: bits are combined of integers and bools", what, name_of(op),
                 name_of(dtype));
}

// `part` lies at `at` elements of `whole`, or the two do not overlap at all.
void check_overlap(std::string_view what, ConstBuffer whole, ConstBuffer part, std::size_t at) {
  const std::byte *w = whole.data, *p = part.data;
  const bool apart = part.count == 0 || w + whole.size_bytes() <= p || p + part.size_bytes() <= w;
  PACELINE_CHECK(apart || p == w + at * size_of(whole.dtype),
                 "{}: input and output overlap without being the same memory; use one buffer for both, or two apart", what);
}

}  // namespace

Work Communicator::Impl::submit(Request request, std::string_view algorithm, std::chrono::milliseconds within) {
  Call& call = request.call;
  const std::size_t element = size_of(call.dtype);
  if (call.operation != Operation::barrier) {
    const collective::Shape shape{.ranks = size, .rank = rank, .root = call.root};
    const auto& chosen = choice.algorithm(call.operation, algorithm, shape, call.count * element);
    call.algorithm = chosen.name;
    request.plan = plan(chosen, shape);
    request.partition = Partition::even(call.count, request.plan->chunks);
    request.segments = segment_count(request.partition, element, group->mesh().shares_memory());
  }
  request.deadline = Deadline::in(within.count() > 0 ? within : timeout);
  if (const auto failure = group->mesh().failure()) throw Error(*failure);
  request.work = group->new_work(to_string(call));
  Work work(request.work);
  Group::submit(group, std::move(request));
  return work;
}

std::shared_ptr<const collective::Plan> Communicator::Impl::plan(const collective::Algorithm& algorithm,
                                                                 const collective::Shape& shape) {
  const std::lock_guard lock(mutex);
  auto& known = plans[{&algorithm, shape.root}];
  if (!known) known = make_plan(algorithm.build(shape), shape.ranks);
  return known;
}

Work Communicator::all_reduce(Buffer inout, const AllReduceOptions& options) { return all_reduce(inout, inout, options); }

Work Communicator::all_reduce(ConstBuffer in, Buffer out, const AllReduceOptions& options) {
  check_memory(in, "all_reduce");
  check_memory(out, "all_reduce");
  check_reduction("all_reduce", options.op, in.dtype);
  PACELINE_CHECK(in.dtype == out.dtype && in.count == out.count, "all_reduce: input is {}[{}], output {}[{}]; they must be equal",
                 name_of(in.dtype), in.count, name_of(out.dtype), out.count);
  check_overlap("all_reduce", in, out, 0);
  PACELINE_CHECK(!options.weight || options.op == ReduceOp::average,
                 "all_reduce: a weight goes with ReduceOp::average, not with {}", name_of(options.op));
  PACELINE_CHECK(!options.weight || (*options.weight >= 0 && *options.weight < 1e300),
                 "all_reduce: weight {} must be finite and not negative", options.weight.value_or(0));
  PACELINE_CHECK(options.note.size() <= collective::kLongestNote, "all_reduce: a note of {} bytes, at most {} are carried",
                 options.note.size(), collective::kLongestNote);
  Request request;
  request.call = {.operation = Operation::all_reduce, .op = options.op, .dtype = in.dtype, .count = in.count};
  request.call.weighted = options.weight.has_value();
  request.call.weight = options.weight.value_or(1);
  request.call.note.assign(options.note.begin(), options.note.end());
  request.scale_input = options.weight.has_value();
  request.input = in;
  request.output = out;
  return impl_->submit(std::move(request), options.algorithm, options.within);
}

Work Communicator::reduce_scatter(ConstBuffer in, Buffer out, const ReduceScatterOptions& options) {
  check_memory(in, "reduce_scatter");
  check_memory(out, "reduce_scatter");
  check_reduction("reduce_scatter", options.op, in.dtype);
  const collective::Range own = Partition::even(in.count, size()).chunks[static_cast<std::size_t>(rank())];
  PACELINE_CHECK(in.dtype == out.dtype && out.count == own.count,
                 "reduce_scatter: {}[{}] over {} ranks gives rank {} {}[{}], but its output is {}[{}]", name_of(in.dtype), in.count,
                 size(), rank(), name_of(in.dtype), own.count, name_of(out.dtype), out.count);
  check_overlap("reduce_scatter", in, out, own.offset);
  Request request;
  request.call = {.operation = Operation::reduce_scatter, .op = options.op, .dtype = in.dtype, .count = in.count};
  request.input = in;
  request.output = out;
  request.output_origin = own.offset;
  return impl_->submit(std::move(request), options.algorithm, options.within);
}

Work Communicator::all_gather(ConstBuffer in, Buffer out, const OperationOptions& options) {
  check_memory(in, "all_gather");
  check_memory(out, "all_gather");
  const collective::Range own = Partition::even(out.count, size()).chunks[static_cast<std::size_t>(rank())];
  PACELINE_CHECK(in.dtype == out.dtype && in.count == own.count,
                 "all_gather: {}[{}] over {} ranks takes {}[{}] of rank {}, but its input is {}[{}]", name_of(out.dtype), out.count,
                 size(), name_of(out.dtype), own.count, rank(), name_of(in.dtype), in.count);
  check_overlap("all_gather", out, in, own.offset);
  Request request;
  request.call = {.operation = Operation::all_gather, .dtype = out.dtype, .count = out.count};
  request.input = in;
  request.output = out;
  request.input_origin = own.offset;
  return impl_->submit(std::move(request), options.algorithm, options.within);
}

Work Communicator::broadcast(Buffer inout, int root, const OperationOptions& options) {
  check_memory(inout, "broadcast");
  PACELINE_CHECK(root >= 0 && root < size(), "broadcast: root {} is not in 0..{}", root, size() - 1);
  Request request;
  request.call = {.operation = Operation::broadcast, .dtype = inout.dtype, .root = root, .count = inout.count};
  request.input = inout;
  request.output = inout;
  return impl_->submit(std::move(request), options.algorithm, options.within);
}

Work Communicator::barrier(const OperationOptions& options) {
  PACELINE_CHECK(options.algorithm.empty(), "barrier: it has no algorithms; every call is told to every rank, and that is it");
  Request request;
  request.call = {.operation = Operation::barrier};
  return impl_->submit(std::move(request), {}, options.within);
}

collective::PointToPoint::Transfer Communicator::Impl::transfer(std::string_view what, ConstBuffer buffer, int peer,
                                                                const PointToPointOptions& options) {
  check_memory(buffer, what);
  PACELINE_CHECK(peer >= 0 && peer < size, "{}: rank {} is not in 0..{}", what, peer, size - 1);
  if (const auto failure = group->mesh().failure()) throw Error(*failure);
  return {.peer = peer,
          .tag = options.tag,
          .source = {},
          .target = {},
          .deadline = Deadline::in(options.within.count() > 0 ? options.within : timeout),
          .work = group->new_work(fmt::format("{} {}[{}] with rank {}", what, name_of(buffer.dtype), buffer.count, peer))};
}

Work Communicator::send(ConstBuffer data, int to, const PointToPointOptions& options) {
  auto transfer = impl_->transfer("send", data, to, options);
  transfer.source = data;
  Work work(transfer.work);
  Group::submit_send(impl_->group, std::move(transfer));
  return work;
}

Work Communicator::recv(Buffer into, int from, const PointToPointOptions& options) {
  auto transfer = impl_->transfer("recv", into, from, options);
  transfer.target = into;
  Work work(transfer.work);
  Group::submit_recv(impl_->group, std::move(transfer));
  return work;
}

}  // namespace paceline
