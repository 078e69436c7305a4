#include "paceline/torch/parallel/reducer.h"

#include <torch/torch.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "paceline/core/base/base.h"

namespace paceline::parallel {
namespace {

// A note: weight (f64), whether weight() was called (u8), one bit for each gradient of the bucket
// in the bucket's order.
constexpr std::size_t kNoteHead = sizeof(double) + 1;

double weight_in(Bytes note) {
  double weight = 0;
  std::memcpy(&weight, note.data(), sizeof(weight));
  return weight;
}

bool weight_told_in(Bytes note) {
  return note[sizeof(double)] != std::byte{0};
}

bool used_in(Bytes note, std::size_t place) {
  return (std::to_integer<unsigned>(note[kNoteHead + place / 8]) >> (place % 8) & 1) != 0;
}

// The bits of a few elements. libtorch's C++ SGD updates through `.data()`, which leaves the
// version counter alone, so the version does not show every optimizer step; values do, unless the
// gradient was zero in all of these places.
std::uint64_t probe(const at::Tensor& parameter) {
  constexpr std::size_t kProbes = 8;
  if (!parameter.is_contiguous() || parameter.numel() == 0) return 0;
  const auto* bytes = static_cast<const std::byte*>(parameter.const_data_ptr());
  const std::size_t size = parameter.element_size(),
                    last = static_cast<std::size_t>(parameter.numel()) - 1;
  std::uint64_t fingerprint = 0;
  for (std::size_t k = 0; k < kProbes; ++k) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes + last * k / (kProbes - 1) * size, size);
    fingerprint = mix(fingerprint, bits);
  }
  return fingerprint;
}

std::vector<at::Tensor> tensors_of(const std::vector<Parameter>& parameters) {
  std::vector<at::Tensor> tensors;
  for (const Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

}  // namespace

Reducer::Reducer(std::vector<Parameter> parameters, Communicator& group, Job* job,
                 const DataParallelOptions& options)
    : parameters_(std::move(parameters)),
      group_(group),
      job_(job),
      caps_{options.first_bucket_bytes, options.bucket_bytes},
      progress_(parameters_.size()) {
  for (const Parameter& parameter : parameters_) {
    shapes_.push_back({parameter.tensor.nbytes(), *dtype_of(parameter.tensor.scalar_type()), 0});
  }
  auto plan = schedule::plan_buckets(
      shapes_, schedule::reverse_registration_order(static_cast<int>(shapes_.size())), caps_);
  if (alone()) plan.clear();
  const auto tensors = tensors_of(parameters_);
  buckets_ = std::make_unique<GradientBuckets>(
      std::move(plan),
      alone() ? std::span<const at::Tensor>() : std::span<const at::Tensor>(tensors), job_);
  end();
  hooks_.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    GradientEvents events{[this, i] { return arriving(i); }, [this, i](bool held) { accumulated(i, held); }};
    if (options.born_in_place && !alone()) events.birthplace = [this, i] { return birthplace(i); };
    hooks_.emplace_back(parameters_[i].tensor, std::move(events));
  }
}

// The model's gradients must not point into the job's memory once nobody looks after it.
Reducer::~Reducer() {
  if (alone()) return;
  for (Parameter& parameter : parameters_) {
    at::Tensor& grad = parameter.tensor.mutable_grad();
    if (!grad.defined() || grad.layout() != at::kStrided ||
        !buckets_->contains(grad.const_data_ptr()))
      continue;
    try {
      grad = open_ ? at::Tensor() : grad.clone();  // in the middle of a step it means nothing
    } catch (const std::exception&) {
      grad.reset();
    }
  }
}

void Reducer::set_weight(double weight) {
  if (!std::isfinite(weight) || weight < 0) {
    throw_misuse(c10::str("DataParallel::weight(", weight,
                          "): a weight is the number of samples of this rank's batch; 0 for none"));
  }
  if (open_) {
    throw_misuse(
        "DataParallel::weight() was called between backward() and synchronize(): gradients of this "
        "step were weighted "
        "already. Call it before the forward pass");
  }
  weight_ = weight;
  weight_told_ = true;
}

void Reducer::pause() {
  if (open_) {
    throw_misuse(
        "DataParallel::no_sync() was called between backward() and synchronize(): end the step "
        "first with "
        "synchronize() or step(optimizer)");
  }
  if (paused_)
    throw_misuse("DataParallel::no_sync() is already in force: end its guard before the next one");
  paused_ = true;
}

void Reducer::resume() {
  paused_ = false;
}

bool Reducer::arriving(std::size_t i) {
  if (failure_) std::rethrow_exception(failure_);
  const std::string& name = parameters_[i].name;
  if (backward_builds_graph()) {
    throw_misuse(
        c10::str("backward(create_graph=true) makes gradients of gradients, which DataParallel "
                 "cannot synchronise (at '",
                 name, "'): compute them with torch::autograd::grad, which leaves .grad alone"));
  }
  if (open_ && current_backward() != backward_) {
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
      if (parameter_changed(k)) {
        throw_misuse(c10::str("the optimizer stepped without synchronize(): parameter '",
                              parameters_[k].name,
                              "' changed after its gradient was made and before it was averaged, "
                              "so the replicas differ now. "
                              "Call parallel.step(optimizer) instead of optimizer.step(), or "
                              "synchronize() before it"));
      }
    }
    throw_misuse(c10::str("a second backward() before the last one was synchronised (gradient of '",
                          name,
                          "'): call synchronize() or step(optimizer) after each backward(); to "
                          "accumulate over several "
                          "passes run all but the last under no_sync(), or add up their losses"));
  }
  if (progress_[i].fired) {
    throw_misuse(c10::str(
        "a second gradient for parameter '", name,
        "' while the first one is in flight: a parameter may get one gradient in each step. Call "
        "synchronize() or step(optimizer) in between, or run the earlier passes under no_sync()"));
  }
  if (!paused_ && !open_) begin(current_backward());
  return weight_ != 0;  // a shadow's gradient counts for nothing: grad stays as on the ranks that
                        // did not run backward at all
}

std::shared_ptr<void> Reducer::birthplace(std::size_t i) {
  const bool in_flight = progress_[i].fired;
  return paused_ || weight_ == 0 || in_flight ? nullptr : buckets_->lend(i);
}

void Reducer::accumulated(std::size_t i, bool held_elsewhere) {
  if (paused_) {
    progress_[i].accumulated = true;
    return;
  }
  const at::NoGradGuard no_grad;
  const Parameter& parameter = parameters_[i];
  const at::Tensor& grad = parameter.tensor.grad();
  if (grad.layout() != at::kStrided) {
    throw_misuse(c10::str("parameter '", parameter.name, "' has a gradient of layout ",
                          grad.layout(),
                          ", which DataParallel cannot carry yet: make it dense (for "
                          "torch::nn::Embedding: sparse(false))"));
  }
  ++current_.gradients;
  ready_order_.push_back(static_cast<int>(i));
  if (!alone()) take(i, held_elsewhere);

  Progress& progress = progress_[i];
  progress.fired = true;
  progress.parameter_version = parameter.tensor._version();
  progress.parameter_probe = probe(parameter.tensor);
  note_gradient(i);
  if (alone()) return;

  --missing_[buckets_->bucket_of(i)];
  launch_ready_buckets();
}

void Reducer::note_gradient(std::size_t i) {
  const at::Tensor& grad = parameters_[i].tensor.grad();
  progress_[i].gradient = grad.unsafeGetTensorImpl();
  progress_[i].gradient_version = grad._version();
}

void Reducer::take(std::size_t i, bool held_elsewhere) {
  current_.copied += !is_same_memory(parameters_[i].tensor.grad(), buckets_->slot(i));
  if (!buckets_->take(i, held_elsewhere)) return;
  for (int moved : plan()[buckets_->bucket_of(i)].gradients) {
    if (const auto k = static_cast<std::size_t>(moved); progress_[k].fired) note_gradient(k);
  }
}

void Reducer::launch_ready_buckets() {
  while (works_.size() < plan().size() && missing_[works_.size()] == 0) {
    if (current_.launched_in_backward++ == 0)
      current_.gradients_at_first_launch = current_.gradients;
    launch(works_.size());
  }
}

std::vector<std::byte> Reducer::note_of(std::size_t bucket) const {
  const auto& members = plan()[bucket].gradients;
  std::vector<std::byte> note(kNoteHead + (members.size() + 7) / 8, std::byte{0});
  std::memcpy(note.data(), &weight_, sizeof(weight_));
  note[sizeof(double)] = std::byte{weight_told_};
  for (std::size_t place = 0; place < members.size(); ++place) {
    if (progress_[static_cast<std::size_t>(members[place])].fired && weight_ > 0) {
      note[kNoteHead + place / 8] |= std::byte{1} << (place % 8);
    }
  }
  return note;
}

void Reducer::launch(std::size_t bucket) {
  const std::vector<std::byte> note = note_of(bucket);
  try {
    works_.push_back(group_.all_reduce(
        buckets_->buffer(bucket),
        {.op = ReduceOp::average, .weight = weight_, .note = note}));
    works_.back().keep(buckets_->memory(bucket));
  } catch (const Error&) {
    failure_ = std::current_exception();
    throw;
  }
}

// What did not fire here contributes what its grad holds already, so that accumulated gradients
// stay what they would be in one process; else zeros. Its grad must not be the slot: if no rank
// used it, it has to stay as it is.
void Reducer::fill_unfired(std::size_t bucket) {
  for (int index : plan()[bucket].gradients) {
    const auto i = static_cast<std::size_t>(index);
    if (progress_[i].fired) continue;
    at::Tensor slot = buckets_->slot(i);
    at::Tensor& grad = parameters_[i].tensor.mutable_grad();
    if (progress_[i].accumulated && weight_ > 0 &&
        grad.defined()) {  // under no_sync, and not again in the pass that ended it
      take(i, true);
      progress_[i].fired = true;
      note_gradient(i);
      continue;
    }
    if (is_same_memory(grad, slot)) grad = grad.clone();
    if (weight_ == 0 || !grad.defined() || grad.layout() != at::kStrided) {
      slot.zero_();
    } else {
      slot.copy_(grad);
    }
  }
}

Reducer::Outcome Reducer::finish() {
  if (failure_) std::rethrow_exception(failure_);
  if (paused_)
    throw_misuse(
        "DataParallel::synchronize() under no_sync(): end its guard before the last backward() of "
        "the window");
  const at::NoGradGuard no_grad;
  const std::string complaint = changed_since_backward();
  Outcome outcome{weight_, weight_ > 0 ? 0 : -1};
  current_.buckets = static_cast<int>(plan().size());
  if (alone()) {
    current_.used = current_.gradients;
  } else {
    while (works_.size() < plan().size()) {
      fill_unfired(works_.size());
      launch(works_.size());
    }
    try {
      for (const Work& work : works_) work.wait();
    } catch (const Error&) {
      failure_ = std::current_exception();
      throw;
    }
    outcome = collect();
  }
  current_.total_weight = outcome.total_weight;
  report_ = current_;
  if (!rebuilt_ && !alone()) rebuild();
  end();
  if (!complaint.empty()) throw_misuse(complaint);
  return outcome;
}

// Reads what all ranks noted, and hands the means out.
Reducer::Outcome Reducer::collect() {
  const auto ranks = static_cast<std::size_t>(group_.size());
  Outcome outcome{works_[0].total_weight(), -1};
  for (std::size_t r = 0; r < ranks; ++r) {
    const Bytes note = works_[0].note(static_cast<int>(r));
    if (outcome.root < 0 && weight_in(note) > 0) outcome.root = static_cast<int>(r);
    if (weight_told_in(note) != weight_told_) {
      const int told = weight_told_ ? group_.rank() : static_cast<int>(r),
                silent = weight_told_ ? static_cast<int>(r) : group_.rank();
      failure_ = std::make_exception_ptr(
          Error({Fault::mismatch,
                 c10::str("rank ", told, " called DataParallel::weight() and rank ", silent,
                          " did not, so their gradients cannot be weighed against each other: call "
                          "it on all ranks or on none"),
                 {told, silent}}));
      std::rethrow_exception(failure_);
    }
  }
  for (std::size_t b = 0; b < works_.size(); ++b) {
    const auto& members = plan()[b].gradients;
    for (std::size_t place = 0; place < members.size(); ++place) {
      bool used = false;
      for (std::size_t r = 0; r < ranks && !used; ++r)
        used = used_in(works_[b].note(static_cast<int>(r)), place);
      if (!used) continue;
      ++current_.used;
      const auto i = static_cast<std::size_t>(members[place]);
      parameters_[i].tensor.mutable_grad() = buckets_->slot(i);
    }
  }
  return outcome;
}

void Reducer::begin(int backward) {
  open_ = true;
  backward_ = backward;
}

void Reducer::end() {
  open_ = false;
  backward_ = -1;
  ready_order_.clear();
  works_.clear();
  progress_.assign(parameters_.size(), {});
  missing_.clear();
  for (const schedule::Bucket& bucket : plan()) missing_.push_back(bucket.gradients.size());
  current_ = {};
}

// After the first step the buckets follow the order in which rank 0's gradients came.
void Reducer::rebuild() {
  rebuilt_ = true;
  const int count = static_cast<int>(parameters_.size());
  std::vector<std::int64_t> message;
  for (int index : schedule::completed_order(ready_order_, count)) message.push_back(index);
  group_.broadcast(paceline::buffer_of(message), 0).wait();
  const std::vector<int> order(message.begin(), message.end());
  auto plan_by_order = schedule::plan_buckets(shapes_, order, caps_);
  if (plan_by_order == plan()) return;
  // The grads of this step keep the old memory alive until they are dropped or moved.
  buckets_ =
      std::make_unique<GradientBuckets>(std::move(plan_by_order), tensors_of(parameters_), job_);
}

bool Reducer::parameter_changed(std::size_t i) const {
  const Progress& before = progress_[i];
  const at::Tensor& now = parameters_[i].tensor;
  return before.fired &&
         (now._version() != before.parameter_version || probe(now) != before.parameter_probe);
}

std::string Reducer::changed_since_backward() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].name;
    if (parameter_changed(i)) {
      return c10::str(
          "the optimizer stepped without synchronize(), or something else wrote to the parameters: "
          "'",
          name,
          "' changed between backward() and synchronize(). Call parallel.step(optimizer) instead "
          "of "
          "optimizer.step(), or synchronize() before it");
    }
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Progress& before = progress_[i];
    if (!before.fired) continue;
    const at::Tensor& grad = parameters_[i].tensor.grad();
    if (!grad.defined() || grad.unsafeGetTensorImpl() != before.gradient ||
        grad._version() != before.gradient_version) {
      return c10::str("the gradient of '", parameters_[i].name,
                      "' was changed or dropped between backward() and synchronize(), while it was "
                      "being averaged. Set, clip "
                      "or zero gradients before backward() or after synchronize()");
    }
  }
  return {};
}

}  // namespace paceline::parallel
