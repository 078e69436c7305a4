#include "paceline/app/cli/programs/programs_proof.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "paceline/core/collective/program/shapes.h"
#include "paceline/core/collective/proof/mixing_proof.h"
#include "paceline/core/collective/proof/verify.h"

namespace paceline::cli {
namespace {

using collective::Algorithm;

// The proof of one algorithm or mixing graph for one rank count, which one thread does.
struct Task {
  const Algorithm* algorithm = nullptr;
  const collective::MixingGraph* graph = nullptr;
  int ranks = 0;
  Proofs proofs = {};
};

void prove_graph(Task& task) {
  if (!task.graph->check(task.ranks)) return;
  const auto proof = verify(*task.graph, task.ranks);
  if (proof) ++task.proofs.passed;
  else task.proofs.failed.push_back(proof.error().what);
}

void prove_algorithm(Task& task) {
  for (collective::Shape shape : shapes_of(*task.algorithm, task.ranks)) {
    for (const int root : collective::roots_of(task.algorithm->operation, task.ranks)) {
      shape.root = root;
      const auto proof = verify(*task.algorithm, shape);
      if (proof) ++task.proofs.passed;
      else task.proofs.failed.push_back(proof.error().what);
    }
  }
}

// Many ranks take long: they come first, so that no thread is left alone with them at the end.
class Queue {
 public:
  explicit Queue(std::vector<Task>& tasks) {
    for (Task& task : tasks) tasks_.push_back(&task);
    std::ranges::stable_sort(tasks_, std::greater(), &Task::ranks);
  }

  void work() {
    for (std::size_t next = next_++; next < tasks_.size(); next = next_++) {
      Task& task = *tasks_[next];
      task.graph == nullptr ? prove_algorithm(task) : prove_graph(task);
      const std::lock_guard lock(mutex_);
      done_ += cost(task);
      if (++ended_tasks_ == tasks_.size()) ended_.notify_one();
    }
  }

  void watch(const std::function<void(double)>& progress) {
    double all = 0;
    for (const Task* task : tasks_) all += cost(*task);
    const auto all_ended = [&] { return ended_tasks_ == tasks_.size(); };
    bool is_told = false;  // progress has reported the end
    std::unique_lock lock(mutex_);
    do {
      ended_.wait_for(lock, std::chrono::milliseconds(200), all_ended);
      const double part = done_ / all;
      is_told = all_ended();
      lock.unlock();
      progress(part);
      lock.lock();
    } while (!is_told);
  }

 private:
  static double cost(const Task& task) { return static_cast<double>(task.ranks) * task.ranks; }

  std::vector<Task*> tasks_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  double done_ = 0;
  std::size_t ended_tasks_ = 0;
};

}  // namespace

Proofs prove_all(const Selection& selection, const std::vector<int>& rank_counts, int threads,
                 const std::function<void(double)>& progress) {
  std::vector<Task> tasks;
  for (const Algorithm& algorithm : selection.algorithms)
    for (const int ranks : rank_counts) tasks.push_back({.algorithm = &algorithm, .ranks = ranks});
  for (const collective::MixingGraph& graph : selection.graphs)
    for (const int ranks : rank_counts) tasks.push_back({.graph = &graph, .ranks = ranks});
  Queue queue(tasks);
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i) workers.emplace_back([&] { queue.work(); });
    queue.watch(progress);
  }
  Proofs all;
  for (Task& task : tasks) {
    all.passed += task.proofs.passed;
    std::ranges::move(task.proofs.failed, std::back_inserter(all.failed));
  }
  return all;
}

}  // namespace paceline::cli
