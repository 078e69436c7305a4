#include "paceline/app/launch/process/environment.h"

#include <gtest/gtest.h>

#include "paceline/core/base/result.h"

namespace paceline::launch {
namespace {

// On one host.
ProcessPlace place(int rank, int ranks) {
  return {.rank = rank, .local_rank = rank, .local_world_size = ranks};
}

JobVariables job_of(int ranks) {
  return {.world_size = ranks,
          .job = "0123456789abcdef",
          .store = "127.0.0.1:4000",
          .master_port = 5000,
          .usable_cores = 8};
}

std::string value(const Environment& environment, std::string_view name) {
  return std::string(value_of(environment, name));
}

TEST(Environment, KeepsWhatIsTheUsers) {
  const auto result =
      worker_environment({"HOME=/root", "EMPTY=", "EQUALS=a=b"}, job_of(2), place(1, 2));
  EXPECT_EQ(value(result, "HOME"), "/root");
  EXPECT_EQ(value(result, "EQUALS"), "a=b");
  EXPECT_NE(std::find(result.begin(), result.end(), "EMPTY="), result.end());
}

TEST(Environment, AServerHasAnIndexAndNoRank) {
  JobVariables job = job_of(4);
  job.servers = 2;
  const auto server = worker_environment({"RANK=9", "HOME=/root"}, job, {.rank = 5, .server = 1});
  EXPECT_EQ(value(server, "PACELINE_ROLE"), "server");
  EXPECT_EQ(value(server, "PACELINE_SERVERS"), "2");
  EXPECT_EQ(value(server, "PACELINE_SERVER_INDEX"), "1");
  EXPECT_EQ(value(server, "PACELINE_WORLD_SIZE"), "4");
  EXPECT_EQ(value(server, "PACELINE_STORE"), "127.0.0.1:4000");
  EXPECT_EQ(value(server, "HOME"), "/root");
  for (const char* of_ranks : {"PACELINE_RANK", "PACELINE_LOCAL_RANK", "RANK", "WORLD_SIZE"})
    EXPECT_EQ(value(server, of_ranks), "") << of_ranks;
  const auto worker = worker_environment({}, job, place(1, 4));
  EXPECT_EQ(value(worker, "PACELINE_ROLE"), "worker");
  EXPECT_EQ(value(worker, "PACELINE_SERVERS"), "2");
  EXPECT_EQ(value(worker, "PACELINE_SERVER_INDEX"), "");
  EXPECT_EQ(value(worker, "PACELINE_REPLICAS"), "");
  job.replicas = 2;
  const Environment above = {"PACELINE_REPLICAS=3"};  // a launcher's above this one
  EXPECT_EQ(value(worker_environment(above, job, place(1, 4)), "PACELINE_REPLICAS"), "2");
  EXPECT_EQ(value(worker_environment(above, job, {.rank = 6, .server = 2}), "PACELINE_REPLICAS"),
            "2");
  EXPECT_EQ(value(worker_environment(above, job_of(4), place(1, 4)), "PACELINE_REPLICAS"), "");
}

TEST(Environment, EachNameOccursOnce) {
  const auto result = worker_environment({"RANK=9", "PACELINE_TRANSPORT=shm", "OMP_NUM_THREADS="},
                                         job_of(2), place(1, 2));
  for (const auto& entry : result) {
    const auto name = entry.substr(0, entry.find('=') + 1);
    EXPECT_EQ(std::count_if(result.begin(), result.end(),
                            [&](const auto& e) { return e.starts_with(name); }),
              1)
        << name;
  }
}

TEST(Environment, ThreadsAreTheCoresOverTheRanksAndNoMoreThanItsOwn) {
  const auto threads = [](const ProcessPlace& place) {
    return value(worker_environment({}, job_of(3), place), "OMP_NUM_THREADS");
  };
  ProcessPlace bound = place(0, 3);
  EXPECT_EQ(threads(bound), "2") << "8 / 3";
  bound.processors.insert(0);
  EXPECT_EQ(threads(bound), "1");
  for (int i = 1; i < 4; ++i) bound.processors.insert(i);
  EXPECT_EQ(threads(bound), "2");
}

TEST(Environment, SettingsPassThroughAndOptionsWin) {
  auto job = job_of(2);
  const Environment inherited = {"PACELINE_TRANSPORT=shm", "PACELINE_DETERMINISM=fast",
                                 "PACELINE_OPERATION_TIMEOUT=5s"};
  EXPECT_EQ(value(worker_environment(inherited, job, place(0, 2)), "PACELINE_TRANSPORT"), "shm");
  EXPECT_EQ(value(worker_environment(inherited, job, place(0, 2)), "PACELINE_DETERMINISM"), "fast");
  EXPECT_EQ(value(worker_environment(inherited, job, place(0, 2)), "PACELINE_OPERATION_TIMEOUT"),
            "5s");
  job.transport = "tcp";
  job.operation_timeout = "7s";
  EXPECT_EQ(value(worker_environment(inherited, job, place(0, 2)), "PACELINE_TRANSPORT"), "tcp");
  EXPECT_EQ(value(worker_environment(inherited, job, place(0, 2)), "PACELINE_OPERATION_TIMEOUT"),
            "7s");
  EXPECT_EQ(value(worker_environment({}, job_of(1), place(0, 1)), "PACELINE_DETERMINISM"),
            "reproducible");
}

TEST(Environment, RanksSeeTheDevicesThatTheRunNamesAndServersAllOfThem) {
  auto job = job_of(4);
  job.servers = 1;
  job.devices = {"1", "0"};
  job.ranks_per_device = 2;
  const Environment inherited = {"CUDA_VISIBLE_DEVICES=6,7", "PACELINE_RANKS_PER_DEVICE=9"};
  const auto rank = worker_environment(inherited, job, place(3, 4));
  EXPECT_EQ(value(rank, "CUDA_VISIBLE_DEVICES"), "7,6");
  EXPECT_EQ(value(rank, "PACELINE_RANKS_PER_DEVICE"), "2");
  const auto server = worker_environment(inherited, job, {.rank = 4, .server = 0});
  EXPECT_EQ(value(server, "CUDA_VISIBLE_DEVICES"), "6,7");
  EXPECT_EQ(value(server, "PACELINE_RANKS_PER_DEVICE"), "");
  const auto others = worker_environment(inherited, job_of(4), place(3, 4));
  EXPECT_EQ(value(others, "CUDA_VISIBLE_DEVICES"), "6,7");
  EXPECT_EQ(value(others, "PACELINE_RANKS_PER_DEVICE"), "") << "it was that of a run around this";
  job.devices = {"2"};
  EXPECT_THROW(worker_environment(inherited, job, place(0, 4)), Error);
}

TEST(Environment, NcclByEitherNameSumsInItsOwnOrder) {
  auto job = job_of(2);
  job.device_transport = "nccl";
  const auto rank = worker_environment({}, job, place(0, 2));
  EXPECT_EQ(value(rank, "PACELINE_DEVICE_TRANSPORT"), "nccl");
  EXPECT_EQ(value(rank, "PACELINE_TRANSPORT"), "auto");
  EXPECT_EQ(value(rank, "PACELINE_DETERMINISM"), "fast");
  job.device_transport = "staged";
  EXPECT_EQ(value(worker_environment({}, job, place(0, 2)), "PACELINE_DETERMINISM"),
            "reproducible");
  EXPECT_EQ(value(worker_environment({}, job_of(2), place(0, 2)), "PACELINE_DEVICE_TRANSPORT"), "");
}

TEST(Environment, ThreadsAreAtLeastOneAndTheUsersWin) {
  EXPECT_EQ(value(worker_environment({}, job_of(3), place(0, 3)), "OMP_NUM_THREADS"), "2");
  EXPECT_EQ(value(worker_environment({}, job_of(100), place(0, 100)), "OMP_NUM_THREADS"), "1");
  EXPECT_EQ(value(worker_environment({"OMP_NUM_THREADS=5"}, job_of(100), place(0, 100)),
                  "OMP_NUM_THREADS"),
            "5");
}

TEST(Environment, KnowsTheVariablesOfOtherLaunchers) {
  for (const char* name :
       {"PACELINE_RANK", "PACELINE_RANKS_PER_DEVICE", "PACELINE_STORE", "PACELINE_SECRET_FD",
        "PACELINE_RUN_TIMEOUT", "RANK", "MASTER_ADDR", "OMPI_COMM_WORLD_SIZE", "PMI_FD",
        "PMIX_NAMESPACE", "SLURM_PROCID", "SLURM_STEP_ID", "TORCHELASTIC_USE_AGENT_STORE",
        "MPI_LOCALRANKID", "TF_CONFIG"}) {
    EXPECT_TRUE(is_a_launchers(name)) << name;
  }
  for (const char* name :
       {"PACELINE_TRANSPORT", "PACELINE_DEVICE_TRANSPORT", "PACELINE_LOG", "PACELINE_BIN_DIR",
        "CUDA_VISIBLE_DEVICES", "PATH", "SLURM_JOB_ID", "RANKS"}) {
    EXPECT_FALSE(is_a_launchers(name)) << name;
  }
}

TEST(Environment, PythonWritesWithoutABufferUnlessTheUserSaysHow) {
  const auto of = [](const Environment& inherited) {
    return value(worker_environment(inherited, job_of(2), place(0, 2)), "PYTHONUNBUFFERED");
  };
  EXPECT_EQ(of({}), "1");
  EXPECT_EQ(of({"PYTHONUNBUFFERED=x"}), "x");
  const auto kept = worker_environment({"PYTHONUNBUFFERED="}, job_of(2), place(0, 2));
  EXPECT_NE(std::ranges::find(kept, "PYTHONUNBUFFERED="), kept.end()) << "empty: with a buffer";
}

TEST(Environment, FreedMemoryIsKeptUnlessTheUserSaysHow) {
  const auto of = [](const Environment& inherited) {
    return value(worker_environment(inherited, job_of(2), place(0, 2)), "GLIBC_TUNABLES");
  };
  EXPECT_TRUE(of({}).find("glibc.malloc.trim_threshold=") != std::string::npos) << of({});
  EXPECT_EQ(of({"GLIBC_TUNABLES="}), "");
  EXPECT_EQ(of({"GLIBC_TUNABLES=glibc.malloc.hugetlb=0"}), "glibc.malloc.hugetlb=0");
  EXPECT_EQ(of({"MALLOC_ARENA_MAX=2"}), "");
}

}  // namespace
}  // namespace paceline::launch
