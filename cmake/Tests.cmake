# Tests. One executable and one ctest entry for each room; nothing is discovered at build time.
#   tests/support/            headers and sources that all tests may use
#   tests/<floor>/<room>/     **/*_test.cpp -> test_<floor>_<room>
#   tests/linear/             **/*.cpp -> test_linear, with tests/examples/support/ and what it tests
#   tests/bench/<room>/       *_test.cpp -> test_bench_<room> (cmake/Programs.cmake)
#   tests/plugins/nccl/       -> test_plugins_nccl, where CUDA's headers are
#   tests/plugins/cuda/       -> test_plugins_cuda, there too
#   tests/devices/            -> test_devices: trainings on a double of libtorch's CUDA devices
#   tests/processes/          *_test.cpp -> test_processes; programs/*.cpp and torch_programs/*.cpp -> one helper each,
#                             mpi_programs/*.cpp -> one for each MPI library
#   tests/package/            installs, and builds a project that uses what was installed
#   tests/readers/            traces, TensorBoard, Prometheus and manifests as the readers of others see them
#   tests/net/                *_test.cpp -> test_net: several hosts, and launchers of others
#   tests/house/              rules about the code, in Python
#   tests/skips.py            after all others: whether those that were skipped may be (tests/allowed_skips.txt)

# Tests find the executables in $PACELINE_BIN_DIR if set (ctest sets it), else by the macro of the same name.
# No stack-use-after-return: GCC 12 puts AVX-512 spills on a misaligned fake stack (GCC PR 110027) and crashes.
set(PACELINE_TEST_ENVIRONMENT
  "PACELINE_BIN_DIR=${CMAKE_CURRENT_BINARY_DIR}/bin"
  "ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=0"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")

# Each entry leaves the results of its tests in this folder, for tests/skips.py.
set(PACELINE_TEST_RESULTS "${CMAKE_CURRENT_BINARY_DIR}/test_results")

set(PACELINE_TEST_OPTIONS $<$<CONFIG:Release,Sanitize>:-Og>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND PACELINE_TEST_OPTIONS $<$<CONFIG:Release>:-Wno-free-nonheap-object>)  # at -Og it doubts std::string's own memory
endif()
if(PACELINE_BATCHES)
  list(APPEND PACELINE_TEST_OPTIONS -Wno-shadow)  # of another test's constants
endif()
if(PACELINE_SANITIZE MATCHES "undefined")
  list(APPEND PACELINE_TEST_OPTIONS
       -fno-sanitize=alignment,nonnull-attribute,returns-nonnull-attribute)
endif()

# If presets share a ctest run, the longest ones (with sanitizers) come first, so that none of them runs alone at the end.
set(PACELINE_TEST_COST 1)
if(PACELINE_SANITIZE MATCHES "thread")
  set(PACELINE_TEST_COST 3)
elseif(PACELINE_SANITIZE)
  set(PACELINE_TEST_COST 2)
endif()

# paceline_test_support(): the library paceline_test_support, which every test links.
function(paceline_test_support)
  paceline_glob(sources "tests/support/*.cpp")
  if(NOT sources)
    set(sources "${PACELINE_EMPTY_SOURCE}")
  endif()
  add_library(paceline_test_support STATIC ${sources})
  target_link_libraries(paceline_test_support PUBLIC paceline::core GTest::gtest GTest::gmock)
  # They belong to one file: a macro of the whole target would be part of the precompiled header, which tests without it could not use.
  set_source_files_properties("${CMAKE_CURRENT_SOURCE_DIR}/tests/support/process.cpp" PROPERTIES COMPILE_DEFINITIONS
    "PACELINE_BIN_DIR=\"${CMAKE_CURRENT_BINARY_DIR}/bin\";PACELINE_SOURCE_DIR=\"${CMAKE_CURRENT_SOURCE_DIR}\"")
  # Tests are compiled often and run once, so the compiler optimises them less. For the same reason their own code (never
  # the code under test) goes without the checks that cost most to compile; the address sanitizer sees wrong pointers anyway.
  target_compile_options(paceline_test_support PUBLIC ${PACELINE_TEST_OPTIONS})
  # Reading these headers is most of a test's compilation; every test without torch shares them.
  target_precompile_headers(paceline_test_support PRIVATE <gmock/gmock.h> <gtest/gtest.h> <fmt/format.h>)
endfunction()

# paceline_test(<target> SOURCES <file>... [LIBRARIES <target>...] [TIMEOUT <seconds>] [CORES <n>] [SHARDS <n>] [CHECKED])
# SHARDS: so many entries of ctest, each with a part of the executable's tests. CHECKED: with PACELINE_CHECKED_TESTS its
# objects are linked with paceline_core_checked too.
function(paceline_test target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "CHECKED" "TIMEOUT;CORES;SHARDS" "SOURCES;LIBRARIES")
  set(compiled ${target})
  if(arg_CHECKED AND PACELINE_CHECKED_TESTS)
    set(compiled ${target}_objects)
    add_library(${compiled} OBJECT ${arg_SOURCES})
    add_executable(${target} $<TARGET_OBJECTS:${compiled}>)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} paceline_test_support GTest::gtest_main)
  else()
    add_executable(${target} ${arg_SOURCES})
  endif()
  target_link_libraries(${compiled} PRIVATE ${arg_LIBRARIES} paceline_test_support nlohmann_json::nlohmann_json
                                            GTest::gtest_main)
  if(NOT arg_LIBRARIES STREQUAL "paceline::torch")
    target_precompile_headers(${compiled} REUSE_FROM paceline_test_support)
  endif()
  # Names of helpers must differ within a room; tests of a catalogue's entries have a namespace each.
  paceline_batches(${compiled} 16)
  paceline_test_entries(${target} ${ARGN})
  if(arg_CHECKED AND PACELINE_CHECKED_TESTS)
    paceline_checked_test(${target} ${ARGN})
  endif()
endfunction()

# paceline_test_entries(<target> [TIMEOUT <seconds>] [CORES <n>] [SHARDS <n>] [COST <n>]): the entries of ctest.
function(paceline_test_entries target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "CHECKED" "TIMEOUT;CORES;SHARDS;COST" "SOURCES;LIBRARIES")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 900)  # under the thread sanitizer a room takes ten times as long, and machines differ by a factor of 2
  endif()
  if(NOT arg_CORES)
    set(arg_CORES 1)
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  if(NOT arg_COST)
    set(arg_COST ${PACELINE_TEST_COST})
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    set(name ${target})
    if(arg_SHARDS GREATER 1)
      string(APPEND name "_${shard}")
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${PACELINE_TEST_PREFIX}${name} COMMAND ${target})
    set_tests_properties(${PACELINE_TEST_PREFIX}${name} PROPERTIES
      TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_CORES}
      ENVIRONMENT "${PACELINE_TEST_ENVIRONMENT};GTEST_OUTPUT=xml:${PACELINE_TEST_RESULTS}/${name}.xml;GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${index}")
    set_property(GLOBAL APPEND PROPERTY PACELINE_TEST_ENTRIES ${name})
    if(arg_CORES EQUAL 1)
      set_tests_properties(${PACELINE_TEST_PREFIX}${name} PROPERTIES COST ${arg_COST})
    endif()
  endforeach()
endfunction()

# paceline_checked_test(<target> ...): asan_<target>, the same objects with core as the sanitizers compile it. Core's objects
# come first, so that of a function that both have made (from a header) the checked one is linked. It lies in a folder of its
# own, beside which no plugin is found: they bring a core that is not checked.
function(paceline_checked_test target)
  add_executable(asan_${target} $<TARGET_OBJECTS:paceline_core_checked> $<TARGET_OBJECTS:${target}_objects>)
  set_target_properties(asan_${target} PROPERTIES
    LINKER_LANGUAGE CXX RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/asan/bin")
  target_link_options(asan_${target} PRIVATE -fsanitize=address,undefined)
  target_link_libraries(asan_${target} PRIVATE paceline_test_support GTest::gtest_main)
  paceline_test_entries(asan_${target} COST 2)
endfunction()

# paceline_without_threads(<variable> <file>...): the files that name nothing that makes threads ("threads" and "worlds" are
# words of comments and the name of a header; thread_local makes none, and world_size is also a field of what is stored).
function(paceline_without_threads variable)
  set(found)
  foreach(file IN LISTS ARGN)
    file(STRINGS "${file}" threads LIMIT_COUNT 1
         REGEX "[Tt]hread[^s_]|[Ww]orld[^s_]|run_ranks|[Rr]eactor|[Pp]rometheus|link_ends|mutex|atomic|async")
    if(NOT threads)
      list(APPEND found "${file}")
    endif()
  endforeach()
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

# paceline_floor_tests(<floor>): a test executable for each folder tests/<floor>/<room>.
function(paceline_floor_tests floor)
  paceline_folders(rooms "tests/${floor}")
  foreach(room IN LISTS rooms)
    paceline_glob(sources "tests/${floor}/${room}/*_test.cpp")
    if(PACELINE_SANITIZE MATCHES "thread")  # it finds nothing in code with one thread
      paceline_without_threads(single ${sources})
      list(REMOVE_ITEM sources ${single})
    endif()
    if(sources)
      set(checked)
      if(floor STREQUAL "core")
        set(checked CHECKED)
      endif()
      paceline_test(test_${floor}_${room} SOURCES ${sources} LIBRARIES paceline::${floor} ${checked})
      if(TARGET paceline_ucx)  # then links and jobs are tried over it
        add_dependencies(test_${floor}_${room} paceline_ucx)
      endif()
      if(floor STREQUAL "torch")
        paceline_torch_header(test_${floor}_${room})
        target_compile_options(test_${floor}_${room} PRIVATE -Wno-maybe-uninitialized)  # GCC guesses wrong in torch's templates at -Og
      endif()
    endif()
  endforeach()
endfunction()

# paceline_linear_tests(): one test executable for the floor linear, whose rooms are small, with the helpers beside its tests, and for
# examples/support, whose data its solvers are tried on.
function(paceline_linear_tests)
  paceline_glob(sources "tests/linear/*.cpp" "tests/examples/support/*.cpp" "examples/support/*.cpp")
  if(PACELINE_SANITIZE MATCHES "thread")
    paceline_without_threads(single ${sources})
    list(FILTER single INCLUDE REGEX "_test\\.cpp$")
    list(REMOVE_ITEM sources ${single})
  endif()
  paceline_test(test_linear SOURCES ${sources} LIBRARIES paceline::linear CHECKED)
  if(TARGET paceline_ucx)  # then jobs are tried over it
    add_dependencies(test_linear paceline_ucx)
  endif()
endfunction()

# paceline_cuda_tests(): tests/plugins/cuda, with a double of CUDA's driver.
function(paceline_cuda_tests)
  if(TARGET paceline_cuda_devices)
    paceline_glob(sources "tests/plugins/cuda/*.cpp")
    paceline_test(test_plugins_cuda SOURCES ${sources} LIBRARIES paceline_cuda_devices)
  endif()
endfunction()

# paceline_device_tests(): tests/devices, whose double of CUDA's devices every test of the executable would see.
function(paceline_device_tests)
  paceline_glob(sources "tests/devices/*.cpp")
  if(sources AND PACELINE_WITH_TORCH)
    paceline_test(test_devices SOURCES ${sources} LIBRARIES paceline::torch)
    paceline_torch_header(test_devices)
    target_compile_options(test_devices PRIVATE -Wno-maybe-uninitialized)
  endif()
endfunction()

# paceline_nccl_tests(): tests/plugins/nccl, with doubles of CUDA and NCCL.
function(paceline_nccl_tests)
  if(TARGET paceline_nccl_engine)
    paceline_glob(sources "tests/plugins/nccl/*.cpp")
    paceline_test(test_plugins_nccl SOURCES ${sources} LIBRARIES paceline_nccl_engine)
    set_target_properties(test_plugins_nccl PROPERTIES UNITY_BUILD OFF)  # the doubles define types that are opaque to other files
  endif()
endfunction()

# paceline_helpers(<folder> <library>): one program for each file in the folder.
function(paceline_helpers folder library)
  paceline_glob(sources "${folder}/*.cpp")
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    add_executable(${name} "${source}")
    target_link_libraries(${name} PRIVATE ${library} nlohmann_json::nlohmann_json)
    target_compile_options(${name} PRIVATE ${PACELINE_TEST_OPTIONS})
    if(library STREQUAL "paceline::torch")
      paceline_torch_header(${name})
    endif()
    set_property(GLOBAL APPEND PROPERTY PACELINE_STARTED_BY_TESTS ${name})
  endforeach()
endfunction()

# paceline_mpi_helpers(): tests/processes/mpi_programs/<name>.cpp -> <name>_<library> for each MPI library that is there.
function(paceline_mpi_helpers)
  paceline_glob(sources "tests/processes/mpi_programs/*.cpp")
  foreach(library IN LISTS PACELINE_MPI_LIBRARIES)
    foreach(source IN LISTS sources)
      get_filename_component(name "${source}" NAME_WE)
      add_executable(${name}_${library} "${source}")
      target_link_libraries(${name}_${library} PRIVATE paceline_test_support paceline_${library})
      set_property(GLOBAL APPEND PROPERTY PACELINE_STARTED_BY_TESTS ${name}_${library})
    endforeach()
  endforeach()
endfunction()

# paceline_process_tests(): tests that start real processes: the command, helper programs, examples.
function(paceline_process_tests)
  paceline_helpers(tests/processes/programs paceline_test_support)
  paceline_mpi_helpers()
  if(PACELINE_WITH_TORCH)
    paceline_helpers(tests/processes/torch_programs paceline::torch)
  endif()
  paceline_glob(sources "tests/processes/*_test.cpp")
  if(sources)
    paceline_test(test_processes SOURCES ${sources} LIBRARIES paceline::app SHARDS 8)
    get_property(started GLOBAL PROPERTY PACELINE_STARTED_BY_TESTS)
    if(TARGET paceline)
      list(APPEND started paceline)
    endif()
    if(started)
      add_dependencies(test_processes ${started})
    endif()
    if(PACELINE_WITH_TORCH)
      target_compile_definitions(test_processes PRIVATE PACELINE_WITH_TORCH=1)
    endif()
  endif()
endfunction()

# paceline_net_tests(): jobs over several hosts (network namespaces), and by other launchers. One at a time: they share ports.
function(paceline_net_tests)
  paceline_glob(sources "tests/net/*_test.cpp")
  if(sources)
    paceline_test(test_net SOURCES ${sources} LIBRARIES paceline::app TIMEOUT 800 CORES 2)
    get_property(started GLOBAL PROPERTY PACELINE_STARTED_BY_TESTS)
    add_dependencies(test_net paceline ${started})
    if(PACELINE_WITH_TORCH)
      target_compile_definitions(test_net PRIVATE PACELINE_WITH_TORCH=1)
    endif()
  endif()
endfunction()

# paceline_house_tests(): rules about the code itself; see tests/house/house.py. They take a minute, most of it g++'s, and
# more than two on a slow machine that is busy.
function(paceline_house_tests)
  set(script "${CMAKE_CURRENT_SOURCE_DIR}/tests/house/house.py")
  if(EXISTS "${script}")
    add_test(NAME ${PACELINE_TEST_PREFIX}house
             COMMAND "${Python3_EXECUTABLE}" "${script}" "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_CURRENT_BINARY_DIR}")
    set_tests_properties(${PACELINE_TEST_PREFIX}house PROPERTIES TIMEOUT 400 COST ${PACELINE_TEST_COST})
  endif()
endfunction()

# paceline_skips_test(): runs when all tests of GoogleTest have; fails where one was skipped that may not be.
function(paceline_skips_test)
  get_property(entries GLOBAL PROPERTY PACELINE_TEST_ENTRIES)
  list(JOIN entries "\n" lines)
  file(WRITE "${PACELINE_TEST_RESULTS}/tests" "${lines}\n")
  list(TRANSFORM entries PREPEND "${PACELINE_TEST_PREFIX}")
  add_test(NAME ${PACELINE_TEST_PREFIX}skips
           COMMAND "${Python3_EXECUTABLE}" -B "${CMAKE_CURRENT_SOURCE_DIR}/tests/skips.py" --check "${PACELINE_TEST_RESULTS}")
  set_tests_properties(${PACELINE_TEST_PREFIX}skips PROPERTIES TIMEOUT 60 DEPENDS "${entries}")
endfunction()

# paceline_reader_tests(): tests/readers/<name>_test.py -> <name>, run by the .venv that holds the readers.
function(paceline_reader_tests)
  foreach(name readers manifests)
    add_test(NAME ${PACELINE_TEST_PREFIX}${name}
             COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin/python" -B "${CMAKE_CURRENT_SOURCE_DIR}/tests/readers/${name}_test.py"
                     "${CMAKE_CURRENT_BINARY_DIR}/bin")
    set_tests_properties(${PACELINE_TEST_PREFIX}${name} PROPERTIES TIMEOUT 300 PROCESSORS 2)
  endforeach()
endfunction()

# paceline_package_tests(): see tests/package/package_test and new_files.py.
function(paceline_package_tests)
  add_test(NAME ${PACELINE_TEST_PREFIX}package
           COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/tests/package/package_test" "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_CURRENT_BINARY_DIR}")
  set_tests_properties(${PACELINE_TEST_PREFIX}package PROPERTIES TIMEOUT 600 COST ${PACELINE_TEST_COST})
  if(PACELINE_WITH_TORCH)
    add_test(NAME ${PACELINE_TEST_PREFIX}new_files
             COMMAND "${Python3_EXECUTABLE}" -B "${CMAKE_CURRENT_SOURCE_DIR}/tests/package/new_files.py" "${CMAKE_CURRENT_SOURCE_DIR}")
    set_tests_properties(${PACELINE_TEST_PREFIX}new_files PROPERTIES TIMEOUT 300)
  endif()
endfunction()
