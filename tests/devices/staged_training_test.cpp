// Trainings whose models lie on devices (tests/devices/cuda_double.h) beside the same on the CPU,
// whose losses they must have.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/job/use_devices.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/norm/norm.h"
#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/replica/replica.h"
#include "paceline/torch/tensor/tensor.h"
#include "tests/devices/cuda_double.h"
#include "tests/devices/small_models.h"
#include "tests/support/local_world.h"
#include "tests/support/misuse.h"

namespace paceline::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

struct Training {
  std::string name;
  DataParallelOptions options = {};
  std::function<nn::Sequential()> model;
  int steps = 6;
  int accumulate = 1;
  double clip = 0;
  double momentum = 0.9;
  bool zeroes = false;      // gradients, before each step
  double tolerance = 1e-5;  // of losses
  bool is_joined = false;   // the last rank's data end two steps earlier
};

void PrintTo(const Training& training, std::ostream* into) {
  *into << training.name;
}

nn::Sequential synchronised() {
  nn::Sequential model = small_cnn();
  convert_sync_batch_norm(*model);
  return model;
}

struct Result {
  std::vector<double> losses;        // rank 0's
  std::vector<std::string> digests;  // of the parameters, of each rank
};

// How buckets go from a device to other ranks.
enum class Way : std::uint8_t {
  cpu,     // there is no device
  copies,  // by libtorch's copies, as in a program without the plugin of CUDA
  staged,  // by Paceline's own
  direct,  // between devices
};

void use_devices(Job& job, Way way) {
  if (way != Way::staged && way != Way::direct) return;
  job::use_devices(job, doubled_devices(), /*all_buffers=*/false,
                   way == Way::direct ? membership::DeviceTransport::automatic
                                      : membership::DeviceTransport::staged);
}

Result train(const Training& training, int ranks, Way way) {
  Result result{.digests = std::vector<std::string>(static_cast<std::size_t>(ranks))};
  run_ranks(ranks, [&](Job& job) {
    const at::Device device = place_of(way != Way::cpu, job.rank());
    use_devices(job, way);
    nn::Sequential model = training.model();
    draw_parameters(model);
    model->to(device);
    DataParallel parallel(*model, job, training.options);
    torch::optim::SGD optimizer(parallel.parameters(),
                                torch::optim::SGDOptions(0.05).momentum(training.momentum));
    at::Generator draw =
        at::detail::createCPUGenerator(40 + static_cast<std::uint64_t>(job.rank()));
    for (int step = 0; step < training.steps; ++step) {
      const bool has_data =
          !training.is_joined || job.rank() + 1 < ranks || step + 2 < training.steps;
      if (training.zeroes) optimizer.zero_grad();
      parallel.weight(has_data ? 6 : 0);
      double mean = 0;
      for (int pass = 0; has_data && pass < training.accumulate; ++pass) {
        const at::Tensor data = at::randn({6, 12}, draw).to(device, parallel.input_type()),
                         target = at::randint(5, {6}, draw, at::kLong).to(device);
        const auto scope = parallel.autocast();
        const at::Tensor loss =
            nn::functional::cross_entropy(model->forward(data).to(at::kFloat), target);
        parallel.backward(loss);
        mean += loss.item<double>() / training.accumulate;
      }
      if (training.clip > 0) {
        parallel.synchronize();
        parallel.clip_grad_norm(training.clip);
        optimizer.step();
      } else {
        parallel.step(optimizer);
      }
      if (job.rank() == 0) result.losses.push_back(mean);
    }
    parallel.finish();
    std::string& digest = result.digests[static_cast<std::size_t>(job.rank())];
    digest = sha256_of(model->parameters());
    EXPECT_EQ(whole_sha256(*model), digest);
  });
  return result;
}

std::vector<Training> trainings() {
  std::vector<Training> all;
  for (const char* schedule : {"barrier", "buckets", "wait_free", "merged", "priority", "general"})
    all.push_back({.name = schedule, .options = {.schedule = schedule}, .model = small_mlp});
  for (const char* codec :
       {"fp16:min_compress_bytes=0", "bf16:min_compress_bytes=0", "bf16:min_compress_bytes=300",
        "int8:min_compress_bytes=0", "top_k:ratio=0.2,min_compress_bytes=0",
        "power_sgd:rank=2,min_compress_bytes=0"})
    all.push_back({.name = codec, .options = {.compression = codec}, .model = small_mlp});
  for (const char* schedule : {"wait_free", "merged", "priority"})
    all.push_back({.name = std::string("fp16_") + schedule,
                   .options = {.schedule = schedule, .compression = "fp16:min_compress_bytes=0"},
                   .model = small_mlp});
  for (const char* synchrony : {"local_sgd:period=3", "gossip", "elastic"})
    all.push_back({.name = synchrony, .options = {.synchrony = synchrony}, .model = small_cnn});
  all.push_back({.name = "small_buckets",
                 .options = {.first_bucket_bytes = 512, .bucket_bytes = 1024},
                 .model = small_cnn});
  all.push_back({.name = "clipped", .model = small_mlp, .clip = 0.1});
  all.push_back({.name = "max_grad_norm", .options = {.max_grad_norm = 0.1}, .model = small_mlp});
  all.push_back({.name = "accumulated",
                 .options = {.backward_passes_per_step = 3},
                 .model = small_cnn,
                 .accumulate = 3});
  all.push_back({.name = "joined", .model = small_mlp, .is_joined = true});
  all.push_back(
      {.name = "o1", .options = {.precision = "o1"}, .model = small_mlp, .tolerance = 0.05});
  all.push_back({.name = "o1_fp16",
                 .options = {.precision = "o1:dtype=fp16"},
                 .model = small_mlp,
                 .tolerance = 0.05});
  all.push_back(
      {.name = "o2", .options = {.precision = "o2"}, .model = small_mlp, .tolerance = 0.05});
  all.push_back({.name = "gpt", .model = small_gpt, .zeroes = true});
  all.push_back({.name = "sparse", .model = small_embedding, .momentum = 0, .zeroes = true});
  all.push_back({.name = "sync_batch_norm", .model = synchronised});
  all.push_back({.name = "non_finite", .options = {.non_finite = "skip"}, .model = small_mlp});
  return all;
}

// Buckets that are encoded go by copies, whatever the rest does, but for those that are cast.
std::vector<Way> ways_of(const Training& training, int ranks) {
  const std::string_view codec = training.options.compression;
  if (codec.starts_with("fp16") || codec.starts_with("bf16"))
    return {Way::copies, Way::staged, Way::direct};
  if (!codec.empty() && codec != "none") return {Way::copies};
  return {ranks == 2 ? Way::copies : Way::staged, Way::direct};
}

class StagedTraining : public ::testing::TestWithParam<Training> {};

TEST_P(StagedTraining, HasTheLossesOfTheCpu) {
  for (const int ranks : {2, 3}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    const Result expected = train(GetParam(), ranks, Way::cpu);
    const bool are_equal = GetParam().options.synchrony == "synchronous";
    std::string digest;
    for (const Way way : ways_of(GetParam(), ranks)) {
      const Result got = train(GetParam(), ranks, way);
      ASSERT_EQ(got.losses.size(), expected.losses.size());
      for (std::size_t i = 0; i < got.losses.size(); ++i)
        EXPECT_NEAR(got.losses[i], expected.losses[i], GetParam().tolerance) << "step " << i;
      if (!are_equal) continue;
      if (digest.empty()) digest = got.digests.front();
      EXPECT_THAT(got.digests, Each(digest)) << "way " << static_cast<int>(way);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, StagedTraining, ::testing::ValuesIn(trainings()), [](const auto& one) {
  std::string name = one.param.name;
  for (char& each : name)
    if (std::isalnum(static_cast<unsigned char>(each)) == 0) each = '_';
  return name;
});

// --- what the device sees ------------------------------------------------------------------------

// Counts of five steps of two ranks, after the first ones: a group's first calls are staged in any
// case, and the layout of buckets changes once.
SeenByDouble seen_in_steps(Way way, const std::string& compression) {
  SeenByDouble seen;
  run_ranks(2, [&](Job& job) {
    use_devices(job, way);
    nn::Sequential model = small_mlp();
    model->to(place_of(true, job.rank()));
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05));
    DataParallel parallel(*model, job, {.compression = compression});
    const auto step = [&] {
      model->forward(at::ones({6, 12}).to(place_of(true, job.rank()))).square().mean().backward();
      parallel.step(optimizer);
    };
    for (int i = 0; i < 3; ++i) step();
    job.world().barrier().wait();
    const SeenByDouble before = seen_by_double();
    job.world().barrier().wait();
    for (int i = 0; i < 5; ++i) step();
    job.world().barrier().wait();
    const SeenByDouble after = seen_by_double();
    job.world().barrier().wait();
    if (job.rank() == 0)
      seen = {.late_copies = after.late_copies - before.late_copies,
              .waits = after.waits - before.waits,
              .reductions = after.reductions - before.reductions,
              .copied = after.copied - before.copied};
  });
  return seen;
}

constexpr const char* kCast = "bf16:min_compress_bytes=0";

TEST(StagedTrainings, NeverWaitForTheDeviceByBlocking) {
  const SeenByDouble copies = seen_in_steps(Way::copies, "none");
  EXPECT_GE(copies.late_copies, 2 * 5 * 2);  // of each rank and step one copy each way at least
  EXPECT_EQ(copies.waits, 0);
  for (const Way way : {Way::copies, Way::staged, Way::direct})
    EXPECT_EQ(seen_in_steps(way, kCast).waits, 0) << "way " << static_cast<int>(way);
}

TEST(StagedTrainings, SumBucketsBetweenDevicesThatReachEachOther) {
  EXPECT_GE(seen_in_steps(Way::direct, "none").reductions, 5);
  EXPECT_GE(seen_in_steps(Way::direct, kCast).reductions, 5) << "they are cast there";
  EXPECT_EQ(seen_in_steps(Way::direct, "int8:min_compress_bytes=0").reductions, 0)
      << "they go through the host";
}

TEST(StagedTrainings, CopyHalfTheBytesOfWhatIsCast) {
  const std::int64_t whole = seen_in_steps(Way::staged, "none").copied,
                     cast = seen_in_steps(Way::staged, kCast).copied,
                     few = seen_in_steps(Way::staged, "bf16:min_compress_bytes=1000").copied;
  EXPECT_GT(whole, 0);
  EXPECT_GE(cast, whole / 2);
  EXPECT_LE(cast, whole * 6 / 10) << "what is not cast is short";
  EXPECT_LT(cast, few) << "short tensors travel whole";
  EXPECT_LT(few, whole);
}

TEST(StagedTrainings, LeaveOutAStepWhoseMeanIsTooLargeForItsCodec) {
  run_ranks(2, [&](Job& job) {
    job::use_devices(job, doubled_devices());
    const at::Device device = place_of(true, job.rank());
    nn::Sequential model = small_mlp();
    model->to(device);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05));
    DataParallel parallel(*model, job, {.compression = "fp16:min_compress_bytes=0"});
    const auto digest_after_step = [&](double scale) {
      (model->forward(at::ones({6, 12}).to(device)).square().mean() * scale).backward();
      parallel.step(optimizer);
      return sha256_of(model->parameters());
    };
    const std::string before = digest_after_step(1);
    EXPECT_EQ(digest_after_step(job.rank() == 1 ? 1e12 : 1), before);
    EXPECT_NE(digest_after_step(1), before);
  });
}

// --- broadcasts --------------------------------------------------------

TEST(StagedTrainings, BroadcastWhatLiesOnDevices) {
  run_ranks(3, [](Job& job) {
    const at::Tensor tensor = at::full({5, 3}, job.rank()).to(place_of(true, job.rank())).t();
    broadcast_parameters({tensor}, job.world(), 2);
    EXPECT_TRUE(at::equal(tensor.cpu(), at::full({3, 5}, 2)));
  });
}

// --- refusals ------------------------------------------------------------------------------------

TEST(StagedTrainings, AreRefusedWhereSomethingWorksOnTheHostAlone) {
  run_ranks(2, [](Job& job) {
    nn::Sequential model = small_mlp();
    model->to(place_of(true, job.rank()));
    EXPECT_THAT(
        misuse_of([&] { DataParallel parallel(*model, job, {.zero_stage = 1}); }),
        AllOf(HasSubstr("zero_stage is 1"), HasSubstr("lies on cuda:"), HasSubstr("zero_stage 0")));
  });
}

TEST(StagedTrainings, AreRefusedWhereRanksShareLayers) {
  run_ranks(2, [](Job& job) {
    DeviceMesh mesh(job, "tp=2");
    nn::Sequential model = small_mlp();
    parallelize(*model, mesh, {{"0", ParallelStyle::column}, {"2", ParallelStyle::row}});
    model->to(place_of(true, job.rank()));
    EXPECT_THAT(misuse_of([&] { DataParallel parallel(*model, mesh); }),
                AllOf(HasSubstr("layers that ranks share"), HasSubstr("lies on cuda:"),
                      HasSubstr("make every rank a replica")));
  });
}

TEST(StagedTrainings, AreRefusedWhereAModelLiesOnTwoDevices) {
  run_ranks(1, [](Job& job) {
    nn::Sequential model = small_mlp();
    model[0]->to(at::Device(at::kCUDA, 1));
    EXPECT_THAT(misuse_of([&] { DataParallel parallel(*model, job); }),
                AllOf(HasSubstr("0.weight lies on cuda:1"), HasSubstr("2.weight on cpu")));
  });
}

TEST(StagedTrainings, AreRefusedWhenTheModelIsMovedLater) {
  run_ranks(2, [](Job& job) {
    nn::Sequential model = small_mlp();
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05));
    DataParallel parallel(*model, job);
    const at::Device device = place_of(true, job.rank());
    model->to(device);
    const std::string refusal = misuse_of([&] {
      model->forward(at::ones({6, 12}).to(device)).sum().backward();
      parallel.step(optimizer);
    });
    EXPECT_THAT(refusal, HasSubstr("rebind"));
  });
}

}  // namespace
}  // namespace paceline::test
