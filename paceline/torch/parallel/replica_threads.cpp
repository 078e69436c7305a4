#include "paceline/torch/parallel/replica_threads.h"

#include <utility>

namespace paceline::parallel {

ReplicaThreads::ReplicaThreads(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this, i] { serve(i); });
}

ReplicaThreads::~ReplicaThreads() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReplicaThreads::run(const std::function<void(std::size_t)>& task) {
  std::unique_lock lock(mutex_);
  task_ = &task;
  running_ = threads_.size();
  ++round_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return running_ == 0; });
  if (auto first = std::exchange(first_, nullptr)) std::rethrow_exception(first);
}

void ReplicaThreads::serve(std::size_t index) {
  std::unique_lock lock(mutex_);
  for (std::uint64_t done = 0;; done = round_) {
    changed_.wait(lock, [&] { return over_ || round_ != done; });
    if (over_) return;
    const auto& task = *task_;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      task(index);
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    if (thrown && !first_) first_ = thrown;
    if (--running_ == 0) changed_.notify_all();
  }
}

}  // namespace paceline::parallel
