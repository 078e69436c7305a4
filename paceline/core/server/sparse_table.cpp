#include "paceline/core/server/sparse_table.h"

#include <algorithm>
#include <cmath>
#include <list>

#include "paceline/core/base/check.h"
#include "paceline/core/server/sparse/sparse_machine.h"
#include "paceline/core/server/table_run.h"

namespace paceline::server {
namespace {

using machine::Time;

}  // namespace

class SparseTable::Impl : public TableRun<SparseMachine> {
 public:
  using TableRun::TableRun;

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

  std::list<SharedPlan> plans;
  std::list<Ahead> ahead;
  SparseFigures figures;
};

SparseTable::SparseTable(Job& job, const SparseTableSpec& spec,
                         const std::optional<TableMembers>& members)
    : impl_(std::make_shared<Impl>(job, shape_in<SparseMachine>(job, spec, members),
                                   is_by_servers(job, members))) {
  if (!impl_->machine.is_worker()) return;
  impl_->perform("the making", [](SparseWorker& worker, Time now) { return worker.start(now); });
  impl_->wait_for("the making", [](const auto& worker) { return worker.has_begun(); });
}

SparseTable::~SparseTable() {
  impl_->end();
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

Answer SparseTable::quiesce() {
  impl_->check_worker("quiesce");
  impl_->perform("quiesce", [](SparseWorker& worker, Time) { return worker.quiesce(); });
  return Answer([impl = impl_] {
    impl->wait_for("quiesce", [](const auto& worker) { return worker.has_quiesced(); });
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
