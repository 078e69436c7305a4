// A store in this process, with a thread that drives it.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <optional>
#include <thread>
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
  explicit StoreWorld(int world_size = 3) : world_size_(world_size) {
    server_.emplace(poller_, membership::StoreServerOptions{
                                 .job = "test",
                                 .generation = 2,
                                 .world_size = world_size,
                                 .secret = secret,
                                 .on_report = [this](const membership::WorkerReport& report) {
                                   const std::lock_guard lock(mutex_);
                                   reports_.push_back(report);
                                 }});
    address = server_->address();
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        poller_.wait(Deadline::never());
        const std::lock_guard lock(mutex_);
        if (verdict_) server_->tell(*verdict_);
        verdict_.reset();
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
  void tell(const Failure& verdict) {
    {
      const std::lock_guard lock(mutex_);
      verdict_ = verdict;
    }
    poller_.wake();
  }
  std::vector<membership::WorkerReport> reports() {
    const std::lock_guard lock(mutex_);
    return reports_;
  }

  membership::Hello hello(int rank) const {
    return {.purpose = membership::Purpose::store,
            .rank = rank,
            .target = membership::kStoreRank,
            .world_size = world_size_,
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
  const int world_size_;
  transport::Poller poller_;
  std::optional<membership::StoreServer> server_;
  std::mutex mutex_;
  std::vector<membership::WorkerReport> reports_;
  std::optional<Failure> verdict_;
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
