#include "paceline/core/server/server_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "paceline/core/base/check.h"
#include "paceline/core/base/log.h"
#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/job/server_words.h"
#include "paceline/core/server/declaring.h"
#include "paceline/core/server/machine/table_machine.h"
#include "paceline/core/server/made_tables.h"
#include "paceline/core/transport/memory/available_memory.h"

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Time;

}  // namespace

class Table::Impl {
 public:
  Impl(Job& job, TableShape of, std::uint32_t number, std::shared_ptr<const void> taken)
      : shape(std::move(of)),
        taken_name(std::move(taken)),
        machine(shape, job.rank()),
        run(job, number, shape.members.all(), machine) {
    if (shape.spec.replicas > 1) watch.emplace(job, [this](Bytes chains) { hear(chains); });
  }
  void hear(Bytes chains) {
    run.tell({.kind = TableMachine::kChains, .payload = {chains.begin(), chains.end()}});
  }

  // Carries out on the driver what the worker does, and returns when it is sent.
  void perform(const char* what, TableMachine::Work work) {
    run.links().reactor->check_may_wait(text_of(what));
    do_on_driver(std::move(work));
    check(what);
  }
  void do_on_driver(TableMachine::Work work) {
    machine.do_work(std::move(work));
    run.carry_out({.kind = TableMachine::kWork});
  }

  void wait(const char* what, const std::function<bool()>& done,
            const coordination::Questions& questions) {
    const auto is_over = [&] { return done() || machine.failure(); };
    run.wait_and_ask(text_of(what), is_over, questions);
    if (!done()) check(what);
  }
  // Throws what ends all calls, if anything has.
  void check(const char* what) const {
    try {
      job::check_alive(run.links());
    } catch (const Error& error) {
      Failure failure = error.failure();
      failure.what = fmt::format("{}: {}", text_of(what), failure.what);
      throw Error(std::move(failure));
    }
    if (auto found = machine.failure()) {
      Failure failure = run.cause_of(*std::move(found));
      if (failure.fault == Fault::peer_lost)
        failure.what = fmt::format("{}: {}", text_of(what), failure.what);
      throw Error(std::move(failure));
    }
  }
  std::string text_of(const char* what) const {
    return fmt::format("{} of table '{}'", what, shape.spec.name);
  }
  // Waits until the worker's side is as `holds` says.
  template <typename Holds>
  void wait_for(const char* what, const Holds& holds) {
    const auto of_worker = [this](const auto& look) {
      return [this, look] { return machine.read(look); };
    };
    const auto ask = [this] {
      do_on_driver([](WorkerMachine& worker, Time) { return worker.ask(); });
    };
    const auto movement = [this] {
      return run.pieces() + machine.read([](const auto& worker) { return worker.movement(); });
    };
    wait(what, of_worker(holds),
         {.ask = ask,
          .are_answered = of_worker([](const auto& worker) { return worker.has_heard(); }),
          .awaited = of_worker([](const auto& worker) { return worker.awaited(); }),
          .movement = movement});
  }
  // Waits until the workers of the ranges that this rank serves have left.
  void wait_for_workers() {
    const auto awaited = [this] {
      coordination::Awaited those;
      for (const int member : machine.served()) those.lacks(member, "ended it");
      return those;
    };
    wait("the end", [this] { return !machine.serves_members(); },
         {.ask = [] {},
          .are_answered = [] { return true; },
          .awaited = awaited,
          .movement = [this] { return machine.served().size(); }});
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
  std::shared_ptr<const void> taken_name;  // until the table ends; Answers may outlive it
  TableMachine machine;
  coordination::MachineRun run;
  std::optional<job::MapWatch> watch;  // of the chains of servers
  const int exceptions = std::uncaught_exceptions();
};

// No packet comes where the table is not there yet: the barrier makes sure of that among ranks;
// elsewhere servers only answer, and have the table before its workers.
Table::Table(Job& job, const TableSpec& spec, const std::optional<TableMembers>& members) {
  PACELINE_CHECK(
      job.role() == Role::worker,
      "table '{}': a server makes no tables; it gets the workers' by paceline::serve(job)",
      spec.name);
  const bool by_servers = job.servers() > 0 && !members;
  TableSpec own = spec;
  own.replicas = by_servers ? job::replicas_of(job) : 1;
  TableShape shape = shape_of(own, members_of(job, members)).value();
  check_memory(shape, job.rank(), transport::memory_bound()).value();
  const auto made = MadeTables::of(job);
  auto name = made->take(spec.name);
  const std::uint32_t number = by_servers ? declare(job, own) : made->number_among_ranks(spec.name);
  impl_ = std::make_shared<Impl>(job, std::move(shape), number, std::move(name));
  if (!by_servers) job.world().barrier().wait();
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
    impl.wait_for_workers();
  } catch (const Error& error) {  // the others have ended, or hear of this end
    if (error.fault() == Fault::timed_out) warn(error.what());
  }
  impl.taken_name.reset();
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
