// Connections from addresses of this host's own (127.0.0.0/8) that never prove anything: some are
// silent, some have begun to speak.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <deque>
#include <string>
#include <vector>

#include "paceline/core/transport/socket/socket.h"

namespace paceline::test {

class Strangers {
 public:
  Strangers(const transport::TcpAddress& target, std::vector<std::string> addresses)
      : target_(address_of(target.host, target.port)), addresses_(std::move(addresses)) {}

  // `count` more; all stay open at this end, but for those before the last `kept`.
  void come(int count, std::size_t kept = 1000) {
    for (int i = 0; i < count; ++i) {
      const std::string& from = addresses_[static_cast<std::size_t>(come_++) % addresses_.size()];
      transport::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const sockaddr_in own = address_of(from, 0);
      ASSERT_EQ(::bind(socket.get(), as_any(own), sizeof own), 0) << from << ": " << errno;
      ASSERT_EQ(::connect(socket.get(), as_any(target_), sizeof target_), 0) << errno;
      if (i % 2 == 0) ::send(socket.get(), "P", 1, MSG_NOSIGNAL);
      sockets_.push_back(std::move(socket));
      if (sockets_.size() > kept) sockets_.pop_front();
    }
  }

  int oldest() const { return sockets_.front().get(); }

 private:
  static const sockaddr* as_any(const sockaddr_in& address) {
    return reinterpret_cast<const sockaddr*>(&address);
  }
  static sockaddr_in address_of(const std::string& host, int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    EXPECT_EQ(::inet_pton(AF_INET, host.c_str(), &address.sin_addr), 1);
    return address;
  }

  const sockaddr_in target_;
  const std::vector<std::string> addresses_;
  std::deque<transport::FileDescriptor> sockets_;
  int come_ = 0;
};

}  // namespace paceline::test
