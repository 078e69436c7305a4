#include "paceline/torch/gradient/cast_buckets.h"

#include <c10/core/StreamGuard.h>
#include <torch/torch.h>

#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/gradient/device_copies.h"

namespace paceline::gradient {
namespace {

using Cast = schedule::GradientPath::Cast;

at::Tensor elements_of(const at::Tensor& all, const schedule::CastRun& run) {
  return all.narrow(0, static_cast<std::int64_t>(run.begin),
                    static_cast<std::int64_t>(run.elements));
}

void fit(at::Tensor& tensor, std::size_t elements, at::ScalarType type, at::Device device) {
  const auto count = static_cast<std::int64_t>(elements);
  if (tensor.defined() && tensor.numel() == count && tensor.scalar_type() == type) return;
  tensor = at::empty({count}, at::TensorOptions(type).device(device));
}

// One kernel packs, and one casts where that is another type.
void pack(const at::Tensor& all, const Cast& cast, bool whole, const at::Tensor& into) {
  std::vector<at::Tensor> parts;
  for (const schedule::CastRun& run : cast.runs)
    if (run.is_whole == whole) parts.push_back(elements_of(all, run));
  if (!parts.empty()) at::Tensor(into).copy_(parts.size() == 1 ? parts.front() : at::cat(parts));
}

Buffer buffer_over(const at::Tensor& tensor) {
  if (tensor.numel() > 0) return buffer_of(tensor);
  return {nullptr, 0, dtype_of(tensor.scalar_type()).value()};
}

}  // namespace

bool CastBuckets::takes(std::size_t bucket) const {
  return path_.path().cast_of(static_cast<int>(bucket)).has_value();
}

void CastBuckets::load(std::size_t bucket, const GradientBuckets& buckets) {
  const int group = static_cast<int>(bucket);
  const Cast& cast = path_.path().cast_of(group).value();
  if (packed_.size() <= bucket) packed_.resize(bucket + 1);
  if (!looking_) looking_ = own_stream(buckets.device());
  auto& [whole, rounded] = packed_[bucket];
  fit(whole, cast.elements(true), at::kFloat, buckets.device());
  fit(rounded, cast.elements(false), scalar_type_of(cast.dtype), buckets.device());
  pack(buckets.on_device(bucket), cast, true, whole);
  pack(buckets.on_device(bucket), cast, false, rounded);
  path_.path().load_packed(group, buffer_over(whole), buffer_over(rounded));
}

bool CastBuckets::are_finite(std::size_t bucket) const {
  const auto& [whole, rounded] = packed_[bucket];
  const c10::StreamGuard guard(*looking_);
  return at::logical_and(at::isfinite(whole).all(), at::isfinite(rounded).all()).item<bool>();
}

void CastBuckets::unpack(std::size_t bucket, const GradientBuckets& buckets) const {
  const auto& [whole, rounded] = packed_[bucket];
  std::int64_t next[] = {0, 0};  // by is_whole
  for (const schedule::CastRun& run : path_.path().cast_of(static_cast<int>(bucket)).value().runs) {
    const auto elements = static_cast<std::int64_t>(run.elements);
    std::int64_t& begin = next[run.is_whole ? 1 : 0];
    elements_of(buckets.on_device(bucket), run)
        .copy_((run.is_whole ? whole : rounded).narrow(0, begin, elements));
    begin += elements;
  }
}

}  // namespace paceline::gradient
