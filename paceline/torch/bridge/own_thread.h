// OwnThread: the one thread in which an object is used.
#pragma once

#include <cstdint>

namespace paceline {

// libtorch keeps for each thread by itself how many threads an operator has, and other modes: in
// another thread results have other bits.
class OwnThread {
 public:
  OwnThread();  // the one that makes this

  bool is_here() const;
  // THROWS Error (misuse): `call`, such as "DataParallel::step", was called in another one.
  void require(const char* call) const {
    if (!is_here()) refuse(call);
  }

 private:
  [[noreturn]] void refuse(const char* call) const;

  std::uint64_t thread_;  // counted in this process: the system gives its own numbers again
  std::int64_t system_thread_;
};

}  // namespace paceline
