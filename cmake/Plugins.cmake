# Plugins: engines (core/collective/engine.h) as shared objects, so that core links none of their libraries.
# Each is built where its library's headers are found (scripts/setup --launchers installs them), and lies in lib/paceline.
find_package(PkgConfig QUIET)
set(PACELINE_PLUGIN_FOLDER "${CMAKE_CURRENT_BINARY_DIR}/lib/paceline")
set(PACELINE_MPI_LIBRARIES "" CACHE INTERNAL "MPI libraries that a plugin is built for")

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
  add_library(paceline_mpi_${name} MODULE ${sources})
  # Core's copy in the plugin stays its own: its symbols must not meet those of the program.
  target_link_libraries(paceline_mpi_${name} PRIVATE paceline::core paceline_${name})
  target_link_options(paceline_mpi_${name} PRIVATE LINKER:--exclude-libs,ALL LINKER:--as-needed)
  set_target_properties(paceline_mpi_${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${PACELINE_PLUGIN_FOLDER}"
                        CXX_VISIBILITY_PRESET hidden)
  set(PACELINE_MPI_LIBRARIES ${PACELINE_MPI_LIBRARIES} ${name} CACHE INTERNAL "")
  set_property(GLOBAL APPEND PROPERTY PACELINE_STARTED_BY_TESTS paceline_mpi_${name})
endfunction()

function(paceline_plugins)
  paceline_mpi_library(openmpi ompi-c "libmpi\\.so")
  paceline_mpi_library(mpich mpich "libmpich\\.so")
endfunction()
