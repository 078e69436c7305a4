#include "paceline/core/server/lbfgs_on_servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/core/base/check.h"
#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/job/server_words.h"
#include "paceline/core/server/declaring.h"
#include "paceline/core/server/made_tables.h"
#include "paceline/core/server/run_failures.h"
#include "paceline/core/server/vectors/vector_member.h"
#include "paceline/core/transport/memory/available_memory.h"

namespace paceline::server {
namespace {

VectorShape shape_of(Job& job, const LbfgsSettings& settings) {
  PACELINE_CHECK(job.role() == Role::worker,
                 "'{}': a server leads no iterations; it gets the workers' by paceline::serve(job)",
                 settings.name);
  VectorShape shape{.name = settings.name,
                    .elements = settings.elements,
                    .dtype = settings.dtype,
                    .samples = settings.samples,
                    .portion = settings.portion,
                    .history = settings.history,
                    .members = TableMembers::of_servers(job.world_size(), job.servers())};
  check_vectors(shape).value();
  PACELINE_CHECK(job::replicas_of(job) == 1,
                 "the vectors of an L-BFGS lie on one server each, and the job has {} replicas: "
                 "start it with --replicas 1",
                 job::replicas_of(job));
  PACELINE_CHECK(settings.first_step > 0 && settings.max_evaluations > 0 && settings.tolerance >= 0,
                 "'{}': a line search tries a step of more than 0, and evaluates once or more: "
                 "first_step is {}, max_evaluations {}, tolerance {}",
                 settings.name, settings.first_step, settings.max_evaluations, settings.tolerance);
  check_memory(shape, job.rank(), transport::memory_bound()).value();
  return shape;
}

}  // namespace

class LbfgsOnServers::Impl {
 public:
  Impl(Job& job, const LbfgsSettings& settings)
      : shape(shape_of(job, settings)),
        taken_name(MadeTables::of(job)->take(settings.name)),
        machine(shape, job.rank(),
                {settings.first_step, settings.max_evaluations, settings.tolerance}),
        run(job, declare(job, declaration_of(shape)), shape.members.all(), machine),
        values(shape.bytes()),
        gradient(shape.bytes()) {}

  void perform(VectorMember::Work work) {
    machine.do_work(std::move(work));
    run.carry_out({.kind = VectorMember::kWork});
    check();
  }

  template <typename Holds>
  void wait_for(const char* what, const Holds& holds) {
    const auto is_over = [&] { return machine.look(holds) || machine.failure(); };
    const auto movement = [this] {
      return run.pieces() + machine.look([](const auto& worker) { return worker.heard(); });
    };
    run.wait_and_ask(fmt::format("{} of '{}'", what, shape.name), is_over,
                     {.awaited = [this] { return machine.awaited(); }, .movement = movement});
    if (!machine.look(holds)) check();
  }

  // Throws what ends all calls, if anything has.
  void check() const {
    const std::string what = fmt::format("'{}'", shape.name);
    check_alive(run, what);
    if (auto found = machine.failure()) throw Error(in(what, run.cause_of(*std::move(found))));
  }

  // Copies what the machine holds, unless it was copied for this evaluation.
  bool read_values(const PortionWorker& worker, std::uint64_t evaluation) {
    if (evaluation_of_values == evaluation) return false;
    const Bytes now = worker.values();
    std::copy(now.begin(), now.end(), values.begin());
    evaluation_of_values = evaluation;
    return true;
  }

  void compute(const std::function<double(const PortionWork&)>& loss_of) {
    PortionWork work;
    machine.look([&](PortionWorker& worker) {
      const auto portion = worker.take_portion();
      work.number = static_cast<std::int64_t>(portion.number);
      work.has_new_parameters = read_values(worker, portion.evaluation);
    });
    work.begin = shape.begin_of(work.number);
    work.end = shape.end_of(work.number);
    work.parameters = parameters();
    work.gradient = {gradient.data(), shape.elements, shape.dtype};
    const double loss = loss_of(work);
    ++computed;
    perform([&](PortionWorker& worker) { return worker.computed(loss, gradient); });
  }

  ConstBuffer parameters() const { return {values.data(), shape.elements, shape.dtype}; }

  const VectorShape shape;
  const std::shared_ptr<const void> taken_name;
  VectorMember machine;
  coordination::MachineRun run;
  std::vector<std::byte> values, gradient;
  std::optional<std::uint64_t> evaluation_of_values;
  std::int64_t computed = 0;
};

LbfgsOnServers::LbfgsOnServers(Job& job, const LbfgsSettings& settings, ConstBuffer first)
    : impl_(std::make_unique<Impl>(job, settings)) {
  PACELINE_CHECK(first.count == settings.elements && first.dtype == settings.dtype &&
                     first.memory.kind == Memory::Kind::host,
                 "'{}' has {} parameters of {} in host memory, and the buffer has {} of {}",
                 settings.name, settings.elements, name_of(settings.dtype), first.count,
                 name_of(first.dtype));
  const Bytes bytes = first.bytes();
  std::copy(bytes.begin(), bytes.end(), impl_->values.begin());
  if (job.rank() != impl_->shape.coordinator()) return;
  impl_->perform([&](PortionWorker& worker) { return worker.store(bytes); });
  impl_->wait_for("the making", [](const auto& worker) { return worker.is_stored(); });
}

LbfgsOnServers::~LbfgsOnServers() = default;

LbfgsEnd LbfgsOnServers::iterate(const std::function<double(const PortionWork&)>& loss_of) {
  impl_->perform([](PortionWorker& worker) { return worker.enter(); });
  while (true) {
    impl_->wait_for("an iteration",
                    [](const auto& worker) { return worker.has_portion() || worker.is_over(); });
    if (impl_->machine.look([](const auto& worker) { return worker.is_over(); })) break;
    impl_->compute(loss_of);
  }
  const auto end = impl_->machine.look([&](PortionWorker& worker) {
    auto left = worker.leave();
    impl_->read_values(worker, left.evaluation);
    return left;
  });
  if (!end.failure.empty()) throw_misuse(end.failure);
  return {end.loss, parameters()};
}

ConstBuffer LbfgsOnServers::parameters() const {
  return impl_->parameters();
}

std::int64_t LbfgsOnServers::portions() const {
  return impl_->computed;
}

}  // namespace paceline::server
