#include "paceline/core/server/sparse_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <list>

#include "paceline/core/base/check.h"
#include "paceline/core/base/log.h"
#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/job/server_words.h"
#include "paceline/core/server/declaring.h"
#include "paceline/core/server/made_tables.h"
#include "paceline/core/server/sparse/sparse_machine.h"

namespace paceline::server {
namespace {

using machine::Actions;
using machine::Time;

}  // namespace

class SparseTable::Impl {
 public:
  Impl(Job& job, SparseShape of, std::uint32_t number, std::shared_ptr<const void> taken)
      : shape(std::move(of)),
        taken_name(std::move(taken)),
        machine(shape, job.rank()),
        run(job, number, shape.members.all(), machine) {
    if (shape.spec.replicas > 1) watch.emplace(job, [this](Bytes chains) { hear(chains); });
  }
  void hear(Bytes chains) {
    run.tell({.kind = SparseMachine::kChains, .payload = {chains.begin(), chains.end()}});
  }

  // Carries out on the driver what the worker does, and returns when it is sent.
  void perform(const char* what, SparseMachine::Work work) {
    run.links().reactor->check_may_wait(text_of(what));
    do_on_driver(std::move(work));
    check(what);
  }
  void do_on_driver(SparseMachine::Work work) {
    machine.do_work(std::move(work));
    run.carry_out({.kind = SparseMachine::kWork});
  }

  // Throws what ends all calls, if anything has.
  void check(const char* what) const {
    const auto named = [&](Failure failure) {
      failure.what = fmt::format("{}: {}", text_of(what), failure.what);
      return Error(std::move(failure));
    };
    try {
      job::check_alive(run.links());
    } catch (const Error& error) {
      throw named(error.failure());
    }
    auto found = machine.failure();
    if (!found) return;
    Failure failure = run.cause_of(*std::move(found));
    throw failure.fault == Fault::peer_lost ? named(std::move(failure)) : Error(std::move(failure));
  }
  std::string text_of(const char* what) const {
    return fmt::format("{} of sparse table '{}'", what, shape.spec.name);
  }

  // Waits until the worker's side is as `holds` says.
  template <typename Holds>
  void wait_for(const char* what, const Holds& holds) {
    const auto of_worker = [this](const auto& look) {
      return [this, look] { return std::as_const(machine).look(look); };
    };
    wait(what, of_worker(holds),
         {.ask = [this] { do_on_driver([](SparseWorker& worker, Time) { return worker.ask(); }); },
          .are_answered = of_worker([](const auto& worker) { return worker.has_heard(); }),
          .awaited = of_worker([](const auto& worker) { return worker.awaited(); }),
          .movement =
              [this] {
                return run.pieces() +
                       machine.look([](const auto& worker) { return worker.movement(); });
              }});
  }
  // Waits until the workers that this rank serves have left.
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
  void wait(const char* what, const std::function<bool()>& done,
            const coordination::Questions& questions) {
    const auto is_over = [&] { return done() || machine.failure(); };
    run.wait_and_ask(text_of(what), is_over, questions);
    if (!done()) check(what);
  }

  void check_worker(const char* what) const {
    PACELINE_CHECK(machine.is_worker(), "{}: this rank only serves sparse table '{}'", what,
                   shape.spec.name);
  }
  void check(const char* what, std::size_t ids, const ConstBuffer& buffer) const {
    check_worker(what);
    PACELINE_CHECK(buffer.count == ids * shape.spec.width && buffer.dtype == shape.spec.dtype &&
                       buffer.memory.kind == Memory::Kind::host,
                   "{}: {} ids of sparse table '{}' have {} elements of {} in host memory, and the "
                   "buffer has {} of {}",
                   what, ids, shape.spec.name, ids * shape.spec.width, name_of(shape.spec.dtype),
                   buffer.count, name_of(buffer.dtype));
  }

  // A pull and the push after it have the same ids, so that the last few plans are made once.
  SharedPlan plan_for(std::span<const std::int64_t> ids) {
    const auto is_same = [&](const SharedPlan& plan) {
      return std::ranges::equal(plan->given, ids);
    };
    const auto known = std::ranges::find_if(plans, is_same);
    if (known != plans.end()) return *known;
    constexpr std::size_t kMostPlans = 4;
    if (plans.size() == kMostPlans) plans.pop_front();
    plans.push_back(plan_of(ids, shape));
    return plans.back();
  }

  // Returns the number of a new pull.
  std::uint64_t begin_pull(const char* what, const SharedPlan& plan, bool is_ahead) {
    forget_stale();
    perform(what, [&](SparseWorker& worker, Time) { return worker.pull(plan, is_ahead); });
    return machine.look([](const auto& worker) { return worker.last_pull(); });
  }
  // Rows that were fetched for a step which is over.
  void forget_stale() {
    machine.look([this](SparseWorker& worker) {
      std::erase_if(ahead, [&](const Ahead& one) {
        if (one.clock >= worker.clock()) return false;
        worker.forget(one.pull);
        return true;
      });
    });
  }
  std::optional<std::uint64_t> take_ahead(const SharedPlan& plan) {
    const std::int64_t clock = machine.look([](const auto& worker) { return worker.clock(); });
    const auto found = std::ranges::find_if(ahead, [&](const Ahead& one) {
      return one.clock == clock && one.plan->given == plan->given;
    });
    if (found == ahead.end()) return std::nullopt;
    const std::uint64_t pull = found->pull;
    ahead.erase(found);
    figures.rows_ahead += plan->given.size();
    return pull;
  }
  void wait_for_rows(const char* what, std::uint64_t pull, MutableBytes rows) {
    wait_for(what, [pull](const auto& worker) { return worker.has_pulled(pull); });
    machine.look([&](SparseWorker& worker) { worker.take_rows(pull, rows); });
  }
  // The slowest worker may be so far behind that a push must wait. An empty pull waits for it.
  void wait_until_may_push() {
    if (machine.look([](const auto& worker) { return worker.may_push(); })) return;
    wait_for_rows("push", begin_pull("push", plan_for({}), false), {});
  }

  void exchange(const char* what, const SparsePacket& packet) {
    perform(what, [&](SparseWorker& worker, Time) { return worker.exchange(packet); });
    wait_for(what, [](const auto& worker) { return worker.has_exchanged(); });
  }
  std::size_t row_bytes() const { return shape.value_bytes() + shape.state_bytes(); }
  // Rows that travel in a message.
  std::size_t rows_at_a_time() const {
    constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
    return std::max<std::size_t>(kPieceBytes / row_bytes(), 1);
  }
  void fetch_arc(std::uint64_t arc, StoredRows& rows) {
    SparsePacket packet{.kind = SparseKind::fetch,
                        .share = static_cast<std::uint32_t>(arc % shape.servers()),
                        .clock = static_cast<std::int64_t>(shape.place_of(arc)),
                        .count = rows_at_a_time()};
    while (true) {
      exchange("the saving", packet);
      const auto of_arc = machine.look([&](const auto& worker) {
        add_fetched(worker.fetched(), rows);
        return worker.fetched().of_arc;
      });
      packet.sequence += packet.count;
      if (packet.sequence >= of_arc) return;
    }
  }
  void add_fetched(const SparseWorker::Fetched& fetched, StoredRows& rows) const {
    rows.rule_steps = std::max(rows.rule_steps, fetched.rule_steps);
    rows.ids.insert(rows.ids.end(), fetched.ids.begin(), fetched.ids.end());
    const std::byte* row = fetched.rows.data();
    for (std::size_t i = 0; i < fetched.ids.size(); ++i, row += row_bytes()) {
      rows.values.insert(rows.values.end(), row, row + shape.value_bytes());
      rows.state.insert(rows.state.end(), row + shape.value_bytes(), row + row_bytes());
    }
  }
  // Sends the rows of these numbers to the share that has them.
  void store_piece(std::size_t share, std::span<const std::size_t> numbers,
                   const StoredRows& rows) {
    IdList ids;
    std::vector<std::byte> bytes;
    bytes.reserve(numbers.size() * row_bytes());
    const auto append = [&](const std::vector<std::byte>& from, std::size_t number,
                            std::size_t each) {
      const auto at = from.begin() + static_cast<std::ptrdiff_t>(number * each);
      bytes.insert(bytes.end(), at, at + static_cast<std::ptrdiff_t>(each));
    };
    for (const std::size_t number : numbers) {
      ids.push_back(static_cast<std::uint64_t>(rows.ids[number]));
      append(rows.values, number, shape.value_bytes());
      append(rows.state, number, shape.state_bytes());
    }
    exchange("the loading", {.kind = SparseKind::store,
                             .share = static_cast<std::uint32_t>(share),
                             .clock = rows.rule_steps,
                             .count = numbers.size(),
                             .ids = std::make_shared<const IdList>(std::move(ids)),
                             .rows = bytes});
  }

  struct Ahead {
    std::uint64_t pull = 0;
    std::int64_t clock = 0;  // at which they are read
    SharedPlan plan;
  };

  const SparseShape shape;
  std::shared_ptr<const void> taken_name;  // until the table ends; Answers may outlive it
  std::list<SharedPlan> plans;
  std::list<Ahead> ahead;
  SparseFigures figures;
  SparseMachine machine;
  coordination::MachineRun run;
  std::optional<job::MapWatch> watch;  // of the chains of servers
  const int exceptions = std::uncaught_exceptions();
};

// No packet comes where the table is not there yet: the barrier makes sure of that among ranks;
// elsewhere servers only answer, and have the table before its workers.
SparseTable::SparseTable(Job& job, const SparseTableSpec& spec,
                         const std::optional<TableMembers>& members) {
  PACELINE_CHECK(job.role() == Role::worker,
                 "sparse table '{}': a server makes no tables; it gets the workers' by "
                 "paceline::serve(job)",
                 spec.name);
  const bool by_servers = job.servers() > 0 && !members;
  SparseTableSpec own = spec;
  own.replicas = by_servers ? job::replicas_of(job) : 1;
  SparseShape shape = shape_of(own, members_of(job, members)).value();
  const auto made = MadeTables::of(job);
  auto name = made->take(spec.name);
  const std::uint32_t number = by_servers ? declare(job, own) : made->number_among_ranks(spec.name);
  impl_ = std::make_shared<Impl>(job, std::move(shape), number, std::move(name));
  if (!by_servers) job.world().barrier().wait();
  if (!impl_->machine.is_worker()) return;
  impl_->perform("the making", [](SparseWorker& worker, Time now) { return worker.start(now); });
  impl_->wait_for("the making", [](const auto& worker) { return worker.has_begun(); });
}

// A worker that unwinds says nothing: its end tells the others.
SparseTable::~SparseTable() {
  Impl& impl = *impl_;
  if (std::uncaught_exceptions() > impl.exceptions) return;
  try {
    if (impl.machine.is_worker()) {
      impl.perform("the end", [](SparseWorker& worker, Time) { return worker.leave(); });
      impl.wait_for("the end", [](const auto& worker) { return worker.has_left(); });
    }
    impl.wait_for_workers();
  } catch (const Error& error) {  // the others have ended, or hear of this end
    if (error.fault() == Fault::timed_out) warn(error.what());
  }
  impl.taken_name.reset();
}

const SparseTableSpec& SparseTable::spec() const {
  return impl_->shape.spec;
}

double SparseTable::rate() const {
  return impl_->shape.settings.front();
}

int SparseTable::workers() const {
  return static_cast<int>(impl_->shape.members.workers.size());
}

int SparseTable::worker() const {
  const auto& all = impl_->shape.members.workers;
  const auto own = std::ranges::find(all, impl_->run.links().generation->identity().rank);
  return own == all.end() ? -1 : static_cast<int>(own - all.begin());
}

bool SparseTable::is_worker() const {
  return impl_->machine.is_worker();
}

Answer SparseTable::pull(std::span<const std::int64_t> ids, Buffer rows) {
  impl_->check("pull", ids.size(), rows);
  const SharedPlan plan = impl_->plan_for(ids);
  impl_->figures.rows_pulled += ids.size();
  std::optional<std::uint64_t> number = impl_->take_ahead(plan);
  if (!number) number = impl_->begin_pull("pull", plan, false);
  return Answer([impl = impl_, number = *number, rows] {
    impl->wait_for_rows("pull", number, rows.bytes());
  });
}

void SparseTable::prefetch(std::span<const std::int64_t> ids) {
  impl_->check_worker("prefetch");
  const SharedPlan plan = impl_->plan_for(ids);
  const std::uint64_t pull = impl_->begin_pull("prefetch", plan, true);
  impl_->ahead.push_back({pull, clock() + 1, plan});
}

Answer SparseTable::push(std::span<const std::int64_t> ids, ConstBuffer gradients,
                         const SparsePushOptions& options) {
  impl_->check("push", ids.size(), gradients);
  PACELINE_CHECK(std::isfinite(options.weight) && options.weight >= 0,
                 "push: its weight is {}: it is a finite number of at least 0", options.weight);
  const double own_rate = options.rate.value_or(rate());
  PACELINE_CHECK(std::isfinite(own_rate) && own_rate >= 0,
                 "push: its rate is {}: it is a finite number of at least 0", own_rate);
  const SharedPlan plan = impl_->plan_for(ids);
  impl_->figures.rows_pushed += ids.size();
  impl_->wait_until_may_push();
  impl_->wait_for("push", [](const auto& worker) { return worker.can_push(); });
  impl_->perform("push", [&](SparseWorker& worker, Time) {
    return worker.push(plan, summed_rows(*plan, gradients.bytes(), impl_->shape), options.weight,
                       own_rate);
  });
  const auto number = impl_->machine.look([](const auto& worker) { return worker.pushes(); });
  return Answer([impl = impl_, number] {
    impl->wait_for("push", [=](const auto& worker) { return worker.answered() >= number; });
  });
}

Answer SparseTable::rest() {
  impl_->check_worker("rest");
  impl_->perform("rest", [](SparseWorker& worker, Time) { return worker.rest(); });
  return Answer([impl = impl_] {
    impl->wait_for("rest", [](const auto& worker) { return worker.has_rested(); });
  });
}

StoredRows SparseTable::stored(int part, int parts) {
  impl_->check_worker("the saving");
  PACELINE_CHECK(parts > 0 && part >= 0 && part < parts, "part {} of {} of sparse table '{}'", part,
                 parts, spec().name);
  StoredRows rows;
  for (auto arc = static_cast<std::uint64_t>(part); arc < impl_->shape.arcs();
       arc += static_cast<std::uint64_t>(parts))
    impl_->fetch_arc(arc, rows);
  return rows;
}

// Every share is told how many steps the rule has made, also one that gets no rows.
void SparseTable::store(const StoredRows& rows) {
  impl_->check_worker("the loading");
  const SparseShape& shape = impl_->shape;
  PACELINE_CHECK(rows.values.size() == rows.ids.size() * shape.value_bytes() &&
                     rows.state.size() == rows.ids.size() * shape.state_bytes(),
                 "store: {} ids of sparse table '{}' have {} bytes of values and {} of state, and "
                 "{} and {} were given: the width, dtype or rule is another one",
                 rows.ids.size(), shape.spec.name, rows.ids.size() * shape.value_bytes(),
                 rows.ids.size() * shape.state_bytes(), rows.values.size(), rows.state.size());
  PACELINE_CHECK(rows.rule_steps >= 0, "store: a state of {} steps", rows.rule_steps);
  std::vector<std::vector<std::size_t>> numbers(shape.servers());
  for (std::size_t i = 0; i < rows.ids.size(); ++i) {
    PACELINE_CHECK(static_cast<std::uint64_t>(rows.ids[i]) < kIdBound,
                   "store: id {} has more than 48 bits", rows.ids[i]);
    numbers[shape.share_of(hash_of_id(static_cast<std::uint64_t>(rows.ids[i])))].push_back(i);
  }
  for (std::size_t share = 0; share < numbers.size(); ++share) {
    std::span<const std::size_t> left = numbers[share];
    do {
      const std::size_t count = std::min(left.size(), impl_->rows_at_a_time());
      impl_->store_piece(share, left.first(count), rows);
      left = left.subspan(count);
    } while (!left.empty());
  }
}

std::size_t SparseTable::state_elements() const {
  return impl_->shape.state_bytes() / impl_->shape.element_bytes();
}

std::int64_t SparseTable::clock() const {
  return impl_->machine.look([](const auto& worker) { return worker.clock(); });
}

SparseFigures SparseTable::figures() const {
  SparseFigures all = impl_->figures;
  impl_->machine.look([&all](const auto& worker) {
    const SparseTraffic& traffic = worker.traffic();
    all.lists = traffic.lists;
    all.hashes = traffic.hashes;
    all.unknown = traffic.unknown;
    all.ids_saved = traffic.ids_saved;
    const SparseWorker::Stored stored = worker.stored();
    all.rows = stored.rows;
    all.rows_counted = stored.counted;
    all.rows_evicted = stored.evicted;
  });
  return all;
}

}  // namespace paceline::server
