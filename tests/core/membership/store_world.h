// A store in this process, with a thread that drives it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "paceline/core/membership/store/store_client.h"
#include "paceline/core/membership/store/store_server.h"

namespace paceline::test {

using namespace std::chrono_literals;

inline Deadline soon() {
  return Deadline::in(10s);
}

inline void wait_until(const std::function<bool()>& done) {
  const Deadline deadline = soon();
  while (!done() && !deadline.passed()) std::this_thread::yield();
  ASSERT_TRUE(done());
}

class StoreWorld {
 public:
  explicit StoreWorld(int world_size = 3, int servers = 0)
      : world_size_(world_size), servers_(servers) {
    server_.emplace(poller_, membership::StoreServerOptions{
                                 .job = "test",
                                 .generation = 2,
                                 .world_size = world_size,
                                 .servers = servers,
                                 .secret = secret,
                                 .on_report =
                                     [this](const membership::WorkerReport& report) {
                                       const std::lock_guard lock(mutex_);
                                       reports_.push_back(report);
                                     },
                                 .on_left =
                                     [this](int rank) {
                                       if (servers_ > 0) server_->bury(rank);
                                     },
                                 .on_server_report =
                                     [this](int server, Bytes report) {
                                       const std::lock_guard lock(mutex_);
                                       server_reports_.emplace_back(
                                           server, std::vector(report.begin(), report.end()));
                                     },
                                 .on_linked =
                                     [this](int member) {
                                       const std::lock_guard lock(mutex_);
                                       linked_.push_back(member);
                                     }});
    address = server_->address();
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        poller_.wait(Deadline::never());
        std::unique_lock lock(mutex_);
        const auto tasks = std::exchange(tasks_, {});
        lock.unlock();
        for (const auto& task : tasks) task(*server_);
      }
    });
  }
  ~StoreWorld() { end(); }

  void end() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    poller_.wake();
    thread_.join();
    server_.reset();
  }
  // The store's thread does it soon, in the order of these calls.
  void post(std::function<void(membership::StoreServer&)> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    poller_.wake();
  }
  void tell(const Failure& verdict) {
    post([verdict](membership::StoreServer& store) { store.tell(verdict); });
  }
  std::vector<std::pair<int, std::vector<std::byte>>> server_reports() {
    const std::lock_guard lock(mutex_);
    return server_reports_;
  }
  std::vector<int> linked() {  // members, in the order in which they told it
    const std::lock_guard lock(mutex_);
    return linked_;
  }
  std::vector<membership::WorkerReport> reports() {
    const std::lock_guard lock(mutex_);
    return reports_;
  }

  membership::Hello hello(int rank) const {
    return {.purpose = membership::Purpose::store,
            .rank = rank,
            .target = membership::kStoreRank,
            .world_size = world_size_ + servers_,
            .job = membership::job_fingerprint("test"),
            .generation = 2};
  }
  std::unique_ptr<membership::StoreClient> client(const membership::Hello& hello) const {
    return membership::StoreClient::connect(address, hello, secret, soon()).value();
  }
  std::unique_ptr<membership::StoreClient> client(int rank) const { return client(hello(rank)); }

  const membership::Secret secret = membership::Secret::random();
  std::string address;

 private:
  const int world_size_, servers_;
  transport::Poller poller_;
  std::optional<membership::StoreServer> server_;
  std::mutex mutex_;
  std::vector<membership::WorkerReport> reports_;
  std::vector<std::pair<int, std::vector<std::byte>>> server_reports_;
  std::vector<int> linked_;
  std::vector<std::function<void(membership::StoreServer&)>> tasks_;
  std::jthread thread_;
};

inline std::string text_of(const Result<std::vector<std::byte>>& value) {
  if (!value) return "failure: " + value.error().what;
  return {reinterpret_cast<const char*>(value.value().data()), value.value().size()};
}
inline Bytes bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace paceline::test
