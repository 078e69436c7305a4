// The failure that ended the communication of a training: it is final, and all later calls throw
// it.
#pragma once

#include <c10/util/StringUtil.h>

#include <exception>
#include <utility>

#include "paceline/core/base/result.h"

namespace paceline::parallel {

class FinalFailure {
 public:
  void set(std::exception_ptr failure) { failure_ = std::move(failure); }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  // Calls it. What it throws of the communication is the failure from then on.
  template <typename Call>
  decltype(auto) communicating(const Call& call) {
    try {
      return call();
    } catch (const Error&) {
      failure_ = std::current_exception();
      throw;
    }
  }

 private:
  std::exception_ptr failure_;
};

// Calls it; an Error that it throws tells in which part of a step it came.
template <typename When, typename Call>
auto telling(const When& when, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    Failure failure = error.failure();
    failure.what = c10::str(when(), ": ", failure.what);
    throw Error(std::move(failure));
  }
}

}  // namespace paceline::parallel
