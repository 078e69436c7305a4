# Plugins: engines (core/collective/engine/engine.h) and fabrics (core/transport/fabric/fabric.h) as shared objects, so that core links
# none of their libraries. Each is built where its library's headers are found (scripts/setup installs UCX's, with
# --launchers also MPI's), and lies in lib/paceline.
find_package(PkgConfig QUIET)
set(PACELINE_PLUGIN_FOLDER "${CMAKE_CURRENT_BINARY_DIR}/lib/paceline")
set(PACELINE_MPI_LIBRARIES "" CACHE INTERNAL "MPI libraries that a plugin is built for")
set(PACELINE_UCX_VERSION "" CACHE INTERNAL "UCX's version that the plugin is built for; empty: none")

# paceline_plugin(<target> <library> <source>...): the shared object of an engine.
function(paceline_plugin target library)
  add_library(${target} MODULE ${ARGN})
  # Core's copy in the plugin stays its own: its symbols must not meet those of the program.
  target_link_libraries(${target} PRIVATE paceline::core ${library})
  target_link_options(${target} PRIVATE LINKER:--exclude-libs,ALL LINKER:--as-needed)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PACELINE_PLUGIN_FOLDER}"
                        CXX_VISIBILITY_PRESET hidden)
  set_property(GLOBAL APPEND PROPERTY PACELINE_STARTED_BY_TESTS ${target})
endfunction()

# paceline_mpi_library(<name> <module of pkg-config> <file>): the target paceline_mpi_<name>, the plugin, and
# paceline_<name>, what a program of that MPI links.
function(paceline_mpi_library name module file)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(PACELINE_PC_${name} QUIET ${module})
  endif()
  set(library ${PACELINE_PC_${name}_LINK_LIBRARIES})
  list(FILTER library INCLUDE REGEX "/${file}$")
  if(NOT library)
    return()
  endif()
  add_library(paceline_${name} INTERFACE)
  target_include_directories(paceline_${name} SYSTEM INTERFACE ${PACELINE_PC_${name}_INCLUDE_DIRS})
  target_compile_definitions(paceline_${name} INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_link_libraries(paceline_${name} INTERFACE ${library})

  paceline_glob(sources "paceline/plugins/mpi/*.cpp")
  paceline_plugin(paceline_mpi_${name} paceline_${name} ${sources})
  set(PACELINE_MPI_LIBRARIES ${PACELINE_MPI_LIBRARIES} ${name} CACHE INTERNAL "")
endfunction()

# NCCL's plugin needs CUDA's headers alone: those of .venv (scripts/setup) or of a toolkit. libcudart and libnccl are
# looked for when a job asks for them, in these folders and by the dynamic linker.
set(PACELINE_WITH_NCCL AUTO CACHE STRING "Build the plugin of NCCL: AUTO (where CUDA's headers are), ON, OFF")
file(GLOB PACELINE_NVIDIA_FOLDERS "${CMAKE_CURRENT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/*")
list(TRANSFORM PACELINE_NVIDIA_FOLDERS APPEND /include OUTPUT_VARIABLE nvidia_includes)
find_path(PACELINE_CUDA_INCLUDE crt/host_defines.h  # the wheel of the runtime lacks it
          HINTS ${nvidia_includes} ENV CUDA_HOME PATH_SUFFIXES include PATHS /usr/local/cuda/include)
mark_as_advanced(PACELINE_CUDA_INCLUDE)

# paceline_plugin_library(<target> <folder>): the library of a plugin that needs CUDA's headers, without the file that core loads.
function(paceline_plugin_library target folder)
  paceline_glob(sources "paceline/plugins/${folder}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "/plugin\\.cpp$")
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} SYSTEM PUBLIC "${PACELINE_CUDA_INCLUDE}")
  target_link_libraries(${target} PUBLIC paceline::core)
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden)
endfunction()

# paceline_nccl(): the targets paceline_nccl, the plugin, and paceline_nccl_engine, the library that it is made of.
function(paceline_nccl)
  if(NOT PACELINE_WITH_NCCL)
    return()
  endif()
  if(NOT PACELINE_CUDA_INCLUDE OR NOT EXISTS "${PACELINE_CUDA_INCLUDE}/cuda_runtime_api.h")
    if(NOT PACELINE_WITH_NCCL STREQUAL AUTO)
      message(FATAL_ERROR "paceline: CUDA's headers were not found. Run scripts/setup, or name their folder: -DPACELINE_CUDA_INCLUDE=DIR")
    endif()
    return()
  endif()
  paceline_plugin_library(paceline_nccl_engine nccl)
  if(PACELINE_SANITIZER_UNIT_TESTS_ONLY)
    return()
  endif()
  list(TRANSFORM PACELINE_NVIDIA_FOLDERS APPEND /lib OUTPUT_VARIABLE folders)
  paceline_plugin(paceline_nccl paceline_nccl_engine "${CMAKE_CURRENT_SOURCE_DIR}/paceline/plugins/nccl/plugin.cpp")
  set_target_properties(paceline_nccl PROPERTIES BUILD_RPATH "${folders};${PACELINE_CUDA_INCLUDE}/../lib")
endfunction()

# paceline_cuda(): the targets paceline_cuda, the plugin that knows CUDA devices, and paceline_cuda_devices, the library
# that it is made of. It needs cuda.h, which stands beside the headers of the runtime.
function(paceline_cuda)
  if(NOT TARGET paceline_nccl_engine OR NOT EXISTS "${PACELINE_CUDA_INCLUDE}/cuda.h")
    return()
  endif()
  paceline_plugin_library(paceline_cuda_devices cuda)
  # The kernels, as the text of a C++ string.
  set(kernels "${CMAKE_CURRENT_SOURCE_DIR}/paceline/plugins/cuda/kernels.ptx")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${kernels}")
  file(READ "${kernels}" text)
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/cuda_kernels")
  file(CONFIGURE OUTPUT "${generated}/paceline/plugins/cuda/kernels_text.h"
       CONTENT "#pragma once\n\nconstexpr char kKernelsText[] = R\"ptx(@text@)ptx\";\n" @ONLY)
  target_include_directories(paceline_cuda_devices PRIVATE "${generated}")
  if(NOT PACELINE_SANITIZER_UNIT_TESTS_ONLY)
    paceline_plugin(paceline_cuda paceline_cuda_devices "${CMAKE_CURRENT_SOURCE_DIR}/paceline/plugins/cuda/plugin.cpp")
  endif()
endfunction()

# paceline_ucx(): the target paceline_ucx, the plugin.
function(paceline_ucx)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(PACELINE_PC_ucx QUIET ucx>=1.12)
  endif()
  if(NOT PACELINE_PC_ucx_FOUND)
    message(STATUS "Paceline is built without UCX: --transport ucx will tell so (scripts/setup, or: apt-get install libucx-dev)")
    return()
  endif()
  add_library(paceline_ucp INTERFACE)
  target_include_directories(paceline_ucp SYSTEM INTERFACE ${PACELINE_PC_ucx_INCLUDE_DIRS})
  target_link_libraries(paceline_ucp INTERFACE ${PACELINE_PC_ucx_LINK_LIBRARIES})
  paceline_glob(sources "paceline/plugins/ucx/*.cpp")
  paceline_plugin(paceline_ucx paceline_ucp ${sources})
  set(PACELINE_UCX_VERSION ${PACELINE_PC_ucx_VERSION} CACHE INTERNAL "")
endfunction()

function(paceline_plugins)
  paceline_mpi_library(openmpi ompi-c "libmpi\\.so")
  paceline_mpi_library(mpich mpich "libmpich\\.so")
  paceline_ucx()
endfunction()
