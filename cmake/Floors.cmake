# The floors as targets. A floor is the folder paceline/<floor>; every .cpp in it belongs to its library.

# paceline_glob(<variable> <pattern>...): the matching files in every folder below, sorted; looks again at each build.
function(paceline_glob variable)
  set(found)
  foreach(pattern IN LISTS ARGN)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${pattern}")
    list(APPEND found ${files})
  endforeach()
  list(SORT found)
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

# paceline_folders(<variable> <folder>): the names of the folders in <folder>, sorted.
function(paceline_folders variable folder)
  file(GLOB entries CONFIGURE_DEPENDS LIST_DIRECTORIES true RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}/${folder}"
       "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*")
  set(found)
  foreach(entry IN LISTS entries)
    if(IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${entry}")
      list(APPEND found ${entry})
    endif()
  endforeach()
  list(SORT found)
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

# An empty source, so that a floor whose folder is still empty is a target all the same.
set(PACELINE_EMPTY_SOURCE "${CMAKE_CURRENT_BINARY_DIR}/generated/empty.cpp")
if(NOT EXISTS "${PACELINE_EMPTY_SOURCE}")
  file(WRITE "${PACELINE_EMPTY_SOURCE}" "// Generated: nothing is in here.\n")
endif()

# paceline_batches(<target> <size>): up to so many of its files are compiled as one, because reading headers and making the same
# templates is half of a file's compilation, and most of it where torch is. So the files of a room share no private name
# (tests/house/unity.py). scripts/nightly compiles each file by itself, which shows forgotten includes.
function(paceline_batches target size)
  if(PACELINE_BATCHES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
  endif()
endfunction()

# paceline_floor(core|linear|torch|app): the library paceline_<floor>, also called paceline::<floor>.
function(paceline_floor floor)
  paceline_glob(sources "paceline/${floor}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "paceline/app/cli/main\\.cpp$")
  set(target paceline_${floor})
  set(loops_of_torch "/(optimizers/norms|bridge/digest|tensor/dropout|strategy/rules/(gradient_rows|sorted_columns))\\.cpp$")
  if(floor STREQUAL "torch")
    list(FILTER sources EXCLUDE REGEX "${loops_of_torch}")
  endif()
  if(NOT sources)
    set(sources "${PACELINE_EMPTY_SOURCE}")
  endif()
  add_library(${target} STATIC ${sources})
  add_library(paceline::${floor} ALIAS ${target})
  target_compile_features(${target} PUBLIC cxx_std_20)  # so that a project that links with it need not say so
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_CURRENT_BINARY_DIR}/generated>)

  if(floor STREQUAL "core")
    paceline_libraries_of_core(${target})
    paceline_batches_of_core(${target} ${sources})
  elseif(floor STREQUAL "linear")
    target_link_libraries(${target} PUBLIC paceline::core)
    target_precompile_headers(${target} REUSE_FROM paceline_core)
    paceline_batches(${target} 16)
  elseif(floor STREQUAL "torch")
    target_link_libraries(${target} PUBLIC paceline::core torch::cpu torch::c10 PRIVATE ZLIB::ZLIB)
    paceline_torch_header(${target})
    # A file that reads torch's header, even precompiled, makes the templates of its inline functions: 8 s, whatever else is
    # in it. What is left is mostly torch's templates too, a third faster to compile at -O1; loops over elements keep -O3.
    paceline_batches(${target} 24)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    paceline_glob(loops "paceline/torch/*.cpp")
    list(FILTER loops INCLUDE REGEX "${loops_of_torch}")
    paceline_torch_loops(${target} ${loops})
  elseif(floor STREQUAL "app")
    target_link_libraries(${target} PUBLIC paceline::core CLI11::CLI11 nlohmann_json::nlohmann_json ${PACELINE_HWLOC_LIBRARY})
    target_include_directories(${target} SYSTEM PUBLIC ${PACELINE_HWLOC_INCLUDE})
    # The command parses, starts and prints: the fast code is in core, and what is measured beside it in app/measure. A
    # precompiled CLI11 would not help, because each file compiles half of it anyway: so the precompiled header is core's.
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    paceline_glob(measuring "paceline/app/measure/yardstick.cpp" "paceline/app/measure/pattern.cpp")
    set_source_files_properties(${measuring} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
    target_precompile_headers(${target} REUSE_FROM paceline_core)
    paceline_batches(${target} 12)
  endif()
endfunction()

# paceline_device(): where this torch has CUDA, the target paceline::device, the floor torch for programs that train on its
# devices. With PACELINE_WITH_CUDA examples and the programs that stand beside them link it: then they start only where all
# that libtorch_cuda needs is.
function(paceline_device)
  set(floor paceline_torch)
  if(TARGET torch::cuda)
    add_library(paceline_device INTERFACE)
    add_library(paceline::device ALIAS paceline_device)
    target_link_libraries(paceline_device INTERFACE paceline_torch torch::cuda)
  elseif(PACELINE_WITH_CUDA)
    message(FATAL_ERROR "paceline: PACELINE_WITH_CUDA needs a torch with CUDA, and ${PACELINE_TORCH_DIR} lacks lib/libtorch_cuda.so. Name one "
                        "by -DCMAKE_PREFIX_PATH=/path/to/libtorch or -DPACELINE_TORCH_PYTHON=...")
  endif()
  if(PACELINE_WITH_CUDA)
    set(floor paceline_device)
  endif()
  set(PACELINE_TRAINING_FLOOR ${floor} PARENT_SCOPE)
endfunction()

# paceline_torch_loops(<target> <file>...): gives the target files that are loops over elements, at the full level of
# optimisation: as a target of their own, because an option of a single file would keep it out of the batches.
function(paceline_torch_loops target)
  add_library(${target}_loops OBJECT ${ARGN})
  target_link_libraries(${target}_loops PRIVATE paceline::core torch::cpu torch::c10)
  paceline_torch_header(${target}_loops)
  paceline_batches(${target}_loops 8)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_loops>)
endfunction()

# paceline_libraries_of_core(<target>): what core links, and the headers that most of its files include: reading them is a
# third of their compilation.
function(paceline_libraries_of_core target)
  target_link_libraries(${target} PUBLIC fmt::fmt Threads::Threads ${CMAKE_DL_LIBS}
                                  PRIVATE OpenSSL::Crypto prometheus-cpp::pull paceline_hwy $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
  target_precompile_headers(${target} PRIVATE
    <algorithm> <chrono> <functional> <map> <memory> <mutex> <optional> <span> <string> <string_view> <vector> <fmt/format.h>)
endfunction()

# paceline_checked_core(): core and linear a second time, as the address and undefined-behaviour sanitizers compile them. With
# them PACELINE_CHECKED_TESTS links the objects of their tests once more (cmake/Tests.cmake).
function(paceline_checked_core)
  get_target_property(sources paceline_core SOURCES)
  get_target_property(linear paceline_linear SOURCES)
  add_library(paceline_core_checked OBJECT ${sources} ${linear})
  target_include_directories(paceline_core_checked PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_CURRENT_BINARY_DIR}/generated")
  target_compile_options(paceline_core_checked PRIVATE
    -O1 -UNDEBUG -fsanitize=address,undefined ${PACELINE_SANITIZER_OPTIONS} ${PACELINE_UNDEFINED_OPTIONS})
  target_link_options(paceline_core_checked INTERFACE -fsanitize=address,undefined)
  paceline_libraries_of_core(paceline_core_checked)
  paceline_batches(paceline_core_checked 16)
endfunction()

# paceline_batches_of_core(<target> <file>...): two kinds of files stay by themselves: a catalogue's entries, which all have
# the same names, and those that Highway compiles once for each instruction set.
function(paceline_batches_of_core target)
  paceline_batches(${target} 16)
  foreach(file IN LISTS ARGN)
    file(STRINGS "${file}" highway LIMIT_COUNT 1 REGEX "HWY_TARGET_INCLUDE")
    if(highway OR file MATCHES "/(algorithms|graphs|methods|policies)/")
      set_source_files_properties("${file}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# paceline_torch_header(<target>): the target reads <torch/torch.h> (13-17 s for each file) from one precompiled copy
# that all torch-facing targets share. They must agree in code generation flags: see Compiler.cmake.
function(paceline_torch_header target)
  if(NOT TARGET paceline_torch_pch)
    add_library(paceline_torch_pch STATIC "${PACELINE_EMPTY_SOURCE}")
    target_link_libraries(paceline_torch_pch PRIVATE torch::cpu fmt::fmt Threads::Threads)
    target_precompile_headers(paceline_torch_pch PRIVATE <torch/torch.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM paceline_torch_pch)
endfunction()

# paceline_command(): the executable `paceline`. It links core and app, never torch.
function(paceline_command)
  paceline_glob(main "paceline/app/cli/main.cpp")
  if(main)
    add_executable(paceline ${main})
    target_link_libraries(paceline PRIVATE paceline::app)
  endif()
endfunction()
