#include "paceline/core/collective/group/communicator.h"

#include <algorithm>
#include <exception>

#include "paceline/core/base/check.h"
#include "paceline/core/base/half.h"
#include "paceline/core/collective/call/arguments.h"
#include "paceline/core/collective/call/work_state.h"
#include "paceline/core/collective/carrier/engine_carrier.h"
#include "paceline/core/collective/engine/enlist.h"
#include "paceline/core/collective/group/communicator_impl.h"
#include "paceline/core/collective/group/device_carrier.h"
#include "paceline/core/collective/program/contract.h"
#include "paceline/core/collective/staging/staged_call.h"

namespace paceline {

using collective::BoardCarrier;
using collective::Call;
using collective::check_equal;
using collective::check_host_memory;
using collective::check_memory;
using collective::check_overlap;
using collective::check_part;
using collective::check_reduction;
using collective::Group;
using collective::Partition;
using collective::Request;
using collective::Route;

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::~Communicator() {
  // A child of fork() can end nothing of its parent's, whose locks may be held there for ever.
  if (!impl_->group->reactor()->is_of_this_process()) (void)impl_.release();
}

int Communicator::rank() const {
  return impl_->rank;
}
int Communicator::size() const {
  return impl_->size;
}
const std::string& Communicator::name() const {
  return impl_->group->name();
}
topology::Topology Communicator::topology() const {
  return impl_->group->members().topology();
}
Determinism Communicator::determinism() const {
  return impl_->determinism;
}
std::vector<std::string_view> Communicator::algorithms(Operation operation, Dtype dtype,
                                                       ReduceOp op) const {
  if (!collective::is_carried_by_programs(operation)) return {};
  auto names =
      impl_->choice.names(operation, impl_->shape, impl_->needs_one_rounding(operation, op, dtype));
  if (has_board(impl_->route_facts, {.operation = operation, .op = op, .dtype = dtype}))
    names.push_back(kBoard);
  return names;
}

namespace {

// REQUIRES: a forecast. One that is not among them gets the price of the first.
std::vector<Forecast> put_first(std::string_view carrier, std::vector<Forecast> forecasts) {
  Forecast first = forecasts.front();
  const auto found = std::ranges::find(forecasts, carrier, &Forecast::carrier);
  if (found != forecasts.end()) {
    first = *found;
    forecasts.erase(found);
  }
  first.carrier = carrier;
  forecasts.insert(forecasts.begin(), first);
  return forecasts;
}

}  // namespace

std::vector<Forecast> Communicator::forecasts(Operation operation, std::size_t bytes, Dtype dtype,
                                              ReduceOp op) const {
  std::vector<Forecast> forecasts;
  if (!collective::is_carried_by_programs(operation)) return forecasts;
  for (const collective::AlgorithmCandidate& one : impl_->choice.candidates(
           operation, impl_->shape, bytes, impl_->needs_one_rounding(operation, op, dtype)))
    forecasts.push_back({one.algorithm->name, one.piece_bytes, one.seconds});
  if (has_board(impl_->route_facts, {.operation = operation, .op = op, .dtype = dtype})) {
    const double announced =
        collective::agreement_cost(impl_->group->members().topology(), impl_->profile);
    for (Forecast& one : forecasts) one.seconds += announced;
    forecasts.push_back({kBoard, bytes, impl_->board_seconds(bytes)});
    std::ranges::stable_sort(forecasts, {}, &Forecast::seconds);
  }
  return put_first(carrier(operation, bytes, dtype, op), std::move(forecasts));
}
std::string_view Communicator::carrier(Operation operation, std::size_t bytes, Dtype dtype,
                                       ReduceOp op) const {
  const Request request{
      .call = {.operation = operation, .op = op, .dtype = dtype, .count = bytes / size_of(dtype)}};
  const auto prices = [&] { return impl_->prices_of(request.call); };
  const Route route = choose_route(impl_->route_facts, request, {}, prices).route;
  if (route == Route::engine) return impl_->route_facts.engine->name;
  if (route != Route::programs || !collective::is_carried_by_programs(operation))
    return name_of(route);
  return impl_->choice
      .choose(operation, {}, impl_->shape, bytes, impl_->needs_one_rounding(operation, op, dtype))
      .algorithm->name;
}
Traffic Communicator::traffic() const {
  return impl_->group->traffic();
}
Traffic Communicator::traffic_of_all_groups() const {
  const std::lock_guard lock(impl_->family->mutex);
  Traffic total = impl_->family->ended;
  for (const auto& group : impl_->family->open) total += group->traffic();
  return total;
}
Allocation Communicator::allocate(std::size_t bytes) const {
  return membership::allocate(impl_->group->reactor(), impl_->group->members().shared_generation(),
                              bytes);
}
void Communicator::check_may_wait(std::string_view what) const {
  impl_->group->reactor()->check_may_wait(what);
}
void Communicator::abort(const std::string& reason) {
  Group::abort(impl_->group, reason);
}

void Communicator::unwind() {
  impl_->group->unwind();
}

int Communicator::world_rank(int rank) const {
  PACELINE_CHECK(rank >= 0 && rank < size(), "rank {} is not in 0..{}", rank, size() - 1);
  return impl_->group->members().world_rank(rank);
}

namespace {

Result<collective::DeviceCarrier> carrier_of(const collective::Opening& o) {
  const collective::Members members(o.generation, o.world_ranks);
  const bool is_ncclds = o.engines != nullptr && o.engines->traits().memory == Memory::Kind::cuda;
  return collective::device_carrier(collective::DeviceGroup::of(
      members, collective::RouteFacts::of(members, nullptr).shares_memory, o.determinism,
      is_ncclds ? membership::DeviceTransport::nccl : o.device_transport));
}

std::shared_ptr<collective::LateEngine> late_engine_of(
    const collective::Opening& o, const Result<collective::DeviceCarrier>& carrier) {
  const bool is_ncclds = carrier && carrier.value() == collective::DeviceCarrier::nccl;
  if (!is_ncclds || o.engines != nullptr || !o.device_engine) return nullptr;
  return std::make_shared<collective::LateEngine>(
      o.device_engine, collective::Members(o.generation, o.world_ranks), o.number);
}

collective::RouteFacts route_facts_of(const collective::Members& members,
                                      const collective::EngineLibrary* engines,
                                      const Result<collective::DeviceCarrier>& carrier,
                                      bool makes_offers) {
  collective::RouteFacts facts = collective::RouteFacts::of(members, engines);
  if (carrier) facts.devices = carrier.value();
  facts.makes_offers = makes_offers;
  return facts;
}

std::shared_ptr<Group> opened_group(const collective::Opening& o,
                                    const Result<collective::DeviceCarrier>& carrier,
                                    std::shared_ptr<collective::Engine> engine) {
  const collective::Members members(o.generation, o.world_ranks);
  if (o.engines != nullptr) {
    // The first call with buffers on devices tells all else that keeps them back.
    if (!carrier && o.engines->traits().memory == Memory::Kind::cuda)
      throw Error(in_operation(fmt::format("group '{}'", o.name), carrier.error()));
    engine = collective::enlist(*o.engines, members, o.number, *o.reactor, Deadline::in(o.timeout));
  }
  return std::make_shared<Group>(o.number, o.name, o.reactor, members, std::move(engine),
                                 o.stall_time);
}

}  // namespace

Communicator::Impl::Impl(collective::Opening opening)
    : determinism(opening.determinism),
      timeout(opening.timeout),
      profile(opening.profile),
      engines(opening.engines),
      devices(opening.devices),
      device_engine(opening.device_engine),
      device_transport(opening.device_transport),
      all_on_device(opening.all_on_device),
      staged_piece(opening.staged_piece),
      device_carrier(carrier_of(opening)),
      late_engine(late_engine_of(opening, device_carrier)),
      group(opened_group(opening, device_carrier, late_engine)),
      rank(group->members().rank()),
      size(group->members().size()),
      shape(group->members().shape()),
      choice(collective::built_in_algorithms(), determinism, group->members().topology(), profile),
      route_facts(
          route_facts_of(group->members(), engines, device_carrier, late_engine != nullptr)) {
  group->open();
  family->open.push_back(group);
}

Communicator::Impl::~Impl() {
  group->close(std::uncaught_exceptions() > exceptions);
  // A callback may end it, which the group itself has called.
  if (group->reactor()->driven_by_this_thread()) group->reactor()->post([kept = group] {});
  const std::lock_guard lock(family->mutex);
  family->ended += group->traffic();
  std::erase(family->open, group);
}

// Before it has done anything.
void Communicator::Impl::join(std::shared_ptr<Family> other) {
  family = std::move(other);
  const std::lock_guard lock(family->mutex);
  family->open.push_back(group);
}

void Communicator::Impl::check_root(std::string_view what, int root) const {
  PACELINE_CHECK(root >= 0 && root < size, "{}: root {} is not in 0..{}", what, root, size - 1);
}

Partition Communicator::Impl::parts(Call& call, Counts counts) const {
  if (counts.empty()) return Partition::even(call.count, size);
  PACELINE_CHECK(counts.size() == static_cast<std::size_t>(size), "{}: {} counts for {} ranks",
                 name_of(call.operation), counts.size(), size);
  call.counts.assign(counts.begin(), counts.end());
  return Partition::of({counts.begin(), counts.end()});
}

Partition Communicator::Impl::own_part_alone(Partition parts) const {
  parts.chunks[static_cast<std::size_t>(rank)].offset = 0;
  return parts;
}

// A chunk goes from one rank to another. This rank has its input if it is the first of them and its
// output if it is the second. Else it passes the chunk on, which only happens where all are equal.
void Communicator::Impl::place_chunks_of_pairs(Request& request) const {
  const Call& call = request.call;
  const auto ranks = static_cast<std::size_t>(size), own = static_cast<std::size_t>(rank);
  const std::size_t passed_on = call.counts.empty() ? call.count / ranks : 0;
  for (const int chunk : request.plan->program_chunks) {
    const std::size_t from = static_cast<std::size_t>(chunk) / ranks,
                      to = static_cast<std::size_t>(chunk) % ranks;
    const std::size_t count = from == own ? request.sent.chunks[to].count
                              : to == own ? request.taken.chunks[from].count
                                          : passed_on;
    request.input_chunks.chunks.push_back(
        {from == own ? request.sent.chunks[to].offset : 0, count});
    request.other_output_chunks.chunks.push_back(
        {to == own ? request.taken.chunks[from].offset : 0, count});
  }
}

bool Communicator::Impl::needs_one_rounding(Operation operation, ReduceOp op, Dtype dtype) const {
  return is_reduction(operation) && determinism == Determinism::reproducible && is_half(dtype) &&
         rounds(op, dtype);
}

// --- collectives ---------------------------------------------------------------------------------

Work Communicator::Impl::submit(Request request, std::string_view algorithm,
                                std::chrono::milliseconds within) {
  Call& call = request.call;
  if (is_on_device(request)) take_from_device(request, algorithm);
  const auto [route, is_staged] =
      collective::choose_route(route_facts, request, algorithm, [&] { return prices_of(call); });
  request.route = route;
  if (is_staged) place_on_host(request);
  if (is_posted(request.route)) {
    call.algorithm = algorithm;
    request.fingerprint = fingerprint(call);
    if (BoardCarrier::is_short(call) && !request.staged && group->try_at_once(request))
      return Work::over_at_once(size);
    algorithm = {};  // a program carries the call where this rank cannot post it
  }
  if (request.route == Route::engine) choose_engine(request);
  else if (request.route != Route::gathered && collective::is_carried_by_programs(call.operation))
    choose_program(request, algorithm);
  bring_from_device(request);
  request.deadline = Deadline::in(within.count() > 0 ? within : timeout);
  request.work = group->new_work(to_string(call, request.carrier()));
  if (request.staged) collective::let_order(*request.work, request.staged);
  Work work(request.work);
  Group::submit(group, std::move(request));
  return work;
}

Work Communicator::Impl::exchange(Request request, const OperationOptions& options) {
  const ConstBuffer in = request.input;
  std::shared_ptr<std::vector<std::byte>> copy;
  // A part that arrives from one rank may lie where the part for another rank has to leave from.
  if (in.data == request.output.data && in.count > 0 && !is_on_device(request)) {
    check_host_memory(in, "all_to_all in place");
    copy = std::make_shared<std::vector<std::byte>>(in.bytes().begin(), in.bytes().end());
    request.input.data = copy->data();
  }
  const Work work = submit(std::move(request), options.algorithm, options.within);
  if (copy) work.keep(std::move(copy));
  return work;
}

// --- programs ------------------------------------------------------------------------------------

collective::Shape Communicator::Impl::shape_with_root(int root) const {
  collective::Shape asked = shape;
  asked.root = root;
  return asked;
}

void Communicator::Impl::choose_engine(Request& request) const {
  Call& call = request.call;
  const std::string refusal = engines->refusal(engine_call(request));
  if (!refusal.empty()) throw_misuse(fmt::format("{}: {}", to_string(call), refusal));
  call.algorithm = engines->traits().name;
  if (request.memory() != Memory::Kind::host) request.scale_input = false;
}

double Communicator::Impl::board_seconds(std::size_t bytes) const {
  return collective::board_cost(bytes, group->members().owners(), group->members().topology(),
                                profile);
}

collective::RoutePrices Communicator::Impl::prices_of(const Call& call) {
  const std::size_t bytes = collective::size_class(call.count * size_of(call.dtype));
  const bool one_rounding = needs_one_rounding(call.operation, call.op, call.dtype);
  {
    const std::lock_guard lock(mutex);
    const auto known = route_prices.find({bytes, one_rounding});
    if (known != route_prices.end()) return known->second;
  }
  const collective::RoutePrices prices{
      .board = board_seconds(bytes),
      .program = choice.choose(call.operation, {}, shape, bytes, one_rounding).seconds +
                 collective::agreement_cost(group->members().topology(), profile)};
  const std::lock_guard lock(mutex);
  return route_prices[{bytes, one_rounding}] = prices;
}

void Communicator::Impl::choose_program(Request& request, std::string_view algorithm) {
  Call& call = request.call;
  const std::size_t element = size_of(call.dtype);
  const collective::AlgorithmCandidate chosen =
      choice.choose(call.operation, algorithm, shape_with_root(call.root), call.count * element,
                    needs_one_rounding(call.operation, call.op, call.dtype));
  PACELINE_CHECK(
      !chosen.algorithm->needs_equal_counts || call.counts.empty(),
      "{}: algorithm '{}' needs the same count for all pairs of ranks; call without counts, or "
      "name another algorithm",
      to_string(call), chosen.algorithm->name);
  if (call.algorithm.empty()) call.algorithm = chosen.algorithm->name;
  request.plan = plan(*chosen.algorithm, call.root);
  if (call.operation == Operation::all_to_all) place_chunks_of_pairs(request);
  else if (collective::chunks_needed(call.operation, size) == 0)
    request.input_chunks = Partition::even(call.count, request.plan->chunks);
  const std::size_t piece = std::max<std::size_t>(1, chosen.piece_bytes / element);
  const std::size_t longest = request.input_chunks.longest();
  request.segments = static_cast<int>(std::max<std::size_t>(1, (longest + piece - 1) / piece));
  if (call.operation == Operation::all_to_all)
    request.piece = piece;  // nobody knows the longest part of all
}

std::shared_ptr<const collective::ProgramPlan> Communicator::Impl::plan(
    const collective::Algorithm& algorithm, int root) {
  const std::lock_guard lock(mutex);
  auto& known = plans[{&algorithm, root}];
  if (known) return known;
  collective::Program program = algorithm.build(shape_with_root(root));
  known = algorithm.operation == Operation::all_to_all
              ? make_plan_of_touched_chunks(std::move(program), size)
              : make_plan(program, size);
  return known;
}

Work Communicator::all_reduce(Buffer inout, const AllReduceOptions& options) {
  return all_reduce(inout, inout, options);
}

double Communicator::all_reduce(double value, ReduceOp op) {
  check_may_wait("all_reduce of one number");
  all_reduce(buffer_of(std::span(&value, 1)), {.op = op}).wait();
  return value;
}

Work Communicator::all_reduce(ConstBuffer in, Buffer out, const AllReduceOptions& options) {
  check_memory(in, "all_reduce");
  check_memory(out, "all_reduce");
  check_reduction("all_reduce", options.op, in.dtype);
  check_equal("all_reduce", in, out);
  PACELINE_CHECK(!options.weight || options.op == ReduceOp::average,
                 "all_reduce: a weight goes with ReduceOp::average, not with {}",
                 name_of(options.op));
  PACELINE_CHECK(!options.weight || (*options.weight >= 0 && *options.weight < 1e300),
                 "all_reduce: weight {} must be finite and not negative",
                 options.weight.value_or(0));
  PACELINE_CHECK(options.note.size() <= collective::kLongestNote,
                 "all_reduce: a note of {} bytes, at most {} are carried", options.note.size(),
                 collective::kLongestNote);
  Request request{.input = in, .output = out};
  request.call = {
      .operation = Operation::all_reduce, .op = options.op, .dtype = in.dtype, .count = in.count};
  request.call.weighted = options.weight.has_value();
  request.call.weight = options.weight.value_or(1);
  request.call.note.assign(options.note.begin(), options.note.end());
  request.scale_input = options.weight.has_value();
  return impl_->submit(std::move(request), options.algorithm, options.within);
}

Work Communicator::reduce(Buffer inout, int root, const ReduceOptions& options) {
  return reduce(inout, inout, root, options);
}

Work Communicator::reduce(ConstBuffer in, Buffer out, int root, const ReduceOptions& options) {
  check_memory(in, "reduce");
  check_reduction("reduce", options.op, in.dtype);
  impl_->check_root("reduce", root);
  if (rank() == root) {
    check_memory(out, "reduce");
    check_equal("reduce", in, out);
  } else {
    out = {};
  }
  Request request{.input = in, .output = out};
  request.call = {.operation = Operation::reduce,
                  .op = options.op,
                  .dtype = in.dtype,
                  .root = root,
                  .count = in.count};
  return impl_->submit(std::move(request), options.algorithm, options.within);
}

Work Communicator::reduce_scatter(ConstBuffer in, Buffer out, const ReduceScatterOptions& options) {
  check_memory(in, "reduce_scatter");
  check_memory(out, "reduce_scatter");
  check_reduction("reduce_scatter", options.op, in.dtype);
  Request request{.input = in, .output = out};
  request.call = {.operation = Operation::reduce_scatter,
                  .op = options.op,
                  .dtype = in.dtype,
                  .count = in.count};
  request.input_chunks = impl_->parts(request.call, options.counts);
  check_part("reduce_scatter", in, out, request.input_chunks, rank());
  request.other_output_chunks = impl_->own_part_alone(request.input_chunks);
  return impl_->submit(std::move(request), options.algorithm, options.within);
}

Work Communicator::all_gather(ConstBuffer in, Buffer out, const GatherOptions& options) {
  check_memory(in, "all_gather");
  check_memory(out, "all_gather");
  Request request{.input = in, .output = out};
  request.call = {.operation = Operation::all_gather, .dtype = out.dtype, .count = out.count};
  request.other_output_chunks = impl_->parts(request.call, options.counts);
  check_part("all_gather", out, in, request.other_output_chunks, rank());
  request.input_chunks = impl_->own_part_alone(request.other_output_chunks);
  return impl_->submit(std::move(request), options.algorithm, options.within);
}

Work Communicator::gather(ConstBuffer in, Buffer out, int root, const GatherOptions& options) {
  check_memory(in, "gather");
  impl_->check_root("gather", root);
  Request request{.input = in};
  request.call = {.operation = Operation::gather,
                  .dtype = in.dtype,
                  .root = root,
                  .count = in.count * static_cast<std::size_t>(size())};
  request.other_output_chunks = impl_->parts(request.call, options.counts);
  request.call.count = request.other_output_chunks.count();
  if (rank() == root) {
    check_memory(out, "gather");
    check_part("gather", out, in, request.other_output_chunks, rank());
    request.output = out;
  } else {
    PACELINE_CHECK(in.count == impl_->own_part(request.other_output_chunks).count,
                   "gather: rank {} brings {} elements, its count is {}", rank(), in.count,
                   impl_->own_part(request.other_output_chunks).count);
  }
  request.input_chunks = impl_->own_part_alone(request.other_output_chunks);
  return impl_->submit(std::move(request), options.algorithm, options.within);
}

Work Communicator::scatter(ConstBuffer in, Buffer out, int root, const GatherOptions& options) {
  check_memory(out, "scatter");
  impl_->check_root("scatter", root);
  Request request{.output = out};
  request.call = {.operation = Operation::scatter,
                  .dtype = out.dtype,
                  .root = root,
                  .count = out.count * static_cast<std::size_t>(size())};
  request.input_chunks = impl_->parts(request.call, options.counts);
  request.call.count = request.input_chunks.count();
  if (rank() == root) {
    check_memory(in, "scatter");
    check_part("scatter", in, out, request.input_chunks, rank());
    request.input = in;
  } else {
    PACELINE_CHECK(out.count == impl_->own_part(request.input_chunks).count,
                   "scatter: rank {} takes {} elements, its count is {}", rank(), out.count,
                   impl_->own_part(request.input_chunks).count);
  }
  request.other_output_chunks = impl_->own_part_alone(request.input_chunks);
  return impl_->submit(std::move(request), options.algorithm, options.within);
}

Work Communicator::all_to_all(ConstBuffer in, Buffer out, const OperationOptions& options) {
  check_memory(in, "all_to_all");
  check_memory(out, "all_to_all");
  const auto ranks = static_cast<std::size_t>(size());
  PACELINE_CHECK(
      in.count % ranks == 0 && out.count == in.count,
      "all_to_all: {} elements for {} elements cannot be cut into {} equal parts; give counts",
      in.count, out.count, ranks);
  check_equal("all_to_all", in, out);
  Request request{.input = in, .output = out};
  request.call = {.operation = Operation::all_to_all, .dtype = in.dtype, .count = in.count};
  request.sent = request.taken = Partition::even(in.count, size());
  return impl_->exchange(std::move(request), options);
}

Work Communicator::all_to_all(ConstBuffer in, Counts send_counts, Buffer out, Counts recv_counts,
                              const OperationOptions& options) {
  check_memory(in, "all_to_all");
  check_memory(out, "all_to_all");
  Request request{.input = in, .output = out};
  request.call = {.operation = Operation::all_to_all, .dtype = in.dtype};
  const Partition& sent = request.sent = impl_->parts(request.call, send_counts);
  request.call.expected.assign(recv_counts.begin(), recv_counts.end());
  PACELINE_CHECK(recv_counts.size() == send_counts.size() && !send_counts.empty(),
                 "all_to_all: {} and {} counts for {} ranks", send_counts.size(),
                 recv_counts.size(), size());
  const Partition& taken = request.taken = Partition::of({recv_counts.begin(), recv_counts.end()});
  PACELINE_CHECK(
      in.dtype == out.dtype && in.count == sent.count() && out.count == taken.count(),
      "all_to_all: input is {}[{}] and output {}[{}], but the counts add up to {} and {}",
      name_of(in.dtype), in.count, name_of(out.dtype), out.count, sent.count(), taken.count());
  PACELINE_CHECK(sent.chunks[static_cast<std::size_t>(rank())].count ==
                     taken.chunks[static_cast<std::size_t>(rank())].count,
                 "all_to_all: rank {} sends itself {} elements and expects {}", rank(),
                 sent.chunks[static_cast<std::size_t>(rank())].count,
                 taken.chunks[static_cast<std::size_t>(rank())].count);
  check_overlap("all_to_all", in, out, 0);
  return impl_->exchange(std::move(request), options);
}

Work Communicator::broadcast(Buffer inout, int root, const OperationOptions& options) {
  check_memory(inout, "broadcast");
  impl_->check_root("broadcast", root);
  Request request{.input = inout, .output = inout};
  request.call = {
      .operation = Operation::broadcast, .dtype = inout.dtype, .root = root, .count = inout.count};
  return impl_->submit(std::move(request), options.algorithm, options.within);
}

Work Communicator::barrier(const OperationOptions& options) {
  PACELINE_CHECK(options.algorithm.empty(),
                 "barrier: it has no algorithms to choose from; call it without a name");
  Request request;
  request.call = {.operation = Operation::barrier};
  return impl_->submit(std::move(request), {}, options.within);
}

}  // namespace paceline
