#include "paceline/core/schedule/path/gradient_path.h"

#include <algorithm>
#include <utility>

#include "paceline/core/base/check.h"
#include "paceline/core/base/stopwatch.h"
#include "paceline/core/compress/methods/compression.h"

namespace paceline::schedule {
namespace {

// Shorter exchanges mostly wait, and others wait for them, so they may always go.
constexpr std::size_t kLongExchange = 1 << 16;

void check_buffer(const Dispatch& dispatch, std::size_t group, const Buffer& buffer, Dtype dtype) {
  const std::size_t elements = dispatch.elements(static_cast<int>(group));
  const Dtype needed = dispatch.plan().groups[group].codec == kUncompressed ? dtype : Dtype::f32;
  PACELINE_CHECK(buffer.dtype == needed && buffer.count == elements,
                 "the buffer of group {} holds {} x {}; it must hold {} x {}", group, buffer.count,
                 name_of(buffer.dtype), elements, name_of(needed));
}

std::vector<std::size_t> element_bytes_of(const std::vector<Buffer>& groups) {
  std::vector<std::size_t> bytes;
  for (const Buffer& group : groups) bytes.push_back(size_of(group.dtype));
  return bytes;
}

SendingWindow window_of(const MessagePlan& plan) {
  const bool serves = std::ranges::any_of(
      plan.groups, [](const MessageGroup& group) { return group.path == Path::server; });
  return SendingWindow(serves ? SendingWindow::kThroughServers : SendingWindow::kAmongRanks);
}

compress::Exchange mean_of(const Buffer& elements) {
  return {.input = elements, .output = elements, .op = ReduceOp::average};
}

}  // namespace

GradientPath::GradientPath(std::unique_ptr<MessageTransport> transport, const Model& model,
                           const MessagePlan& plan, std::vector<Buffer> groups, std::uint64_t seed)
    : dispatch_(model, plan, element_bytes_of(groups)),
      buffers_(std::move(groups)),
      transport_(std::move(transport)),
      place_{transport_->rank(), transport_->ranks(), seed,
             std::make_shared<compress::SpareMemory>()},
      coded_(coded_of(dispatch_, model, place_)),
      casts_(casts_of_groups()),
      works_(dispatch_.messages().size()),
      pending_(buffers_.size()),
      is_held_(static_cast<std::size_t>(transport_->lanes())),
      window_(window_of(plan)),
      overflowed_(buffers_.size()) {
  PACELINE_CHECK(buffers_.size() == plan.groups.size(), "{} buffers for a plan of {} groups",
                 buffers_.size(), plan.groups.size());
  for (std::size_t g = 0; g < buffers_.size(); ++g) {
    check_buffer(dispatch_, g, buffers_[g], buffers_[g].dtype);
    PACELINE_CHECK(transport_->reaches(plan.groups[g].path),
                   "plan {} sends to servers, and there are none: plan for all_to_all", plan.name);
  }
  const bool encodes =
      std::ranges::any_of(coded_, [](const Coded& each) { return each.averaging != nullptr; });
  if (encodes || transport_->lanes() > 1) sender_ = std::thread([this] { send_messages(); });
}

std::vector<GradientPath::Coded> GradientPath::coded_of(const Dispatch& dispatch,
                                                        const Model& model,
                                                        const MessageContext& place) {
  const compress::Catalogue methods = compress::built_in_methods();
  std::vector<Coded> all;
  for (int m = 0; m < static_cast<int>(dispatch.messages().size()); ++m) {
    const auto g = static_cast<std::size_t>(dispatch.messages()[static_cast<std::size_t>(m)].group);
    const MessageGroup& group = dispatch.plan().groups[g];
    Coded& coded = all.emplace_back();
    if (group.codec == kUncompressed) continue;
    auto compression = compress::parse_compression(group.codec, methods);
    if (!compression) throw Error(compression.error());
    coded.parts = parts_of(dispatch, model, m, place);
    coded.averaging = averaging_of(coded.parts, *compression);
    coded.compression = compression->text();
    coded.cast = compression->method.cast;
    const std::size_t begin = dispatch.messages()[static_cast<std::size_t>(m)].begin;
    if (coded.cast) coded.runs = cast_runs_of(coded.parts, *compression, begin);
    for (const PlacedPart& one : coded.parts)
      if (compression->leaves_whole(one.part, one.offer))
        coded.whole_bytes += static_cast<double>(one.part.elements() * sizeof(float));
  }
  return all;
}

std::vector<std::optional<GradientPath::Cast>> GradientPath::casts_of_groups() const {
  std::vector<std::optional<Cast>> casts(buffers_.size());
  for (std::size_t m = 0; m < coded_.size(); ++m) {
    if (!coded_[m].cast) continue;
    auto& cast = casts[static_cast<std::size_t>(dispatch_.messages()[m].group)];
    if (!cast) cast = Cast{.dtype = *coded_[m].cast};
    cast->runs.insert(cast->runs.end(), coded_[m].runs.begin(), coded_[m].runs.end());
  }
  return casts;
}

std::size_t GradientPath::Cast::elements(bool whole) const {
  std::size_t sum = 0;
  for (const CastRun& run : runs) sum += run.is_whole == whole ? run.elements : 0;
  return sum;
}

GradientPath::~GradientPath() {
  if (starts_at_once()) return;  // its transport ends the operations, which tell nobody
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  {
    const std::lock_guard lock(call_mutex_);
    transport_.reset();  // operations in flight fail; no thread waits for them any more
  }
  sender_.join();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return under_way_ == 0; });
}

// --- the caller's side ---------------------------------------------------------------------------

void GradientPath::load(int group, const Buffer& gradients) {
  const auto g = static_cast<std::size_t>(group);
  check_buffer(dispatch_, g, gradients, buffers_[g].dtype);
  const std::lock_guard lock(mutex_);
  PACELINE_CHECK(!pending_[g], "group {} is under way: wait for it before its buffer is changed",
                 group);
  buffers_[g] = gradients;
  for (std::size_t m = 0; m < coded_.size(); ++m)
    if (dispatch_.messages()[m].group == group) coded_[m].packed.reset();
}

void GradientPath::load_packed(int group, const Buffer& whole, const Buffer& cast) {
  const auto g = static_cast<std::size_t>(group);
  const Cast& wanted = casts_[g].value();
  PACELINE_CHECK(whole.dtype == Dtype::f32 && cast.dtype == wanted.dtype &&
                     whole.count == wanted.elements(true) && cast.count == wanted.elements(false),
                 "the packed gradients of group {} are {} x {} and {} x {}; they must be {} x f32 "
                 "and {} x {}",
                 group, whole.count, name_of(whole.dtype), cast.count, name_of(cast.dtype),
                 wanted.elements(true), wanted.elements(false), name_of(wanted.dtype));
  const std::lock_guard lock(mutex_);
  PACELINE_CHECK(!pending_[g], "group {} is under way: wait for it before its buffer is changed",
                 group);
  Buffer rest[] = {cast, whole};  // by is_whole
  for (std::size_t m = 0; m < coded_.size(); ++m) {
    Coded& coded = coded_[m];
    if (dispatch_.messages()[m].group != group) continue;
    Buffer own[] = {rest[0], rest[1]};
    for (Buffer& buffer : own) buffer.count = 0;
    for (const CastRun& run : coded.runs) own[run.is_whole ? 1 : 0].count += run.elements;
    for (const int kind : {0, 1}) rest[kind].data += own[kind].size_bytes();
    if (coded.packed == nullptr) coded.packed = std::make_unique<compress::PackedCast>();
    coded.packed->load(own[1], own[0]);
  }
}

void GradientPath::ready(int place) {
  {
    const std::lock_guard lock(mutex_);
    dispatch_.ready(place);
    pending_[static_cast<std::size_t>(dispatch_.group_of(place))] = true;
  }
  if (starts_at_once()) start_ready_messages();
  else changed_.notify_all();
}

void GradientPath::start_ready_messages() {
  const std::lock_guard calls(call_mutex_);
  const auto next = [this] {
    const std::lock_guard lock(mutex_);
    return dispatch_.next();
  };
  while (const auto message = next()) {
    const auto m = static_cast<std::size_t>(*message);
    works_[m] = transport_->start(0, path_of(*message), mean_of(elements_of(*message)));
  }
}

template <typename Done>
void GradientPath::wait_until(const Done& done) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || done(); });
  if (failure_) std::rethrow_exception(failure_);
}

void GradientPath::wait(int place) {
  const auto group = static_cast<std::size_t>(dispatch_.group_of(place));
  if (starts_at_once()) return wait_in_order(group);
  wait_until([this, group] { return !pending_[group]; });
}

// The thread that waits for an operation carries it out.
void GradientPath::wait_in_order(std::size_t group) {
  const auto is_pending = [this, group] {
    const std::lock_guard lock(mutex_);
    return pending_[group];
  };
  if (!is_pending()) return;
  const auto& messages = dispatch_.messages();
  const auto is_of_group = [group](const Dispatch::Message& message) {
    return static_cast<std::size_t>(message.group) == group;
  };
  for (std::size_t m = 0; m < messages.size(); ++m)
    if (is_of_group(messages[m])) works_[m].wait();
  const std::lock_guard lock(mutex_);
  if (!pending_[group]) return;  // another thread waited, too
  pending_[group] = false;
  for (std::size_t m = 0; m < messages.size(); ++m)
    if (is_of_group(messages[m])) (void)dispatch_.back(static_cast<int>(m));
}

void GradientPath::finish() {
  if (!starts_at_once())
    return wait_until([this] { return std::ranges::find(pending_, true) == pending_.end(); });
  for (std::size_t group = 0; group < buffers_.size(); ++group) wait_in_order(group);
}

double GradientPath::seconds_under_way() {
  if (starts_at_once()) return transport_->seconds_in_flight();
  const std::lock_guard lock(mutex_);
  const auto open = begun_ > 0 ? Clock::now() - busy_since_ : Clock::duration{};
  return std::chrono::duration<double>(busy_ + open).count();
}

GradientPath::CodecWork GradientPath::codec_work() {
  const std::lock_guard lock(mutex_);
  return codec_work_;
}

bool GradientPath::take_overflow() {
  const std::lock_guard lock(mutex_);
  const bool any = std::ranges::find(overflowed_, true) != overflowed_.end();
  overflowed_.assign(overflowed_.size(), false);
  return any;
}

bool GradientPath::take_overflow(int group) {
  const std::lock_guard lock(mutex_);
  const bool is_true = overflowed_[static_cast<std::size_t>(group)];
  overflowed_[static_cast<std::size_t>(group)] = false;
  return is_true;
}

// --- the sender ----------------------------------------------------------------------------------

void GradientPath::send_messages() {
  try {
    while (const auto task = next_task()) carry_out(*task);
  } catch (...) {
    fail(std::current_exception());
  }
}

void GradientPath::carry_out(const Task& task) {
  switch (task.step) {
    case Task::Step::begin: return send(task.message);
    case Task::Step::go_on: return go_on(task.message);
    case Task::Step::transfer: break;
  }
  const auto prepared = [&] {
    const std::lock_guard lock(mutex_);
    return prepared_.extract(task.message);
  }();
  transfer(task.message, prepared.mapped());
}

// REQUIRES: mutex_ is held. The link comes first, then messages that have begun, because others
// wait for them.
std::optional<GradientPath::Task> GradientPath::possible_task() {
  if (!prepared_.empty() && window_.may_transfer(prepared_.begin()->first))
    return Task{Task::Step::transfer, prepared_.begin()->first};
  if (!exchanged_.empty()) {
    const int message = exchanged_.front();
    exchanged_.pop_front();
    return Task{Task::Step::go_on, message};
  }
  if (const auto next = dispatch_.following(); next && may_begin(*next)) {
    window_.begin(*next, elements_of(*next).size_bytes());
    if (begun_++ == 0) busy_since_ = Clock::now();
    return Task{Task::Step::begin, *dispatch_.next()};
  }
  return std::nullopt;
}

std::optional<GradientPath::Task> GradientPath::next_task() {
  std::unique_lock lock(mutex_);
  std::optional<Task> task;
  changed_.wait(lock, [&] { return stopping_ || failure_ || (task = possible_task()); });
  return task;
}

bool GradientPath::may_begin(int message) const {
  return !is_held_[lane_of(message)] &&
         (is_coded(message) ? window_.may_prepare() : window_.may_send());
}

Path GradientPath::path_of(int message) const {
  const int group = dispatch_.messages()[static_cast<std::size_t>(message)].group;
  return dispatch_.plan().groups[static_cast<std::size_t>(group)].path;
}

Buffer GradientPath::elements_of(int message) const {
  const Dispatch::Message& part = dispatch_.messages()[static_cast<std::size_t>(message)];
  Buffer slice = buffers_[static_cast<std::size_t>(part.group)];
  slice.data += part.begin * size_of(slice.dtype);
  slice.count = part.end - part.begin;
  return slice;
}

std::optional<Work> GradientPath::started(int message, const compress::Exchange& exchange) {
  std::optional<Work> work;
  {
    const std::lock_guard lock(call_mutex_);
    if (transport_)
      work = transport_->start(static_cast<int>(lane_of(message)), path_of(message), exchange);
  }
  const std::lock_guard lock(mutex_);
  if (work) ++under_way_;
  return work;
}

void GradientPath::send(int message) {
  const Buffer elements = elements_of(message);
  if (is_coded(message)) return encode(message, elements);
  const auto work = started(message, mean_of(elements));
  if (!work) return;
  work->on_done([this, message](const Result<>& result) { came_back(message, result); });
}

void GradientPath::encode(int message, const Buffer& elements) {
  const auto m = static_cast<std::size_t>(message);
  const double begin = thread_seconds();
  auto first = present_averaging(message).begin(
      {reinterpret_cast<float*>(elements.data), elements.count}, coded_[m].step++);
  {
    const std::lock_guard lock(mutex_);
    is_held_[lane_of(message)] = true;
    codec_work_.encode += thread_seconds() - begin;
    codec_work_.bytes += static_cast<double>(elements.size_bytes());
    codec_work_.whole += coded_[m].whole_bytes;
  }
  if (!first) return decode(message, 0);
  exchange(message, std::move(*first));
}

void GradientPath::go_on(int message) {
  const double begin = thread_seconds();
  auto next = present_averaging(message).next();
  const double seconds = thread_seconds() - begin;
  if (!next) return fail(std::make_exception_ptr(Error(next.error())));
  if (!*next) return decode(message, seconds);
  {
    const std::lock_guard lock(mutex_);
    codec_work_.encode += seconds;
  }
  exchange(message, std::move(**next));
}

void GradientPath::exchange(int message, compress::Exchange exchange) {
  {
    const bool reduces = exchange.kind == compress::Exchange::Kind::all_reduce;
    const std::size_t bytes = reduces ? exchange.output.size_bytes() : exchange.input.size_bytes();
    const std::lock_guard lock(mutex_);
    codec_work_.gathers |= !reduces;
    codec_work_.wire += static_cast<double>(bytes);
    ++codec_work_.exchanges;
    if (bytes >= kLongExchange) {
      window_.shorten(message, bytes);
      prepared_.emplace(message, std::move(exchange));
      return;
    }
  }
  transfer(message, exchange);
}

void GradientPath::transfer(int message, const compress::Exchange& exchange) {
  const auto work = started(message, exchange);
  if (work) work->on_done([this, message](const Result<>& result) { exchanged(message, result); });
}

// `taken`: processor seconds that the message has taken before.
void GradientPath::decode(int message, double taken) {
  const auto m = static_cast<std::size_t>(message);
  const double begin = thread_seconds();
  {
    const std::lock_guard lock(mutex_);
    window_.end(message);
  }
  compress::Averaging& averaging = present_averaging(message);
  const bool overflowed = averaging.overflowed();
  auto finished = overflowed ? Result<>(Done{}) : averaging.finish();
  {
    const std::lock_guard lock(mutex_);
    is_held_[lane_of(message)] = false;
    if (overflowed) overflowed_[static_cast<std::size_t>(dispatch_.messages()[m].group)] = true;
    codec_work_.decode += taken + thread_seconds() - begin;
    ++under_way_;
  }
  came_back(message, finished);
}

void GradientPath::exchanged(int message, const Result<>& result) {
  const std::lock_guard lock(mutex_);
  --under_way_;
  if (result) exchanged_.push_back(message);
  else if (!failure_) failure_ = std::make_exception_ptr(Error(result.error()));
  changed_.notify_all();
}

void GradientPath::came_back(int message, const Result<>& result) {
  const std::lock_guard lock(mutex_);
  --under_way_;
  if (!result) {
    if (!failure_) failure_ = std::make_exception_ptr(Error(result.error()));
  } else {
    if (!is_coded(message)) window_.end(message);
    if (--begun_ == 0) busy_ += Clock::now() - busy_since_;
    const int group = dispatch_.messages()[static_cast<std::size_t>(message)].group;
    if (dispatch_.back(message)) pending_[static_cast<std::size_t>(group)] = false;
  }
  changed_.notify_all();
}

void GradientPath::fail(std::exception_ptr why) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(why);
  }
  changed_.notify_all();
}

std::vector<compress::LivePart> GradientPath::live_parts(std::span<const std::uint32_t> numbers) {
  std::vector<compress::LivePart> live;
  for (const Coded& coded : coded_) {
    if (coded.averaging == nullptr) continue;
    const auto views = coded.averaging->state();
    for (const PlacedPart& placed : coded.parts) {
      live.push_back({numbers[static_cast<std::size_t>(placed.place)],
                      placed.begin,
                      placed.part,
                      coded.compression,
                      {}});
      std::ranges::copy_if(views, std::back_inserter(live.back().views),
                           [&](const auto& view) { return view.tensor == placed.part.tensor; });
    }
  }
  return live;
}

std::vector<std::size_t> GradientPath::elements_by(std::span<const std::uint32_t> numbers) const {
  const auto tensors = static_cast<std::size_t>(dispatch_.plan().groups.back().end);
  PACELINE_CHECK(numbers.size() == tensors, "{} numbers for {} tensors", numbers.size(), tensors);
  std::vector<std::size_t> elements(numbers.size());
  for (std::size_t place = 0; place < numbers.size(); ++place)
    elements.at(numbers[place]) = dispatch_.elements_at(static_cast<int>(place));
  return elements;
}

std::vector<std::byte> GradientPath::state(std::span<const std::uint32_t> numbers) {
  const std::lock_guard lock(mutex_);
  compress::SavedState state{.rank = place_.rank,
                             .ranks = place_.ranks,
                             .elements = elements_by(numbers),
                             .values = saved_values_of(live_parts(numbers))};
  for (const Coded& coded : coded_) state.step = std::max(state.step, coded.step);
  return bytes_of(state);
}

void GradientPath::restore(Bytes bytes, std::span<const std::uint32_t> numbers) {
  const std::lock_guard lock(mutex_);
  const auto state = compress::saved_state_of(bytes).value();
  check_fits(state, place_.rank, place_.ranks, elements_by(numbers)).value();
  compress::restore(state, live_parts(numbers)).value();
  for (Coded& coded : coded_) coded.step = state.step;
}

}  // namespace paceline::schedule
