// DataParallel::save() and state(): one file, which plain libtorch reads, in every mode.
#include "paceline/torch/parallel/model_file.h"

#include <filesystem>
#include <fstream>
#include <mutex>

#include "paceline/core/server/server.h"
#include "paceline/torch/strategy/strategy.h"
#include "paceline/torch/tensor/tensor.h"
#include "tests/support/temporary_folder.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

std::string loaded_digest(const std::string& file, at::ScalarType type) {
  auto net = std::make_shared<Net>(type);
  for (at::Tensor& one : net->parameters()) one.data().zero_();
  torch::load(net, file);
  for (const at::Tensor& one : net->parameters()) {
    EXPECT_TRUE(one.requires_grad());
    EXPECT_EQ(one.scalar_type(), type);
    EXPECT_EQ(one.storage().nbytes(), one.nbytes()) << "no tensor lies beside another";
  }
  return sha256_of(net->parameters());
}

// The digest of the model in the file that was saved after some steps.
std::string saved_digest(const DataParallelOptions& options, int ranks = 2, int servers = 0) {
  const TemporaryFolder folder;
  const std::string file = folder.file("model.pt");
  const auto type = options.precision == "none" ? at::kDouble : at::kFloat;
  run_ranks(ranks, {.servers = servers}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    auto net = std::make_shared<Net>(type);
    DataParallel parallel(net, job, options);
    torch::optim::SGD optimizer(parallel.parameters(), torch::optim::SGDOptions(0.1));
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      const Samples own = samples(10 * step + job.rank(), 4);
      const auto input = parallel.input_type();
      const at::Tensor loss =
          at::mse_loss(net->forward(own.x.to(input), true).to(type), own.y.to(type));
      parallel.backward(loss);
      parallel.loss(loss.item<double>());
      parallel.step(optimizer);
    }
    parallel.save(file);
    const auto state = parallel.state();
    {
      const auto shared = parallel.consensus();
      parallel.save(file);
    }
    std::vector<at::Tensor> values;
    for (const auto& entry : net->named_parameters()) values.push_back(state[entry.key()]);
    EXPECT_EQ(sha256_of(values), loaded_digest(file, type)) << "state() is what the file holds";
  });
  EXPECT_FALSE(fs::exists(file + ".saving"));
  return loaded_digest(file, type);
}

TEST(ModelFile, HoldsTheSameModelAtEveryStage) {
  const std::string expected = saved_digest(kSmallBuckets);
  for (int stage = 1; stage <= 3; ++stage) {
    DataParallelOptions options = kSmallBuckets;
    options.zero_stage = stage;
    EXPECT_EQ(saved_digest(options), expected) << "zero_stage " << stage;
  }
}

TEST(ModelFile, HoldsTheMastersOfO2AndTheConsensusOfOtherSynchronies) {
  for (const char* precision : {"o1", "o2"}) saved_digest({.precision = precision});
  for (const strategy::Strategy& one : strategy::strategies()) {
    SCOPED_TRACE(one.name);
    const std::string text = std::string(one.name) + (one.name == "robust" ? ":faulty=0" : "");
    saved_digest({.synchrony = text}, 4, one.on_servers ? 1 : 0);
  }
}

template <typename Layer>
nn::Sequential layers_of_seed() {
  static std::mutex one_stream;
  const std::lock_guard lock(one_stream);
  torch::manual_seed(3);
  nn::Sequential model;
  model->push_back("up", Layer(6, 8));
  model->push_back("norm", nn::BatchNorm1d(8));
  model->push_back("down", Layer(8, 4));
  model->push_back("bare", nn::Linear(nn::LinearOptions(4, 2).bias(false)));
  return model;
}

TEST(ModelFile, HoldsWholeLayersThatRanksShareAndEveryBuffer) {
  const TemporaryFolder folder;
  const std::string file = folder.file("model.pt");
  const auto whole = layers_of_seed<Linear>();
  run_ranks(2, [&](Job& job) {
    auto model = layers_of_seed<Linear>();
    DeviceMesh mesh(job, "tp=2");
    parallelize(*model, mesh, {{"up", ParallelStyle::column}, {"down", ParallelStyle::row}});
    DataParallel parallel(model, mesh);
    model->named_buffers()["norm.running_mean"].fill_(7);
    parallel.save(file);
    EXPECT_TRUE(at::equal(parallel.state()["up.weight"], whole->named_parameters()["up.weight"]));
  });
  auto loaded = layers_of_seed<nn::Linear>();  // a program without Paceline
  for (at::Tensor& one : loaded->parameters()) one.data().zero_();
  torch::load(loaded, file);
  for (const auto& entry : whole->named_parameters())
    EXPECT_TRUE(at::equal(loaded->named_parameters()[entry.key()], entry.value())) << entry.key();
  EXPECT_EQ(loaded->named_buffers()["norm.running_mean"][5].item<double>(), 7);
}

TEST(ModelFile, ThatCannotBeWrittenIsToldOnAllRanksAndTheOldOneStays) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("model.pt")) << "old";
  run_ranks(2, [&](Job& job) {
    auto net = std::make_shared<Net>();
    DataParallel parallel(net, job);
    const auto failure = [&](const std::string& file) -> std::string {
      try {
        parallel.save(file);
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::io);
        return error.what();
      }
      return "nothing was thrown";
    };
    EXPECT_THAT(failure(folder.file("none/model.pt")),
                AllOf(HasSubstr("none/model.pt"), HasSubstr("No such file or directory")));
    DataParallel of_parameters(
        std::vector<replica::Parameter>{{"weight", at::ones({3}).set_requires_grad(true)}}, job);
    EXPECT_THAT(misuse_of([&] { of_parameters.save(folder.file("model.pt")); }),
                HasSubstr("state()"));
    EXPECT_EQ(of_parameters.state()["weight"].numel(), 3);
  });
  std::string left;
  std::ifstream(folder.file("model.pt")) >> left;
  EXPECT_EQ(left, "old");
}

// A vector of the tensors is read past libtorch's operators too.
TEST(ModelFile, TorchSaveOfParametersOnOtherRanksIsRefusedByNameAndSavesThemUnderGathered) {
  const TemporaryFolder folder;
  run_ranks(2, [&](Job& job) {
    auto net = std::make_shared<Net>();
    const std::string digest = sha256_of(net->parameters());
    DataParallel parallel(net, job, {.zero_stage = 3});
    const std::string file = folder.file(c10::str("model-", job.rank()));
    const auto refusal = [](const auto& call) -> std::string {
      try {
        call();
      } catch (const c10::Error& error) {
        return error.what_without_backtrace();
      }
      return "nothing was thrown";
    };
    const auto names_all = AllOf(HasSubstr("'last.bias'"), HasSubstr("parallel.save(file)"),
                                 HasSubstr("parallel.gathered()"));
    EXPECT_THAT(refusal([&] { torch::save(net, file); }), names_all);
    EXPECT_THAT(refusal([&] { torch::save(net->parameters(), file); }), names_all);
    EXPECT_THAT(refusal([&] { (void)net->first->weight.data_ptr(); }), names_all);
    {
      const auto whole = parallel.gathered();
      torch::save(net, file);
      parallel.save(folder.file("together"));
    }
    auto other = std::make_shared<Net>();
    torch::load(other, file);
    EXPECT_EQ(sha256_of(other->parameters()), digest);
    EXPECT_EQ(loaded_digest(folder.file("together"), at::kDouble), digest);
  });
}

}  // namespace
}  // namespace paceline
