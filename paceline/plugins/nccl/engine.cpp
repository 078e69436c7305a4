// All work is started without waiting: communicators are non-blocking, and operations run on a
// stream of their own, whose end an event marks. So no thread waits inside NCCL or CUDA.
#include "paceline/plugins/nccl/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "paceline/core/base/deadline.h"
#include "paceline/plugins/nccl/launch.h"

namespace paceline::nccl {
namespace {

using collective::EngineCall;
using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLook{1};  // period of polling NCCL's own progress
constexpr std::chrono::milliseconds kLongestEnd{500};
// NCCL may hear that a rank has gone before the rank's links have ended, as it was seen to. For so
// long its own failure is kept back.
constexpr std::chrono::milliseconds kNews{1000};

Result<> succeeded(const Functions& f, cudaError_t code, std::string_view what) {
  if (code == cudaSuccess) return Done{};
  (void)f.cuda.last_error();  // clears the error, which the next call would report again
  return Failure{Fault::io,
                 fmt::format("{} failed: {}; a kernel of the program may have failed before it "
                             "(compute-sanitizer finds it)",
                             what, f.cuda.text_of(code)),
                 {}};
}

Result<> succeeded(const Functions& f, Status status, Comm* comm, std::string_view what) {
  if (status == Status::success || status == Status::in_progress) return Done{};
  const char* const last = comm == nullptr ? nullptr : f.nccl.last_error(comm);
  const bool more = last != nullptr && *last != '\0';
  return Failure{Fault::io,
                 fmt::format("{} failed: {}{}{}; NCCL_DEBUG=WARN tells more on stderr", what,
                             f.nccl.text_of(status), more ? ": " : "", more ? last : ""),
                 {}};
}

// Whether NCCL may have failed because another rank has gone. It names no rank; the generation does.
bool may_be_a_loss(Status status) {
  return status != Status::success && status != Status::in_progress &&
         status != Status::unhandled_cuda_error && status != Status::invalid_argument &&
         status != Status::invalid_usage;
}

// Sets a thread's current device while this lives, and restores it, because the thread may be the
// user's.
class OnDevice {
 public:
  OnDevice(const CudaFunctions& cuda, int device) : cuda_(cuda) {
    (void)cuda_.get_device(&before_);
    (void)cuda_.set_device(device);
  }
  ~OnDevice() { (void)cuda_.set_device(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  const CudaFunctions& cuda_;
  int before_ = 0;
};

class NcclEngine final : public collective::Engine {
 public:
  // Takes over `comm`, which is on `device`.
  NcclEngine(const Functions& f, Comm* comm, int device, int rank, int ranks)
      : f_(f),
        device_(device),
        operation_(fmt::format("the operation by NCCL on device {}", device)),
        at_{comm, rank, ranks, nullptr} {}
  ~NcclEngine() override;

  Result<> prepare();
  Result<> begin(const EngineCall& call) override;
  Result<bool> progress() override;
  void abandon() override;

 private:
  Result<> wait_for_caller(const Memory& memory);
  Result<> start(const EngineCall& call);
  Result<bool> look();
  Result<> well(Status status, std::string_view what);
  Result<Words> words_of(const EngineCall& call);
  void end_comm();

  const Functions& f_;
  const int device_;
  const std::string operation_;  // in failures
  NcclRank at_;
  cudaEvent_t before_ = nullptr, end_ = nullptr;
  bool launching_ = false;        // NCCL has not put all calls on the stream yet
  std::optional<Op> scaled_sum_;  // that of the operation in flight
  std::optional<Failure> broken_;
  std::optional<Deadline> news_until_;  // the failure may be the loss of a rank: it is told then
};

Result<> NcclEngine::prepare() {
  const OnDevice scope(f_.cuda, device_);
  if (auto made = succeeded(f_, f_.cuda.create_stream(&at_.stream, cudaStreamNonBlocking),
                            "cudaStreamCreate");
      !made)
    return made;
  for (cudaEvent_t* event : {&before_, &end_}) {
    if (auto made =
            succeeded(f_, f_.cuda.create_event(event, cudaEventDisableTiming), "cudaEventCreate");
        !made)
      return made;
  }
  return Done{};
}

Result<> NcclEngine::wait_for_caller(const Memory& memory) {
  auto* const stream = static_cast<cudaStream_t>(memory.stream);
  if (auto recorded = succeeded(f_, f_.cuda.record_event(before_, stream), "cudaEventRecord");
      !recorded)
    return recorded;
  return succeeded(f_, f_.cuda.wait_event(at_.stream, before_, 0), "cudaStreamWaitEvent");
}

Result<Words> NcclEngine::words_of(const EngineCall& call) {
  if (!is_reduction(call.operation)) return Words{};
  Words words = *words_for(call.op, call.dtype);
  if (call.factor == 1) return words;
  auto scalar = scalar_of(call.dtype, call.factor);
  const Status made = f_.nccl.make_scaled_sum(&words.op, scalar.data(), words.type,
                                              Residence::host_immediate, at_.comm);
  if (auto done = well(made, "ncclRedOpCreatePreMulSum"); !done) return done.error();
  scaled_sum_ = words.op;
  return words;
}

Result<> NcclEngine::well(Status status, std::string_view what) {
  auto result = succeeded(f_, status, at_.comm, what);
  if (!result && !news_until_ && may_be_a_loss(status)) news_until_ = Deadline::in(kNews);
  return result;
}

Result<> NcclEngine::begin(const EngineCall& call) {
  auto started = start(call);
  if (started || !news_until_) return started;
  broken_ = started.error();
  return Done{};
}

Result<> NcclEngine::start(const EngineCall& call) {
  const OnDevice scope(f_.cuda, device_);
  for (const ConstBuffer& buffer : {call.input, ConstBuffer(call.output)}) {
    if (buffer.count == 0) continue;
    if (auto ordered = wait_for_caller(buffer.memory); !ordered) return ordered;
  }
  const auto words = words_of(call);
  if (!words) return words.error();
  launching_ = true;
  return well(launch(f_.nccl, at_, call, words.value()),
              fmt::format("NCCL's {} on device {}", name_of(call.operation), device_));
}

// A failure that may be the loss of a rank is told late, so that the generation, which hears of the
// loss by its links, ends this first, with the rank's name.
Result<bool> NcclEngine::progress() {
  if (!broken_) {
    auto looked = look();
    if (looked) return looked;
    broken_ = looked.error();
  }
  if (news_until_ && !news_until_->passed()) return false;
  return *broken_;
}

Result<bool> NcclEngine::look() {
  const OnDevice scope(f_.cuda, device_);
  Status state = Status::success;
  const Status asked = f_.nccl.async_error(at_.comm, &state);
  for (const Status status : {asked, state}) {
    if (auto fine = well(status, operation_); !fine) return fine.error();
  }
  if (launching_) {
    if (state == Status::in_progress) return false;
    if (scaled_sum_) (void)f_.nccl.free_op(*std::exchange(scaled_sum_, std::nullopt), at_.comm);
    if (auto recorded = succeeded(f_, f_.cuda.record_event(end_, at_.stream), "cudaEventRecord");
        !recorded)
      return recorded.error();
    launching_ = false;
  }
  const cudaError_t ended = f_.cuda.query_event(end_);
  if (ended == cudaErrorNotReady) {
    (void)f_.cuda.last_error();
    return false;
  }
  if (auto fine = succeeded(f_, ended, operation_); !fine) return fine.error();
  return true;
}

// NCCL stops its kernels before this returns, so nothing is written into the buffers afterwards.
void NcclEngine::abandon() {
  const OnDevice scope(f_.cuda, device_);
  if (at_.comm != nullptr) (void)f_.nccl.abort(std::exchange(at_.comm, nullptr));
}

// Other ranks may still read this rank's data, and NCCL ends its part when they have done so. A
// rank that does not end in time is not waited for.
void NcclEngine::end_comm() {
  Status state = f_.nccl.finalize(at_.comm);
  for (const Deadline deadline = Deadline::in(kLongestEnd);
       state == Status::in_progress && !deadline.passed(); std::this_thread::sleep_for(kLook))
    (void)f_.nccl.async_error(at_.comm, &state);
  if (state == Status::success) (void)f_.nccl.destroy(at_.comm);
  else (void)f_.nccl.abort(at_.comm);
}

NcclEngine::~NcclEngine() {
  const OnDevice scope(f_.cuda, device_);
  if (at_.comm != nullptr) end_comm();
  if (at_.stream != nullptr) (void)f_.cuda.destroy_stream(at_.stream);
  for (cudaEvent_t event : {before_, end_}) {
    if (event != nullptr) (void)f_.cuda.destroy_event(event);
  }
}

class NcclLibrary final : public collective::EngineLibrary {
 public:
  explicit NcclLibrary(Result<Functions> functions) : functions_(std::move(functions)) {}

  collective::EngineTraits traits() const override {
    return {.name = "nccl", .memory = Memory::Kind::cuda, .invites = true};
  }
  std::string obstacle() const override {
    return functions_ ? std::string() : functions_.error().what;
  }
  std::string refusal(const EngineCall& call) const override;
  Result<> start(const collective::EnginePlace& place) override;
  Result<std::vector<std::byte>> invitation() override;
  Result<std::unique_ptr<collective::Engine>> engine_of(
      const collective::Gathering& group) override;

 private:
  const Functions& functions() const { return functions_.value(); }
  Result<> find_device(const collective::EnginePlace& place);
  std::string refusal(const ConstBuffer& buffer) const;
  Result<> come_together(Comm* comm, const std::atomic<bool>& given_up) const;
  Result<> look_together(Comm* comm, Status& state) const;

  const Result<Functions> functions_;
  std::mutex mutex_;
  std::optional<Result<>> started_;
  int rank_ = 0, device_ = 0;  // never change once it has started
};

std::string NcclLibrary::refusal(const EngineCall& call) const {
  if (is_reduction(call.operation) && !words_for(call.op, call.dtype))
    return fmt::format("NCCL has no {} of {}; copy it to the host, where programs reduce it",
                       name_of(call.op), name_of(call.dtype));
  for (const ConstBuffer& buffer : {call.input, ConstBuffer(call.output)}) {
    if (buffer.count == 0) continue;
    if (std::string why = refusal(buffer); !why.empty()) return why;
  }
  return {};
}

std::string NcclLibrary::refusal(const ConstBuffer& buffer) const {
  if (buffer.memory.device != device_)
    return fmt::format(
        "a buffer lies on device {}, and rank {} has device {}: allocate it there "
        "(cudaSetDevice({}))",
        buffer.memory.device, rank_, device_, device_);
  cudaPointerAttributes found = {};
  const cudaError_t code = functions().cuda.get_attributes(&found, buffer.data);
  if (code != cudaSuccess) (void)functions().cuda.last_error();
  if (code != cudaSuccess || found.type == cudaMemoryTypeUnregistered)
    return fmt::format(
        "a buffer at {} is no memory of CUDA's: use memory from cudaMalloc, or leave out "
        "the Memory of a buffer on the host",
        fmt::ptr(buffer.data));
  if (found.type == cudaMemoryTypeDevice && found.device != device_)
    return fmt::format("a buffer said to be on device {} lies on {}: allocate it on device {}",
                       device_, found.device, device_);
  return {};
}

// Groups come together on threads of their own.
Result<> NcclLibrary::start(const collective::EnginePlace& place) {
  const std::lock_guard lock(mutex_);
  if (!started_) started_ = find_device(place);
  return *started_;
}

Result<> NcclLibrary::find_device(const collective::EnginePlace& place) {
  if (!functions_) return functions_.error();
  const int devices = functions().devices;
  // A launcher may make only its own device visible to each rank.
  if (place.local_rank >= devices && devices > 1) {
    return Failure{Fault::misuse,
                   fmt::format("rank {} is number {} of its host, which has {} CUDA devices, and "
                               "NCCL wants one for each rank: start at most {} ranks there",
                               place.rank, place.local_rank + 1, devices, devices),
                   {place.rank}};
  }
  rank_ = place.rank;
  device_ = devices == 1 ? 0 : place.local_rank;
  return Done{};
}

Result<std::vector<std::byte>> NcclLibrary::invitation() {
  UniqueId id;
  if (auto made =
          succeeded(functions(), functions().nccl.get_unique_id(&id), nullptr, "ncclGetUniqueId");
      !made)
    return made.error();
  const Bytes bytes = bytes_of(id);
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

// It tells late what may be the loss of a rank, as progress() does.
Result<> NcclLibrary::come_together(Comm* comm, const std::atomic<bool>& given_up) const {
  for (Deadline news; !given_up; std::this_thread::sleep_for(kLook)) {
    Status state = Status::success;
    auto here = look_together(comm, state);
    if (here && state == Status::success) return here;
    if (here) continue;
    if (!may_be_a_loss(state) || news.passed()) return here;
    if (news.is_never()) news = Deadline::in(kNews);
  }
  return Failure{Fault::timed_out, "NCCL's group was given up", {}};
}

// The failure that NCCL tells of the making of the communicator; without one: its state.
Result<> NcclLibrary::look_together(Comm* comm, Status& state) const {
  const Status asked = functions().nccl.async_error(comm, &state);
  if (asked != Status::success && asked != Status::in_progress) state = asked;
  if (state == Status::invalid_usage) {
    return Failure{Fault::misuse,
                   fmt::format("NCCL refuses the group: {}; two ranks with one CUDA device? Start "
                               "one rank for each device, or show each its own by "
                               "CUDA_VISIBLE_DEVICES",
                               functions().nccl.last_error(comm)),
                   {}};
  }
  return succeeded(functions(), state, comm, "the making of an NCCL communicator");
}

Result<std::unique_ptr<collective::Engine>> NcclLibrary::engine_of(
    const collective::Gathering& group) {
  const Functions& f = functions();
  const OnDevice scope(f.cuda, device_);
  UniqueId id;
  if (group.invitation.size() != sizeof(id))
    return Failure{Fault::io, "NCCL's unique id came malformed: a bug, please report it", {}};
  std::memcpy(&id, group.invitation.data(), sizeof(id));
  const auto& ranks = group.world_ranks;
  const auto rank = static_cast<int>(std::ranges::find(ranks, rank_) - ranks.begin());
  Config config;
  Comm* comm = nullptr;
  const Status begun = f.nccl.init(&comm, static_cast<int>(ranks.size()), id, rank, &config);
  auto here = succeeded(f, begun, comm, "ncclCommInitRankConfig");
  if (here) here = come_together(comm, group.given_up);
  if (!here) {
    if (comm != nullptr) (void)f.nccl.abort(comm);
    return here.error();
  }
  auto engine =
      std::make_unique<NcclEngine>(f, comm, device_, rank, static_cast<int>(ranks.size()));
  if (auto ready = engine->prepare(); !ready) return ready.error();
  return std::unique_ptr<collective::Engine>(std::move(engine));
}

}  // namespace

std::unique_ptr<collective::EngineLibrary> make_library(Result<Functions> functions) {
  return std::make_unique<NcclLibrary>(std::move(functions));
}

}  // namespace paceline::nccl
