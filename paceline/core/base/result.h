// Failures are values inside Paceline (`Failure`, `Result<T>`), and one exception at the API
// (`Error`).
//
// docs/errors.md lists the faults, their origins and the caller's options.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace paceline {

enum class Fault : std::uint8_t {
  misuse = 1,  // the caller's arguments or order of calls; nothing was sent
  mismatch,    // ranks disagree about what they do together
  peer_lost,   // a rank died or left
  timed_out,   // a deadline ran out
  cancelled,   // ended because something else failed first, or because of close()
  io,          // the operating system, a file or a frame from the network
  refused,     // authentication failed (exit code 4)
};

std::string_view name_of(Fault fault);

struct Failure {
  Fault fault = Fault::io;
  std::string what;        // what happened, and the remedy
  std::vector<int> ranks;  // the ranks concerned; empty: this process alone
  bool operator==(const Failure&) const = default;
};

// The one exception of Paceline's API. `what()` is the failure's text.
class Error : public std::exception {
 public:
  explicit Error(Failure failure);
  const char* what() const noexcept override { return failure_->what.c_str(); }
  const Failure& failure() const noexcept { return *failure_; }
  Fault fault() const noexcept { return failure_->fault; }

 private:
  std::shared_ptr<const Failure> failure_;  // never null: copies of an Error share it
};

// The failure of the last Error that this thread has made, while that Error or a copy of it lives.
// A destructor that runs because an exception passes learns here which one it is, unless an Error
// of before is kept (std::exception_ptr) while another library's exception passes. THREAD: any.
std::optional<Failure> failure_in_flight();

[[noreturn]] void throw_misuse(std::string what);

// "cannot open x: No such file or directory" from errno; call it at once after the failed call.
Failure io_failure(std::string_view doing, int error_number);

using Done = std::monostate;

// T or Failure, with std::expected's names (GCC 12 has <expected> only under C++23).
template <typename T = Done>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & {
    if (!has_value()) throw Error(error());
    return std::get<0>(state_);
  }
  const T& value() const& {
    if (!has_value()) throw Error(error());
    return std::get<0>(state_);
  }
  T value() && {
    if (!has_value()) throw Error(error());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return std::get<0>(state_); }
  T operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const Failure& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

}  // namespace paceline
