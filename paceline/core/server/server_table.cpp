#include "paceline/core/server/server_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>

#include "paceline/core/base/check.h"
#include "paceline/core/job/job_links.h"
#include "paceline/core/membership/generation/generation_port.h"
#include "paceline/core/server/declaring.h"
#include "paceline/core/server/machine/table_machine.h"
#include "paceline/core/server/waking_machine.h"

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Time;

TableMembers members_of(const Job& job, const std::optional<TableMembers>& given) {
  if (given) return *given;
  return job.servers() > 0 ? TableMembers::of_servers(job.world_size(), job.servers())
                           : TableMembers::of_ranks(job.world_size());
}

}  // namespace

class Table::Impl {
 public:
  Impl(Job& job, TableShape of)
      : shape(std::move(of)),
        links(job::links_of(job)),
        machine(shape, job.rank()),
        waking(machine, *links.reactor),
        port(links.reactor, links.generation, shape.number(), waking, {}, shape.members.all()) {}

  // Carries out on the driver what the worker does, and returns when it is sent.
  void perform(const char* what, const TableMachine::Work& work) {
    links.reactor->check_may_wait(fmt::format("{} of table '{}'", what, shape.spec.name));
    auto is_done = std::make_shared<std::atomic<bool>>(false);
    machine.do_work([work, is_done](WorkerMachine& worker, Time now) {
      Actions actions = work(worker, now);
      *is_done = true;
      return actions;
    });
    port.tell({.kind = TableMachine::kWork});
    wait(what, [is_done] { return is_done->load(); });
  }

  void wait(const char* what, const std::function<bool()>& done) {
    const auto is_over = [&] {
      return done() || machine.failure() || links.generation->is_failing();
    };
    const bool over = links.reactor->drive_until(is_over, Deadline::in(links.timeout));
    if (done()) return;
    check_alive(what);
    if (const auto failure = machine.failure()) throw Error(*failure);
    if (over) return;
    throw Error({Fault::timed_out,
                 fmt::format("{} of table '{}' had no answer for {} ms; look at the servers' and "
                             "the other workers' logs, or let them wait longer: paceline run "
                             "--operation-timeout TIME",
                             what, shape.spec.name, links.timeout.count()),
                 {}});
  }
  void check_alive(const char* what) const {
    try {
      job::check_alive(links);
    } catch (const Error& error) {
      Failure failure = error.failure();
      failure.what = fmt::format("{} of table '{}': {}", what, shape.spec.name, failure.what);
      throw Error(std::move(failure));
    }
  }
  // Waits until the worker's side is as `holds` says.
  template <typename Holds>
  void wait_for(const char* what, const Holds& holds) {
    wait(what, [this, &holds] { return machine.read(holds); });
  }

  void check(const char* what, const ConstBuffer& buffer) const {
    PACELINE_CHECK(machine.is_worker(), "{}: this rank only serves table '{}'", what,
                   shape.spec.name);
    PACELINE_CHECK(
        buffer.count == shape.spec.elements && buffer.dtype == shape.spec.dtype &&
            buffer.memory.kind == Memory::Kind::host,
        "{}: table '{}' has {} elements of {} in host memory, and the buffer has {} of {}", what,
        shape.spec.name, shape.spec.elements, name_of(shape.spec.dtype), buffer.count,
        name_of(buffer.dtype));
  }

  void check_state(const RuleState& state) const {
    const auto slots = static_cast<std::size_t>(shape.rule.entry.slots);
    const std::size_t bytes = shape.spec.elements * shape.element_bytes();
    const auto fits = [&](const auto& slot) { return slot.size() == bytes; };
    PACELINE_CHECK((state.slots.empty() || state.slots.size() == slots) &&
                       std::ranges::all_of(state.slots, fits) && state.steps >= 0,
                   "assign: the state of {} has {} slots of the table's {} bytes, or none",
                   shape.rule.entry.name, slots, bytes);
  }

  void check_pull(const char* what, const ConstBuffer& values) const {
    check(what, values);
    PACELINE_CHECK(machine.read([](const auto& worker) { return worker.has_pulled(); }),
                   "{}: the last pull of table '{}' is under way: wait for it first", what,
                   shape.spec.name);
  }
  static Answer answer_with_values(const char* what, Buffer values,
                                   const std::shared_ptr<Impl>& self) {
    return Answer([what, values, self] {
      self->wait_for(what, [](const auto& worker) { return worker.has_pulled(); });
      self->machine.read([&](const auto& worker) {
        std::memcpy(values.data, worker.values().data(), worker.values().size());
      });
    });
  }

  std::vector<double> settings_of(const PushOptions& options) const {
    std::vector<double> values = values_of(shape.rule);
    const auto set = [&](std::string_view name, double value) {
      const auto& known = shape.rule.entry.settings;
      const auto found = std::ranges::find(known, name, &Setting::name);
      PACELINE_CHECK(found != known.end(), "push: {} has no setting '{}'", shape.rule.entry.name,
                     name);
      PACELINE_CHECK(value >= found->least && value <= found->most,
                     "push: {} of {} is {}, outside {} .. {}", name, shape.rule.entry.name, value,
                     found->least, found->most);
      values[static_cast<std::size_t>(found - known.begin())] = value;
    };
    if (options.rate) set("rate", *options.rate);
    for (const auto& [name, value] : options.settings) set(name, value);
    return values;
  }

  const TableShape shape;
  const job::JobLinks links;
  TableMachine machine;
  WakingMachine waking;
  membership::GenerationPort port;
  const int exceptions = std::uncaught_exceptions();
};

// No packet comes where the table is not there yet: the barrier makes sure of that among ranks, and
// the servers' answer elsewhere.
Table::Table(Job& job, const TableSpec& spec, const std::optional<TableMembers>& members) {
  PACELINE_CHECK(
      job.role() == Role::worker,
      "table '{}': a server makes no tables; it gets the workers' by paceline::serve(job)",
      spec.name);
  impl_ = std::make_shared<Impl>(job, shape_of(spec, members_of(job, members)).value());
  if (job.servers() > 0 && !members) declare(job, spec);
  else job.world().barrier().wait();
}

// A worker that unwinds says nothing: its end tells the others.
Table::~Table() {
  Impl& impl = *impl_;
  if (std::uncaught_exceptions() > impl.exceptions) return;
  try {
    if (impl.machine.is_worker()) {
      impl.perform("the end", [](WorkerMachine& worker, Time) { return worker.leave(); });
      impl.wait_for("the end", [](const auto& worker) { return worker.has_left(); });
    }
    impl.wait("the end", [&] { return !impl.machine.serves_members(); });
  } catch (const Error&) {  // the others have ended, or hear of this end
  }
}

bool Table::is_worker() const {
  return impl_->machine.is_worker();
}

Answer Table::assign(ConstBuffer values, const RuleState& state) {
  impl_->check("assign", values);
  impl_->check_state(state);
  const bool gives =
      impl_->links.generation->identity().rank == impl_->shape.members.workers.front();
  const Bytes bytes = gives ? values.bytes() : Bytes{};
  impl_->perform("assign",
                 [&](WorkerMachine& worker, Time) { return worker.assign(bytes, state); });
  return Answer([impl = impl_] {
    impl->wait_for("assign", [](const auto& worker) { return worker.is_assigned(); });
  });
}

Answer Table::push(ConstBuffer update, const PushOptions& options) {
  impl_->check("push", update);
  PACELINE_CHECK(std::isfinite(options.weight) && options.weight >= 0,
                 "push: its weight is {}: it is a finite number of at least 0", options.weight);
  PACELINE_CHECK(impl_->machine.read([](const auto& worker) { return worker.may_push(); }),
                 "push: table '{}' must be pulled between two pushes under {}",
                 impl_->shape.spec.name, impl_->shape.spec.synchrony);
  const std::vector<double> settings = impl_->settings_of(options);
  impl_->wait_for("push", [](const auto& worker) { return worker.can_push(); });
  impl_->perform("push", [&](WorkerMachine& worker, Time) {
    return worker.push(update.bytes(), options.weight, settings);
  });
  const auto number = impl_->machine.read([](const auto& worker) { return worker.pushes(); });
  return Answer([impl = impl_, number] {
    impl->wait_for("push", [=](const auto& worker) { return worker.answered() >= number; });
  });
}

Answer Table::pull(Buffer values) {
  impl_->check_pull("pull", values);
  impl_->perform("pull", [](WorkerMachine& worker, Time) { return worker.pull(); });
  return Impl::answer_with_values("pull", values, impl_);
}

Answer Table::rest(Buffer values) {
  impl_->check_pull("rest", values);
  impl_->perform("rest", [](WorkerMachine& worker, Time) { return worker.rest(); });
  return Impl::answer_with_values("rest", values, impl_);
}

RuleState Table::take_rule_state() {
  auto state = std::make_shared<RuleState>();
  impl_->perform("the state", [state](WorkerMachine& worker, Time) {
    *state = worker.take_state();
    return Actions{};
  });
  return std::move(*state);
}

std::int64_t Table::clock() const {
  return impl_->machine.read([](const auto& worker) { return worker.clock(); });
}

std::uint64_t Table::dropped() const {
  return impl_->machine.read([](const auto& worker) { return worker.dropped(); });
}

TableFigures Table::figures() const {
  return impl_->machine.read([](const auto& worker) {
    const RowFacts& facts = worker.facts();
    return TableFigures{facts.version, facts.applied, worker.dropped(), facts.weight,
                        worker.staleness()};
  });
}

}  // namespace paceline::server
