#include "paceline/core/server/serve.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <list>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/base/log.h"
#include "paceline/core/coordination/coordination.h"
#include "paceline/core/job/job_links.h"
#include "paceline/core/server/declaring.h"
#include "paceline/core/server/machine/sum_server.h"
#include "paceline/core/server/machine/table_register.h"
#include "paceline/core/server/regions/link_regions.h"
#include "paceline/core/server/served_chains.h"
#include "paceline/core/server/served_table.h"
#include "paceline/core/server/table/table_numbers.h"
#include "paceline/core/server/vectors/vector_server.h"
#include "paceline/core/transport/memory/available_memory.h"

namespace paceline {
namespace server {
namespace {

using coordination::Awaited;
using coordination::MachineRun;
using membership::member_names;

constexpr std::chrono::milliseconds kBetweenShows(200);

std::string size_text(const AnyTableSpec& spec) {
  if (const auto* const dense = std::get_if<TableSpec>(&spec))
    return fmt::format(" of {} elements", dense->elements);
  return fmt::format(" of rows of {} elements", std::get<SparseTableSpec>(spec).width);
}

// Vectors of a full-batch L-BFGS, as their server has them.
class ServedVectors {
 public:
  ServedVectors(Job& job, int own, VectorShape of, std::uint32_t number)
      : shape_(std::move(of)),
        machine_(shape_, own),
        run_(job, number, shape_.members.all(), machine_) {}

  bool is_over() const { return !machine_.serves_members(); }

 private:
  const VectorShape shape_;
  VectorServer machine_;
  MachineRun run_;
};

class Serving {
 public:
  explicit Serving(Job& job)
      : job_(job),
        links_(job::links_of(job)),
        members_(TableMembers::of_servers(job.world_size(), job.servers())),
        own_(links_.generation->identity().rank),
        name_(links_.generation->identity().name_of(own_)),
        register_(job.world_size(), own_),
        run_(job, kRegisterGroup, members_.all(), register_),
        user_(*links_.generation),
        sums_(job.world_size(), &user_),
        sums_run_(job, kSumGroup, members_.all(), sums_) {
    if (job::replicas_of(job) > 1) chains_.emplace(job, members_, own_);
    if (job::is_late(job)) run_.tell(TableRegister::question());
  }

  void run() {
    while (true) {
      const auto is_something_to_do = [this] {
        return has_news() || register_.has_agreed() || register_.all_have_left() ||
               links_.generation->is_failing() ||
               std::ranges::any_of(tables_, &ServedNumbers::is_over) ||
               std::ranges::any_of(sparse_, &ServedSparse::is_over) ||
               std::ranges::any_of(vectors_, &ServedVectors::is_over);
      };
      links_.reactor->drive_until(is_something_to_do, Deadline::in(kBetweenShows));
      links_.reactor->run([this] { show(); });
      job::check_alive(links_);
      tell_of_the_last();
      close_tables();
      if (chains_) follow_chains();
      if (const auto agreed = register_.take_agreed()) open(*agreed);
      else if (register_.all_have_left()) return;
    }
  }

 private:
  // For `paceline top`. THREAD: the driver.
  void show() {
    transport::RankStatus::Serves now{.pushes = sums_.pushes()};
    for_each_table([&](const auto& table) { table.add_to(now); });
    if (chains_) {
      const std::string places = chains_->places();
      places.copy(now.chains.data(), now.chains.size() - 1);
    }
    links_.reactor->status().served(now);
    const auto moved = std::pair(now.pushes, register_.left().size());
    if (std::exchange(moved_, moved) != moved) quiet_until_ = Deadline::in(links_.stall_time);
  }

  // All workers have left these. A server that came late may hear so from another one alone.
  void close_tables() {
    const std::size_t before = tables_.size() + sparse_.size();
    std::set<std::uint32_t> over;
    for_each_table([&](const auto& table) {
      if (table.is_over()) over.insert(table.number());
    });
    for (const std::uint32_t number : over)
      if (chains_) tell(RegisterKind::closed, number);
    while (const auto closed = register_.take_closed()) over.insert(*closed);
    const auto is_over = [&](const auto& table) { return over.contains(table.number()); };
    tables_.remove_if(is_over);
    sparse_.remove_if(is_over);
    vectors_.remove_if(std::mem_fn(&ServedVectors::is_over));
    if (tables_.size() + sparse_.size() < before) reported_changes_ = kNotReported;
  }
  template <typename Do>
  void for_each_table(const Do& act) {
    for (auto& table : tables_) act(table);
    for (auto& table : sparse_) act(table);
  }

  bool has_news() const {
    return chains_ &&
           (chains_->have_changed() || changes() != reported_changes_ || register_.has_opened());
  }
  std::uint64_t changes() const {
    std::uint64_t changes = tables_.size() + sparse_.size();
    for (const ServedNumbers& table : tables_) changes += table.changes();
    for (const ServedSparse& table : sparse_) changes += table.changes();
    return changes;
  }

  // Tables hear of the chains of the moment, and the launcher of this server's place in them. A
  // server that came late opens the tables that the others have.
  void follow_chains() {
    while (const auto opened = register_.take_opened()) {
      try {
        std::visit([&](const auto& one) { keep(one, opened->number); }, opened->spec);
        tell(RegisterKind::open, opened->number);
      } catch (const std::bad_alloc&) {
        throw Error({Fault::misuse,
                     fmt::format("{} has no memory for table '{}'{}, which it is to keep in the "
                                 "place of a server that has ended",
                                 name_, name_of(opened->spec), size_text(opened->spec)),
                     {own_}});
      }
    }
    if (const auto chains = chains_->take_change())
      for_each_table([&](auto& table) { table.hear(*chains); });
    reported_changes_ = changes();
    std::vector<std::vector<ChainReport>> reports;
    for_each_table([&](const auto& table) { reports.push_back(table.reports()); });
    chains_->report(reports);
  }

  // Some workers have left, and the others neither push nor leave.
  void tell_of_the_last() {
    const std::set<int> left = register_.left();
    if (left.empty() || !quiet_until_.passed()) return;
    Awaited last;
    for (const int worker : members_.workers)
      if (!left.contains(worker)) last.lacks(worker, "ended its Job");
    quiet_until_ = Deadline::never();
    if (last.blamed().empty()) return;
    const int ranks = links_.generation->identity().ranks();
    warn(coordination::stall_text(
        links_.stall_time,
        fmt::format("{} waits in the end of the job for {}, as {} did", name_, last.text(ranks),
                    member_names({left.begin(), left.end()}, ranks))));
  }

  void open(const TableRegister::Opened& agreed) {
    const auto& [number, spec] = agreed;
    const auto refuse = [&](std::string_view why) {
      tell(RegisterKind::refused, std::as_bytes(std::span(why)));
    };
    try {
      std::visit([&](const auto& one) { keep(one, agreed.number); }, spec);
    } catch (const Error& error) {
      return refuse(fmt::format("{}: {}", name_, error.what()));
    } catch (const std::bad_alloc&) {
      return refuse(
          fmt::format("{} has no memory for table '{}'{}: start more servers, or place them on "
                      "other hosts by --server-hosts",
                      name_, name_of(spec), size_text(spec)));
    }
    log_debug(fmt::format("{} has table '{}'{}", name_, name_of(spec), size_text(spec)));
    tell(RegisterKind::open, number);
  }

  void tell(RegisterKind kind, Bytes payload) {
    run_.tell(
        {.kind = static_cast<std::uint32_t>(kind), .payload = {payload.begin(), payload.end()}});
  }
  void tell(RegisterKind kind, std::uint32_t number) {
    tell(kind, std::as_bytes(std::span(&number, 1)));
  }

  void keep(const TableSpec& spec, std::uint32_t number) {
    if (spec.synchrony == kVectorsSynchrony) return open_vectors(spec, number);
    TableShape shape = shape_of(spec, members_).value();
    check_memory(shape, own_, transport::memory_bound()).value();
    keep_in(tables_, std::move(shape), number);
  }
  void keep(const SparseTableSpec& spec, std::uint32_t number) {
    keep_in(sparse_, shape_of(spec, members_).value(), number);
  }
  template <typename Tables, typename Shape>
  void keep_in(Tables& tables, Shape shape, std::uint32_t number) {
    tables.emplace_back(job_, own_, std::move(shape), number,
                        chains_ ? std::optional(chains_->now()) : std::nullopt);
    // A server that joins the chains of the moment begins to ask for its parts when it hears them.
    if (chains_) tables.back().hear(encode(chains_->now()));
  }

  void open_vectors(const TableSpec& spec, std::uint32_t number) {
    VectorShape shape = vector_shape_of(spec, members_).value();
    check_memory(shape, own_, transport::memory_bound()).value();
    vectors_.emplace_back(job_, own_, std::move(shape), number);
  }

  Job& job_;
  const job::JobLinks links_;
  const TableMembers members_;
  const int own_;
  const std::string name_;
  TableRegister register_;
  MachineRun run_;
  LinkRegionUser user_;
  SumServer sums_;
  MachineRun sums_run_;
  std::optional<ServedChains> chains_;  // where each range has several servers
  std::list<ServedNumbers> tables_;
  std::list<ServedSparse> sparse_;
  static constexpr std::uint64_t kNotReported = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t reported_changes_ = 0;  // changes() at the last report
  std::list<ServedVectors> vectors_;
  std::pair<std::int64_t, std::size_t> moved_ = {};  // pushes, and workers that have left
  Deadline quiet_until_;
};

}  // namespace
}  // namespace server

void serve(Job& job) {
  PACELINE_CHECK(job.role() == Role::server,
                 "serve: this process is rank {}, a worker; servers are started by `paceline run "
                 "--servers`",
                 job.rank());
  server::Serving(job).run();
}

}  // namespace paceline
