// FiniteWatch: steps in which a gradient is NaN or infinite. It knows what the user wants to become
// of them, counts those that were left out, and remembers the first such gradient of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace paceline::replica {

// Whether no element is NaN or infinite. Of sparse gradients their values count.
bool is_finite(const at::Tensor& gradient);

// THREAD: one.
class FiniteWatch {
 public:
  // `policy` and `limit` are DataParallelOptions::non_finite and non_finite_limit. THROWS Error
  // (misuse): one of them is none of those that it can be.
  FiniteWatch(const std::string& policy, int limit);

  bool looks() const { return policy_ != Policy::none; }  // at gradients: somebody asked for it
  bool throws() const { return policy_ == Policy::error; }
  bool skips() const { return policy_ == Policy::skip; }

  // A backward pass of this rank made the parameter's gradient.
  void made(std::size_t parameter, const at::Tensor& gradient) {
    if (!first_ && !is_finite(gradient)) first_ = parameter;
  }
  // The parameter of the first one that was not finite since the last step ended.
  std::optional<std::size_t> first() const { return first_; }

  // A step has ended: it counted, or it was left out.
  void counted();
  void left_out();
  std::int64_t skipped() const { return skipped_; }  // so far
  int in_a_row() const { return in_a_row_; }
  bool is_time_for_a_line() const { return in_a_row_ == kLine; }
  bool is_at_limit() const { return in_a_row_ >= limit_; }
  int limit() const { return limit_; }

 private:
  enum class Policy : std::uint8_t { none, error, skip };
  static Policy policy_of(const std::string& text);
  static constexpr int kLine = 10;

  const Policy policy_;
  const int limit_;
  std::optional<std::size_t> first_;
  std::int64_t skipped_ = 0;
  int in_a_row_ = 0;
};

}  // namespace paceline::replica
