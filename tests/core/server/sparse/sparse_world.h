// Workers that train rows of a sparse table, in virtual time or in one loop over a dense table.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/reduce.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/machine/virtual_network.h"
#include "paceline/core/server/sparse/sparse_machine.h"
#include "tests/core/server/machine/virtual_chains.h"

namespace paceline::test {

// Every worker's gradient is half of the rows that it pulled, plus noise that follows from a seed.
struct SparseWork {
  std::uint64_t seed = 1;
  int workers = 3, steps = 8;
  std::size_t width = 5;
  bool has_equal_weights = false;
  // Gradients are -1, so that with one over the number of workers as the rate, and rows that begin
  // with zeros, each row counts the pushes to it.
  bool counts = false;
  bool leaves = false;  // at the end
  static constexpr std::uint64_t kIds = 40;

  static std::vector<std::int64_t> all_ids() {
    std::vector<std::int64_t> all;
    for (std::uint64_t id = 0; id < kIds; ++id) all.push_back(static_cast<std::int64_t>(id));
    return all;
  }
  // With repetitions, and every third step the same as before.
  std::vector<std::int64_t> ids(int worker, std::int64_t step) const {
    if (step % 3 == 2) --step;
    SeededNumbers numbers(
        mix(mix(seed, static_cast<std::uint64_t>(worker)), static_cast<std::uint64_t>(step)));
    std::vector<std::int64_t> some(numbers.below(20));
    for (std::int64_t& id : some) id = static_cast<std::int64_t>(numbers.below(kIds - 3));
    return some;
  }
  double weight(int worker) const { return has_equal_weights ? 1 : 1 + worker % 3; }
  double noise(int worker, std::int64_t step, std::size_t element) const {
    SeededNumbers numbers(mix(
        mix(mix(seed + 1, static_cast<std::uint64_t>(worker)), static_cast<std::uint64_t>(step)),
        element));
    return numbers.unit() - 0.25;
  }
  // A row for each id, of the rows that were pulled.
  template <typename T>
  std::vector<T> gradient(int worker, std::int64_t step, const std::vector<T>& rows) const {
    std::vector<T> all(rows.size(), T(-1));
    for (std::size_t i = 0; i < rows.size() && !counts; ++i)
      all[i] = T(0.5) * rows[i] + static_cast<T>(noise(worker, step, i));
    return all;
  }

  // How often each id has been pushed, by the workers' first steps.
  std::vector<double> pushed(int worker, std::int64_t before) const {
    std::vector<double> times(kIds);
    for (std::int64_t step = 0; step < before; ++step)
      for (const std::int64_t id : ids(worker, step)) ++times[static_cast<std::size_t>(id)];
    return times;
  }
  std::vector<double> pushed_by_all() const {
    std::vector<double> all(kIds);
    for (int worker = 0; worker < workers; ++worker) {
      const std::vector<double> own = pushed(worker, steps);
      for (std::size_t id = 0; id < kIds; ++id) all[id] += own[id];
    }
    return all;
  }

  // The rows of all ids, after all steps of a dense table under bsp, whose first rows are those of
  // `shape`.
  template <typename T>
  std::vector<T> dense(const server::SparseShape& shape) const {
    std::vector<T> values(kIds * width);
    for (std::uint64_t id = 0; id < kIds; ++id)
      server::begin_row(shape, id, reinterpret_cast<std::byte*>(values.data() + id * width));
    const server::Rule& rule = shape.rule.choice.entry;
    std::vector<std::vector<T>> slots(static_cast<std::size_t>(rule.slots),
                                      std::vector<T>(values.size()));
    std::vector<std::byte*> places;
    for (auto& slot : slots) places.push_back(reinterpret_cast<std::byte*>(slot.data()));
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::vector<T> mean = dense_mean(step, values);
      rule.step({.dtype = dtype_of<T>(),
                 .count = values.size(),
                 .value = reinterpret_cast<std::byte*>(values.data()),
                 .gradient = reinterpret_cast<const std::byte*>(mean.data()),
                 .slots = places,
                 .number = step + 1,
                 .settings = shape.settings});
    }
    return values;
  }

  template <typename T>
  std::vector<T> dense_mean(std::int64_t step, const std::vector<T>& values) const {
    std::vector<std::vector<T>> terms;
    double total = 0;
    for (int worker = 0; worker < workers; ++worker) {
      const auto given = ids(worker, step);
      std::vector<T> rows, whole(values.size());
      for (const std::int64_t id : given)
        for (std::size_t at = 0; at < width; ++at)
          rows.push_back(values[static_cast<std::size_t>(id) * width + at]);
      const std::vector<T> all = gradient(worker, step, rows);
      for (std::size_t i = 0; i < all.size(); ++i)
        whole[static_cast<std::size_t>(given[i / width]) * width + i % width] += all[i];
      if (weight(worker) != 1) scale(dtype_of<T>(), buffer_of(whole).bytes(), weight(worker));
      total += weight(worker);
      terms.push_back(std::move(whole));
    }
    sum_in_place(terms, [](std::vector<T> left, const std::vector<T>& right) {
      reduce(ReduceOp::sum, dtype_of<T>(), const_buffer_of(left).bytes(),
             const_buffer_of(right).bytes(), buffer_of(left).bytes());
      return left;
    });
    scale(dtype_of<T>(), buffer_of(terms.front()).bytes(), 1 / total);
    return terms.front();
  }
};

// The workers of a world that counts have seen these counts: whoever asks later sees no less.
struct SeenCounts {
  std::vector<double> most = std::vector<double>(SparseWork::kIds);
  std::string complaint;
};

// A worker that does this work on a machine of its own.
class SparseTrainer final : public machine::Machine {
 public:
  enum Kind : std::uint32_t { kStart = 1000 };  // told from outside

  SparseTrainer(const server::SparseShape& shape, int member, bool prefetches,
                const SparseWork& work, const server::SparseWorkerOptions& options)
      : table(shape, member, options),
        shape_(shape),
        member_(member),
        prefetches_(prefetches),
        work_(work) {}

  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override {
    if (message.kind == kStart) {
      phase_ = Phase::beginning;
      return perform([](Worker& one, machine::Time at) { return one.start(at); }, now);
    }
    if (from == kController)
      return go_on(
          table.on_message(
              member_, {.kind = server::SparseMachine::kChains, .payload = message.payload}, now),
          now);
    return go_on(table.on_message(from, message, now), now);
  }
  machine::Actions on_timer(std::uint32_t timer, machine::Time now) override {
    if (timer != kComputed) return go_on(table.on_timer(timer, now), now);
    return phase_ == Phase::computing ? push(now) : machine::Actions{};
  }
  machine::Actions on_lost(int peer, machine::Time now) override {
    return go_on(table.on_lost(peer, now), now);
  }

  bool is_done() const {
    return phase_ == Phase::done &&
           (!work_.leaves || table.look([](const Worker& one) { return one.has_left(); }));
  }
  SeenCounts* seen = nullptr;                                       // of a world that counts
  const std::vector<std::byte>& values() const { return values_; }  // of all ids, at the end
  server::SparseMachine table;

 private:
  enum class Phase { waiting, beginning, pulling, computing, resting, reading, done };
  static constexpr std::uint32_t kComputed = 1'000'000;
  using Worker = server::SparseWorker;

  machine::Actions perform(server::SparseMachine::Work what, machine::Time now) {
    table.do_work(std::move(what));
    return table.on_message(member_, {.kind = server::SparseMachine::kWork}, now);
  }
  machine::Actions pull(const std::vector<std::int64_t>& ids, bool ahead, machine::Time now) {
    const auto actions = perform(
        [&](Worker& one, machine::Time) { return one.pull(server::plan_of(ids, shape_), ahead); },
        now);
    pull_ = table.look([](const Worker& one) { return one.last_pull(); });
    if (seen != nullptr) {
      asked_[pull_] = {ids, seen->most};
      const std::vector<double> own = work_.pushed(member_, step_ + (ahead ? 1 : 0));
      for (const std::int64_t id : ids) {
        double& least = asked_[pull_].least[static_cast<std::size_t>(id)];
        least = std::max(least, own[static_cast<std::size_t>(id)]);
      }
    }
    return actions;
  }
  // The rows are of f64.
  void note_seen(std::uint64_t pull, const std::vector<std::byte>& rows) {
    const Asked asked = std::move(asked_.extract(pull).mapped());
    for (std::size_t i = 0; i < asked.ids.size(); ++i) {
      const auto id = static_cast<std::size_t>(asked.ids[i]);
      double count = 0;
      std::memcpy(&count, rows.data() + i * shape_.value_bytes(), sizeof count);
      if (count < asked.least[id] && seen->complaint.empty())
        seen->complaint = fmt::format(
            "worker {} at step {} saw {} pushes to row {}, after {} had been seen or were its own",
            member_, step_, count, id, asked.least[id]);
      seen->most[id] = std::max(seen->most[id], count);
    }
  }
  std::vector<std::byte> rows(std::uint64_t pull, std::size_t ids) {
    std::vector<std::byte> rows(ids * shape_.value_bytes());
    table.look([&](Worker& one) { one.take_rows(pull, rows); });
    if (seen != nullptr) note_seen(pull, rows);
    return rows;
  }

  machine::Actions go_on(machine::Actions actions, machine::Time now) {
    const auto has = [&](auto what) {
      return table.look([&](const Worker& one) { return what(one); });
    };
    const auto has_pulled = [&] {
      return has([this](const Worker& one) { return one.has_pulled(pull_); });
    };
    if (phase_ == Phase::beginning && has([](const Worker& one) { return one.has_begun(); })) {
      phase_ = Phase::pulling;
      append(actions, pull(work_.ids(member_, 0), false, now));
    } else if (phase_ == Phase::pulling && has_pulled()) {
      append(actions, compute(now));
    } else if (phase_ == Phase::resting &&
               has([](const Worker& one) { return one.has_quiesced(); })) {
      phase_ = Phase::reading;
      append(actions, pull(SparseWork::all_ids(), false, now));
    } else if (phase_ == Phase::reading && has_pulled()) {
      phase_ = Phase::done;
      values_ = rows(pull_, SparseWork::kIds);
      if (work_.leaves)
        append(actions, perform([](Worker& one, machine::Time) { return one.leave(); }, now));
    }
    return actions;
  }

  machine::Actions compute(machine::Time now) {
    const auto ids = work_.ids(member_, step_);
    pulled_ = rows(pull_, ids.size());
    phase_ = Phase::computing;
    machine::Actions actions;
    if (prefetches_ && step_ + 1 < work_.steps)
      actions = pull(work_.ids(member_, step_ + 1), true, now);
    SeededNumbers numbers(
        mix(mix(work_.seed, 99), static_cast<std::uint64_t>(member_ + 7 * step_)));
    actions.emplace_back(
        machine::Arm{kComputed, now + std::chrono::microseconds(numbers.below(3000))});
    return actions;
  }

  template <typename T>
  std::vector<std::byte> gradient() const {
    std::vector<T> rows(pulled_.size() / sizeof(T));
    if (!rows.empty()) std::memcpy(rows.data(), pulled_.data(), pulled_.size());
    const std::vector<T> gradient = work_.gradient(member_, step_, rows);
    const Bytes bytes = std::as_bytes(std::span(gradient));
    return {bytes.begin(), bytes.end()};
  }

  machine::Actions push(machine::Time now) {
    if (!table.look([](const Worker& one) { return one.can_push(); }))
      return {machine::Arm{kComputed, now + std::chrono::milliseconds(5)}};
    const auto plan = server::plan_of(work_.ids(member_, step_), shape_);
    const auto bytes = shape_.spec.dtype == Dtype::f64 ? gradient<double>() : gradient<float>();
    machine::Actions actions = perform(
        [&](Worker& one, machine::Time) {
          return one.push(plan, server::summed_rows(*plan, bytes, shape_), work_.weight(member_),
                          shape_.settings.front());
        },
        now);
    ++step_;
    if (step_ == work_.steps) {
      phase_ = Phase::resting;
      append(actions, perform([](Worker& one, machine::Time) { return one.quiesce(); }, now));
    } else {
      phase_ = Phase::pulling;
      if (!prefetches_) append(actions, pull(work_.ids(member_, step_), false, now));
      return go_on(std::move(actions), now);
    }
    return actions;
  }

  const server::SparseShape& shape_;
  const int member_;
  const bool prefetches_;
  const SparseWork work_;
  Phase phase_ = Phase::waiting;
  std::int64_t step_ = 0;
  std::uint64_t pull_ = 0;
  std::vector<std::byte> pulled_, values_;
  struct Asked {
    std::vector<std::int64_t> ids;
    std::vector<double> least;  // by id: what the rows show at least
  };
  std::map<std::uint64_t, Asked> asked_;  // by pull
};

// Workers 0, 1, .. and the servers behind them.
struct SparseWorld {
  server::SparseShape shape;
  machine::VirtualNetwork network;
  std::vector<std::unique_ptr<SparseTrainer>> members;

  SparseWorld(const server::SparseTableSpec& spec, int servers, const SparseWork& work,
              const machine::NetworkFaults& weather, bool prefetches = false)
      : shape(server::shape_of(spec, server::TableMembers::of_servers(work.workers, servers))
                  .value()),
        network(mix(work.seed, 5), weather) {
    const server::SparseWorkerOptions options = {
        .resend_after =
            weather.loss > 0 ? machine::Time(std::chrono::milliseconds(20)) : machine::Time()};
    for (int member = 0; member < work.workers + servers; ++member) {
      members.push_back(std::make_unique<SparseTrainer>(shape, member, prefetches, work, options));
      network.add(member, *members.back());
    }
    for (int worker = 0; worker < work.workers; ++worker)
      network.tell(worker, worker, {.kind = SparseTrainer::kStart});
  }

  bool all_are_done() const {
    for (const int worker : shape.members.workers)
      if (!members[static_cast<std::size_t>(worker)]->is_done()) return false;
    return true;
  }
  // Returns whether all workers came to their end in a minute of virtual time.
  bool run() {
    constexpr int kMilliseconds = 60'000;
    for (int at = 10; at < kMilliseconds && !all_are_done(); at += 10)
      network.run(std::chrono::milliseconds(at));
    return all_are_done();
  }
  // The one that this server keeps.
  server::ShareMachine& share(int server) {
    return members[static_cast<std::size_t>(server)]->table.parts().begin()->second;
  }
  std::size_t rows_stored() const {
    std::size_t all = 0;
    for (const auto& member : members)
      for (const auto& [number, share] : member->table.parts()) all += share.value().rows();
    return all;
  }
};

}  // namespace paceline::test
