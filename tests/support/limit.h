// A limit of this process (getrlimit), lowered or raised for a while.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::test {

// The soft limit, while it lives.
class Limit {
 public:
  Limit(__rlimit_resource which, rlim_t value) : which_(which) {
    ::getrlimit(which_, &before_);
    rlimit now = before_;
    now.rlim_cur = value;
    EXPECT_EQ(::setrlimit(which_, &now), 0);
  }
  ~Limit() { ::setrlimit(which_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  __rlimit_resource which_;
  rlimit before_ = {};
};

// The number that the next file of this process gets, which is how many it has if none is closed
// before the last.
inline rlim_t next_file() {
  return static_cast<rlim_t>(transport::FileDescriptor(::dup(0)).get());
}

}  // namespace paceline::test
