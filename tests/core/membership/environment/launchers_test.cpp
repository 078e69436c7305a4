// The launcher whose variables win, and the values that are read from them.
#include "paceline/core/membership/environment/launchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace paceline::membership {
namespace {

using ::testing::HasSubstr;
using Values = std::map<std::string, std::string>;
using Kind = Meeting::Kind;

Variables from(const Values& values) {
  return [&values](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

const Values kTorchrun = {{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"GROUP_RANK", "1"},
                          {"MASTER_ADDR", "node7"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RESTART_COUNT", "2"},
                          {"TORCHELASTIC_RUN_ID", "none"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Values kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},       {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"OMPI_COMM_WORLD_NODE_RANK", "1"},  {"PMIX_RANK", "1"},
                         {"PMIX_NAMESPACE", "4711"}};
const Values kMpich = {{"PMI_RANK", "2"},
                       {"PMI_SIZE", "4"},
                       {"MPI_LOCALRANKID", "0"},
                       {"MPI_LOCALNRANKS", "2"},
                       {"PMI_FD", "6"}};
const Values kSlurm = {{"SLURM_PROCID", "2"},
                       {"SLURM_NTASKS", "3"},
                       {"SLURM_LOCALID", "0"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_JOB_ID", "12345678"},
                       {"SLURM_STEP_ID", "4"},
                       {"SLURM_STEP_NODELIST", "n[07-08]"},
                       {"SLURM_STEP_TASKS_PER_NODE", "2,1"}};

Values operator+(Values one, const Values& other) {
  one.insert(other.begin(), other.end());
  return one;
}

TEST(Launchers, EachIsRecognisedWithItsPlace) {
  const auto torchrun = read_environment(from(kTorchrun)).value();
  EXPECT_EQ(torchrun.launcher, "torchrun");
  EXPECT_EQ(torchrun.rank, 3);
  EXPECT_EQ(torchrun.local_world_size, 2);
  EXPECT_EQ(torchrun.node_rank, 1);
  EXPECT_EQ(torchrun.generation, 3U) << "restarted twice";
  const auto openmpi = read_environment(from(kOpenMpi)).value();
  EXPECT_EQ(openmpi.rank, 1);
  EXPECT_EQ(openmpi.node_rank, 0)
      << "OMPI_COMM_WORLD_NODE_RANK is the rank on the node, not the node's";
  const auto mpich = read_environment(from(kMpich)).value();
  EXPECT_EQ(mpich.rank, 2);
  EXPECT_EQ(mpich.local_world_size, 2);
  EXPECT_EQ(mpich.engine, "") << "nobody asked for it";
  const auto slurm = read_environment(from(kSlurm)).value();
  EXPECT_EQ(slurm.rank, 2);
  EXPECT_EQ(slurm.node_rank, 1);
  EXPECT_EQ(slurm.local_world_size, 1) << "the second of \"2,1\"";
}

TEST(Launchers, TheNearestToTheWorkerWins) {
  const Values paceline = {{"PACELINE_RANK", "0"}, {"PACELINE_WORLD_SIZE", "1"}};
  const Values tf = {
      {"TF_CONFIG",
       R"({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}})"}};
  const auto who = [](const Values& values) {
    return read_environment(from(values)).value().launcher;
  };
  EXPECT_EQ(who(tf + kSlurm + kMpich + kOpenMpi + kTorchrun + paceline), "paceline run");
  EXPECT_EQ(who(tf + kSlurm + kMpich + kOpenMpi + kTorchrun), "torchrun");
  EXPECT_EQ(who(tf + kSlurm + kMpich + kOpenMpi), "Open MPI's mpirun");
  EXPECT_EQ(who(tf + kSlurm + kMpich), "mpiexec (PMI)");
  EXPECT_EQ(who(tf + kSlurm), "srun");
  EXPECT_EQ(who(tf), "TF_CONFIG");
}

TEST(Launchers, AShellInsideAnAllocationIsNoWorker) {
  Values salloc = kSlurm;
  salloc.erase("SLURM_STEP_ID");
  EXPECT_EQ(recognise(from(salloc)), nullptr);
  EXPECT_EQ(read_environment(from(salloc)).value().world_size, 1);
  EXPECT_EQ(recognise(from({{"RANK", "1"}, {"WORLD_SIZE", "2"}})), nullptr)
      << "without MASTER_ADDR they may be anybody's";
}

TEST(Launchers, TheAddressIsAgreedAsTheLauncherAllows) {
  EXPECT_EQ(find_meeting(from(kTorchrun)).value(),
            (Meeting{.kind = Kind::agent_store, .address = "node7:29500"}));
  Values own_port = kTorchrun;
  own_port.erase("TORCHELASTIC_USE_AGENT_STORE");
  EXPECT_EQ(find_meeting(from(own_port)).value(),
            (Meeting{.kind = Kind::address, .address = "node7:29500"}));
  EXPECT_EQ(find_meeting(from(kSlurm)).value(),
            (Meeting{.kind = Kind::address, .address = "n07:37354"}));
  EXPECT_EQ(find_meeting(from(kMpich)).value(), (Meeting{.kind = Kind::pmi, .pmi = 6}));
  EXPECT_EQ(find_meeting(from(kOpenMpi)).value().kind, Kind::this_host);
  const Values store = {{"PACELINE_STORE", "10.0.0.1:5000"}};
  EXPECT_EQ(find_meeting(from(kTorchrun + store)).value(),
            (Meeting{.kind = Kind::address, .address = "10.0.0.1:5000"}));
}

TEST(Launchers, JobsThatDifferAreCalledDifferently) {
  Values other = kTorchrun;
  other["MASTER_PORT"] = "29501";
  EXPECT_NE(read_environment(from(kTorchrun)).value().job,
            read_environment(from(other)).value().job);
  EXPECT_EQ(read_environment(from(kTorchrun)).value().job,
            read_environment(from(kTorchrun)).value().job);
  EXPECT_EQ(read_environment(from(kMpich)).value().job, read_environment(from(kMpich)).value().job);
}

TEST(Launchers, AVariableThatMakesNoSenseIsNamed) {
  for (const auto& [name, value] : Values{{"RANK", "4"},
                                          {"WORLD_SIZE", "0"},
                                          {"LOCAL_RANK", "x"},
                                          {"TORCHELASTIC_RESTART_COUNT", "-1"}}) {
    Values wrong = kTorchrun;
    wrong[name] = value;
    const auto read = read_environment(from(wrong));
    ASSERT_FALSE(read) << name;
    EXPECT_THAT(read.error().what, HasSubstr(name + "=" + value));
  }
  Values nodes = kSlurm;
  nodes["SLURM_STEP_NODELIST"] = "n[2-1]";
  EXPECT_THAT(read_environment(from(nodes)).error().what, HasSubstr("goes down"));
}

TEST(Launchers, TheTransportMpiIsThatOfTheLaunchersLibrary) {
  const Values mpi = {{"PACELINE_TRANSPORT", "mpi"}};
  const auto openmpi = read_environment(from(kOpenMpi + mpi)).value();
  EXPECT_EQ(openmpi.engine, "mpi_openmpi");
  EXPECT_FALSE(openmpi.reproducible) << "it adds in its own order";
  EXPECT_EQ(openmpi.transport, TransportChoice::automatic) << "of the links beside it";
  EXPECT_EQ(read_environment(from(kMpich + mpi))->engine, "mpi_mpich");

  for (const Values& others : {mpi, kTorchrun + mpi}) {
    const auto refused = read_environment(from(others)).error();
    EXPECT_EQ(refused.fault, Fault::misuse);
    EXPECT_THAT(refused.what, HasSubstr("start it by `mpirun -n 4 PROGRAM`"));
  }
  const Values promise = {{"PACELINE_DETERMINISM", "reproducible"}};
  EXPECT_THAT(read_environment(from(kOpenMpi + mpi + promise)).error().what,
              HasSubstr("PACELINE_DETERMINISM=reproducible excludes"));
}

using ::testing::HasSubstr;

std::string config(const std::string& cluster, const std::string& task) {
  return R"({"cluster": )" + cluster + R"(, "task": )" + task + "}";
}

constexpr const char* kCluster =
    R"({"worker": ["b:1", "a:2", "b:2"], "chief": ["a:1"], "evaluator": ["c:1"]})";

TEST(TfConfig, TheChiefIsRank0AndWorkersFollowInTheirOrder) {
  const auto chief = parse_tf_config(config(kCluster, R"({"type": "chief", "index": 0})")).value();
  EXPECT_EQ(chief.rank, 0);
  EXPECT_EQ(chief.world_size, 4);
  EXPECT_EQ(chief.first, "a:1");
  const auto last = parse_tf_config(config(kCluster, R"({"type": "worker", "index": 2})")).value();
  EXPECT_EQ(last.rank, 3);
  EXPECT_EQ(last.local_rank, 1) << "rank 1 is on host b too";
  EXPECT_EQ(last.local_world_size, 2);
  EXPECT_EQ(last.node_rank, 1);
  EXPECT_EQ(last.first, "a:1");
  EXPECT_EQ(last.identity, chief.identity);
}

TEST(TfConfig, WithoutAChiefWorker0IsRank0) {
  const auto place =
      parse_tf_config(config(R"({"worker": ["a:1", "b:1"]})", R"({"type": "worker", "index": 0})"))
          .value();
  EXPECT_EQ(place.rank, 0);
  EXPECT_EQ(place.world_size, 2);
}

TEST(TfConfig, AParameterServerIsAServerOfTheJobAndHasNoRank) {
  const char* cluster = R"({"worker": ["a:1", "b:1"], "ps": ["b:2", "c:1"]})";
  const auto server = parse_tf_config(config(cluster, R"({"type": "ps", "index": 1})")).value();
  const auto worker = parse_tf_config(config(cluster, R"({"type": "worker", "index": 1})")).value();
  EXPECT_EQ(server.rank, -1);
  EXPECT_EQ(server.server_index, 1);
  EXPECT_EQ(server.local_world_size, 0);
  EXPECT_EQ(worker.server_index, -1);
  EXPECT_EQ(worker.rank, 1);
  for (const auto& place : {server, worker}) {
    EXPECT_EQ(place.world_size, 2);
    EXPECT_EQ(place.servers, 2);
    EXPECT_EQ(place.first, "a:1");
    EXPECT_TRUE(place.spans_hosts);
  }
  EXPECT_EQ(server.identity, worker.identity);
  const char* one_host = R"({"worker": ["a:1"], "ps": ["a:2"]})";
  EXPECT_FALSE(
      parse_tf_config(config(one_host, R"({"type": "ps", "index": 0})")).value().spans_hosts);
}

TEST(TfConfig, AnEvaluatorIsNoRankOfTheTrainingWorld) {
  for (const char* cluster : {kCluster, R"({"worker": ["a:1", "b:1"]})"}) {
    EXPECT_EQ(parse_tf_config(config(cluster, R"({"type": "evaluator", "index": 0})")).value(),
              TfPlace{});
  }
}

struct Wrong {
  std::string text;
  const char* says;
};

TEST(TfConfig, WrongOnesSayWhatIsWrong) {
  for (const auto& [text, says] : std::vector<Wrong>{
           {"{", "no JSON"},
           {"[]", "no object"},
           {R"({"task": {"type": "worker", "index": 0}})", "\"cluster\" is missing"},
           {config("{}", R"({"type": "worker", "index": 0})"), "names nobody"},
           {config(R"({"worker": "a:1"})", R"({"type": "worker", "index": 0})"),
            "no list of addresses"},
           {config(R"({"worker": ["a"]})", R"({"type": "worker", "index": 0})"),
            "\"a\" under \"worker\" is not \"host:port\""},
           {config(R"({"worker": [7]})", R"({"type": "worker", "index": 0})"),
            "7 under \"worker\""},
           {R"({"cluster": {"worker": ["a:1"]}})", "\"task\" has no \"type\""},
           {config(kCluster, R"({"type": "worker"})"), "no \"index\""},
           {config(kCluster, R"({"type": "worker", "index": "1"})"), "no \"index\""},
           {config(kCluster, R"({"type": "worker", "index": 3})"),
            "the task is worker 3, but the cluster has 3"},
           {config(kCluster, R"({"type": "worker", "index": -1})"), "the task is worker -1"},
           {config(kCluster, R"({"type": "wroker", "index": 0})"),
            "the task is wroker 0, but the cluster has 0"},
           {config(R"({"gpu": ["a:1"]})", R"({"type": "gpu", "index": 0})"),
            "it is chief, worker, ps or evaluator"},
           {config(R"({"ps": ["a:1"]})", R"({"type": "ps", "index": 0})"),
            "no chief or worker for them"},
           {config(R"({"ps": ["a:1"], "worker": ["a:2"]})", R"({"type": "ps", "index": 1})"),
            "the task is ps 1, but the cluster has 1"},
       }) {
    const auto place = parse_tf_config(text);
    ASSERT_FALSE(place) << text;
    EXPECT_EQ(place.error().fault, Fault::misuse);
    EXPECT_THAT(place.error().what, HasSubstr(says));
    EXPECT_THAT(place.error().what, HasSubstr("TF_CONFIG"));
  }
}

}  // namespace

}  // namespace paceline::membership
