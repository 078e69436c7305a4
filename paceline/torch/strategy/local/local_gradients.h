// LocalGradients: what those Synchronies share that leave gradients where autograd puts them until
// the step ends. There they accumulate as in one process; a rank without a batch makes none.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "paceline/torch/gradient/gradient.h"
#include "paceline/torch/strategy/local/strategy_catalogue.h"

namespace paceline::strategy {

class LocalGradients : public replica::Synchrony {
 public:
  bool arriving(std::size_t i) final;
  void arrived(std::size_t i, bool held_elsewhere) override;
  std::shared_ptr<void> gradient_memory(std::size_t) final { return nullptr; }
  void before_use(std::size_t) final {}
  void weigh(const replica::RankWeight& weight) final { weight_ = weight; }
  void follow(replica::ParameterWrites& writes) final { writes_ = &writes; }
  void pause(bool) final {}
  bool in_step() const final { return false; }
  bool has_gradients() const final { return current_.gradients > 0; }
  void drain() final {}
  bool is_under_way() const final { return false; }
  void fail(std::exception_ptr failure) final { failure_ = std::move(failure); }
  std::vector<at::Tensor> leaves() const final;
  bool is_lockstep() const override { return true; }
  const StepReport& report() const final { return report_; }
  const std::vector<schedule::Bucket>& buckets() const final { return no_buckets_; }

 protected:
  // `name`: of the strategy, for messages. `sends`: what it does instead of sending gradients in
  // buckets, after its name. THROWS Error (misuse): options that are about these, such as
  // compression.
  LocalGradients(std::string name, std::string_view sends, const StrategyContext& context);

  // The step that has begun goes on with the next batch.
  void drop_step();
  // The first gradient of a step is about to be made, or the step ends without one.
  virtual void begin_step() {}
  void begin();                                       // calls it, once a step
  void end(const replica::ExchangeReport& exchange);  // of the step

  // The parameters that the program wrote since they were noted; null: nobody looks.
  replica::ParameterWrites* writes() const { return writes_; }
  bool has_writes() const { return writes_ != nullptr && writes_->any(); }

  // Texts on misuse in this step; empty: none.
  std::string complaint_of_change() const;   // an optimizer stepped by itself
  std::string complaint_of_silence() const;  // there is a batch, and no gradient

  void require_between_steps(const char* call) const;
  // A failure of the communication is final: all later calls throw it.
  template <typename Call>
  void communicating(const Call& call) {
    if (failure_) std::rethrow_exception(failure_);
    try {
      call();
    } catch (const Error&) {
      failure_ = std::current_exception();
      throw;
    }
  }

  // Tensors that a rank keeps, as its part of a saved state. A rank that the saved world had not
  // takes another one's. THROWS Error (misuse): they do not fit.
  static std::vector<std::byte> packed(const std::vector<at::Tensor>& tensors);
  void unpack_own(const replica::SavedSynchrony& saved,
                  const std::vector<at::Tensor>& tensors) const;

  const std::string& name() const { return name_; }
  const std::vector<replica::Parameter>& parameters() const { return parameters_; }
  bool has_batch() const { return weight_.weight > 0; }
  const replica::RankWeight& weight() const { return weight_; }
  const std::vector<bool>& made() const { return made_; }  // by parameter: a gradient in this step
  StepReport& current() { return current_; }

 private:
  const std::string name_;
  Communicator& group_;
  const std::vector<replica::Parameter> parameters_;
  gradient::ParameterWatch watch_;
  const std::vector<schedule::Bucket> no_buckets_;
  replica::RankWeight weight_;
  replica::ParameterWrites* writes_ = nullptr;
  std::vector<bool> made_;
  bool has_begun_ = false;  // the step
  int backward_ = -1;       // the last that made a gradient
  std::exception_ptr failure_;
  StepReport report_, current_;
};

}  // namespace paceline::strategy
