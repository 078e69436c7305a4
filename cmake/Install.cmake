# The files that `cmake --install` installs, and the packages that `cpack` makes of them.
#
#   bin/paceline                     the command
#   include/paceline/*.h             the API: paceline.h, server.h, linear.h and, with torch, train.h
#   include/paceline/.../            what these include; it may change between versions
#   lib/paceline/                    plugins, with --component engines
#   lib/libpaceline_<floor>.a        static: core, linear and torch; a Python extension or a program takes what it needs
#   lib/cmake/paceline/              find_package(paceline COMPONENTS core linear torch)
#   lib/pkgconfig/paceline-*.pc      core, and linear, for builds without CMake
#   share/doc/paceline/          README.md, docs/ and examples/, beside each other as here so that links work
#   share/man, share/bash-completion, share/zsh, share/fish
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/paceline")

set(floors core linear)
set(faces paceline/paceline.h paceline/server.h paceline/linear.h)
if(PACELINE_WITH_TORCH)
  list(APPEND floors torch)
  list(APPEND faces paceline/train.h)
endif()
install(FILES ${faces} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/paceline")
foreach(floor IN LISTS floors)
  set_target_properties(paceline_${floor} PROPERTIES EXPORT_NAME ${floor})
  target_include_directories(paceline_${floor} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS paceline_${floor} EXPORT paceline_${floor} ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT paceline_${floor} NAMESPACE paceline:: DESTINATION "${package_folder}")
  install(DIRECTORY paceline/${floor} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/paceline" FILES_MATCHING PATTERN "*.h")
endforeach()
install(TARGETS paceline_hwy EXPORT paceline_core)
# Plugins are installed only when asked for (--component engines): else packages would depend on every library of the build.
install(DIRECTORY paceline/plugins/mpi DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/paceline/plugins" FILES_MATCHING PATTERN "mpi.h")
foreach(library IN LISTS PACELINE_MPI_LIBRARIES)
  list(APPEND plugins paceline_mpi_${library})
endforeach()
if(PACELINE_UCX_VERSION)
  list(APPEND plugins paceline_ucx)
endif()
foreach(plugin IN LISTS plugins)
  install(TARGETS ${plugin} LIBRARY DESTINATION lib/paceline COMPONENT engines EXCLUDE_FROM_ALL)
endforeach()
if(TARGET paceline_cuda)
  install(TARGETS paceline_cuda LIBRARY DESTINATION lib/paceline COMPONENT engines EXCLUDE_FROM_ALL)
endif()
if(TARGET paceline_nccl)
  install(TARGETS paceline_nccl LIBRARY DESTINATION lib/paceline COMPONENT engines EXCLUDE_FROM_ALL)
  install(FILES paceline/plugins/nccl/nccl.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/paceline/plugins/nccl")
endif()
install(TARGETS paceline RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")

# Man pages and completions come from the command's own options; gzip -n keeps builds the same.
set(manual_folder "${CMAKE_CURRENT_BINARY_DIR}/manual")
add_custom_command(
  OUTPUT "${manual_folder}/done"
  COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/cmake/package/manual" $<TARGET_FILE:paceline> "${manual_folder}"
  DEPENDS paceline cmake/package/manual VERBATIM)
add_custom_target(paceline_manual ALL DEPENDS "${manual_folder}/done")
install(DIRECTORY "${manual_folder}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}")
install(FILES "${manual_folder}/paceline.bash" RENAME paceline DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${manual_folder}/paceline.zsh" RENAME _paceline DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
install(FILES "${manual_folder}/paceline.fish" DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")

# The torch floor works with one minor version of torch: its C++ interface changes between them.
if(PACELINE_WITH_TORCH)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" PACELINE_TORCH_MINOR "${PACELINE_TORCH_VERSION}")
  install(FILES cmake/Torch.cmake DESTINATION "${package_folder}")
endif()
configure_package_config_file(cmake/package/pacelineConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/package/pacelineConfig.cmake"
                              INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/package/pacelineConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)  # before 1.0 a minor version may break
foreach(floor core linear)
  configure_file(cmake/package/paceline-${floor}.pc.in "${CMAKE_CURRENT_BINARY_DIR}/package/paceline-${floor}.pc" @ONLY)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/package/paceline-${floor}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/package/pacelineConfig.cmake"
              "${CMAKE_CURRENT_BINARY_DIR}/package/pacelineConfigVersion.cmake" DESTINATION "${package_folder}")
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs examples DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES cmake/package/examples.cmake RENAME CMakeLists.txt DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples")

set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_PACKAGE_NAME paceline)
set(CPACK_PACKAGE_VENDOR "The Paceline engineers")
set(CPACK_PACKAGE_CONTACT "The Paceline engineers <paceline@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE "${CMAKE_CURRENT_SOURCE_DIR}/LICENSE")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES TRUE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS TRUE)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libfmt-dev, libssl-dev, libhwy-dev, prometheus-cpp-dev, zlib1g-dev")  # to build against the libraries
include(CPack)
