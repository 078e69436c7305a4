#include "paceline/core/server/server_table.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "paceline/core/base/check.h"
#include "paceline/core/server/machine/table_machine.h"
#include "paceline/core/server/table_run.h"
#include "paceline/core/transport/memory/available_memory.h"

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Time;

}  // namespace

class Table::Impl : public TableRun<TableMachine> {
 public:
  using TableRun::TableRun;

  void check(const char* what, const ConstBuffer& buffer) const {
    check_worker(what);
    PACELINE_CHECK(
        buffer.count == shape.spec.elements && buffer.dtype == shape.spec.dtype &&
            buffer.memory.kind == Memory::Kind::host,
        "{}: table '{}' has {} elements of {} in host memory, and the buffer has {} of {}", what,
        shape.spec.name, shape.spec.elements, name_of(shape.spec.dtype), buffer.count,
        name_of(buffer.dtype));
  }

  void check_state(const RuleState& state) const {
    const std::size_t slots = shape.slots();
    const std::size_t bytes = shape.spec.elements * shape.element_bytes();
    const auto fits = [&](const auto& slot) { return slot.size() == bytes; };
    PACELINE_CHECK((state.slots.empty() || state.slots.size() == slots) &&
                       std::ranges::all_of(state.slots, fits) && state.steps >= 0,
                   "assign: the state of {} has {} slots of the table's {} bytes, or none",
                   shape.rule.entry.name, slots, bytes);
  }

  void check_pull(const char* what, const ConstBuffer& values) const {
    check(what, values);
    PACELINE_CHECK(machine.look([](const auto& worker) { return worker.has_pulled(); }),
                   "{}: the last pull of table '{}' is under way: wait for it first", what,
                   shape.spec.name);
  }
  static Answer answer_with_values(const char* what, Buffer values,
                                   const std::shared_ptr<Impl>& self) {
    return Answer([what, values, self] {
      self->wait_for(what, [](const auto& worker) { return worker.has_pulled(); });
      self->machine.look([&](const auto& worker) {
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
};

Table::Table(Job& job, const TableSpec& spec, const std::optional<TableMembers>& members) {
  TableShape shape = shape_in<TableMachine>(job, spec, members);
  check_memory(shape, job.rank(), transport::memory_bound()).value();
  impl_ = std::make_shared<Impl>(job, std::move(shape), is_by_servers(job, members));
}

Table::~Table() {
  impl_->end();
}

bool Table::is_worker() const {
  return impl_->machine.is_worker();
}

Answer Table::assign(ConstBuffer values, const RuleState& state) {
  impl_->check("assign", values);
  impl_->check_state(state);
  const bool gives =
      impl_->run.links().generation->identity().rank == impl_->shape.members.workers.front();
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
  PACELINE_CHECK(impl_->machine.look([](const auto& worker) { return worker.may_push(); }),
                 "push: table '{}' must be pulled between two pushes under {}",
                 impl_->shape.spec.name, impl_->shape.spec.synchrony);
  const std::vector<double> settings = impl_->settings_of(options);
  impl_->wait_for("push", [](const auto& worker) { return worker.can_push(); });
  impl_->perform("push", [&](WorkerMachine& worker, Time) {
    return worker.push(update.bytes(), options.weight, settings);
  });
  const auto number = impl_->machine.look([](const auto& worker) { return worker.pushes(); });
  return Answer([impl = impl_, number] {
    impl->wait_for("push", [=](const auto& worker) { return worker.answered() >= number; });
  });
}

Answer Table::pull(Buffer values) {
  impl_->check_pull("pull", values);
  impl_->perform("pull", [](WorkerMachine& worker, Time) { return worker.pull(); });
  return Impl::answer_with_values("pull", values, impl_);
}

Answer Table::quiesce(Buffer values) {
  impl_->check_pull("quiesce", values);
  impl_->perform("quiesce", [](WorkerMachine& worker, Time) { return worker.quiesce(); });
  return Impl::answer_with_values("quiesce", values, impl_);
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
  return impl_->machine.look([](const auto& worker) { return worker.clock(); });
}

std::uint64_t Table::dropped() const {
  return impl_->machine.look([](const auto& worker) { return worker.dropped(); });
}

TableFigures Table::figures() const {
  return impl_->machine.look([](const auto& worker) {
    const RowFacts& facts = worker.facts();
    return TableFigures{facts.version, facts.applied, worker.dropped(), facts.weight,
                        worker.staleness()};
  });
}

}  // namespace paceline::server
