// The wire of c10d::TCPStore against a small store of that kind; the real one (torchrun's) is in
// tests/net.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <map>
#include <thread>

#include "paceline/core/membership/store/exchange.h"
#include "paceline/core/transport/socket/socket.h"

namespace paceline::membership {
namespace {

Deadline its_patience() {
  return Deadline::in(std::chrono::seconds(30));
}

// Serves one connection until it ends; `wait_answer` answers a wait for a key that is not set.
class Store {
 public:
  explicit Store(std::uint8_t wait_answer = 0)
      : listener_(transport::listen_tcp({"127.0.0.1", 0}).value()) {
    thread_ = std::jthread([this, wait_answer] {
      transport::wait_for(listener_.get(), POLLIN, its_patience());
      socket_ = transport::accept(listener_.get()).value();
      for (std::uint8_t query = 0; read(&query, 1);) {
        if (query == 0) {
          std::uint32_t magic = 0;
          read(&magic, sizeof magic);
          valid = magic == 0x3C85F7CE;
        } else if (query == 1) {
          const auto key = text();
          values[key] = text();
        } else if (query == 6) {
          std::uint64_t keys = 0;
          read(&keys, sizeof keys);
          text();
          write(std::string(1, static_cast<char>(wait_answer)));
        } else if (query == 3) {
          const auto value = values[text()];
          const std::uint64_t size = value.size();
          write(std::string(reinterpret_cast<const char*>(&size), sizeof size) + value);
        }
      }
    });
  }
  std::string address() const {
    return transport::to_string(transport::local_address(listener_.get()).value());
  }

  bool valid = false;
  std::map<std::string, std::string> values = {{"/other", "10.0.0.2:7"}};

 private:
  bool read(void* into, std::size_t size) {
    return transport::receive_all(socket_.get(), {static_cast<std::byte*>(into), size},
                                  its_patience())
        .has_value();
  }
  std::string text() {
    std::uint64_t size = 0;
    read(&size, sizeof size);
    std::string result(size, '\0');
    read(result.data(), size);
    return result;
  }
  void write(const std::string& bytes) {
    EXPECT_TRUE(
        transport::send_all(socket_.get(), std::as_bytes(std::span(bytes)), its_patience()));
  }

  transport::FileDescriptor listener_, socket_;
  std::jthread thread_;
};

TEST(TorchrunStore, KeepsWhatRank0TellsUnderItsKey) {
  Store store;
  {
    auto exchange = torchrun_store(store.address(), "job", its_patience()).value();
    EXPECT_EQ(exchange->own_host(), "127.0.0.1");
    EXPECT_TRUE(exchange->tell("10.0.0.1:5", its_patience()));
    EXPECT_EQ(store.values["/job"], "10.0.0.1:5");
    EXPECT_TRUE(store.valid);
  }
}

TEST(TorchrunStore, TellsTheOthers) {
  Store store;
  EXPECT_EQ(torchrun_store(store.address(), "other", its_patience())
                .value()
                ->hear(its_patience())
                .value(),
            "10.0.0.2:7");
}

TEST(TorchrunStore, AWaitThatIsCancelledIsAFailure) {
  Store store(1);
  EXPECT_FALSE(
      torchrun_store(store.address(), "other", its_patience()).value()->hear(its_patience()));
}

}  // namespace
}  // namespace paceline::membership
