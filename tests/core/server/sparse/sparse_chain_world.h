// Sparse tables whose shares are kept by chains of servers, with kills, false suspicions, moves, and
// workers that end; and the laws that no such world may break.
#pragma once

#include "tests/core/server/sparse/sparse_world.h"

namespace paceline::test {

using SparseChains = VirtualChainsOf<server::SparseShape, server::SparseMachine>;
using SparseServer = SparseChains::Server;

inline constexpr machine::NetworkFaults kSparseWeather = {
    .least_delay = std::chrono::milliseconds(1),
    .most_delay = std::chrono::milliseconds(10),
    .loss = 0.05,
    .duplication = 0.05,
    .overtaking = true};

// Workers 0, 1, .. and the first servers behind them.
struct SparseChainWorld {
  static constexpr machine::Time kResend = std::chrono::milliseconds(50);

  SparseWork work;
  server::SparseShape shape;
  machine::VirtualNetwork network;
  SparseChains chains;
  SeenCounts seen;
  std::map<int, std::unique_ptr<SparseTrainer>> workers;
  std::set<int> lost;  // workers

  SparseChainWorld(server::SparseTableSpec spec, int replicas, const SparseWork& of,
                   const machine::NetworkFaults& weather = kSparseWeather, bool prefetches = false,
                   int servers = 3)
      : work(of),
        shape(server::shape_of(with(std::move(spec), replicas),
                               server::TableMembers::of_servers(of.workers, servers))
                  .value()),
        network(mix(of.seed, 5), weather),
        chains(network, shape, kResend) {
    if (work.leaves) chains.end_table();
    for (const int member : shape.members.workers) {
      auto& worker = workers[member];
      worker = std::make_unique<SparseTrainer>(
          shape, member, prefetches, work,
          server::SparseWorkerOptions{.resend_after =
                                          weather.loss > 0 ? kResend : machine::Time()});
      if (work.counts) worker->seen = &seen;
      network.add(member, *worker);
      network.tell(member, member, {.kind = SparseTrainer::kStart});
    }
  }
  // A world in which each row counts the pushes to it.
  static server::SparseTableSpec counting(const SparseWork& work, const std::string& synchrony) {
    return {.name = "u",
            .width = work.width,
            .dtype = Dtype::f64,
            .synchrony = synchrony,
            .rule = fmt::format("sgd:rate={}", work.workers),
            .spread = 0};
  }

  void lose_worker(int member, machine::Time at) {
    lost.insert(member);
    network.kill(member, at);
    chains.at(at, [this, member] { chains.worker_lost(member); });
  }

  bool is_done() const {
    return std::ranges::all_of(workers, [this](const auto& one) {
      return lost.contains(one.first) || one.second->is_done();
    });
  }
  // Runs it and returns the first law that was broken.
  std::string run() {
    for (machine::Time at = network.now(); !is_done() && at < std::chrono::seconds(20);
         at += std::chrono::milliseconds(20))
      chains.run(at);
    if (!is_done()) return "no progress";
    if (std::string why = complaint_of(chains); !why.empty()) return why;
    const bool reads_are_ordered = chains.suspicions == 0 || chains.has_leases;
    if (reads_are_ordered && !seen.complaint.empty()) return seen.complaint;
    return work.counts && lost.empty() ? complaint_of_counts() : "";
  }
  // The rows of all ids that a worker read at its end.
  template <typename T>
  std::vector<T> values(int worker) const {
    const auto& bytes = workers.at(worker)->values();
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  // When all workers have left, each first server that is in a chain gives up the table.
  bool all_servers_end() {
    chains.run(network.now() + std::chrono::seconds(1));
    return std::ranges::all_of(chains.servers(), [this](const auto& one) {
      const auto& all = chains.controller().chains();
      const bool is_in_chain =
          std::ranges::any_of(all, [&](const auto& chain) { return chain.has(one.first); });
      return one.first >= kLateServers || !is_in_chain || !chains.is_alive(one.first) ||
             one.second->has_ended_table;
    });
  }

 private:
  static server::SparseTableSpec with(server::SparseTableSpec spec, int replicas) {
    spec.replicas = replicas;
    return spec;
  }
  // No push was lost, and none counts twice.
  std::string complaint_of_counts() const {
    const std::vector<double> all = work.pushed_by_all();
    for (const auto& [worker, trainer] : workers) {
      const std::vector<double> read = values<double>(worker);
      for (std::size_t i = 0; i < read.size(); ++i)
        if (read[i] != all[i / work.width])
          return fmt::format("worker {} reads {} pushes to row {}, which had {}", worker, read[i],
                             i / work.width, all[i / work.width]);
    }
    return {};
  }
};

}  // namespace paceline::test
