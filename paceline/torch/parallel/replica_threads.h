// One thread for each replica of a model inside this process.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace paceline::parallel {

// The threads live as long as this, because libtorch keeps things by thread. THREAD: one caller at
// a time.
class ReplicaThreads {
 public:
  explicit ReplicaThreads(std::size_t count);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  std::size_t size() const { return threads_.size(); }
  // Runs task(i) on thread i, on all at once, and returns when all have ended. THROWS what the
  // first of them to throw threw.
  void run(const std::function<void(std::size_t)>& task);

 private:
  void serve(std::size_t index);

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(std::size_t)>* task_ = nullptr;
  std::uint64_t round_ = 0;
  std::size_t running_ = 0;
  std::exception_ptr first_;
  bool over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace paceline::parallel
